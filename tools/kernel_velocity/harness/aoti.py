"""`compile`: a problem's graph as an AOTInductor package, kept on disk.

torch.compile costs 2.7 s per shape in a fresh process even with a warm cache; a package of the same graph loads in 2 ms
and runs at the same speed. Packages are kept per torch version, shape, dtype, device, settings and reference source.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernel_velocity.harness.problem import Inputs, Outputs, Problem

Run = Callable[[list[Any]], list[Any]]


def load(problem: Problem, case: str, inputs: Inputs, cache: Path) -> Run:
    """Return the compiled reference as a function of the list of its tensors that returns the list of its outputs.

    Raises:
        NotImplementedError: this torch cannot run packages, or there is no compiler to make the package with.
    """
    package_loader = _package_loader()
    package = cache / f"{_key(problem, case)}.pt2"
    if not package.exists():
        _compile(problem, inputs, package)
    # Single-threaded on CUDA: else each call waits on the host for the one before it, and nothing can be queued ahead.
    loader = package_loader(str(package), "model", problem.device == "cuda", 1, -1)
    run: Run = loader.run
    return run


def _package_loader() -> Any:
    """Return the class behind torch._inductor.aoti_load_package, which would first import 1.3 s of compiler each round.

    Raises:
        NotImplementedError: this torch has none: it is too old, or built without.
    """
    try:
        native: Any = importlib.import_module("torch._C._aoti")
    except ModuleNotFoundError as error:
        if error.name not in ("torch._C", "torch._C._aoti"):
            raise
        native = None
    loader = getattr(native, "AOTIModelPackageLoader", None)
    if loader is None:
        import torch  # noqa: PLC0415

        raise NotImplementedError(f"this torch has no AOTInductor: {torch.__version__} cannot run compiled packages")
    return loader


def _threads() -> int:
    return int(os.environ.get("KV_THREADS") or 1)


def _settings() -> dict[str, Any]:
    """Return what is set of inductor: one compiling worker (the pool would outlive the round), our number of threads.

    Division as eager does it where this torch can be told to: Triton's own is approximate, and a quantised integer that
    differs is a wrong result.
    """
    import torch._inductor.config as inductor  # noqa: PLC0415

    settings: dict[str, Any] = {"compile_threads": 1, "cpp.threads": _threads()}
    if hasattr(inductor, "eager_numerics"):
        settings["eager_numerics.division_rounding"] = True
    return settings


def _key(problem: Problem, case: str) -> str:
    import torch  # noqa: PLC0415

    where = torch.backends.cpu.get_cpu_capability()
    if problem.device == "cuda":
        where = f"{torch.cuda.get_device_name()}-{torch.version.cuda}"
    # Importing inductor's configuration costs a second: its settings are represented by the source that makes them.
    source = inspect.getsource(type(problem).reference_solution) + inspect.getsource(_settings)
    identity = "\n".join((torch.__version__, problem.name, case, where, str(_threads()), source))
    return f"{problem.name}-{case}-{problem.device}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"


def check_toolchain(device: str) -> None:
    """Raise NotImplementedError where AOTInductor would find no compiler, or no CUDA toolkit to link with."""
    from torch._inductor.cpp_builder import get_cpp_compiler  # noqa: PLC0415
    from torch._inductor.exc import InvalidCxxCompiler  # noqa: PLC0415

    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        raise NotImplementedError("AOTInductor found no C++ compiler: install one, for example g++") from None
    if device == "cuda":
        from torch.utils.cpp_extension import CUDA_HOME  # noqa: PLC0415

        if CUDA_HOME is None:
            raise NotImplementedError("AOTInductor found no CUDA toolkit to link with: set CUDA_HOME")
        os.environ.setdefault("CUDA_HOME", CUDA_HOME)  # it looks for the driver's stub library below this


def _compile(problem: Problem, inputs: Inputs, package: Path) -> None:
    """Compile the reference's graph for these shapes; the file appears whole or not at all."""
    import torch  # noqa: PLC0415
    import torch._inductor.config as inductor  # noqa: PLC0415

    check_toolchain(problem.device)
    scalars = [None if hasattr(value, "data_ptr") else value for value in inputs]

    class Reference(torch.nn.Module):
        def forward(self, *tensors: torch.Tensor) -> Outputs:
            given = iter(tensors)
            return problem.reference_solution(*(next(given) if s is None else s for s in scalars))

    tensors = tuple(value for value in inputs if hasattr(value, "data_ptr"))
    package.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=package.parent) as scratch, torch.no_grad(), inductor.patch(_settings()):
        program = torch.export.export(Reference(), tensors)
        made = torch._inductor.aoti_compile_and_package(program, package_path=str(Path(scratch) / "model.pt2"))
        Path(made).replace(package)
