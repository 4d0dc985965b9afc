"""The figures of a finding's page as coordinates of small SVGs: the rounds of a re-run, what the test said as they came
in, a bisection, a series around the commit. Pure.

Coordinates are ready text; colours are the page's own style, and shapes repeat what they say.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernel_velocity import units
from kernel_velocity.findings import text
from kernel_velocity.findings.evidence import Path, Rerun
from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.site.charts.small import AXES_WIDTH, LEFT, RIGHT, Axis, Tick, ticks, vertical
from kernel_velocity.stats import two_samples

_LEAST_RUNNING = 2  # rounds a side that a running ratio is made from
_FEWEST = two_samples.FEWEST  # rounds a side from which the interval of the test's threshold is finite
_CALM_FROM = 4  # rounds a side from which the running ratio may stretch the axis: the first ones jump


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A value; `title` tells it to who points at it."""

    x: str
    y: str
    title: str
    flagged: bool = False


@dataclass(frozen=True, kw_only=True)
class RoundsFigure:
    """Every round of both sides, in the order they were measured."""

    label: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    before: tuple[Dot, ...]
    after: tuple[Dot, ...]
    middle_before: str  # y of the median
    middle_after: str


@dataclass(frozen=True, kw_only=True)
class Bar:
    """What the test said at a look: the ratio with two intervals."""

    x: str
    y: str
    low: str
    high: str
    least: str
    most: str
    title: str


@dataclass(frozen=True, kw_only=True)
class RatioFigure:
    """The ratio after each round, and what the test said at each look."""

    label: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    line: str  # "x,y x,y ..."
    band: str  # of the interval that the test's threshold leaves; "" for none
    bars: tuple[Bar, ...]
    zero: str  # y of no change
    floors: tuple[str, str]  # y of the changes that count


@dataclass(frozen=True, kw_only=True)
class Trend:
    """A series around a commit."""

    label: str
    line: tuple[str, ...]  # stretches without a missing value
    bands: tuple[str, ...]
    dots: tuple[Dot, ...]
    since: tuple[str, str] | None  # x and width of the commits that can have done it


def _rounds_axis(rounds: int) -> tuple[Axis, tuple[Tick, ...]]:
    axis = Axis(0.5, rounds + 0.5, LEFT, AXES_WIDTH - RIGHT)
    wanted = sorted({1, *(number for number in (2, 4, 8, 16, 32, 64) if number <= rounds), rounds})
    shown = [number for number in wanted if number in (1, rounds) or number <= rounds * 0.9]
    roomy = [number for number in shown if rounds <= 8 or number not in (2, 4) or number >= rounds / 8]
    return axis, tuple(Tick(at=axis(number), text=str(number)) for number in roomy)


def rounds_figure(rerun: Rerun) -> RoundsFigure | None:
    """Return the rounds of a re-run; None where there are none."""
    if not rerun.rounds:
        return None
    scale, unit = _unit([value for side in rerun.compared for value in side])
    x, x_ticks = _rounds_axis(rerun.rounds)
    sides = [[value / scale for value in side] for side in rerun.compared]
    y = vertical([value for side in sides for value in side])
    dots = [_dots(rerun, number, sides[number], (x, y), unit) for number in (0, 1)]
    middles = [float(np.median(side)) for side in sides]
    return RoundsFigure(
        label=f"{rerun.rounds} rounds a side; median {units.seconds(middles[0] * scale)} before and "
        f"{units.seconds(middles[1] * scale)} after",
        x_ticks=x_ticks,
        y_ticks=_value_ticks(y, unit),
        before=dots[0],
        after=dots[1],
        middle_before=y(middles[0]),
        middle_after=y(middles[1]),
    )


def _dots(rerun: Rerun, number: int, values: Sequence[float], axes: tuple[Axis, Axis], unit: str) -> tuple[Dot, ...]:
    side, other, (x, y) = rerun.sides[number], rerun.sides[1 - number], axes
    found = []
    for place, value in enumerate(values):
        is_first = side.began[place] <= other.began[place]
        said = ", ".join(side.flags[place].split())
        found.append(
            Dot(
                x=x(place + 1 + (-0.16 if is_first else 0.16)),
                y=y(value),
                title=f"round {place + 1}, {('before', 'after')[number]}: {units.significant(value)} {unit}"
                + (f" ({said})" if said else ""),
                flagged=bool(said),
            )
        )
    return tuple(found)


def _unit(values: Iterable[float]) -> tuple[float, str]:
    """Return (s, unit) that times are shown in: that of their middle."""
    unit = units.seconds(float(np.median(list(values)))).split(" ")[1]
    return units.parse(f"1 {unit}"), unit


def _value_ticks(y: Axis, unit: str) -> tuple[Tick, ...]:
    return tuple(Tick(at=y(value), text=f"{_round_text(value)} {unit}") for value in ticks(y.low, y.high))


def _round_text(value: float) -> str:
    return f"{value:,.6g}"


def ratio_figure(rerun: Rerun) -> RatioFigure | None:
    """Return how the ratio settled as rounds came in; None where there are too few."""
    if rerun.rounds < _LEAST_RUNNING:
        return None
    before, after = (np.log(side) for side in rerun.compared)
    running = [_running(before, after, rounds) for rounds in range(_LEAST_RUNNING, rerun.rounds + 1)]
    x, x_ticks = _rounds_axis(rerun.rounds)
    limit = math.log1p(rerun.floor)
    bounds = [math.log(value) for look in rerun.looks for value in (look.least, look.most)]
    calm = [middle for rounds, middle, _, _ in running if rounds >= min(_CALM_FROM, rerun.rounds)]
    y = vertical([0.0, limit, -limit, *bounds, *calm])
    wide = [(rounds, low, high) for rounds, _, low, high in running if math.isfinite(low) and math.isfinite(high)]
    last = rerun.looks[-1] if rerun.looks else None
    return RatioFigure(
        label="the change of time after each round"
        + ("" if last is None else f"; at the end {text.change(last.ratio)}, p {last.p:.2g}"),
        x_ticks=x_ticks,
        y_ticks=_change_ticks(y),
        line=" ".join(f"{x(rounds)},{y(middle)}" for rounds, middle, _, _ in running),
        band=" ".join(
            [
                *(f"{x(rounds)},{y(high)}" for rounds, _, high in wide),
                *(f"{x(rounds)},{y(low)}" for rounds, low, _ in reversed(wide)),
            ]
        )
        if len(wide) > 1
        else "",
        bars=tuple(_bar(look.rounds, look, x, y) for look in rerun.looks),
        zero=y(0.0),
        floors=(y(limit), y(-limit)),
    )


def _running(before: FloatArray, after: FloatArray, rounds: int) -> tuple[int, float, float, float]:
    """Return (rounds, change, low, high) of the first rounds: logarithms, the interval of the test's threshold."""
    middle, low, high = two_samples.shift(before[:rounds], after[:rounds], 1 - two_samples.P)
    return rounds, middle, low, high


def _bar(rounds: int, look: object, x: Axis, y: Axis) -> Bar:
    ratios = {name: getattr(look, name) for name in ("ratio", "low", "high", "least", "most", "p")}
    return Bar(
        x=x(rounds),
        y=y(math.log(ratios["ratio"])),
        **{name: y(math.log(ratios[name])) for name in ("low", "high", "least", "most")},
        title=f"after {rounds} rounds a side: {text.change(ratios['ratio'])}, p {ratios['p']:.2g}",
    )


def _change_ticks(y: Axis) -> tuple[Tick, ...]:
    """Return ticks at round changes, %, of an axis of logarithms."""
    low, high = (100 * math.expm1(value) for value in (y.low, y.high))
    return tuple(
        Tick(at=y(math.log1p(percent / 100)), text=f"{percent:+.4g}%".replace("+0%", "0%").replace("-0%", "0%"))
        for percent in ticks(low, high)
        if percent > -100
    )


TREND_WIDTH, TREND_HEIGHT, _TREND_EDGE = 240, 56, 4


def trend(
    values: Sequence[float | None], bounds: Sequence[tuple[float, float] | None], moved: range | None, label: str
) -> Trend:
    """Return a series around the commits that can have moved it.

    Args:
        values: rates, oldest first, one or more of them known; None where unknown. bounds: their intervals.
        moved: the entries between which it moved: from the last before to the first after; None: no commit moved it.
        label: what it shows, for those who do not see it.
    """
    known = [value for value in values if value is not None]
    x = Axis(0, max(len(values) - 1, 1), _TREND_EDGE, TREND_WIDTH - _TREND_EDGE)
    y = vertical(known, top=_TREND_EDGE, bottom=TREND_HEIGHT - _TREND_EDGE)
    places = [place for place, value in enumerate(values) if value is not None]
    known_bounds = {place: bound for place in places if (bound := bounds[place]) is not None}
    ends = None if moved is None else [float(x(place)) for place in (moved.start, moved.stop)]
    return Trend(
        label=label,
        line=tuple(
            " ".join(f"{x(place)},{y(value)}" for place in run if (value := values[place]) is not None)
            for run in _runs(places)
        ),
        bands=tuple(_band(run, known_bounds, x, y) for run in _runs(list(known_bounds)) if len(run) > 1),
        dots=tuple(
            Dot(x=x(place), y=y(value), title="") for place in places[-1:] if (value := values[place]) is not None
        ),
        since=None if ends is None else (f"{ends[0]:.1f}", f"{max(ends[1] - ends[0], 1.0):.1f}"),
    )


def _band(run: Sequence[int], bounds: Mapping[int, tuple[float, float]], x: Axis, y: Axis) -> str:
    """Return the outline of the intervals of a stretch."""
    upper = [f"{x(place)},{y(bounds[place][1])}" for place in run]
    return " ".join([*upper, *(f"{x(place)},{y(bounds[place][0])}" for place in reversed(run))])


def _runs(places: Sequence[int]) -> list[list[int]]:
    """Return numbers in runs of consecutive ones."""
    runs: list[list[int]] = []
    for place in places:
        if runs and runs[-1][-1] == place - 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs


@dataclass(frozen=True, kw_only=True)
class PathStep:
    """A commit on the line of a bisection."""

    x: str
    number: str  # in the order of trying; "" for one that was not tried
    verdict: str  # "fast", "slow", "untold", "" for one that was not tried
    commit: str


def path_steps(path: Path, line: Sequence[str]) -> tuple[PathStep, ...]:
    """Return the commits of a bisection as they lie on the line, GOOD first.

    Args:
        line: the commits from GOOD to BAD, oldest first; those that are not known are left out.
    """
    order = {step.commit: number for number, step in enumerate(path.tried, start=1)}
    verdicts = {step.commit: {True: "slow", False: "fast", None: "untold"}[step.slow] for step in path.tried}
    x = Axis(0, max(len(line) - 1, 1), _TREND_EDGE * 4, 2 * AXES_WIDTH - _TREND_EDGE * 4)
    return tuple(
        PathStep(
            x=x(place),
            number=str(order.get(sha, "")),
            verdict="good" if sha == path.good else verdicts.get(sha, ""),
            commit=sha,
        )
        for place, sha in enumerate(line)
    )
