"""Test in sequence whether one commit is slower than another, from two sets of rounds of an A/B session. Pure.

Both sets were measured in turns (A B, B A, ...) on one machine within minutes, each round in a fresh process. The test
looks at them after LOOKS rounds a side, and each time there are three answers:

    different   the exact Mann-Whitney test says so (p < .001), and the change is no smaller than the floor
    same        the whole 95% interval of the change lies within the floor
    unknown     neither: there is more to measure, as long as there is time

**The floor** is 1%, or what the caller knows identical code to differ by *within* such a session. It is not the floor
between sessions (`two_samples.floor_of`, 1 to 11% on shared cores): values measured hours apart differ by the state of
the machine. Both sides of a session share that state, so that floor would only hide changes.

**Errors of the whole sequence**, not of one look. Four looks at .1% are .4% at most, whatever the noise, as long as the
rounds of identical code could as well have been exchanged. Simulated (tests/stats/test_two_samples.py, five kinds of
noise, 20,000 sequences each, floor aside): .35% with normal rounds, .28% and less with the others. A change as large as
the floor is called "same" in 7% of sequences at most, one half as large again in none of 1,200.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.stats import two_samples

LOOKS = (8, 16, 32, 64)  # rounds a side; even, so that each side goes first equally often
# With a look before: four against four have no p below .03, so it only ends series that are the same, and adds nothing
# to how often identical code is called different. A change as large as the floor it calls "same" in 1/70 at most, as
# then none of 16 differences may exceed it.
EARLY_LOOKS = (4, *LOOKS)
FLOOR = two_samples.LEAST_CHANGE
Strata = Sequence[tuple[FloatArray, FloatArray]]  # of each session: log seconds per call before, and after
CONFIDENCE = 0.95  # of the interval: two one-sided tests at 2.5% where it says "same"


class Answer(enum.Enum):
    """An answer of the test."""

    DIFFERENT = "different"
    SAME = "same"
    UNKNOWN = "unknown"


class Obstacle(enum.Enum):
    """A reason why a series cannot be compared."""

    NOT_BUILT = "does not build"
    FAILED = "failed"
    MENDED = "failed before"  # at the earlier commit alone, whose every round raised
    NOT_APPLICABLE = "n/a"
    GONE = "gone"  # n/a at the later commit alone


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One series compared between two commits. Unknown is None. Ratios are time after / time before."""

    answer: Answer
    reason: str
    rounds: int = 0  # a side, behind the answer
    ratio: float | None = None  # above 1: slower
    low: float | None = None  # 95% interval of the ratio
    high: float | None = None
    p: float | None = None
    floor: float = FLOOR  # relative change that counts
    level: float = two_samples.P  # p below which a difference is no chance
    adjusted: bool = False  # whether the rounds were adjusted by gauges or controls
    obstacle: Obstacle | None = None
    next_look: int | None = None  # rounds a side at which an unknown one is looked at again

    @property
    def slower(self) -> bool:
        """Whether the later commit is slower, confirmed."""
        return self.answer is Answer.DIFFERENT and self.ratio is not None and self.ratio > 1

    @property
    def faster(self) -> bool:
        """Whether the later commit is faster, confirmed."""
        return self.answer is Answer.DIFFERENT and self.ratio is not None and self.ratio < 1

    @property
    def suspect(self) -> bool:
        """Whether it is probably slower: unknown, but by the floor or more, and with a 95% interval above 1."""
        if self.answer is not Answer.UNKNOWN or self.unseen or self.ratio is None or self.low is None:
            return False
        return self.ratio >= 1 + self.floor and self.low > 1

    @property
    def unseen(self) -> bool:
        """Whether it should have been measured, and has too few rounds to be called different."""
        return self.answer is Answer.UNKNOWN and self.obstacle is None and self.rounds < LOOKS[0]


def compare(
    before: Sequence[float] | FloatArray,
    after: Sequence[float] | FloatArray,
    *,
    floor: float = FLOOR,
    adjusted: bool = False,
    level: float = two_samples.P,
    earlier: Strata = (),
    looks: Sequence[int] = LOOKS,
) -> Comparison:
    """Return the answer of one look at two sets of rounds.

    Args:
        before: log seconds per call, one of each round, at least 4. Fewer than LOOKS has first are never different.
        after: as many.
        floor: relative change that counts. At least FLOOR is taken.
        adjusted: whether the values are adjusted. It becomes a field of the result.
        level: p below which a difference is no chance.
        earlier: both sets of sessions that did not settle it. They count as well.
        looks: rounds a side of the looks of the sequence.
    """
    a, b = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    floor = max(floor, FLOOR)
    moved, low, high, p = two_samples.stratified([*earlier, (a, b)], CONFIDENCE)
    answer, reason = _answer_of(
        moved, low, high, p, floor, threshold=level if a.size >= two_samples.FEWEST_FOR_EXACT else 0
    )
    return Comparison(
        answer=answer,
        reason=reason,
        rounds=a.size,
        ratio=math.exp(moved),
        low=math.exp(low),
        high=math.exp(high),
        p=p,
        floor=floor,
        level=level,
        adjusted=adjusted,
        next_look=next((look for look in looks if look > a.size), None) if answer is Answer.UNKNOWN else None,
    )


def _answer_of(
    moved: float, low: float, high: float, p: float, floor: float, *, threshold: float
) -> tuple[Answer, str]:
    """Return the answer and its reason, from a change, its interval (logarithms), p with its threshold, the floor."""
    limit = math.log1p(floor)
    within = f"{100 * floor:.3g}%"
    if p < threshold and abs(moved) >= limit:
        return Answer.DIFFERENT, f"p < {threshold:g}, and no less than {within}"
    if -limit < low and high < limit:
        return Answer.SAME, f"the 95% interval lies within {within} either way"
    if abs(moved) < limit:
        return Answer.UNKNOWN, f"less than {within}, but the interval reaches further"
    if not threshold:
        return Answer.UNKNOWN, f"{within} or more, which takes {LOOKS[0]} rounds a side to tell from chance"
    return Answer.UNKNOWN, f"{within} or more, but p is not below {threshold:g}"


def not_compared(obstacle: Obstacle, reason: str) -> Comparison:
    """Return the comparison of a series that one of the commits has no times of."""
    return Comparison(answer=Answer.UNKNOWN, reason=reason, obstacle=obstacle)


def known_same(reason: str) -> Comparison:
    """Return the comparison of a series whose code is the same on both sides, so that it is not measured."""
    return Comparison(answer=Answer.SAME, reason=reason)
