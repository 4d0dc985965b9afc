"""`Problem`: what a kernel computes, on which test cases, how right it must be, and what it costs.

The method names are those of public kernel-challenge definitions (Tensara's), with the same meanings, so that such a
class runs here unchanged. What is ours stands beside them, each with a default that keeps a foreign definition
working: `get_bytes` (absent: no bandwidth, no roofline), `get_footprint`, `get_unfused_bytes`, `expected`, `subset`,
`poison`, `native_arguments`, `output_names`.

No torch at import: discovery must be the same on a machine that has none.
"""

from __future__ import annotations

import ctypes
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

if TYPE_CHECKING:
    import torch

Inputs = tuple[Any, ...]  # tensors and scalars, in the order of `parameters`
Outputs = Any  # a tensor; of a problem with several outputs a tuple of them, in the order of `parameters`
Verdict = tuple[bool, dict[str, Any]]


class TestCase(TypedDict):
    """One size of a problem. `dims` are its sizes; `create_inputs()` returns the inputs on the problem's device."""

    name: str
    dims: tuple[int, ...]
    create_inputs: Callable[[], Inputs]


TestCase.__test__ = False  # type: ignore[attr-defined]  # pytest must not collect it

_CTYPES: Mapping[str, Any] = {
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "float16": ctypes.c_uint16,
    "bfloat16": ctypes.c_uint16,
    "int": ctypes.c_int,
    "int8_t": ctypes.c_int8,
    "uint8_t": ctypes.c_uint8,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "size_t": ctypes.c_size_t,
}


class Problem(ABC):
    """One problem; subclasses say what, `harness` measures it.

    Attributes:
        parameters: arguments of a C solution in order: name, C type, pointer, const; outputs are non-const pointers.
        is_exact: whether an output must equal the reference bit for bit.
        device: "cpu" or "cuda", where `create_inputs` puts its tensors.
        kernel: name of the folder below `kernels/` that holds the native code, None for a foreign problem.
        cases: names of the test cases of each device, in order. Fixed lists: a new size is a new case (contract).
        core: of these, the two that tier `core` measures.
        cold: of these, those that are timed with cold caches, too: what the caches hold, or hold a good part of; where
            nothing is said of a device, its core.
    """

    parameters: ClassVar[Sequence[Mapping[str, Any]]] = ()
    is_exact: bool = False
    device: str = "cpu"
    kernel: ClassVar[str | None] = None
    cases: ClassVar[Mapping[str, Sequence[str]]] = {}
    core: ClassVar[Mapping[str, Sequence[str]]] = {}
    cold: ClassVar[Mapping[str, Sequence[str]]] = {}

    def __init__(self, name: str, time_limit: float | None = None) -> None:
        self.name = name
        self.time_limit = time_limit

    @abstractmethod
    def reference_solution(self, *inputs: Any) -> Outputs:
        """Return the output, or all outputs, as PyTorch's eager operations compute them: the implementation `eager`."""

    @abstractmethod
    def generate_test_cases(self) -> list[TestCase]:
        """Return the test cases of `device`, in the order of `cases`."""

    @abstractmethod
    def verify_result(self, expected: Outputs, actual: Outputs) -> Verdict:
        """Return whether every output is right, and the error figures. NaN where none is expected is never right."""

    def generate_sample(self) -> TestCase:
        """Return one small test case."""
        return self.generate_test_cases()[0]

    def test_case(self, name: str) -> TestCase:
        """Return the test case of that name.

        Raises:
            KeyError: there is none on this device; the message lists those there are.
        """
        found = {case["name"]: case for case in self.generate_test_cases()}
        if name not in found:
            raise KeyError(f"{self.name}: no case {name!r} on {self.device}; there are {', '.join(found)}")
        return found[name]

    def get_flops(self, test_case: TestCase) -> int | None:
        """Return the floating-point operations of one call, None where the problem does not say."""
        return None

    def get_bytes(self, test_case: TestCase) -> int | None:
        """Return the least memory traffic of one call: each input read once, each output written once."""
        return None

    def get_extra_params(self, test_case: TestCase) -> list[Any]:
        """Return the trailing scalar arguments (sizes) of a C solution."""
        return list(test_case["dims"])

    def get_function_signature(self) -> dict[str, Any]:
        """Return {"argtypes", "restype"} for ctypes, derived from `parameters`."""
        argtypes = [ctypes.POINTER(_CTYPES[p["type"]]) if p["pointer"] else _CTYPES[p["type"]] for p in self.parameters]
        return {"argtypes": argtypes, "restype": None}

    def param_dtype(self, which: str | int) -> str:
        """Return the C type of an argument, by name or by index."""
        if isinstance(which, int):
            return str(self.parameters[which]["type"])
        return str(next(p["type"] for p in self.parameters if p["name"] == which))

    @staticmethod
    def get_seed(text: str) -> int:
        """Return a seed that depends on nothing but `text`: the first four bytes of its MD5, as public suites do."""
        digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
        return int.from_bytes(digest[:4], "little") & 0x7FFFFFFF

    # Ours -----------------------------------------------------------------------------------------------------------

    def get_footprint(self, test_case: TestCase) -> int | None:
        """Return the bytes of memory that one call touches, each once: what a cache would have to hold.

        As many as it moves, unless a problem says otherwise: one that works in place, or passes over its data again
        and again, moves more than it touches. None where the problem does not say.
        """
        return self.get_bytes(test_case)

    def get_unfused_bytes(self, test_case: TestCase) -> int | None:
        """Return the least memory traffic of PyTorch's sequence of operations, None where there is no sequence.

        Each operation reads its inputs and writes its output once, the intermediate results among them. What fusing
        saves is measured against it.
        """
        return None

    def expected(self, *inputs: Any) -> Outputs:
        """Return what `verify_result` compares with; a problem may compute it in a higher precision."""
        return self.reference_solution(*inputs)

    def subset(self, inputs: Inputs, output: Outputs, step: int) -> tuple[Inputs, Outputs]:
        """Return inputs and outputs of about every `step`-th result, the last one included.

        The default is all of them: slow, never wrong.
        """
        return inputs, output

    def empty_output(self, inputs: Inputs) -> Outputs:
        """Return an output tensor to be written into, or all of them.

        Raises:
            NotImplementedError: the problem does not say what its output looks like.
        """
        raise NotImplementedError(f"{self.name} does not say what its output looks like (empty_output)")

    def native_arguments(self, inputs: Inputs) -> Inputs:
        """Return the positional arguments of the native kernel's Python function: what it reads.

        An only output is its keyword `out`; several are keywords of the names of `output_names`.
        """
        return inputs

    def output_names(self) -> tuple[str, ...]:
        """Return the names of the outputs, in order: of the parameters that are pointers and not const."""
        return tuple(str(each["name"]) for each in self.parameters if each["pointer"] and not each["const"])


def outputs_of(result: Outputs) -> tuple[Any, ...]:
    """Return what a reference or an implementation returned as a tuple of tensors; () for nothing."""
    if result is None:
        return ()
    return tuple(result) if isinstance(result, list | tuple) else (result,)


def tiled(values: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Return a contiguous tensor of `shape` that repeats `values` (1-D): 50M random numbers would take .4 s each."""
    count = 1
    for extent in shape:
        count *= extent
    repeats = -(-count // values.numel())
    return values.repeat(repeats)[:count].reshape(shape).contiguous()
