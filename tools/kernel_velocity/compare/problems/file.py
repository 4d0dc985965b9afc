"""Finds the Problem in a Python file: ours, or a public challenge's, which imports its base from `problem`.

A file is imported as it is: while it is, `problem` is a module that holds our `Problem`, and the file's folder is
looked in for what it imports beside.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import cast

from kernel_velocity.errors import UsageError
from kernel_velocity.harness.problem import Problem

_OURS = ("benchmarks", "kernels", "kernel_velocity")
BASE = "problem"  # where public definitions import their base class from
WANTED = "from problem import Problem; class Mine(Problem): ..."


def import_file(path: Path) -> ModuleType:
    """Import a Python file by its path, under a name of its own.

    Raises:
        UsageError: there is no such file, or it does not import; the message has the line.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    where = path.resolve()
    name = f"kv_{where.stem}_{hashlib.sha256(str(where).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, where)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: no Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # inspect looks up a class's source there
    try:
        with _importable(where.parent):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a user's file may raise anything
        del sys.modules[name]
        raise UsageError(f"{path}:{_line(error, where)} does not import: {in_one_line(error)}") from error
    return module


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Let a file import `problem` and its neighbours; afterwards both are as they were.

    Neighbours are forgotten: a file of another folder may have some of the same names.
    """
    known = set(sys.modules)
    base = ModuleType(BASE)
    base.__dict__["Problem"] = Problem
    before = sys.modules.get(BASE)
    sys.modules[BASE] = base
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - known:
            if _is_neighbour(name, folder):
                del sys.modules[name]
        if before is None:
            del sys.modules[BASE]
        else:
            sys.modules[BASE] = before


def _is_neighbour(name: str, folder: Path) -> bool:
    """Return whether a module lies in a folder, or in a package there, and is none of this repository's."""
    origin = getattr(sys.modules[name], "__file__", None)
    if origin is None or name.partition(".")[0] in _OURS:
        return False
    near = Path(origin).parent
    return folder in (near, near.parent)


def _line(error: BaseException, path: Path) -> str:
    """Return the line of the file at which it failed, with a colon; nothing where no line of it is to blame."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{error.lineno}:"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{lines[-1]}:" if lines else ""


def in_one_line(error: BaseException) -> str:
    """Return an error's kind and the first line of what it says."""
    said = (error.msg if isinstance(error, SyntaxError) else str(error)).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__


def problem_class(path: Path, name: str | None = None) -> type[Problem]:
    """Return the Problem class of a file, complete.

    Args:
        path: the file. name: which of its classes; None: there is only one.

    Raises:
        UsageError: the file does not import, has no such class or several, or the class lacks a method.
    """
    module = import_file(path)
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Problem) and value.__module__ == module.__name__
    ]
    leaves = [one for one in classes if not any(one in other.__mro__[1:] for other in classes)]
    found = _chosen(path, name, {one.__name__: one for one in leaves})
    lacking = sorted(found.__abstractmethods__)
    if lacking:
        raise UsageError(f"{path}: class {found.__name__} lacks {', '.join(lacking)}")
    return found


def _chosen(path: Path, name: str | None, found: dict[str, type[Problem]]) -> type[Problem]:
    if not found:
        raise UsageError(f"{path}: no class that derives from Problem; wanted {WANTED}")
    if name is not None and name not in found:
        raise UsageError(f"{path}: no Problem called {name!r}; there are {', '.join(found)}")
    if name is None and len(found) > 1:
        raise UsageError(f"{path}: several Problems, {', '.join(found)}; name one: {path}:{next(iter(found))}")
    return found[name] if name is not None else next(iter(found.values()))


def made(path: Path, found: type[Problem]) -> Problem:
    """Return an instance of a file's Problem class.

    Raises:
        UsageError: it wants arguments, fails, or does not name itself.
    """
    wanted = [
        item.name
        for item in list(inspect.signature(found.__init__).parameters.values())[1:]
        if item.default is item.empty and item.kind in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY)
    ]
    if wanted:
        raise UsageError(
            f"{path}: {found.__name__}.__init__ wants {', '.join(wanted)}; wanted one without arguments that calls "
            'super().__init__(name="...")'
        )
    try:
        problem = cast(Callable[[], Problem], found)()
    except (Exception, SystemExit) as error:
        where = _line(error, path.resolve())
        raise UsageError(f"{path}:{where} {found.__name__}() fails: {in_one_line(error)}") from error
    if not isinstance(getattr(problem, "name", None), str):
        raise UsageError(f'{path}: {found.__name__} has no name: its __init__ must call super().__init__(name="...")')
    return problem
