"""The Problem of a user's Python file: ours, or a public challenge's definition as it is, checked, on a device.

A file is imported unchanged. While it is, `problem` is a module that holds our `Problem`, and the file may import its
neighbours. Differences of older public definitions are evened out: methods that take a dtype get one, a single input
becomes a tuple, and `device="cuda"` in code that makes inputs means the device that is asked for. Every value that the
methods return is checked before it is used, and a mistake is reported in one line.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import math
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from numbers import Real
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, cast

from kernel_velocity.errors import UsageError, is_out_of_memory
from kernel_velocity.harness.problem import Inputs, Problem, TestCase, Verdict, redirected

_OURS = ("benchmarks", "kernels", "kernel_velocity")
BASE = "problem"  # where public definitions import their base class from
# C types of `parameters` -> torch's dtypes; tensors of any other type are not checked.
DTYPES = {
    "float": "float32",
    "double": "float64",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "int": "int32",
    "int8_t": "int8",
    "uint8_t": "uint8",
    "int32_t": "int32",
    "int64_t": "int64",
}


def dtype_of(tensor: Any) -> str:
    """Return torch's name of a tensor's dtype: "float32"."""
    return str(tensor.dtype).removeprefix("torch.")


def dtype_of_parameter(parameter: Mapping[str, Any]) -> str | None:
    """Return the dtype that an entry of `parameters` asks for, None for a C type that is not checked."""
    return DTYPES.get(parameter["type"])


def import_file(path: Path) -> ModuleType:
    """Import a Python file by its path, under a name of its own.

    Raises:
        UsageError: there is no such file, or it does not import, with the line.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    where = path.resolve()
    name = f"kv_{where.stem}_{hashlib.sha256(str(where).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, where)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: no Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # inspect looks up a class's source there
    try:
        with _importable(where.parent):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a user's file may raise anything
        del sys.modules[name]
        raise UsageError(f"{path}:{_line(error, where)} does not import: {in_one_line(error)}") from error
    return module


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Let a file import `problem` and its neighbours, and restore the modules afterwards.

    Neighbours are forgotten: a file of another folder may have neighbours of the same names.
    """
    before = dict(sys.modules)
    base = ModuleType(BASE)
    base.__dict__["Problem"] = Problem
    sys.modules[BASE] = base
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - set(before):
            if name == BASE or _is_neighbour(name, folder):
                del sys.modules[name]
        if BASE in before:
            sys.modules[BASE] = before[BASE]


def _is_neighbour(name: str, folder: Path) -> bool:
    """Return whether a module lies in a folder or in a package there, and belongs to the user."""
    origin = getattr(sys.modules[name], "__file__", None)
    if origin is None or name.partition(".")[0] in _OURS:
        return False
    return folder in (Path(origin).parent, Path(origin).parent.parent)


def _line(error: BaseException, path: Path) -> str:
    """Return the line of a file at which it failed, with a colon. "" if it failed elsewhere."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{error.lineno}:"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{lines[-1]}:" if lines else ""


def in_one_line(error: BaseException) -> str:
    """Return an error's kind and the first line of its message."""
    lines = (error.msg if isinstance(error, SyntaxError) else str(error)).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def problem_class(path: Path, name: str | None = None) -> type[Problem]:
    """Return the Problem class of a file, complete.

    Args:
        path: the file. name: of the class, None where there is only one.

    Raises:
        UsageError: the file does not import, has no such class or several, or the class lacks a method.
    """
    module = import_file(path)
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Problem) and value.__module__ == module.__name__
    ]
    leaves = {kind.__name__: kind for kind in classes if not any(kind in other.__mro__[1:] for other in classes)}
    if not leaves:
        wanted = "from problem import Problem; class Mine(Problem): ..."
        raise UsageError(f"{path}: no class that derives from Problem; wanted {wanted}")
    if name is not None and name not in leaves:
        raise UsageError(f"{path}: no Problem called {name!r}; there are {', '.join(leaves)}")
    if name is None and len(leaves) > 1:
        raise UsageError(f"{path}: several Problems, {', '.join(leaves)}; name one: {path}:{next(iter(leaves))}")
    chosen = leaves[name or next(iter(leaves))]
    if lacking := sorted(chosen.__abstractmethods__):
        raise UsageError(f"{path}: class {chosen.__name__} lacks {', '.join(lacking)}")
    return chosen


def load_file(path: Path, name: str | None, device: str, dtype: str) -> Problem:
    """Return the Problem of a file, to be run on a device.

    Args:
        path: a Python file. name: of the class, None where there is only one. device: "cpu" or "cuda".
        dtype: torch's name of the element type that older definitions are asked for.

    Raises:
        UsageError: the file, the class or its sample makes no sense. Later, by the methods of the problem: a test case
            does not.
    """
    chosen = problem_class(path, name)
    _check_parameters(path, chosen.parameters)
    attributes = {"__module__": chosen.__module__, "__doc__": chosen.__doc__, "_kv_file": path, "_kv_dtype": dtype}
    problem = _instance(path, cast(type[Problem], type(chosen.__name__, (_Adapted, chosen), attributes)))
    problem.device = device
    names = [test["name"] for test in problem.generate_test_cases()]
    if not names:
        raise UsageError(f"{path}: generate_test_cases returns no case")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"{path}: two test cases are called {twice!r}")
    if chosen.generate_sample is not Problem.generate_sample:
        problem.expected(*problem.generate_sample()["create_inputs"]())
    return problem


def _instance(path: Path, kind: type[Problem]) -> Problem:
    """Return an instance of a Problem class.

    Raises:
        UsageError: it wants arguments, fails, or does not name itself.
    """
    wanted = 'wanted an __init__ without arguments that calls super().__init__(name="...")'
    try:
        problem = cast(Callable[[], Problem], kind)()
    except (Exception, SystemExit) as error:
        where = _line(error, path.resolve())
        raise UsageError(f"{path}:{where} {kind.__name__}() fails: {in_one_line(error)}; {wanted}") from error
    if not isinstance(getattr(problem, "name", None), str):
        raise UsageError(f"{path}: {kind.__name__} has no name; {wanted}")
    return problem


def _check_parameters(path: Path, parameters: Any) -> None:
    wanted = 'wanted a list of {"name": "x", "type": "float", "pointer": True, "const": True}'
    if not _is_list(parameters):
        raise UsageError(f"{path}: parameters is {_short(parameters)}, {wanted}")
    for entry in parameters:
        has_all = isinstance(entry, Mapping) and entry.keys() >= {"name", "type", "pointer", "const"}
        if not has_all or not isinstance(entry["name"], str) or not isinstance(entry["type"], str):
            raise UsageError(f"{path}: {_short(entry)} in parameters, {wanted}")


class _Adapted(Problem):
    """Checks the methods of a user's class, in front of it. `reference_solution` is timed, and stays the user's."""

    _kv_file: ClassVar[Path]  # names that no user has
    _kv_dtype: ClassVar[str]

    def generate_test_cases(self, *_dtype: Any) -> list[TestCase]:
        """Return the file's test cases. Their inputs are checked when they are made."""
        tests = self._call("generate_test_cases", 0)
        if not _is_list(tests):
            raise self._wrong("generate_test_cases", tests, "a list")
        return [self._checked(test) for test in tests]

    def generate_sample(self, *_dtype: Any) -> TestCase:
        """Return the file's sample, checked likewise."""
        return self._checked(self._call("generate_sample", 0))

    def expected(self, *inputs: Any) -> Any:
        """Return what the file's reference computes, on the device that is asked for: a tensor, or several."""
        result = self._call("expected", len(inputs), *inputs)
        outputs = result if isinstance(result, tuple | list) else (result,)
        if not outputs or not all(hasattr(output, "data_ptr") for output in outputs):
            raise self._wrong("reference_solution", result, "a tensor, or a tuple of tensors")
        return result

    def verify_result(self, expected: Any, actual: Any, *_dtype: Any) -> Verdict:
        """Return the file's own verdict."""
        verdict = self._call("verify_result", 2, expected, actual)
        try:
            right, details = verdict
            return bool(right), {str(key): value for key, value in details.items()}
        except (TypeError, ValueError, AttributeError, RuntimeError):  # RuntimeError: a tensor of several elements
            raise self._wrong("verify_result", verdict, '(True, {}) or (False, {"what": "is wrong"})') from None

    def get_flops(self, test_case: TestCase) -> int | None:
        """Return the file's own figure."""
        return self._amount("get_flops", test_case)

    def get_bytes(self, test_case: TestCase) -> int | None:
        """Return the file's own figure."""
        return self._amount("get_bytes", test_case)

    def get_footprint(self, test_case: TestCase) -> int | None:
        """Return the file's own figure."""
        return self._amount("get_footprint", test_case)

    def _amount(self, name: str, test_case: TestCase) -> int | None:
        """Return FLOPs or bytes as a whole number, None where the problem does not say."""
        amount = self._call(name, 1, test_case)
        if amount is not None and (not _is_number(amount) or amount < 0):
            raise self._wrong(f"{name} of {test_case['name']!r}", amount, "a number >= 0, or None where it is unknown")
        return None if amount is None else round(amount)

    def get_extra_params(self, test_case: TestCase) -> list[Any]:
        """Return the file's trailing arguments."""
        values = self._call("get_extra_params", 1, test_case)
        if not isinstance(values, list | tuple):
            raise self._wrong("get_extra_params", values, "a list")
        return list(values)

    def get_function_signature(self) -> dict[str, Any]:
        """Return the file's own signature."""
        signature = self._call("get_function_signature", 0)
        if not isinstance(signature, Mapping) or not isinstance(signature.get("argtypes"), list | tuple):
            raise self._wrong("get_function_signature", signature, '{"argtypes": [...], "restype": None}')
        return dict(signature)

    def _wrong(self, method: str, result: Any, expected: str) -> UsageError:
        return UsageError(f"{self._kv_file}: {method} returned {_short(result)}, wanted {expected}")

    def _call(self, name: str, count: int, *values: Any) -> Any:
        """Call a method of the file's class on our device, with a dtype where it takes one beyond `count` arguments."""
        method = getattr(super(), name)
        if not callable(method):
            raise UsageError(f"{self._kv_file}: {name} is {_short(method)}, wanted a method")
        if _takes_more(method, count):
            values = (*values, getattr(importlib.import_module("torch"), self._kv_dtype))
        shapes = [str(list(value.shape)) for value in values if hasattr(value, "data_ptr")]
        tensors = f" on tensors of shapes {', '.join(shapes)}" if shapes else ""
        called = "reference_solution" if name == "expected" else name
        return self._attempt(f"{self._kv_file}: {called} fails{tensors}", partial(method, *values))

    def _attempt(self, failure: str, call: Callable[[], Any]) -> Any:
        """Call a user's code on our device.

        Raises:
            UsageError: it raised, with a message that begins with `failure`. Out of memory is raised as it is.
        """
        try:
            with redirected(self.device):
                return call()
        except UsageError:
            raise
        except (Exception, SystemExit) as error:
            if is_out_of_memory(error):
                raise
            raise UsageError(f"{failure}: {in_one_line(error)}") from error

    def _checked(self, test: Any) -> TestCase:
        """Return a test case with its dims as a tuple, and inputs that are checked when they are made."""
        keys = test.keys() if isinstance(test, Mapping) else ()
        if lacking := [key for key in ("name", "dims", "create_inputs") if key not in keys]:
            raise UsageError(f"{self._kv_file}: a test case lacks {', '.join(lacking)}: {_short(test)}")
        name, dims, create = test["name"], test["dims"], test["create_inputs"]
        if not isinstance(name, str) or not name.strip():
            example = 'such as "1024x1024"'
            raise UsageError(f"{self._kv_file}: the name of a test case is {_short(name)}, wanted text {example}")
        where = f"{self._kv_file}: case {name!r}"
        if not _is_list(dims) or not all(map(_is_number, dims)):
            raise UsageError(f"{where}: dims is {_short(dims)}, wanted a tuple of numbers such as (1024, 1024)")
        if not callable(create):
            raise UsageError(f"{where}: create_inputs is {_short(create)}, wanted a function of no arguments")
        return cast(TestCase, {**test, "dims": tuple(dims), "create_inputs": partial(self._inputs, where, create)})

    def _inputs(self, where: str, create: Callable[[], Any]) -> Inputs:
        """Return the inputs of a case.

        Raises:
            UsageError: a tensor is on another device, or the inputs do not fit `parameters`.
        """
        result = self._attempt(f"{where}: create_inputs fails", create)
        inputs = tuple(result) if isinstance(result, tuple | list) else (result,)
        for index, value in enumerate(inputs):
            if hasattr(value, "data_ptr") and value.device.type != self.device:
                raise UsageError(f"{where}: input {index} is on {value.device}, wanted all tensors on {self.device}")
        if self.parameters:
            declared = [entry for entry in self.parameters if entry["const"] or not entry["pointer"]]
            if len(inputs) > len(declared):
                names = ", ".join(entry["name"] for entry in declared)
                beside = f"`parameters` has {len(declared)} beside outputs: {names}"
                raise UsageError(f"{where}: {len(inputs)} inputs, but {beside}")
            for value, parameter in zip(inputs, declared, strict=False):
                _check_input(f"{where}: input `{parameter['name']}`", value, parameter)
        return inputs


def _check_input(where: str, value: Any, parameter: Mapping[str, Any]) -> None:
    kind, is_tensor = parameter["type"], hasattr(value, "data_ptr")
    if not parameter["pointer"]:
        if is_tensor and value.numel() != 1:
            raise UsageError(f"{where} has the shape {list(value.shape)}, `parameters` says {kind}")
        return
    if not is_tensor:
        raise UsageError(f"{where} is {type(value).__name__}, `parameters` says {kind}*: a tensor")
    if dtype_of_parameter(parameter) not in (None, dtype_of(value)):
        raise UsageError(f"{where} is {dtype_of(value)}, `parameters` says {kind}* ({DTYPES[kind]})")
    if not value.is_contiguous():
        raise UsageError(f"{where} is not contiguous, and solutions get nothing but a pointer")


def _takes_more(method: Any, count: int) -> bool:
    """Return whether a method needs more than `count` positional arguments: a dtype, in older definitions."""
    arguments = inspect.signature(method).parameters.values()
    needed = [arg for arg in arguments if arg.kind is arg.POSITIONAL_OR_KEYWORD and arg.default is arg.empty]
    return len(needed) > count and not any(arg.kind is arg.VAR_POSITIONAL for arg in arguments)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _short(value: Any) -> str:
    """Return a value as text of one line, cut off where it is long."""
    return " ".join(repr(value).split())[:80]
