"""Where a definition says that GPU code is: in files of the build, or what a function of the definition compiles.

Both are the same bytes: a library, an object, a cubin, a fatbin or PTX of NVIDIA, a code object, a bundle of them or
assembly of AMD. No GPU and no driver is needed. What a compiler left is read, so a comment, a line or a folder changes
nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernel_velocity import units
from kernel_velocity.counts import amd_code
from kernel_velocity.counts.amd_code import AmdKernels
from kernel_velocity.counts.c_call import NotCountedError
from kernel_velocity.counts.elf import CUDA, MAGIC, Elf
from kernel_velocity.counts.gpu_code import GPU_SECTIONS, Cubin, GpuCode
from kernel_velocity.counts.gpu_figures import Compiled, assembled, combined, matches, of_cubin, readable
from kernel_velocity.names import TARGETS
from kernel_velocity.terminal import uncoloured

ARCHITECTURE = re.compile(r"sm_\d+[af]?|gfx[0-9a-f]+")
_NAMED = 8  # kernels that a message names
_TARGET = re.compile(r"^\s*\.target\s+sm_(\d+)([af]?)", re.MULTILINE)
_LINES = 3  # lines of an error that a message has
_PATH = re.compile(r" \(\S+\)$")  # of the module, behind what an import says


@dataclass(frozen=True)
class GpuFile:
    """GPU kernels in files of a build."""

    file: str  # or a pattern of files, such as "kernels/*.cubin"
    kernels: Sequence[str] = ("*",)  # names or patterns of them, as the compiler writes them, or without types
    architectures: Sequence[str] = TARGETS["cuda"]
    threads: int | None = None  # of a block. None: as the launch bounds say
    shared: int = 0  # bytes of dynamic shared memory of a block

    def compiled(self, build: Path, architecture: str, cache: Path) -> Compiled:
        """Return the figures of the kernels.

        Raises:
            NotCountedError: there is no such file, kernel, or code for the architecture: n/a.
        """
        paths = sorted(path for path in build.glob(self.file) if path.is_file())
        if not paths:
            raise NotCountedError(f"the build of this commit made no {self.file}")
        code = Code(self.file, [part for path in paths for part in read(path.name, path.read_bytes())])
        return code.figures(architecture, cache, self.kernels, self.threads, self.shared)


@dataclass(frozen=True)
class GpuCompiler:
    """GPU kernels that a function compiles, such as one of a definition that calls the compiler of a language."""

    # Of an architecture. It returns the code, or the code and the bytes of dynamic shared memory of a block
    function: Callable[[str], bytes | str | tuple[bytes | str, int]]
    architectures: Sequence[str] = TARGETS["cuda"]
    kernels: Sequence[str] = ("*",)  # as of GpuFile, and so are the others
    threads: int | None = None
    shared: int = 0

    def compiled(self, _build: Path, architecture: str, cache: Path) -> Compiled:
        """Return the figures of the kernels.

        Raises:
            NotCountedError: it does not compile, as without the language's package, or not for the architecture: n/a.
        """
        name = getattr(
            getattr(self.function, "func", self.function), "__name__", "the function"
        )  # of functools.partial
        try:
            made = self.function(architecture)
        except ModuleNotFoundError as error:
            why = f"{name} needs the module {error.name}, which neither this Python nor this commit has"
            raise NotCountedError(f"{why}: install its language (docs/how-to/gpu-languages.md)") from None
        except Exception as error:  # compilers raise anything
            raise NotCountedError(f"{name} does not compile for {architecture}: {_in_a_line(error)}") from error
        code, shared = made if isinstance(made, tuple) and len(made) == 2 else (made, self.shared)
        if not isinstance(code, bytes | str) or type(shared) is not int:
            wanted = "the bytes of a cubin, PTX, code object, ..., or these and the bytes of shared memory"
            raise NotCountedError(f"{name} returned {type(made).__name__} for {architecture}; wanted {wanted}")
        parts = read(f"what {name} returned", code.encode() if isinstance(code, str) else code)
        return Code(name, parts).figures(architecture, cache, self.kernels, self.threads, shared)


def _in_a_line(error: Exception) -> str:
    """Return what an error says: of many lines the first two and the last, as compilers show code between them."""
    texts = [" ".join(uncoloured(line).split()) for line in str(error).splitlines()]
    lines = [text for text in texts if re.search(r"\w", text)] or [type(error).__name__]
    return _PATH.sub("", " ".join(lines if len(lines) <= _LINES else [*lines[: _LINES - 1], "...", lines[-1]]))


class Code:
    """GPU code of one origin."""

    def __init__(self, name: str, parts: Sequence[GpuCode | AmdKernels]) -> None:
        self._name, self._parts = name, parts
        self._texts = [text for part in parts if isinstance(part, GpuCode) for text in part.ptx]

    @property
    def _machine_code(self) -> Iterator[Cubin | AmdKernels]:
        for part in self._parts:
            yield from part.cubins if isinstance(part, GpuCode) else [part]

    def figures(
        self, architecture: str, cache: Path, kernels: Sequence[str], threads: int | None, shared: int
    ) -> Compiled:
        """Return the figures of kernels for an architecture. The arguments are those of GpuFile.

        Raises:
            NotCountedError: there is no such kernel, or no code for the architecture.
        """
        if not any(part.entries for part in self._parts):
            raise NotCountedError(f"{self._name} has no GPU code that is read here")
        codes: list[Cubin | AmdKernels] = [code for code in self._machine_code if code.architecture == architecture]
        codes = codes or list(self._assembled(architecture))
        matching = [(code, name) for code in codes for name in sorted(code.entries) if matches(name, kernels)]
        unmatched = [pattern for pattern in kernels if not any(matches(name, [pattern]) for _, name in matching)]
        if unmatched:
            names = sorted({readable(name) for code in codes for name in code.entries})
            has = units.listed(names, _NAMED)
            raise NotCountedError(f"{self._name} has no GPU kernel {unmatched[0]} for {architecture}; it has {has}")
        short = Counter(readable(name) for _, name in matching)
        parts = list[Compiled]()
        for code, name in matching:
            if isinstance(code, Cubin):
                made = of_cubin(code, name, cache, threads, shared)
            else:
                made = code.figures(name, threads, shared)
            # A mangled name may count what a process compiled before, as Numba's does
            label = readable(name) if short[readable(name)] == 1 else name
            parts.append(replace(made, occupancies=dict(zip([label], made.occupancies.values(), strict=False))))
        return combined(parts)

    def _assembled(self, architecture: str) -> Iterator[Cubin]:
        """Yield machine code of PTX that the architecture can run.

        Raises:
            NotCountedError: there is none.
        """
        usable = [text for text in self._texts if _is_usable(text.content, architecture)]
        if not usable:
            has = dict.fromkeys(code.architecture for code in self._machine_code)
            has |= {f"PTX of sm_{''.join(of)}": None for text in self._texts for of in _TARGET.findall(text.content)}
            raise NotCountedError(f"{self._name} has no code for {architecture}; it has {units.listed([*has], _NAMED)}")
        for text in usable:
            yield assembled(text.content, architecture)


def _is_usable(ptx: str, architecture: str) -> bool:
    match = _TARGET.search(ptx)
    if match is None or not architecture.startswith("sm_"):
        return False
    wanted = int(architecture.removeprefix("sm_").rstrip("af"))
    return f"sm_{match[1]}{match[2]}" == architecture or (not match[2] and int(match[1]) <= wanted)


def read(name: str, content: bytes) -> list[GpuCode | AmdKernels]:
    """Return the GPU code of a library, an object, a cubin, a fatbin, PTX, a code object, a bundle or assembly.

    Args:
        name: of it in messages.

    Raises:
        NotCountedError: it is damaged, or of a kind that is not read.
    """
    try:
        if content.startswith(amd_code.MAGICS) or amd_code.is_assembly(content):
            return [*amd_code.read(content)]
        if not content.startswith(MAGIC):
            return [GpuCode(content)]
        elf = Elf(content)
        if elf.machine == CUDA:
            return [GpuCode(content)]
        if elf.machine == amd_code.MACHINE:
            return [*amd_code.read(content)]
    except ValueError as error:
        raise NotCountedError(f"{name}: {error}") from None
    fatbins = [part.content for part in elf.sections if part.name in GPU_SECTIONS]
    bundles = [part.content for part in elf.sections if part.name == amd_code.SECTION]
    return [GpuCode(b"".join(fatbins)), *(code for bundle in bundles for code in amd_code.read(bundle))]
