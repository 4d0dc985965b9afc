"""A user's solution of a problem, bound to inputs: a shared library, or a Python file, as public challenges take them.

    extern "C" void solution(pointers..., scalars...)       in a library, called through ctypes
    def solution(*inputs, *outputs, *scalars)               in a Python file; it writes its outputs

Both get their arguments in the order of the problem's `parameters`, the trailing ones from `get_extra_params`. They get
no stream and return no status; on a GPU they run on the default stream.
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from kernel_velocity.compare.guards import Guarded, guarded, overwritten
from kernel_velocity.compare.problems.file import import_file
from kernel_velocity.compare.problems.foreign import DTYPES
from kernel_velocity.errors import UsageError
from kernel_velocity.harness.implementations import Bound, poison
from kernel_velocity.harness.problem import Inputs, Problem, TestCase

NAME = "solution"
Binder = Callable[[Problem, str, Inputs], Bound]


def binder(path: Path, problem: Problem) -> Binder:
    """Return what binds a solution to the inputs of a case.

    Args:
        path: a shared library (.so) or a Python file (.py). problem: what it solves, for messages.

    Raises:
        UsageError: no such file, it does not load, or has no function `solution`. Later, by the binder: the arguments
            of a case are not those that the solution takes.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    if path.suffix == ".py":
        return _python(path)
    if path.suffix == ".so":
        return _library(path, problem)
    raise UsageError(
        f"{path}: wanted a shared library (.so) or a Python file (.py); a C++ file becomes one by "
        f"`c++ -O3 -shared -fPIC {path.name} -o {path.stem}.so`, a CUDA file by "
        f"`nvcc -O3 -shared -Xcompiler -fPIC {path.name} -o {path.stem}.so`"
    )


def c_signature(problem: Problem) -> str:
    """Return the C declaration of a problem's solution: `void solution(const float* a, ...)`."""
    items = (
        f"{'const ' if item['const'] and item['pointer'] else ''}{item['type']}{'*' if item['pointer'] else ''} "
        f"{item['name']}"
        for item in problem.parameters
    )
    return f"void {NAME}({', '.join(items)})"


def _python(path: Path) -> Binder:
    module = import_file(path)
    function = getattr(module, NAME, None)
    if not callable(function):
        raise UsageError(f"{path}: no function `{NAME}`; wanted def {NAME}(*inputs, *outputs, *scalars)")

    def bind(problem: Problem, case: str, inputs: Inputs) -> Bound:
        check_dtypes(problem, case, inputs)
        watched = _watched(problem, case, inputs)
        arguments = ordered(problem, case, inputs, [each.output for each in watched])
        try:
            inspect.signature(function).bind(*arguments)
        except TypeError as error:
            names = ", ".join(item["name"] for item in problem.parameters)
            raise UsageError(
                f"{path}: {NAME} does not take the {len(arguments)} arguments of {problem.name} ({names}): {error}"
            ) from None
        return bound(partial(function, *arguments), problem, watched)

    return bind


def _library(path: Path, problem: Problem) -> Binder:
    try:
        function = getattr(ctypes.CDLL(str(path.resolve())), NAME)
    except OSError as error:
        raise UsageError(f"{path}: the library does not load: {error}") from None
    except AttributeError:
        raise UsageError(f'{path}: no function `{NAME}`; wanted extern "C" {c_signature(problem)}') from None
    function.restype = None

    def bind(problem: Problem, case: str, inputs: Inputs) -> Bound:
        check_dtypes(problem, case, inputs)
        watched = _watched(problem, case, inputs)
        arguments = ordered(problem, case, inputs, [each.output for each in watched])
        types = _argtypes(problem)
        if len(types) != len(arguments):
            raise UsageError(
                f"{path}: {problem.name} has {len(arguments)} arguments in case {case!r} (inputs, outputs and "
                f"get_extra_params), but its signature {len(types)}: {c_signature(problem)}"
            )
        prepared = [_as_c(problem, index, types[index], value) for index, value in enumerate(arguments)]
        call = partial(function, *prepared)
        call.__dict__["tensors"] = (*arguments, *watched)  # kept alive as long as the call is
        return bound(call, problem, watched)

    return bind


def _argtypes(problem: Problem) -> Sequence[Any]:
    try:
        types: Sequence[Any] = problem.get_function_signature()["argtypes"]
    except (KeyError, TypeError) as error:
        raise UsageError(f"{problem.name}: get_function_signature knows no C type {error}") from None
    return types


def _as_c(problem: Problem, index: int, kind: Any, value: Any) -> Any:
    """Return an argument as the C type of the signature; a tensor as the address of its memory, or as its number."""
    is_pointer = kind is ctypes.c_void_p or hasattr(kind, "contents")
    try:
        if not hasattr(value, "data_ptr"):
            return kind(value)
        return ctypes.cast(value.data_ptr(), kind) if is_pointer else kind(value.item())
    except (TypeError, ctypes.ArgumentError):
        names = [item["name"] for item in problem.parameters]
        name = names[index] if index < len(names) else index
        raise UsageError(
            f"{problem.name}: argument `{name}` is {type(value).__name__}, the signature says {kind.__name__}"
        ) from None


def check_dtypes(problem: Problem, case: str, inputs: Inputs) -> None:
    """Raise NotImplementedError (n/a) where a tensor of a case is not of the type that `parameters` says."""
    declared = [item for item in problem.parameters if item["pointer"] and item["const"]]
    tensors = [value for value in problem.native_arguments(inputs) if hasattr(value, "data_ptr")]
    for item, tensor in zip(declared, tensors, strict=False):  # fewer, or more, are found where they are bound
        dtype = str(tensor.dtype).removeprefix("torch.")
        if DTYPES.get(item["type"], dtype) != dtype:
            raise NotImplementedError(
                f"case {case} has `{item['name']}` of {dtype}; a solution takes {item['type']}*: {c_signature(problem)}"
            )


def ordered(problem: Problem, case: str, inputs: Inputs, outputs: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments of a solution as `parameters` orders them: inputs, outputs, what `get_extra_params` adds.

    Without `parameters` (older definitions) the outputs come between the two.
    """
    extra = problem.get_extra_params(_test_case(problem, case))
    if not problem.parameters:
        return (*problem.native_arguments(inputs), *outputs, *extra)
    given, written = iter((*problem.native_arguments(inputs), *extra)), iter(outputs)
    arguments: list[Any] = []
    for item in problem.parameters:
        source = written if item["pointer"] and not item["const"] else given
        arguments.extend(islice(source, 1))
    return (*arguments, *written, *given)


def _test_case(problem: Problem, name: str) -> TestCase:
    for case in (*problem.generate_test_cases(), problem.generate_sample()):
        if case["name"] == name:
            return case
    raise UsageError(f"{problem.name}: no case {name!r} on {problem.device}")


def new_outputs(problem: Problem, case: str, inputs: Inputs) -> tuple[Any, ...]:
    """Return uninitialised outputs for a case: as the problem says, or else like those of its reference.

    Raises:
        UsageError: they are not as many as `parameters` has, or not of the types that it says.
    """
    try:
        outputs: Any = problem.empty_output(inputs)
    except NotImplementedError:
        like = problem.expected(*inputs)
        found = like if isinstance(like, tuple | list) else (like,)
        outputs = tuple(one.new_empty(tuple(one.shape)) for one in found)
    outputs = tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)
    wanted = [item for item in problem.parameters if item["pointer"] and not item["const"]]
    if not wanted:
        return tuple(outputs)
    where = f"{problem.name}: case {case!r}"
    if len(outputs) != len(wanted):
        names = ", ".join(item["name"] for item in wanted)
        raise UsageError(f"{where}: the reference has {len(outputs)} outputs, `parameters` {len(wanted)}: {names}")
    for output, item in zip(outputs, wanted, strict=True):
        dtype = str(output.dtype).removeprefix("torch.")
        if DTYPES.get(item["type"], dtype) != dtype:
            raise UsageError(f"{where}: output `{item['name']}` is {dtype}, `parameters` says {item['type']}*")
    return tuple(outputs)


def _watched(problem: Problem, case: str, inputs: Inputs) -> tuple[Guarded, ...]:
    return tuple(guarded(output) for output in new_outputs(problem, case, inputs))


def bound(call: Callable[[], Any], problem: Problem, watched: Sequence[Guarded]) -> Bound:
    """Return a call with its outputs: `output()` gives the tensor, or all of them where there are several."""
    outputs = tuple(each.output for each in watched)
    names = problem.output_names() or tuple(f"output {number}" for number in range(1, len(outputs) + 1))

    def spoil() -> None:
        for output in outputs:
            poison(output)

    return Bound(
        call,
        lambda: outputs[0] if len(outputs) == 1 else outputs,
        spoil,
        lambda: overwritten(names, watched),
    )
