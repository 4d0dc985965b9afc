"""Load the Problem of a user's file, ours or a public problem as it is, and check it on a device.

A file is loaded unchanged (problem_formats.py). Differences of older public definitions are evened out: methods that
take a dtype get one, a single input becomes a tuple, a test case needs no sizes, and `device="cuda"` in code that makes
inputs means the device that is asked for. Every value that the methods return is checked before it is used, and a
mistake is reported in one line.
"""

from __future__ import annotations

import copy
import ctypes
import importlib
import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, cast

from kernel_velocity.problem.problem import (
    C_TYPES,
    Inputs,
    Problem,
    ProblemError,
    TestCase,
    Verdict,
    outputs_of,
    redirected,
)
from kernel_velocity.problem.problem_formats import copies, problem_class
from kernel_velocity.problem.user_file import failure, in_one_line, line

SIZES = ("dims", "shape", "size", "sizes")  # keys of a test case that say how large it is, the first that is there
DTYPE = "float32"  # of definitions that make their cases for one dtype
_ORIGINAL = "_kv_original"  # key of a checked test case: the file's own, which its methods get


def dtype_of(tensor: Any) -> str:
    """Return torch's name of a tensor's dtype: "float32"."""
    return str(tensor.dtype).removeprefix("torch.")


def dtype_of_parameter(parameter: Mapping[str, Any]) -> str | None:
    """Return the dtype that an entry of `parameters` asks for, None for a C type that is not known."""
    return C_TYPES[parameter["type"]][1] if parameter["type"] in C_TYPES else None


def fits(parameter: Mapping[str, Any], tensor: Any) -> bool:
    """Return whether a tensor is what an entry of `parameters` says. Integers of one size and float8 are alike."""
    wanted = dtype_of_parameter(parameter)
    return wanted is None or _family(wanted) == _family(dtype_of(tensor))


def _family(dtype: str) -> str:
    return "int8" if dtype == "bool" or dtype.startswith(("float8", "float4")) else dtype.removeprefix("u")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory ran out. PyTorch's on the CPU is a plain RuntimeError."""
    is_named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return is_named or "can't allocate memory" in str(error)


def load_file(path: Path, name: str | None, device: str, dtype: str = DTYPE) -> Problem:
    """Return the Problem of a file, to be run on a device.

    Args:
        path: of a public problem or ours, as `problem_formats.problem_class` takes it. name: of the class, None where
            there is only one. device: "cpu" or "cuda".
        dtype: torch's name of the element type that older definitions are asked for.

    Raises:
        ProblemError: the file or the class makes no sense. Later, by the methods of the problem: a test case does not.
        NotHereError: likewise, the file needs what this machine lacks.
    """
    if device == "cpu":  # public references name CUDA in torch.autocast, which on the CPU does nothing else
        warnings.filterwarnings("ignore", "User provided device_type of 'cuda'")
        warnings.filterwarnings("ignore", "CUDA is not available or torch_xla")
    chosen = problem_class(path, name)
    attributes = {
        "__module__": chosen.__module__,
        "__doc__": chosen.__doc__,
        "_kv_file": path,
        "_kv_dtype": dtype,
        "parameters": _parameters(path, chosen.parameters),
    }
    problem = _instance(path, cast(type[Problem], type(chosen.__name__, (_Adapted, chosen), attributes)))
    problem.device = device
    names = [test["name"] for test in problem.generate_test_cases()]
    if not names:
        raise ProblemError(f"{path}: generate_test_cases returns no case")
    if duplicate := next((name for name in names if names.count(name) > 1), None):
        raise ProblemError(f"{path}: two test cases are called {duplicate!r}")
    return problem


def _instance(path: Path, kind: type[Problem]) -> Problem:
    """Return an instance of a Problem class.

    Raises:
        ProblemError: it wants arguments, fails, or does not name itself.
    """
    wanted = 'wanted an __init__ without arguments that calls super().__init__(name="...")'
    try:
        problem = cast(Callable[[], Problem], kind)()
    except (Exception, SystemExit) as error:
        where = line(error, path.resolve())
        raise ProblemError(f"{path}:{where} {kind.__name__}() fails: {in_one_line(error)}; {wanted}") from error
    if not isinstance(getattr(problem, "name", None), str):
        raise ProblemError(f"{path}: {kind.__name__} has no name; {wanted}")
    return problem


def _parameters(path: Path, parameters: Any) -> list[dict[str, Any]]:
    """Return `parameters`, checked, with what their entries leave out: no pointer, not const. [] for none."""
    wanted = 'wanted a list of {"name": "x", "type": "float", "pointer": True, "const": True}'
    if parameters is None:
        return []
    if not _is_list(parameters):
        raise ProblemError(f"{path}: parameters is {_short(parameters)}, {wanted}")
    for entry in parameters:
        has_all = isinstance(entry, Mapping) and entry.keys() >= {"name", "type"}
        if not has_all or not isinstance(entry["name"], str) or not isinstance(entry["type"], str):
            raise ProblemError(f"{path}: {_short(entry)} in parameters, {wanted}")
    return [{"pointer": False, "const": False, **entry} for entry in parameters]


class _Adapted(Problem):
    """Checks the methods of a user's class, in front of it. `reference_solution` is timed, and stays the user's."""

    _kv_file: ClassVar[Path]  # names that no user has
    _kv_dtype: ClassVar[str]

    def generate_test_cases(self, *_dtype: Any) -> list[TestCase]:
        """Return the file's test cases. Their inputs are checked when they are made."""
        tests = self._kv_call("generate_test_cases", 0)
        if not _is_list(tests):
            raise self._kv_wrong("generate_test_cases", tests, "a list")
        return [self._kv_checked(test) for test in tests]

    def generate_sample(self, *_dtype: Any) -> TestCase:
        """Return the file's sample, checked likewise. It may be a list of one."""
        sample = self._kv_call("generate_sample", 0)
        checked = self._kv_checked(sample[0] if _is_list(sample) and len(sample) == 1 else sample)
        alike = [test for test in self.generate_test_cases() if test["name"] == checked["name"]]
        is_another = any(_facts(test) != _facts(checked) for test in alike)
        return {**checked, "name": f"{checked['name']} (sample)"} if is_another else checked

    def test_case(self, name: str) -> TestCase:
        """Return the test case of that name, or the sample."""
        sample = self.generate_sample()
        return sample if sample["name"] == name else super().test_case(name)

    def expected(self, *inputs: Any) -> Any:
        """Return what the file's reference computes, on the device that is asked for: a tensor, or several.

        It gets copies of the inputs, and `in_place` says afterwards whether it wrote them.
        """
        arguments = copies(inputs)
        result = self._kv_call("expected", len(arguments), *arguments)
        outputs = outputs_of(result)
        if not outputs or not all(hasattr(output, "data_ptr") for output in outputs):
            raise self._kv_wrong("reference_solution", result, "a tensor, or a tuple, list or dictionary of tensors")
        self.in_place = any(value._version for value in arguments if hasattr(value, "data_ptr"))  # counts writes
        return result

    def verify_result(self, expected: Any, actual: Any, *_dtype: Any) -> Verdict:
        """Return the file's own verdict."""
        verdict = self._kv_call("verify_result", 2, expected, actual)
        try:
            right, details = verdict
            return bool(right), {str(key): value for key, value in details.items()}
        except (TypeError, ValueError, AttributeError, RuntimeError):  # RuntimeError: a tensor of several elements
            raise self._kv_wrong("verify_result", verdict, '(True, {}) or (False, {"what": "is wrong"})') from None

    def get_flops(self, test_case: TestCase) -> int | None:
        """Return the file's own figure."""
        return self._kv_amount("get_flops", test_case)

    def get_bytes(self, test_case: TestCase) -> int | None:
        """Return the file's own figure."""
        return self._kv_amount("get_bytes", test_case)

    def get_unfused_bytes(self, test_case: TestCase) -> int | None:
        """Return the file's own figure."""
        return self._kv_amount("get_unfused_bytes", test_case)

    def get_footprint(self, test_case: TestCase) -> int | None:
        """Return the file's own figure."""
        return self._kv_amount("get_footprint", test_case)

    def _kv_amount(self, name: str, test_case: TestCase) -> int | None:
        """Return FLOPs or bytes as a whole number, None where the problem does not say."""
        amount = self._kv_call(name, 1, test_case.get(_ORIGINAL, test_case))
        amount = amount.item() if hasattr(amount, "data_ptr") else amount
        if amount is not None and (not _is_number(amount) or amount < 0):
            raise self._kv_wrong(
                f"{name} of {test_case['name']!r}", amount, "a number >= 0, or None where it is unknown"
            )
        return None if amount is None else round(amount)

    def get_extra_params(self, test_case: TestCase) -> list[Any]:
        """Return the file's trailing arguments. A file that has none, and numbers in its signature, means its sizes."""
        if _defines_no(self, "get_extra_params"):
            numbers = sum(not is_pointer(kind) for kind in self.get_function_signature()["argtypes"])
            if len(test_case["dims"]) > numbers:
                return []
        values = self._kv_call("get_extra_params", 1, test_case.get(_ORIGINAL, test_case))
        if not isinstance(values, list | tuple):
            raise self._kv_wrong("get_extra_params", values, "a list")
        return list(values)

    def get_function_signature(self) -> dict[str, Any]:
        """Return the file's own signature."""
        signature = self._kv_call("get_function_signature", 0)
        if not isinstance(signature, Mapping) or not isinstance(signature.get("argtypes"), list | tuple):
            raise self._kv_wrong("get_function_signature", signature, '{"argtypes": [...], "restype": None}')
        return dict(signature)

    def reference_source(self) -> str:
        """Return the text of the problem's files."""
        return "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in self.files)

    def _kv_wrong(self, method: str, result: Any, expected: str) -> ProblemError:
        return ProblemError(f"{self._kv_file}: {method} returned {_short(result)}, wanted {expected}")

    def _kv_call(self, name: str, count: int, *values: Any) -> Any:
        """Call a method of the file's class on our device, with a dtype where it takes one beyond `count` arguments."""
        method = getattr(super(), name)
        if not callable(method):
            raise ProblemError(f"{self._kv_file}: {name} is {_short(method)}, wanted a method")
        if _takes_more(method, count):
            values = (*values, getattr(importlib.import_module("torch"), self._kv_dtype))
        shapes = [str(list(value.shape)) for value in values if hasattr(value, "data_ptr")]
        tensors = f" on tensors of shapes {', '.join(shapes)}" if shapes else ""
        called = "reference_solution" if name == "expected" else name
        return self._kv_attempt(f"{called} fails{tensors}", partial(method, *values))

    def _kv_attempt(self, what: str, call: Callable[[], Any]) -> Any:
        """Call a user's code on our device.

        Raises:
            ProblemError: it raised: the file, the line where that is in the file, `what`, the error. Out of memory
                is raised as it is.
        """
        try:
            with redirected(self.device):
                return call()
        except ProblemError:
            raise
        except (Exception, SystemExit) as error:
            if is_out_of_memory(error):
                raise
            where = line(error, self._kv_file.resolve())
            raise failure(f"{self._kv_file}:{where}", what, error, has_cuda=self.device == "cuda") from error

    def _kv_checked(self, test: Any) -> TestCase:
        """Return a test case with `dims`, a tuple of numbers, and inputs that are checked when they are made."""
        if isinstance(test, Mapping) and _ORIGINAL in test:  # a file's sample that is one of its cases
            return cast(TestCase, test)
        keys = test.keys() if isinstance(test, Mapping) else ()
        if lacking := [key for key in ("name", "create_inputs") if key not in keys]:
            raise ProblemError(f"{self._kv_file}: a test case lacks {', '.join(lacking)}: {_short(test)}")
        name, create = test["name"], test["create_inputs"]
        if not isinstance(name, str) or not name.strip():
            example = 'such as "1024x1024"'
            raise ProblemError(f"{self._kv_file}: the name of a test case is {_short(name)}, wanted text {example}")
        where = f"case {name!r}"
        if not callable(create):
            raise ProblemError(f"{self._kv_file}: {where}: create_inputs is {_short(create)}, wanted a function")
        stated = [tuple(test[key]) if _is_list(test[key]) else (test[key],) for key in SIZES if key in test]
        dims = next((sizes for sizes in stated if sizes and all(map(_is_number, sizes))), ())
        made = {"dims": dims, "create_inputs": partial(self._kv_inputs, where, create), _ORIGINAL: test}
        return cast(TestCase, {**test, **made})

    def _kv_inputs(self, where: str, create: Callable[[], Any]) -> Inputs:
        """Return the inputs of a case.

        Raises:
            ProblemError: a tensor is on another device, or the inputs do not fit `parameters`.
        """
        result = self._kv_attempt(f"{where}: create_inputs fails", create)
        where = f"{self._kv_file}: {where}"
        inputs = tuple(result) if isinstance(result, tuple | list) else (result,)
        wanted = self.data_device or self.device
        for index, value in enumerate(inputs):
            if hasattr(value, "data_ptr") and value.device.type != wanted:
                raise ProblemError(f"{where}: input {index} is on {value.device}, wanted all tensors on {wanted}")
        if self.parameters:
            declared = [entry for entry in self.parameters if entry["const"] or not entry["pointer"]]
            if len(inputs) > len(declared):
                names = ", ".join(entry["name"] for entry in declared)
                beside = f"`parameters` has {len(declared)} beside outputs: {names}"
                raise ProblemError(f"{where}: {len(inputs)} inputs, but {beside}")
            for value, parameter in zip(inputs, declared, strict=False):
                _check_input(f"{where}: input `{parameter['name']}`", value, parameter)
        return inputs


def _facts(test: TestCase) -> list[tuple[str, str]]:
    """Return what a test case says of itself as text, without its functions."""
    original = cast(Mapping[str, Any], test.get(_ORIGINAL, test))
    return sorted((key, repr(value)) for key, value in original.items() if not callable(value))


def _check_input(where: str, value: Any, parameter: Mapping[str, Any]) -> None:
    kind, is_tensor = parameter["type"], hasattr(value, "data_ptr")
    if not parameter["pointer"]:
        if is_tensor and value.numel() != 1:
            raise ProblemError(f"{where} has the shape {list(value.shape)}, `parameters` says {kind}")
        return
    if not is_tensor:
        raise ProblemError(f"{where} is {type(value).__name__}, `parameters` says {kind}*: a tensor")
    if not fits(parameter, value):
        wanted = dtype_of_parameter(parameter)
        raise ProblemError(f"{where} is {dtype_of(value)}, `parameters` says {kind}* ({wanted})")
    if not value.is_contiguous():
        raise ProblemError(f"{where} is not contiguous, and solutions get nothing but a pointer")


def _defines_no(problem: Problem, method: str) -> bool:
    """Return whether a user's class has only our default of a method."""
    return all(method not in vars(kind) for kind in type(problem).__mro__ if kind not in {Problem, _Adapted})


# What a problem takes -------------------------------------------------------------------------------------------------


def is_pointer(kind: Any) -> bool:
    """Return whether a ctypes type is a pointer."""
    return kind is ctypes.c_void_p or hasattr(kind, "contents")


def parameters_of(problem: Problem) -> list[Mapping[str, Any]]:
    """Return a problem's `parameters`. Where it has none they follow from its sample and its C signature.

    Inputs have the names that the reference gives them, then come outputs, then what `get_extra_params` adds. Without a
    signature the C types are those of the values.

    Raises:
        ProblemError: the signature has another number of arguments.
    """
    if problem.parameters:
        return list(problem.parameters)
    sample = problem.generate_sample()
    inputs = sample["create_inputs"]()
    outputs, extra = outputs_of(problem.expected(*inputs)), problem.get_extra_params(sample)
    arguments = inspect.signature(problem.reference_solution).parameters.values()
    names = [argument.name for argument in arguments if argument.kind is argument.POSITIONAL_OR_KEYWORD]
    names = names if len(names) == len(inputs) else [f"input{number}" for number in range(1, len(inputs) + 1)]
    names += ["output"] if len(outputs) == 1 else [f"output{number}" for number in range(1, len(outputs) + 1)]
    names += [f"extra{number}" for number in range(1, len(extra) + 1)]
    values = (*inputs, *outputs, *extra)
    declared = (
        [_c_type(value) for value in values]
        if _defines_no(problem, "get_function_signature")
        else [_c_name(kind, value) for kind, value in _typed(problem, values)]
    )
    written = range(len(inputs), len(inputs) + len(outputs))
    return [
        {"name": name, "type": kind, "pointer": hasattr(value, "data_ptr"), "const": number not in written}
        for number, (name, kind, value) in enumerate(zip(names, declared, values, strict=True))
    ]


def _typed(problem: Problem, values: Sequence[Any]) -> list[tuple[Any, Any]]:
    types = problem.get_function_signature()["argtypes"]
    if len(types) != len(values):
        raise ProblemError(
            f"{problem.name}: the sample has {len(values)} arguments (inputs, outputs and get_extra_params), "
            f"get_function_signature {len(types)}"
        )
    return list(zip(types, values, strict=True))


def _c_name(kind: Any, value: Any) -> str:
    """Return the C type that a ctypes type is, or points to. Of a void pointer that of the value."""
    kind = getattr(kind, "_type_", kind) if is_pointer(kind) and kind is not ctypes.c_void_p else kind
    names = [
        name
        for name, (candidate, _) in C_TYPES.items()
        if candidate is kind and name not in ("float16", "half", "char")
    ]
    return names[-1] if kind is ctypes.c_size_t else names[0] if names else _c_type(value)


def _c_type(value: Any) -> str:
    """Return the C type of a Python value, or of a tensor's elements."""
    if hasattr(value, "data_ptr"):
        wanted = dtype_of(value)
        exact = [name for name, (_, dtype) in C_TYPES.items() if dtype == wanted]
        return exact[0] if exact else next(name for name, (_, dtype) in C_TYPES.items() if dtype == "uint8")
    return "float" if isinstance(value, float) else "int64_t"


def sizes(problem: Problem, test: TestCase) -> tuple[int, int] | None:
    """Return how many bytes the inputs and the outputs of a case take, without allocating them.

    None where that cannot be known without values.
    """
    if (stated := problem.stated_sizes(test)) is not None:
        return stated
    modes = importlib.import_module("torch._subclasses.fake_tensor")
    alone = copy.copy(problem)  # what the file keeps of tensors without values stays here
    torch = importlib.import_module("torch")
    state = torch.get_rng_state()
    try:
        with modes.FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            inputs = alone.test_case(test["name"])["create_inputs"]()
            with redirected(problem.device):
                outputs = outputs_of(alone.reference_solution(*inputs))
    except (Exception, SystemExit):  # noqa: BLE001 - a user's code; or values are asked for, which are not there
        return None
    finally:
        torch.set_rng_state(state)
    return _bytes(inputs), _bytes(outputs)


def _bytes(values: Sequence[Any]) -> int:
    return sum(value.numel() * value.element_size() for value in values if hasattr(value, "data_ptr"))


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
