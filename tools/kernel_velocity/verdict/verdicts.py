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
from functools import cached_property, partial
from itertools import chain, islice, pairwise, repeat
from typing import NamedTuple

import numpy as np

from kernel_velocity import direction, forking, units
from kernel_velocity.direction import Better
from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.names import CONTROLS, NATIVE
from kernel_velocity.past.columns import Columns, Indices
from kernel_velocity.past.past import Past
from kernel_velocity.results import sessions
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.results.records import name_parts
from kernel_velocity.stats.adjust import grown
from kernel_velocity.stats.changepoints import search
from kernel_velocity.stats.changepoints.noise import median
from kernel_velocity.stats.changepoints.search import LONGER, MOST_TRIED, Level, Noise, beyond_doubt
from kernel_velocity.stats.changepoints.values import MIN_EFFECT, ChangePoint, Points
from kernel_velocity.verdict import change_points, controls, events, moves, ranges, unsteady
from kernel_velocity.verdict.change_points import Logs, Settled
from kernel_velocity.verdict.controls import SharedParts
from kernel_velocity.verdict.events import Rest
from kernel_velocity.verdict.moves import Searched, Steps
from kernel_velocity.verdict.ranges import CommitRange

DOUBTED = 1e-3  # p of a newest step that is not accepted, from which on a series is undecided
CONSTANT = 3  # equal values in a row: a count that does not scatter
SIZES = 5  # values after a change: of more, what is unchanged is said to be so within as much as of these
MOST_WITHIN = 0.5  # of what is called unchanged: where only larger changes would have been seen, nothing is decided


class Word(StrEnum):
    """What a series did between two commits."""

    SLOWER = "slower"  # worse: less of a rate, more memory
    FASTER = "faster"
    HIGHER = "higher"  # neither direction is better
    LOWER = "lower"
    UNCHANGED = "unchanged"
    UNDECIDED = "undecided"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A series between two commits. Ratios are of values, new / old."""

    word: Word
    ratio: float = 1.0  # of the levels; NaN between `ends`
    low: float = math.nan  # 95% interval of the ratio
    high: float = math.nan
    within: float = math.nan  # of an unchanged series: the least change that would have been seen, .01 being 1%
    ends: tuple[float, float] | None = None  # the old and the new value, where 0 or less has no ratio

    @property
    def effect(self) -> float:
        """The change of the logarithm of the value. Infinite where it has no ratio."""
        return math.log(self.ratio) if self.ends is None else math.copysign(math.inf, self.ends[1] - self.ends[0])

    @property
    def is_change(self) -> bool:
        """Whether the series became slower or faster, higher or lower."""
        return self.word not in (Word.UNCHANGED, Word.UNDECIDED)


UNDECIDED = Verdict(word=Word.UNDECIDED)


@dataclass(frozen=True, kw_only=True)
class Change:
    """An event of a series (verdict/events.py): a change, and what ended it."""

    point: ChangePoint
    commits: CommitRange  # that can have caused it
    end: ChangePoint | None = None  # the step that ended it; None: it lasts
    end_commits: CommitRange | None = None
    is_back: bool = False  # whether the level after the end is the one before the change
    values: int = 0  # from its first one to the last before its end


@dataclass(frozen=True, kw_only=True)
class Levels:
    """The levels of a series."""

    points: Points  # the steps between them, oldest first; indices are entries of the columns
    values: FloatArray  # shape (commits,), NaN where there is none
    within: tuple[tuple[float, ...], ...]  # of each level (`Unseen`), one more than there are steps
    visits: Mapping[int, float] = field(default_factory=dict)  # of `Unseen`
    doubt: ChangePoint | None  # a step of the newest values that may be chance
    ranges: tuple[CommitRange, ...] = ()  # of the steps: the commits that can have caused each
    better: Better = Better.LOWER  # which of its values are

    def between(self, old: int, new: int) -> Verdict:
        """Return what the series did from one entry to a later one."""
        steps = [number for number, point in enumerate(self.points) if old < point.index <= new]
        counted = [number for number in steps if self.points[number].is_blamed]
        rest = events.rest(self.points, self.sizes, counted)
        # A single step stands by its own test
        if abs(rest.effect) >= MIN_EFFECT and (len(counted) == 1 or not rest.is_nothing):
            return self._change(rest, self.points[counted[0]].before, self.points[counted[-1]].after)
        zeros = self.values[old] == 0, self.values[new] == 0
        if any(zeros):
            is_constant = self._zeros(new) >= CONSTANT and (bool(counted) or not self.values[old : new + 1].any())
            return Verdict(word=Word.UNCHANGED if all(zeros) and is_constant else Word.UNDECIDED)
        doubted = self.doubt is not None and old < self.doubt.index <= new
        within = self._least(old, new)
        if counted and not math.isnan(within):
            within = max(within, math.expm1(min(abs(rest.effect) + rest.half, 1.0)))
        if doubted or len(steps) > len(counted) or not within <= MOST_WITHIN:
            return UNDECIDED
        return Verdict(word=Word.UNCHANGED, within=within)

    def _change(self, rest: Rest, before: float, after: float) -> Verdict:
        word = _word(rest.effect, self.better)
        if math.isinf(rest.effect):
            return Verdict(word=word, ratio=math.nan, ends=(math.exp(before), math.exp(after)))
        ratio, low, high = (math.exp(rest.effect + side) for side in (0.0, -rest.half, rest.half))
        return Verdict(word=word, ratio=ratio, low=low, high=high)

    def _zeros(self, entry: int) -> int:
        """Return how many values up to an entry are 0 in a row."""
        values = self.values[: entry + 1]
        others = np.flatnonzero(values[~np.isnan(values)][::-1])
        return int(others[0]) if others.size else int(np.count_nonzero(~np.isnan(values)))

    def _least(self, old: int, new: int) -> float:
        """Return the least change at any place between two entries that would have been seen. NaN: nothing tells.

        The first of these places has the fewest values before it, the last one the fewest after it: the newer entry's,
        and those of its level since. A change that one of both commits alone has is told by its value.
        """
        least = [self.visits.get(old, 0.0), self.visits.get(new, 0.0)]
        for entry, is_new in ((old, False), (new, True)):
            number = sum(point.index <= entry for point in self.points)
            start, end = self._bounds[number]
            here = int(self._counts[entry + 1])
            size = end - here + 1 if is_new else here - start
            least.append(self.within[number][max(min(size, SIZES), 1) - 1] if self.within[number] else math.nan)
        return math.nan if any(map(math.isnan, least)) else max(least)

    @cached_property
    def _bounds(self) -> list[tuple[int, int]]:
        """The first value of each level and the first one after it, counted among the values."""
        cuts = self._counts[[point.index for point in self.points]].tolist() if self.points else []
        return list(pairwise([0, *cuts, int(self._counts[-1])]))

    @cached_property
    def _counts(self) -> Indices:
        """How many values come before each entry, and how many there are."""
        return np.concatenate([[0], (~np.isnan(self.values)).cumsum()])

    @cached_property
    def sizes(self) -> list[int]:
        """How many values each level has, at least 1: of another timing method there may be none."""
        return [max(end - start, 1) for start, end in self._bounds]

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """Its changes that a commit can have caused, oldest first, each with its end."""
        return tuple(
            Change(
                point=self.points[event.first],
                commits=self.ranges[event.first],
                end=None if event.last is None else self.points[event.last],
                end_commits=None if event.last is None else self.ranges[event.last],
                is_back=event.is_back,
                values=sum(self.sizes[event.first + 1 : None if event.last is None else event.last + 1]),
            )
            for event in events.of_series(self.points, self.sizes)
        )


@dataclass(frozen=True, eq=False)
class Verdicts:
    """The levels of all series of a past, which are found when the first is asked for."""

    past: Past
    # By series, and whether its values rose: commits that a re-measurement in turns found guilty
    confirmed: Mapping[tuple[SeriesKey, bool], frozenset[str]] = field(default_factory=dict)

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
        # Before there are two processes: what controls share is found, too
        columns = controls.fitted([past.columns(key) for key in past.keys], self.shared.__getitem__)
        by_key = {part.key: part for part in columns}
        settled = change_points.of_all(past.keys, by_key.__getitem__, past.folder)
        errors = [change_points.errors(part) for part in columns]
        steps, pools = tested(columns, errors, settled)
        series = [*zip(columns, errors, (some.sure for some in steps), pools, strict=True)]
        if any(some.sure for some in steps):
            _ = past.side_commits, past.idle  # before there are two processes
        judged = [*chain(*forking.in_halves(partial(self._judged, p=least_p(len(series))), series))]
        steady = [points for points, *_ in judged]
        marked = [
            tuple(self._lifted(*row) for row in zip(repeat(part), points, marks, causes, strict=False))
            for part, points, marks, (_, causes, _) in zip(
                columns, steady, unsteady.marked(columns, steady, self.shared.__getitem__), judged, strict=True
            )
        ]
        steps_of = [
            (part.key, points, causes) for part, points, (_, causes, _) in zip(columns, marked, judged, strict=True)
        ]
        agreed = self._agreed(steps_of)
        return {
            part.key: Levels(
                points=controls.raised(part, points),
                values=part.seconds,
                within=unseen.within,
                visits=unseen.visits,
                doubt=some.doubted[-1] if some.doubted else None,
                ranges=tuple(islice(agreed, len(points))),
                better=part.better,
            )
            for part, some, points, (*_, unseen) in zip(columns, steps, marked, judged, strict=True)
        }

    def _lifted(self, columns: Columns, point: ChangePoint, mark: ChangePoint, causes: CommitRange) -> ChangePoint:
        """Return a step as it is marked, or as it was before where a re-measurement confirmed it."""
        confirmed = self.confirmed.get((columns.key, point.rises), frozenset())
        return mark if confirmed.isdisjoint((*causes.commits, self.past.line[columns.position[point.index]])) else point

    def _agreed(self, series: Iterable[tuple[SeriesKey, Points, Sequence[CommitRange]]]) -> Iterator[CommitRange]:
        """Return the ranges of all steps in order: one test case's of all machines narrow each other."""
        steps = [
            ((case, point.rises, point.is_blamed), key, commits)
            for key, points, causes in series
            if points
            for case in [replace(key, machine="", environment="")]
            for point, commits in zip(points, causes, strict=True)
        ]
        return iter(ranges.agreed(steps, self.past.order))

    def _judged(
        self, series: Sequence[tuple[Columns, FloatArray, Points, Noise | None]], *, p: float
    ) -> list[tuple[Points, tuple[CommitRange, ...], Unseen]]:
        """Return the steps of series without the machine's part, their possible causes, and what stays unseen."""
        columns, errors, _, pools = zip(*series, strict=True)
        blamed = [self._with_zeros(part, self._points(part, steps)) for part, _, steps, _ in series]
        points = [tuple(point for point, _ in several) for several in blamed]
        causes = (tuple(commits for _, commits in several) for several in blamed)
        return [*zip(points, causes, unseen(columns, errors, points, pools, p), strict=True)]

    def _points(self, columns: Columns, points: tuple[ChangePoint, ...]) -> list[tuple[ChangePoint, CommitRange]]:
        """Return steps without the machine's part, at the commits that can have caused them, and those commits."""
        if not points:
            return []
        logs, common = change_points.logs(columns), self.shared[columns.key]
        if columns.link_error is not None:
            points = tuple(beyond_doubt(logs.values, columns.link_error, points))
        machine = controls.left_in(columns, common)
        code = partial(self._code, columns) if columns.key.implementation == NATIVE else None
        remaining = moves.attributed(logs, machine, points, code)
        alike = _alike(logs)
        return [
            self._ranged(columns, alike[logs.method[point.index]], points[max(number - 1, 0) : number + 2], point, left)
            for number, (point, left) in enumerate(zip(points, remaining, strict=True))
            if left is not None
        ]

    def _with_zeros(
        self, columns: Columns, steps: Sequence[tuple[ChangePoint, CommitRange]]
    ) -> list[tuple[ChangePoint, CommitRange]]:
        """Return steps with those from 0 and to 0, and the commits that can have caused each, oldest first."""
        result, is_control = [*steps], columns.key.implementation in CONTROLS
        for point, before in zero_steps(columns, [point.index for point, _ in steps]):
            ends = [
                ranges.Value(int(columns.position[entry]), None if is_control else self._code(columns, entry))
                for entry in (before, point.index)
            ]
            causes = self.line.between(ends)
            whole = replace(point, is_same_code=is_control or not causes.commits), causes
            # A detector's step there leaps over the values of 0
            result = [*(pair for pair in result if pair[0].index != point.index), whole]
        return sorted(result, key=lambda pair: pair[0].index)

    def _ranged(
        self, columns: Columns, alike: tuple[Indices, FloatArray], near: Points, point: ChangePoint, left: ChangePoint
    ) -> tuple[ChangePoint, CommitRange]:
        """Return what the machine leaves of a step, with the commits that can have caused it.

        Args:
            alike: the entries that the step's method timed, and their log values. near: the step with the ones before
                and after it.
        """
        measured, values = alike
        at, after = np.searchsorted(measured, [point.index, left.index]).tolist()
        edges = np.searchsorted(measured, [other.index for other in near if other is not point]).tolist()
        first = max((edge for edge in edges if edge < at), default=0)
        last = min((edge for edge in edges if edge > at), default=values.size)
        good, bad = ranges.began(values, point, at, first, last)
        good, bad = min(good, after - 1), max(bad, after)
        is_control = columns.key.implementation in CONTROLS
        entries = [
            ranges.Value(int(columns.position[entry]), None if is_control else self._code(columns, entry))
            for entry in measured[good : bad + 1].tolist()
        ]
        method = columns.method[point.index]
        name = columns.methods[method] if method >= 0 else None
        beside = [
            ranges.Beside(side, math.log(value) - part)
            for side, other, value, began in self.past.beside(columns.key)
            if other == name and value > 0
            if not math.isnan(part := controls.part_beside(columns, self.shared[columns.key], name, began))
        ]
        causes = self.line.of_step(values[:at], point, entries, beside)
        if is_control or left.is_same_code:
            return left, replace(causes, commits=())
        return left if causes.commits else replace(left, is_same_code=True), causes

    @cached_property
    def line(self) -> ranges.Line:
        """The first-parent line, on which the possible causes of changes are."""
        return ranges.Line(self.past.line, self.past.order, self.past.idle)

    def _code(self, columns: Columns, entry: int) -> str | None:
        """Return the hash of the kernel's machine code at an entry. None where it was not recorded."""
        key, sha = columns.key, self.past.line[columns.position[entry]]
        session = sessions.at(self.past.sessions_of(self.past.path(key.machine, key.environment, sha)), None)
        return None if session is None else session.code.get(name_parts(key.benchmark).kernel)


def _alike(logs: Logs) -> dict[int, tuple[Indices, FloatArray]]:
    """Return the entries with a value that each method timed, ascending, and their log values."""
    by_method = change_points.by_method(logs)
    entries = {method: np.flatnonzero(~np.isnan(values)) for method, values in by_method.items()}
    return {method: (entries[method], values[entries[method]]) for method, values in by_method.items()}


def tested(
    columns: Sequence[Columns], errors: Sequence[FloatArray], settled: Mapping[SeriesKey, Settled]
) -> tuple[list[Steps], list[Noise | None]]:
    """Return the steps of series, those of few values among them, and what is typical of each one's platform.

    Args:
        errors: of the log values of each. settled: what the detector sees.
    """
    searched = [
        Searched(change_points.logs(part), of_rounds, *settled[part.key])
        for part, of_rounds in zip(columns, errors, strict=True)
    ]
    ends = [part.ends for part in searched]
    platforms = [controls.platform_of(part.key) for part in columns]
    by_platform = moves.pools(platforms, [part.key.implementation in CONTROLS for part in columns], ends)
    pools = [by_platform[platform] for platform in platforms]
    older = [*chain(*forking.in_halves(moves.older, [*zip(searched, pools, strict=True)]))]
    ends = moves.with_older(searched, ends, older)
    return moves.steps([settled[part.key].points for part in columns], ends, older, pools, DOUBTED), pools


def _word(effect: float, better: Better) -> Word:
    """Return the word for a change of the logarithm of a value."""
    worse = direction.is_worse(better, effect)
    if worse is None:
        return Word.HIGHER if effect > 0 else Word.LOWER
    return Word.SLOWER if worse else Word.FASTER


class Unseen(NamedTuple):
    """What changes of a series stay unseen, .01 being 1%."""

    within: tuple[tuple[float, ...], ...]  # of each level the least steps seen of 1 to SIZES values; (): nothing tells
    visits: Mapping[int, float]  # entry -> the least change that its commit alone cannot have, where that is more


def least_p(series: int) -> float:
    """Return the p of a test that sees a step of the newest values of one of so many series."""
    return moves.FALSE_DISCOVERIES / series / MOST_TRIED


def unseen(
    series: Sequence[Columns],
    errors: Sequence[FloatArray],
    points: Sequence[Points],
    pools: Sequence[Noise | None],
    p: float,
) -> Iterator[Unseen]:
    """Yield what changes of each series stay unseen by a test of a p.

    The scatter of a level comes from a basis that grows in steps, so that a new commit changes few pages.
    """
    levels, loose = list[Level](), list[_Loose]()
    for columns, of_rounds, steps, pool in zip(series, errors, points, pools, strict=True):
        logs = columns.logs
        for entries in _of_levels(np.flatnonzero(~np.isnan(logs)), steps):
            basis = entries[: grown(entries.size)][-LONGER:]
            levels.append(Level(logs[basis], pool, moves.error_of(of_rounds[basis])))
            loose.append(_Loose.of(logs, entries))
    scatter = search.noises(levels)
    within = [least_steps(noise, level.size, p) for noise, level in zip(scatter, loose, strict=True)]
    visits, sizes = map(_visits, loose, scatter, within), iter(within)
    for steps in points:
        yield Unseen(tuple(islice(sizes, len(steps) + 1)), dict(chain(*islice(visits, len(steps) + 1))))


def _of_levels(measured: Indices, steps: Points) -> list[Indices]:
    """Return the entries of each level, after those of the level before where a change is back: both are one level."""
    cuts = np.searchsorted(measured, [point.index for point in steps]).tolist()
    levels = [measured[first:last] for first, last in pairwise([0, *cuts, measured.size])]
    if len(steps) < 2:  # nearly always: no change is back
        return levels
    for event in events.of_series(steps, [max(level.size, 1) for level in levels]):
        if event.last is not None and event.is_back:
            levels[event.last + 1] = np.concatenate([levels[event.first], levels[event.last + 1]])
    return levels


def least_steps(noise: Noise | None, size: int, p: float) -> tuple[float, ...]:
    """Return the least steps that are seen in a level of so many values, with 1 to SIZES values on the shorter side."""
    if noise is None:
        return ()
    longer = max(min(size, LONGER), 1)
    return tuple(map(math.expm1, noise.least(longer, p, SIZES)))


class _Loose(NamedTuple):
    """The values of a level that are further off its median than what is ever reported."""

    size: int  # values of the level
    entries: Indices
    off: FloatArray  # log units

    @classmethod
    def of(cls, logs: FloatArray, entries: Indices) -> _Loose:
        values = logs[entries]
        off = np.abs(values - median(values)) if values.size else values
        is_loose = off > MIN_EFFECT
        return cls(entries.size, entries[is_loose], off[is_loose])


def _visits(level: _Loose, noise: Noise | None, within: Sequence[float]) -> Iterator[tuple[int, float]]:
    """Yield the entries of a level that are further off than its least step, with the most that each may be off."""
    if noise is not None and level.off.size:
        most = noise.most_off(level.size)
        for entry, off in zip(level.entries.tolist(), level.off.tolist(), strict=True):
            if off > math.log1p(within[-1]):
                yield entry, math.expm1(min(off + most, 1.0))


def zero_steps(columns: Columns, cuts: Sequence[int]) -> Iterator[tuple[ChangePoint, int]]:
    """Yield the steps of a series from 0 and to 0, whose logarithms no detector takes, and the entry before each.

    0 in CONSTANT values in a row is no scatter of other values, nor are they of it. Of fewer before a step nothing is
    said, and of values that differ at once. The newest values may be fewer.

    Args:
        cuts: the entries at which other steps begin, which end a level.
    """
    if not (columns.seconds == 0).any():
        return
    for method in np.unique(columns.method[columns.is_measured]).tolist():
        entries = np.flatnonzero(columns.is_measured & (columns.method == method) & (columns.seconds >= 0))
        is_zero = columns.seconds[entries] == 0
        edges = [0, *(np.flatnonzero(np.diff(is_zero)) + 1).tolist(), entries.size]
        for start, at, end in zip(edges, edges[1:], edges[2:], strict=False):
            if at - start >= CONSTANT and (end - at >= CONSTANT or end == entries.size):
                index = int(entries[at])
                last = np.searchsorted(entries, min((cut for cut in cuts if cut > index), default=len(columns)))
                first = np.searchsorted(entries, max((cut for cut in cuts if cut < index), default=0))
                sides = entries[max(first, start) : at], entries[at : min(last, end)]
                before, after = (_log(float(np.median(columns.seconds[side]))) for side in sides)
                yield (
                    ChangePoint(index=index, before=before, after=after, low=1.0, high=1.0, p=0.0),
                    int(entries[at - 1]),
                )


def _log(value: float) -> float:
    return math.log(value) if value else -math.inf


def of_step(point: ChangePoint, better: Better) -> Verdict:
    """Return a single step of a series, of which these values are better, as a verdict."""
    word = _word(point.after - point.before, better)
    if point.has_zero:
        return Verdict(word=word, ratio=math.nan, ends=(math.exp(point.before), math.exp(point.after)))
    return Verdict(word=word, ratio=point.ratio, low=point.low, high=point.high)


def of_constants(columns: Columns, alike: Indices, old: int, new: int) -> Verdict:
    """Return what a series did between two entries of which one is less than 0, such as a likelihood.

    No level is known of such values. It is certain where the values at both entries are constant.

    Args:
        alike: the entries that can be compared, ascending.
    """
    first = max(int(np.searchsorted(alike, old)) - CONSTANT + 1, 0)
    before = columns.seconds[alike[first : first + CONSTANT]]
    if len(before) < CONSTANT or np.ptp(before):
        return UNDECIDED
    ends = float(before[0]), float(columns.seconds[new])
    since = columns.seconds[alike[(alike > old) & (alike <= new)]]
    if ends[0] == ends[1]:
        return Verdict(word=Word.UNCHANGED)
    if np.ptp(since[since != ends[0]][-CONSTANT:]):
        return UNDECIDED
    return Verdict(word=_word(ends[1] - ends[0], columns.better), ratio=math.nan, ends=ends)


def lasted(change: Change, columns: Columns, line: Sequence[str]) -> str:
    """Return how long a change of a series lasted: "for 8 commits (a..b), back since c". "" of one that lasts.

    The commits are those with a value. A change is over, but not back, where another level than the one before follows.

    Args:
        line: the first-parent line.
    """
    if change.end is None:
        return ""
    measured = columns.position[columns.is_measured]
    first, back = (int(columns.position[point.index]) for point in (change.point, change.end))
    last = int(measured[measured < back][-1])
    noun = "commit" if last - first + 1 == change.values else "measured commit"
    ends = dict.fromkeys(line[position][:SHORT] for position in (first, last))
    over = "back" if change.is_back else "over"
    return f"for {units.count(change.values, noun)} ({'..'.join(ends)}), {over} since {line[back][:SHORT]}"


def named(verdicts: Iterable[Verdict]) -> dict[Word, int]:
    """Return how many verdicts there are of each word."""
    counts = dict.fromkeys(Word, 0)
    for verdict in verdicts:
        counts[verdict.word] += 1
    return counts
