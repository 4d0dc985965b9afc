"""The inputs of a test case are everybody's: one that changes them is wrong, and must not make others so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernel_velocity.harness.problem import Inputs, Problem


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Inputs and what they looked like when they were made.

    Attributes:
        tensors: those among the inputs.
        names: of the parameters that they are.
        copies: of each, as it was made.
    """

    tensors: tuple[Any, ...]
    names: tuple[str, ...]
    copies: tuple[Any, ...]

    def changed(self) -> list[str]:
        """Return the names of the inputs that are not what they were."""
        return [
            name
            for name, tensor, before in zip(self.names, self.tensors, self.copies, strict=True)
            if not _same(tensor, before)
        ]

    def restore(self) -> None:
        """Put the inputs back, in place, after an implementation changed some, their shapes too."""
        for tensor, before in zip(self.tensors, self.copies, strict=True):
            if not _same(tensor, before):
                if tensor.shape != before.shape:
                    tensor.resize_(before.shape)
                tensor.copy_(before)


def shared(problem: Problem, inputs: Inputs) -> Shared:
    """Return the inputs of a case, to be watched."""
    tensors = _tensors(inputs)
    named = [str(each["name"]) for each in problem.parameters if each["pointer"] and each["const"]]
    names = named if len(named) == len(tensors) else [f"input {number}" for number in range(1, len(tensors) + 1)]
    return Shared(tensors=tensors, names=tuple(names), copies=tuple(each.clone() for each in tensors))


def _tensors(inputs: Inputs) -> tuple[Any, ...]:
    return tuple(each for each in inputs if hasattr(each, "data_ptr"))


def _same(tensor: Any, before: Any) -> bool:
    """Return whether two tensors are equal, NaN in the same places included."""
    if tensor.shape != before.shape:
        return False
    differ = tensor != before
    if tensor.is_floating_point():
        differ &= ~((tensor != tensor) & (before != before))  # noqa: PLR0124 - NaN is unlike itself
    return not bool(differ.any())
