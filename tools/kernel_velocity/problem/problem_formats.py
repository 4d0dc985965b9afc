"""Read the four forms of public problem files, each as a `Problem` class (`problem_class`).

    Tensara         a class that derives from `problem.Problem`
    KernelBench     `Model`, `get_inputs` and `get_init_inputs` in a Python file
    GPU MODE        task.yml, and reference.py with `ref_kernel`, `generate_input`, `check_implementation`, or C++
    FlashInfer      a definition in JSON with its reference as text, and workloads, one JSON object a line

A solution of the last three forms may be a Python file of that form: its function returns its outputs (`solution_of`).
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import linecache
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import repeat
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, TypeVar, cast

from kernel_velocity import documents
from kernel_velocity.problem.accuracy import Tolerance, compare_outputs, verdict
from kernel_velocity.problem.flashinfer_inputs import (
    check_constraints,
    check_extents,
    default_axes,
    drawn,
    is_expression,
    shape_of,
)
from kernel_velocity.problem.gpu_mode_cuda import (
    SolutionLibrary,
    TaskLibrary,
    TaskSources,
    Value,
    solution_library,
    task_library,
)
from kernel_velocity.problem.problem import (
    NotHereError,
    Problem,
    ProblemError,
    TestCase,
    Verdict,
    leaves,
    outputs_of,
    rebuilt,
    redirected,
    seed_of_draw,
)
from kernel_velocity.problem.user_file import failure, files_of, has_cuda, import_file, in_one_line, line

SUFFIXES = (".py", ".yml", ".yaml", ".json")
TASK, REFERENCE = "task.yml", "reference"
HEADERS = (".h", ".hpp", ".cuh")
SEED = 42  # of KernelBench's weights and inputs
# Most that an output may differ, absolutely and relatively, as these sets state it.
KERNELBENCH = {"float32": 1e-4, "float64": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}  # float64: of its default precision
FLASHINFER = 1e-2
C_NAMES = {"float32": "float", "float64": "double", "int64": "int64_t", "int32": "int", "uint8": "uint8_t"}
C_NAMES |= {"int16": "int16_t", "int8": "int8_t", "float4_e2m1": "float4"}  # any other: the dtype's own name


def problem_class(path: Path, name: str | None = None) -> type[Problem]:
    """Return the Problem class of a public problem file, or of our own.

    Args:
        path: a Python file, a task.yml, a definition in JSON, or a folder with a task.yml or a def.py.
        name: of the class, None where there is only one.

    Raises:
        ProblemError: the file does not import, has no such class or several, or the class lacks a method.
    """
    if path.is_dir():
        inside = [path / file for file in (TASK, "def.py") if (path / file).is_file()]
        if not inside:
            raise ProblemError(f"{path}: a folder without {TASK} and def.py; name a file")
        path = inside[0]
    if not path.is_file():
        raise ProblemError(f"{path}: no such file")
    if path.suffix == ".json":
        return _flashinfer(path)
    if path.suffix in (".yml", ".yaml"):
        return _gpu_mode(path)
    if path.stem == REFERENCE and path.with_name(TASK).is_file():
        return _gpu_mode(path.with_name(TASK))
    module = import_file(path)
    if "get_inputs" in vars(module) and "Model" in vars(module):
        attributes = {"__module__": module.__name__, "module": module, "files": files_of(module)}
        return cast(type[Problem], type(path.stem, (KernelBench,), attributes))
    derived = _derived(path, module, name)
    derived.files = files_of(module)
    return derived


def _derived(path: Path, module: ModuleType, name: str | None) -> type[Problem]:
    """Return the class of a module that derives from Problem."""
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Problem) and value.__module__ == module.__name__
    ]
    leaves = {kind.__name__: kind for kind in classes if not any(kind in other.__mro__[1:] for other in classes)}
    if not leaves:
        wanted = "from problem import Problem; class Mine(Problem): ..."
        raise ProblemError(f"{path}: no class that derives from Problem; wanted {wanted}")
    if name is not None and name not in leaves:
        raise ProblemError(f"{path}: no Problem called {name!r}; there are {', '.join(leaves)}")
    if name is None and len(leaves) > 1:
        raise ProblemError(f"{path}: several Problems, {', '.join(leaves)}; name one: {path}:{next(iter(leaves))}")
    chosen = leaves[name or next(iter(leaves))]
    if lacking := sorted(chosen.__abstractmethods__):
        raise ProblemError(f"{path}: class {chosen.__name__} lacks {', '.join(lacking)}")
    return chosen


class ReturningProblem(Problem):
    """A problem of a form whose solutions are Python functions that return their outputs."""

    entry: ClassVar[str]  # what a solution's file calls such a function

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self._forms: dict[int, Any] = {}  # of the inputs as the file makes them, by how many `leaves` they have

    def _flat(self, made: Any) -> tuple[Any, ...]:
        """Return the tensors and numbers of the inputs that a file made, and keep their form."""
        inputs = leaves(made)
        # Inputs in one tuple need no form: rebuilding it would be timed
        is_flat = type(made) is tuple and [*map(id, made)] == [*map(id, inputs)]
        self._forms[len(inputs)] = () if is_flat else rebuilt(made, repeat(None))
        return inputs

    def _as_made(self, inputs: tuple[Any, ...]) -> Any:
        """Return inputs in the form in which the file makes them."""
        form = self._forms.get(len(inputs), ())
        return inputs if form == () else rebuilt(form, iter(inputs))

    def solution_of(self, function: Any) -> Callable[[Any], Any]:
        """Return a function of the inputs as the file makes them, made of a solution's `entry`. It returns the outputs.

        For None it is the file's own reference.
        """
        raise NotImplementedError

    def solution_call(self, function: Any, inputs: tuple[Any, ...]) -> Callable[[], Any]:
        """Return a solution's `entry` bound to inputs. Their form is made here, once: it is not the solution's cost."""
        return partial(self.solution_of(function), self._as_made(inputs))

    def reference_call(self, inputs: tuple[Any, ...]) -> Callable[[], Any]:
        """Return the reference bound to inputs, likewise."""
        return self.solution_call(None, inputs)

    def reference_solution(self, *inputs: Any) -> Any:
        """Return what the file's reference computes."""
        return self.solution_of(None)(self._as_made(inputs))


# KernelBench ----------------------------------------------------------------------------------------------------------


class KernelBench(ReturningProblem):
    """A `torch.nn.Module` called Model. Its weights and inputs are drawn from a fixed seed."""

    entry = "ModelNew"
    judges_elements = True
    module: ClassVar[ModuleType]

    def __init__(self) -> None:
        super().__init__(name=type(self).__name__.strip("_"))
        self.model: Any = None  # Model, once the reference is computed
        self._model_device = ""

    def generate_test_cases(self) -> list[TestCase]:
        """Return the only case: what `get_inputs` returns."""
        return [TestCase(name="get_inputs", dims=(), create_inputs=self._inputs)]

    def _inputs(self) -> tuple[Any, ...]:
        import torch  # noqa: PLC0415 - discovery must work without torch

        with torch.random.fork_rng():
            torch.manual_seed(seed_of_draw(SEED))
            values = self._flat(tuple(self.module.get_inputs()))
        return tuple(value.to(self.device) if hasattr(value, "data_ptr") else value for value in values)

    def solution_of(self, function: Any) -> Callable[[Any], Any]:
        """Return what calls a model, ModelNew or the file's Model, with weights of the same seed."""
        if function is None and self._model_device != self.device:
            self.model, self._model_device = self._made(self.module.Model), self.device
        model = self.model if function is None else self._made(function)
        return lambda made: model(*made)

    def _made(self, function: Any) -> Any:
        """Return a model, Model or ModelNew, with weights of the same seed."""
        import torch  # noqa: PLC0415 - discovery must work without torch

        arguments = self.module.get_init_inputs() if hasattr(self.module, "get_init_inputs") else []
        positional, named = (arguments, {}) if not _is_pair(arguments) else arguments
        with torch.random.fork_rng(), torch.no_grad(), redirected(self.device):
            torch.manual_seed(SEED)
            model = function(*positional, **named)
            if self.device != "cpu":  # where the weights are made; `to` fails for those without values (`sizes`)
                model = model.to(self.device)
        return model.requires_grad_(requires_grad=False)

    def verify_result(self, expected: Any, actual: Any) -> Verdict:
        """Return whether every output is right by KernelBench's tolerances."""
        dtypes = {str(output.dtype).removeprefix("torch.") for output in outputs_of(expected)}
        return _verified(expected, actual, max((KERNELBENCH.get(dtype, 0.0) for dtype in dtypes), default=0.0))


def _is_pair(arguments: Any) -> bool:
    """Return whether init inputs are a list of positional arguments and a dictionary of named ones."""
    return (
        isinstance(arguments, Sequence)
        and len(arguments) == 2
        and isinstance(arguments[0], list)
        and isinstance(arguments[1], dict)
    )


# GPU MODE -------------------------------------------------------------------------------------------------------------


def _gpu_mode(path: Path) -> type[Problem]:
    try:
        yaml = importlib.import_module("yaml")  # a node without a network may lack it
    except ModuleNotFoundError:
        raise ProblemError(f"{path}: PyYAML reads it; pip install pyyaml") from None
    try:
        task = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, yaml.YAMLError) as error:  # ValueError: not UTF-8, or a day that is none
        raise ProblemError(f"{path}: no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(task, Mapping):
        raise ProblemError(f"{path}: wanted keys such as files and tests (got {type(task).__name__})")
    if (language := task.get("lang", "py")) not in ("py", "cu"):
        raise NotHereError(f"{path}: lang is {language!r}; tasks in Python (py) and CUDA (cu) load")
    if task.get("multi_gpu"):
        raise NotHereError(f"{path}: needs several GPUs (multi_gpu)")
    for kind in ("benchmarks", "tests", "files"):
        if not isinstance(task.get(kind) or [], list):
            raise ProblemError(f"{path}: {kind}: wanted a list (got {repr(task[kind])[:60]})")
    cases = [entry for kind in ("benchmarks", "tests") for entry in task.get(kind) or ()]
    if not cases or not all(
        isinstance(entry, Mapping) and all(isinstance(key, str) for key in entry) for entry in cases
    ):
        raise ProblemError(
            f"{path}: benchmarks and tests have no case; wanted a list such as - {{size: 1024, seed: 1}}"
        )
    name = path.resolve().parent.name
    if language == "cu":
        sources = _task_sources(path, task)
        attributes = {"__module__": __name__, "sources": sources, "task": task}
        attributes |= {"files": [path.resolve(), *sources.files.values()]}
        return cast(type[Problem], type(name, (GpuModeCuda,), attributes))
    files = _task_files(path, task)
    reference = files.pop(REFERENCE)
    module = import_file(reference, files)
    if lacking := [
        name for name in ("ref_kernel", "generate_input", "check_implementation") if not hasattr(module, name)
    ]:
        if (evaluation := path.with_name("eval.py")).is_file():  # others share one, which lies above them
            raise NotHereError(
                f"{reference}: lacks {', '.join(lacking)}: an eval.py of its own judges it, {evaluation}"
            )
        raise ProblemError(f"{reference}: lacks {', '.join(lacking)}")
    files_read = [path.resolve(), *files_of(module)]
    attributes = {"__module__": module.__name__, "module": module, "task": task, "files": files_read}
    return cast(type[Problem], type(name, (GpuMode,), attributes))


def _stated_files(path: Path, task: Mapping[str, Any]) -> dict[str, Path]:
    """Return the files that a task names, by the names by which they are imported or included."""
    entries = [entry for entry in task.get("files") or () if isinstance(entry, Mapping)]
    for entry in entries:
        if not all(isinstance(entry.get(key), str) and "\0" not in entry[key] for key in ("name", "source")):
            raise ProblemError(f"{path}: files: wanted entries with name and source (got {repr(entry)[:60]})")
    stated = {entry["name"]: entry["source"] for entry in entries if not entry["source"].startswith("@")}
    return {name: (path.resolve().parent / source).resolve() for name, source in stated.items()}


def _task_sources(path: Path, task: Mapping[str, Any]) -> TaskSources:
    """Return what a task in CUDA compiles."""
    headers = {name: file for name, file in _stated_files(path, task).items() if Path(name).suffix in HEADERS}
    beside = {name: path.resolve().with_name(name) for name in ("task.h", "utils.h", "reference.cuh")}
    headers = {name: file for name, file in (beside | headers).items() if file.is_file()}
    if lacking := [name for name in beside if name not in headers]:
        raise ProblemError(f"{path}: no {lacking[0]} beside it, and none in `files`")
    config = task.get("config") or {}
    wanted: dict[str, type] = {"include_dirs": list, "defines": dict, "compile_flags": list}
    if not isinstance(config, Mapping) or not all(isinstance(config.get(k) or v(), v) for k, v in wanted.items()):
        raise ProblemError(f"{path}: config: wanted lists in include_dirs and compile_flags, an object in defines")
    folders, flags = ([str(text) for text in config.get(key) or ()] for key in ("include_dirs", "compile_flags"))
    return TaskSources(path.resolve(), headers, folders, config.get("defines"), flags)


def _task_files(path: Path, task: Mapping[str, Any]) -> dict[str, Path]:
    """Return the Python files that a task names, and those beside it, by the names of their modules."""
    folder = path.resolve().parent
    files = {name: file for name, file in _stated_files(path, task).items() if name.endswith(".py")}
    files |= {name: folder / name for name in (f"{REFERENCE}.py", "task.py", "utils.py") if (folder / name).is_file()}
    there = {Path(name).stem: file for name, file in files.items() if file.is_file()}
    if REFERENCE not in there:
        raise ProblemError(f"{path}: no reference.py beside it, and none in `files`")
    return there


class _Named(int):
    """A whole number of a case that knows its name, wherever `generate_input` puts it."""

    name: str

    @classmethod
    def of(cls, name: str, value: int) -> _Named:
        number = cls(value)
        number.name = name
        return number


class _Task(ReturningProblem):
    """A task. What `generate_input` returns is one argument there. Its `leaves` are the inputs here."""

    entry = "custom_kernel"
    task: ClassVar[Mapping[str, Any]]

    def __init__(self) -> None:
        super().__init__(name=type(self).__name__)

    def generate_test_cases(self) -> list[TestCase]:
        """Return a case per benchmark of the task, or per test where it has no benchmark."""
        specs = self.task.get("benchmarks") or self.task["tests"]
        return [self._case(spec, specs) for spec in specs]

    def generate_sample(self) -> TestCase:
        """Return the task's first test."""
        specs = self.task.get("tests") or self.task["benchmarks"]
        return self._case(specs[0], specs)

    def _case(self, spec: Mapping[str, Any], specs: Sequence[Mapping[str, Any]]) -> TestCase:
        sizes = {name: value for name, value in spec.items() if name != "seed"}
        alike = [other for other in specs if all(other.get(name) == value for name, value in sizes.items())]
        named = sizes if len(alike) == 1 and sizes else spec
        text = ", ".join(f"{name}={value}" for name, value in named.items()) or "default"
        dims = tuple(value for value in sizes.values() if type(value) is int)
        case = TestCase(name=text, dims=dims, create_inputs=partial(self._inputs, dict(spec)))
        return cast(TestCase, {**case, "sizes": sizes})

    def _inputs(self, spec: dict[str, Any]) -> tuple[Any, ...]:
        if isinstance(spec.get("seed"), int):
            spec = spec | {"seed": seed_of_draw(spec["seed"])}
        return self._flat(self._generated(spec))

    def _generated(self, spec: Mapping[str, Any]) -> Any:
        """Return what `generate_input` makes of the values of a case."""
        raise NotImplementedError

    def solution_of(self, function: Any) -> Callable[[Any], Any]:
        """Return `custom_kernel` or `ref_kernel`."""
        solve: Callable[[Any], Any] = self._reference() if function is None else function
        return solve

    def _reference(self) -> Callable[[Any], Any]:
        """Return `ref_kernel`."""
        raise NotImplementedError


class GpuMode(_Task):
    """A task in Python."""

    module: ClassVar[ModuleType]

    def __init__(self) -> None:
        super().__init__()
        self._last: tuple[Any, ...] = ()  # inputs of the last reference: check_implementation takes them
        self._result: Any = None  # the form of what it returned
        self._passed: set[str] | None = None  # numbers of a case that are inputs, too, once they are known

    def _generated(self, spec: Mapping[str, Any]) -> Any:
        return self.module.generate_input(**spec)

    def _reference(self) -> Callable[[Any], Any]:
        solve: Callable[[Any], Any] = self.module.ref_kernel
        return solve

    def expected(self, *inputs: Any) -> Any:
        """Return what `ref_kernel` computes, and keep the inputs for `verify_result`."""
        self._last = copies(inputs)
        result = self.reference_solution(*inputs)
        self._result = rebuilt(result, repeat(None))
        return result

    def get_extra_params(self, test_case: TestCase) -> list[Any]:
        """Return the whole numbers of the case but its seed, which a C solution takes behind its outputs.

        Those that `generate_input` returns, too, are among the inputs already.
        """
        sizes = cast(Mapping[str, Any], test_case)["sizes"]
        if self._passed is None:
            spec = (self.task.get("tests") or self.task["benchmarks"])[0]
            named = {name: _Named.of(name, value) if type(value) is int else value for name, value in spec.items()}
            made = leaves(self.module.generate_input(**named))
            self._passed = {value.name for value in made if isinstance(value, _Named)}
        return [value for name, value in sizes.items() if type(value) is int and name not in self._passed]

    def verify_result(self, expected: Any, actual: Any) -> Verdict:
        """Return the verdict of the task's `check_implementation` on the last inputs."""
        outputs = outputs_of(actual)
        if len(outputs) == len(leaves(self._result)):  # those of a C solution have no form
            actual = rebuilt(self._result, iter(outputs))
        verdict_ = self.module.check_implementation(self._as_made(copies(self._last)), actual)
        if isinstance(verdict_, tuple):  # older tasks return a text alone, "" for right
            right, why = verdict_
        else:
            right, why = not verdict_, verdict_
        return bool(right), {} if right else {"why": " ".join(str(why).split())}


AnyLibrary = TypeVar("AnyLibrary", TaskLibrary, SolutionLibrary)


class GpuModeCuda(_Task):
    """A task in CUDA. Its inputs and outputs lie in host memory on either device: a solution copies them itself.

    The reference is C++ of the CPU. One that calls CUDA is n/a without a device.
    """

    implementations = ("eager",)
    data_device = "cpu"
    sources: ClassVar[TaskSources]

    def __init__(self) -> None:
        super().__init__()
        self._form: Any = None  # an input that the task has made, and the last output of its reference
        self._last: tuple[Any, Any] | None = None

    def library(self) -> TaskLibrary:
        """Return the task, compiled.

        Raises:
            NotHereError: its C++ calls CUDA, and the device is "cpu". Or there is no nvcc.
        """
        return self._checked(task_library(self.sources), self.sources.task)

    def solution_library(self, path: Path) -> SolutionLibrary:
        """Return a solution in CUDA, compiled. It raises what `library` does."""
        return self._checked(solution_library(self.sources, path), path)

    def _checked(self, library: AnyLibrary, path: Path) -> AnyLibrary:
        if library.calls_cuda and self.device == "cpu":
            raise NotHereError(f"{path}: needs CUDA: it calls {library.calls_cuda}")
        return library

    def _generated(self, spec: Mapping[str, Any]) -> Any:
        library = self.library()
        self._form = library.input(spec)
        values = library.leaves("input", self._form)
        return values[0] if len(values) == 1 else values

    def input_of(self, inputs: Sequence[Any]) -> Value:
        """Return the task's own input of the values of ours."""
        return self.library().with_leaves("input", self._form, inputs)

    def solution_call(self, function: Any, inputs: tuple[Any, ...]) -> Callable[[], Any]:
        """Return `ref_kernel` bound to inputs, or a Python file's function."""
        if function is not None:
            return super().solution_call(function, inputs)
        library = self.library()  # the task's own input is made in each call: values may change between
        return lambda: library.outputs(library.reference(self.input_of(inputs)))

    def _reference(self) -> Callable[[Any], Any]:
        return lambda made: self.solution_call(None, leaves(made))()

    def expected(self, *inputs: Any) -> Any:
        """Return what `ref_kernel` computes, and keep the inputs for `verify_result`."""
        library, value = self.library(), self.input_of(inputs)
        output = library.reference(value)
        self._last = value, output
        return library.outputs(output)

    def get_extra_params(self, test_case: TestCase) -> list[Any]:
        """Return nothing: `generate_input` has made all that a solution takes."""
        return []

    def verify_result(self, expected: Any, actual: Any) -> Verdict:
        """Return the verdict of the task's `check_implementation` on the last inputs."""
        if self._last is None:
            self.expected(*self.generate_sample()["create_inputs"]())
        library, (value, output) = self.library(), cast(tuple[Any, Any], self._last)
        why = library.check(value, library.with_leaves("output", output, leaves(actual)))
        return not why, {"why": why} if why else {}


def copies(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return values with tensors cloned."""
    return tuple(value.clone() if hasattr(value, "data_ptr") else value for value in values)


# FlashInfer -----------------------------------------------------------------------------------------------------------


def _flashinfer(path: Path) -> type[Problem]:
    definition = json_object(path, text_of(path))
    wanted = ("name", "axes", "inputs", "outputs", "reference")
    if lacking := [key for key in wanted if key not in definition]:
        raise ProblemError(f"{path}: the definition lacks {', '.join(lacking)}")
    _check_definition(path, definition)
    axes = definition["axes"]
    for kind in ("inputs", "outputs"):
        for name, spec in definition[kind].items():
            shape = spec.get("shape") or ()
            unknown = [axis for axis in shape if axis not in axes and not is_expression(axis, axes)]
            if unknown or "dtype" not in spec:
                what = f"axis {unknown[0]!r}, which `axes` lacks" if unknown else "no dtype"
                raise ProblemError(f"{path}: {kind}: {name!r} has {what}")
    check_constraints(path, definition)
    run = _reference(path, definition["reference"])
    parameters = [_parameter(name, spec, const=True) for name, spec in definition["inputs"].items()]
    parameters += [_parameter(name, spec, const=False) for name, spec in definition["outputs"].items()]
    file = _workload_file(path, str(definition["name"]))
    variable = [name for name, axis in axes.items() if axis.get("type") == "var"]
    parameters += [{"name": name, "type": "size_t", "pointer": False, "const": False} for name in variable]
    attributes = {
        "__module__": __name__,
        "parameters": parameters,
        "definition": definition,
        "run": staticmethod(run),
        "variable": variable,
        "workloads": [] if file is None else _workloads(file),
        "files": [path.resolve(), *([] if file is None else [file])],
        "folder": _dataset(path),
    }
    return cast(type[Problem], type(str(definition["name"]), (FlashInfer,), attributes))


def _check_definition(path: Path, definition: Mapping[str, Any]) -> None:
    """Raise a ProblemError unless the parts of a definition have the types that are wanted."""
    name, reference = definition["name"], definition["reference"]
    tables = [definition["axes"], definition["inputs"], definition["outputs"]]
    is_sound = (
        isinstance(name, str)
        and name.isprintable()
        and "/" not in name
        and isinstance(reference, str)
        and all(
            isinstance(table, dict) and all(isinstance(entry, dict) for entry in table.values()) for table in tables
        )
    )
    if not is_sound:
        wanted = "texts in name and reference, objects of objects in axes, inputs and outputs"
        raise ProblemError(f"{path}: no definition; wanted {wanted}")
    for axis, entry in definition["axes"].items():
        if "value" in entry and not _is_extent(entry["value"]):
            raise ProblemError(f"{path}: axes: {axis}: value: wanted a whole number (got {repr(entry['value'])[:60]})")
    for kind in ("inputs", "outputs"):
        for key, entry in definition[kind].items():
            shape, dtype = entry.get("shape"), entry.get("dtype", "")
            is_list = isinstance(shape, list) and all(type(axis) in (str, int) for axis in shape)
            if not (is_list or (shape is None and "shape" in entry)) or not isinstance(dtype, str):
                wanted = "a list of axes in shape, or null for a number, and a text in dtype"
                raise ProblemError(f"{path}: {kind}: {key}: wanted {wanted}")
    constraints = definition.get("constraints") or []
    if not isinstance(constraints, list) or not all(isinstance(text, str) for text in constraints):
        raise ProblemError(f"{path}: constraints: wanted a list of texts (got {repr(constraints)[:60]})")


def _is_extent(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 48


def json_object(path: Path, text: str, number: int = 0) -> dict[str, Any]:
    """Return an object in JSON. ProblemError: it is none, with the line, `number` where the text is that line."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProblemError(f"{path}:{number or getattr(error, 'lineno', 1)}: no JSON: {error}") from None
    if not isinstance(value, dict):
        raise ProblemError(f"{path}: wanted an object in JSON (got {type(value).__name__})")
    return value


def _parameter(name: str, spec: Mapping[str, Any], *, const: bool) -> dict[str, Any]:
    is_tensor = not const or spec.get("shape") is not None
    kind = C_NAMES.get(spec["dtype"], spec["dtype"])
    if not is_tensor and kind in ("float16", "bfloat16"):
        kind = "float"  # a number of Python, which C cannot take as 16 bits
    return {"name": name, "type": kind, "pointer": is_tensor, "const": const}


def _reference(path: Path, text: str) -> Callable[..., Any]:
    """Return `run` of a reference in Python text."""
    filename = f"<{path}: reference>"
    linecache.cache[filename] = (
        len(text),
        None,
        text.splitlines(keepends=True),
        filename,
    )  # for torch.compile and inspect
    name = f"kv_reference_{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    sys.modules[name] = module = ModuleType(name)  # torch.compile looks it up
    names = vars(module)
    try:
        exec(compile(text, filename, "exec"), names)
    except (Exception, SystemExit) as error:
        where = line(error, Path(filename)).rstrip(":")
        raise failure(f"{path}: line {where or '?'} of its reference", "fails", error, has_cuda=has_cuda()) from error
    if not callable(names.get("run")):
        raise ProblemError(f"{path}: its reference has no function `run`")
    return cast(Callable[..., Any], names["run"])


def _dataset(path: Path) -> Path:
    """Return the folder that paths of workloads are relative to: above `definitions`, else the definition's."""
    above = [parent.parent for parent in path.resolve().parents if parent.name == "definitions"]
    return above[0] if above else path.resolve().parent


def _workload_file(path: Path, name: str) -> Path | None:
    """Return the file with a definition's workloads: beside it, or below `workloads` of its data set."""
    inside = path.resolve().parent.name
    candidates = [
        path.with_suffix(".jsonl"),
        *(_dataset(path) / "workloads" / op / f"{name}.jsonl" for op in (inside, "")),
    ]
    return next((candidate.resolve() for candidate in candidates if candidate.is_file()), None)


def _workloads(file: Path) -> list[Mapping[str, Any]]:
    lines = enumerate(text_of(file).splitlines(), 1)
    objects = [(number, json_object(file, text, number)) for number, text in lines if text.strip()]
    workloads = [(number, value.get("workload", value)) for number, value in objects]
    for number, workload in workloads:
        if not isinstance(workload, Mapping) or "axes" not in workload:
            raise ProblemError(f"{file}:{number}: a workload without `axes`")
        if not isinstance(workload["axes"], dict) or not all(map(_is_extent, workload["axes"].values())):
            raise ProblemError(f"{file}:{number}: axes: wanted an object of whole numbers")
        sources = workload.get("inputs", {})
        if not isinstance(sources, dict) or not all(_is_source(source) for source in sources.values()):
            raise ProblemError(f"{file}:{number}: inputs: wanted an object of objects with a type")
    return [workload for _, workload in workloads]


def text_of(path: Path) -> str:
    """Return the text of a file. ProblemError: it has none."""
    try:
        return documents.text_of(path)
    except documents.DamagedError as error:
        raise ProblemError(f"{path}: {error}") from None


_OF_SOURCE: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    "scalar": {"value": (int, float)},
    "safetensors": {"path": str, "tensor_key": str},
}


def _is_source(source: object) -> bool:
    """Return whether an input of a workload says where it comes from. An unknown type is named when it is made."""
    if not isinstance(source, dict) or not isinstance(source.get("type"), str):
        return False
    return all(isinstance(source.get(key), kind) for key, kind in _OF_SOURCE.get(source["type"], {}).items())


class FlashInfer(ReturningProblem):
    """A definition, its reference `run` and its workloads."""

    entry = "run"
    judges_elements = True
    definition: ClassVar[Mapping[str, Any]]
    run: ClassVar[Callable[..., Any]]
    variable: ClassVar[Sequence[str]]
    workloads: ClassVar[Sequence[Mapping[str, Any]]]
    folder: ClassVar[Path]

    def __init__(self) -> None:
        super().__init__(name=str(self.definition["name"]))

    def generate_test_cases(self) -> list[TestCase]:
        """Return a case per workload. Without workloads one, of `default_axes`."""
        workloads = self.workloads or [{"axes": default_axes(self.definition)}]
        return [self._case(workload, workloads) for workload in workloads]

    def generate_sample(self) -> TestCase:
        """Return the workload with the smallest axes."""
        return min(self.generate_test_cases(), key=lambda case: math.prod(case["dims"]))

    def _case(self, workload: Mapping[str, Any], workloads: Sequence[Mapping[str, Any]]) -> TestCase:
        axes = workload["axes"]
        if lacking := [name for name in self.variable if name not in axes]:
            raise ProblemError(f"{self.name}: workload {workload.get('uuid', axes)} has no axis {lacking[0]!r}")
        text = ", ".join(f"{name}={axes[name]}" for name in self.variable) or "fixed"
        if sum(other["axes"] == axes for other in workloads) > 1:
            text += f", {workload.get('uuid', '')}"[:40]
        create = partial(self._inputs, workload, text)
        return TestCase(name=text, dims=tuple(axes[name] for name in self.variable), create_inputs=create)

    def _extents(self, axes: Mapping[str, int]) -> dict[str, int]:
        """Return the extents of all axes, checked against the definition's constraints."""
        extents = {**self._constants(), **axes}
        check_extents(self.name, self.definition, extents)
        return extents

    def stated_sizes(self, test_case: TestCase) -> tuple[int, int] | None:
        """Return the bytes of inputs and outputs by the definition. None for a dtype that this torch lacks."""
        import torch  # noqa: PLC0415 - discovery must work without torch

        extents = {**self._constants(), **dict(zip(self.variable, test_case["dims"], strict=True))}
        tensors = [spec for spec in self.definition["inputs"].values() if spec["shape"]]
        kinds = [tensors, list(self.definition["outputs"].values())]
        if not all(hasattr(torch, spec["dtype"]) for specs in kinds for spec in specs):
            return None
        inputs, outputs = (
            sum(
                math.prod(shape_of(spec["shape"] or (), extents)) * getattr(torch, spec["dtype"]).itemsize
                for spec in specs
            )
            for specs in kinds
        )
        return inputs, outputs

    def _constants(self) -> dict[str, int]:
        return {name: axis["value"] for name, axis in self.definition["axes"].items() if "value" in axis}

    def _inputs(self, workload: Mapping[str, Any], text: str) -> tuple[Any, ...]:
        import torch  # noqa: PLC0415 - discovery must work without torch

        extents, sources = self._extents(workload["axes"]), workload.get("inputs", {})
        draw = torch.Generator().manual_seed(self.get_seed(f"{self.name}/{text}"))
        inputs = []
        for name in self.definition["inputs"]:
            source = sources.get(name, {"type": "random"})
            if source["type"] == "scalar":
                inputs.append(source["value"])
            elif source["type"] == "safetensors":
                inputs.append(self._stored(source["path"], source["tensor_key"]))
            elif source["type"] != "random":
                types = "random, scalar, safetensors"
                raise ProblemError(f"{self.name}: input {name!r} is of type {source['type']!r}; there are {types}")
            else:
                value = drawn(name, self.definition, extents, draw, by_meaning=not self.workloads)
                inputs.append(value.to(self.device) if hasattr(value, "data_ptr") else value)
        return tuple(inputs)

    def _stored(self, path: str, key: str) -> Any:
        try:
            load = importlib.import_module("safetensors.torch").load_file
        except ModuleNotFoundError:
            raise NotHereError(f"{self.name}: {path} needs the module safetensors, which is not installed") from None
        file = self.folder / path
        if not file.is_file():
            raise NotHereError(f"{self.name}: needs {file} of the data set, from which the workload takes {key!r}")
        try:
            tensors = load(str(file))
        except (importlib.import_module("safetensors").SafetensorError, ValueError) as error:
            raise ProblemError(f"{file}: no safetensors: {in_one_line(error)}") from None
        if key not in tensors:
            raise ProblemError(f"{file}: no tensor {key!r}; there are {', '.join(tensors)}")
        return tensors[key].to(self.device)

    def _in_order(self, result: Any) -> Any:
        import torch  # noqa: PLC0415 - discovery must work without torch

        outputs = self.definition["outputs"]
        if isinstance(result, Mapping):
            result = tuple(result[name] for name in outputs)
        if isinstance(result, int | float):  # of an output without a shape
            (spec,) = outputs.values()
            result = torch.tensor(result, dtype=getattr(torch, spec["dtype"]), device=self.device)
        return result[0] if isinstance(result, list | tuple) and len(result) == 1 else result

    def solution_of(self, function: Any) -> Callable[[Any], Any]:
        """Return `run` of the reference or of a solution. One that takes its outputs, too, writes new ones.

        Several outputs are returned in the order of the definition.
        """
        run = type(self).run if function is None else function
        arguments = len(self.definition["inputs"]) + len(self.definition["outputs"])
        if function is None or not inspect.isfunction(run) or len(inspect.signature(run).parameters) != arguments:
            return lambda inputs: self._in_order(run(*inputs))

        def writing(inputs: Any) -> Any:
            outputs = self._outputs(inputs)
            run(*inputs, *outputs)
            return outputs[0] if len(outputs) == 1 else outputs

        return writing

    def _outputs(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Return uninitialised outputs, of the extents that the inputs have."""
        import torch  # noqa: PLC0415 - discovery must work without torch

        extents = self._constants()
        for spec, value in zip(self.definition["inputs"].values(), inputs, strict=True):
            extents |= dict(zip(spec["shape"] or (), getattr(value, "shape", ()), strict=False))
        return tuple(
            torch.empty(shape_of(spec["shape"] or (), extents), dtype=getattr(torch, spec["dtype"]), device=self.device)
            for spec in self.definition["outputs"].values()
        )

    def get_extra_params(self, test_case: TestCase) -> list[Any]:
        """Return the variable axes, which a C solution takes behind its outputs."""
        return list(test_case["dims"])

    def verify_result(self, expected: Any, actual: Any) -> Verdict:
        """Return whether every output is right by FlashInfer's default tolerance. float8 is compared as float32."""
        return _verified(_wide(expected), _wide(actual), FLASHINFER, by_larger=True)


def _wide(outputs: Any) -> Any:
    """Return outputs with those of a dtype that has no arithmetic, such as float8, as float32."""
    wide = tuple(
        value.float() if "float8" in str(getattr(value, "dtype", "")) else value for value in outputs_of(outputs)
    )
    return wide[0] if len(wide) == 1 else wide


def _verified(expected: Any, actual: Any, allowed: float, *, by_larger: bool = False) -> Verdict:
    """Return the verdict on outputs that may differ by so much, absolutely and relatively. Integers may not."""
    source = f"{allowed:g}, as the set states it"
    tolerance = Tolerance(rtol=allowed, atol=allowed, source=source, by_larger=by_larger)
    return verdict(compare_outputs(expected, actual, tolerance))
