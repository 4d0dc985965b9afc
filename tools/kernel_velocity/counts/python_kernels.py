"""GPU kernels that are compiled from Python, without a GPU: figures of what their compilers make of them.

A definition names the function, the types of its arguments, constants, and architectures. The function is that of the
build under test. What is compiled is hashed and counted, so a comment, a line or a folder changes nothing.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from kernel_velocity.counts import amd_code
from kernel_velocity.counts.c_call import NotCountedError
from kernel_velocity.counts.gpu_code import Cubin
from kernel_velocity.counts.gpu_figures import Compiled, assembled, of_cubin, readable

_JIT = ("arg_names", "py_func")  # what a function under `triton.jit` has, and one of Numba's
_WAVES_OF_32 = ("gfx10", "gfx11", "gfx12")  # RDNA. CDNA's have 64 lanes


@dataclass(frozen=True)
class TritonKernel:
    """A function under `triton.jit`."""

    function: str  # "mypackage.norm:norm_kernel"
    signature: Mapping[str, str]  # argument -> Triton's type: "*fp32", "i32"
    constants: Mapping[str, Any] = field(default_factory=dict)  # argument -> value
    architectures: Sequence[str] = ("sm_80", "sm_90")
    aligned: Sequence[str] = ()  # the arguments that 16 divides, as Triton sees of most when a kernel is launched
    options: Mapping[str, Any] = field(default_factory=dict)  # num_warps, num_stages, ...

    def compiled(self, _build: Path, architecture: str, cache: Path) -> Compiled:
        """Return the figures of the kernel.

        Raises:
            NotCountedError: there is no Triton or no such function, or it does not compile: n/a.
        """
        os.environ.setdefault("TRITON_CACHE_DIR", str(cache.absolute() / "triton"))
        if os.environ.get("TRITON_INTERPRET") == "1":
            raise NotCountedError("TRITON_INTERPRET is set: interpreted, a kernel has no machine code")
        triton = package("triton", "triton")
        from triton.backends.compiler import GPUTarget  # noqa: PLC0415
        from triton.compiler import ASTSource  # noqa: PLC0415

        kernel = function(self.function)
        names: list[str] = list(getattr(kernel, "arg_names", ()))
        if {*self.signature, *self.constants} != {*names}:
            wanted = ", ".join(names) or "those of a function under triton.jit"
            got = ", ".join((*self.signature, *self.constants))
            raise NotCountedError(f"{self.function}: types or constants of {wanted} are wanted (got {got})")
        source = ASTSource(
            kernel,
            {name: "constexpr" if name in self.constants else self.signature[name] for name in names},
            {(names.index(name),): value for name, value in self.constants.items()},
            {(names.index(name),): [["tt.divisibility", 16]] for name in self.aligned},
        )
        try:
            made = triton.compile(source, target=GPUTarget(*_target(architecture)), options=dict(self.options))
        except Exception as error:  # its compilers raise anything
            raise NotCountedError(_refusal(self.function, architecture, error)) from error
        threads = made.metadata.num_warps * _target(architecture)[2]
        if architecture.startswith("gfx"):
            return amd_code.of_assembly(
                made.asm["amdgcn"], architecture, made.metadata.name, threads, made.metadata.shared
            )
        return of_cubin(Cubin(made.asm["cubin"], 0), made.metadata.name, cache, threads, made.metadata.shared)


@dataclass(frozen=True)
class NumbaKernel:
    """A function that Numba compiles for CUDA, under `cuda.jit` or not."""

    function: str  # "mypackage.norm:norm_kernel"
    signature: str  # Numba's types of its arguments: "float32[::1], float32[::1], int32"
    architectures: Sequence[str] = ("sm_80", "sm_90")
    threads: int | None = None  # of a block. None: no occupancy
    shared: int = 0  # bytes of dynamic shared memory of a block
    options: Mapping[str, Any] = field(default_factory=dict)  # of numba.cuda.compile_ptx: fastmath, opt, ...

    def compiled(self, _build: Path, architecture: str, cache: Path) -> Compiled:
        """Return the figures of the kernel.

        Raises:
            NotCountedError: there is no Numba or no such function, or it does not compile: n/a.
        """
        if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
            raise NotCountedError("NUMBA_ENABLE_CUDASIM is set: simulated, a kernel has no machine code")
        if not architecture.startswith("sm_"):
            raise NotCountedError(f"Numba compiles for NVIDIA's GPUs, not for {architecture}")
        numba, _ = package("numba", "numba-cuda[cu13]"), package("numba_cuda", "numba-cuda[cu13]")
        from numba import cuda  # noqa: PLC0415

        kernel = function(self.function)
        number = int(architecture.removeprefix("sm_").rstrip("af"))
        try:
            types = numba.core.sigutils.normalize_signature(f"({self.signature},)")[0]
            source = getattr(kernel, "py_func", kernel)
            text, _ = cuda.compile_ptx(source, types, cc=divmod(number, 10), **self.options)
        except Exception as error:  # its compilers raise anything
            raise NotCountedError(_refusal(self.function, architecture, error)) from error
        cubin = assembled(text, architecture)
        (name,) = cubin.entries
        made = of_cubin(cubin, name, cache, self.threads, self.shared)
        short = self.function.rpartition(":")[2]  # Numba's name has a count of what the process compiled
        return replace(
            made,
            missing={figure: why.replace(readable(name), short) for figure, why in made.missing.items()},
            occupancies=dict.fromkeys([short] * len(made.occupancies), made.occupancies.get(name, "")),
        )


def _target(architecture: str) -> tuple[str, int | str, int]:
    """Return Triton's name of an architecture: backend, architecture, threads of a warp."""
    if architecture.startswith("gfx"):
        return "hip", architecture, 32 if architecture.startswith(_WAVES_OF_32) else 64
    return "cuda", int(architecture.removeprefix("sm_").rstrip("af")), 32


def package(name: str, distribution: str) -> Any:
    """Import a package of a language.

    Raises:
        NotCountedError: it is not installed, or does not import.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == name:
            raise NotCountedError(f"{name} is not installed: `pip install {distribution}`") from None
        raise NotCountedError(f"{name} does not import: {error}") from error


def function(name: str) -> Any:
    """Return a function of the build under test, from "module:function".

    Raises:
        NotCountedError: this commit has none.
    """
    module, _, attribute = name.partition(":")
    try:
        found = importlib.import_module(module)  # words: what the import found
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise NotCountedError(f"{module} does not import: {error}") from error
        raise NotCountedError(f"this commit has no {module}") from None
    if not hasattr(found, attribute):
        has = ", ".join(sorted(key for key, value in vars(found).items() if any(map(partial(hasattr, value), _JIT))))
        raise NotCountedError(f"{module} of this commit has no {attribute}; its kernels: {has or 'none'}")
    return getattr(found, attribute)


def _refusal(name: str, architecture: str, error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{name} does not compile for {architecture}: {(lines or [type(error).__name__])[-1]}"
