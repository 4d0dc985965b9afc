"""Compiles a .cu file of ours, unmodified, to a library that the CPU runs."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cuda_on_host.calling import Library
from tests.cuda_on_host.rewriting import rewrite

HERE = Path(__file__).parent
KERNELS = HERE.parents[1] / "kernels"
FOLDER = HERE.parents[1] / "build" / "cuda_on_host"  # what one run of the tests built the next one uses
COMPILER = shlex.split(os.environ.get("CXX", "c++"))
FLAGS = ("-std=c++17", "-fPIC", "-fno-gnu-unique", "-U_FORTIFY_SOURCE", f"-I{HERE / 'include'}", f"-I{KERNELS.parent}")
# -fsanitize=thread reports each access to the engine. A struct of 16 bytes must be read at once, as on a GPU, and not
# member by member (no-tree-sra). nvcc fuses multiplications and additions too, but not those of our references.
# A fiber's stack is 256 KiB (engine/blocks.cpp), and kernels do not recurse.
OF_KERNELS = ("-O1", "-fsanitize=thread", "-ffp-contract=off", "-fno-tree-sra", "-Werror=frame-larger-than=65536")
OF_KERNELS += ("-DKV_SM_90A", "-Wno-psabi")
OF_ENGINE = ("-O2", "-Wall", "-Wextra")


class Builder:
    """Builds the engine and kernels, each once. Other processes, and later ones, use the same."""

    def __init__(self) -> None:
        self.folder = FOLDER / _digest_of_sources()
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in FOLDER.iterdir():
            if path != self.folder:
                shutil.rmtree(path, ignore_errors=True)
        self._libraries: dict[tuple[Path, ...], Library] = {}

    def kernel(self, name: str, file: str | None = None) -> Library:
        """Return the library of kernels/<name>/<name>.cu, or of another file in that folder.

        With <name>_tensor.cu comes <name>_hopper.cu, which it calls.
        """
        source = KERNELS / name / f"{file or name}.cu"
        hopper = source.with_name(source.name.replace("_tensor.cu", "_hopper.cu"))
        return self.library(*dict.fromkeys((source, hopper)))

    def library(self, *sources: Path) -> Library:
        """Return the library of .cu files of one folder, which may include headers below its parent."""
        if sources not in self._libraries:
            parts = [(source.name, source.read_bytes()) for source in sources]  # one of a test's own may have any text
            digest = hashlib.sha256(repr(parts).encode()).hexdigest()
            with self._unless_built(Path(digest, "library.so")) as (folder, to):
                if not to.exists():
                    objects = [_compile(_rewritten(source, folder), folder, OF_KERNELS) for source in sources]
                    _link(objects, self._engine(), to)
            self._libraries[sources] = Library(to)
        return self._libraries[sources]

    def _engine(self) -> Path:
        with self._unless_built(Path("engine", "engine.o")) as (folder, to):
            return to if to.exists() else _compile(HERE / "engine" / "engine.cpp", folder, OF_ENGINE)

    @contextmanager
    def _unless_built(self, name: Path) -> Iterator[tuple[Path, Path]]:
        """Have a file's folder for oneself, to look whether another process has built it."""
        to = self.folder / name
        to.parent.mkdir(parents=True, exist_ok=True)
        with to.with_name("lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield to.parent, to


def _digest_of_sources() -> str:
    """Return a digest of all that a library of ours is made of, the compiler among it."""
    parts = [
        repr((COMPILER, FLAGS, OF_KERNELS, OF_ENGINE)),
        subprocess.check_output([*COMPILER, "-v"], stderr=subprocess.STDOUT),
    ]
    sources = (path for root in (KERNELS, HERE) for path in sorted(root.rglob("*")))
    parts += [path.read_bytes() for path in sources if path.suffix in (".cu", ".cuh", ".h", ".cpp", ".py")]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _compile(source: Path, folder: Path, flags: Sequence[str]) -> Path:
    return _made(folder / f"{source.stem}.o", [*FLAGS, *flags, "-x", "c++", "-c", str(source)])


def _link(kernels: Sequence[Path], engine: Path, to: Path) -> None:
    """Write a library of its own engine and kernels."""
    objects = map(str, (engine, *kernels))
    _made(to, ["-shared", "-Wl,-Bsymbolic", *objects, "-ldl"])


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


def _made(to: Path, arguments: Sequence[str]) -> Path:
    """Have the compiler write a file, which is there when it is whole."""
    part = to.with_suffix(".part")
    command = [*COMPILER, *arguments, "-o", str(part)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}\n{done.stderr}")
    return part.replace(to)


class BuildError(Exception):
    """The C++ compiler refused a kernel, the engine or their link. The text is the compiler's."""
