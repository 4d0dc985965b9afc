"""Capture the functions that a round depends on before a kernel's code is imported, and detect replaced ones.

A kernel in Python shares its process with the harness, and can replace what checks it, what reads the clock, or what it
is compared with. A round whose functions are not the original ones has no value. That shows a patch, not malice: code
that means to deceive can replace this module, too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from types import FunctionType
from typing import Any

from kernel_velocity import units
from kernel_velocity.engine.timers import no_collection

# What measures, and the leaves that it reads names and documents with
HARNESS = tuple(
    f"kernel_velocity.{name}" for name in ("engine.", "problem.", "machine.", "suite.", "names", "documents")
)
# What a problem decides.
METHODS = ("expected", "reference_solution", "subset", "verify_result", "get_flops", "get_bytes", "test_case")
TORCH = ("torch", "torch.nn.functional")
BY_TORCH = ("manual_seed",)  # PyTorch replaces it itself when its compiler is imported


class ReplacedFunctionError(AssertionError):
    """A function that the harness depends on was replaced."""


@dataclass(frozen=True)
class _Function:
    holder: Any  # module, class or instance
    name: str
    value: Any
    code: Any

    @classmethod
    def of(cls, holder: Any, name: str, value: Any) -> _Function:
        inner = _inner(value)
        return cls(holder, name, value, inner.__code__ if type(inner) is FunctionType else None)

    def put_back(self) -> None:
        if self.code is not None:
            _inner(self.value).__code__ = self.code
        setattr(self.holder, self.name, self.value)


def _inner(value: Any) -> Any:
    return value.__func__ if type(value) in (staticmethod, classmethod) else value


class Originals:
    """Functions by name, as they were when they were noted."""

    def __init__(self) -> None:
        self._functions: dict[str, _Function] = {}
        self._problem: Any = None

    def note(self, problem: Any = None) -> None:
        """Note the functions of the harness, those of a problem, and those of torch where it is imported.

        What was noted before stays, but of another problem.
        """
        if problem is not self._problem:
            of_another = _present(_of_problem(self._problem)) if self._problem is not None else {}
            self._functions = {name: noted for name, noted in self._functions.items() if name not in of_another}
        self._problem = problem
        self._functions = self._now() | self._functions

    def put_back(self) -> list[str]:
        """Put back every function that was replaced, and return their names."""
        now = self._now()
        replaced = [name for name, function in self._functions.items() if not _same(now.get(name), function)]
        for name in replaced:
            before, holder = self._functions[name], now[name].holder if name in now else None
            if holder not in (None, before.holder):
                delattr(holder, before.name)  # a base has the original
            before.put_back()
        return replaced

    def _now(self) -> dict[str, _Function]:
        of_problem = _of_problem(self._problem) if self._problem is not None else ()
        return _present(chain(_of_harness(), of_problem, _of_torch() if "torch" in sys.modules else ()))

    def check(self) -> None:
        """Restore replaced functions, and raise ReplacedFunctionError if there was one."""
        if replaced := self.put_back():
            raise ReplacedFunctionError(f"code of the kernel replaced {units.listed(replaced)}")


def _same(now: _Function | None, before: _Function) -> bool:
    return now is not None and now.value is before.value and now.code is before.code


_Named = tuple[str, Any, str, Any]  # a function's name, its holder, its name there, itself


def _present(functions: Iterable[_Named]) -> dict[str, _Function]:
    with no_collection():  # it would look at all objects of torch: .13 s for 4 ms of work
        return {name: _Function.of(*function) for name, *function in functions}


def _of_harness() -> Iterator[_Named]:
    modules = [(name, module) for name, module in list(sys.modules.items()) if name.startswith(HARNESS)]
    for module_name, module in modules:
        for name, value in list(vars(module).items()):
            if callable(value):
                yield f"{module_name}.{name}", module, name, value
            if isinstance(value, type) and value.__module__ == module_name:
                for key, function in list(vars(value).items()):
                    if callable(function) or isinstance(function, staticmethod | classmethod | property):
                        yield f"{module_name}.{name}.{key}", value, key, function


def _of_problem(problem: Any) -> Iterator[_Named]:
    for name in METHODS:
        holder = next(holder for holder in (problem, *type(problem).__mro__) if name in vars(holder))
        yield f"{type(problem).__name__}.{name}", holder, name, vars(holder)[name]


def _of_torch() -> Iterator[_Named]:
    for module_name in TORCH:
        module = sys.modules[module_name]
        for name, value in list(vars(module).items()):
            if callable(value) and name[0] != "_" and name not in BY_TORCH:
                yield f"{module_name}.{name}", module, name, value
    tensor = sys.modules["torch"].Tensor
    attributes = {name: value for base in reversed(tensor.__mro__[:-1]) for name, value in vars(base).items()}
    for name, value in attributes.items():
        if callable(value):
            yield f"torch.Tensor.{name}", tensor, name, value


ORIGINALS = Originals()
