"""`Problem`: what a kernel computes, on which test cases, within which tolerance, and at which cost.

The method names are those of public kernel-challenge definitions (Tensara's), with the same meanings, so that such a
class runs here unchanged (`redirected` moves its CUDA inputs elsewhere). Our own methods have defaults that keep a
foreign definition working: `get_bytes` (absent: no bandwidth, no roofline), `get_unfused_bytes`, `get_footprint`,
`expected`, `subset`, `native_arguments`, `output_names`.

No torch at import: discovery must be the same on a machine that has none.
"""

from __future__ import annotations

import ctypes
import hashlib
import inspect
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from os import urandom
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, cast

from kernel_velocity.names import CONTROLS
from kernel_velocity.statuses import Status

if TYPE_CHECKING:
    from pathlib import Path

    import torch

Inputs = tuple[Any, ...]  # tensors and scalars, in the order of `parameters`
Outputs = Any  # a tensor; of a problem with several outputs a tuple of them, in the order of `parameters`
Verdict = tuple[bool, dict[str, Any]]


class TestCase(TypedDict):
    """One size of a problem. `dims` are its sizes. `create_inputs()` returns the inputs on the problem's device."""

    name: str
    dims: tuple[int, ...]
    create_inputs: Callable[[], Inputs]


TestCase.__test__ = False  # type: ignore[attr-defined]  # pytest must not collect it


class ProblemError(Exception):
    """A user's problem file, or what its methods return, makes no sense. The message is one line with the place."""

    exit_code: int = 2


class NotHereError(ProblemError, NotImplementedError):
    """A problem is n/a: it needs CUDA, several GPUs, or a module that is not installed. The message names which."""

    exit_code = Status.NOTHING


# C types of `parameters`: their ctypes, and the torch dtype that public definitions make such tensors of. ctypes has no
# type of 16 bits or less for floats, and torch lacks operations on most unsigned integers.
C_TYPES: Mapping[str, tuple[Any, str]] = {
    "float": (ctypes.c_float, "float32"),
    "double": (ctypes.c_double, "float64"),
    "float16": (ctypes.c_uint16, "float16"),
    "half": (ctypes.c_uint16, "float16"),
    "bfloat16": (ctypes.c_uint16, "bfloat16"),
    "float8": (ctypes.c_uint8, "float8_e4m3fn"),
    "float8_e4m3": (ctypes.c_uint8, "float8_e4m3fn"),
    "float8_e4m3fn": (ctypes.c_uint8, "float8_e4m3fn"),
    "float8_e5m2": (ctypes.c_uint8, "float8_e5m2"),
    "float4": (ctypes.c_uint8, "uint8"),
    "bool": (ctypes.c_bool, "bool"),
    "char": (ctypes.c_int8, "int8"),
    "int": (ctypes.c_int, "int32"),
    "int8_t": (ctypes.c_int8, "int8"),
    "int16_t": (ctypes.c_int16, "int16"),
    "int32_t": (ctypes.c_int32, "int32"),
    "int64_t": (ctypes.c_int64, "int64"),
    "uint8_t": (ctypes.c_uint8, "uint8"),
    "uint16_t": (ctypes.c_uint16, "int16"),
    "uint32_t": (ctypes.c_uint32, "int32"),
    "uint64_t": (ctypes.c_uint64, "int64"),
    "size_t": (ctypes.c_size_t, "int64"),
}
PERIOD = 1_000_000  # random values drawn; larger inputs repeat them
FEWEST_ROWS = 32  # of a draw: where half of the rows are wrong, one in 4e9 finds none
# Who leaves out one row in so many gains .006% and is found by two draws of three. To gather 10M elements' 103,000 rows
# took four times as long as this many.
MOST_ROWS = 1 << 14

_draw = ""  # which draw of inputs `create_inputs` makes now, "" for the fixed one (`drawn_anew`)


@contextmanager
def drawn_anew(draw: str) -> Iterator[None]:
    """Make `create_inputs` draw other values inside the block: those of `draw`, the same ones for the same text."""
    global _draw  # noqa: PLW0603 - definitions call `get_seed` without an argument that could carry it
    before, _draw = _draw, draw
    try:
        yield
    finally:
        _draw = before


def drawn_count(count: int) -> int:
    """Return how many random numbers are drawn to be repeated. Inside `drawn_anew` a tenth: 1M take .01 s."""
    return count // 10 if _draw else count


def seed_of_draw(seed: int) -> int:
    """Return a definition's seed as it is, or inside `drawn_anew` one that depends on it and on the draw."""
    return _hashed(f"{seed}/{_draw}") if _draw else seed


def _hashed(text: str) -> int:
    digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "little") & 0x7FFFFFFF


class Problem(ABC):
    """One problem: a subclass defines it, the harness measures it.

    Attributes:
        parameters: arguments of a C solution in order: name, C type, pointer, const. Outputs are non-const pointers.
        in_place: whether the reference writes its inputs: known of a user's file after its first call.
        judges_elements: whether `verify_result` judges each element by its expected value alone.
        files: that a public problem was read from.
        device: "cpu" or "cuda".
        data_device: where `create_inputs` puts its tensors. None: on `device`.
        kernel: name of the suite's module. None for a foreign problem.
        implementations: their names, in order.
        functions: of these, those that the problem itself binds to inputs of a case: (problem, case, inputs) -> Bound.
        cases: names of the test cases of each device, in order. Fixed lists: a new size is a new case (contract).
        core: of these, the two that tier `core` measures.
        cold: of these, those that are timed with cold caches, too: what the caches hold, or hold a good part of. Of a
            device that is not named, its core.
        counts: names of cases whose C code is counted on the CPU. counted: the implementations that may be C.
        gpu: what of GPU code figures are read, by implementation: `gpu_sources.GpuFile` or `GpuCompiler`.
    """

    parameters: ClassVar[Sequence[Mapping[str, Any]]] = ()
    in_place: bool = False
    judges_elements: ClassVar[bool] = False
    files: ClassVar[Sequence[Path]] = ()
    device: str = "cpu"
    data_device: ClassVar[str | None] = None
    kernel: ClassVar[str | None] = None
    implementations: ClassVar[Sequence[str]] = CONTROLS
    functions: ClassVar[Mapping[str, Callable[[Any, str, Inputs], Any]]] = {}
    cases: ClassVar[Mapping[str, Sequence[str]]] = {}
    core: ClassVar[Mapping[str, Sequence[str]]] = {}
    cold: ClassVar[Mapping[str, Sequence[str]]] = {}
    counts: ClassVar[Sequence[str]] = ()
    counted: ClassVar[Sequence[str]] = ()
    gpu: ClassVar[Mapping[str, Any]] = {}

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
            KeyError: there is none on this device. The message lists those there are.
        """
        cases = {case["name"]: case for case in self.generate_test_cases()}
        if name not in cases:
            raise KeyError(f"{self.name}: no case {name!r} on {self.device}; there are {', '.join(cases)}")
        return cases[name]

    def implementations_on(self, device: str) -> tuple[str, ...]:
        """Return the implementations that can exist on a device, in order."""
        alone = {name: getattr(function, "device", None) for name, function in self.functions.items()}
        return tuple(name for name in self.implementations if alone.get(name) in (None, device))

    def get_flops(self, test_case: TestCase) -> int | None:
        """Return the floating-point operations of one call, None where the problem does not say."""
        return None

    def get_bytes(self, test_case: TestCase) -> int | None:
        """Return the least memory traffic of one call: each input read once, each output written once."""
        return None

    def get_extra_params(self, test_case: TestCase) -> list[Any]:
        """Return the trailing scalar arguments (sizes) of a C solution."""
        return list(test_case.get("dims", ()))

    def get_function_signature(self) -> dict[str, Any]:
        """Return {"argtypes", "restype"} for ctypes, derived from `parameters`.

        Raises:
            ProblemError: a C type is not known.
        """
        for p in self.parameters:
            if p["type"] not in C_TYPES:
                raise ProblemError(f"`{p['name']}` is of C type {p['type']!r}, which is not known")
        kinds = [(C_TYPES[p["type"]][0], p.get("pointer")) for p in self.parameters]
        argtypes = [ctypes.POINTER(kind) if is_pointer else kind for kind, is_pointer in kinds]
        return {"argtypes": argtypes, "restype": None}

    def param_dtype(self, which: str | int) -> torch.dtype:
        """Return the torch dtype of an argument, by name or by index: float32 for a C type that is not known."""
        import torch  # noqa: PLC0415 - discovery must work without torch

        named = {p["name"]: p for p in self.parameters}
        parameter = self.parameters[which] if isinstance(which, int) else named[which]
        _, dtype = C_TYPES.get(parameter["type"], (None, "float32"))
        return cast("torch.dtype", getattr(torch, dtype))

    @staticmethod
    def get_seed(text: str) -> int:
        """Return a seed that depends on nothing but `text`: the first four bytes of its MD5, as public suites do.

        Inside `drawn_anew` it depends on the draw, too.
        """
        return seed_of_draw(_hashed(text))

    # Ours -----------------------------------------------------------------------------------------------------------

    def stated_sizes(self, test_case: TestCase) -> tuple[int, int] | None:
        """Return how many bytes inputs and outputs take, where the definition states it. None: it does not."""
        return None

    def get_unfused_bytes(self, test_case: TestCase) -> int | None:
        """Return the memory traffic of the reference's operations one by one. None: they are counted (`traffic`)."""
        return None

    def get_footprint(self, test_case: TestCase) -> int | None:
        """Return the bytes of memory that one call touches, each once: what a cache would have to hold.

        As many as it moves, unless a problem overrides this: one that works in place, or passes over its data again
        and again, moves more than it touches. None where that is unknown.
        """
        return self.get_bytes(test_case)

    def expected(self, *inputs: Any) -> Outputs:
        """Return what `verify_result` compares with. A problem may compute it in a higher precision."""
        return self.reference_solution(*inputs)

    def reference_call(self, inputs: Inputs) -> Callable[[], Outputs]:
        """Return `reference_solution` bound to inputs, as it is timed."""
        return partial(self.reference_solution, *inputs)

    def reference_source(self) -> str:
        """Return the text that decides what `eager` and `compile` compute: another text is another compiled package."""
        return inspect.getsource(type(self).reference_solution)

    def subset(self, inputs: Inputs, output: Outputs, step: int) -> tuple[Inputs, Outputs]:
        """Return inputs and outputs of about one in `step` results, drawn anew in each call.

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

        A single output is passed as the keyword `out`, several by the keywords of `output_names`.
        """
        return inputs

    def output_names(self) -> tuple[str, ...]:
        """Return the names of the outputs, in order: of the parameters that are pointers and not const."""
        return tuple(str(p["name"]) for p in self.parameters if p["pointer"] and not p["const"])


_ARGUMENT = re.compile(r"(?P<type>\w[\w\s]*?)\s*(?P<star>\*?)\s*(?P<name>\w+)\s*(?P<array>\[\w*\])?")
_QUALIFIERS = re.compile(r"\b(const|volatile|restrict|__restrict__|__restrict|struct)\b")


def c_parameters(signature: str) -> tuple[Mapping[str, Any], ...]:
    """Return `Problem.parameters` of a C function's arguments, "const float* x, float* out, size_t n".

    Raises:
        ValueError: an argument is not of that form.
    """
    parameters = []
    for text in signature.split(","):
        match = _ARGUMENT.fullmatch(_QUALIFIERS.sub(" ", text).strip())
        if match is None:
            raise ValueError(f"{text.strip()!r} is no argument")
        kind, is_const = " ".join(match["type"].split()), re.search(r"\bconst\b", text) is not None
        is_pointer = bool(match["star"] or match["array"])
        parameters.append({"name": match["name"], "type": kind, "pointer": is_pointer, "const": is_const})
    return tuple(parameters)


def entropy() -> torch.Generator:
    """Return a generator of random numbers on the CPU whose seed is drawn from the system's entropy now."""
    import torch  # noqa: PLC0415 - discovery must work without torch

    return torch.Generator("cpu").manual_seed(int.from_bytes(urandom(8), "little"))


def drawn_rows(count: int, step: int) -> torch.Tensor:
    """Return one of every `step` of `count` rows, FEWEST_ROWS to MOST_ROWS, in order. They are drawn anew in each call.

    They come from parts of equal size, so that none of twice as many rows is passed over.
    """
    import torch  # noqa: PLC0415

    parts = min(count, MOST_ROWS, max(-(-count // step), FEWEST_ROWS))
    edges = torch.arange(parts + 1, device="cpu") * count // max(parts, 1)
    shares = torch.rand(parts, generator=entropy(), dtype=torch.float64, device="cpu")
    return edges[:-1] + (shares * edges.diff()).long()


def outputs_of(result: Outputs) -> tuple[Any, ...]:
    """Return what a reference or an implementation returned as a tuple of tensors (`leaves`). () for nothing."""
    return () if result is None else leaves(result)


def leaves(value: Any) -> tuple[Any, ...]:
    """Return what lists, tuples and dictionaries hold, nested ones too. Dictionaries count in the order of their keys.

    Two dictionaries of equal keys so have equal orders, however they were filled.
    """
    if isinstance(value, Mapping):
        value = [value[key] for key in sorted(value, key=str)]
    elif not isinstance(value, list | tuple):
        return (value,)
    return tuple(leaf for part in value for leaf in leaves(part))


def rebuilt(form: Any, values: Iterator[Any]) -> Any:
    """Return a value of the form of another, whose `leaves` are the next ones of `values`."""
    if isinstance(form, Mapping):
        parts = {key: rebuilt(form[key], values) for key in sorted(form, key=str)}
        return {key: parts[key] for key in form}
    if isinstance(form, list | tuple):
        members = [rebuilt(part, values) for part in form]
        return type(form)(*members) if hasattr(form, "_fields") else type(form)(members)
    return next(values)


def as_tensor(value: Any) -> Any:
    """Return an array of NumPy as a tensor that shares its memory, anything else as it is."""
    if type(value).__module__.partition(".")[0] == "numpy":
        import torch  # noqa: PLC0415 - discovery must work without torch

        return torch.as_tensor(value)
    return value


def tiled(values: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Return a contiguous tensor of `shape` that repeats `values` (1-D): 50M random numbers would take .4 s each."""
    count = math.prod(shape)
    return values.repeat(-(-count // values.numel()))[:count].reshape(shape).contiguous()


# Definitions with device="cuda" written in ----------------------------------------------------------------------------

# A torch function mode, as `torch.set_default_device` uses, changes the arguments of every call of torch. It sees no
# classes, so the name `torch.Generator` is exchanged. Nothing is timed inside: the mode costs microseconds a call.
_CUDA = re.compile(r"cuda(:\d+)?")


@contextmanager
def redirected(device: str) -> Iterator[None]:
    """Inside the block, replace every CUDA device that torch gets by `device`. Does nothing for "cuda"."""
    if device == "cuda":
        yield
        return
    import torch  # noqa: PLC0415

    here, original = torch.device(device), torch.Generator
    torch.Generator = _generator(here)  # type: ignore[misc]
    try:
        with _mode(here):
            yield
    finally:
        torch.Generator = original  # type: ignore[misc]


@cache
def _generator(here: Any) -> Any:
    """Return a class in place of torch.Generator whose instances are on `here` where CUDA is asked for.

    A module that is imported inside `redirected` keeps it: it is a class for annotations, subclasses and isinstance.
    """
    import torch  # noqa: PLC0415

    original: Any = type(torch.default_generator)  # the true one, also inside another redirection

    class Kind(type(original)):  # type: ignore[misc]
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, original) if cls is Generator else super().__instancecheck__(value)

    class Generator(original, metaclass=Kind):  # type: ignore[misc]
        def __new__(cls, device: Any = "cpu") -> Any:
            return original.__new__(original if cls is Generator else cls, device=_moved(device, here))

    return Generator


def _moved(value: Any, here: Any) -> Any:
    """Return `here` for what names a CUDA device, and anything else as it is."""
    named = value if isinstance(value, str) else str(value) if type(value) is type(here) else ""
    return here if _CUDA.fullmatch(named) else value


def _mode(here: Any) -> Any:
    import torch  # noqa: PLC0415
    from torch.overrides import TorchFunctionMode  # noqa: PLC0415

    class Redirected(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function is torch.device:  # an object only: it is redirected where it is used
                return function(*args, **(kwargs or {}))
            if function is torch.Tensor.cuda:
                return args[0].to(here)
            keywords = {name: _moved(value, here) for name, value in (kwargs or {}).items()}
            return function(*(_moved(value, here) for value in args), **keywords)

    return Redirected()
