"""The arguments of a kernel that is to be written, under names that C++ and Python can have."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernel_velocity.errors import UsageError


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
# What public problems have beside these. Their tensors of unsigned integers may be of the signed type.
PUBLIC_TYPES = {
    **TYPES,
    "half": TYPES["float16"],
    "float8": CType("float8_e4m3fn", 1, "uint8_t", "__nv_fp8_e4m3", "c_uint8", "cuda_fp8.h"),
    "float8_e4m3": CType("float8_e4m3fn", 1, "uint8_t", "__nv_fp8_e4m3", "c_uint8", "cuda_fp8.h"),
    "float8_e4m3fn": CType("float8_e4m3fn", 1, "uint8_t", "__nv_fp8_e4m3", "c_uint8", "cuda_fp8.h"),
    "float8_e5m2": CType("float8_e5m2", 1, "uint8_t", "__nv_fp8_e5m2", "c_uint8", "cuda_fp8.h"),
    "float4": CType("uint8", 1, "uint8_t", "uint8_t", "c_uint8"),
    "bool": CType("bool", 1, "bool", "bool", "c_bool"),
    "char": CType("int8", 1, "char", "char", "c_int8"),
    "int16_t": CType("int16", 2, "int16_t", "int16_t", "c_int16"),
    "uint16_t": CType("uint16", 2, "uint16_t", "uint16_t", "c_uint16"),
    "uint32_t": CType("uint32", 4, "uint32_t", "uint32_t", "c_uint32"),
    "uint64_t": CType("uint64", 8, "uint64_t", "uint64_t", "c_uint64"),
    "size_t": CType("int64", 8, "size_t", "size_t", "c_size_t"),
}
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


def of_problem(where: str, parameters: Sequence[Mapping[str, Any]]) -> tuple[Parameter, ...]:
    """Return the arguments that a public problem's solution takes, under names that C++ and Python can have.

    Raises:
        UsageError: one is of a C type that is not known. The message begins with `where`.
    """
    for entry in parameters:
        if entry["type"] not in PUBLIC_TYPES:
            there = ", ".join(PUBLIC_TYPES)
            raise UsageError(f"{where}: {entry['name']!r} is of type {entry['type']!r}; there are {there}")
    named: list[Parameter] = []
    for entry in parameters:
        name = re.sub(r"\W", "_", entry["name"], flags=re.ASCII).strip("_")
        name = name if name[:1].isalpha() else f"x{name}"
        name = f"{name}_" if name in _CPP | _RESERVED or name in PUBLIC_TYPES else name
        while name in (param.name for param in named):
            name += "2"
        named.append(
            Parameter(name, entry["type"], bool(entry["pointer"]), bool(entry["pointer"] and not entry["const"]))
        )
    return tuple(named)


def python_names(parameters: Sequence[Parameter]) -> list[str]:
    """Return the names of arguments in generated Python: lower case, none of Python's own or ours, no name twice."""
    names: list[str] = []
    for param in parameters:
        name = f"{param.python}_" if param.python in _RESERVED | _TAKEN_BY_PYTHON else param.python
        while name in names:
            name += "2"
        names.append(name)
    return names
