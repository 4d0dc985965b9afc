"""Finds the Problem in a Python file: ours, or a public challenge's, which imports its base from `problem`.

A file is imported as it is: while it is, `problem` is a module that holds our `Problem`, and the file's folder is
looked in for what it imports beside.

What the methods of a user's Problem return, looked at before it is used: each answer as we need it, or one line.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import math
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Real
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from kernel_velocity.errors import UsageError
from kernel_velocity.harness.problem import Problem, TestCase, Verdict

_OURS = ("benchmarks", "kernels", "kernel_velocity")
BASE = "problem"  # where public definitions import their base class from
WANTED = "from problem import Problem; class Mine(Problem): ..."

KEYS = ("name", "dims", "create_inputs")  # of a test case
PARAMETER = {"name": str, "type": str, "pointer": object, "const": object}


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


def parameters(path: Path, found: Any) -> None:
    """Check the `parameters` of a class.

    Raises:
        UsageError: it is no list of {"name", "type", "pointer", "const"}.
    """
    wanted = 'wanted a list of {"name": "x", "type": "float", "pointer": True, "const": True}'
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise UsageError(f"{path}: parameters is {_kind(found)}, {wanted}")
    for each in found:
        lacking = [name for name in PARAMETER if name not in each] if isinstance(each, Mapping) else list(PARAMETER)
        if lacking:
            raise UsageError(f"{path}: {short(each)} in parameters lacks {', '.join(lacking)}; {wanted}")
        for name, kind in PARAMETER.items():
            if not isinstance(each[name], kind):
                raise UsageError(f"{path}: the {name} of {short(each)} in parameters is {_kind(each[name])}; {wanted}")


def cases(path: Path, found: Any) -> list[TestCase]:
    """Return test cases, their dims as tuples.

    Raises:
        UsageError: no list, a case that lacks something or has it of the wrong kind.
    """
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise UsageError(f"{path}: generate_test_cases returned {_kind(found)}, wanted a list")
    return [case(path, each) for each in found]


def case(path: Path, found: Any) -> TestCase:
    """Return a test case, its dims as a tuple.

    Raises:
        UsageError: it lacks something, or has it of the wrong kind.
    """
    lacking = [key for key in KEYS if key not in found] if isinstance(found, Mapping) else list(KEYS)
    if lacking:
        raise UsageError(f"{path}: a test case lacks {', '.join(lacking)}: {short(found)}")
    name, dims = found["name"], found["dims"]
    if not isinstance(name, str) or not name.strip():
        raise UsageError(f'{path}: the name of a test case is {short(name)}, wanted text such as "1024x1024"')
    if not isinstance(dims, Sequence) or not all(_is_number(each) for each in dims):
        raise UsageError(
            f"{path}: case {name!r}: dims is {short(dims)}, wanted a tuple of numbers such as (1024, 1024)"
        )
    if not callable(found["create_inputs"]):
        got = _kind(found["create_inputs"])
        raise UsageError(f"{path}: case {name!r}: create_inputs is {got}, wanted a function of no arguments")
    return cast(TestCase, {**found, "dims": tuple(dims)})


def amount(where: str, found: Any) -> int | None:
    """Return FLOPs or bytes as a whole number; None: the problem does not say.

    Raises:
        UsageError: no number, or one that cannot be an amount; the message begins with `where`.
    """
    if found is not None and (not _is_number(found) or found < 0):
        raise UsageError(f"{where} returned {short(found)}, wanted a number >= 0, or None where it is not known")
    return None if found is None else round(found)


def verdict(where: str, found: Any) -> Verdict:
    """Return what `verify_result` returned.

    Raises:
        UsageError: it is no (bool, dict).
    """
    wanted = 'wanted (True, {}) or (False, {"what": "is wrong"})'
    if not isinstance(found, Sequence) or isinstance(found, str) or len(found) != 2:
        raise UsageError(f"{where} returned {short(found)}, {wanted}")
    right, details = found
    if not isinstance(details, Mapping):
        raise UsageError(f"{where} returned {_kind(details)} for details, {wanted}")
    try:
        return bool(right), {str(key): value for key, value in details.items()}
    except (ValueError, RuntimeError):  # an array of several
        raise UsageError(f"{where} returned {_kind(right)} of several elements for a verdict, {wanted}") from None


def outputs(where: str, found: Any) -> Any:
    """Return what a reference returned: a tensor, or several in a tuple.

    Raises:
        UsageError: it is something else.
    """
    several = found if isinstance(found, tuple | list) else (found,)
    odd = [each for each in several if not hasattr(each, "data_ptr")]
    if odd or not several:
        got = f"{_kind(odd[0])} among its outputs" if odd and several is found else _kind(found)
        raise UsageError(f"{where} returned {got}, wanted a tensor, or a tuple of tensors")
    return found


def listed(where: str, found: Any) -> list[Any]:
    """Return a list or tuple as a list.

    Raises:
        UsageError: it is something else.
    """
    if not isinstance(found, list | tuple):
        raise UsageError(f"{where} returned {_kind(found)}, wanted a list")
    return list(found)


def signature(where: str, found: Any) -> dict[str, Any]:
    """Return what `get_function_signature` returned.

    Raises:
        UsageError: it has no list of argtypes.
    """
    if not isinstance(found, Mapping) or not isinstance(found.get("argtypes"), list | tuple):
        raise UsageError(f'{where} returned {short(found)}, wanted {{"argtypes": [...], "restype": None}}')
    return dict(found)


def short(value: Any) -> str:
    """Return a value as text of one line, cut off where it is long."""
    return " ".join(repr(value).split())[:80]


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
