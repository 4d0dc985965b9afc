"""A user's solution of a problem, bound to inputs: a shared library, or a Python file, as public challenges take them.

    extern "C" void solution(pointers..., scalars...)       in a library, called through ctypes
    def solution(*inputs, *outputs, *scalars)               in a Python file, which writes its outputs

Both get their arguments in the order of the problem's `parameters`, the trailing ones from `get_extra_params`. They get
no stream and return no status. On a GPU they run on the default stream. A Python file may also have what solutions of
the problem's own form have, `ModelNew`, `custom_kernel` or `run`: a function that returns its outputs.

Each output lies between guard bytes, which reveal a solution that writes outside of it. Without them such a solution
would pass, and damage other tensors or the allocator's memory.
"""

from __future__ import annotations

import ctypes
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

from kernel_velocity.engine.timers import Call
from kernel_velocity.errors import UsageError
from kernel_velocity.problem.implementations import Bound, fresh, poison
from kernel_velocity.problem.problem import C_TYPES, Inputs, Problem, outputs_of
from kernel_velocity.problem.problem_file import dtype_of, fits, parameters_of
from kernel_velocity.problem.problem_formats import ReturningProblem, copies
from kernel_velocity.problem.user_file import import_file

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
        path: a shared library (.so) or a Python file (.py). problem: what it solves, for messages.

    Raises:
        UsageError: no such file, it does not load, or has no function `solution`. The binder raises it where the
            solution does not take the arguments of a case.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    if path.suffix not in (".py", ".so"):
        raise UsageError(
            f"{path}: must be a shared library (.so) or a Python file (.py); compile C++ by "
            f"`c++ -O3 -shared -fPIC {path.name} -o {path.stem}.so`, CUDA by "
            f"`nvcc -O3 -shared -Xcompiler -fPIC {path.name} -o {path.stem}.so`"
        )
    if path.suffix == ".so":
        prepare = _library(path, problem)
    else:
        module = import_file(path)
        if isinstance(problem, ReturningProblem) and hasattr(module, problem.entry):
            return _returning(problem, getattr(module, problem.entry))
        prepare = _python(path, getattr(module, SOLUTION, None), problem)

    def bind(problem: Problem, case: str, inputs: Inputs) -> Bound:
        check_dtypes(problem, case, inputs)
        outputs = [Guarded.like(output) for output in new_outputs(problem, case, inputs)]
        arguments = ordered(problem, case, inputs, [guarded.output for guarded in outputs])
        call = prepare(problem, case, arguments)

        def function() -> None:
            new = [guarded.output.new_empty(guarded.output.shape) for guarded in outputs]
            prepare(problem, case, ordered(problem, case, inputs, new))()

        return _bound(call, problem, outputs, function)

    return bind


Prepare = Callable[[Problem, str, Sequence[Any]], Callable[[], Any]]  # problem, case, arguments -> the call


def _returning(problem: ReturningProblem, function: Any) -> Bind:
    """Return what binds a solution that returns its outputs. One of a problem that works in place gets copies."""
    solve = problem.solution_of(function)

    def bind(problem: Problem, case: str, inputs: Inputs) -> Bound:
        if not problem.in_place:
            return fresh(lambda: solve(*inputs))
        return restored(inputs, lambda written: fresh(lambda: solve(*written)))

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

    def prepare(problem: Problem, case: str, arguments: Sequence[Any]) -> Callable[[], Any]:
        try:
            signature.bind(*arguments)
        except TypeError as error:
            names = ", ".join(entry["name"] for entry in signature_of(problem))
            raise UsageError(
                f"{path}: {SOLUTION} does not take the {len(arguments)} arguments of {problem.name} ({names}): {error}"
            ) from None
        return partial(function, *arguments)

    return prepare


def _library(path: Path, problem: Problem) -> Prepare:
    try:
        function = getattr(ctypes.CDLL(str(path.resolve())), SOLUTION)
    except OSError as error:
        raise UsageError(f"{path}: the library does not load: {error}") from None
    except AttributeError:
        raise UsageError(f'{path}: no function `{SOLUTION}`; wanted extern "C" {c_signature(problem)}') from None
    function.restype = None

    def prepare(problem: Problem, case: str, arguments: Sequence[Any]) -> Callable[[], Any]:
        entries = signature_of(problem)
        if len(entries) != len(arguments):
            raise UsageError(
                f"{path}: {problem.name} has {len(arguments)} arguments in case {case!r} (inputs, outputs and "
                f"get_extra_params), but its signature {len(entries)}: {c_signature(problem)}"
            )
        call = partial(function, *(_as_c(problem, *pair) for pair in zip(entries, arguments, strict=True)))
        call.__dict__["tensors"] = arguments  # kept alive as long as the call is
        return call

    return prepare


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
    extra = problem.get_extra_params(problem.test_case(case))
    read, written = iter((*problem.native_arguments(inputs), *extra)), iter(outputs)
    arguments: list[Any] = []
    for entry in signature_of(problem):
        arguments.extend(islice(written if entry["pointer"] and not entry["const"] else read, 1))
    return (*arguments, *written, *read)


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
