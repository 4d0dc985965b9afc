"""Decide what moved, by how much, between which commits, and whose doing it is: for pages and nights. Pure.

A step is one that the detector sees, or one of the newest or oldest values (stats/changepoints). It is the machine's
where the machine code is the same on both sides, or where what the controls share explains it.

A page calls a step of the newest values a change if chance hardly makes it among all series. A night takes every step
that is SUSPECTED, because it measures both commits again, in turns: so it misses no change that a page shows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.names import NATIVE
from kernel_velocity.past.columns import Indices
from kernel_velocity.results import sessions
from kernel_velocity.results.identity import Identity, is_worse
from kernel_velocity.results.sessions import Changes
from kernel_velocity.stats.changepoints import detector, young
from kernel_velocity.stats.changepoints.detector import MARGIN
from kernel_velocity.stats.changepoints.noise import difference_sigma, median
from kernel_velocity.stats.changepoints.values import ChangePoint, Points
from kernel_velocity.stats.changepoints.young import LONGER, SHORTER, Level, Pool
from kernel_velocity.stats.two_samples import controlled
from kernel_velocity.verdict import controls
from kernel_velocity.verdict.change_points import Logs
from kernel_velocity.verdict.history import Observation, SeriesHistory, is_same_code

FALSE_DISCOVERIES = 0.01  # expected share among the steps of newest values (Benjamini and Hochberg, 1995)
# p of a step of newest values, which are searched at five places, from which on a night passes it over. Simulated at a
# noise of .7%, a step of 2% is then confirmed within two commits in 1.00 of cases (.15: .96), for 1.5 re-runs of 12
# series a night (.9).
SUSPECTED = 0.4
ASSUMED_SUSPECTED = 1e-3  # the same where the scatter is assumed: few values of one session tell none
YOUNG = 20  # values since a step of the detector: of more, only the newest may show a step that it did not see
MOST_TELLING = 256  # series of a platform that tell what is typical: more only cost time
# Probability that a step began after `good`, and that it did by `bad`. Of steps of 2% at a noise of .7%, `good` is from
# before the step in .99 of the cases, the value beside the first that shows it in .5.
SURE = 0.999
RECENT_VALUES = 40  # newest values among which a step of the newest can have begun
FEWEST_TELLING = 3  # values that tell their scatter
BETWEEN_SESSIONS = 0.0075  # log units, of fewer values: identical code scattered by so much (docs: false alarms)


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


def ends(series: Logs, errors: Callable[[Indices], FloatArray], settled: Sequence[ChangePoint]) -> Ends:
    """Return the values of a series that the detector cannot judge.

    The newest are those since its last step, the oldest those up to its first step, of one timing method each.

    Args:
        errors: returns the standard errors that rounds leave to the log values of some entries, NaN: unknown.
        settled: the steps that the detector sees.
    """
    logs, method = series

    def untested(entries: Indices, **kind: bool) -> Untested:
        return Untested(entries, Level(logs[entries], None, error_of(errors(entries)), **kind))

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
) -> dict[Hashable, Pool | None]:
    """Return what is typical of the newest values of each platform: of its controls, else of all its series."""
    by_platform: dict[Hashable, list[int]] = {}
    for number, platform in enumerate(platforms):
        by_platform.setdefault(platform, []).append(number)
    result = {}
    for platform, numbers in by_platform.items():
        telling = [number for number in numbers if is_control[number]]
        used = telling or numbers
        logs = [of_series[number][1].level.logs for number in used[:: len(used) // MOST_TELLING + 1]]
        result[platform] = young.pool(logs, are_controls=bool(telling))
    return result


def steps(
    settled: Sequence[Sequence[ChangePoint]], of_series: Sequence[Ends], typical: Sequence[Pool | None], doubted: float
) -> list[Steps]:
    """Return the steps of many series, with control of false discoveries over all of them.

    Args:
        settled: what the detector sees in each. typical: of its platform (`pools`).
        doubted: p below which a step of few values that may be chance is returned.
    """
    levels = [
        (number, part._replace(level=part.level._replace(others=typical[number])))
        for number, both in enumerate(of_series)
        for part in both
        if part is not None
    ]
    tested = young.steps([part.level for _, part in levels])
    tests = [point.p for points in tested for point in points]
    adjusted = iter(controlled([*tests, *[1.0] * max(len(tested) - len(tests), 0)]))
    result = [([*points], list[ChangePoint]()) for points in settled]
    for (number, part), points in zip(levels, tested, strict=True):
        for point in points:
            is_sure = next(adjusted) <= FALSE_DISCOVERIES
            if is_sure or point.p < doubted:
                result[number][0 if is_sure else 1].append(replace(point, index=int(part.entries[point.index])))
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
    if None in codes[max(position - 1, 0) : position + 1] or position == 0:
        return point
    changed = [n for n in range(1, len(codes)) if None not in codes[n - 1 : n + 1] and codes[n] != codes[n - 1]]
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
        return is_worse(self.identity, self.effect)

    @property
    def changes(self) -> Changes:
        """The facts of the machine that changed."""
        return sessions.changes(self.good.facts, self.history.newest.facts)


def of_histories(histories: Sequence[SeriesHistory], line: Sequence[str]) -> Iterator[Move]:
    """Yield the moves of series, those of the newest values that are SUSPECTED among them.

    Args:
        line: the commits of the first-parent line, oldest first.
    """
    series = [_values(history) for history in histories]
    settled = [
        answer.points for answer in detector.detect_many([logs.values for logs, *_ in series], [None] * len(series))
    ]
    untested = [
        ends(logs, errors.__getitem__, points) for (logs, errors, _), points in zip(series, settled, strict=True)
    ]
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
        platform: pool and Pool(BETWEEN_SESSIONS if platform in assumed else pool.sigma, tails=1.0)
        for platform, pool in typical.items()
    }
    both = steps(settled, untested, [suspecting[platform] for platform in platforms], SUSPECTED)
    for history, platform, (logs, _, machine), (sure, doubted) in zip(histories, platforms, series, both, strict=True):
        most = ASSUMED_SUSPECTED if platform in assumed else SUSPECTED
        newest_of = len(history.observations) - SHORTER
        suspected = [point for point in doubted if point.index >= newest_of and point.p < most]
        points = sorted((*sure, *suspected), key=lambda point: point.index)
        codes = [observation.code for observation in history.observations]
        code = codes.__getitem__ if history.identity.implementation == NATIVE else None
        for point, rest in zip(points, attributed(logs, machine, points, code), strict=True):
            move = _move(history, logs.values, point, rest, line)
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


def _move(
    history: SeriesHistory, logs: FloatArray, point: ChangePoint, rest: ChangePoint | None, line: Sequence[str]
) -> Move:
    """Return a step as a move. `rest` is what the machine leaves of it."""
    left = point if rest is None else rest
    good, bad = began(logs, point)
    good, bad = min(good, left.index - 1), max(bad, left.index)
    observations = history.observations[good : bad + 1]
    candidates = candidates_of(history.identity, observations, line)
    return Move(
        history=history,
        effect=left.after - left.before,
        good=observations[0],
        bad=observations[-1],
        candidates=candidates,
        point=left,
        is_machines=rest is None or rest.is_same_code or not candidates,
    )


def began(logs: FloatArray, point: ChangePoint) -> tuple[int, int]:
    """Return the last entry that is surely from before a step, and the first that is surely from after it.

    Every beginning near the step has the probability that the values give it, each from the level before or the level
    after, an outlier as if it lay at the nearer of both.
    """
    first, last = max(1, point.index - RECENT_VALUES), min(logs.size, point.index + MARGIN + 1)
    moved = np.clip((logs[first:last] - point.before) / (point.after - point.before), 0.0, 1.0)
    sigma = scatter(logs[: point.index])
    loud = ((point.after - point.before) / sigma) ** 2
    telling = np.cumsum(((moved - 0.5) * loud)[::-1])[::-1]  # that all from here on have moved
    begun = np.cumsum(np.exp(telling - telling.max()))  # by here, but for a factor
    after, bad = np.searchsorted(begun, begun[-1] * np.array([1 - SURE, SURE])).tolist()
    return first + after - 1, first + bad


def scatter(logs: FloatArray) -> float:
    """Return the sigma of the newest of some log values, or what is assumed where there are too few."""
    newest = logs[-RECENT_VALUES:]
    return float(difference_sigma(newest)) if newest.size >= FEWEST_TELLING else BETWEEN_SESSIONS


def candidates_of(identity: Identity, observations: Iterable[Observation], line: Sequence[str]) -> tuple[str, ...]:
    """Return the commits after the first of some observations, up to the last, that can have moved a series.

    Between two observations of equal code there is none, whatever was committed and taken back.
    """
    commits: list[str] = []
    for before, after in pairwise(observations):
        if not (identity.is_control or is_same_code(before.code, after.code)):
            commits += line[before.position + 1 : after.position + 1]
    return tuple(commits)
