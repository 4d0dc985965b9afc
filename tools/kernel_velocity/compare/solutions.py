"""A user's solution of a problem, bound to inputs: a shared library, or a Python file, as public challenges take them.

    extern "C" void solution(pointers..., scalars...)       in a library, called through ctypes
    def solution(*inputs, *outputs, *scalars)               in a Python file, which writes its outputs
    {"definition": ..., "spec": ..., "sources": [...]}      in FlashInfer's JSON

Both get their arguments in the order of the problem's `parameters`, the trailing ones from `get_extra_params`. They get
no stream and return no status. On a GPU they run on the default stream. A library may mark a region of itself to be
timed (include/kernel_velocity.h). A Python file may also have what solutions of
the problem's own form have, `ModelNew`, `custom_kernel` or `run`: a function that returns its outputs.

Each output lies between guard bytes, which reveal a solution that writes outside of it. Without them such a solution
would pass, and damage other tensors or the allocator's memory.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from numbers import Real
from pathlib import Path, PurePosixPath
from typing import Any, cast

from kernel_velocity.engine.timers import Call, RegionState, RegionTimer
from kernel_velocity.errors import UsageError
from kernel_velocity.files import SCRATCH, lasting_folder
from kernel_velocity.problem.implementations import Bound, fresh, poison
from kernel_velocity.problem.problem import C_TYPES, Inputs, NotHereError, Problem, ProblemError, outputs_of
from kernel_velocity.problem.problem_file import dtype_of, fits, parameters_of
from kernel_velocity.problem.problem_formats import (
    FlashInfer,
    GpuModeCuda,
    ReturningProblem,
    copies,
    json_object,
    text_of,
)
from kernel_velocity.problem.user_file import failure, has_cuda, import_file

# Binds an implementation to inputs: problem, name of a test case, its inputs. It raises NotImplementedError where the
# implementation does not exist here (n/a), UsageError where the user's files do not fit together.
Bind = Callable[[Problem, str, Inputs], Bound]

SOLUTION = "solution"
signature_of = cache(parameters_of)  # of a problem without `parameters` it computes a sample
GUARD = 4096  # bytes: a page, so an output is aligned as it would be without guards
MARK = 0xA5


def binder(path: Path, problem: Problem) -> Bind:
    """Return what binds a solution to the inputs of a case.

    Args:
        path: a shared library (.so), a Python file (.py), FlashInfer's JSON, or CUDA (.cu) of a GPU MODE task in CUDA.
        problem: what it solves.

    Raises:
        UsageError: no such file, it does not load, or has no function `solution`. The binder raises it where the
            solution does not take the arguments of a case.
    """
    _check_file(path, problem)
    if path.suffix == ".cu" and isinstance(problem, GpuModeCuda):
        return _task_solution(path, problem)
    prepare: Prepare
    if path.suffix == ".so":
        prepare = _library(path, problem)
    elif isinstance(problem, FlashInfer) and path.suffix == ".json":
        solution = load_solution(path, problem)
        if not solution.writes:
            return _returning(problem, solution.function)
        prepare = _writing(solution.function, len(problem.definition["inputs"]) + len(problem.definition["outputs"]))
    else:
        module = import_file(path)
        if isinstance(problem, ReturningProblem) and hasattr(module, problem.entry):
            return _returning(problem, getattr(module, problem.entry))
        prepare = _python(path, getattr(module, SOLUTION, None), problem)

    def bind(problem: Problem, case: str, inputs: Inputs) -> Bound:
        check_dtypes(problem, case, inputs)
        outputs = [Guarded.like(output) for output in new_outputs(problem, case, inputs)]
        tensors = [guarded.output for guarded in outputs]
        arguments = ordered(problem, case, inputs, tensors)
        call, call_with = prepare(problem, case, arguments)
        addresses = {id(tensor) for tensor in tensors}
        written = [(position, value) for position, value in enumerate(arguments) if id(value) in addresses]
        empty_like = importlib.import_module("torch").empty_like

        def function() -> None:
            values = [*arguments]
            for position, output in written:
                values[position] = empty_like(output)
            call_with(values)

        return replace(_bound(call, problem, outputs, function), timer=_region_timer(path))

    return bind


def _check_file(path: Path, problem: Problem) -> None:
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    if path.suffix not in (".py", ".so", ".json") and not (path.suffix == ".cu" and isinstance(problem, GpuModeCuda)):
        raise UsageError(
            f"{path}: must be a shared library (.so), a Python file (.py) or FlashInfer's JSON; compile C++ by "
            f"`c++ -O3 -shared -fPIC {path.name} -o {path.stem}.so`, CUDA by "
            f"`nvcc -O3 -shared -Xcompiler -fPIC {path.name} -o {path.stem}.so`"
        )
    if path.suffix == ".json" and not isinstance(problem, FlashInfer):
        raise UsageError(f"{path}: solves a definition of FlashInfer, and {problem.name} is none")


class Solution:
    """What binds a solution to the inputs of a case. Its file, a user's code, is loaded when it is first wanted.

    Args:
        path, problem: as `binder` takes them.
    """

    def __init__(self, path: Path, problem: Problem) -> None:
        self._path, self._problem = path, problem
        self._bind: Bind | None = None
        _check_file(path, problem)

    def load(self) -> Bind:
        """Load it once. It raises what `binder` does."""
        self._bind = self._bind or binder(self._path, self._problem)
        return self._bind

    def __call__(self, problem: Problem, case: str, inputs: Inputs) -> Bound:
        """Bind it."""
        return self.load()(problem, case, inputs)


# Problem, case, arguments -> the call on these, and a function that calls with others of the same kinds, as users do
Prepare = Callable[[Problem, str, Sequence[Any]], tuple[Call, Callable[[Sequence[Any]], Any]]]


def _returning(problem: ReturningProblem, function: Any) -> Bind:
    """Return what binds a solution that returns its outputs. One of a problem that works in place gets copies."""

    def bind(_problem: Problem, _case: str, inputs: Inputs) -> Bound:
        def bound(arguments: Inputs) -> Bound:
            return fresh(problem.solution_call(function, arguments))

        return restored(inputs, bound) if problem.in_place else bound(inputs)

    return bind


def _task_solution(path: Path, problem: GpuModeCuda) -> Bind:
    """Return what binds a solution in CUDA of a GPU MODE task in CUDA. It is compiled here, with the task.

    Raises:
        NotHereError: it calls CUDA, and the device is "cpu". Or there is no nvcc.
    """
    task, library = problem.library(), problem.solution_library(path)
    timer = RegionTimer(RegionState.in_dll(ctypes.CDLL(str(library.path)), "kv_region"))

    def bind(_problem: Problem, _case: str, inputs: Inputs) -> Bound:
        # Its own input is made in each call, outside the region that is timed: values of `inputs` may change between
        return replace(fresh(lambda: task.outputs(library.solve(problem.input_of(inputs)))), timer=timer)

    return bind


def restored(inputs: Inputs, bind: Callable[[Inputs], Bound]) -> Bound:
    """Bind what overwrites its inputs to copies, which are restored for verifying, not while timed."""
    written = copies(inputs)
    bound = bind(written)

    def restore() -> None:
        bound.poison()
        for copy, original in zip(written, inputs, strict=True):
            if hasattr(copy, "data_ptr"):
                copy.copy_(original)

    return replace(bound, poison=restore)


def _python(path: Path, function: Any, problem: Problem) -> Prepare:
    if not callable(function):
        other = f", or {problem.entry} of the problem's own form" if isinstance(problem, ReturningProblem) else ""
        raise UsageError(f"{path}: no function `{SOLUTION}`; wanted def {SOLUTION}(*inputs, *outputs, *scalars){other}")
    signature = inspect.signature(function)

    def prepare(problem: Problem, case: str, arguments: Sequence[Any]) -> Any:
        try:
            signature.bind(*arguments)
        except TypeError as error:
            names = ", ".join(entry["name"] for entry in signature_of(problem))
            raise UsageError(
                f"{path}: {SOLUTION} does not take the {len(arguments)} arguments of {problem.name} ({names}): {error}"
            ) from None
        return partial(function, *arguments), lambda values: function(*values)

    return prepare


def _writing(function: Callable[..., Any], count: int) -> Prepare:
    """Return what prepares a function that takes inputs and outputs, the first `count` arguments of a solution."""
    return lambda _problem, _case, arguments: (
        partial(function, *arguments[:count]),
        lambda values: function(*values[:count]),
    )


def _library(path: Path, problem: Problem) -> Prepare:
    try:
        library = ctypes.CDLL(str(path.resolve()))
        function = library[SOLUTION]
    except OSError as error:
        raise UsageError(f"{path}: the library does not load: {error}") from None
    except AttributeError:
        raise UsageError(f'{path}: no function `{SOLUTION}`; wanted extern "C" {c_signature(problem)}') from None
    function.restype = None

    def prepare(problem: Problem, case: str, arguments: Sequence[Any]) -> Any:
        entries = signature_of(problem)
        if len(entries) != len(arguments):
            raise UsageError(
                f"{path}: {problem.name} has {len(arguments)} arguments in case {case!r} (inputs, outputs and "
                f"get_extra_params), but its signature {len(entries)}: {c_signature(problem)}"
            )
        converted = [_as_c(problem, *pair) for pair in zip(entries, arguments, strict=True)]
        call = partial(function, *converted)
        call.__dict__["tensors"] = arguments  # kept alive as long as the call is
        whole = library[SOLUTION]  # another than the call's: types make calls with converted arguments slower
        whole.argtypes, whole.restype = [type(value) for value in converted], None
        pointers = [position for position, entry in enumerate(entries) if entry["pointer"]]

        def call_with(values: Sequence[Any]) -> None:
            raw: list[Any] = [*converted]
            for position in pointers:
                raw[position] = values[position].data_ptr()
            whole(*raw)

        return call, call_with

    return prepare


def _region_timer(path: Path) -> RegionTimer | None:
    """Return the timer of a library that times a region of itself (include/kernel_velocity.h), None for any other."""
    if path.suffix != ".so":
        return None
    try:
        return RegionTimer(RegionState.in_dll(ctypes.CDLL(str(path.resolve())), "kv_region"))
    except ValueError:  # no such symbol
        return None


def c_signature(problem: Problem) -> str:
    """Return the C declaration of a problem's solution: `void solution(const float* a, ...)`."""
    parts = (
        f"{'const ' if entry['const'] and entry['pointer'] else ''}{entry['type']}{'*' if entry['pointer'] else ''} "
        f"{entry['name']}"
        for entry in signature_of(problem)
    )
    return f"void {SOLUTION}({', '.join(parts)})"


def _as_c(problem: Problem, entry: Mapping[str, Any], value: Any) -> Any:
    """Return an argument as its C type: of a tensor its address, or its number where the type is no pointer."""
    if entry["type"] not in C_TYPES:
        raise UsageError(f"{problem.name}: `{entry['name']}` is of C type {entry['type']!r}, which is not known")
    is_tensor, kind = hasattr(value, "data_ptr"), C_TYPES[entry["type"]][0]
    try:
        if entry["pointer"]:
            return ctypes.c_void_p(value.data_ptr())
        return kind(value.item() if is_tensor else value)
    except (TypeError, AttributeError):
        wanted = "a tensor" if entry["pointer"] else kind.__name__
        raise UsageError(
            f"{problem.name}: argument `{entry['name']}` is {type(value).__name__}, the signature says {wanted}"
        ) from None


def check_dtypes(problem: Problem, case: str, inputs: Inputs) -> None:
    """Raise NotImplementedError (n/a) where a tensor of a case is not of the type that `parameters` says."""
    declared = [entry for entry in problem.parameters if entry["pointer"] and entry["const"]]
    tensors = [value for value in problem.native_arguments(inputs) if hasattr(value, "data_ptr")]
    for entry, tensor in zip(declared, tensors, strict=False):  # another number of them is refused when they are bound
        if not fits(entry, tensor):
            raise NotImplementedError(
                f"case {case} has `{entry['name']}` of {dtype_of(tensor)}; a solution takes {entry['type']}*: "
                f"{c_signature(problem)}"
            )


def ordered(problem: Problem, case: str, inputs: Inputs, outputs: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments of a solution in its order: inputs, outputs, what `get_extra_params` adds."""
    native = problem.native_arguments(inputs)
    read, written = iter((*native, *_trailing(problem, case, native))), iter(outputs)
    arguments: list[Any] = []
    for entry in signature_of(problem):
        arguments.extend(islice(written if entry["pointer"] and not entry["const"] else read, 1))
    return (*arguments, *written, *read)


def _trailing(problem: Problem, case: str, native: Inputs) -> list[Any]:
    """Return what `get_extra_params` adds, without numbers that are inputs, too.

    These are known where it returns more than `parameters` has behind the inputs, and the test case has those by name.
    """
    test = problem.test_case(case)
    extra = problem.get_extra_params(test)
    names = [entry["name"] for entry in signature_of(problem) if not entry["pointer"] or entry["const"]][len(native) :]
    values = [cast(Mapping[str, Any], test).get(name) for name in names]
    numbers = [value for value in (*native, *values) if isinstance(value, Real)]
    is_repeated = len(names) < len(extra) and all(isinstance(value, Real) and value in numbers for value in extra)
    return values if is_repeated and None not in values else extra


def new_outputs(problem: Problem, case: str, inputs: Inputs) -> tuple[Any, ...]:
    """Return outputs for a case: uninitialised if the problem has `empty_output`, else those of its reference.

    Raises:
        UsageError: their number or types are not those of `parameters`.
    """
    try:
        outputs = outputs_of(problem.empty_output(inputs))
    except NotImplementedError:
        outputs = outputs_of(problem.expected(*inputs))
    declared = [entry for entry in problem.parameters if entry["pointer"] and not entry["const"]]
    where = f"{problem.name}: case {case!r}"
    if declared and len(outputs) != len(declared):
        names = ", ".join(entry["name"] for entry in declared)
        raise UsageError(f"{where}: the reference has {len(outputs)} outputs, `parameters` {len(declared)}: {names}")
    for output, entry in zip(outputs, declared, strict=False):
        if not fits(entry, output):
            raise UsageError(
                f"{where}: output `{entry['name']}` is {dtype_of(output)}, `parameters` says {entry['type']}*"
            )
    return outputs


@dataclass(frozen=True)
class Guarded:
    """An output, and guard bytes on both sides, which nothing may write."""

    output: Any
    guards: Mapping[str, Any]  # "before", "after"

    @classmethod
    def like(cls, tensor: Any) -> Guarded:
        """Return an uninitialised contiguous tensor of the shape, dtype and device of another, between guards."""
        end = GUARD + tensor.numel() * tensor.element_size()
        memory = tensor.new_full((end + GUARD,), MARK, dtype=importlib.import_module("torch").uint8)
        output = memory[GUARD:end].view(tensor.dtype).view(tensor.shape)
        return cls(output, {"before": memory[:GUARD], "after": memory[end:]})

    def overwritten(self) -> str:
        """Return how many guard bytes were overwritten: "8 bytes after it", or "" for none."""
        counts = {side: int((guard != MARK).sum()) for side, guard in self.guards.items()}
        return ", ".join(f"{count} bytes {side} it" for side, count in counts.items() if count)


def _bound(call: Call, problem: Problem, guarded: Sequence[Guarded], function: Call) -> Bound:
    """Return a call with its outputs: `output()` gives the tensor, or all of them where there are several."""
    outputs = tuple(output.output for output in guarded)
    names = problem.output_names() or tuple(f"output {number}" for number in range(1, len(outputs) + 1))

    def written_outside() -> str:
        texts = zip(names, (output.overwritten() for output in guarded), strict=True)
        return "; ".join(f"{name}: {text}" for name, text in texts if text)

    result = outputs[0] if len(outputs) == 1 else outputs
    return Bound(call, lambda: result, lambda: poison(outputs), written_outside, function)


# FlashInfer's JSON ----------------------------------------------------------------------------------------------------

#   {"name", "definition", "author", "spec": {"language", "target_hardware", "entry_point": "main.py::run", ...},
#    "sources": [{"path": "main.py", "content": "..."}]}
#
# The keys are those of FlashInfer-Bench's Solution (docs/flashinfer-trace/solution of its repository). Python, Triton
# and TileLang are imported. C++ and CUDA are compiled with the binding that `spec` names, `tvm-ffi` unless it says
# `torch`.


IMPORTED, COMPILED = ("python", "triton", "tilelang"), ("cpp", "cuda")
_CPP, _CUDA = (".cpp", ".cc", ".cxx", ".c"), (".cu",)


@dataclass(frozen=True)
class FlashInferSolution:
    """The function of a solution. `writes`: it takes its outputs behind its inputs, and returns nothing."""

    function: Callable[..., Any]
    writes: bool


def load_solution(path: Path, problem: FlashInfer) -> FlashInferSolution:
    """Return the solution of a file, imported or compiled.

    Args:
        path: of the JSON. problem: what it must solve, on its device.

    Raises:
        ProblemError: it is of another form, solves another definition, or its code fails.
        NotHereError: it needs CUDA, or a module that is not installed.
    """
    solution = json_object(path, text_of(path))
    wanted = '{"definition": "...", "spec": {"language", "entry_point"}, "sources": [{"path", "content"}]}'
    spec, sources = solution.get("spec"), _sources(solution.get("sources"))
    if sources is None or not isinstance(spec, Mapping):
        raise ProblemError(f"{path}: no solution of FlashInfer; wanted {wanted}")
    if (solved := solution.get("definition")) != problem.name:
        raise ProblemError(f"{path}: solves the definition {solved!r}, the problem is {problem.name!r}")
    language, entry = str(spec.get("language")).casefold(), str(spec.get("entry_point"))
    file, _, function = entry.rpartition("::")
    file = file or next(iter(sources))  # older ones name the function alone
    if language not in (*IMPORTED, *COMPILED) or file not in sources:
        languages = ", ".join((*IMPORTED, *COMPILED))
        raise ProblemError(
            f"{path}: spec: language is {language!r}, entry_point {entry!r}; wanted one of {languages}, "
            f"and FILE::FUNCTION with a file among the sources: {', '.join(sources)}"
        )
    if language == "cuda" and problem.device == "cpu":
        raise NotHereError(f"{path}: needs CUDA: the solution is in CUDA")
    folder = _written(path, sources)
    if language in IMPORTED:
        module: Any = import_file(folder / file)
    else:
        module = _compiled(path, folder, list(sources), spec, problem.device)
    if not hasattr(module, function):
        raise ProblemError(f"{path}: {file} has no function {function!r}")
    return FlashInferSolution(getattr(module, function), bool(spec.get("destination_passing_style", True)))


def _sources(entries: object) -> dict[str, str] | None:
    """Return the texts of the sources by their paths, None where they are no list of files inside a folder."""
    if not isinstance(entries, list) or not entries:
        return None
    sources: dict[str, str] = {}
    for entry in entries:
        path, content = (entry.get("path"), entry.get("content")) if isinstance(entry, Mapping) else (None, None)
        if not isinstance(path, str) or not isinstance(content, str) or "\0" in path:
            return None
        parts = PurePosixPath(path).parts
        if not parts or parts[0] == "/" or ".." in parts:
            return None
        sources[path] = content
    return sources


def _written(path: Path, sources: Mapping[str, str]) -> Path:
    number = hashlib.sha256(repr((str(path.resolve()), sorted(sources.items()))).encode()).hexdigest()[:16]
    # The processes of a comparison share a folder, so that what one has compiled the next one loads
    shared = os.environ.get(SCRATCH)
    folder = Path(shared, f"kv-solution-{number}") if shared else lasting_folder("kv-solution-")
    for name, content in sources.items():
        if (folder / name).exists():
            continue
        try:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content, encoding="utf-8")
        except (OSError, UnicodeEncodeError) as error:
            raise ProblemError(f"{path}: source {name!r} cannot be written: {error}") from None
    return folder


def _compiled(path: Path, folder: Path, names: Sequence[str], spec: Mapping[str, Any], device: str) -> Any:
    """Return the module of C++ and CUDA sources, with the functions that its binding exports."""
    name = f"kv_solution_{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"
    cpp, cuda = ([str(folder / source) for source in names if source.endswith(kinds)] for kinds in (_CPP, _CUDA))
    folders = {"extra_include_paths": [str(folder)], "build_directory": str(folder)}
    try:
        if spec.get("binding") == "torch":
            extension = importlib.import_module("torch.utils.cpp_extension")
            return extension.load(name=name, sources=[*cpp, *cuda], with_cuda=device == "cuda", **folders)
        ffi = importlib.import_module("tvm_ffi")
        libraries = ["-lcuda", "-lcublas"] if cuda else []
        build = importlib.import_module("tvm_ffi.cpp").build
        return ffi.load_module(
            str(build(name=name, cpp_files=cpp, cuda_files=cuda, extra_ldflags=libraries, **folders))
        )
    except (Exception, SystemExit) as error:
        raise failure(f"{path}:", "its sources do not compile", error, has_cuda=has_cuda()) from error
