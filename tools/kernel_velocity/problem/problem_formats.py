"""Read the four forms of public problem files, each as a `Problem` class (`problem_class`).

    Tensara         a class that derives from `problem.Problem`
    KernelBench     `Model`, `get_inputs` and `get_init_inputs` in a Python file
    GPU MODE        task.yml, and reference.py with `ref_kernel`, `generate_input`, `check_implementation`
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
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, cast

from kernel_velocity.problem.accuracy import FORMATS, Tolerance, compare_outputs, verdict
from kernel_velocity.problem.problem import (
    Problem,
    ProblemError,
    TestCase,
    Verdict,
    outputs_of,
    redirected,
    seed_of_draw,
)
from kernel_velocity.problem.user_file import files_of, import_file, in_one_line, line

SUFFIXES = (".py", ".yml", ".yaml", ".json")
TASK, REFERENCE = "task.yml", "reference"
SEED = 42  # of KernelBench's weights and inputs
ANY_AXIS = 64  # elements of a variable axis where a FlashInfer definition has no workloads
# Most that an output may differ, absolutely and relatively, as these sets state it.
KERNELBENCH = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}
FLASHINFER = 1e-2
# Values of random integers, as FlashInfer's own runner draws them: from, to (not included).
INTEGERS = {"int8": (-128, 128), "bool": (0, 2)}
OTHER_INTEGERS = (-1024, 1024)
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

    def solution_of(self, function: Any) -> Callable[..., Any]:
        """Return a function of the inputs that returns the outputs, made of a solution's `entry`."""
        raise NotImplementedError


# KernelBench ----------------------------------------------------------------------------------------------------------


class KernelBench(ReturningProblem):
    """A `torch.nn.Module` called Model. Its weights and inputs are drawn from a fixed seed."""

    entry = "ModelNew"
    module: ClassVar[ModuleType]

    def __init__(self) -> None:
        super().__init__(name=type(self).__name__.strip("_"))
        self._model: tuple[str, Callable[..., Any]] | None = None  # device, Model there

    def generate_test_cases(self) -> list[TestCase]:
        """Return the only case: what `get_inputs` returns."""
        return [TestCase(name="get_inputs", dims=(), create_inputs=self._inputs)]

    def _inputs(self) -> tuple[Any, ...]:
        import torch  # noqa: PLC0415 - discovery must work without torch

        with torch.random.fork_rng():
            torch.manual_seed(seed_of_draw(SEED))
            values = self.module.get_inputs()
        return tuple(value.to(self.device) if hasattr(value, "data_ptr") else value for value in values)

    def reference_solution(self, *inputs: Any) -> Any:
        """Return what Model computes."""
        if self._model is None or self._model[0] != self.device:
            self._model = self.device, self.solution_of(self.module.Model)
        return self._model[1](*inputs)

    def solution_of(self, function: Any) -> Callable[..., Any]:
        """Return a model, Model or ModelNew, with weights of the same seed."""
        import torch  # noqa: PLC0415 - discovery must work without torch

        arguments = self.module.get_init_inputs() if hasattr(self.module, "get_init_inputs") else []
        positional, named = (arguments, {}) if not _is_pair(arguments) else arguments
        with torch.random.fork_rng(), torch.no_grad(), redirected(self.device):
            torch.manual_seed(SEED)
            model = function(*positional, **named).to(self.device).requires_grad_(requires_grad=False)
        return cast(Callable[..., Any], model)

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
    if (language := task.get("lang", "py")) != "py":
        raise ProblemError(f"{path}: lang is {language!r}; only tasks in Python (lang: py) load")
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
    files = _task_files(path, task)
    reference = files.pop(REFERENCE)
    module = import_file(reference, files)
    if lacking := [
        name for name in ("ref_kernel", "generate_input", "check_implementation") if not hasattr(module, name)
    ]:
        raise ProblemError(f"{reference}: lacks {', '.join(lacking)}")
    files_read = [path.resolve(), *files_of(module)]
    attributes = {"__module__": module.__name__, "module": module, "task": task, "files": files_read}
    return cast(type[Problem], type(path.resolve().parent.name, (GpuMode,), attributes))


def _task_files(path: Path, task: Mapping[str, Any]) -> dict[str, Path]:
    """Return the Python files that a task names, and those beside it, by the names of their modules."""
    folder = path.resolve().parent
    entries = [entry for entry in task.get("files") or () if isinstance(entry, Mapping)]
    for entry in entries:
        if not all(isinstance(entry.get(key), str) and "\0" not in entry[key] for key in ("name", "source")):
            raise ProblemError(f"{path}: files: wanted entries with name and source (got {repr(entry)[:60]})")
    stated = {entry["name"]: entry["source"] for entry in entries}
    stated = {name: source for name, source in stated.items() if name.endswith(".py") and not source.startswith("@")}
    files = {name: (folder / source).resolve() for name, source in stated.items()}
    files |= {name: folder / name for name in (f"{REFERENCE}.py", "task.py", "utils.py") if (folder / name).is_file()}
    there = {Path(name).stem: file for name, file in files.items() if file.is_file()}
    if REFERENCE not in there:
        raise ProblemError(f"{path}: no reference.py beside it, and none in `files`")
    return there


class GpuMode(ReturningProblem):
    """A task. What `generate_input` returns is one argument there. A tuple or list of it is several inputs here."""

    entry = "custom_kernel"
    module: ClassVar[ModuleType]
    task: ClassVar[Mapping[str, Any]]

    def __init__(self) -> None:
        super().__init__(name=type(self).__name__)
        self._kind: type = tuple  # of what generate_input returned
        self._last: tuple[Any, ...] = ()  # inputs of the last reference: check_implementation takes them

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
        dims = tuple(value for value in sizes.values() if isinstance(value, int) and not isinstance(value, bool))
        return TestCase(name=text, dims=dims, create_inputs=partial(self._inputs, dict(spec)))

    def _inputs(self, spec: dict[str, Any]) -> tuple[Any, ...]:
        if isinstance(spec.get("seed"), int):
            spec = spec | {"seed": seed_of_draw(spec["seed"])}
        data = self.module.generate_input(**spec)
        self._kind = type(data)
        return tuple(data) if isinstance(data, list | tuple) else (data,)

    def _data(self, inputs: Sequence[Any]) -> Any:
        """Return inputs as one argument, in the form in which generate_input made them."""
        if issubclass(self._kind, list):
            return list(inputs)
        return tuple(inputs) if issubclass(self._kind, tuple) else inputs[0]

    def reference_solution(self, *inputs: Any) -> Any:
        """Return what `ref_kernel` computes."""
        return self.module.ref_kernel(self._data(inputs))

    def expected(self, *inputs: Any) -> Any:
        """Return what `ref_kernel` computes, and keep the inputs for `verify_result`."""
        self._last = copies(inputs)
        return self.reference_solution(*inputs)

    def get_extra_params(self, test_case: TestCase) -> list[Any]:
        """Return the whole numbers of the case but its seed, which a C solution takes behind its outputs."""
        return list(test_case["dims"])

    def solution_of(self, function: Any) -> Callable[..., Any]:
        """Return `custom_kernel` as a function of several inputs."""
        return lambda *inputs: function(self._data(inputs))

    def verify_result(self, expected: Any, actual: Any) -> Verdict:
        """Return the verdict of the task's `check_implementation` on the last inputs."""
        verdict_ = self.module.check_implementation(self._data(copies(self._last)), actual)
        if isinstance(verdict_, tuple):  # older tasks return a text alone, "" for right
            right, why = verdict_
        else:
            right, why = not verdict_, verdict_
        return bool(right), {} if right else {"why": " ".join(str(why).split())}


def copies(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return values with tensors cloned."""
    return tuple(value.clone() if hasattr(value, "data_ptr") else value for value in values)


# FlashInfer -----------------------------------------------------------------------------------------------------------


def _flashinfer(path: Path) -> type[Problem]:
    definition = _json(path, _text(path))
    wanted = ("name", "axes", "inputs", "outputs", "reference")
    if lacking := [key for key in wanted if key not in definition]:
        raise ProblemError(f"{path}: the definition lacks {', '.join(lacking)}")
    _check_definition(path, definition)
    axes = definition["axes"]
    for kind in ("inputs", "outputs"):
        for name, spec in definition[kind].items():
            unknown = [axis for axis in spec.get("shape") or () if axis not in axes]
            if unknown or "dtype" not in spec:
                what = f"axis {unknown[0]!r}, which `axes` lacks" if unknown else "no dtype"
                raise ProblemError(f"{path}: {kind}: {name!r} has {what}")
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
            is_shape = shape is None or (isinstance(shape, list) and all(isinstance(axis, str) for axis in shape))
            if not is_shape or not isinstance(dtype, str) or (shape is None and kind == "outputs"):
                raise ProblemError(f"{path}: {kind}: {key}: wanted a list of axes in shape and a text in dtype")
    constraints = definition.get("constraints") or []
    if not isinstance(constraints, list) or not all(isinstance(text, str) for text in constraints):
        raise ProblemError(f"{path}: constraints: wanted a list of texts (got {repr(constraints)[:60]})")


def _is_extent(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 48


def _json(path: Path, text: str, number: int = 0) -> dict[str, Any]:
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
        raise ProblemError(f"{path}: line {where or '?'} of its reference fails: {in_one_line(error)}") from error
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
    lines = enumerate(_text(file).splitlines(), 1)
    objects = [(number, _json(file, text, number)) for number, text in lines if text.strip()]
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


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ProblemError(f"{path}: not UTF-8 at byte {error.start}") from None


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
    definition: ClassVar[Mapping[str, Any]]
    run: ClassVar[Callable[..., Any]]
    variable: ClassVar[Sequence[str]]
    workloads: ClassVar[Sequence[Mapping[str, Any]]]
    folder: ClassVar[Path]

    def __init__(self) -> None:
        super().__init__(name=str(self.definition["name"]))

    def generate_test_cases(self) -> list[TestCase]:
        """Return a case per workload. Without workloads one, in which each variable axis has 64 elements."""
        workloads = self.workloads or [{"axes": dict.fromkeys(self.variable, ANY_AXIS)}]
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
        for constraint in self.definition.get("constraints") or ():
            if not _holds(constraint, extents):
                raise ProblemError(
                    f"{self.name}: {axes} break its constraint {constraint!r}; give it workloads (.jsonl)"
                )
        return extents

    def _constants(self) -> dict[str, int]:
        return {name: axis["value"] for name, axis in self.definition["axes"].items() if "value" in axis}

    def _inputs(self, workload: Mapping[str, Any], text: str) -> tuple[Any, ...]:
        import torch  # noqa: PLC0415 - discovery must work without torch

        extents, sources = self._extents(workload["axes"]), workload.get("inputs", {})
        draw = torch.Generator().manual_seed(self.get_seed(f"{self.name}/{text}"))
        inputs = []
        for name, spec in self.definition["inputs"].items():
            source = sources.get(name, {"type": "random"})
            if source["type"] == "scalar":
                inputs.append(source["value"])
            elif source["type"] == "safetensors":
                inputs.append(self._stored(source["path"], source["tensor_key"]))
            elif source["type"] != "random":
                types = "random, scalar, safetensors"
                raise ProblemError(f"{self.name}: input {name!r} is of type {source['type']!r}; there are {types}")
            else:
                shape = [extents[axis] for axis in spec["shape"] or ()]
                value = _random(shape, spec["dtype"], draw)
                is_probability = self.definition.get("op_type") == "sampling" and name == "probs"
                value = torch.softmax(value, dim=-1) if is_probability else value
                inputs.append(value.item() if spec["shape"] is None else value.to(self.device))
        return tuple(inputs)

    def _stored(self, path: str, key: str) -> Any:
        try:
            load = importlib.import_module("safetensors.torch").load_file
        except ModuleNotFoundError:
            raise ProblemError(f"{self.name}: {path} needs safetensors; pip install safetensors") from None
        file = self.folder / path
        if not file.is_file():
            raise ProblemError(f"{self.name}: {file}: no such file; the workload takes {key!r} from it")
        try:
            tensors = load(str(file))
        except (importlib.import_module("safetensors").SafetensorError, ValueError) as error:
            raise ProblemError(f"{file}: no safetensors: {in_one_line(error)}") from None
        if key not in tensors:
            raise ProblemError(f"{file}: no tensor {key!r}; there are {', '.join(tensors)}")
        return tensors[key].to(self.device)

    def reference_solution(self, *inputs: Any) -> Any:
        """Return what `run` computes, several outputs in the order of the definition."""
        return self._in_order(type(self).run(*inputs))

    def _in_order(self, result: Any) -> Any:
        if isinstance(result, Mapping):
            result = tuple(result[name] for name in self.definition["outputs"])
        return result[0] if isinstance(result, list | tuple) and len(result) == 1 else result

    def solution_of(self, function: Any) -> Callable[..., Any]:
        """Return `run` of a solution. One that takes its outputs, too, gets new ones and writes them."""
        takes = len(inspect.signature(function).parameters)
        if takes == len(self.definition["inputs"]):
            return lambda *inputs: self._in_order(function(*inputs))

        def writing(*inputs: Any) -> Any:
            outputs = self._outputs(inputs)
            function(*inputs, *outputs)
            return outputs[0] if len(outputs) == 1 else outputs

        return writing

    def _outputs(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Return uninitialised outputs, of the extents that the inputs have."""
        import torch  # noqa: PLC0415 - discovery must work without torch

        extents = self._constants()
        for spec, value in zip(self.definition["inputs"].values(), inputs, strict=True):
            extents |= dict(zip(spec["shape"] or (), getattr(value, "shape", ()), strict=False))
        return tuple(
            torch.empty(
                [extents[axis] for axis in spec["shape"]], dtype=getattr(torch, spec["dtype"]), device=self.device
            )
            for spec in self.definition["outputs"].values()
        )

    def get_extra_params(self, test_case: TestCase) -> list[Any]:
        """Return the variable axes, which a C solution takes behind its outputs."""
        return list(test_case["dims"])

    def verify_result(self, expected: Any, actual: Any) -> Verdict:
        """Return whether every output is right by FlashInfer's default tolerance. float8 is compared as float32."""
        return _verified(_wide(expected), _wide(actual), FLASHINFER)


def _holds(constraint: str, extents: Mapping[str, int]) -> bool:
    """Return whether a constraint holds, a Python expression of axes.

    Raises:
        ProblemError: it is none.
    """
    try:
        return bool(eval(constraint, {"__builtins__": {}}, dict(extents)))
    except (ArithmeticError, AttributeError, LookupError, NameError, SyntaxError, TypeError, ValueError) as error:
        raise ProblemError(f"constraint {constraint[:60]!r} fails: {in_one_line(error)}") from None


def _random(shape: Sequence[int], dtype: str, draw: Any) -> Any:
    """Return a tensor of random values on the CPU: normal ones, or integers within a range."""
    import torch  # noqa: PLC0415 - discovery must work without torch

    kind = getattr(torch, dtype, None)
    if kind is None:
        raise ProblemError(f"dtype {dtype!r}: this torch ({torch.__version__}) has none of that name")
    if kind.is_floating_point:
        values = torch.randn(list(shape), generator=draw)
        return (values.clamp(-2, 2) if dtype not in FORMATS else values).to(kind)
    return torch.randint(*INTEGERS.get(dtype, OTHER_INTEGERS), list(shape), generator=draw).to(kind)


def _wide(outputs: Any) -> Any:
    """Return outputs with those of a dtype that has no arithmetic, such as float8, as float32."""
    wide = tuple(
        value.float() if "float8" in str(getattr(value, "dtype", "")) else value for value in outputs_of(outputs)
    )
    return wide[0] if len(wide) == 1 else wide


def _verified(expected: Any, actual: Any, allowed: float) -> Verdict:
    """Return the verdict on outputs that may differ by so much, absolutely and relatively. Integers may not."""
    tolerance = Tolerance(rtol=allowed, atol=allowed, source=f"{allowed:g}, as the set states it")
    return verdict(compare_outputs(expected, actual, tolerance))
