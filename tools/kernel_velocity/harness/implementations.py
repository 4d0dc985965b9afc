"""Implementations of a problem, bound to inputs: a call to be timed, and where its output lies.

`eager` is the problem's reference, `compile` the same graph as an AOTInductor package, `native` and `triton` are our
kernels at the commit under test. One that cannot exist here raises NotImplementedError: n/a, not failed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_velocity.harness import aoti
from kernel_velocity.harness.cases import ITEM_BYTES, ON_CUDA_ALONE, dtype_of
from kernel_velocity.harness.problem import Inputs, Outputs, Problem, outputs_of
from kernel_velocity.harness.timers import Call


@dataclass(frozen=True)
class Bound:
    """A call on fixed inputs. `output()` returns what the last call wrote, all outputs; `poison()` overwrites it.

    `beside()` says what calls wrote beside the outputs, "" for nothing or where nobody looks.
    """

    call: Call
    output: Callable[[], Any]
    poison: Callable[[], None]
    beside: Callable[[], str] = str


class KernelFailedError(RuntimeError):
    """A native kernel returned a status that is not 0."""


def bind(implementation: str, problem: Problem, case: str, inputs: Inputs, cache: Path) -> Bound:
    """Return the implementation bound to `inputs`.

    Args:
        implementation: "eager", "compile", "native" or "triton".
        problem: what is computed.
        case: name of the test case; part of the key under which compiled packages are kept.
        inputs: tensors and scalars of the case.
        cache: folder for compiled packages.

    Raises:
        NotImplementedError: the implementation does not exist here (old commit, no compiler, no GPU): n/a.
    """
    check_device(implementation, problem.device)
    return _BINDERS[implementation](problem, case, inputs, cache)


def check_device(implementation: str, device: str) -> None:
    """Raise NotImplementedError for an implementation that exists on no device of this kind: before inputs are made.

    Triton's interpreter runs on the CPU, for tests; its time says nothing, so it is never bound.
    """
    if implementation in ON_CUDA_ALONE and device != "cuda":
        raise NotImplementedError(f"{implementation.capitalize()} needs a CUDA device")


def fresh(function: Callable[[], Any]) -> Bound:
    """Bind a call that returns a new output each time: there is nothing to overwrite but the reference to it."""
    last: list[Any] = [None]

    def call() -> None:
        last[0] = function()

    def forget() -> None:
        last[0] = None

    return Bound(call, lambda: last[0], forget)


def _bind_eager(problem: Problem, _case: str, inputs: Inputs, _cache: Path) -> Bound:
    reference = problem.reference_solution
    return fresh(lambda: reference(*inputs))


def _bind_native(problem: Problem, case: str, inputs: Inputs, _cache: Path) -> Bound:
    kernel = problem.kernel
    if kernel is None:
        raise NotImplementedError(f"{problem.name} has no native kernel")
    module = _of_this_commit(f"kernels.{kernel}")
    _check_support(problem, case, module.SUPPORTS)
    if problem.device == "cuda":
        reason = importlib.import_module("kernels").cuda_status()
        if reason is not None:
            raise NotImplementedError(reason)
    output = problem.empty_output(inputs)
    call: Call = module.bind(*problem.native_arguments(inputs), **_named(problem, output))
    if status := call():
        raise KernelFailedError(f"kernels.{kernel} returned status {status}")
    return Bound(call, lambda: output, lambda: poison(output))


def _check_support(problem: Problem, case: str, supports: Mapping[str, tuple[str, ...]]) -> None:
    """Raise NotImplementedError when the commit's kernel, or this machine, cannot run the problem's device or dtype.

    `supports` names dtypes of all devices in "dtypes"; where there is "dtypes_cpu" or "dtypes_cuda", that counts there.
    """
    devices = supports["devices"]
    if not devices:
        raise NotImplementedError(
            f"at this commit kernels.{problem.kernel} is not written yet: SUPPORTS names no device"
        )
    if problem.device not in devices:
        raise NotImplementedError(f"at this commit {problem.name} runs on {devices}, not {problem.device}")
    dtypes = supports.get(f"dtypes_{problem.device}", supports["dtypes"])
    if dtype_of(case) in ITEM_BYTES and dtype_of(case) not in dtypes:  # a user's case may be called anything
        raise NotImplementedError(
            f"at this commit {problem.name} takes {', '.join(dtypes)} on {problem.device}, not {dtype_of(case)}"
        )


def _bind_triton(problem: Problem, case: str, inputs: Inputs, _cache: Path) -> Bound:
    if problem.kernel is None:
        raise NotImplementedError(f"{problem.name} has no Triton kernel")
    module = _of_this_commit(f"kernels.{problem.kernel}.triton")
    if problem.device not in module.SUPPORTS["devices"]:  # of ours, the interpreter alone runs on the CPU
        raise NotImplementedError("TRITON_INTERPRET is set: interpreted, a kernel's time says nothing")
    _check_support(problem, case, module.SUPPORTS)
    output = problem.empty_output(inputs)
    call: Call = module.bind(*problem.native_arguments(inputs), **_named(problem, output))
    call()  # compiles
    return Bound(call, lambda: output, lambda: poison(output))


def _of_this_commit(name: str) -> Any:
    """Return a module of `kernels`.

    Raises:
        NotImplementedError: the commit under test does not have it, or it is Triton's and Triton is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == "triton":
            raise NotImplementedError("Triton is not installed") from None
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise NotImplementedError(f"this commit has no {name}") from None


def _named(problem: Problem, output: Outputs) -> dict[str, Any]:
    """Return the outputs by the keywords of a kernel's `bind` that take them (`Problem.native_arguments`)."""
    several = outputs_of(output)
    return {"out": output} if len(several) == 1 else dict(zip(problem.output_names(), several, strict=True))


def poison(output: Outputs) -> None:
    """Overwrite every output with values that no kernel here produces: NaN, or 77 in every element."""
    for each in outputs_of(output):
        each.fill_(float("nan") if each.is_floating_point() else 77)


def _bind_compile(problem: Problem, case: str, inputs: Inputs, cache: Path) -> Bound:
    run = aoti.load(problem, case, inputs, cache)
    tensors = [value for value in inputs if hasattr(value, "data_ptr")]
    if len(problem.output_names()) > 1:
        return fresh(lambda: tuple(run(tensors)))
    return fresh(lambda: run(tensors)[0])


_BINDERS: Mapping[str, Callable[[Problem, str, Inputs, Path], Bound]] = {
    "eager": _bind_eager,
    "compile": _bind_compile,
    "native": _bind_native,
    "triton": _bind_triton,
}
