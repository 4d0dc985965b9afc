"""Compiles a .cu file of ours, unmodified, to a library that the CPU runs."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.cuda_on_host.calling import Library
from tests.cuda_on_host.rewriting import rewrite

HERE = Path(__file__).parent
KERNELS = HERE.parents[1] / "kernels"
COMPILER = shlex.split(os.environ.get("CXX", "c++"))
FLAGS = ("-std=c++17", "-fPIC", "-fno-gnu-unique", "-U_FORTIFY_SOURCE", f"-I{HERE / 'include'}")
# -fsanitize=thread reports each access to the engine. A struct of 16 bytes must be read at once, as on a GPU, and not
# member by member (no-tree-sra). nvcc fuses multiplications and additions too, but not those of our references.
# A fiber's stack is 256 KiB (engine/blocks.cpp), and kernels do not recurse.
OF_KERNELS = ("-O1", "-fsanitize=thread", "-ffp-contract=off", "-fno-tree-sra", "-Werror=frame-larger-than=65536")
OF_ENGINE = ("-O2", "-Wall", "-Wextra")


class Builder:
    """Builds the engine and kernels in a folder, each once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._libraries: dict[Path, Library] = {}
        self._engine: Path | None = None

    def kernel(self, name: str, file: str | None = None) -> Library:
        """Return the library of kernels/<name>/<name>.cu, or of another file in that folder."""
        return self.library(KERNELS / name / f"{file or name}.cu")

    def library(self, source: Path) -> Library:
        """Return the library of a .cu file, which may include headers below its folder's parent."""
        if source not in self._libraries:
            folder = Path(tempfile.mkdtemp(dir=self.folder))  # sources of one name are of different libraries
            kernel = self._compile(_rewritten(source, folder), OF_KERNELS)
            self._libraries[source] = Library(self._link(kernel))
        return self._libraries[source]

    def _compile(self, source: Path, flags: Sequence[str]) -> Path:
        to = (source.parent if source.is_relative_to(self.folder) else self.folder) / f"{source.stem}.o"
        _run([*COMPILER, *FLAGS, *flags, "-x", "c++", "-c", str(source), "-o", str(to)])
        return to

    def _link(self, kernel: Path) -> Path:
        """Return a library of its own engine and a kernel."""
        if self._engine is None:
            self._engine = self._compile(HERE / "engine" / "engine.cpp", OF_ENGINE)
        to = kernel.with_suffix(".so")
        _run([*COMPILER, "-shared", "-Wl,-Bsymbolic", str(self._engine), str(kernel), "-ldl", "-o", str(to)])
        return to


def _rewritten(source: Path, folder: Path) -> Path:
    """Write the source as C++ to a folder, and headers beside it as they lie beside it. Return where it is."""
    root = source.parents[1]
    headers = [path for pattern in ("*/*.h", "*/*.cuh") for path in root.glob(pattern)]
    for path in (source, *headers):
        to = folder / path.relative_to(root)
        to.parent.mkdir(parents=True, exist_ok=True)
        stand_in = HERE / "include" / path.name  # of ours, too, where a header is instructions of PTX
        text = (stand_in if stand_in.exists() else path).read_text(encoding="utf-8")
        to.write_text(rewrite(text, str(path)), encoding="utf-8")
    return folder / source.relative_to(root)


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}\n{done.stderr}")


class BuildError(Exception):
    """The C++ compiler refused a kernel, the engine or their link. The text is the compiler's."""
