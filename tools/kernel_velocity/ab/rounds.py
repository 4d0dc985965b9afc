"""The rounds of an A/B session, series by series: adjusted for the machine's mood, and judged. Pure.

A round is adjusted by the gauges that were read beside its samples, or, on a GPU, by PyTorch's implementations in the
same launch (stats/adjust_series.py); where neither says anything, the rounds are compared as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kernel_velocity.harness.cases import CONTROLS
from kernel_velocity.harness.telemetry import Round
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.stats import adjust_series as adjusted_series
from kernel_velocity.stats import sequential as ab_test
from kernel_velocity.stats.adjust_series import Place
from kernel_velocity.stats.sequential import FLOOR, LOOKS, Answer, Comparison, Obstacle

BEFORE, AFTER = "before", "after"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The rounds of one series on both sides, in order of time; or why there are none."""

    before: tuple[Round, ...] = ()
    after: tuple[Round, ...] = ()
    obstacle: Obstacle | None = None
    reason: str = ""  # of the obstacle, one line

    @property
    def rounds(self) -> int:
        """Rounds that both sides have."""
        return min(len(self.before), len(self.after))


Pairs = Mapping[Series, Pair]


def judge(pairs: Pairs, series: Iterable[Series], floors: Mapping[Series, float]) -> dict[Series, Comparison]:
    """Return what the sequential test says of each of some series, look after look, over the rounds at hand.

    Args:
        pairs: of these series, and of those that they are adjusted by.
        floors: relative changes that count, where it is known that 1% is too little.
    """
    return {one: _judged(pairs, one, floors.get(one, FLOOR)) for one in series}


def _judged(pairs: Pairs, series: Series, floor: float) -> Comparison:
    pair = pairs.get(series, Pair())
    if pair.obstacle is not None:
        return ab_test.not_compared(pair.obstacle, pair.reason)
    found = Comparison(
        answer=Answer.UNKNOWN,
        reason=f"{pair.rounds} of the {LOOKS[0]} rounds a side that the first look takes",
        rounds=pair.rounds,
        next_look=LOOKS[0],
    )
    for look in LOOKS:
        if pair.rounds >= look and found.answer is Answer.UNKNOWN:
            before, after, adjusted = estimates(pairs, series, look)
            found = ab_test.compare(before, after, floor=floor, adjusted=adjusted)
    return found


def estimates(pairs: Pairs, series: Series, rounds: int) -> tuple[list[float], list[float], bool]:
    """Return (log seconds before, after, whether they are adjusted) of the first `rounds` of a series on either side.

    Adjusted only where every one of them can be: with as many raw values among them they would be worth less.
    """
    controls = {other: pair for other, pair in pairs.items() if other[1][0] in CONTROLS and pair.rounds}
    recorded = {_place(other): _sides(pair, None) for other, pair in controls.items()}
    recorded[_place(series)] = _sides(pairs[series], rounds)
    place = _place(series)
    raw = recorded[place]
    found = adjusted_series.adjusted(recorded).get(place, {})
    whole = all(len(found.get(side, ())) == rounds for side in (BEFORE, AFTER))
    seconds = found if whole else {side: [item.estimate for item in raw[side]] for side in (BEFORE, AFTER)}
    before, after = ([math.log(value) for value in seconds[side]] for side in (BEFORE, AFTER))
    return before, after, whole


def _sides(pair: Pair, rounds: int | None) -> dict[str, Sequence[Round]]:
    return {BEFORE: pair.before[:rounds], AFTER: pair.after[:rounds]}


def _place(series: Series) -> Place:
    """Return a series as the adjustment knows it: machine, environment and method are the same for all of a session."""
    benchmark, (implementation, case) = series
    key = SeriesKey(
        machine="", environment="", benchmark=benchmark, implementation=implementation, case=case, version=""
    )
    return key, ""
