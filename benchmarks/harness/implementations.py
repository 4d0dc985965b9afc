"""Implementations of a problem, bound to inputs: a call to be timed, and where its output lies.

`eager` is the problem's reference, `compile` the same graph as an AOTInductor package, `native` our kernel at the
commit under test. One that cannot exist here raises NotImplementedError: n/a, not failed.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.problem import Inputs, Problem
from benchmarks.harness.timers import Call


@dataclass(frozen=True)
class Bound:
    """A call on fixed inputs. `output()` returns the tensor that the last call wrote, `poison()` overwrites it."""

    call: Call
    output: Callable[[], Any]
    poison: Callable[[], None]


class KernelFailedError(RuntimeError):
    """A native kernel returned a status that is not 0."""


def bind(implementation: str, problem: Problem, case: str, inputs: Inputs, cache: Path) -> Bound:
    """Return the implementation bound to `inputs`.

    Args:
        implementation: "eager", "compile" or "native".
        problem: what is computed.
        case: name of the test case; part of the key under which compiled packages are kept.
        inputs: tensors and scalars of the case.
        cache: folder for compiled packages.

    Raises:
        NotImplementedError: the implementation does not exist here (old commit, no compiler, no GPU): n/a.
    """
    return _BINDERS[implementation](problem, case, inputs, cache)


def _fresh(function: Callable[[], Any]) -> Bound:
    """Bind a call that returns a new output each time: there is nothing to overwrite but the reference to it."""
    last: list[Any] = [None]

    def call() -> None:
        last[0] = function()

    def forget() -> None:
        last[0] = None

    return Bound(call, lambda: last[0], forget)


def _bind_eager(problem: Problem, _case: str, inputs: Inputs, _cache: Path) -> Bound:
    reference = problem.reference_solution
    return _fresh(lambda: reference(*inputs))


def _bind_native(problem: Problem, _case: str, inputs: Inputs, _cache: Path) -> Bound:
    kernel = problem.kernel
    if kernel is None:
        raise NotImplementedError(f"{problem.name} has no native kernel")
    try:
        module = importlib.import_module(f"kernels.{kernel}")
    except ModuleNotFoundError as error:
        if error.name not in ("kernels", f"kernels.{kernel}"):
            raise
        raise NotImplementedError(f"this commit has no kernels.{kernel}") from None
    _check_support(problem, module.SUPPORTS)
    output = problem.empty_output(inputs)
    call: Call = module.bind(*problem.native_arguments(inputs), out=output)
    if status := call():
        raise KernelFailedError(f"kernels.{kernel} returned status {status}")
    return Bound(call, lambda: output, lambda: _poison(output))


def _check_support(problem: Problem, supports: Mapping[str, tuple[str, ...]]) -> None:
    """Raise NotImplementedError when the commit's kernel, or this machine, cannot run the problem's device."""
    if problem.device not in supports["devices"]:
        raise NotImplementedError(f"at this commit {problem.name} runs on {supports['devices']}, not {problem.device}")
    if problem.device == "cuda":
        reason = importlib.import_module("kernels").cuda_status()
        if reason is not None:
            raise NotImplementedError(reason)


def _poison(output: Any) -> None:
    """Overwrite an output with values that no kernel here produces: NaN, or 77 in every element."""
    output.fill_(float("nan") if output.is_floating_point() else 77)


# AOTInductor ----------------------------------------------------------------------------------------------------
# torch.compile costs 2.7 s per shape in a fresh process even with a warm cache; a package of the same graph loads in
# 2 ms and runs at the same speed. Packages are kept per torch version, shape, dtype, device, CPU and reference source.


def _bind_compile(problem: Problem, case: str, inputs: Inputs, cache: Path) -> Bound:
    package = cache / f"{_package_key(problem, case)}.pt2"
    if not package.exists():
        _compile_package(problem, inputs, package)
    run = _load_package(package)
    tensors = [value for value in inputs if hasattr(value, "data_ptr")]
    return _fresh(lambda: run(tensors)[0])


def _package_key(problem: Problem, case: str) -> str:
    import torch  # noqa: PLC0415

    where = torch.backends.cpu.get_cpu_capability()
    if problem.device == "cuda":
        where = f"{torch.cuda.get_device_name()}-{torch.version.cuda}"
    source = inspect.getsource(type(problem).reference_solution)
    identity = "\n".join((torch.__version__, problem.name, case, where, _threads(), source))
    return f"{problem.name}-{case}-{problem.device}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"


def _threads() -> str:
    return os.environ.get("KV_THREADS") or "1"


def _compile_package(problem: Problem, inputs: Inputs, package: Path) -> None:
    """Compile the reference's graph for these shapes; the file appears whole or not at all."""
    import torch  # noqa: PLC0415
    import torch._inductor.config as inductor  # noqa: PLC0415

    scalars = [None if hasattr(value, "data_ptr") else value for value in inputs]

    class Reference(torch.nn.Module):
        def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
            given = iter(tensors)
            return problem.reference_solution(*(next(given) if s is None else s for s in scalars))

    tensors = tuple(value for value in inputs if hasattr(value, "data_ptr"))
    settings = {
        "compile_threads": 1,
        "cpp.threads": int(_threads()),
    }  # one worker: the pool would outlive the round
    package.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=package.parent) as scratch,
        torch.no_grad(),
        inductor.patch(settings),
    ):
        program = torch.export.export(Reference(), tensors)
        made = torch._inductor.aoti_compile_and_package(program, package_path=str(Path(scratch) / "model.pt2"))
        Path(made).replace(package)


def _load_package(package: Path) -> Callable[[list[Any]], Any]:
    """Return the package as a function of a list of tensors that returns a list of tensors.

    The class behind torch._inductor.aoti_load_package, which would first import 1.3 s of compiler in every round.
    """
    import torch._C._aoti as aoti  # noqa: PLC0415

    loader = aoti.AOTIModelPackageLoader(str(package), "model", False, 1, -1)
    run: Callable[[list[Any]], Any] = loader.run
    return run


_BINDERS: Mapping[str, Callable[[Problem, str, Inputs, Path], Bound]] = {
    "eager": _bind_eager,
    "compile": _bind_compile,
    "native": _bind_native,
}
