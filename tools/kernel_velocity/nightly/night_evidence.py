"""Makes the evidence of a night: the rounds that an answer rests on, and what the test said look by look. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kernel_velocity.ab.bisection import Bisection, Step
from kernel_velocity.ab.rounds import Pairs, estimates
from kernel_velocity.findings.evidence import MOST_TEXT, Look, Path, Purpose, Rerun, Side, Tried
from kernel_velocity.harness.telemetry import Round
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.identity import Identity
from kernel_velocity.stats import sequential as ab_test
from kernel_velocity.stats import two_samples as differing
from kernel_velocity.stats.sequential import LOOKS, Comparison


def rerun(
    identity: Identity,
    purpose: Purpose,
    commits: tuple[str, str],
    answer: Comparison,
    pairs: Pairs,
    *,
    left: tuple[str, ...],
    code: tuple[str | None, str | None] = (None, None),
) -> Rerun:
    """Return the evidence of an answer.

    Args:
        identity: the series. commits: before and after, full SHAs. answer: what the test said of them.
        pairs: all rounds that there are of the two commits, those of the series that others are adjusted by as well.
        left: the commits that can have done it, oldest first. code: what identifies what the series ran.
    """
    series = (identity.benchmark, (identity.implementation, identity.case))
    return Rerun(
        identity=identity,
        purpose=purpose,
        before=commits[0],
        after=commits[1],
        commits=left,
        answer=answer.answer,
        reason=answer.reason[:MOST_TEXT],
        floor=answer.floor,
        sides=_sides(pairs, series, answer.rounds),
        looks=tuple(_look(pairs, series, rounds, answer.floor) for rounds in LOOKS if rounds <= answer.rounds),
        code=code,
    )


def _sides(pairs: Pairs, series: Series, rounds: int) -> tuple[Side, Side]:
    """Return the rounds that an answer rests on, as the test compared them."""
    if not rounds:
        return Side(began=(), seconds=(), flags=()), Side(began=(), seconds=(), flags=())
    before, after, is_adjusted = estimates(pairs, series, rounds)
    pair = pairs[series]
    return (
        _side(pair.before[:rounds], before if is_adjusted else ()),
        _side(pair.after[:rounds], after if is_adjusted else ()),
    )


def _side(rounds: Sequence[Round], adjusted: Sequence[float]) -> Side:
    return Side(
        began=tuple(item.time for item in rounds),
        seconds=tuple(item.estimate for item in rounds),
        flags=tuple(item.flags for item in rounds),
        adjusted=tuple(math.exp(value) for value in adjusted),
    )


def _look(pairs: Pairs, series: Series, rounds: int, floor: float) -> Look:
    """Return what the test said after so many rounds a side, of which it had no more then."""
    before, after, adjusted = estimates(pairs, series, rounds)
    said = ab_test.compare(before, after, floor=floor, adjusted=adjusted)
    moved, least, most = differing.shift(np.asarray(before), np.asarray(after), 1 - differing.P)
    if said.low is None or said.high is None or said.p is None:
        raise ValueError(f"{series}: {rounds} rounds a side are compared without an interval")
    return Look(
        rounds=rounds,
        ratio=math.exp(moved),
        low=said.low,
        high=said.high,
        least=math.exp(least),
        most=math.exp(most),
        p=said.p,
        answer=said.answer,
    )


def path(identity: Identity, good: str, bad: str, found: Bisection) -> Path:
    """Return the path of a bisection, BAD with GOOD first."""
    whole = Step(commit=bad, comparison=found.whole, slow=True if found.whole.slower else None)
    return Path(
        identity=identity,
        good=good,
        bad=bad,
        tried=tuple(_tried(step) for step in (whole, *found.steps)),
        left=found.left,
        reason=found.reason[:MOST_TEXT],
    )


def _tried(step: Step) -> Tried:
    said = step.comparison
    return Tried(
        commit=step.commit,
        slow=step.slow,
        answer=said.answer,
        reason=said.reason[:MOST_TEXT],
        rounds=said.rounds,
        ratio=said.ratio,
        low=said.low,
        high=said.high,
        p=said.p,
    )
