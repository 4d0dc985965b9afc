"""The functions that a round depends on, as they were before a kernel's code was imported.

A kernel in Python shares its process with the harness, and can replace what checks it or what reads the clock. A round
whose functions are not the original ones has no value. That shows a patch, not malice: code that means to deceive can
replace this module, too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

HARNESS = "kernel_velocity.harness."
# What checks and copies consist of, of torch and of its tensors.
TORCH = ("equal", "minimum", "zeros", "randn", "Generator", "manual_seed")
TENSOR = (
    *("__and__", "__eq__", "__getitem__", "__gt__", "__ne__", "__or__", "__truediv__"),
    *("abs", "abs_", "any", "clamp_min", "clone", "contiguous", "copy_", "data_ptr", "detach", "div_", "double"),
    *("fill_", "flatten", "float", "is_contiguous", "isinf", "isnan", "item", "masked_fill_", "max", "mul", "mul_"),
    *("nonzero", "numel", "reshape", "sub_", "sum", "to", "view"),
)


class ReplacedFunctionError(AssertionError):
    """A function that the harness depends on was replaced."""


class Originals:
    """Functions by name, with the code that they had when they were noted."""

    def __init__(self) -> None:
        self.functions: dict[str, tuple[Any, Any]] = {}

    def note(self) -> None:
        """Note the functions of the harness, and those of torch where it is imported. What was noted stays."""
        self.functions = dict(_with_code(_present())) | self.functions

    def check(self) -> None:
        """Raise ReplacedFunctionError if a function is not what it was."""
        if not self.functions:
            return
        now = dict(_with_code(_present()))
        changed = [name for name, function in self.functions.items() if _differ(now.get(name), function)]
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            raise ReplacedFunctionError(f"code of the kernel replaced {changed[0]}{more}, which the harness depends on")


def _differ(now: tuple[Any, Any] | None, before: tuple[Any, Any]) -> bool:
    return now is None or now[0] is not before[0] or now[1] is not before[1]


def _with_code(functions: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    return ((name, (function, getattr(function, "__code__", None))) for name, function in functions)


def _present() -> Iterator[tuple[str, Any]]:
    """Yield the names and functions of all modules of the harness, of their classes, and those of torch."""
    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith(HARNESS):
            continue
        for name, value in list(vars(module).items()):
            if callable(value):
                yield f"{module_name}.{name}", value
            if isinstance(value, type) and value.__module__ == module_name:
                yield from ((f"{module_name}.{name}.{key}", function) for key, function in list(vars(value).items()))
    torch = sys.modules.get("torch")
    if torch is not None:
        yield from ((f"torch.{name}", getattr(torch, name)) for name in TORCH)
        yield from ((f"torch.Tensor.{name}", getattr(torch.Tensor, name)) for name in TENSOR)


ORIGINALS = Originals()
