"""Decide what moved, by how much, between which commits, and whose doing it is: for pages and nights. Pure.

A step is one that the detector sees, or one of the newest or oldest values (stats/changepoints). It is the machine's
where the machine code is the same on both sides, or where what the controls share explains it.

A page calls a step of the newest values a change if chance hardly makes it among all series. A night takes every step
that is SUSPECTED, because it measures both commits again, in turns: so it misses no change that a page shows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kernel_velocity.direction import is_worse
from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.names import NATIVE
from kernel_velocity.past.columns import Indices
from kernel_velocity.results import sessions
from kernel_velocity.results.identity import Identity
from kernel_velocity.results.sessions import Changes
from kernel_velocity.stats.changepoints import search
from kernel_velocity.stats.changepoints.noise import median
from kernel_velocity.stats.changepoints.search import LONGER, MARGIN, POSSIBLE, SHORTER, Level, Noise, OlderStep
from kernel_velocity.stats.changepoints.values import ChangePoint, Points
from kernel_velocity.stats.two_samples import controlled
from kernel_velocity.verdict import change_points, controls
from kernel_velocity.verdict.change_points import Logs
from kernel_velocity.verdict.history import Observation, SeriesHistory
from kernel_velocity.verdict.ranges import (
    BETWEEN_SESSIONS,
    FEWEST_TELLING,
    began,
    commits_between,
    is_other_code,
    is_same_code,
)

FALSE_DISCOVERIES = 0.01  # expected share among the steps of newest values (Benjamini and Hochberg, 1995)
# p of a step of newest values from which on a night passes it over. Simulated at a noise of .7%, a step of 2% is then
# confirmed within two commits in .97 of cases (.06: .88), for 1.1 re-runs of 12 series a night (.9).
SUSPECTED = 0.12
ASSUMED_SUSPECTED = 3e-4  # the same where the scatter is assumed: few values of one session tell none
NEWEST = 5  # values that a suspected step is no older than
YOUNG = 20  # values since a step of the detector: of more, only the newest may show a step that it did not see
TAKEN_BACK = f"unsteady: its first {SHORTER} values showed it, all values by now do not: taken back"
MOST_TELLING = 256  # series of a platform that tell what is typical: more only cost time


class Untested(NamedTuple):
    """Values of a series that one method timed, whose ends the detector cannot judge."""

    entries: Indices  # of the series, ascending
    level: Level


Ends = tuple[Untested | None, Untested]  # of a series: the oldest values, unless they are among the newest; the newest


class Steps(NamedTuple):
    """The steps of a series, oldest first. Indices are entries of the series."""

    sure: Points
    doubted: Points  # of its oldest or newest values: they may be chance


def error_of(errors: FloatArray) -> float:
    """Return the typical one of some standard errors that rounds leave. NaN where none is known."""
    recorded = errors[~np.isnan(errors)]
    return median(recorded) if recorded.size else np.nan


def ends(series: Logs, errors: FloatArray, settled: Sequence[ChangePoint]) -> Ends:
    """Return the values of a series that the detector cannot judge.

    The newest are those since its last step, the oldest those up to its first step, of one timing method each.

    Args:
        errors: the standard errors that rounds leave to the log values, NaN: unknown.
        settled: the steps that the detector sees.
    """
    logs, method = series

    def untested(entries: Indices, **kind: bool) -> Untested:
        return Untested(entries, Level(logs[entries], None, error_of(errors[entries]), **kind))

    begin = settled[-1].index if settled else 0
    newest = np.flatnonzero(~np.isnan(logs[begin:])) + begin
    newest = newest[method[newest] == method[newest[-1]]] if newest.size else newest
    begins = newest.size <= (YOUNG if settled else LONGER + SHORTER)
    newest = newest[-(LONGER + SHORTER) :]
    oldest = np.flatnonzero(~np.isnan(logs[: settled[0].index if settled else None]))
    oldest = oldest[method[oldest] == method[oldest[0]]][: LONGER + SHORTER] if oldest.size else oldest
    is_other = oldest.size and oldest[0] not in newest
    return untested(oldest, ends=False) if is_other else None, untested(newest, begins=begins)


def pools(
    platforms: Sequence[Hashable], is_control: Sequence[bool], of_series: Sequence[Ends]
) -> dict[Hashable, Noise | None]:
    """Return what is typical of the newest values of each platform: of its controls, else of all its series."""
    by_platform: dict[Hashable, list[int]] = {}
    for number, platform in enumerate(platforms):
        by_platform.setdefault(platform, []).append(number)
    result = {}
    for platform, numbers in by_platform.items():
        both = numbers, [number for number in numbers if is_control[number]]
        result[platform] = search.pool(
            *([of_series[number][1].level.logs for number in some[:: len(some) // MOST_TELLING + 1]] for some in both)
        )
    return result


class Searched(NamedTuple):
    """A series in which steps are looked for."""

    logs: Logs
    errors: FloatArray  # as `ends` takes them
    settled: Sequence[ChangePoint]  # the steps that the detector sees
    cuts: Sequence[int]  # where it cuts the values, ascending: steps of any age may be there

    @property
    def ends(self) -> Ends:
        """The values that the detector cannot judge."""
        return ends(self.logs, self.errors, self.settled)


def older(series: Sequence[tuple[Searched, Noise | None]]) -> list[list[OlderStep]]:
    """Return the steps of series that were found when they were new, and that the detector does not see.

    Args:
        series: each with what is typical of its platform (`pools`).
    """
    result: list[list[OlderStep]] = [[] for _ in series]
    for number, ((logs, errors, settled, cuts), others) in enumerate(series):
        for values in change_points.by_method(logs).values() if cuts else ():
            entries = np.flatnonzero(~np.isnan(values))
            starts, edges = (_among(entries, some) for some in (cuts, [point.index for point in settled]))
            level = Level(values[entries], others, error_of(errors[entries]))
            result[number] += [
                OlderStep(*(replace(step, index=int(entries[step.index])) for step in both))
                for both in search.older_steps(level, starts, edges)
            ]
    return result


def _among(entries: Indices, some: Sequence[int]) -> list[int]:
    """Return where those of some that are among ascending entries stand there."""
    at = np.searchsorted(entries, some).tolist()
    return [index for index, entry in zip(at, some, strict=True) if index < entries.size and entries[index] == entry]


def with_older(
    series: Sequence[Searched], of_series: Sequence[Ends], older_steps: Sequence[Sequence[OlderStep]]
) -> list[Ends]:
    """Return the values that the detector cannot judge, since the older steps that values still show."""
    result = []
    for part, both, several in zip(series, of_series, older_steps, strict=True):
        shown = [step.by_now for step in several if step.by_now.p < POSSIBLE]
        settled = sorted((*part.settled, *shown), key=lambda point: point.index)
        result.append(part._replace(settled=settled).ends if shown else both)
    return result


def steps(
    settled: Sequence[Sequence[ChangePoint]],
    of_series: Sequence[Ends],
    older_steps: Sequence[Sequence[OlderStep]],
    typical: Sequence[Noise | None],
    doubted: float,
) -> list[Steps]:
    """Return the steps of many series, with control of false discoveries over all of them.

    An older step that was found when it was new, and that the values by now do not show, is taken back: it is unsteady.

    Args:
        settled: what the detector sees in each. older_steps: `older`. typical: of its platform (`pools`).
        doubted: p below which a step of few values that may be chance is returned.
    """
    levels = [
        (number, part._replace(level=part.level._replace(others=typical[number])))
        for number, both in enumerate(of_series)
        for part in both
        if part is not None
    ]
    tested = search.steps([part.level for _, part in levels])
    tests = [point.p for points in tested for point in points]
    tests += [step.p for several in older_steps for both in several for step in both]
    tests += [1.0] * max(len(tested) - len(tests), 0)
    corrected = controlled(tests)
    adjusted = iter(corrected)
    sure = [p for p, after in zip(tests, corrected, strict=True) if after <= FALSE_DISCOVERIES]
    most = max(sure, default=FALSE_DISCOVERIES / max(len(tests), 1))
    result = [([*points], list[ChangePoint]()) for points in settled]
    for (number, part), points in zip(levels, tested, strict=True):
        for point in points:
            is_sure = next(adjusted) <= FALSE_DISCOVERIES
            if is_sure or point.p < doubted:
                result[number][0 if is_sure else 1].append(replace(point, index=int(part.entries[point.index])))
    for (sure_of, doubted_of), several in zip(result, older_steps, strict=True):
        for point, first in several:
            if min(first.p, point.p) > most:
                doubted_of.extend([point] if point.p < doubted else [])
            elif point.p < POSSIBLE:
                sure_of.append(point)
            else:
                sure_of.append(replace(first, is_unsteady=True, warnings=(*first.warnings, TAKEN_BACK)))
    return [Steps(*(tuple(sorted(points, key=lambda point: point.index)) for points in both)) for both in result]


def attributed(
    series: Logs, machine: FloatArray, points: Sequence[ChangePoint], code: Callable[[int], str | None] | None
) -> list[ChangePoint | None]:
    """Return each step less the machine's part, at the commit that can have caused it. None: the machine explains it.

    Args:
        machine: what the controls share (`controls.left_in`). points: ascending.
        code: returns the hash of the machine code at an entry, None where it is not recorded. None: it never is.
    """
    remaining = controls.without_machine(*series, machine, points)
    measured = np.flatnonzero(~np.isnan(series.values))
    return [point if point is None or code is None else _by_code(measured, point, code) for point in remaining]


def _by_code(measured: Indices, point: ChangePoint, code: Callable[[int], str | None]) -> ChangePoint:
    """Return a step at the nearest commit that changed the machine code, where that is known.

    The position of a step is known to within MARGIN values.
    """
    at = int(np.searchsorted(measured, point.index))
    near = measured[max(at - MARGIN - 1, 0) : at + MARGIN + 1].tolist()
    codes = [code(entry) for entry in near]
    position = near.index(point.index)
    changed = [n for n in range(1, len(codes)) if is_other_code(codes[n - 1], codes[n])]
    is_known = position > 0 and (position in changed or is_same_code(codes[position - 1], codes[position]))
    if not is_known:
        return point
    if not changed:
        return replace(point, is_same_code=True)
    return replace(point, index=near[min(changed, key=lambda n: abs(n - position))])


@dataclass(frozen=True, kw_only=True)
class Move:
    """A series that moved, or whose code changed, and between which commits."""

    history: SeriesHistory
    effect: float  # of log values: new minus old
    good: Observation  # surely one before: it is measured against this
    bad: Observation  # surely one after
    candidates: tuple[str, ...]  # possible commits, oldest first; (): none, the code is the same
    point: ChangePoint | None = None  # that shows it tonight
    is_shown: bool = True  # whether its values show it, or once did; else its code changed, and they may or may not
    is_machines: bool = False  # whether no commit is to blame

    @property
    def identity(self) -> Identity:
        """The series that moved."""
        return self.history.identity

    @property
    def worse(self) -> bool | None:
        """Whether it moved for the worse. None where neither direction is."""
        return is_worse(self.history.better, self.effect)

    @property
    def changes(self) -> Changes:
        """The facts of the machine that changed."""
        return sessions.changes(self.good.facts, self.history.newest.facts)


def of_histories(histories: Sequence[SeriesHistory], line: Sequence[str], idle: Collection[str] = ()) -> Iterator[Move]:
    """Yield the moves of series, those of the newest values that are SUSPECTED among them.

    Args:
        line: the commits of the first-parent line, oldest first. idle: those that no build depends on.
    """
    series = _without_steps(histories, [_values(history) for history in histories])
    answers = search.detect_many([logs.values for logs, *_ in series], [None] * len(series))
    settled = [answer.points for answer in answers]
    searched = [
        Searched(logs, errors, answer.points, answer.cuts)
        for (logs, errors, _), answer in zip(series, answers, strict=True)
    ]
    untested = [part.ends for part in searched]
    platforms = [_platform(history.identity) for history in histories]
    typical = pools(platforms, [history.identity.is_control for history in histories], untested)
    # An outlier is suspected, too: a re-run tells it from a step. Where no series has values that tell their scatter,
    # what they show may be the step itself
    sizes: dict[Hashable, int] = {}
    for platform, (_, newest) in zip(platforms, untested, strict=True):
        sizes[platform] = max(sizes.get(platform, 0), newest.entries.size)
    assumed = {
        platform
        for platform, pool in typical.items()
        if pool is not None and sizes[platform] <= FEWEST_TELLING and pool.sigma > BETWEEN_SESSIONS
    }
    suspecting = {
        platform: pool
        and replace(pool, sigma=BETWEEN_SESSIONS if platform in assumed else pool.sigma, tails=search.NORMAL)
        for platform, pool in typical.items()
    }
    # Newer ones are the newest values', which are suspected at a higher p
    of_long_ago = [
        [step for step in several if np.count_nonzero(~np.isnan(part.logs.values[step.by_now.index :])) > SHORTER]
        for part, several in zip(
            searched,
            older([(part, typical[platform]) for part, platform in zip(searched, platforms, strict=True)]),
            strict=True,
        )
    ]
    untested = with_older(searched, untested, of_long_ago)
    both = steps(settled, untested, of_long_ago, [suspecting[platform] for platform in platforms], SUSPECTED)
    for history, platform, (logs, _, machine), (sure, doubted) in zip(histories, platforms, series, both, strict=True):
        most = ASSUMED_SUSPECTED if platform in assumed else SUSPECTED
        newest_of = len(history.observations) - NEWEST
        suspected = [point for point in doubted if point.index >= newest_of and point.p < most]
        points = sorted((*sure, *suspected), key=lambda point: point.index)
        codes = [observation.code for observation in history.observations]
        code = codes.__getitem__ if history.identity.implementation == NATIVE else None
        bounds = [0, *(point.index for point in points), logs.values.size]
        remaining = attributed(logs, machine, points, code)
        for point, rest, first, last in zip(points, remaining, bounds, bounds[2:], strict=False):
            entries = _around(history, logs.values, point, rest or point, (first, last))
            move = _move(history, point, rest, entries, candidates_of(history.identity, entries, line, idle))
            # Nothing measures again what no commit can have done: where it may be chance, it says nothing
            is_chance = move.is_machines and rest is not None and point in suspected
            if not (is_chance or point.is_unsteady):
                yield move


def _platform(identity: Identity) -> Hashable:
    return identity.machine, identity.environment, identity.device, identity.is_timed


def _values(history: SeriesHistory) -> tuple[Logs, FloatArray, FloatArray]:
    """Return the log values of a history, all of one timing method, their errors, and what its controls share."""
    rows = [(entry.value, entry.error, entry.machine) for entry in history.observations]
    values, errors, machine = np.array(rows, dtype=np.float64).T
    return Logs(values, np.zeros(len(rows), np.int32)), errors, machine


def _without_steps(
    histories: Sequence[SeriesHistory], series: Sequence[tuple[Logs, FloatArray, FloatArray]]
) -> list[tuple[Logs, FloatArray, FloatArray]]:
    """Return the values of histories without the steps of their machine that they show (`controls.shown`)."""
    longest: dict[Hashable, int] = {}
    for number, (history, (_, _, machine)) in enumerate(zip(histories, series, strict=True)):
        platform = _platform(history.identity)
        if np.isnan(machine).all():
            continue
        if platform not in longest or machine.size > series[longest[platform]][2].size:
            longest[platform] = number
    commits = {
        platform: [histories[number].observations[point.index].position for point in search.detect(series[number][2])]
        for platform, number in longest.items()
    }
    positions = [[observation.position for observation in history.observations] for history in histories]
    events = [
        np.searchsorted(measured, commits.get(_platform(history.identity), [])).tolist()
        for measured, history in zip(positions, histories, strict=True)
    ]
    parts = controls.shown([logs.values for logs, *_ in series], [machine for *_, machine in series], events)
    return [
        (logs, errors, machine) if part is None else (logs._replace(values=logs.values - part), errors, machine - part)
        for part, (logs, errors, machine) in zip(parts, series, strict=True)
    ]


def _around(
    history: SeriesHistory, logs: FloatArray, point: ChangePoint, left: ChangePoint, levels: tuple[int, int]
) -> tuple[Observation, ...]:
    """Return the observations from the last one surely before a step to the first one surely after it.

    Args:
        left: what the machine leaves of the step. levels: where the level before begins, and the one after the new one.
    """
    good, bad = began(logs, point, point.index, *levels)
    return history.observations[min(good, left.index - 1) : max(bad, left.index) + 1]


def _move(
    history: SeriesHistory,
    point: ChangePoint,
    rest: ChangePoint | None,
    entries: Sequence[Observation],
    candidates: tuple[str, ...],
) -> Move:
    """Return a step as a move. `rest` is what the machine leaves of it."""
    left = rest or point
    return Move(
        history=history,
        effect=left.after - left.before,
        good=entries[0],
        bad=entries[-1],
        candidates=candidates,
        point=left,
        is_machines=rest is None or rest.is_same_code or not candidates,
    )


def candidates_of(
    identity: Identity, entries: Iterable[Observation], line: Sequence[str], idle: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the commits after the first of some observations, up to the last, that can have moved a series."""
    return () if identity.is_control else commits_between(entries, line, idle)
