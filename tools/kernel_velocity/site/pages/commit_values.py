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

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.results.measurement import OUTCOMES, IntArray, Measurement, Outcome, SeriesKey
from kernel_velocity.results.records import Benchmark
from kernel_velocity.series import changes, layout
from kernel_velocity.series.changes import NONE, Indices, Truth
from kernel_velocity.series.layout import Block
from kernel_velocity.series.packing import NOTHING
from kernel_velocity.series.verdicts import Verdict, Word
from kernel_velocity.site import text
from kernel_velocity.site.model import Site
from kernel_velocity.site.writer import series_name
from kernel_velocity.stats.changepoints.values import MIN_EFFECT
from kernel_velocity.stats.changepoints.young import SHORTER

MOST_VALUES = 200_000  # held at a time: 30 MB
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


def _numbered(things: Iterable[Any]) -> tuple[Sequence[Any], IntArray]:
    numbers: dict[Any, int] = {}
    indices = [numbers.setdefault(thing, len(numbers)) for thing in things]
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
        known = np.zeros(len(cases), np.bool_)
        known[case[self.which[applicable]]] = True
        return self[known[case[self.which]] | self.changed]

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
        known = benchmarks[benchmark].cases if benchmark in benchmarks else ()
        missing = [name for name in known if name not in names]
        if missing:
            yield f"{benchmark}: not measured: {', '.join(missing)}"


def tags_before(site: Site) -> IntArray:
    """Return, for every position on the first-parent line, that of the newest tag before it. NO_TAG where none is."""
    tagged = sorted(site.order[sha] for sha in site.tags)
    indices = np.searchsorted(tagged, np.arange(len(site.line)), side="left") - 1
    return np.where(indices < 0, NO_TAG, np.array([*tagged, NO_TAG])[indices]).astype(np.int32)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Stretch:
    """Some commits that follow each other among the measured ones, with their values."""

    places: Indices  # of the commits on the line, ascending
    first: Indices  # (commits + 1,) the first value of each commit, and the number of all
    values: Values  # those of a commit together, in the order of the series


class Steps(NamedTuple):
    """The steps of a block's series. All arrays have the shape of its slots."""

    level: FloatArray  # log
    doubts: NDArray[np.int16]  # steps up to a value that may be chance
    has_scatter: Truth  # whether the scatter of a value's level is known


class Line:
    """The values of the commits of the first-parent line, made for many commits at a time: one pass over all series."""

    def __init__(self, site: Site) -> None:
        """Take a site."""
        self.site, self.tags = site, tags_before(site)
        self._layout = site.past.layout
        self._numbers = np.array([self._layout.numbers[key] for key in site.keys], np.int64)
        self._stretch: _Stretch | None = None

    @cached_property
    def _series(self) -> Series:
        flop = [self.site.past.flop(key) for key in self.site.keys]
        return Series(
            keys=self.site.keys,
            flop=np.array([np.nan if each is None else each for each in flop]),
            unit=np.array([text.unit_of(self.site.series(key)) for key in self.site.keys], np.str_),
        )

    def at(self, place: int) -> Values:
        """Return what was measured of the commit at a position on the line."""
        if self._stretch is None or place not in self._stretch.places:
            self._stretch = None  # before there is another
            self._stretch = self._make(self._from(place))
        index = int(np.searchsorted(self._stretch.places, place))
        first, last = self._stretch.first[index : index + 2].tolist()
        return self._stretch.values[first:last]

    @cached_property
    def files(self) -> Mapping[int, Sequence[str]]:
        """The paths of the results files of each position on the line that has a measurement, ascending."""
        files: dict[int, list[str]] = {self.site.order[sha]: [] for sha in self.site.measured if sha in self.site.order}
        for path, sha in sorted(self.site.past.directory.commits.items()):
            if self.site.order.get(sha) in files:
                files[self.site.order[sha]].append(path)
        return files

    def _from(self, place: int) -> Indices:
        """Return a position and those after it that have up to MOST_VALUES values together."""
        counts = [sum(len(self._layout.files[path]) for path in paths) for paths in self.files.values()]
        places, ends = np.array([*self.files], np.int64), np.cumsum(counts)
        first = int(np.searchsorted(places, place))
        begun = int(ends[first - 1]) if first else 0
        last = int(np.searchsorted(ends, begun + MOST_VALUES, side="right"))
        return places[first : max(last, first + 1)]

    def _make(self, places: Indices) -> _Stretch:
        """Return the values of the commits at some positions."""
        blocks = layout.blocks(self._layout, self._numbers, upto=int(places[-1]))
        parts = [self._part(block, places) for block in blocks]
        empty = {name: np.empty(0, np.int64) for name in ("which", "place", "slot", "entry", "changed", *_COLUMNS)}
        columns = {name: np.concatenate([part[name] for part in parts] or [empty[name]]) for name in empty}
        order = np.argsort(columns["place"], kind="stable")
        columns = {name: column[order] for name, column in columns.items()}
        slot = columns["slot"]
        against = {base: Against(**{name: columns[f"{base} {name}"] for name in AGAINST}) for base in BASES}
        values = Values(
            series=self._series,
            others=self.site.line,
            remark=self._remark,
            which=columns["which"],
            slot=slot,
            entry=columns["entry"],
            judge=self._judge,
            outcome=self._layout.columns["outcome"][slot],
            figures=np.column_stack([self._layout.columns[name][slot] for name in FIGURES]),
            changed=columns["changed"],
            **against,
        )
        first = np.searchsorted(columns["place"], [*places.tolist(), len(self.site.line)])
        return _Stretch(places=places, first=first, values=values)

    def _remark(self, slot: int) -> Remark:
        number = int(self._layout.columns["remark"][slot])
        return (None, ()) if number == NOTHING else self.site.past.names.remarks[number]

    def _part(self, block: Block, places: Indices) -> dict[str, NDArray[Any]]:
        """Return the values of a block's series at some positions, as columns of shape (values,)."""
        own = np.flatnonzero(np.isin(block.places, places))
        slots = block.slots[:, own]
        row, at = np.nonzero(slots != NONE)
        slot = slots[row, at]
        start = block.start[row]
        steps = self._steps(block)
        part: dict[str, NDArray[Any]] = {}
        for name, base in zip(BASES, _bases(block, own, self.tags), strict=True):
            against = _against(steps, (row, own[at]), slot, base[row, at], block)
            part |= {f"{name} {column}": values for column, values in against.items()}
        word = part["before word"]
        return part | {
            "which": (row + block.rows.start).astype(np.int32),
            "place": block.places[own][at].astype(np.int32),
            "slot": slot,
            "entry": (slot - start).astype(np.int32),
            "changed": (word == WORDS.index(Word.SLOWER))
            | (word == WORDS.index(Word.FASTER))
            | self._lost(slot, start),
        }

    def _steps(self, block: Block) -> Steps:
        """Return the steps of a block's series."""
        shape = block.slots.shape
        level, doubts, is_known = np.zeros(shape), np.zeros(shape, np.int16), np.ones(shape, np.bool_)
        for row, number in enumerate(range(block.rows.start, block.rows.stop)):
            key = self.site.keys[number]
            levels, place = self.site.past.verdicts[key], self.site.series(key).place
            for point in levels.points:
                column = np.searchsorted(block.places, place[point.index])
                if point.is_blamed:
                    level[row, column:] += point.after - point.before
                else:
                    doubts[row, column:] += 1
            if levels.doubt is not None:
                doubts[row, np.searchsorted(block.places, place[levels.doubt.index]) :] += 1
            for start, noise in zip((0, *(point.index for point in levels.points)), levels.noises, strict=True):
                is_known[row, np.searchsorted(block.places, place[start]) :] = noise is not None
        return Steps(level, doubts, is_known)

    def _judge(self, _: str, key: SeriesKey, old: int, new: int) -> Verdict:
        return self.site.past.verdicts[key].between(old, new)

    def _lost(self, slot: Indices, start: Indices) -> Truth:
        """Return which values are no times although the one before is. N/a without a reason was not asked for.

        Args:
            slot: where they lie. start: where the first value of the series of each lies.
        """
        columns, has_reason = self._layout.columns, self.site.past.having[0] != NOTHING
        outcome = columns["outcome"][slot]
        had = (slot > start) & (columns["outcome"][slot - 1] == MEASURED)
        is_gone = (outcome == FAILED) | ((outcome != MEASURED) & has_reason[columns["remark"][slot]])
        return np.asarray(had & is_gone)

    def inputs(self) -> Mapping[int, str]:
        """Return, by position, a text that changes whenever the values of its commit or their changes would.

        They follow from the results files and adjusted times of the commit and of those before it, from the steps up
        to it, from which series are shown with what work, and from the last tag.
        """
        past, series = self.site.past, self._series
        columns = zip(series.keys, series.flop.tolist(), series.unit.tolist(), strict=True)
        named = [(series_name(key), flop, unit) for key, flop, unit in columns]
        digest = hashlib.sha256(repr((str(self.site.results.resolve()), past.layout.shown, named)).encode())
        inputs, steps = {}, self._steps_by_place()
        for place, paths in self.files.items():
            files = [(path, past.directory.files[path].signature, past.adjustments.digests.get(path)) for path in paths]
            digest.update(
                repr((place, self.site.line[place], files, steps.get(place))).encode("utf-8", "surrogatepass")
            )
            inputs[place] = f"{digest.hexdigest()} {int(self.tags[place])}"
        newer = min(len(inputs), SHORTER)  # commits: with each of them a page may say more of what would have been seen
        return {
            place: f"{text_} {min(len(inputs) - number, newer)}" for number, (place, text_) in enumerate(inputs.items())
        }

    def _steps_by_place(self) -> Mapping[int, list[tuple[object, ...]]]:
        """Return, by position, the steps and the scatter of the levels that begin there."""
        steps: dict[int, list[tuple[object, ...]]] = {}
        for number, key in enumerate(self.site.keys):
            levels, place = self.site.past.verdicts[key], self.site.series(key).place
            for point, noise in zip((None, *levels.points), levels.noises, strict=True):
                shown = None if noise is None else [f"{figure:.3g}" for figure in vars(noise).values()]
                at = int(place[0 if point is None else point.index])
                steps.setdefault(at, []).append((number, point, shown))
            if levels.doubt is not None:
                steps.setdefault(int(place[levels.doubt.index]), []).append((number, levels.doubt))
        return steps


AGAINST = ("other", "entry", "effect", "word")
_COLUMNS = tuple(f"{base} {name}" for base in BASES for name in AGAINST)


def _bases(block: Block, own: Indices, tags: IntArray) -> tuple[Indices, Indices]:
    """Return the slots that some commits' values are compared with: before, and at the last tag. (series, own).

    Args:
        own: the commits' columns in the block. tags: of `tags_before`.
    """
    at_tag = np.searchsorted(block.places, tags[block.places[own]], side="right") - 1  # -1 of NO_TAG, too
    bases = tuple(np.full((len(block.slots), len(own)), NONE, np.int64) for _ in BASES)
    methods = block.methods[:, own]
    for method in np.flatnonzero(np.bincount(methods.ravel())).tolist():
        last, rows = layout.newest(block.alike(method)), methods == method
        for base, upto in zip(bases, (own - 1, at_tag), strict=True):
            which = np.where(upto < 0, NONE, last[:, upto])
            slots = np.where(which == NONE, NONE, np.take_along_axis(block.slots, which.astype(np.int64), axis=1))
            base[rows] = slots[rows]
    before, tag = bases
    return before, tag


def _against(
    steps: Steps,
    at: tuple[Indices, Indices],
    slot: Indices,
    base: Indices,
    block: Block,
) -> dict[str, NDArray[Any]]:
    """Return the columns of an `Against` of values and those that lie at `base`. The others are the line's commits.

    Args:
        steps: of `_steps`. at: the rows and columns of the values in the block. slot, base: of the values, in the
            layout.
    """
    (level, doubts, has_scatter), (row, column) = steps, at
    outcome, seconds = (block.layout.columns[name] for name in ("outcome", "seconds"))
    known = (base != NONE) & (outcome[slot] == MEASURED)
    known &= (seconds[slot] > 0) & (seconds[base] > 0)  # another suite's may be 0 or less: levels say nothing of them
    place = block.layout.place[base]
    before = np.searchsorted(block.places, place)
    before = np.where(known, before, 0)
    effect = np.where(known, level[row, column] - level[row, before], 0.0)
    doubted = ~known | ~has_scatter[row, before] | (doubts[row, column] > doubts[row, before])
    word = np.where(doubted, WORDS.index(Word.UNDECIDED), WORDS.index(Word.UNCHANGED))
    word[effect >= MIN_EFFECT], word[effect <= -MIN_EFFECT] = WORDS.index(Word.SLOWER), WORDS.index(Word.FASTER)
    return {
        "other": np.where(known, place, NONE).astype(np.int32),
        "entry": np.where(known, base - block.start[row], NONE).astype(np.int32),
        "effect": effect,
        "word": word.astype(np.uint8),
    }


def beside(site: Site, sha: str, tags: IntArray) -> Values:
    """Return what was measured of a commit beside the first-parent line, against its parent and the last tag before.

    Its values belong to no history, so each is tested against the newest level up to its parent.
    """
    parents = site.commits[sha].parents[:1]
    place = site.order.get(parents[0], NO_TAG) if parents else NO_TAG
    tag = place if place == NO_TAG or site.line[place] in site.tags else int(tags[place])
    ranks = {key: rank for rank, key in enumerate(site.keys)}
    items = sorted(site.at(sha), key=lambda item: ranks.get(item.key, len(ranks)))
    bases = {
        base: [_newest_up_to(site, item, upto) if item.key in ranks else NONE for item in items]
        for base, upto in (("before", place), ("tag", tag))
    }
    verdicts = {
        base: site.past.verdicts.beside(
            [(item.key, entry, item) for item, entry in zip(items, entries, strict=True) if entry != NONE]
        )
        for base, entries in bases.items()
    }
    shas = {
        base: [
            site.line[site.series(item.key).place[entry]] if entry != NONE else ""
            for item, entry in zip(items, entries, strict=True)
        ]
        for base, entries in bases.items()
    }
    others = tuple(dict.fromkeys(sha for column in shas.values() for sha in column if sha))

    def against(base: str) -> Against:
        columns = zip(items, bases[base], shas[base], strict=True)
        known = [(entry, others.index(sha), verdicts[base][item.key]) for item, entry, sha in columns if sha]
        is_known = np.array([bool(sha) for sha in shas[base]], np.bool_)
        against = Against(
            other=np.full(len(items), NONE, np.int32),
            entry=np.full(len(items), NONE, np.int32),
            effect=np.zeros(len(items)),
            word=np.full(len(items), WORDS.index(Word.UNDECIDED), np.uint8),
        )
        against.entry[is_known] = [entry for entry, _, _ in known]
        against.other[is_known] = [other for _, other, _ in known]
        against.effect[is_known] = [math.log(verdict.ratio) for _, _, verdict in known]
        against.word[is_known] = [WORDS.index(verdict.word) for _, _, verdict in known]
        return against

    before = against("before")
    flop = [np.nan if item.flop is None else item.flop for item in items]
    return Values(
        series=Series(
            keys=[item.key for item in items],
            flop=np.array(flop, np.float64),
            unit=np.array([text.unit_of(item) for item in items], np.str_),
        ),
        others=others,
        remark=lambda row: (items[row].reason, items[row].warnings),
        which=np.arange(len(items)),
        slot=np.arange(len(items)),
        entry=np.full(len(items), NONE, np.int32),
        judge=lambda base, key, *_: verdicts[base][key],
        outcome=np.array([OUTCOMES.index(item.outcome) for item in items], np.int32),
        figures=np.array([_figures(item) for item in items], np.float64).reshape(-1, len(FIGURES)),
        changed=before.is_change | np.array([_is_lost(site, item, place) for item in items], np.bool_),
        before=before,
        tag=against("tag"),
    )


def _newest_up_to(site: Site, item: Measurement, place: int) -> int:
    """Return the newest entry of a measurement's series, up to a position, that it can be compared with. NONE: none."""
    series = site.series(item.key)
    method = series.methods.index(item.method) if item.method in series.methods else -1
    entries = np.flatnonzero(changes.alike(series, method) & (series.place <= place))
    return int(entries[-1]) if entries.size and item.outcome is Outcome.MEASURED else NONE


def _figures(item: Measurement) -> list[float]:
    """Return a measurement's FIGURES."""
    low, high = (None, None) if item.interval is None else (item.interval.low, item.interval.high)
    adjusted = None if item.adjusted is None else item.adjusted.seconds
    return [np.nan if figure is None else figure for figure in (item.seconds, low, high, adjusted)]


def _is_lost(site: Site, item: Measurement, place: int) -> bool:
    """Return whether a result is no time although its parent's is."""
    if item.outcome is Outcome.MEASURED or item.key not in site.past.verdicts:
        return False
    entry = site.series(item.key).entry(place)
    had_time = entry is not None and bool(site.series(item.key).is_measured[entry])
    return had_time and (item.outcome is Outcome.FAILED or item.reason is not None)
