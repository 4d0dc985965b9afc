"""Read the C function behind a bound call: its library, its signature, and the memory that it gets.

A call is bound as a `functools.partial` of a function of ctypes on values of ctypes. Its pointers are found again among
the inputs and outputs.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LINE = 64  # bytes of a line of the caches, at whose multiples PyTorch's memory begins, too
_C_NAMES = {
    **{"b": "signed char", "B": "unsigned char", "?": "_Bool", "h": "short", "H": "unsigned short", "i": "int"},
    **{"I": "unsigned int", "l": "long", "L": "unsigned long", "q": "long long", "Q": "unsigned long long"},
    **{"f": "float", "d": "double"},
}
_FLOATS = ("f", "d")
_FUNCTION: Any = type(ctypes.CDLL(None).dladdr).__base__  # of every function of a library


class NotCountedError(NotImplementedError):
    """A call that cannot be counted here: n/a. The message says why, in one line."""


class _DlInfo(ctypes.Structure):
    """Where an address lies: Dl_info of dladdr(3)."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


@dataclass(frozen=True)
class CCall:
    """A call of a C function on fixed arguments."""

    library: Path
    symbol: str
    result: str  # in C: "int", of a status, or "void"
    arguments: tuple[tuple[str, str], ...]  # type and value in C. A pointer is `memory + offset`
    memory: bytes  # of all inputs and outputs, each at a multiple of LINE; outputs are 0


def read(call: Any, inputs: Iterable[Any], outputs: Iterable[Any]) -> CCall:
    """Return the C function that a bound call calls.

    Args:
        call: a `functools.partial` of a function of ctypes.
        inputs, outputs: tensors on the CPU, and other values, among which its pointers point.

    Raises:
        NotCountedError: it is no such call, or a pointer points elsewhere.
    """
    function = getattr(call, "func", None)
    if not isinstance(call, functools.partial) or not isinstance(function, _FUNCTION) or call.keywords:
        raise NotCountedError(
            "only C functions are counted: wanted kv.native(...), or a module whose bind returns "
            f"functools.partial(function of ctypes, *values of ctypes) (got {_kind(call)})"
        )
    library, symbol = _library_and_name(function)
    memory, offsets = _memory(inputs, outputs)
    arguments = tuple(_argument(symbol, number, value, offsets) for number, value in enumerate(call.args, 1))
    return CCall(library, symbol, "void" if function.restype is None else "int", arguments, memory)


def _kind(call: object) -> str:
    return getattr(call, "__qualname__", type(call).__name__)


def _library_and_name(function: Any) -> tuple[Path, str]:
    """Return the library and the name of a function.

    Raises:
        NotCountedError: it has none, because it is no exported function of a library.
    """
    address, info = ctypes.cast(function, ctypes.c_void_p), _DlInfo()
    dladdr = ctypes.CDLL(None).dladdr
    dladdr.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    is_known, name = dladdr(address, ctypes.byref(info)), vars(function).get("__name__")
    if not (is_known and isinstance(name, str)):
        raise NotCountedError(f"only exported functions of libraries are counted (got one at {address.value or 0:#x})")
    return Path(info.file.decode()).absolute(), name


def _memory(inputs: Iterable[Any], outputs: Iterable[Any]) -> tuple[bytes, Mapping[range, int]]:
    """Return the contents of tensors, one behind the other, and where those of an address lie in them."""
    contents: dict[range, bytes | None] = {}
    for tensors, is_input in ((inputs, True), (outputs, False)):
        for tensor in tensors:
            if hasattr(tensor, "data_ptr"):
                begin, size = tensor.data_ptr(), tensor.nbytes
                contents.setdefault(range(begin, begin + size), ctypes.string_at(begin, size) if is_input else None)
    memory, offsets = bytearray(), {}
    for addresses, content in contents.items():
        offsets[addresses] = len(memory)
        memory += bytes(len(addresses)) if content is None else content
        memory += bytes(-len(memory) % LINE)
    return bytes(memory), offsets


def _argument(symbol: str, number: int, value: Any, offsets: Mapping[range, int]) -> tuple[str, str]:
    """Return the type and the value of an argument in C.

    Raises:
        NotCountedError: it is of another kind, or points elsewhere.
    """
    if isinstance(value, ctypes.c_void_p):
        if value.value is None:
            return "void *", "0"
        at = next((addresses for addresses in offsets if value.value in addresses), None)
        if at is None:
            raise NotCountedError(f"argument {number} of {symbol} points to memory that is no input and no output")
        return "void *", f"memory + {offsets[at] + value.value - at.start}"
    letter = getattr(value, "_type_", "") if isinstance(value, ctypes._SimpleCData) else ""
    if letter not in _C_NAMES:
        raise NotCountedError(f"argument {number} of {symbol} is no number and no pointer (got {_kind(value)})")
    return _C_NAMES[letter], _literal(letter, value.value)


def _literal(letter: str, value: Any) -> str:
    """Return a number in C, exactly."""
    if letter in _FLOATS:
        text = float(value).hex()
        return {"inf": "__builtin_inf()", "-inf": "-__builtin_inf()", "nan": '__builtin_nan("")'}.get(text, text)
    number = int.from_bytes(value, "little", signed=True) if isinstance(value, bytes) else int(value)
    return f"{number % 2**64:#x}ULL"  # converted to the argument's type, as C defines it
