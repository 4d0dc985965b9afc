"""Bind implementations of a problem to inputs: a call to time, and its output.

`eager` is the problem's reference, `compile` the same graph as an AOTInductor package. Others are the problem's own, of
the commit under test. One that cannot exist here raises NotImplementedError: n/a, not failed.
"""

from __future__ import annotations

import glob
import hashlib
import importlib
import importlib.util
import inspect
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

from kernel_velocity.engine.reported import threads
from kernel_velocity.engine.timers import Call, Timer
from kernel_velocity.names import COMPILED, ITEM_BYTES, dtype_of
from kernel_velocity.problem.problem import Inputs, Outputs, Problem, outputs_of


@dataclass(frozen=True)
class Bound:
    """A call on fixed inputs.

    `output()` returns all outputs of the last call. `poison()` overwrites them. `beside()` says what calls wrote beside
    the outputs, "" for nothing or where that is not checked. `function` is what users call, with checks and allocation,
    None where that is the call itself. `timer` is that of a call which times a region of itself, None: the device's.
    `c_call` is a `functools.partial` of a C function that does the same as `call`, None where only `call` can be one.
    """

    call: Call
    output: Callable[[], Any]
    poison: Callable[[], None]
    beside: Callable[[], str] = str
    function: Call | None = None
    timer: Timer | None = None
    c_call: Call | None = None


class KernelFailedError(RuntimeError):
    """A native kernel returned a status that is not 0."""


def bind(implementation: str, problem: Problem, case: str, inputs: Inputs, cache: Path) -> Bound:
    """Return the implementation bound to `inputs`.

    Args:
        implementation: one of the problem's.
        problem: what is computed.
        case: name of the test case. Part of the key of compiled packages.
        inputs: tensors and scalars of the case.
        cache: folder for compiled packages.

    Raises:
        NotImplementedError: the implementation does not exist here (old commit, no compiler, no GPU): n/a.
    """
    check_device(implementation, problem)
    if implementation in problem.functions:
        bound: Bound = problem.functions[implementation](problem, case, inputs)
        return bound
    if implementation == COMPILED:
        return _bind_compile(problem, case, inputs, cache)
    return fresh(problem.reference_call(inputs), problem.device)


def check_device(implementation: str, problem: Problem) -> None:
    """Raise NotImplementedError for an implementation that does not exist on the device, before inputs are made.

    Triton's interpreter runs on the CPU, for tests. Its time says nothing, so it is never bound there.
    """
    if implementation not in problem.implementations_on(problem.device):
        wanted = "CPU" if problem.device == "cuda" else "CUDA device"
        raise NotImplementedError(f"{implementation.capitalize()} needs a {wanted}")


def check(implementation: str, problem: Problem, case: str) -> None:
    """Raise what `bind` raises for an implementation that does not exist here. Nothing is made or compiled."""
    check_device(implementation, problem)
    function = problem.functions.get(implementation)
    if isinstance(function, Module):
        function.check(problem, case)
    elif function is None and implementation == COMPILED:
        if problem.device == "cpu":
            _package_loader()
        check_toolchain(problem.device)


def fresh(function: Callable[[], Any], device: str = "cpu") -> Bound:
    """Bind a call that returns a new output each time: there is nothing to overwrite but the reference to it.

    On CUDA the last output is given back before the next is made, so that PyTorch's allocator takes the same memory.
    Two outputs in turns would take twice as much of the second-level cache as our kernels, which have one.
    """
    last: list[Any] = [None]

    def call() -> None:
        if device == "cuda":
            last[0] = None
        last[0] = function()

    def forget() -> None:
        last[0] = None

    return Bound(call, lambda: last[0], forget)


def poison(output: Outputs) -> None:
    """Overwrite every output with values that no kernel here produces: NaN, or 77 in every element."""
    for tensor in outputs_of(output):
        tensor.fill_(float("nan") if tensor.is_floating_point() else 77)


# Modules of a build ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Module:
    """A Python module that the build makes. Its `bind` checks the arguments once, and returns the call to time.

    `bind` gets what the problem's `native_arguments` are by position, and the outputs as keywords: `out`, or several by
    the names of `output_names`. The call returns a status, None or 0 for success. The module may say what it can do:
    SUPPORTS = {"devices": ("cpu",), "dtypes": ("float32",)}, with "dtypes_cuda" where a device takes others. What it
    does not name is n/a. Its package may have a function `cuda_status`, which returns why CUDA cannot run, or None.

    Attributes:
        name: of the module, such as "mypackage.layernorm".
        device: "cpu" or "cuda" where it is for that alone. None: for both.
    """

    name: str
    device: str | None = None

    @property
    def package(self) -> str:
        """The top package, of which a working tree has a folder."""
        return self.name.partition(".")[0]

    def check(self, problem: Problem, case: str) -> Any:
        """Return the module. NotImplementedError where this commit's does not run on the problem's device or dtype."""
        module = _of_this_commit(self.name)
        supports = getattr(module, "SUPPORTS", None)
        if supports is not None:
            self._check_support(problem, case, supports)
        status = getattr(importlib.import_module(self.name.rpartition(".")[0] or self.name), "cuda_status", None)
        if problem.device == "cuda" and status is not None and (reason := status()) is not None:
            raise NotImplementedError(reason)
        return module

    def __call__(self, problem: Problem, case: str, inputs: Inputs) -> Bound:
        """Return it bound to inputs, with outputs of its own. The first call may compile.

        Raises:
            NotImplementedError: this commit has no such module, or it does not run here.
            KernelFailedError: the first call returned a status.
        """
        module = self.check(problem, case)
        output = problem.empty_output(inputs)
        several = outputs_of(output)
        keywords = {"out": output} if len(several) == 1 else dict(zip(problem.output_names(), several, strict=True))
        arguments = problem.native_arguments(inputs)
        call: Call = module.bind(*arguments, **keywords)
        if status := call():
            raise KernelFailedError(f"{self.name} returned status {status}")
        function = getattr(module, self.name.rpartition(".")[2], None)  # called like its module
        whole = partial(function, *arguments) if callable(function) else None
        return Bound(call, lambda: output, lambda: poison(output), function=whole)

    def _check_support(self, problem: Problem, case: str, supports: Mapping[str, tuple[str, ...]]) -> None:
        devices = supports["devices"]
        if not devices:
            raise NotImplementedError(f"at this commit {self.name} is not written yet: SUPPORTS names no device")
        if problem.device not in devices:
            if self.name.endswith(".triton"):  # the interpreter alone runs on the CPU
                raise NotImplementedError("TRITON_INTERPRET is set: interpreted, a kernel's time says nothing")
            raise NotImplementedError(f"at this commit {problem.name} runs on {devices}, not {problem.device}")
        dtypes = supports.get(f"dtypes_{problem.device}", supports["dtypes"])
        if dtype_of(case) in ITEM_BYTES and dtype_of(case) not in dtypes:  # a user's case may be called anything
            raise NotImplementedError(
                f"at this commit {problem.name} takes {', '.join(dtypes)} on {problem.device}, not {dtype_of(case)}"
            )


def _of_this_commit(name: str) -> Any:
    """Return a module of the build under test.

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


# `compile` ------------------------------------------------------------------------------------------------------------
# On a CPU an AOTInductor package of the problem's graph, kept on disk: torch.compile costs 2.7 s per shape in a fresh
# process even with a warm cache, a package of the same graph loads in 2 ms and runs at the same speed. Packages are
# kept per torch version, shape, dtype, settings and reference source.
# On CUDA torch.compile itself, with inductor's own cache. There a package took 55 s to make, and loading it ended the
# process (an H200, torch 2.11: SIGSEGV in the package's loader).


def _bind_compile(problem: Problem, case: str, inputs: Inputs, cache: Path) -> Bound:
    """Bind the package of the problem's graph. On CUDA the graph under torch.compile.

    Raises:
        NotImplementedError: this torch cannot run packages, or there is no compiler to make the package with.
    """
    if problem.device == "cuda":
        import torch._inductor.config as inductor  # noqa: PLC0415

        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache.with_name("inductor").absolute()))
        bound = bind_live_compile(problem, case, inputs)
        with inductor.patch(_inductor_settings()):
            bound.call()  # compiles
        return bound
    package_loader = _package_loader()
    run = package_loader(str(package(problem, case, inputs, cache)), "model", False, 1, -1).run
    tensors = [value for value in inputs if hasattr(value, "data_ptr")]
    if len(run(tensors)) > 1:
        return fresh(lambda: tuple(run(tensors)))
    return fresh(lambda: run(tensors)[0])


def package(problem: Problem, case: str, inputs: Inputs, cache: Path) -> Path:
    """Return the package of a problem's graph for the shapes of a case. It is compiled where the cache has none.

    Raises:
        NotImplementedError: there is no compiler to make it with.
    """
    path = cache / f"{_package_key(problem, case)}.pt2"
    if not path.exists():
        _compile(problem, inputs, path)
    return path


def has_package(problem: Problem, case: str, cache: Path) -> bool:
    """Return whether a cache has a package of a test case, of whatever torch and settings: torch is not imported.

    True too where `leave_to_rounds` was called.
    """
    return any(cache.glob(f"{glob.escape(_package_name(problem, case))}-*.pt2"))


def leave_to_rounds(problem: Problem, case: str, cache: Path) -> None:
    """Note that a package could not be made: the round that needs it tries it again, and says why it cannot."""
    cache.mkdir(parents=True, exist_ok=True)
    (cache / f"{_package_name(problem, case)}-none.pt2").touch()


def import_compiler() -> None:
    """Import what compiles packages, for processes that are forked from this one. Nothing where torch lacks it."""
    with suppress(ImportError):
        importlib.import_module("torch._inductor.compile_fx")


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
        import torch  # noqa: PLC0415 - discovery must work without torch

        raise NotImplementedError(f"this torch has no AOTInductor: {torch.__version__} cannot run compiled packages")
    return loader


def _inductor_settings() -> dict[str, Any]:
    """Return the settings of inductor: one compiling worker (the pool would outlive the round), our number of threads.

    Division as eager does it where this torch can be told to: Triton's own is approximate, and a quantised integer that
    differs is a wrong result. Random numbers of the eager operations, so that dropout can be compared with the
    reference.
    """
    import torch._inductor.config as inductor  # noqa: PLC0415

    settings: dict[str, Any] = {"compile_threads": 1, "cpp.threads": threads(), "fallback_random": True}
    if hasattr(inductor, "eager_numerics"):
        settings["eager_numerics.division_rounding"] = True
    return settings


def _package_key(problem: Problem, case: str) -> str:
    import torch  # noqa: PLC0415

    where = torch.backends.cpu.get_cpu_capability()
    # Importing inductor's configuration costs a second: its settings are represented by the source that makes them.
    source = problem.reference_source() + inspect.getsource(_inductor_settings)
    identity = "\n".join((torch.__version__, problem.name, case, where, str(threads()), source))
    return f"{_package_name(problem, case)}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"


def _package_name(problem: Problem, case: str) -> str:
    return f"{problem.name}-{case}-{problem.device}"


def check_toolchain(device: str) -> None:
    """Raise NotImplementedError where inductor finds nothing to compile with: no C++ compiler, or on CUDA no Triton."""
    if device == "cuda":
        if importlib.util.find_spec("triton") is None:
            raise NotImplementedError("torch.compile needs Triton on CUDA, which is not installed")
        return
    from torch._inductor.cpp_builder import get_cpp_compiler  # noqa: PLC0415
    from torch._inductor.exc import InvalidCxxCompiler  # noqa: PLC0415

    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        raise NotImplementedError("AOTInductor found no C++ compiler: install one, for example g++") from None


def _compile(problem: Problem, inputs: Inputs, package: Path) -> None:
    """Compile the reference's graph for these shapes. The file appears whole or not at all."""
    import torch  # noqa: PLC0415
    import torch._inductor.config as inductor  # noqa: PLC0415

    check_toolchain(problem.device)

    class Reference(torch.nn.Module):
        def forward(self, *tensors: torch.Tensor) -> Outputs:
            remaining = iter(tensors)
            arguments = [next(remaining) if hasattr(value, "data_ptr") else value for value in inputs]
            return outputs_of(problem.reference_solution(*arguments))

    tensors = tuple(value for value in inputs if hasattr(value, "data_ptr"))
    package.parent.mkdir(parents=True, exist_ok=True)
    settings = inductor.patch(_inductor_settings())
    with tempfile.TemporaryDirectory(dir=package.parent) as scratch, torch.no_grad(), settings:
        program = torch.export.export(Reference(), tensors)
        made = torch._inductor.aoti_compile_and_package(program, package_path=str(Path(scratch) / "model.pt2"))
        Path(made).replace(package)


def bind_live_compile(problem: Problem, _case: str, inputs: Inputs) -> Bound:
    """Return the reference under `torch.compile`, as a user's own call of it: `compile` in a live comparison.

    Its first call compiles, which takes seconds.

    Raises:
        NotImplementedError: there is nothing to compile with: no C++ compiler for the CPU, no Triton for CUDA.
    """
    import torch  # noqa: PLC0415

    check_toolchain(problem.device)
    reference = problem.reference_solution

    def call(*arguments: Any) -> Any:
        return reference(*arguments)

    # A code object of its own: torch counts recompilations by code object, and after eight of them, which are eight
    # test cases, it would quietly run the eager operations.
    alone = FunctionType(call.__code__.replace(), call.__globals__, closure=call.__closure__)
    # Random numbers of the eager operations, so that dropout can be compared with the reference
    compiled = torch.compile(alone, dynamic=False, options={"fallback_random": True})
    return fresh(lambda: compiled(*inputs), problem.device)
