"""Play planted histories through the verdicts of pages, and count the changes that they name, deny and imagine.

A platform has native series and controls. Each value is one commit's. Seeded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.names import CONTROLS, NATIVE
from kernel_velocity.past.columns import Columns
from kernel_velocity.results.measurement import OUTCOMES, Outcome, SeriesKey
from kernel_velocity.stats.changepoints.values import MIN_EFFECT
from kernel_velocity.verdict import change_points, controls, moves, unsteady, verdicts
from kernel_velocity.verdict.controls import Shared
from kernel_velocity.verdict.verdicts import Levels, Word
from lab.histories import Family, Generator, jitter, sums
from lab.scoring import MARGIN

NATIVES, OF_CONTROLS = 18, 6  # series of a platform
STEADY = 40  # commits before something happens
WANDERING = 150  # commits of platforms whose levels wander
EVERY = 10  # commits from one look at them to the next
_MEASURED = OUTCOMES.index(Outcome.MEASURED)


def platform(natives: FloatArray, of_controls: FloatArray) -> list[Levels]:
    """Return the levels that pages show of a platform's native series.

    Args:
        natives: log times, shape (series, commits). of_controls: the same of its controls.
    """
    kinds = [(NATIVE, natives), (CONTROLS[0], of_controls)]
    position = np.arange(natives.shape[1], dtype=np.int32)
    shared = Shared({None: controls.common([(position, position.astype(np.float64), logs) for logs in of_controls])})
    columns = [
        columns_of(implementation, number, logs) for implementation, rows in kinds for number, logs in enumerate(rows)
    ]
    columns = controls.fitted(columns, lambda _: shared)
    by_key = {part.key: part for part in columns}
    settled = change_points.of_all(tuple(by_key), by_key.__getitem__)
    errors = [change_points.errors(part) for part in columns]
    steps, pools = verdicts.tested(columns, errors, settled)
    points = [
        tuple(filter(None, moves.attributed(change_points.logs(part), controls.left_in(part, shared), some.sure, None)))
        for part, some in zip(columns, steps, strict=True)
    ]
    points, p = unsteady.marked(columns, points, lambda _: shared), verdicts.least_p(len(columns))
    return [
        Levels(
            points=controls.raised(part, some_points),
            values=part.seconds,
            within=unseen.within,
            visits=unseen.visits,
            doubt=some.doubted[-1] if some.doubted else None,
        )
        for part, some, some_points, unseen in zip(
            columns, steps, points, verdicts.unseen(columns, errors, points, pools, p), strict=True
        )
    ][: len(natives)]


def columns_of(implementation: str, number: int, logs: FloatArray) -> Columns:
    """Return a series of log values. NaN: not measured."""
    unknown, size = np.full(logs.size, np.nan), logs.size
    key = SeriesKey(
        machine="machine",
        environment="environment",
        benchmark=f"kernel_{number}.Cpu.time_hot",
        implementation=implementation,
        case="case",
        version="1",
    )
    return Columns(
        key=key,
        position=np.arange(size, dtype=np.int32),
        outcome=np.full(size, _MEASURED, np.int32),
        seconds=np.exp(logs),
        low=unknown,
        high=unknown,
        adjusted=unknown,
        adjusted_low=unknown,
        adjusted_high=unknown,
        rounds=np.zeros(size, np.int32),
        method=np.full(size, -1, np.int32),
    )


class Planted(NamedTuple):
    """A history of a native series: what it truly does, and what has to be named."""

    truth: FloatArray  # log levels, shape (commits,)
    machine: FloatArray  # log levels of what the machine does to every series
    named: tuple[int, ...]  # first commits of levels
    margin: int = 0  # commits by which what is named may be off


def _steps(size: int, *steps: tuple[int, float]) -> FloatArray:
    """Return log levels that rise by shares at commits."""
    return np.asarray(sum(math.log1p(share) * (np.arange(size) >= at) for at, share in steps), dtype=np.float64)


def _visit(share: float, stay: int, after: int) -> Planted:
    """Plant a change that is reverted."""
    size = STEADY + stay + after
    truth = _steps(size, (STEADY, share)) - (np.arange(size) >= STEADY + stay) * math.log1p(share)
    return Planted(truth, np.zeros(size), (STEADY,) if after == 0 else (STEADY, STEADY + stay))


def _new(share: float, before: int, after: int) -> Planted:
    """Plant a change with so many commits before it and from it on."""
    return Planted(_steps(before + after, (before, share)), np.zeros(before + after), (before,))


def _beside_machine(share: float, event: float, later: int) -> Planted:
    """Plant a change some commits after the machine changed by itself."""
    size = STEADY + later + 25
    return Planted(_steps(size, (STEADY + later, share)), _steps(size, (STEADY, event)), (STEADY + later,))


SHAPES: Mapping[str, tuple[float, Planted]] = {  # scatter and history
    **{f"+6% for {stay} commits, 30 ago": (0.005, _visit(0.06, stay, 30)) for stay in (3, 4)},
    **{f"+5% for 8 commits, reverted {after} ago": (0.005, _visit(0.05, 8, after)) for after in range(7)},
    **{f"+5% two commits old, {before} before": (0.005, _new(0.05, before, 2)) for before in (*range(8, 12), 14, 20)},
    **{
        f"+3% at 1% noise, {after} commits old": (0.01, _new(0.03, STEADY, after)._replace(margin=2))
        for after in (2, 5, 10)
    },
    **{
        f"+3% {later} commits after the machine's {event:+.0%}": (0.005, _beside_machine(0.03, event, later))
        for event in (0.03, -0.03)
        for later in (3, 5, 7, 10)
    },
}


class Named(NamedTuple):
    """How often what was planted is named, and what else."""

    named: float  # share of the planted changes that are named, at their commits or within the margin
    quiet: float  # share of the other series that have no change
    true: float  # share of the rows of the newest commit, across a planted change, that do not deny it


def named(shape: str, seed: int, platforms: int) -> Named:
    """Play platforms, a quarter of whose native series have a shape of SHAPES."""
    sigma, planted = SHAPES[shape]
    few, right, quiet, true = NATIVES // 4, list[bool](), list[bool](), list[bool]()
    for number in range(platforms):
        rng = np.random.default_rng([seed, number])
        values = rng.normal(0, sigma, (NATIVES + OF_CONTROLS, planted.truth.size)) + planted.machine
        values[:few] += planted.truth
        levels = platform(values[:NATIVES], values[NATIVES:])
        for series in levels[:few]:
            blamed = {point.index for point in series.points if point.is_blamed}
            right += [any(abs(at - index) <= planted.margin for index in blamed) for at in planted.named]
            newest = planted.truth.size - 1
            rows = ((old, newest) for old in range(newest))
            true += [not is_denied for is_denied in _denials(series, planted.truth, rows)]
        quiet += [not any(point.is_blamed for point in series.points) for series in levels[few:]]
    return Named(*(float(np.mean(part)) for part in (right, quiet, true)))


class Denied(NamedTuple):
    """Shares of the rows across a true change that say "unchanged" of more than they allow."""

    newest: float  # of the newest commit with one of the last ten
    neighbours: float  # of the commit of a change with the one before, however soon another change follows


def denied(seed: int, platforms: int) -> Denied:
    """Play histories whose native series have a change of 1 to 8% at a random commit, and often another."""
    rows: tuple[list[bool], list[bool]] = ([], [])
    for number in range(platforms):
        rng = np.random.default_rng([seed, number])
        size = int(rng.integers(8, 60))
        truth = np.zeros((NATIVES, size))
        for row in truth:
            for at in rng.integers(1, size, 1 + rng.poisson(0.5)):
                row[at:] += rng.choice([-1, 1]) * rng.uniform(0.01, 0.08)
        values = rng.normal(0, 0.005, (NATIVES + OF_CONTROLS, size))
        for levels, row in zip(platform(values[:NATIVES] + truth, values[NATIVES:]), truth, strict=True):
            changes = (np.flatnonzero(np.diff(row)) + 1).tolist()
            back = size - 1 - int(rng.integers(1, min(11, size)))
            rows[0].extend(_denials(levels, row, [(back, size - 1)]))
            rows[1].extend(_denials(levels, row, [(at - 1, at) for at in changes]))
    return Denied(*(float(np.mean(part)) for part in rows))


def _denials(levels: Levels, truth: FloatArray, rows: Iterable[tuple[int, int]]) -> Iterator[bool]:
    """Yield for each row, of an older and a newer commit, across a true change whether it denies the change."""
    for old, new in rows:
        effect = abs(float(truth[new] - truth[old]))
        if effect >= MIN_EFFECT:
            verdict = levels.between(old, new)
            yield verdict.word is Word.UNCHANGED and math.expm1(effect) > verdict.within


def _t3(rng: Generator, size: int) -> FloatArray:
    return np.asarray(0.005 * rng.standard_t(3, size))


def _skewed(rng: Generator, size: int) -> FloatArray:
    return np.asarray(0.005 * rng.exponential(1.0, size))


def _garch(rng: Generator, size: int) -> FloatArray:
    values, variance = np.zeros(size + 50), 1.0
    for index in range(size + 50):
        values[index] = math.sqrt(variance) * rng.standard_normal()
        variance = 0.05 + 0.25 * values[index] ** 2 + 0.7 * variance
    return np.asarray(0.005 * values[50:])


FAMILIES: Mapping[str, Family] = {
    "normal": sums(jitter(0.005)),
    "t3": _t3,
    "skewed": _skewed,
    "GARCH": _garch,
    "AR(1) .5": sums(jitter(0.005, 0.5)),
}


def false_pages(family: str, seed: int, platforms: int, size: int) -> float:
    """Return the share of platforms, without any change in `size` commits, of which a page shows one."""
    false = 0
    for number in range(platforms):
        rng = np.random.default_rng([seed, number])
        values = np.array([FAMILIES[family](rng, size) for _ in range(NATIVES + OF_CONTROLS)])
        levels = platform(values[:NATIVES], values[NATIVES:])
        false += any(point.is_blamed for some in levels for point in some.points)
    return false / platforms


class Wandering(NamedTuple):
    """What pages say of levels that wander, in 1,000 values of native series."""

    ever: float  # changes that they name at any look
    changes: float  # that they name in the end
    unsteady: float  # steps that they show as unsteady in the end


def wandering(draw: Family, seed: int, platforms: int) -> Wandering:
    """Play platforms whose levels wander without a change of the code, looked at as they grow.

    A change within MARGIN of an earlier one is that one, moved.
    """
    ever = changes = unsteady_steps = 0
    for number in range(platforms):
        rng = np.random.default_rng([seed, number])
        values = np.array([draw(rng, WANDERING) for _ in range(NATIVES + OF_CONTROLS)])
        named_at: list[set[int]] = [set() for _ in range(NATIVES)]
        levels = list[Levels]()
        for size in range(EVERY, WANDERING + 1, EVERY):
            levels = platform(values[:NATIVES, :size], values[NATIVES:, :size])
            for series, earlier in zip(levels, named_at, strict=True):
                for point in filter(lambda point: point.is_blamed, series.points):
                    ever += all(abs(point.index - other) > MARGIN for other in earlier)
                    earlier.add(point.index)
        final = [point for series in levels for point in series.points]
        changes += sum(point.is_blamed for point in final)
        unsteady_steps += sum(point.is_unsteady for point in final)
    commits = platforms * NATIVES * WANDERING
    return Wandering(*(1000 * count / commits for count in (ever, changes, unsteady_steps)))
