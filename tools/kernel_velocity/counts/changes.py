"""What differs between the figures of two builds, and what that is by the rules of a repository's section. Pure.

A figure differs or not: nothing here is statistics. More is not slower, so only the rules say what is a regression.
Worse is a rise, of the occupancy a fall, and of the mix of instructions any change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from kernel_velocity.fields import NotNegative, Rule
from kernel_velocity.names import COUNTS, MIX, OCCUPANCY, UNITS_OF_FIGURES

SPILLS = "spill_bytes"
ANY_MIX = "mix"  # in rules: all figures of MIX
_NAMES = (ANY_MIX, *(name for name in UNITS_OF_FIGURES if name not in MIX))
Figure = Annotated[str, Rule(f"one of {', '.join(_NAMES)}", _NAMES.__contains__)]


@dataclass(frozen=True)
class Rules:
    """What the table `counts` of a repository's section says."""

    regression: tuple[Figure, ...] = (SPILLS, OCCUPANCY)  # figures that must not become worse
    suspect: tuple[Figure, ...] = ("instructions", ANY_MIX)  # figures that somebody should look at where they do
    percent: NotNegative = 1.0  # by which a count of a call must rise for either. Figures of the compiler: at all


class FigureKey(NamedTuple):
    """What a figure is of."""

    kernel: str
    implementation: str
    case: str  # with the instruction set, or the architecture alone: "float32-4k-avx2", "sm_90"
    figure: str  # of UNITS_OF_FIGURES


@dataclass(frozen=True)
class Change:
    """A figure that differs."""

    key: FigureKey
    before: int
    after: int

    @property
    def unit(self) -> str:
        """The unit of both values."""
        return "bytes spilled" if self.key.figure == SPILLS else UNITS_OF_FIGURES[self.key.figure]

    @property
    def ratio(self) -> float | None:
        """After / before. None from 0."""
        return self.after / self.before if self.before else None

    def worsens(self, names: Collection[str], rules: Rules) -> bool:
        """Whether it is one of some figures of the rules, and becomes so much worse that they look at it."""
        if self.key.figure in MIX:
            return ANY_MIX in names
        if self.key.figure == OCCUPANCY:
            return OCCUPANCY in names and self.after < self.before
        least = 1 + rules.percent / 100 if self.key.figure in COUNTS else 1.0
        return self.key.figure in names and self.after > least * self.before

    def __str__(self) -> str:
        """Return it in words: "matmul sm_90: 168 -> 128 registers of a thread"."""
        return f"{self.key.kernel} {self.key.case}: {self.before:,} -> {self.after:,} {self.unit}"


def differing(before: Mapping[FigureKey, int], after: Mapping[FigureKey, int]) -> tuple[Change, ...]:
    """Return the figures that both builds have, and that differ."""
    return tuple(Change(key, old, after[key]) for key, old in before.items() if key in after and after[key] != old)
