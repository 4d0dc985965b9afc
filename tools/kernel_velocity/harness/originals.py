"""The functions that a round depends on, as they were before a kernel's code was imported.

A kernel in Python shares its process with the harness, and can replace what checks it or what reads the clock. A round
whose functions are not the original ones has no value. That shows a patch, not malice: code that means to deceive can
replace this module, too.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any

HARNESS = "kernel_velocity.harness."
# What checks and copies consist of, of torch and of its tensors.
TORCH = ("equal", "minimum", "randn")
TENSOR = (
    *("__and__", "__eq__", "__getitem__", "__gt__", "__ne__", "__or__", "__truediv__"),
    *("abs", "abs_", "any", "clamp_min", "clone", "contiguous", "copy_", "data_ptr", "detach", "div_", "double"),
    *("fill_", "flatten", "float", "is_contiguous", "isinf", "isnan", "item", "masked_fill_", "max", "mul", "mul_"),
    *("nonzero", "numel", "reshape", "sub_", "sum", "to", "view"),
)
# What a problem decides.
METHODS = ("expected", "reference_solution", "subset", "verify_result", "get_flops", "get_bytes", "test_case")


class ReplacedFunctionError(AssertionError):
    """A function that the harness depends on was replaced."""


class Originals:
    """Functions by name, with the code that they had when they were noted."""

    def __init__(self) -> None:
        self.functions: dict[str, tuple[Any, Any]] = {}
        self._problem: Any = None

    def note(self, problem: Any = None) -> None:
        """Note the functions of the harness, those of a problem, and those of torch where it is imported.

        What was noted before stays.
        """
        self._problem = problem
        self.functions = dict(_present(problem)) | self.functions

    def check(self) -> None:
        """Raise ReplacedFunctionError if a function is not what it was."""
        now = dict(_present(self._problem))
        changed = [name for name, function in self.functions.items() if not _same(now.get(name), function)]
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            raise ReplacedFunctionError(f"code of the kernel replaced {changed[0]}{more}, which the harness depends on")


def _same(now: tuple[Any, Any] | None, before: tuple[Any, Any]) -> bool:
    return now is not None and now[0] is before[0] and now[1] is before[1]


def _present(problem: Any) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Yield the name of each function with itself and its code."""
    for name, function in _functions(problem):
        inner = getattr(function, "__func__", function)  # of a static method
        yield name, (function, getattr(inner, "__code__", None))


def _functions(problem: Any) -> Iterator[tuple[str, Any]]:
    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith(HARNESS):
            continue
        for name, value in list(vars(module).items()):
            if callable(value):
                yield f"{module_name}.{name}", value
            if isinstance(value, type) and value.__module__ == module_name:
                yield from ((f"{module_name}.{name}.{key}", function) for key, function in list(vars(value).items()))
    if problem is not None:
        for name in METHODS:
            yield f"{type(problem).__name__}.{name}", inspect.getattr_static(problem, name)
    torch = sys.modules.get("torch")
    if torch is not None:
        yield from ((f"torch.{name}", getattr(torch, name)) for name in TORCH)
        yield from ((f"torch.Tensor.{name}", getattr(torch.Tensor, name)) for name in TENSOR)


ORIGINALS = Originals()
