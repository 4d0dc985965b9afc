"""A Problem class of a user's file, made to run here: on the device that is asked for, with checked inputs.

What older public definitions do otherwise is evened out: methods that take a dtype get one, an input that is no tuple
becomes one, and `device="cuda"` written into what makes inputs means the device that is asked for.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

from kernel_velocity.compare.problems import file
from kernel_velocity.compare.problems.file import in_one_line, made, problem_class
from kernel_velocity.errors import UsageError, is_out_of_memory
from kernel_velocity.harness.problem import Inputs, Problem, TestCase, Verdict
from kernel_velocity.harness.redirection import redirected

# C types of `parameters` -> torch's dtypes; what else stands there is not checked.
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


def load_file(path: Path, name: str | None, device: str, dtype: str) -> Problem:
    """Return the Problem of a file, to be run on a device.

    Args:
        path: a Python file. name: of the class; None: there is only one. device: "cpu" or "cuda".
        dtype: torch's name of the element type that older definitions are asked for.

    Raises:
        UsageError: the file, the class or its sample makes no sense. Later, by the methods of what is returned: a test
            case does not.
    """
    found = problem_class(path, name)
    file.parameters(path, found.parameters)
    own: dict[str, Any] = {
        "__module__": found.__module__,
        "__doc__": found.__doc__,
        "_kv_file": path,
        "_kv_dtype": dtype,
    }
    problem = made(path, cast(type[Problem], type(found.__name__, (_Adapted, found), own)))
    problem.device = device
    _check_cases(path, problem.generate_test_cases())
    if found.generate_sample is not Problem.generate_sample:
        sample = problem.generate_sample()
        _check_cases(path, [sample])
        problem.expected(*sample["create_inputs"]())
    return problem


class _Adapted(Problem):
    """Stands before a user's class: the same methods, checked. Not `reference_solution`, for that one is timed."""

    _kv_file: ClassVar[Path]  # names that no user has
    _kv_dtype: ClassVar[str]

    def generate_test_cases(self, *_dtype: Any) -> list[TestCase]:
        """Return the file's test cases; their inputs are checked when they are made."""
        with redirected(self.device):
            cases = file.cases(self._kv_file, self._call("generate_test_cases", 0))
        return [self._checked(case) for case in cases]

    def generate_sample(self, *_dtype: Any) -> TestCase:
        """Return the file's sample, checked likewise."""
        with redirected(self.device):
            return self._checked(file.case(self._kv_file, self._call("generate_sample", 0)))

    def expected(self, *inputs: Any) -> Any:
        """Return what the file's reference computes, on the device that is asked for."""
        with redirected(self.device):
            found = self._call("expected", len(inputs), *inputs)
        return file.outputs(self._of("reference_solution"), found)

    def verify_result(self, expected: Any, actual: Any, *_dtype: Any) -> Verdict:
        """Return the file's own verdict."""
        with redirected(self.device):
            return file.verdict(self._of("verify_result"), self._call("verify_result", 2, expected, actual))

    def get_flops(self, test_case: TestCase) -> int | None:
        """Return the file's own figure."""
        return self._amount("get_flops", test_case)

    def get_bytes(self, test_case: TestCase) -> int | None:
        """Return the file's own figure."""
        return self._amount("get_bytes", test_case)

    def get_footprint(self, test_case: TestCase) -> int | None:
        """Return the file's own figure."""
        return self._amount("get_footprint", test_case)

    def get_unfused_bytes(self, test_case: TestCase) -> int | None:
        """Return the file's own figure."""
        return self._amount("get_unfused_bytes", test_case)

    def get_extra_params(self, test_case: TestCase) -> list[Any]:
        """Return the file's trailing arguments."""
        return file.listed(self._of("get_extra_params"), self._call("get_extra_params", 1, test_case))

    def get_function_signature(self) -> dict[str, Any]:
        """Return the file's own signature."""
        name = "get_function_signature"
        return file.signature(self._of(name), self._call(name, 0))

    def _amount(self, name: str, test_case: TestCase) -> int | None:
        return file.amount(f"{self._of(name)} of {test_case['name']!r}", self._call(name, 1, test_case))

    def _of(self, method: str) -> str:
        return f"{self._kv_file}: {method}"

    def _call(self, name: str, count: int, *values: Any) -> Any:
        """Call a method of the file's class, with a dtype where it takes one beyond its `count` arguments."""
        method = getattr(super(), name)
        if not callable(method):
            raise UsageError(f"{self._of(name)} is {type(method).__name__}, wanted a method")
        if _takes_more(method, count):
            values = (*values, getattr(importlib.import_module("torch"), self._kv_dtype))
        try:
            return method(*values)
        except UsageError:
            raise
        except (Exception, SystemExit) as error:
            if is_out_of_memory(error):
                raise
            shapes = [str(list(value.shape)) for value in values if hasattr(value, "data_ptr")]
            given = f" on tensors of shapes {', '.join(shapes)}" if shapes else ""
            called = "reference_solution" if name == "expected" else name
            raise UsageError(f"{self._kv_file}: {called} fails{given}: {in_one_line(error)}") from error

    def _checked(self, case: TestCase) -> TestCase:
        return cast(TestCase, {**case, "create_inputs": partial(self._inputs, case["name"], case["create_inputs"])})

    def _inputs(self, case: str, create: Callable[[], Any]) -> Inputs:
        where = f"{self._kv_file}: case {case!r}"
        try:
            with redirected(self.device):
                given = create()
        except (Exception, SystemExit) as error:
            if is_out_of_memory(error):
                raise
            raise UsageError(f"{where}: create_inputs fails: {in_one_line(error)}") from error
        inputs = tuple(given) if isinstance(given, tuple | list) else (given,)
        check_inputs(where, self, inputs)
        return inputs


def _takes_more(method: Any, count: int) -> bool:
    """Return whether a method wants a further positional argument than `count`: older definitions' dtype."""
    given = inspect.signature(method).parameters.values()
    wanted = [one for one in given if one.kind is one.POSITIONAL_OR_KEYWORD and one.default is one.empty]
    return len(wanted) > count and not any(one.kind is one.VAR_POSITIONAL for one in given)


def _check_cases(path: Path, cases: Sequence[TestCase]) -> None:
    if not cases:
        raise UsageError(f"{path}: generate_test_cases returns no case")
    names = [case["name"] for case in cases]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"{path}: two test cases are called {twice!r}")


def check_inputs(where: str, problem: Problem, inputs: Inputs) -> None:
    """Check that the tensors of a case are where they should be, and are what `parameters` says.

    Raises:
        UsageError: they are not; the message begins with `where`.
    """
    for index, value in enumerate(inputs):
        if hasattr(value, "data_ptr") and value.device.type != problem.device:
            raise UsageError(f"{where}: input {index} is on {value.device}, wanted all tensors on {problem.device}")
    outputs = [item for item in problem.parameters if item["pointer"] and not item["const"]]
    wanted = [item for item in problem.parameters if item not in outputs]
    if not problem.parameters:
        return
    if len(inputs) > len(wanted):
        names = ", ".join(item["name"] for item in wanted)
        raise UsageError(f"{where}: {len(inputs)} inputs, but `parameters` has {len(wanted)} beside outputs: {names}")
    for value, item in zip(inputs, wanted, strict=False):
        _check_input(where, value, item["name"], item["type"], bool(item["pointer"]))


def _check_input(where: str, value: Any, name: str, kind: str, pointer: bool) -> None:
    is_tensor = hasattr(value, "data_ptr")
    if pointer and not is_tensor:
        raise UsageError(f"{where}: input `{name}` is {type(value).__name__}, `parameters` says {kind}*: a tensor")
    if not pointer and is_tensor and value.numel() != 1:
        raise UsageError(f"{where}: input `{name}` has the shape {list(value.shape)}, `parameters` says {kind}")
    dtype = str(value.dtype).removeprefix("torch.") if is_tensor else None
    if pointer and DTYPES.get(kind, dtype) != dtype:
        raise UsageError(f"{where}: input `{name}` is {dtype}, `parameters` says {kind}* ({DTYPES[kind]})")
    if pointer and not value.is_contiguous():
        raise UsageError(f"{where}: input `{name}` is not contiguous, and solutions get nothing but a pointer")
