"""Axes and random inputs of a FlashInfer definition: expressions of axes, constraints, and values that make sense.

FlashInfer's own runner draws every integer from one range, and relies on workloads for those that mean something. A
definition without workloads gets values by their meaning (`drawn`), so that indices are within what they index.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernel_velocity.problem.accuracy import FORMATS
from kernel_velocity.problem.problem import ProblemError
from kernel_velocity.problem.user_file import in_one_line

ANY_AXIS = 64  # elements of a variable axis where there are no workloads
# Values of random integers, as FlashInfer's own runner draws them: from, to (not included).
INTEGERS = {"int8": (-128, 128), "bool": (0, 2)}
OTHER_INTEGERS = (-1024, 1024)
_MEANINGFUL = ("int32", "int64", "uint32")  # narrower ones are quantised data
_TOTAL = re.compile(r"(\w+) == (\w+)\[-1\]\.item\(\)")  # a constraint that says how far offsets go
_OFFSETS = re.compile(r"(\w+_)?(indptr|offsets)|cu_seqlens\w*")
_LENGTHS = re.compile(r"(\w+_)?seq_?lens?(_\w+)?|top_k")


def check_constraints(path: Path, definition: Mapping[str, Any]) -> None:
    """Raise a ProblemError where a constraint is no expression, or names what is no axis and no input."""
    allowed = {*definition["axes"], *definition["inputs"], *definition["outputs"], *dir(builtins)}
    for text in definition.get("constraints") or ():
        try:
            unknown = sorted(_names(text) - allowed)
        except (SyntaxError, ValueError):
            raise ProblemError(f"{path}: constraint {text[:60]!r} is no expression of axes and inputs") from None
        if unknown:
            there = ", ".join(definition["axes"])
            raise ProblemError(
                f"{path}: constraint {text[:60]!r} names {unknown[0]!r}, which is no axis and no input; axes: {there}"
            )


def is_expression(axis: str | int, axes: Mapping[str, Any]) -> bool:
    """Return whether an axis of a shape is a number, or an expression of axes that there are."""
    try:
        return _names(str(axis)) <= axes.keys()
    except (SyntaxError, ValueError):
        return False


def check_extents(name: str, definition: Mapping[str, Any], extents: Mapping[str, int]) -> None:
    """Raise a ProblemError where extents break a constraint. Those about the values of inputs are not looked at."""
    for constraint in definition.get("constraints") or ():
        if _names(constraint) <= extents.keys() and not _evaluated(constraint, extents):
            stated = {axis: extents[axis] for axis, entry in definition["axes"].items() if "value" not in entry}
            raise ProblemError(f"{name}: {stated} break its constraint {constraint!r}; give it workloads (.jsonl)")


def shape_of(axes: Sequence[str | int], extents: Mapping[str, int]) -> list[int]:
    """Return the extents of axes: names, numbers, or expressions such as "hidden_size / 2"."""
    names = map(str, axes)
    return [extents[name] if name in extents else int(_evaluated(name, extents)) for name in names]


def default_axes(definition: Mapping[str, Any]) -> dict[str, int]:
    """Return extents of the variable axes without a workload: ANY_AXIS, or what a constraint makes them equal to."""
    constants = {name: axis["value"] for name, axis in definition["axes"].items() if "value" in axis}
    axes = {name: ANY_AXIS for name, axis in definition["axes"].items() if axis.get("type") == "var"}
    for constraint in definition.get("constraints") or ():
        name, is_equal, other = (part.strip() for part in constraint.partition("=="))
        if is_equal and name in axes and is_expression(other, constants | axes):
            axes[name] = int(_evaluated(other, constants | axes))
    return axes


def drawn(name: str, definition: Mapping[str, Any], extents: Mapping[str, int], draw: Any, *, by_meaning: bool) -> Any:
    """Return a random input, a tensor on the CPU or a number.

    Args:
        name: of the input. draw: a generator of random numbers.
        by_meaning: whether integers of 32 and 64 bits are what their names and the constraints say: offsets rise from
            0 to the axis that a constraint names, pages are full, a number called as an axis is its extent, and others
            are below ANY_AXIS, as every variable axis is. Otherwise all are drawn as FlashInfer's runner does.
    """
    import torch  # noqa: PLC0415 - discovery must work without torch

    spec = definition["inputs"][name]
    shape, dtype = shape_of(spec["shape"] or (), extents), spec["dtype"]
    kind = getattr(torch, dtype, None)
    if kind is None:
        raise ProblemError(f"dtype {dtype!r}: this torch ({torch.__version__}) has none of that name")
    if by_meaning and dtype in _MEANINGFUL:
        value = _meaningful(name, definition, shape, extents, draw).to(kind)
    elif kind.is_floating_point:
        values = torch.randn(shape, generator=draw)
        value = (values.clamp(-2, 2) if dtype not in FORMATS else values).to(kind)
        if definition.get("op_type") == "sampling" and name == "probs":
            value = torch.softmax(value, dim=-1)
    else:
        value = torch.randint(*INTEGERS.get(dtype, OTHER_INTEGERS), shape, generator=draw).to(kind)
    return value.item() if spec["shape"] is None else value


def _meaningful(
    name: str, definition: Mapping[str, Any], shape: Sequence[int], extents: Mapping[str, int], draw: Any
) -> Any:
    """Return the integers that an input of that name may have, as int64."""
    import torch  # noqa: PLC0415 - discovery must work without torch

    if not shape and name in extents:
        return torch.tensor(extents[name])
    totals = {match[2]: match[1] for text in definition.get("constraints") or () if (match := _TOTAL.fullmatch(text))}
    if len(shape) == 1 and (name in totals or _OFFSETS.fullmatch(name)):
        total = extents.get(totals.get(name, ""), ANY_AXIS)
        return torch.arange(shape[0]) * total // max(shape[0] - 1, 1)
    if name.endswith("last_page_len"):
        return torch.full(shape, extents.get("page_size", 1))
    lowest = 1 if _LENGTHS.fullmatch(name) else 0
    return torch.randint(lowest, ANY_AXIS, shape, generator=draw)


def _names(expression: str) -> set[str]:
    """Return the names that an expression of Python is made of, without attributes."""
    return {node.id for node in ast.walk(ast.parse(expression, mode="eval")) if isinstance(node, ast.Name)}


def _evaluated(expression: str, extents: Mapping[str, int]) -> Any:
    """Return the value of a Python expression of axes: a constraint, or an extent.

    Raises:
        ProblemError: it is none.
    """
    try:
        return eval(expression, {"__builtins__": {}}, dict(extents))
    except (ArithmeticError, AttributeError, LookupError, NameError, SyntaxError, TypeError, ValueError) as error:
        raise ProblemError(f"{expression[:60]!r} of axes fails: {in_one_line(error)}") from None
