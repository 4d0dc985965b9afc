"""Capture what a round depends on before a kernel's code is imported, and detect what was replaced.

A kernel in Python shares its process with the harness, and can replace what checks it, what reads the clock, a bound
that it is held to, or what it is compared with. A round whose functions and constants are not the original ones has no
value. That shows a patch, not malice: code that means to deceive can replace this module, too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence, Sized
from itertools import chain, takewhile
from operator import attrgetter, contains, getitem, is_
from pathlib import PurePath
from types import FunctionType
from typing import Any, NamedTuple

from kernel_velocity import units
from kernel_velocity.engine.timers import no_collection

# What measures, and the leaves that it reads names and documents with
OURS = "kernel_velocity."
ROOMS = ("engine.", "problem.", "machine.", "suite.", "compare.", "stats.", "names", "documents")
HARNESS = tuple(f"{OURS}{name}" for name in ROOMS)
# What a problem decides.
METHODS = ("expected", "reference_solution", "subset", "verify_result", "get_flops", "get_bytes", "test_case")
TORCH = ("torch", "torch.nn.functional")
LAYERS = "torch.nn.modules."
CALLS = ("forward", "__call__", "_call_impl", "_wrapped_call_impl")  # of a layer; PyTorch replaces some of the others
BY_TORCH = ("manual_seed",)  # PyTorch replaces it itself when its compiler is imported
# What its compiler puts into the module of a function that it compiles, and removes with the compiled code
COMPILED = ("__compiled_fn_", "__resume_at_", "__import_", "__builtins_dict__")
# Values of constants: those that cannot change, and those whose contents are compared
FIXED, CONTAINERS = (int, float, str, bytes, tuple, frozenset, PurePath), (dict, list, set)


class ReplacedFunctionError(AssertionError):
    """A function or constant that the harness depends on was replaced."""


MISSING = object()
MADE_OF_FUNCTIONS = (FunctionType, staticmethod, classmethod, property)


class _Noted(NamedTuple):
    """A function, class or constant: where it is, and a copy of what in it could be replaced."""

    holder: Any  # module, class, instance, or the dictionary of all modules
    name: str
    value: Any
    inside: Any
    namespaces: tuple[Mapping[str, Any], ...]  # of which the first that has the name has the value

    def now(self) -> Any:
        """Return what is there now, MISSING for nothing."""
        for namespace in self.namespaces:
            if self.name in namespace:
                return namespace[self.name]
        return MISSING

    def is_still(self, value: Any) -> bool:
        """Return whether what is there now is what was noted."""
        if value is not self.value:
            return False
        if type(value) is FunctionType and len(self.inside) == 4 and not self.inside[3]:  # as most are
            is_same = value.__code__ is self.inside[1] and value.__defaults__ is self.inside[2]
            return is_same and not value.__kwdefaults__
        inside = _inside(value)
        return (not inside and not self.inside) or _alike(inside, self.inside)

    def put_back(self) -> None:
        if isinstance(self.value, dict | set):
            self.value.clear()
            self.value.update(self.inside)
        elif isinstance(self.value, list):
            self.value[:] = self.inside
        else:
            for function, code, defaults, named in zip(*[iter(self.inside)] * 4, strict=True):
                function.__code__, function.__defaults__ = code, defaults
                function.__kwdefaults__ = dict(named) if named else None
        if isinstance(self.holder, dict):
            self.holder[self.name] = self.value
        elif len(self.namespaces) > 1 and self.name in self.namespaces[0]:
            delattr(self.holder, self.name)  # a base has it
        else:
            setattr(self.holder, self.name, self.value)


def _inside(value: Any) -> tuple[Any, ...]:
    kind = type(value)
    # `__dict__` would be made for each of them
    if kind is FunctionType and not value.__kwdefaults__ and getattr(value, "__wrapped__", None) is None:
        return (value, value.__code__, value.__defaults__, ())
    if kind in MADE_OF_FUNCTIONS:
        return tuple(part for function in _functions(value) for part in _parts(function))
    if isinstance(value, CONTAINERS):
        return tuple(value.items() if isinstance(value, dict) else value)
    return ()


def _functions(value: Any) -> Iterator[FunctionType]:
    """Yield the Python functions that a callable is made of."""
    if type(value) is property:
        yield from chain(_functions(value.fget), _functions(value.fset))
    elif type(value) in (staticmethod, classmethod):
        yield from _functions(value.__func__)
    elif type(value) is FunctionType:
        yield value
        yield from _functions(vars(value).get("__wrapped__"))


def _parts(function: FunctionType) -> tuple[Any, ...]:
    named = function.__kwdefaults__
    return function, function.__code__, function.__defaults__, tuple(named.items()) if named else ()


def _alike(now: Any, before: Any) -> bool:
    """Return whether two values are the same object, equal constants, or made of such."""
    if now is before:
        return True
    if type(now) is tuple and type(before) is tuple:
        return len(now) == len(before) and all(map(_alike, now, before))
    return type(now) is type(before) and type(now) in FIXED and bool(now == before)


class _Fast:
    """All that was noted, compared without Python's loop. It says that nothing was replaced, or that something may be.

    In a forked process each object that is looked at costs a copy of its page, 1,300 of them 5 ms.
    """

    def __init__(self) -> None:
        self._there: tuple[list[Mapping[str, Any]], list[str], list[Any]] = ([], [], [])
        self._absent: tuple[list[Mapping[str, Any]], list[str]] = ([], [])  # a name there would come first
        self._sizes: tuple[list[Sized], list[int]] = ([], [])
        self._functions: list[FunctionType] = []
        self._parts: dict[str, list[Any]] = {"__code__": [], "__defaults__": [], "__kwdefaults__": []}

    def add(self, noted: _Noted) -> bool:
        """Take what was noted. Return whether it can be compared like this."""
        namespace = next((namespace for namespace in noted.namespaces if noted.name in namespace), None)
        if namespace is None or isinstance(noted.value, list | set):
            return False
        for earlier in takewhile(lambda other: other is not namespace, noted.namespaces):
            _append(self._absent, (earlier, noted.name))
        _append(self._there, (namespace, noted.name, noted.value))
        if isinstance(noted.value, dict):
            self._add_dictionary(noted.value)
        for function in _functions(noted.value):
            self._functions.append(function)
            for part, column in self._parts.items():
                column.append(getattr(function, part))
            self._add_dictionary(function.__kwdefaults__ or {})
            if "__wrapped__" in vars(function):
                _append(self._there, (vars(function), "__wrapped__", vars(function)["__wrapped__"]))
        return True

    def _add_dictionary(self, values: dict[str, Any]) -> None:
        _append(self._sizes, (values, len(values)))
        for name, value in values.items():
            _append(self._there, (values, name, value))

    def is_same(self) -> bool:
        """Return whether all of it is what it was, object by object."""
        spaces, names, values = self._there
        sized, sizes = self._sizes
        try:
            return (
                all(map(is_, map(getitem, spaces, names), values))
                and not any(map(contains, *self._absent))
                and list(map(len, sized)) == sizes
                and all(all(map(is_, map(attrgetter(part), self._functions), of)) for part, of in self._parts.items())
            )
        except KeyError:
            return False


def _append(columns: tuple[list[Any], ...], row: tuple[Any, ...]) -> None:
    for column, value in zip(columns, row, strict=True):
        column.append(value)


class Originals:
    """Functions, classes and constants by name, as they were when they were noted."""

    def __init__(self) -> None:
        self._functions: dict[str, _Noted] = {}
        self._problem: Any = None
        self._of_problem: frozenset[str] = frozenset()  # names
        self._fast, self._slow = _Fast(), list[str]()  # names beside those of the problem
        self._newest, self._unfinished = "", list[str]()  # modules at the last note

    def note(self, problem: Any = None) -> None:
        """Note those of the harness, those of a problem, and those of torch where it is imported.

        What was noted before stays, but of another problem.
        """
        if problem is not self._problem:
            for name in self._of_problem:
                del self._functions[name]
        self._problem = problem
        of_problem = list(_of_problem(problem)) if problem is not None else []
        self._of_problem = frozenset(name for name, *_ in of_problem)
        # The server that forks rounds has noted nearly all of them
        newer = [*takewhile(lambda name: name != self._newest, reversed(sys.modules))]
        new = [name for name in newer[::-1] if name.startswith((*HARNESS, LAYERS)) or name in TORCH]
        new = [*self._unfinished, *new]
        self._newest = next(reversed(sys.modules))
        with no_collection():  # it would look at all objects of torch: .13 s for 2 ms of work
            for name, holder, key, value in chain(_of_harness(new), of_problem, _of_torch(new), _modules(new)):
                if name not in self._functions:
                    noted = _Noted(holder, key, value, _inside(value), _namespaces(holder, key))
                    self._functions[name] = noted
                    if name not in self._of_problem and not self._fast.add(noted):
                        self._slow.append(name)
        self._unfinished = [name for name in new if name not in self._functions]

    def put_back(self) -> list[str]:
        """Put back all that was replaced, and return its names."""
        named = _of_problem(self._problem) if self._problem is not None else ()
        of_problem = {name: (holder, value) for name, holder, _, value in named}
        with no_collection():
            looked_at = (*self._slow, *self._of_problem) if self._fast.is_same() else list(self._functions)
            replaced = [
                name
                for name in looked_at
                if not self._functions[name].is_still(
                    of_problem.get(name, (None, MISSING))[1]
                    if name in self._of_problem
                    else self._functions[name].now()
                )
            ]
        for name in replaced:
            before, (holder, _) = self._functions[name], of_problem.get(name, (None, MISSING))
            if isinstance(before.holder, type) and holder not in (None, before.holder):
                delattr(holder, before.name)  # a base has the original
            before.put_back()
        return replaced

    def check(self) -> None:
        """Restore what was replaced, and raise ReplacedFunctionError if there was anything."""
        if replaced := self.put_back():
            raise ReplacedFunctionError(f"code of the kernel replaced {units.listed(replaced)}")


_Named = tuple[str, Any, str, Any]  # a name, its holder, its name there, the value


def _namespaces(holder: Any, name: str) -> tuple[Mapping[str, Any], ...]:
    names = holder if isinstance(holder, dict) else vars(holder)
    return (names,) if name in names or not isinstance(holder, type) else tuple(map(vars, holder.__mro__))


def _modules(names: Sequence[str]) -> Iterator[_Named]:
    """Yield modules, but those that are being imported."""
    for name in names:
        module = sys.modules[name]
        if not getattr(getattr(module, "__spec__", None), "_initializing", False):
            yield name, sys.modules, name, module


def _is_constant(name: str, value: Any) -> bool:
    return name.isupper() and isinstance(value, FIXED + CONTAINERS)


def _of_harness(names: Sequence[str]) -> Iterator[_Named]:
    for name in names:
        if name.startswith(HARNESS):
            yield from _of_module(sys.modules[name], name)


def _of_module(module: Any, module_name: str) -> Iterator[_Named]:
    """Yield functions, classes and constants of a module, and those of its classes."""
    for name, value in list(vars(module).items()):
        if not name.startswith(COMPILED) and (callable(value) or _is_constant(name, value)):
            yield f"{module_name}.{name}", module, name, value
        if isinstance(value, type) and value.__module__ == module.__name__:
            yield from _of_class(value, f"{module_name}.{name}")


def _of_class(kind: type, name: str) -> Iterator[_Named]:
    for key, value in list(vars(kind).items()):
        is_function = callable(value) or isinstance(value, staticmethod | classmethod | property)
        if is_function or (key[0] != "_" and isinstance(value, FIXED)):
            yield f"{name}.{key}", kind, key, value


def _of_problem(problem: Any) -> Iterator[_Named]:
    """Yield what a problem decides, what its own files define, and what its model consists of."""
    for name in METHODS:
        holder = next(holder for holder in (problem, *type(problem).__mro__) if name in vars(holder))
        yield f"{type(problem).__name__}.{name}", holder, name, vars(holder)[name]
    names = {kind.__module__ for kind in type(problem).__mro__} - {"builtins", "abc"}
    for name in sorted(name for name in names if name in sys.modules and not name.startswith(OURS)):
        yield from _of_module(sys.modules[name], type(problem).__name__)
    model = getattr(problem, "model", None)
    for name, part in model.named_modules() if model is not None else ():
        where = ".".join(filter(None, (type(model).__name__, name)))
        yield f"attributes of {where}", part, "__dict__", vars(part)
        for key, value in list(vars(part).items()):
            if isinstance(value, dict):  # of its hooks, parameters and parts
                yield f"{where}.{key}", part, key, value


def _of_torch(names: Sequence[str]) -> Iterator[_Named]:
    if not sys.modules.keys() >= {*TORCH}:
        return
    for module_name in {*TORCH} & {*names}:
        module = sys.modules[module_name]
        for name, value in list(vars(module).items()):
            if callable(value) and name[0] != "_" and name not in BY_TORCH:
                yield f"{module_name}.{name}", module, name, value
    tensor = sys.modules["torch"].Tensor if "torch" in names else object
    attributes = {name: value for base in reversed(tensor.__mro__[:-1]) for name, value in vars(base).items()}
    for name, value in attributes.items():
        if callable(value):
            yield f"torch.Tensor.{name}", tensor, name, value
    for module_name in [name for name in names if name.startswith(LAYERS)]:
        for name, value in list(vars(sys.modules[module_name]).items()):
            if isinstance(value, type) and value.__module__ == module_name:
                for key in CALLS:
                    if key in vars(value):
                        yield f"{module_name}.{name}.{key}", value, key, vars(value)[key]
            elif name.startswith("_global_") and isinstance(value, dict):  # hooks of all modules
                yield f"{module_name}.{name}", sys.modules[module_name], name, value


ORIGINALS = Originals()
