"""Decide whether a series changed between two commits: the one place that every page asks.

A series is a sequence of levels. A level ends where the detector sees a step, or where the newest values of a short or
young level show one that survives the control of false discoveries over all series. A change between two commits is the
product of the steps between them, so all pages show one number for one event.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, cached_property, partial
from itertools import chain, islice, pairwise
from typing import NamedTuple

import numpy as np
from scipy import special

from kernel_velocity import forking
from kernel_velocity.harness.cases import CONTROLS, NATIVE
from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.results import sessions
from kernel_velocity.results.lines import stem
from kernel_velocity.results.measurement import Measurement, SeriesKey
from kernel_velocity.results.records import name_parts
from kernel_velocity.series import change_points, controls
from kernel_velocity.series.change_points import Logs
from kernel_velocity.series.columns import Columns, Indices, Truth
from kernel_velocity.series.controls import Shared
from kernel_velocity.series.past import Past
from kernel_velocity.stats.changepoints import young
from kernel_velocity.stats.changepoints.detector import MARGIN
from kernel_velocity.stats.changepoints.doubt import beyond_doubt
from kernel_velocity.stats.changepoints.noise import median
from kernel_velocity.stats.changepoints.values import INTERVAL, MIN_EFFECT, ChangePoint, Points
from kernel_velocity.stats.changepoints.young import LONGER, SHORTER, Level, Noise, Pool
from kernel_velocity.stats.growth import grown
from kernel_velocity.stats.two_samples import controlled

FALSE_DISCOVERIES = 0.01  # expected share among the steps of newest values (Benjamini and Hochberg, 1995)
DOUBTED = 1e-3  # p of a newest step that is not accepted, from which on a series is undecided
MOST_WITHIN = 0.5  # of what is called unchanged: where only larger changes would have been seen, nothing is decided
YOUNG = 20  # values since a step of the detector: of more, only the newest may show a step that it did not see
MOST_TELLING = 256  # series of a platform that tell what is typical: more only cost time


class Word(StrEnum):
    """What a series did between two commits."""

    SLOWER = "slower"
    FASTER = "faster"
    UNCHANGED = "unchanged"
    UNDECIDED = "undecided"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A series between two commits. Ratios are of times, new / old."""

    word: Word
    ratio: float = 1.0  # of the levels
    low: float = math.nan  # 95% interval of the ratio
    high: float = math.nan
    within: float = math.nan  # of an unchanged series: the least change that would have been seen, .01 being 1%

    @property
    def is_change(self) -> bool:
        """Whether the series became slower or faster."""
        return self.word in (Word.SLOWER, Word.FASTER)


class Untested(NamedTuple):
    """Values of a series that one method timed, whose ends the detector cannot judge."""

    entries: Indices  # of the columns, ascending
    level: Level


@dataclass(frozen=True, kw_only=True)
class Levels:
    """The levels of a series."""

    points: tuple[ChangePoint, ...]  # the steps between them, oldest first; indices are entries of the columns
    is_measured: Truth  # which entries have a time
    noises: tuple[Noise | None, ...]  # of the values of each level, one more than there are steps
    doubt: ChangePoint | None  # a step of the newest values that may be chance
    p: float  # of a test that sees a step of the newest values

    def between(self, old: int, new: int) -> Verdict:
        """Return what the series did from one entry to a later one."""
        steps = [point for point in self.points if old < point.index <= new]
        counted = [point for point in steps if point.is_blamed]
        effect = sum(point.after - point.before for point in counted)
        if abs(effect) >= MIN_EFFECT:
            return _change(effect, math.hypot(*(math.log(point.high / point.low) / 2 for point in counted)))
        doubted = self.doubt is not None and old < self.doubt.index <= new
        within = self._least(old)
        if doubted or len(steps) > len(counted) or not within <= MOST_WITHIN:
            return Verdict(word=Word.UNDECIDED)
        return Verdict(word=Word.UNCHANGED, within=within)

    def _least(self, old: int) -> float:
        """Return the least change after an entry that would have been seen. NaN where nothing tells the scatter."""
        number = sum(point.index <= old for point in self.points)
        if self.noises[number] is None:
            return math.nan
        start, end = self._bounds[number]
        here = int(np.count_nonzero(self.is_measured[: old + 1]))
        return self.within[number][max(min(here - start, end - here, SHORTER), 1) - 1]

    @cached_property
    def _bounds(self) -> list[tuple[int, int]]:
        """The first time of each level and the first one after it, counted among the times."""
        cuts = [int(np.count_nonzero(self.is_measured[: point.index])) for point in self.points]
        return list(pairwise([0, *cuts, int(np.count_nonzero(self.is_measured))]))

    @cached_property
    def within(self) -> tuple[tuple[float, ...], ...]:
        """For each level, the least steps that would be seen of 1 to SHORTER values on the shorter side, .01 being 1%.

        () where nothing tells the scatter.
        """
        return tuple(
            ()
            if noise is None
            else tuple(
                math.expm1(noise.least((max(min(end - start, LONGER), 1), size), self.p))
                for size in range(1, SHORTER + 1)
            )
            for noise, (start, end) in zip(self.noises, self._bounds, strict=True)
        )


@dataclass(frozen=True, eq=False)
class Verdicts:
    """The levels of all series of a past, which are found when the first is asked for."""

    past: Past
    _shared: dict[tuple[str, str, str], Shared] = field(default_factory=dict, init=False, repr=False)

    def __getitem__(self, key: SeriesKey) -> Levels:
        """Return the levels of one of the past's `keys`."""
        return self._levels[key]

    def __len__(self) -> int:
        """How many series there are."""
        return len(self._levels)

    def __contains__(self, key: SeriesKey) -> bool:
        """Return whether a series is one of the past's `keys`."""
        return key in self._levels

    def shared(self, key: SeriesKey) -> Shared:
        """Return what the controls share that were measured where a series was."""
        platform = controls.platform_of(key)
        if platform not in self._shared:
            self._shared[platform] = controls.shared(self.past.layout, self.past.names.texts, platform)
        return self._shared[platform]

    def beside(self, values: Sequence[tuple[SeriesKey, int, Measurement]]) -> dict[SeriesKey, Verdict]:
        """Return what values beside the first-parent line are against entries of their series.

        Each is tested against the newest level up to the entry, with control of false discoveries over all.
        """
        tests: dict[SeriesKey, tuple[float, float, float]] = {}  # effect, its standard error, degrees of freedom
        verdicts = {key: Verdict(word=Word.UNDECIDED) for key, _, _ in values}
        for key, entry, value in values:
            levels, logs = self[key], change_points.logs(self.past.columns(key)).values
            earlier = [point.index for point in levels.points if point.index <= entry]
            noise, begin = levels.noises[len(earlier)], max(earlier, default=0)
            level = logs[begin : entry + 1]
            level = level[~np.isnan(level)][-LONGER:]
            seconds = value.seconds if value.adjusted is None else value.adjusted.seconds
            if noise is not None and level.size and seconds is not None and seconds > 0:  # else it has no logarithm
                effect, error = math.log(seconds) - float(np.median(level)), noise.error((level.size, 1))
                tests[key] = effect, error, noise.freedom
        ps = [2 * float(special.stdtr(freedom, -abs(effect) / error)) for effect, error, freedom in tests.values()]
        adjusted = controlled(ps)
        for (key, (effect, error, freedom)), p in zip(tests.items(), adjusted, strict=True):
            half = float(special.stdtrit(freedom, INTERVAL)) * error
            if p <= FALSE_DISCOVERIES and abs(effect) >= MIN_EFFECT:
                verdicts[key] = _change(effect, half)
            elif abs(effect) < max(half, MIN_EFFECT):
                verdicts[key] = Verdict(word=Word.UNCHANGED, within=math.expm1(max(2 * half, MIN_EFFECT)))
        return verdicts

    @cached_property
    def _levels(self) -> Mapping[SeriesKey, Levels]:
        past = self.past
        keys, columns = past.keys, [past.columns(key) for key in past.keys]  # before there are two processes
        settled = change_points.of_all(keys, past.columns, past.folder)
        ends = [*chain(*forking.in_halves(partial(_ends, settled), columns))]
        by_platform = dict(_pools(dict(zip(keys, (newest for _, newest in ends), strict=True))))
        pools = [by_platform[controls.platform_of(key)] for key in keys]
        untested = [
            (key, values._replace(level=values.level._replace(others=pool)))
            for key, values_of_both, pool in zip(keys, ends, pools, strict=True)
            for values in values_of_both
            if values is not None
        ]
        steps = young.steps([level for _, (_, level) in untested])
        tests = [point.p for points in steps for point in points]
        adjusted = iter(controlled([*tests, *[1.0] * max(len(steps) - len(tests), 0)]))
        sure, doubts = {key: [*settled[key]] for key in keys}, dict[SeriesKey, ChangePoint]()
        for (key, values), points in zip(untested, steps, strict=True):
            for point in points:
                in_columns = replace(point, index=int(values.entries[point.index]))
                if next(adjusted) <= FALSE_DISCOVERIES:
                    sure[key].append(in_columns)
                elif point.p < DOUBTED:
                    doubts[key] = in_columns
        for key in keys:
            self.shared(key)  # before there are two processes
        series = [*zip(columns, map(tuple, sure.values()), pools, strict=True)]
        judged = chain(*forking.in_halves(self._judged, series))
        return {
            part.key: Levels(
                points=points,
                is_measured=part.is_measured,
                noises=scatter,
                doubt=doubts.get(part.key),
                p=FALSE_DISCOVERIES / len(series) / (2 * SHORTER),
            )
            for part, (points, scatter) in zip(columns, judged, strict=True)
        }

    def _judged(
        self, series: Sequence[tuple[Columns, Points, Pool | None]]
    ) -> list[tuple[Points, tuple[Noise | None, ...]]]:
        """Return the steps of series without the machine's part, and the scatter of each level."""
        columns, _, pools = zip(*series, strict=True)
        points = [self._points(part, steps) for part, steps, _ in series]
        return [*zip(points, _noises(columns, points, pools), strict=True)]

    def _points(self, columns: Columns, points: tuple[ChangePoint, ...]) -> tuple[ChangePoint, ...]:
        """Return steps without the machine's part, at the commits that can have caused them."""
        if not points:
            return points
        if columns.link_error is not None:
            logs = change_points.logs(columns).values
            points = tuple(beyond_doubt(logs, columns.link_error, sorted(points, key=lambda point: point.index)))
        remaining = controls.without_machine(columns, points, self.shared(columns.key))
        moved = (self._by_code(columns, point) for point in remaining)
        return tuple(sorted(moved, key=lambda point: point.index))

    def _by_code(self, columns: Columns, point: ChangePoint) -> ChangePoint:
        """Return a step at the nearest commit that changed the kernel's machine code, where that is known.

        The detector knows the position of a step to within MARGIN values.
        """
        if columns.key.implementation != NATIVE:
            return point
        measured = np.flatnonzero(columns.is_measured)
        at = int(np.searchsorted(measured, point.index))
        near = measured[max(at - MARGIN - 1, 0) : at + MARGIN + 1].tolist()
        codes = [self._code(columns, entry) for entry in near]
        position = near.index(point.index)
        if None in codes[max(position - 1, 0) : position + 1] or position == 0:
            return point
        changed = [n for n in range(1, len(codes)) if None not in codes[n - 1 : n + 1] and codes[n] != codes[n - 1]]
        if not changed:
            return replace(point, is_same_code=True)
        return replace(point, index=near[min(changed, key=lambda n: abs(n - position))])

    def _code(self, columns: Columns, entry: int) -> str | None:
        """Return the hash of the kernel's machine code at an entry. None where it was not recorded."""
        key, sha = columns.key, self.past.line[columns.position[entry]]
        session = sessions.at(self.past.sessions_of(f"{key.machine}/{stem(sha, key.environment)}.json"), None)
        return None if session is None else session.code.get(name_parts(key.benchmark).kernel)


def _change(effect: float, half: float) -> Verdict:
    """Return a change of the log of a value, with half of its interval, as a verdict."""
    ratio, low, high = (math.exp(effect + side) for side in (0.0, -half, half))
    return Verdict(word=Word.SLOWER if effect > 0 else Word.FASTER, ratio=ratio, low=low, high=high)


def _noises(
    series: Sequence[Columns], points: Sequence[Sequence[ChangePoint]], pools: Sequence[Pool | None]
) -> Iterator[tuple[Noise | None, ...]]:
    """Yield the scatter of each level of each series.

    It comes from a basis that grows in steps, so that a new commit changes few pages.
    """
    levels = list[Level]()
    for columns, steps, pool in zip(series, points, pools, strict=True):
        logs = change_points.logs(columns).values
        entries = np.flatnonzero(~np.isnan(logs))
        bounds = np.searchsorted(entries, [0, *(point.index for point in steps), len(logs)]).tolist()
        for start, end in pairwise(bounds):
            basis = entries[start : start + grown(end - start)][-LONGER:]
            levels.append(Level(logs[basis], pool, _error_of_rounds(columns, basis)))
    noises = iter(young.noises(levels))
    for steps in points:
        yield tuple(islice(noises, len(steps) + 1))


def _ends(settled: Mapping[SeriesKey, Points], series: Sequence[Columns]) -> list[tuple[Untested | None, Untested]]:
    """Return the first and the newest values of series, which the detector cannot judge."""
    ends = list[tuple[Untested | None, Untested]]()
    for columns in series:
        points, logs = settled[columns.key], change_points.logs(columns)
        newest = _newest(columns, logs, points)
        ends.append((_oldest(columns, logs, points, newest), newest))
    return ends


def _newest(columns: Columns, logs: Logs, settled: Sequence[ChangePoint]) -> Untested:
    """Return the values since the last settled change point that the newest method timed."""
    values, method = logs
    begin = settled[-1].index if settled else 0
    entries = np.flatnonzero(~np.isnan(values[begin:])) + begin
    entries = entries[method[entries] == method[entries[-1]]] if entries.size else entries
    begins = entries.size <= (YOUNG if settled else LONGER + SHORTER)
    entries = entries[-(LONGER + SHORTER) :]
    return Untested(entries, Level(values[entries], None, _error_of_rounds(columns, entries), begins=begins))


def _oldest(columns: Columns, logs: Logs, settled: Sequence[ChangePoint], newest: Untested) -> Untested | None:
    """Return the first values, up to the first settled change point, that the first method timed.

    None where they are among the newest.
    """
    values, method = logs
    entries = np.flatnonzero(~np.isnan(values[: settled[0].index if settled else None]))
    if not entries.size or entries[0] in newest.entries:
        return None
    entries = entries[method[entries] == method[entries[0]]][: LONGER + SHORTER]
    return Untested(entries, Level(values[entries], None, _error_of_rounds(columns, entries), ends=False))


def _error_of_rounds(columns: Columns, entries: Indices) -> float:
    is_adjusted = ~np.isnan(columns.adjusted_low[entries])
    low = np.where(is_adjusted, columns.adjusted_low[entries], columns.low[entries])
    high = np.where(is_adjusted, columns.adjusted_high[entries], columns.high[entries])
    rounds = columns.rounds[entries]
    is_usable = (rounds > 1) & (low > 0) & np.isfinite(high)
    if not is_usable.any():
        return math.nan
    return median(np.log(high[is_usable] / low[is_usable]) / 2 / _quantiles(int(rounds.max()))[rounds[is_usable]])


@cache
def _quantiles(most: int) -> FloatArray:
    """Return the quantile of Student's t of an interval from 0, 1, ... `most` rounds. NaN where there is none."""
    return np.asarray(special.stdtrit(np.arange(most + 1) - 1.0, INTERVAL))


def _pools(newest: Mapping[SeriesKey, Untested]) -> Iterator[tuple[tuple[str, str, str], Pool | None]]:
    """Yield what is typical of each platform (`controls.platform_of`): of its controls, else of all its series."""
    by_platform: dict[tuple[str, str, str], list[SeriesKey]] = {}
    for key in newest:
        by_platform.setdefault(controls.platform_of(key), []).append(key)
    for platform, keys in by_platform.items():
        telling = [key for key in keys if key.implementation in CONTROLS]
        used = telling or keys
        some = used[:: len(used) // MOST_TELLING + 1]
        yield platform, young.pool([newest[key].level.logs for key in some], are_controls=bool(telling))


def of_step(point: ChangePoint) -> Verdict:
    """Return a single step as a verdict."""
    word = Word.SLOWER if point.rises else Word.FASTER
    return Verdict(word=word, ratio=point.ratio, low=point.low, high=point.high)


def named(verdicts: Iterable[Verdict]) -> dict[Word, int]:
    """Return how many verdicts there are of each word."""
    counts = dict.fromkeys(Word, 0)
    for verdict in verdicts:
        counts[verdict.word] += 1
    return counts
