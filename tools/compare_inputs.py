"""The inputs of a test case are everybody's: one that changes them is wrong, and must not make others so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.harness.problem import Inputs, Problem
from tools.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Inputs and what they looked like when they were made.

    Attributes:
        tensors: those among the inputs.
        names: of the parameters that they are.
        sums: of the elements of each, as text: equal values have equal sums, NaN included.
    """

    tensors: tuple[Any, ...]
    names: tuple[str, ...]
    sums: tuple[str, ...]

    def changed(self) -> list[str]:
        """Return the names of the inputs that are not what they were."""
        return [
            name
            for name, tensor, before in zip(self.names, self.tensors, self.sums, strict=True)
            if _sum(tensor) != before
        ]

    def restore(self, create: Callable[[], Inputs], by: str) -> None:
        """Put the inputs back, in place, after an implementation called `by` changed some.

        Raises:
            UsageError: they are made otherwise every time, so that they cannot be had again.
        """
        for tensor, new in zip(self.tensors, _tensors(create()), strict=True):
            tensor.copy_(new)
        if self.changed():
            raise UsageError(
                f"{by} changed its inputs ({', '.join(self.names)}), and they are made anew otherwise each time "
                "(no seed): the others cannot be compared; leave it out (--implementations)"
            )


def shared(problem: Problem, inputs: Inputs) -> Shared:
    """Return the inputs of a case, to be watched."""
    tensors = _tensors(inputs)
    named = [str(each["name"]) for each in problem.parameters if each["pointer"] and each["const"]]
    names = named if len(named) == len(tensors) else [f"input {number}" for number in range(1, len(tensors) + 1)]
    return Shared(tensors=tensors, names=tuple(names), sums=tuple(map(_sum, tensors)))


def _tensors(inputs: Inputs) -> tuple[Any, ...]:
    return tuple(each for each in inputs if hasattr(each, "data_ptr"))


def _sum(tensor: Any) -> str:
    return str(tensor.sum().item())
