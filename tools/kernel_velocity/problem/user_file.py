"""Import a user's Python file by its path, with its neighbours. An error in it is one line with its place."""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType

from kernel_velocity.problem.problem import NotHereError, Problem, ProblemError
from kernel_velocity.terminal import uncoloured

_OURS = ("benchmarks", "kernels", "kernel_velocity")
_FILES = "_kv_files"  # of a module: the neighbours that it imported
BASE = "problem"  # where public definitions import their base class from


def import_file(path: Path, neighbours: Mapping[str, Path] | None = None) -> ModuleType:
    """Import a Python file by its path, under a private name.

    Args:
        path: the file. While it is imported, `problem` is a module that holds our `Problem`.
        neighbours: module name -> file, of modules that the file imports and that lie elsewhere. They come before any
            installed module. Other modules of the file's folder come after all installed ones.

    Raises:
        ProblemError: there is no such file, or it does not import, with the line.
        NotHereError: it needs what this machine lacks.
    """
    if not path.is_file():
        raise ProblemError(f"{path}: no such file")
    where = path.resolve()
    name = f"kv_{where.stem}_{hashlib.sha256(str(where).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, where)
    if spec is None or spec.loader is None:
        raise ProblemError(f"{path}: no Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # inspect looks up a class's source there
    try:
        with _importable(where.parent, neighbours or {}):
            before = set(sys.modules)
            spec.loader.exec_module(module)
            loaded = [sys.modules[name] for name in sys.modules if name not in before]
        folders = {where.parent, *(file.parent for file in (neighbours or {}).values())}
        origins = {Path(str(origin)) for imported in loaded if (origin := getattr(imported, "__file__", None))}
        module.__dict__[_FILES] = sorted(origin for origin in origins if origin.parent in folders)
    except (Exception, SystemExit) as error:  # a user's file may raise anything
        del sys.modules[name]
        raise failure(f"{path}:{line(error, where)}", "does not import", error, has_cuda=has_cuda()) from error
    return module


def files_of(module: ModuleType) -> list[Path]:
    """Return the file of a module from `import_file`, and those of the neighbours that it imported."""
    return [Path(str(module.__file__)), *vars(module).get(_FILES, ())]


class _Neighbours(MetaPathFinder):
    """Finds modules by name in given files, before any installed module."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        file = self._files.get(fullname)
        return None if file is None else importlib.util.spec_from_file_location(fullname, file)


@contextmanager
def _importable(folder: Path, neighbours: Mapping[str, Path]) -> Iterator[None]:
    """Let a file import `problem` and its neighbours, and restore the modules afterwards.

    Neighbours are forgotten: a file of another folder may have neighbours of the same names. The folder comes last in
    the path: public folders have files called torch.py, which are solutions and not PyTorch. Nothing is written beside
    them: bytecode of a file that is edited within a second, to the same size, would be taken for that of the new text.
    """
    before, writes_nothing = dict(sys.modules), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    for name in neighbours:
        sys.modules.pop(name, None)
    base = ModuleType(BASE)
    base.__dict__["Problem"] = Problem
    sys.modules[BASE] = base
    sys.path.append(str(folder))
    finder = _Neighbours(neighbours)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes_nothing
        sys.meta_path.remove(finder)
        sys.path.remove(str(folder))
        for name in {name for name in sys.modules if name not in before and _is_neighbour(name, folder)}:
            del sys.modules[name]
        for name in (BASE, *neighbours):
            sys.modules.pop(name, None)
            if name in before:
                sys.modules[name] = before[name]


def _is_neighbour(name: str, folder: Path) -> bool:
    """Return whether a module lies in a folder or in a package there, and belongs to the user."""
    origin = getattr(sys.modules[name], "__file__", None)
    if origin is None or name.partition(".")[0] in _OURS:
        return False
    return folder in (Path(origin).parent, Path(origin).parent.parent)


NEEDS_CUDA = "needs CUDA: "
# Words of an error of PyTorch, or of a language for GPUs, that a machine with CUDA does not raise
_OF_CUDA = re.compile(
    r"CUDA|NVIDIA|cudaGetDevice|active drivers|not implemented for|'CPU' backend|Invalid scaling configuration"
    r"|cudaErrorInsufficientDriver|libcuda\.so|Numba type of <class 'torch"
)


def has_cuda() -> bool:
    """Return whether PyTorch, if it is imported, sees a CUDA device."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_available())


def failure(where: str, what: str, error: BaseException, *, has_cuda: bool) -> ProblemError:
    """Return the error of a user's code in one line: what failed, or what it needs that is not here (NotHereError)."""
    if needed := lacking(error, has_cuda=has_cuda):
        return NotHereError(f"{where} {needed}")
    return ProblemError(f"{where} {what}: {in_one_line(error)}")


def lacking(error: BaseException, *, has_cuda: bool) -> str:
    """Return what a user's code needs that is not here, as its error says: a module, or CUDA. "" for other errors.

    Args:
        error: what the code raised, with its causes.
        has_cuda: whether the code ran on CUDA.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ModuleNotFoundError) and cause.name:
            return f"needs the module {cause.name}, which is not installed"
        cause = cause.__cause__ or cause.__context__
    if has_cuda or "CUDA error" in str(error):
        return ""
    if isinstance(error, TypeError) and "doesn't implement the cuda array interface" in str(error):
        return f"{NEEDS_CUDA}{in_one_line(error)}"  # Numba's, of a CPU's tensor
    of_python = type(error).__module__ == "builtins"
    if of_python and not isinstance(error, AssertionError | RuntimeError | ValueError | OSError):
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    asserts_cuda = isinstance(error, AssertionError) and bool(frames) and "cuda" in (frames[-1].line or "")
    return f"{NEEDS_CUDA}{in_one_line(error)}" if asserts_cuda or _OF_CUDA.search(str(error)) else ""


def line(error: BaseException, path: Path) -> str:
    """Return the line of a file at which it failed, with a colon. "" if it failed elsewhere."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{error.lineno}:"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{lines[-1]}:" if lines else ""


def in_one_line(error: BaseException) -> str:
    """Return an error's kind and the first line of its message, with the next one behind a colon."""
    text = uncoloured(error.msg if isinstance(error, SyntaxError) else str(error)).strip()
    lines = re.sub(r":\s*\n\s*", ": ", text).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
