"""What was measured of each commit, with the verdicts against the commit before and the last tag.

As columns: a site has millions of these values, and its pages show a few of each commit, so no value is an object of
its own.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernel_velocity import units
from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.results.measurement import OUTCOMES, IntArray, Measurement, Outcome, SeriesKey
from kernel_velocity.results.records import Benchmark
from kernel_velocity.series.columns import NONE, Columns, Indices, Truth, comparable, comparable_before
from kernel_velocity.series.packing import NO_TEXT
from kernel_velocity.series.verdicts import MOST_WITHIN, Levels, Verdict, Word
from kernel_velocity.site import text
from kernel_velocity.site.model import Site
from kernel_velocity.site.writer import series_name
from kernel_velocity.stats.changepoints.values import MIN_EFFECT, ChangePoint
from kernel_velocity.stats.changepoints.young import SHORTER

NO_TAG = -1  # the position of no commit on the first-parent line
WORDS = (*Word,)  # by number
FIGURES = ("seconds", "low", "high", "adjusted")  # columns of `Values.figures`
BASES = ("before", "tag")  # what values are compared with
MEASURED, NOT_APPLICABLE, FAILED = (
    OUTCOMES.index(outcome) for outcome in (Outcome.MEASURED, Outcome.NOT_APPLICABLE, Outcome.FAILED)
)
Rows = NDArray[np.intp] | Truth | slice
Remark = tuple[str | None, tuple[str, ...]]  # why there is no time, and warnings


@dataclass(frozen=True, kw_only=True, eq=False)
class Series:
    """The series that values are of, and the groups and test cases that they belong to, each in their order."""

    keys: Sequence[SeriesKey]
    flop: FloatArray  # per call, (series,); NaN where unknown
    unit: NDArray[np.str_]  # of `text.unit_of`, (series,)

    @cached_property
    def groups(self) -> tuple[Sequence[tuple[str, str, str]], IntArray]:
        """Machines, environments and benchmarks, and the index of each series' one, (series,)."""
        return _numbered((key.machine, key.environment, key.benchmark) for key in self.keys)

    @cached_property
    def cases(self) -> tuple[Sequence[tuple[str, str, str, str]], IntArray]:
        """The test cases (machine, environment, benchmark, name), and the index of each series' one, (series,)."""
        return _numbered((key.machine, key.environment, key.benchmark, key.case) for key in self.keys)


def _numbered(keys: Iterable[Any]) -> tuple[Sequence[Any], IntArray]:
    numbers: dict[Any, int] = {}
    indices = [numbers.setdefault(key, len(numbers)) for key in keys]
    return tuple(numbers), np.array(indices, np.int32)


@dataclass(frozen=True, kw_only=True, eq=False)
class Against:
    """Results against others. All arrays have shape (results,)."""

    other: IntArray  # index into `Values.others`; NONE where nothing can be compared
    entry: IntArray  # of the other, in its series' columns; NONE likewise
    effect: FloatArray  # log of new time / old time, by the levels of the series; 0 without a step
    word: NDArray[np.uint8]  # index into WORDS; UNDECIDED where nothing can be compared

    @property
    def is_known(self) -> Truth:
        """Which results have something to be compared with."""
        return np.asarray(self.other != NONE)

    @property
    def is_change(self) -> Truth:
        """Which results are slower or faster."""
        return np.asarray((self.word == WORDS.index(Word.SLOWER)) | (self.word == WORDS.index(Word.FASTER)))

    def __getitem__(self, rows: Rows) -> Against:
        """Return some of them."""
        return Against(other=self.other[rows], entry=self.entry[rows], effect=self.effect[rows], word=self.word[rows])


@dataclass(frozen=True, kw_only=True, eq=False)
class Values:
    """Some results of one commit, in the order of the site's series. All arrays have shape (results,) or more."""

    series: Series
    others: Sequence[str]  # the commits that they are compared with
    remark: Callable[[int], Remark]  # of a value, by its slot
    which: NDArray[np.signedinteger]  # index into `series`
    slot: NDArray[np.int64]  # where it lies among all values
    outcome: IntArray  # index into OUTCOMES
    figures: FloatArray  # (results, len(FIGURES)), s per call; NaN where unknown
    entry: IntArray  # of their series' columns; NONE beside the line
    changed: Truth  # slower or faster than before, or there was a time and now is none
    before: Against  # the commit measured before
    tag: Against  # the last tag before
    judge: Callable[[str, SeriesKey, int, int], Verdict]  # of one of BASES, a series, two of its entries

    def __len__(self) -> int:
        """How many."""
        return len(self.which)

    def __getitem__(self, rows: Rows) -> Values:
        """Return some of them, as numpy chooses."""
        columns = ("which", "slot", "entry", "outcome", "figures", "changed", "before", "tag")
        chosen: dict[str, Any] = {name: getattr(self, name)[rows] for name in columns}
        return replace(self, **chosen)

    @property
    def keys(self) -> list[SeriesKey]:
        """Their series."""
        return [self.series.keys[index] for index in self.which.tolist()]

    @property
    def unit(self) -> NDArray[np.str_]:
        """The units that they are shown in, (results,)."""
        return np.asarray(self.series.unit[self.which])

    @property
    def remarks(self) -> list[Remark]:
        """Their remarks."""
        return [self.remark(slot) for slot in self.slot.tolist()]

    def figure(self, name: str) -> FloatArray:
        """Return one of FIGURES."""
        return self.figures[:, FIGURES.index(name)]

    def verdicts(self, base: str) -> list[Verdict | None]:
        """Return the verdicts against one of BASES. None where nothing can be compared."""
        against: Against = getattr(self, base)
        rows = zip(self.keys, against.entry.tolist(), self.entry.tolist(), self.outcome.tolist(), strict=True)
        return [
            self.judge(base, key, old, new) if old != NONE and outcome == MEASURED else None
            for key, old, new, outcome in rows
        ]

    def at(self, machine: str, environment: str) -> Values:
        """Return those of a machine and environment."""
        groups, group = self.series.groups
        here = [names[:2] == (machine, environment) for names in groups]
        return self[np.array(here, np.bool_)[group[self.which]]]

    def without_absent_cases(self) -> Values:
        """Return them without test cases that were n/a for every implementation: nobody asked for those."""
        applicable = self.outcome != NOT_APPLICABLE
        if applicable.all():
            return self
        cases, case = self.series.cases
        is_applicable = np.zeros(len(cases), np.bool_)
        is_applicable[case[self.which[applicable]]] = True
        return self[is_applicable[case[self.which]] | self.changed]

    def against(self) -> frozenset[str]:
        """Return the commits measured before that they are compared with."""
        return frozenset(self.others[index] for index in np.unique(self.before.other).tolist() if index != NONE)

    def counts(self) -> dict[str, int]:
        """Return how many values there are of each verdict, and of each kind without one."""
        measured, absent = self.outcome == MEASURED, self.outcome == NOT_APPLICABLE
        compared = self.before.is_known & measured
        counted = {word.value: compared & (self.before.word == number) for number, word in enumerate(WORDS)}
        counted |= {"without a baseline": measured & ~compared, "failed": ~measured & ~absent, "n/a": absent}
        return {name: int(np.count_nonzero(which)) for name, which in counted.items()}


def summary(values: Values) -> str:
    """Return how many of some values changed, and which way."""
    return ", ".join(f"{number:,} {words}" for words, number in values.counts().items() if number)


def absent(values: Values) -> Iterator[str]:
    """Yield, for values that are n/a, each reason with the test cases that have it."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for key, (reason, _) in zip(values.keys, values.remarks, strict=True):
        series = " ".join(filter(None, (key.benchmark, key.implementation)))
        reasons.setdefault(text.why(Outcome.NOT_APPLICABLE, reason), {}).setdefault(series, []).append(key.case)
    for words, names in reasons.items():
        listed = [f"{name} ({', '.join(cases)})" for name, cases in names.items()]
        yield f"{words}: {'; '.join(listed)}"


def left_out(values: Values, benchmarks: Mapping[str, Benchmark]) -> Iterator[str]:
    """Yield, for each benchmark that has values at a machine, the test cases that have none."""
    cases, case = values.series.cases
    shown: dict[str, set[str]] = {}
    for index in np.unique(case[values.which]).tolist():
        _, _, benchmark, name = cases[index]
        shown.setdefault(benchmark, set()).add(name)
    for benchmark, names in shown.items():
        tracked = benchmarks[benchmark].cases if benchmark in benchmarks else ()
        missing = [name for name in tracked if name not in names]
        if missing:
            yield f"{benchmark}: not measured: {', '.join(missing)}"


def tags_before(site: Site) -> IntArray:
    """Return, for every position on the first-parent line, that of the newest tag before it. NO_TAG where none is."""
    tagged = sorted(site.order[sha] for sha in site.tags)
    indices = np.searchsorted(tagged, np.arange(len(site.line)), side="left") - 1
    return np.where(indices < 0, NO_TAG, np.array([*tagged, NO_TAG])[indices]).astype(np.int32)


# of `Line._turns`: what is added to what is known of a series from a position of the line on: the log of its level,
# steps that may be chance, and whether the scatter is unknown
_TURN = np.dtype([("row", "<i8"), ("position", "<i8"), ("level", "<f8"), ("doubts", "<i8"), ("unknown", "<i8")])


class Line:
    """The values of the commits of the first-parent line."""

    def __init__(self, site: Site) -> None:
        """Take a site."""
        self.site, self.tags = site, tags_before(site)
        self._layout = site.past.layout
        self._numbers = np.array([self._layout.numbers[key] for key in site.keys], np.int64)
        self._which = np.full(len(self._layout.keys), NONE)  # of each series of the layout, the site's one
        self._which[self._numbers] = np.arange(len(site.keys))
        self._newest: tuple[int, Values | None] = NO_TAG, None  # of the last call, as a commit has a page and data
        self._at_tag: tuple[int, Indices] = NO_TAG, np.full(len(site.keys), NONE)

    @cached_property
    def _series(self) -> Series:
        flop = [self.site.past.flop(key) for key in self.site.keys]
        return Series(
            keys=self.site.keys,
            flop=np.array([np.nan if amount is None else amount for amount in flop]),
            unit=np.array([text.unit_of(self.site.series(key)) for key in self.site.keys], np.str_),
        )

    @cached_property
    def files(self) -> Mapping[int, Sequence[str]]:
        """The paths of the results files of each position on the line that has a measurement, ascending."""
        files: dict[int, list[str]] = {self.site.order[sha]: [] for sha in self.site.measured if sha in self.site.order}
        for path, sha in sorted(self.site.past.directory.commits.items()):
            if self.site.order.get(sha) in files:
                files[self.site.order[sha]].append(path)
        return files

    def at(self, position: int) -> Values:
        """Return what was measured of the commit at a position on the line."""
        if self._newest[1] is None or self._newest[0] != position:
            self._newest = position, self._at(position)
        return self._newest[1]  # type: ignore[return-value]

    def _at(self, position: int) -> Values:
        columns = self._layout.columns
        slot = np.concatenate([self._layout.files[path] for path in self.files[position]])
        slot = slot[slot >= 0].astype(np.int64)
        which = self._which[self._layout.owners(slot)]
        order = np.argsort(which)[np.count_nonzero(which == NONE) :]
        slot, which = slot[order], which[order]
        self._layout.scratch.used(len(slot))
        start = self._layout.start[self._numbers[which]]
        before = np.where(slot > start, slot - 1, NONE)
        against = {
            base: self._against(position, which, slot, self._comparable(slot, newest, start))
            for base, newest in zip(BASES, (before, self._upto_tag(position)[which]), strict=True)
        }
        return Values(
            series=self._series,
            others=self.site.line,
            remark=self._remark,
            which=which,
            slot=slot,
            entry=slot - start,
            judge=self._judge,
            outcome=columns["outcome"][slot],
            figures=np.column_stack([columns[name][slot] for name in FIGURES]),
            changed=against["before"].is_change | self._lost(slot, start),
            **against,
        )

    def _upto_tag(self, position: int) -> Indices:
        """Return the slot of each series' newest value up to the last tag before a position. NONE: it has none."""
        tag = int(self.tags[position])
        if self._at_tag[0] != tag:  # else it is that of the commit before
            parts = map(self._layout.part, self._numbers.tolist())
            last = [
                part.start + int(np.searchsorted(self._layout.position[part], tag, side="right")) - 1 for part in parts
            ]
            slots = np.array(last, np.int64)
            self._at_tag = tag, np.where(slots < self._layout.start[self._numbers], NONE, slots)
        return self._at_tag[1]

    def _comparable(self, slot: Indices, newest: Indices, start: Indices) -> Indices:
        """Return the slots of the newest times, up to `newest`, that values can be compared with. NONE: there is none.

        Args:
            slot: of the values, of which only times are compared. start: of their series.
        """
        outcome, method = (self._layout.columns[name] for name in ("outcome", "method"))
        is_wanted = (newest != NONE) & (outcome[slot] == MEASURED)
        base = np.where(is_wanted, newest, slot)  # itself, as a place to look at
        is_alike = is_wanted & (outcome[base] == MEASURED)
        is_alike &= (method[base] == method[slot]) | (method[base] == NO_TEXT) | (method[slot] == NO_TEXT)
        base[~is_alike] = NONE
        for row in np.flatnonzero(is_wanted & ~is_alike).tolist():  # few: a failure, or another method, lies between
            part, wanted = slice(int(start[row]), int(newest[row])), method[slot[row]]
            methods = method[part]
            alike = (outcome[part] == MEASURED) & ((methods == wanted) | (methods == NO_TEXT) | (wanted == NO_TEXT))
            if alike.any():
                base[row] = part.start + np.flatnonzero(alike)[-1]
        return base

    def _against(self, position: int, which: Indices, slot: Indices, base: Indices) -> Against:
        """Return the values of a commit against those at `base`. The others are the line's commits."""
        seconds, levels = self._layout.columns["seconds"], self._levels
        # another suite's may be 0 or less: levels say nothing of them
        is_known = (base != NONE) & (seconds[slot] > 0) & (seconds[base] > 0)
        other = np.where(is_known, self._layout.position[base], NONE)
        first, old, new = (
            levels.turns(which, at) for at in (np.full(len(which), NONE), other, np.full(len(which), position))
        )
        effect = np.where(is_known, levels.level[new] - levels.level[old], 0.0)
        doubted = ~is_known | (levels.unknown[old] > levels.unknown[first]) | (levels.doubts[new] > levels.doubts[old])
        word = np.where(doubted, WORDS.index(Word.UNDECIDED), WORDS.index(Word.UNCHANGED))
        word[effect >= MIN_EFFECT], word[effect <= -MIN_EFFECT] = WORDS.index(Word.SLOWER), WORDS.index(Word.FASTER)
        entry = np.where(is_known, base - self._layout.start[self._numbers[which]], NONE)
        return Against(other=other, entry=entry, effect=effect, word=word.astype(np.uint8))

    def _remark(self, slot: int) -> Remark:
        number = int(self._layout.columns["remark"][slot])
        return (None, ()) if number == NO_TEXT else self.site.past.names.remarks[number]

    @cached_property
    def _levels(self) -> _Levels:
        turns: list[tuple[int, int, float, int, int]] = []
        for row, key in enumerate(self.site.keys):
            levels, position = self.site.levels[key], self.site.series(key).position
            for point in levels.points:
                effect = point.after - point.before if point.is_blamed else 0.0
                turns.append((row, position[point.index], effect, not point.is_blamed, 0))
            if levels.doubt is not None:
                turns.append((row, position[levels.doubt.index], 0.0, 1, 0))
            unknown = [noise is None for noise in levels.noises]
            if any(unknown):
                starts = position[[0, *(point.index for point in levels.points)]].tolist()
                by = np.diff(unknown, prepend=0).tolist()
                turns += [(row, start, 0.0, 0, more) for start, more in zip(starts, by, strict=True)]
        return _Levels(np.sort(np.array(turns, _TURN), order=("row", "position")), len(self.site.line))

    def _judge(self, _: str, key: SeriesKey, old: int, new: int) -> Verdict:
        return self.site.levels[key].between(old, new)

    def _lost(self, slot: Indices, start: Indices) -> Truth:
        """Return which values are no times although the one before is. N/a without a reason was not asked for.

        Args:
            slot: where they lie. start: where the first value of the series of each lies.
        """
        columns, has_reason = self._layout.columns, self.site.past.has_reason
        outcome = columns["outcome"][slot]
        had = (slot > start) & (columns["outcome"][slot - 1] == MEASURED)
        is_gone = (outcome == FAILED) | ((outcome != MEASURED) & has_reason[columns["remark"][slot]])
        return np.asarray(had & is_gone)

    def inputs(self) -> Mapping[int, Inputs]:
        """Return what the values of each commit, and what is said of them, follow from, by position."""
        past, series, events = self.site.past, self._series, self._events()
        columns = zip(series.keys, series.flop.tolist(), series.unit.tolist(), strict=True)
        named = [(series_name(key), flop, unit) for key, flop, unit in columns]
        values = hashlib.sha256(repr((str(self.site.results.resolve()), past.layout.shown, named)).encode())
        levels, up_to, by_position = hashlib.sha256(), list[str](), list[str]()
        for position, paths in self.files.items():
            files = [past.inputs(path) for path in paths]
            lasting = repr((position, self.site.line[position], files, events.lasting.get(position)))
            values.update(lasting.encode("utf-8", "surrogatepass"))
            by_position.append(f"{values.hexdigest()} {int(self.tags[position])}")
            levels.update(repr((events.changes.get(position), events.levels.get(position))).encode())
            up_to.append(levels.hexdigest())
        last = len(up_to) - 1
        return {
            position: Inputs(
                values=by_position[number],
                # in the page's order
                shown=repr([change[1:3] for change in sorted(events.changes.get(position, ()), reverse=True)]),
                ratios=repr(events.changes.get(position)),
                # up to so many values after a commit limit what would have been seen from it on
                levels=f"{up_to[min(number + SHORTER, last)]} {min(last - number, SHORTER)}",
            )
            for number, position in enumerate(self.files)
        }

    def _events(self) -> _Events:
        """Return what happens to the levels of the series, by position."""
        events = _Events({}, {}, {})
        for number, (key, unit) in enumerate(zip(self.site.keys, self._series.unit.tolist(), strict=True)):
            levels, series = self.site.levels[key], self.site.series(key)
            for entry, base in _changes(series, levels):
                at, method = int(series.position[entry]), int(series.method[entry])
                tag = _newest(series, method, int(self.tags[at]))
                verdicts = [levels.between(old, entry) for old in (base, tag) if old != NONE]
                oldest = base if tag == NONE else tag
                change = Change(
                    size=abs(math.log(verdicts[0].ratio)),
                    series=number,
                    words=[(text.verdict(verdict, unit), text.verdict_detail(verdict)) for verdict in verdicts],
                    steps=[point for point in levels.points if oldest < point.index <= entry],
                )
                events.changes.setdefault(at, []).append(change)
            starts = series.position[[0, *(point.index for point in levels.points)]].tolist()
            for at, noise, within in zip(starts, levels.noises, levels.within, strict=True):
                limits = [units.share(least) for least in within if least <= MOST_WITHIN]
                events.levels.setdefault(at, []).append((number, limits))
                if None in levels.noises:
                    events.lasting.setdefault(at, []).append((number, noise is None))
        return events


class Inputs(NamedTuple):
    """Texts that change whenever a part of what is said of a commit would."""

    values: str  # its values
    shown: str  # the changes of those that are slower or faster than before, as a page shows them
    ratios: str  # the same changes in all digits
    levels: str  # the changes of all values up to it, and the least that would have been seen


class Change(NamedTuple):
    """A value against the one before and that at the last tag, where a step or a doubt lies between."""

    size: float  # of the log, against the one before
    series: int  # its number
    words: list[tuple[str, str]]  # that the page shows
    steps: list[ChangePoint]


class _Events(NamedTuple):
    """What happens to the levels of the series, by position on the line. Each event has a series' number."""

    lasting: dict[int, list[tuple[int, bool]]]  # what the verdicts of all later commits follow from
    changes: dict[int, list[Change]]
    levels: dict[int, list[tuple[int, list[str]]]]  # the least changes that would be seen of levels that begin here


def _changes(series: Columns, levels: Levels) -> Iterator[tuple[int, int]]:
    """Yield the entries of a series that a step or a doubt separates from the one that they are compared with, too."""
    steps = sorted({*(point.index for point in levels.points), *([levels.doubt.index] if levels.doubt else ())})
    if not steps:
        return
    method = int(series.method[steps[0]])
    if (series.method[series.is_measured] == method).all():  # nearly always
        pairs = ((step, _newest(series, method, int(series.position[step]) - 1)) for step in steps)
        yield from ((entry, base) for entry, base in pairs if base != NONE)
        return
    base = comparable_before(series)
    counts = np.searchsorted(steps, np.arange(len(series)), side="right")
    is_apart = series.is_measured & (base != NONE) & (counts > counts[base])
    yield from ((entry, int(base[entry])) for entry in np.flatnonzero(is_apart).tolist())


def _newest(series: Columns, method: int, position: int) -> int:
    """Return the newest entry up to a position that a time of a method can be compared with. NONE: there is none."""
    alike = comparable(series, method) & (series.position <= position)
    return int(np.flatnonzero(alike)[-1]) if alike.any() else NONE


class _Levels:
    """What is known of all series at each position: sums over their turns, which `turns` counts."""

    def __init__(self, turns: NDArray[np.void], length: int) -> None:
        """Take the turns, by series, then by position. length: of the line."""
        self._length = length + 1
        self._keys = turns["row"] * self._length + turns["position"]
        self.level, self.doubts, self.unknown = (
            np.concatenate([[0], np.cumsum(turns[name])]) for name in ("level", "doubts", "unknown")
        )

    def turns(self, which: Indices, position: Indices) -> Indices:
        """Return how many turns there are up to positions of series. NONE: before the first one of the series."""
        return np.searchsorted(self._keys, which * self._length + position, side="right")


def beside(site: Site, sha: str, tags: IntArray) -> Values:
    """Return what was measured of a commit beside the first-parent line, against its parent and the last tag before.

    Its values belong to no history, so each is tested against the newest level up to its parent.
    """
    parents = site.commits[sha].parents[:1]
    position = site.order.get(parents[0], NO_TAG) if parents else NO_TAG
    tag = position if position == NO_TAG or site.line[position] in site.tags else int(tags[position])
    ranks = {key: rank for rank, key in enumerate(site.keys)}
    measurements = sorted(site.at(sha), key=lambda measurement: ranks.get(measurement.key, len(ranks)))

    def against(position: int) -> tuple[Against, Mapping[SeriesKey, Verdict]]:
        """Return the values against the newest comparable ones up to a position, and the verdicts."""
        compared = {
            row: entry
            for row, measurement in enumerate(measurements)
            if measurement.key in ranks and (entry := _newest_up_to(site, measurement, position)) != NONE
        }
        rows, keys = [*compared], [measurements[row].key for row in compared]
        tested = zip(keys, compared.values(), rows, strict=True)
        verdicts = site.levels.beside([(key, entry, measurements[row]) for key, entry, row in tested])
        result = Against(
            other=np.full(len(measurements), NONE, np.int32),
            entry=np.full(len(measurements), NONE, np.int32),
            effect=np.zeros(len(measurements)),
            word=np.full(len(measurements), WORDS.index(Word.UNDECIDED), np.uint8),
        )
        pairs = zip(keys, compared.values(), strict=True)
        result.other[rows] = [site.series(key).position[entry] for key, entry in pairs]
        result.entry[rows] = [*compared.values()]
        result.effect[rows] = [math.log(verdicts[key].ratio) for key in keys]
        result.word[rows] = [WORDS.index(verdicts[key].word) for key in keys]
        return result, verdicts

    (before, before_verdicts), (tag_, tag_verdicts) = against(position), against(tag)
    verdicts = {"before": before_verdicts, "tag": tag_verdicts}
    flop = [np.nan if measurement.flop is None else measurement.flop for measurement in measurements]
    return Values(
        series=Series(
            keys=[measurement.key for measurement in measurements],
            flop=np.array(flop, np.float64),
            unit=np.array([text.unit_of(measurement) for measurement in measurements], np.str_),
        ),
        others=site.line,
        remark=lambda row: (measurements[row].reason, measurements[row].warnings),
        which=np.arange(len(measurements)),
        slot=np.arange(len(measurements)),
        entry=np.full(len(measurements), NONE, np.int32),
        judge=lambda base, key, *_: verdicts[base][key],
        outcome=np.array([OUTCOMES.index(measurement.outcome) for measurement in measurements], np.int32),
        figures=np.array([_figures(measurement) for measurement in measurements], np.float64).reshape(-1, len(FIGURES)),
        changed=before.is_change
        | np.array([_is_lost(site, measurement, position) for measurement in measurements], np.bool_),
        before=before,
        tag=tag_,
    )


def _newest_up_to(site: Site, measurement: Measurement, position: int) -> int:
    """Return the newest entry of a measurement's series, up to a position, that it can be compared with. NONE: none."""
    series = site.series(measurement.key)
    method = series.methods.index(measurement.method) if measurement.method in series.methods else -1
    return _newest(series, method, position) if measurement.outcome is Outcome.MEASURED else NONE


def _figures(measurement: Measurement) -> list[float]:
    """Return a measurement's FIGURES."""
    low, high = (None, None) if measurement.interval is None else (measurement.interval.low, measurement.interval.high)
    adjusted = None if measurement.adjusted is None else measurement.adjusted.seconds
    return [np.nan if figure is None else figure for figure in (measurement.seconds, low, high, adjusted)]


def _is_lost(site: Site, measurement: Measurement, position: int) -> bool:
    """Return whether a result is no time although its parent's is."""
    if measurement.outcome is Outcome.MEASURED or measurement.key not in site.levels:
        return False
    entry = site.series(measurement.key).entry(position)
    had_time = entry is not None and bool(site.series(measurement.key).is_measured[entry])
    return had_time and (measurement.outcome is Outcome.FAILED or measurement.reason is not None)
