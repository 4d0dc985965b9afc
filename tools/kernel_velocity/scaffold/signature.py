"""The arguments of a kernel that is to be written, under names that C++ and Python can have."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kernel_velocity.errors import UsageError


class CType(NamedTuple):
    """An element type: torch's name, its names in C++ and CUDA, of ctypes, and the header of CUDA's."""

    dtype: str
    cpp: str
    cuda: str
    ctypes: str
    header: str = ""


# C++17 has no floating-point type of 16 or 8 bits: the CPU gets the bits.
_HALF = CType("float16", "uint16_t", "__half", "c_uint16", "cuda_fp16.h")
_FLOAT8 = CType("float8_e4m3fn", "uint8_t", "__nv_fp8_e4m3", "c_uint8", "cuda_fp8.h")
_INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
# Tensors of unsigned integers may be of the signed type.
TYPES = {
    "float": CType("float32", "float", "float", "c_float"),
    "double": CType("float64", "double", "double", "c_double"),
    **dict.fromkeys(("float16", "half"), _HALF),
    "bfloat16": CType("bfloat16", "uint16_t", "__nv_bfloat16", "c_uint16", "cuda_bf16.h"),
    **dict.fromkeys(("float8", "float8_e4m3", "float8_e4m3fn"), _FLOAT8),
    "float8_e5m2": CType("float8_e5m2", "uint8_t", "__nv_fp8_e5m2", "c_uint8", "cuda_fp8.h"),
    "float4": CType("uint8", "uint8_t", "uint8_t", "c_uint8"),
    "bool": CType("bool", "bool", "bool", "c_bool"),
    "char": CType("int8", "char", "char", "c_int8"),
    "int": CType("int32", "int", "int", "c_int"),
    **{f"{dtype}_t": CType(dtype, f"{dtype}_t", f"{dtype}_t", f"c_{dtype}") for dtype in _INTEGERS},
    "size_t": CType("int64", "size_t", "size_t", "c_size_t"),
}
# Dtypes of the same bits: what a tensor may have beside its own.
_ALIKE = {"bool": ("uint8", "int8"), "float8_e4m3fn": ("uint8",), "float8_e5m2": ("uint8",)}
_ALIKE |= {dtype: (dtype[1:] if dtype[0] == "u" else f"u{dtype}",) for dtype in _INTEGERS}
# What the generated C++ and, for what a caller gives, the generated Python call something else.
_RESERVED = {"threads", "device", "stream", "begin", "end", "i", "elements", "step", "queue", "solution"}
_TAKEN_BY_PYTHON = {
    *re.findall(
        r"\w+", "inputs output shape ctypes read out call got bind torch kv dtype expected empty verify problem"
    ),
    *re.findall(r"\w+", "tensor tensors values require_same_device require_shape annotations"),
    "raise_for_status",
}
# C++ keywords that Python has not, and macros and types that the headers bring.
_CPP = frozenset(
    re.findall(
        r"\w+",
        """
    alignas alignof auto bool case catch char const constexpr const_cast decltype default delete do double
    dynamic_cast enum explicit export extern false float friend goto inline int long mutable namespace new noexcept
    nullptr operator private protected public register reinterpret_cast short signed sizeof static static_assert
    static_cast struct switch template this thread_local throw true typedef typeid typename union unsigned using
    virtual void volatile wchar_t NULL unix linux size_t threadIdx blockIdx blockDim gridDim kv
    """,
    )
)


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One argument of a kernel: a key of TYPES, a pointer or not, written to or not."""

    name: str  # in C
    called: str  # in Python
    type: str
    pointer: bool
    output: bool = False

    @property
    def kind(self) -> str:
        """Return its type in Python."""
        return "TensorLike" if self.pointer else "float" if self.type in ("float", "double") else "int"

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Return the dtypes that its tensor may have: unsigned integers are signed ones in some definitions."""
        dtype = TYPES[self.type].dtype
        return (dtype, *_ALIKE.get(dtype, ()))


def of_problem(where: str, parameters: Sequence[Mapping[str, Any]]) -> list[Argument]:
    """Return the arguments that a public problem's solution takes, under names that C++ and Python can have.

    In Python they are in lower case, none of Python's own or ours, and none comes twice.

    Raises:
        UsageError: one is of a C type that is not known. The message begins with `where`.
    """
    arguments: list[Argument] = []
    for entry in parameters:
        if entry["type"] not in TYPES:
            raise UsageError(f"{where}: {entry['name']!r} is of type {entry['type']!r}; there are {', '.join(TYPES)}")
        name = re.sub(r"\W", "_", entry["name"], flags=re.ASCII).strip("_")
        name = name if name[:1].isalpha() else f"x{name}"
        name = f"{name}_" if name in _CPP | _RESERVED or name in TYPES else name
        while name in (argument.name for argument in arguments):
            name += "2"
        called = name.lower()
        for reserved in ({*keyword.kwlist, *vars(builtins)}, _RESERVED | _TAKEN_BY_PYTHON):
            called = f"{called}_" if called in reserved else called
        while called in (argument.called for argument in arguments):
            called += "2"
        pointer = bool(entry["pointer"])
        output = pointer and not entry["const"]
        arguments.append(Argument(name=name, called=called, type=entry["type"], pointer=pointer, output=output))
    return arguments
