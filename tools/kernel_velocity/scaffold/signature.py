"""The arguments of a kernel that is to be written: read from text or a Problem, checked, sorted into their kinds."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kernel_velocity.errors import UsageError

DEFAULT = "x:float*,out:float*!,n:size_t"
EXAMPLE = "a:float*,b:float*,out:float*!,n:size_t"
LONGEST = 24  # characters of a name: so that what is generated stays within its columns


@dataclass(frozen=True)
class CType:
    """An element type: torch's name, bytes, its names in C++ and CUDA, of ctypes, and the headers of CUDA's."""

    dtype: str
    size: int
    cpp: str
    cuda: str
    ctypes: str
    header: str = ""


TYPES = {
    "float": CType("float32", 4, "float", "float", "c_float"),
    "double": CType("float64", 8, "double", "double", "c_double"),
    # C++17 has neither: the CPU gets the 16 bits.
    "float16": CType("float16", 2, "uint16_t", "__half", "c_uint16", "cuda_fp16.h"),
    "bfloat16": CType("bfloat16", 2, "uint16_t", "__nv_bfloat16", "c_uint16", "cuda_bf16.h"),
    "int": CType("int32", 4, "int", "int", "c_int"),
    "int8_t": CType("int8", 1, "int8_t", "int8_t", "c_int8"),
    "uint8_t": CType("uint8", 1, "uint8_t", "uint8_t", "c_uint8"),
    "int32_t": CType("int32", 4, "int32_t", "int32_t", "c_int32"),
    "int64_t": CType("int64", 8, "int64_t", "int64_t", "c_int64"),
}
SIZE = "size_t"
_HALVES = ("float16", "bfloat16")
# What the generated C++ and, for what a caller gives, the generated Python call something else.
_TAKEN = {"threads", "device", "stream", "begin", "end", "i", "elements", "step", "queue", "solution"}
_TAKEN_BY_PYTHON = {
    *re.findall(r"\w+", "self inputs output shape count total ctypes read out call got bind torch math partial cases"),
    *re.findall(r"\w+", "tensors values new_like require_no_overlap require_same_device require_shape annotations"),
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


@dataclass(frozen=True)
class Parameter:
    """One argument in C: its name, its type (a key of TYPES, or size_t), a pointer or not, written to or not."""

    name: str
    type: str
    pointer: bool
    output: bool = False

    @property
    def python(self) -> str:
        """Return its name in Python: lower case, and none of Python's own."""
        name = self.name.lower()
        return f"{name}_" if keyword.iskeyword(name) or hasattr(builtins, name) else name


@dataclass(frozen=True)
class Signature:
    """The arguments of a kernel in order."""

    parameters: tuple[Parameter, ...]

    @property
    def inputs(self) -> tuple[Parameter, ...]:
        """Return the tensors that are read."""
        return tuple(param for param in self.parameters if param.pointer and not param.output)

    @property
    def output(self) -> Parameter:
        """Return the tensor that is written."""
        return next(param for param in self.parameters if param.output)

    @property
    def sizes(self) -> tuple[Parameter, ...]:
        """Return the extents of the tensors: every size_t, and the integers behind the last pointer."""
        last = max(index for index, param in enumerate(self.parameters) if param.pointer)
        return tuple(
            param
            for index, param in enumerate(self.parameters)
            if param.type == SIZE
            or (not param.pointer and index > last and param.type in ("int", "int32_t", "int64_t"))
        )

    @property
    def values(self) -> tuple[Parameter, ...]:
        """Return the numbers that a caller gives."""
        return tuple(param for param in self.parameters if not param.pointer and param not in self.sizes)

    @property
    def arguments(self) -> tuple[Parameter, ...]:
        """Return what a caller gives in Python, in order: tensors that are read, and numbers."""
        return tuple(param for param in self.parameters if param in self.inputs or param in self.values)


def parse(text: str) -> Signature:
    """Read "a:float*,out:float*!,n:size_t": names, C types, `*` for a pointer, `!` for what is written.

    Raises:
        UsageError: it cannot be read, or what it says cannot be a kernel.
    """
    parameters = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\w+)\s*:\s*(\w+)\s*(\*?)\s*(!?)\s*", part)
        if match is None:
            raise UsageError(f"--parameters: cannot read {part.strip()!r}; wanted name:type, such as {EXAMPLE}")
        name, kind, pointer, output = match.groups()
        parameters.append(Parameter(name, kind, bool(pointer), bool(output)))
    return _checked("--parameters", parameters)


def from_problem(where: str, parameters: Iterable[Mapping[str, Any]]) -> Signature:
    """Return the signature that a Problem's `parameters` say.

    Raises:
        UsageError: there are none, or they cannot be a kernel's. The message begins with `where`.
    """
    try:
        converted = [
            Parameter(
                param["name"],
                param["type"],
                bool(param["pointer"]),
                bool(param["pointer"] and not param["const"]),
            )
            for param in parameters
        ]
    except (KeyError, TypeError) as error:
        raise UsageError(f"{where}: `parameters` lacks {error}; wanted name, type, pointer, const") from None
    if not converted:
        raise UsageError(f"{where}: the Problem has no `parameters`; say them: --parameters {EXAMPLE}")
    return _checked(where, converted)


def _checked(where: str, parameters: list[Parameter]) -> Signature:
    for param in parameters:
        _check(where, param)
    names = [name for param in parameters for name in {param.name, param.python}]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"{where}: two arguments are called {twice!r} (in Python, names are lower case)")
    outputs = [param.name for param in parameters if param.output]
    if len(outputs) != 1:
        got = ", ".join(outputs) or "none"
        raise UsageError(f"{where}: wanted one output (name:type*!), got {got}: the suite tracks kernels with one")
    signature = Signature(tuple(parameters))
    if not signature.inputs:
        raise UsageError(f"{where}: no tensor that is read; wanted at least one, such as {EXAMPLE}")
    if not signature.sizes:
        raise UsageError(f"{where}: no size; wanted at least one size_t, such as {EXAMPLE}")
    return signature


def _check(where: str, param: Parameter) -> None:
    """Check the name and the type of an argument."""
    name, where = param.name, f"{where}: {param.name!r}"
    if not re.fullmatch(r"[A-Za-z](?:[A-Za-z0-9_]*[A-Za-z0-9])?", name) or len(name) > LONGEST:
        raise UsageError(
            f"{where} is no name; wanted a letter, then letters, digits and _ (not last), {LONGEST} at most"
        )
    if keyword.iskeyword(name) or name in _CPP or name in TYPES:
        raise UsageError(f"{where} is a keyword or a type; give the argument another name")
    if {name, name.lower()} & (_TAKEN if param.output else _TAKEN | _TAKEN_BY_PYTHON):
        raise UsageError(f"{where}: the generated code calls something else so; give the argument another name")
    if param.output and not param.pointer:
        raise UsageError(f"{where} is written, so it must be a pointer: {name}:{param.type}*!")
    types = {*TYPES, SIZE} - ({SIZE} if param.pointer else set(_HALVES))
    if param.type not in types:
        kind = "pointer" if param.pointer else "number"
        raise UsageError(f"{where} is a {kind} of type {param.type!r}; there are {', '.join(sorted(types))}")
