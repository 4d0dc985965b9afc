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
A Python function without outputs among its arguments returns them. `module(...)` is a Python module of the build that
binds its arguments once, `problem_file(...)` a public problem in place of inputs and reference.

Where the defaults do not do:

    inputs(rows, columns, dtype, device)   arguments of these names, after the sizes, get "float32" and "cpu", and so do
                                           those of `flops` and `bytes`
    expected(x, weight, bias)              what results are compared with, such as a reference in float64
    verify(expected, actual)               whether results are right, and error figures as `accuracy.compare` gives them
    empty(x, weight, bias)                 uninitialised outputs, where running the reference for them is slow
"""

from __future__ import annotations

import ctypes
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from kernel_velocity.counts.gpu_sources import ARCHITECTURE, GpuCompiler, GpuFile
from kernel_velocity.names import CONTROLS, DEVICES, dims_of, dtype_of
from kernel_velocity.problem import accuracy
from kernel_velocity.problem.implementations import Bound, KernelFailedError, Module, fresh, poison
from kernel_velocity.problem.problem import (
    C_TYPES,
    PERIOD,
    Inputs,
    Outputs,
    Problem,
    ProblemError,
    TestCase,
    Verdict,
    as_tensor,
    c_parameters,
    drawn_count,
    drawn_rows,
    outputs_of,
    tiled,
)
from kernel_velocity.problem.problem_file import DTYPE, load_file, parameters_of
from kernel_velocity.problem.problem_formats import copies
from kernel_velocity.problem.traffic import traffic
from kernel_velocity.problem.user_file import NEEDS_CUDA, lacking
from kernel_velocity.suite.benchmark import FiguresBenchmark, _KernelBenchmark
from kernel_velocity.suite.under_test import c_function

if TYPE_CHECKING:
    import torch

Cases = Sequence[str] | Mapping[str, Sequence[int]]  # names with sizes in them, or names and their sizes
Cost = Callable[..., int]  # of the sizes of a case
EAGER, COMPILE = CONTROLS
# Members of a definition that are no implementations, and what they are of the Problem.
_MEMBERS = {
    "inputs": "inputs",
    "reference": "reference_solution",
    "expected": "expected",
    "verify": "verify_result",
    "empty": "empty",
}
_NAMES_OF_A_CLASS = (*_MEMBERS, "problem")
_OF_A_CASE = ("dtype", "device")  # arguments of functions of sizes that are none
_FLOATS = ("float64", "float32", "float16", "bfloat16")  # that can be PyTorch's default dtype
_FUNCTION = re.compile(r"\s*(?P<result>[\w\s]*?)\s*\b(?P<name>\w+)\s*\((?P<arguments>.*)\)\s*;?\s*", re.DOTALL)
_WANTED = 'wanted one such as "void scale(float* out, const float* x, int n)"'
# C types that `parameters` of public problems do not have.
_SCALARS: Mapping[str, Any] = {name: kind for name, (kind, _) in C_TYPES.items()} | {
    **{"_Bool": ctypes.c_bool, "short": ctypes.c_short, "long": ctypes.c_long, "long long": ctypes.c_longlong},
    **{"unsigned": ctypes.c_uint, "unsigned int": ctypes.c_uint, "unsigned long": ctypes.c_ulong},
    **{"unsigned long long": ctypes.c_ulonglong, "ptrdiff_t": ctypes.c_ssize_t, "ssize_t": ctypes.c_ssize_t},
}
# Pointers of other types, such as __half*, are not checked. PyTorch has signed integers in place of most unsigned ones.
_POINTERS = {name: dtype for name, (_, dtype) in C_TYPES.items() if name == "uint8_t" or name[0] != "u"}


# A public problem's file ----------------------------------------------------------------------------------------------

# With a fixed list of test cases. It is read when a case is set up, so that discovery needs neither PyTorch nor what it
# imports.


class CaseInputs(tuple[Any, ...]):
    """The inputs of a case, and what `get_extra_params` adds for the native code."""

    extra: tuple[Any, ...] = ()


class FileProblem(Problem):
    """A public problem in a file. `definition.benchmark` makes subclasses, which name the file and fix the cases.

    Attributes:
        file: of the problem, with the name of the class behind a colon where it has several.
        names: what the file calls each of our cases.
        flops: of a call, by our cases, as the file says.
        outputs: names of the outputs, in order: keywords of the native function where there are several.
    """

    file: ClassVar[str | Path]
    names: ClassVar[Mapping[str, str]]
    flops: ClassVar[Mapping[str, int]] = {}
    outputs: ClassVar[Sequence[str]] = ()

    def __init__(self) -> None:
        super().__init__(name=str(self.kernel))
        self._definition: Problem | None = None
        self._writes: bool | None = None  # whether the reference writes its inputs, None before its first call

    @property
    def definition(self) -> Problem:
        """The file's own problem, on our device."""
        if self._definition is None or self._definition.device != self.device:
            path, _, name = str(self.file).partition(":")
            self._definition = load_file(Path(path), name or None, self.device, DTYPE)
        return self._definition

    def generate_test_cases(self) -> list[TestCase]:
        """Return the cases of the device."""
        return [
            TestCase(name=name, dims=(), create_inputs=partial(self._inputs, self.names[name]))
            for name in self.cases[self.device]
        ]

    def generate_sample(self) -> TestCase:
        """Return the file's sample."""
        name = self.definition.generate_sample()["name"]
        return TestCase(name=name, dims=(), create_inputs=partial(self._inputs, name))

    def _inputs(self, name: str) -> CaseInputs:
        test = self.definition.test_case(name)
        inputs = CaseInputs(test["create_inputs"]())
        inputs.extra = tuple(self.definition.get_extra_params(test))
        return inputs

    def reference_solution(self, *inputs: Any) -> Outputs:
        """Return what the file's reference computes. One that writes its inputs gets copies, and these are timed."""
        if self._writes is False:
            return self.definition.reference_solution(*inputs)
        arguments = copies(inputs)
        result = self.definition.reference_solution(*arguments)
        if self._writes is None:
            self._writes = any(value._version for value in arguments if hasattr(value, "data_ptr"))
        return result

    def expected(self, *inputs: Any) -> Outputs:
        """Return what the file's reference computes."""
        return self.definition.expected(*inputs)

    def verify_result(self, expected: Outputs, actual: Outputs) -> Verdict:
        """Return the file's verdict."""
        return self.definition.verify_result(expected, actual)

    def get_flops(self, test_case: TestCase) -> int | None:
        """Return the file's figure, as it was written down with the cases."""
        return self.flops.get(test_case["name"])

    def empty_output(self, inputs: Inputs) -> Outputs:
        """Return uninitialised outputs like those of the reference."""
        made = tuple(output.new_empty(output.shape) for output in outputs_of(self.expected(*inputs)))
        return made[0] if len(made) == 1 else made

    def native_arguments(self, inputs: Inputs) -> Inputs:
        """Return what the native code reads, in the order of its signature: inputs, then trailing arguments."""
        values = (*inputs, *getattr(inputs, "extra", ()))
        read = [entry for entry in parameters_of(self.definition) if entry["const"] or not entry["pointer"]]
        return tuple(
            value if entry["pointer"] or not hasattr(value, "data_ptr") else value.item()
            for entry, value in zip(read, values, strict=True)
        )

    def output_names(self) -> tuple[str, ...]:
        """Return the names of the outputs."""
        return tuple(self.outputs)

    def reference_source(self) -> str:
        """Return the text of the file."""
        return self.definition.reference_source()


@dataclass(frozen=True)
class Solution:
    """The function `solution` of a library as an implementation of a public problem.

    Args:
        library: a file that the build makes, such as "relu.so". The function takes what the problem's signature says,
            returns nothing, and runs on CUDA's default stream where the pointers are to a GPU.
        device: "cpu" or "cuda" where it is for that alone. None: for both.
    """

    library: str
    device: str | None = field(default=None, kw_only=True)

    def __call__(self, problem: FileProblem, _case: str, inputs: Inputs) -> Bound:
        """Return it bound to inputs."""
        function = c_function(self.library, "solution")
        function.restype = None
        output = problem.empty_output(inputs)
        read, written = iter(problem.native_arguments(inputs)), iter(outputs_of(output))
        tensors, arguments = [], []
        for entry in parameters_of(problem.definition):
            value = next(written if entry["pointer"] and not entry["const"] else read)
            tensors.append(value)
            is_tensor = hasattr(value, "data_ptr")
            arguments.append(ctypes.c_void_p(value.data_ptr()) if is_tensor else C_TYPES[entry["type"]][0](value))
        call = partial(function, *arguments)
        call.__dict__["tensors"] = tensors  # kept alive as long as the call is
        return Bound(call, lambda: output, lambda: poison(output))


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
    where = f"native({library!r}, {signature!r}, device={device!r})"
    if device not in DEVICES:
        raise ProblemError(f"{where}: {_WANTED}, and cpu or cuda")
    match, arguments = _declaration(where, signature)
    return Native(library, match["name"], arguments, match["result"].split()[-1:] == ["int"], device)


def module(name: str, *, device: str | None = None) -> Module:
    """Return a Python module of the build as an implementation: one whose `bind` checks its arguments once.

    Args:
        name: such as "mypackage.layernorm" (see `implementations.Module` for what it has).
        device: "cpu" or "cuda" where it is for that alone.

    Raises:
        ProblemError: there is no such device.
    """
    if device not in (None, *DEVICES):
        raise ProblemError(f"module({name!r}, device={device!r}): wanted cpu or cuda")
    return Module(name, device)


def _declaration(where: str, signature: str) -> tuple[re.Match[str], tuple[Mapping[str, Any], ...]]:
    """Return the parts of a C declaration, and its arguments as `Problem.parameters`."""
    match = _FUNCTION.fullmatch(signature)
    if match is None:
        raise ProblemError(f"{where}: {signature!r} is no declaration; {_WANTED}")
    try:
        arguments = c_parameters(match["arguments"])
    except ValueError as error:
        raise ProblemError(f"{where}: {error}; {_WANTED}") from None
    for argument in arguments:
        if not argument["pointer"] and argument["type"] not in _SCALARS:
            raise ProblemError(f"{where}: {argument['type']} {argument['name']} is no number; {_WANTED}")
    return match, arguments


# Definitions ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProblemFile:
    """A public problem, in place of `inputs` and `reference`. Its own reference, inputs and verification hold.

    Args:
        path: its file, with the name of the class behind a colon where it has several. It is read when a case is set
            up, so that discovery needs neither PyTorch nor what the file imports.
        names: what the file calls each case.
        outputs: names of the outputs, in order, where there are several.
    """

    path: str | Path
    names: Mapping[str, str]
    outputs: Sequence[str] = field(default=(), kw_only=True)


problem_file, solution = ProblemFile, Solution  # what a definition calls them
gpu_file, gpu_code = GpuFile, GpuCompiler


def benchmark(
    *,
    cases: Cases | Mapping[str, Cases],
    core: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    cold: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    flops: Cost | Mapping[str, int] | None = None,
    bytes: Cost | None = None,  # noqa: A002 - the field's word
    unfused_bytes: Cost | None = None,
    tolerance: str | float | accuracy.Tolerance | None = None,
    rows: Sequence[str] = (),
    signature: str | None = None,
    compiled: bool = False,
    counts: Sequence[str] = (),
    gpu: Mapping[str, Any] | None = None,
    devices: Sequence[str] = tuple(DEVICES),
    version: str = "1",
) -> Callable[[type], type[Problem]]:
    """Make a benchmark of a class with `inputs`, `reference` and implementations (see the top of this module).

    Args:
        cases: names such as "float32-64x768", of a dtype and sizes, or names with their sizes. The list is for ever: a
            new size is a new name. Where the devices differ: "cpu" and "cuda" with the cases of each.
        core: the cases of tier core, or those of each device. None: the first and the last.
        cold: the cases that are timed with cold caches, too, or those of each device. None: those of tier core.
        flops: floating-point operations of a call, from the sizes, or by case. None: no GFLOPS.
        bytes: least memory traffic of a call, from the sizes. None: the size of inputs and outputs together, where
            PyTorch can tell it without computing them.
        unfused_bytes: memory traffic of the reference's operations one by one, from the sizes. None: `kv compare`
            counts it, and pages have it where `bytes` is None, too.
        tolerance: as `kv compare --tolerance`: 1e-3 or "rtol=1e-3,atol=1e-5". None: `accuracy.tolerance_of` the dtype
            of an output, which judges its errors by its size, too.
        rows: the inputs whose rows (elements of vectors) give the same rows of every output. Later rounds of a commit
            then check one in 97 rows, drawn anew each time, and not all.
        signature: the C declaration of a solution, for `kv compare --solution`: "void solution(const float* x, float*
            out, size_t n)". Its order is that in which a `module` gets inputs, and its outputs are named by it.
        compiled: whether to time the reference under torch.compile, too.
        counts: the cases of which the CPU's C functions are counted: instructions, reads, writes, misses of simulated
            caches. Names with sizes in them, of which small ones do, because counts are exact: ["float32-64x768"].
        gpu: of which GPU code figures are read, without a GPU: an implementation's name, and `gpu_file(...)` or
            `gpu_code(...)`.
        devices: those that the kernel is timed on.
        version: raise it where old results no longer compare.

    Raises:
        ProblemError: something is missing, or does not fit.
    """

    def define(definition: type) -> type[Problem]:
        where = f"class {definition.__name__}"
        functions = {
            name: value.__func__ if isinstance(value, staticmethod) else value
            for name, value in vars(definition).items()
            if name[0] != "_"
        }
        implementations = {name: value for name, value in functions.items() if name not in _NAMES_OF_A_CLASS}
        source = functions.get("problem")
        sizes = {device: _sizes(of_device, source) for device, of_device in _by_device(cases).items()}
        cores = _by_device(core)
        chosen = {
            device: tuple(cores.get(device) or dict.fromkeys((*[*of_device][:1], *[*of_device][-1:])))
            for device, of_device in sizes.items()
        }
        named = {device: {*chosen[device], *_by_device(cold).get(device, ())} for device in sizes}
        are_cases = all(sizes.values()) and all(named[device] <= set(sizes[device]) for device in sizes)
        if not are_cases or not set(devices) <= set(sizes):
            raise ProblemError(f"{where}: wanted cases, and core and cold among them (got {cases}, {core}, {cold})")
        if isinstance(source, ProblemFile):
            base: Any = FileProblem
            if not isinstance(flops, Mapping | None):
                raise ProblemError(
                    f"{where}: cases of a problem file have no sizes; wanted flops by case (got {flops!r})"
                )
            computed = {"file": source.path, "names": source.names, "outputs": source.outputs, "flops": flops or {}}
        else:
            base, computed = (
                _Defined,
                _of_functions(where, functions)
                | {
                    "parameters": () if signature is None else _declaration(f"{where}: signature", signature)[1],
                    "sizes": {name: dims for of_device in sizes.values() for name, dims in of_device.items()},
                    "costs": {"flops": flops, "bytes": bytes, "unfused_bytes": unfused_bytes},
                    "allowed": _tolerance(tolerance),
                    "rows": tuple(rows),
                },
            )
        _check_counts(where, counts, sizes.get("cpu", {}), isinstance(source, ProblemFile))
        _check_gpu(where, gpu or {})
        module = sys.modules[definition.__module__]
        problem = type(
            definition.__name__,
            (base,),
            {
                "__module__": module.__name__,
                "__qualname__": definition.__qualname__,
                "__doc__": definition.__doc__,
                "kernel": module.__name__.rpartition(".")[2],
                "cases": {device: tuple(of_device) for device, of_device in sizes.items()},
                "core": chosen,
                "cold": _by_device(cold),
                "implementations": (EAGER, *([COMPILE] if compiled else []), *implementations),
                "functions": {
                    name: value if isinstance(value, Module | Solution) else _Implementation(name, value)
                    for name, value in implementations.items()
                },
                "counts": tuple(counts),
                "gpu": dict(gpu or {}),
                "counted": tuple(name for name, value in implementations.items() if _is_counted(value)),
                **computed,
            },
        )
        for name, value in implementations.items():
            _check(f"{where}, {name}", value, problem)
        if any(name in vars(module) for name in DEVICES.values()):
            raise ProblemError(f"{where}: a second benchmark; wanted one file for each kernel")
        for device in dict.fromkeys((*devices, *(["cpu"] if counts else ()), *(["cuda"] if gpu else ()))):
            members = {"problem": problem(), "device": device, "version": version, "__module__": module.__name__}
            kind = _KernelBenchmark if device in devices else FiguresBenchmark
            setattr(module, DEVICES[device], type(DEVICES[device], (kind,), members))
        register()
        return problem

    return define


def _of_functions(where: str, functions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the functions of a definition that are no implementations, as members of its problem."""
    for name in ("inputs", "reference"):
        if not inspect.isfunction(functions.get(name)):
            raise ProblemError(f"{where}: wanted a function {name}")
    return {of_problem: staticmethod(functions[name]) for name, of_problem in _MEMBERS.items() if name in functions}


def _by_device(values: Any) -> dict[str, Any]:
    """Return what an option says of each device. {} for None."""
    if isinstance(values, Mapping) and values and set(values) <= set(DEVICES):
        return dict(values)
    return {} if values is None else dict.fromkeys(DEVICES, values)


def _sizes(cases: Cases, source: object) -> dict[str, Sequence[int]]:
    if isinstance(cases, Mapping):
        return dict(cases)
    return {name: () if isinstance(source, ProblemFile) else dims_of(name) for name in cases}


def _check_counts(where: str, counts: Sequence[str], sizes: Mapping[str, Sequence[int]], is_file: bool) -> None:
    """Raise a ProblemError unless the names of counts are those of the CPU's cases, or have sizes in them."""
    wanted = "cases of the CPU" if is_file else "cases of the CPU, or names such as float32-4k or float32-64x64"
    for name in [counts] if isinstance(counts, str) else counts:
        try:
            is_right = isinstance(name, str) and (name in sizes or (not is_file and bool(dims_of(name))))
        except ValueError:
            is_right = False
        if not is_right or isinstance(counts, str):
            raise ProblemError(f"{where}: counts: wanted a list of {wanted} (got {counts!r})")


def _check_gpu(where: str, gpu: Mapping[str, Any]) -> None:
    """Raise a ProblemError unless each source of GPU code names architectures."""
    for name, source in gpu.items():
        architectures, is_code = getattr(source, "architectures", ()), callable(getattr(source, "function", len))
        is_list = bool(architectures) and not isinstance(architectures, str)
        if not is_code or not is_list or not all(map(_is_architecture, architectures)):
            raise ProblemError(
                f"{where}: gpu: {name}: wanted gpu_file(...) or gpu_code(FUNCTION, ...), with architectures such as "
                f'["sm_90a", "gfx942"] (got {source!r})'
            )


def _is_architecture(name: object) -> bool:
    return isinstance(name, str) and ARCHITECTURE.fullmatch(name) is not None


def _is_counted(value: Any) -> bool:
    """Return whether an implementation may be a C function of the CPU."""
    return isinstance(value, Native | Module) and value.device in (None, "cpu")


def _tolerance(tolerance: str | float | accuracy.Tolerance | None) -> accuracy.Tolerance | None:
    if tolerance is None or isinstance(tolerance, accuracy.Tolerance):
        return tolerance
    return accuracy.parse_tolerance(str(tolerance))


def register() -> None:
    """Have asv run our benchmark types (`asv_type.register`). Outside asv do nothing."""
    if "asv_runner.benchmarks" in sys.modules and "ASV_PROJECT" in os.environ:
        from kernel_velocity.suite import asv_type  # noqa: PLC0415 - imports asv_runner, which only asv needs

        asv_type.register()


class _Defined(Problem):
    """The problem of a definition."""

    sizes: ClassVar[Mapping[str, Sequence[int]]]
    inputs: ClassVar[Callable[..., Any]]
    empty: ClassVar[Callable[..., Outputs] | None] = None
    costs: ClassVar[Mapping[str, Any]]
    allowed: ClassVar[accuracy.Tolerance | None]
    rows: ClassVar[Sequence[str]]

    def __init__(self) -> None:
        super().__init__(name=str(self.kernel))
        self._length = 1  # terms of the longest sum of an element of the last inputs' outputs, or more

    def generate_test_cases(self) -> list[TestCase]:
        return [
            TestCase(name=name, dims=tuple(self.sizes[name]), create_inputs=partial(self._inputs, name))
            for name in self.cases.get(self.device, self.sizes)
        ]

    def test_case(self, name: str) -> TestCase:
        if name in self.counts:
            return TestCase(name=name, dims=tuple(self.sizes_of(name)), create_inputs=partial(self._inputs, name))
        return super().test_case(name)

    def _inputs(self, case: str) -> Inputs:
        inputs = self.inputs_of(case)
        named = {name: as_tensor(value) for name, value in zip(_names(self.reference_solution), inputs, strict=False)}
        rows = [named[name] for name in self.rows if getattr(named.get(name), "ndim", 0)]
        counts = [value.numel() // max(value.shape[0], 1) for value in rows]
        counts = counts or [value.numel() for value in named.values() if hasattr(value, "data_ptr")]
        self._length = max(counts, default=1)
        return inputs

    def inputs_of(self, case: str, device: str | None = None) -> Inputs:
        """Return the inputs of a case, or of any name with sizes in it, on a device: the problem's unless given."""
        import torch  # noqa: PLC0415 - discovery must work without torch

        where, before, dtype = device or self.device, torch.get_default_dtype(), dtype_of(case)
        generators = [torch.cuda.current_device()] if torch.cuda.default_generators else []  # none: not yet in use
        with torch.random.fork_rng(generators), torch.device(where):
            # Where no GPU is in use the CPU's alone: PyTorch formats three stacks for a GPU's, 2.5 of a draw's 8 ms
            seed = torch.manual_seed if generators or where != "cpu" else torch.default_generator.manual_seed
            seed(self.get_seed(f"{self.name}/{case}"))
            torch.set_default_dtype(getattr(torch, dtype) if dtype in _FLOATS else before)
            try:
                made = self._call(self.inputs, case, where)
            finally:
                torch.set_default_dtype(before)
        return tuple(made) if isinstance(made, tuple | list) else (made,)

    def _call(self, function: Callable[..., Any], case: str, device: str) -> Any:
        """Call a function of sizes for a case. An argument `dtype` or `device` gets the name of the case's."""
        named = dict(zip(_OF_A_CASE, (dtype_of(case), device), strict=True))
        arguments = inspect.signature(function).parameters
        return function(*self.sizes_of(case), **{name: value for name, value in named.items() if name in arguments})

    def sizes_of(self, case: str) -> Sequence[int]:
        """Return the sizes of a case, or those in any name."""
        return self.sizes[case] if case in self.sizes else dims_of(case)

    def verify_result(self, expected: Outputs, actual: Outputs) -> Verdict:
        wanted, got = ([as_tensor(value) for value in outputs_of(result)] for result in (expected, actual))
        figures = accuracy.compare_outputs(
            wanted, got, self.allowed, self.output_names(), length=self._length, by_row=bool(self.rows)
        )
        return accuracy.verdict(figures)

    def subset(self, inputs: Inputs, output: Outputs, step: int) -> tuple[Inputs, Outputs]:
        if not self.rows:
            return inputs, output
        outputs = [as_tensor(value) for value in outputs_of(output)]
        named = [*zip(_names(self.reference_solution), inputs, strict=True)]
        count = next(len(value) for name, value in named if name in self.rows)
        if any(value.shape[:1] != (count,) for value in outputs):
            return inputs, output  # of another shape than the reference's, which the check names
        rows = drawn_rows(count, step)
        picked = tuple(as_tensor(value)[rows] if name in self.rows else value for name, value in named)
        return picked, tuple(value[rows] for value in outputs) if isinstance(output, tuple | list) else outputs[0][rows]

    def get_flops(self, test_case: TestCase) -> int | None:
        flops = self.costs["flops"]
        return flops.get(test_case["name"]) if isinstance(flops, Mapping) else self._cost(flops, test_case)

    def get_bytes(self, test_case: TestCase) -> int | None:
        if self.costs["bytes"] is not None:
            return self._cost(self.costs["bytes"], test_case)
        try:
            inputs = self.inputs_of(test_case["name"], "meta")
            values = [*inputs, *outputs_of(self.reference_solution(*inputs))]
        except (ModuleNotFoundError, NotImplementedError, RuntimeError, TypeError, ValueError):
            return None  # PyTorch is missing, or an operation has to compute its result to know its size
        total: int = sum(value.nbytes for value in values if hasattr(value, "nbytes"))
        return total

    def get_unfused_bytes(self, test_case: TestCase) -> int | None:
        if self.costs["unfused_bytes"] is not None or self.costs["bytes"] is not None:
            return self._cost(self.costs["unfused_bytes"], test_case)  # discovery takes .2 s then, not 5
        return traffic(self.reference_solution, partial(self.inputs_of, test_case["name"], "meta"))

    def _cost(self, cost: Cost | None, test_case: TestCase) -> int | None:
        if cost is None:
            return None
        value: int = self._call(cost, test_case["name"], self.device)
        return value

    def empty_output(self, inputs: Inputs) -> Outputs:
        import torch  # noqa: PLC0415

        if self.empty is not None:
            return self.empty(*inputs)
        made = tuple(
            torch.empty_like(as_tensor(value), memory_format=torch.contiguous_format)
            for value in outputs_of(self.reference_solution(*inputs))
        )
        return made[0] if len(made) == 1 else made

    def native_arguments(self, inputs: Inputs) -> Inputs:
        """Return the inputs that `signature` names, in its order. Those that are no pointers there are numbers."""
        named = dict(zip(_names(self.reference_solution), inputs, strict=True))
        read = [entry for entry in self.parameters if entry["name"] in named]
        if not read:
            return inputs
        values = [(named[entry["name"]], entry["pointer"]) for entry in read]
        return tuple(
            value if is_pointer or not hasattr(value, "data_ptr") else value.item() for value, is_pointer in values
        )


def normal(count: int, seed: str, period: int = PERIOD) -> torch.Tensor:
    """Return `count` float32 normal values, equal on every machine and device for equal seeds: for `inputs`.

    Args:
        count: of values, on PyTorch's default device.
        seed: any text. The audit of a round draws others for the same text.
        period: values drawn. Larger counts repeat them: 50M would take .4 s a round.
    """
    import torch  # noqa: PLC0415 - discovery must work without torch

    generator = torch.Generator("cpu").manual_seed(Problem.get_seed(seed))
    drawn = min(count, drawn_count(period))
    values = torch.randn(drawn, generator=generator, dtype=torch.float32, device="cpu")
    return tiled(values.to(torch.empty(0).device), (count,))


def _names(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


def _size_names(problem: type[_Defined] | _Defined) -> list[str]:
    return [name for name in _names(problem.inputs) if name not in _OF_A_CASE]


def _arguments(value: Any) -> tuple[str, ...]:
    return tuple(argument["name"] for argument in value.arguments) if isinstance(value, Native) else _names(value)


def _outputs(value: Any, problem: type[_Defined] | _Defined) -> list[str]:
    """Return the arguments of an implementation that are outputs."""
    argument_names = {*_names(problem.reference_solution), *_size_names(problem)}
    return [name for name in _arguments(value) if name not in argument_names]


def _check(where: str, value: Any, problem: type[Any]) -> None:
    """Raise a ProblemError for an implementation that cannot be called."""
    if not issubclass(problem, _Defined):
        if not isinstance(value, Module | Solution):
            raise ProblemError(f"{where}: wanted solution(...) or module(...) of a problem file (got {value!r})")
        return
    if not (isinstance(value, Native | Module) or inspect.isfunction(value)):
        raise ProblemError(f"{where}: wanted a function, native(...) or module(...) (got {value!r})")
    if isinstance(value, Native):
        inputs, sizes = _names(problem.reference_solution), _size_names(problem)
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

    @property
    def device(self) -> str | None:
        """Return the device that it is for, None for both."""
        return self.value.device if isinstance(self.value, Native) else None

    def __call__(self, problem: _Defined, case: str, inputs: Inputs) -> Bound:
        """Return it bound to inputs."""
        function = self.value.load() if isinstance(self.value, Native) else self.value
        values: dict[str, Any] = dict(zip(_size_names(problem), problem.sizes_of(case), strict=True))
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
            try:
                function(*arguments)  # compiles. There is no Bound yet whose functions it could replace
            except Exception as error:
                is_name = isinstance(error, ImportError) and str(error).startswith("cannot import name")
                if isinstance(error, ModuleNotFoundError) or is_name:
                    raise NotImplementedError(f"neither this commit nor this Python has it: {error}") from None
                reason = lacking(error, has_cuda=problem.device == "cuda")  # in a language for GPUs, on a CPU
                if reason.startswith(NEEDS_CUDA):
                    raise NotImplementedError(reason) from None
                raise  # what is there is broken
            if output is None:
                return fresh(lambda: function(*arguments))
            return Bound(lambda: function(*arguments), lambda: output, lambda: poison(output))
        arguments = [_converted(problem, argument, values[argument["name"]]) for argument in self.value.arguments]
        status = function(*arguments)
        if status:
            raise KernelFailedError(f"{self.value.symbol} of {self.value.library} returned status {status}")
        c_call = partial(function, *arguments)
        return Bound(lambda: function(*arguments), lambda: output, lambda: poison(output), c_call=c_call)


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
