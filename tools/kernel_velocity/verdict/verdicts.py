"""Decide whether a series changed between two commits: the one place that every page asks.

A series is a sequence of levels. A level ends where the detector sees a step, or where the newest values of a short or
young level show one that survives the control of false discoveries over all series. A change between two commits is the
product of the steps between them, so all pages show one number for one event.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, partial
from itertools import chain, islice, pairwise

import numpy as np

from kernel_velocity import forking
from kernel_velocity.names import CONTROLS, NATIVE
from kernel_velocity.past.columns import Columns, Truth
from kernel_velocity.past.past import Past
from kernel_velocity.results import sessions
from kernel_velocity.results.lines import stem
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.results.records import name_parts
from kernel_velocity.stats.adjust import grown
from kernel_velocity.stats.changepoints import young
from kernel_velocity.stats.changepoints.detector import beyond_doubt
from kernel_velocity.stats.changepoints.values import MIN_EFFECT, ChangePoint, Points
from kernel_velocity.stats.changepoints.young import LONGER, SHORTER, Level, Noise, Pool
from kernel_velocity.verdict import change_points, controls, moves
from kernel_velocity.verdict.controls import SharedParts
from kernel_velocity.verdict.moves import Ends

DOUBTED = 1e-3  # p of a newest step that is not accepted, from which on a series is undecided
MOST_WITHIN = 0.5  # of what is called unchanged: where only larger changes would have been seen, nothing is decided


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

    def __getitem__(self, key: SeriesKey) -> Levels:
        """Return the levels of one of the past's `keys`."""
        return self._levels[key]

    def __len__(self) -> int:
        """How many series there are."""
        return len(self._levels)

    def __contains__(self, key: SeriesKey) -> bool:
        """Return whether a series is one of the past's `keys`."""
        return key in self._levels

    @cached_property
    def shared(self) -> SharedParts:
        """What the controls share where a series was measured."""
        return SharedParts(self.past)

    @cached_property
    def _levels(self) -> Mapping[SeriesKey, Levels]:
        past = self.past
        keys, columns = past.keys, [past.columns(key) for key in past.keys]  # before there are two processes
        settled = change_points.of_all(keys, past.columns, past.folder)
        ends = [*chain(*forking.in_halves(partial(_ends, settled), columns))]
        platforms = [controls.platform_of(key) for key in keys]
        by_platform = moves.pools(platforms, [key.implementation in CONTROLS for key in keys], ends)
        pools = [by_platform[platform] for platform in platforms]
        steps = moves.steps([settled[key] for key in keys], ends, pools, DOUBTED)
        for key in keys:
            self.shared[key]  # before there are two processes
        series = [*zip(columns, (some.sure for some in steps), pools, strict=True)]
        judged = chain(*forking.in_halves(self._judged, series))
        return {
            part.key: Levels(
                points=points,
                is_measured=part.is_measured,
                noises=scatter,
                doubt=some.doubted[-1] if some.doubted else None,
                p=moves.FALSE_DISCOVERIES / len(series) / (2 * SHORTER),
            )
            for part, some, (points, scatter) in zip(columns, steps, judged, strict=True)
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
        logs, common = change_points.logs(columns), self.shared[columns.key]
        if columns.link_error is not None:
            points = tuple(beyond_doubt(logs.values, columns.link_error, points))
        machine = controls.left_in(columns, common)
        code = partial(self._code, columns) if columns.key.implementation == NATIVE else None
        remaining = (point for point in moves.attributed(logs, machine, points, code) if point is not None)
        return tuple(sorted(remaining, key=lambda point: point.index))

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
            levels.append(Level(logs[basis], pool, moves.error_of(change_points.errors(columns, basis))))
    noises = iter(young.noises(levels))
    for steps in points:
        yield tuple(islice(noises, len(steps) + 1))


def _ends(settled: Mapping[SeriesKey, Points], series: Sequence[Columns]) -> list[Ends]:
    """Return the values of series that the detector cannot judge."""
    return [
        moves.ends(change_points.logs(part), partial(change_points.errors, part), settled[part.key]) for part in series
    ]


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
