"""Define a benchmark in a few lines: `@benchmark` on a class with inputs, a reference and implementations.

    import kernel_velocity as kv
    import torch

    @kv.benchmark(cases=["float32-64x768", "float32-4096x768"], flops=lambda rows, columns: 8 * rows * columns)
    class LayerNorm:
        def inputs(rows, columns):
            return torch.randn(rows, columns), torch.randn(columns), torch.randn(columns)

        def reference(x, weight, bias):
            return torch.nn.functional.layer_norm(x, weight.shape, weight, bias)

        native = kv.native("libnorm.so", "void layernorm(float* out, const float* x, const float* weight,"
                                         " const float* bias, int rows, int columns)")

The class is a namespace, so its functions have no `self`. They may be static methods, which satisfies linters. `inputs`
gets the sizes of a case. It runs with PyTorch's default device and dtype set to those of the case, and with a fixed
seed. `reference` gets the inputs, in order. It is the implementation `eager`. Every other function is an implementation
of that name. The module's name is the kernel's.

Arguments of implementations are matched by name: an argument called like one of `reference` is that input, one called
like an argument of `inputs` is that size, and any other is an output, in the order in which `reference` returns them.
A Python function without outputs among its arguments returns them.
"""

from __future__ import annotations

import ctypes
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kernel_velocity.harness import accuracy
from kernel_velocity.harness.benchmark import _KernelBenchmark
from kernel_velocity.harness.cases import CONTROLS, DEVICES, dims_of, dtype_of
from kernel_velocity.harness.implementations import Bound, KernelFailedError, fresh, poison
from kernel_velocity.harness.problem import (
    C_TYPES,
    Inputs,
    Outputs,
    Problem,
    ProblemError,
    TestCase,
    Verdict,
    as_tensor,
    c_parameters,
    outputs_of,
)
from kernel_velocity.harness.under_test import artefact

EAGER, COMPILE = CONTROLS
_NAMES_OF_A_CLASS = ("inputs", "reference")  # functions of a definition that are no implementations
_FLOATS = ("float64", "float32", "float16", "bfloat16")  # that can be PyTorch's default dtype
_FUNCTION = re.compile(r"\s*(?P<result>[\w\s]*?)\s*\b(?P<name>\w+)\s*\((?P<arguments>.*)\)\s*;?\s*", re.DOTALL)
# C types that `parameters` of public problems do not have.
_SCALARS: Mapping[str, Any] = {name: kind for name, (kind, _) in C_TYPES.items()} | {
    **{"_Bool": ctypes.c_bool, "short": ctypes.c_short, "long": ctypes.c_long, "long long": ctypes.c_longlong},
    **{"unsigned": ctypes.c_uint, "unsigned int": ctypes.c_uint, "unsigned long": ctypes.c_ulong},
    **{"unsigned long long": ctypes.c_ulonglong, "ptrdiff_t": ctypes.c_ssize_t, "ssize_t": ctypes.c_ssize_t},
}
# Pointers of other types, such as __half*, are not checked. PyTorch has signed integers in place of most unsigned ones.
_POINTERS = {name: dtype for name, (_, dtype) in C_TYPES.items() if name == "uint8_t" or name[0] != "u"}


# Functions of libraries -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Native:
    """A C function in a library that the build makes."""

    library: str
    symbol: str
    arguments: Sequence[Mapping[str, Any]]  # as `Problem.parameters`
    has_status: bool  # whether it returns an int, 0 for success
    device: str

    def __call__(self, *_args: object, **_keywords: object) -> None:
        """Raise a ProblemError: in a class that has an implementation `native`, the name means that one."""
        raise ProblemError("native is an implementation here: import kernel_velocity as kv, and call kv.native(...)")

    def load(self) -> Any:
        """Return the function of the build under test.

        Raises:
            NotImplementedError: the build has no such library, or the library no such function: n/a.
        """
        function = c_function(self.library, self.symbol)
        function.argtypes = [ctypes.c_void_p if a["pointer"] else _SCALARS[a["type"]] for a in self.arguments]
        function.restype = ctypes.c_int if self.has_status else None
        return function


def native(library: str, signature: str, *, device: str = "cpu") -> Native:
    """Return a C function as an implementation.

    Args:
        library: a file that the build puts into its folder, such as "libnorm.so".
        signature: the declaration in C, such as "void scale(float* out, const float* x, int n)". A function that
            returns int returns a status, 0 for success.
        device: "cpu" or "cuda", where the function wants its pointers. It must have finished when it returns, or work
            on CUDA's default stream.

    Raises:
        ProblemError: the signature is not of this form.
    """
    match = _FUNCTION.fullmatch(signature)
    wanted = 'wanted one such as "void scale(float* out, const float* x, int n)"'
    if match is None or device not in DEVICES:
        raise ProblemError(f"native({library!r}, {signature!r}, device={device!r}): {wanted}, and cpu or cuda")
    try:
        arguments = c_parameters(match["arguments"])
    except ValueError as error:
        raise ProblemError(f"native({library!r}): {error}; {wanted}") from None
    for argument in arguments:
        if not argument["pointer"] and argument["type"] not in _SCALARS:
            raise ProblemError(f"native({library!r}): {argument['type']} {argument['name']} is no number; {wanted}")
    return Native(library, match["name"], arguments, match["result"].split()[-1:] == ["int"], device)


def c_function(library: str, symbol: str) -> Any:
    """Return a C function of a library that the build under test made.

    Rounding and the treatment of subnormal numbers are restored: loading a library built with -Ofast changes them.

    Raises:
        NotImplementedError: the build has no such library, or the library no such function: n/a.
    """
    path, libm = artefact(library), ctypes.CDLL("libm.so.6")
    saved = ctypes.create_string_buffer(256)  # larger than any fenv_t
    libm.fegetenv(saved)
    try:
        return getattr(ctypes.CDLL(str(path)), symbol)
    except AttributeError:
        raise NotImplementedError(f"{library} of this commit has no function {symbol}") from None
    finally:
        libm.fesetenv(saved)


# Definitions ----------------------------------------------------------------------------------------------------------


def benchmark(
    *,
    cases: Sequence[str] | Mapping[str, Sequence[int]],
    core: Sequence[str] | None = None,
    flops: Callable[..., int] | None = None,
    bytes: Callable[..., int] | None = None,  # noqa: A002 - the field's word
    tolerance: str | float | None = None,
    compiled: bool = False,
    devices: Sequence[str] = tuple(DEVICES),
    version: str = "1",
) -> Callable[[type], type[Problem]]:
    """Make a benchmark of a class with `inputs`, `reference` and implementations (see the top of this module).

    Args:
        cases: names such as "float32-64x768", of a dtype and sizes, or names with their sizes. The list is for ever: a
            new size is a new name.
        core: the cases of tier core. None: the first and the last.
        flops: floating-point operations of a call, from the sizes. None: no GFLOPS.
        bytes: least memory traffic of a call, from the sizes. None: the size of inputs and outputs together, where
            PyTorch can tell it without computing them.
        tolerance: as `kv compare --tolerance`: 1e-3 or "rtol=1e-3,atol=1e-5". None: 1e-5 of float32, and so on.
        compiled: whether to time the reference under torch.compile, too.
        devices: those that the kernel is for.
        version: raise it where old results no longer compare.

    Raises:
        ProblemError: something is missing, or does not fit.
    """

    def define(definition: type) -> type[Problem]:
        members = {name: value for name, value in vars(definition).items() if name[0] != "_"}
        functions = {
            name: value.__func__ if isinstance(value, staticmethod) else value for name, value in members.items()
        }
        for name in _NAMES_OF_A_CLASS:
            if not inspect.isfunction(functions.get(name)):
                raise ProblemError(f"class {definition.__name__}: wanted a function {name}")
        sizes = dict(cases) if isinstance(cases, Mapping) else {name: dims_of(name) for name in cases}
        if not sizes or not set(core or ()) <= set(sizes):
            raise ProblemError(f"class {definition.__name__}: wanted cases, and core among them (got {cases}, {core})")
        allowed = None if tolerance is None else accuracy.parse_tolerance(str(tolerance))
        chosen = tuple(core or dict.fromkeys((next(iter(sizes)), next(reversed(sizes)))))
        implementations = {name: value for name, value in functions.items() if name not in _NAMES_OF_A_CLASS}
        module = sys.modules[definition.__module__]
        if any(name in vars(module) for name in DEVICES.values()):
            raise ProblemError(f"class {definition.__name__}: a second benchmark; wanted one file for each kernel")
        problem = type(
            definition.__name__,
            (_Defined,),
            {
                "__module__": module.__name__,
                "__qualname__": definition.__qualname__,
                "__doc__": definition.__doc__,
                "kernel": module.__name__.rpartition(".")[2],
                "sizes": sizes,
                "cases": {device: tuple(sizes) for device in devices},
                "core": dict.fromkeys(devices, chosen),
                "implementations": (EAGER, *([COMPILE] if compiled else []), *implementations),
                "functions": {name: _Implementation(name, value).bind for name, value in implementations.items()},
                "inputs": staticmethod(functions["inputs"]),
                "reference_solution": staticmethod(functions["reference"]),
                "costs": {"flops": flops, "bytes": bytes},
                "allowed": allowed,
            },
        )
        for name, value in implementations.items():
            _check(name, value, problem)
        for device in devices:
            members = {"problem": problem(), "device": device, "version": version, "__module__": module.__name__}
            setattr(module, DEVICES[device], type(DEVICES[device], (_KernelBenchmark,), members))
        register()
        return problem

    return define


def register() -> None:
    """Have asv run our benchmark types (`asv_type.register`). Outside asv do nothing."""
    if "asv_runner.benchmarks" in sys.modules and "ASV_PROJECT" in os.environ:
        from kernel_velocity.harness import asv_type  # noqa: PLC0415 - imports asv_runner, which only asv needs

        asv_type.register()


class _Defined(Problem):
    """The problem of a definition."""

    sizes: ClassVar[Mapping[str, Sequence[int]]]
    inputs: ClassVar[Callable[..., Any]]
    costs: ClassVar[Mapping[str, Callable[..., int] | None]]
    allowed: ClassVar[accuracy.Tolerance | None]

    def __init__(self) -> None:
        super().__init__(name=str(self.kernel))

    def generate_test_cases(self) -> list[TestCase]:
        return [
            TestCase(name=name, dims=tuple(sizes), create_inputs=lambda name=name: self.inputs_of(name))  # type: ignore[misc]
            for name, sizes in self.sizes.items()
        ]

    def inputs_of(self, case: str, device: str | None = None) -> Inputs:
        """Return the inputs of a case, on a device: the problem's unless given."""
        import torch  # noqa: PLC0415 - discovery must work without torch

        before, dtype = torch.get_default_dtype(), dtype_of(case)
        torch.manual_seed(self.get_seed(f"{self.name}/{case}"))
        torch.set_default_dtype(getattr(torch, dtype) if dtype in _FLOATS else before)
        try:
            with torch.device(device or self.device):
                made = self.inputs(*self.sizes[case])
        finally:
            torch.set_default_dtype(before)
        return tuple(made) if isinstance(made, tuple | list) else (made,)

    def verify_result(self, expected: Outputs, actual: Outputs) -> Verdict:
        wanted, got = ([as_tensor(value) for value in outputs_of(result)] for result in (expected, actual))
        return accuracy.verdict(accuracy.compare_outputs(wanted, got, self.allowed))

    def get_flops(self, test_case: TestCase) -> int | None:
        return self._cost("flops", test_case)

    def get_bytes(self, test_case: TestCase) -> int | None:
        if self.costs["bytes"] is not None:
            return self._cost("bytes", test_case)
        try:
            inputs = self.inputs_of(test_case["name"], "meta")
            values = [*inputs, *outputs_of(self.reference_solution(*inputs))]
        except (ModuleNotFoundError, NotImplementedError, RuntimeError, TypeError, ValueError):
            return None  # PyTorch is missing, or an operation has to compute its result to know its size
        total: int = sum(value.nbytes for value in values if hasattr(value, "nbytes"))
        return total

    def _cost(self, name: str, test_case: TestCase) -> int | None:
        cost = self.costs[name]
        if cost is None:
            return None
        value: int = cost(*test_case["dims"])
        return value

    def empty_output(self, inputs: Inputs) -> Outputs:
        import torch  # noqa: PLC0415

        made = tuple(
            torch.empty_like(as_tensor(value), memory_format=torch.contiguous_format)
            for value in outputs_of(self.reference_solution(*inputs))
        )
        return made[0] if len(made) == 1 else made


def _names(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


def _arguments(value: Any) -> tuple[str, ...]:
    return tuple(argument["name"] for argument in value.arguments) if isinstance(value, Native) else _names(value)


def _outputs(value: Any, problem: type[_Defined] | _Defined) -> list[str]:
    """Return the arguments of an implementation that are outputs."""
    argument_names = {*_names(problem.reference_solution), *_names(problem.inputs)}
    return [name for name in _arguments(value) if name not in argument_names]


def _check(name: str, value: Any, problem: type[_Defined]) -> None:
    """Raise a ProblemError for an implementation that cannot be called."""
    where = f"class {problem.__name__}, {name}"
    if not (isinstance(value, Native) or inspect.isfunction(value)):
        raise ProblemError(f"{where}: wanted a function, or native(...) (got {value!r})")
    if isinstance(value, Native):
        inputs, sizes = _names(problem.reference_solution), _names(problem.inputs)
        for argument in value.arguments:
            if not argument["pointer"] and argument["name"] not in (*inputs, *sizes):
                raise ProblemError(
                    f"{where}: {argument['type']} {argument['name']} is neither a size ({', '.join(sizes)}) nor an "
                    f"input ({', '.join(inputs)})"
                )
        if not _outputs(value, problem):
            raise ProblemError(f"{where}: no argument is an output: all are called like inputs or sizes")


@dataclass(frozen=True)
class _Implementation:
    """An implementation of a definition: a Python function or a C function."""

    name: str
    value: Any

    def bind(self, problem: _Defined, case: str, inputs: Inputs) -> Bound:
        """Return it bound to inputs."""
        if isinstance(self.value, Native) and self.value.device != problem.device:
            raise NotImplementedError(f"{self.name} runs on {self.value.device}, not {problem.device}")
        function = self.value.load() if isinstance(self.value, Native) else self.value
        values = dict(zip(_names(problem.inputs), problem.sizes[case], strict=True))
        values |= zip(_names(problem.reference_solution), inputs, strict=True)
        names = _outputs(self.value, problem)
        output = problem.empty_output(inputs) if names else None
        if names and len(names) != len(outputs_of(output)):
            raise ProblemError(
                f"{problem.name}, {self.name}: {len(names)} arguments are outputs ({', '.join(names)}), the reference "
                f"returns {len(outputs_of(output))}"
            )
        values |= zip(names, outputs_of(output), strict=True)
        if not isinstance(self.value, Native):
            arguments = [values[name] for name in _arguments(self.value)]
            if output is None:
                return fresh(lambda: function(*arguments))
            bound = Bound(lambda: function(*arguments), lambda: output, lambda: poison(output))
            bound.call()  # compiles
            return bound
        arguments = [_converted(problem, argument, values[argument["name"]]) for argument in self.value.arguments]
        status = function(*arguments)
        if status:
            raise KernelFailedError(f"{self.value.symbol} of {self.value.library} returned status {status}")
        return Bound(lambda: function(*arguments), lambda: output, lambda: poison(output))


def _converted(problem: Problem, argument: Mapping[str, Any], value: Any) -> Any:
    """Return a value as ctypes passes it.

    Raises:
        ProblemError: it is of another kind than the argument.
    """
    where = f"{problem.name}: {argument['type']}{'*' * argument['pointer']} {argument['name']}"
    value = as_tensor(value)
    if not argument["pointer"]:
        if hasattr(value, "data_ptr"):
            raise ProblemError(f"{where} gets a tensor")
        return _SCALARS[argument["type"]](value)
    if not hasattr(value, "data_ptr"):
        raise ProblemError(f"{where} gets {value!r}, wanted a tensor")
    dtype = str(value.dtype).removeprefix("torch.")
    if _POINTERS.get(argument["type"], dtype) != dtype:
        raise ProblemError(f"{where} gets a tensor of {dtype}")
    if not value.is_contiguous():
        raise ProblemError(f"{where} gets a tensor that is not contiguous: call .contiguous() in inputs")
    return ctypes.c_void_p(value.data_ptr())
