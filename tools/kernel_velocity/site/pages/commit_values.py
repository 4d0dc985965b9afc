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


@dataclass(frozen=True, kw_only=True, eq=False)
class _Stretch:
    """Some commits that follow each other among the measured ones, with their values."""

    positions: Indices  # of the commits on the line, ascending
    first: Indices  # (commits + 1,) the first value of each commit, and the number of all
    values: Values  # those of a commit together, in the order of the series


class Steps(NamedTuple):
    """The steps of a block's series. All arrays have the shape of its slots."""

    level: FloatArray  # log
    doubts: NDArray[np.int16]  # steps up to a value that may be chance
    has_scatter: Truth  # whether the scatter of a value's level is known


# of `Line._turns`: what is added to a series' `Steps` from a position of the line on
_TURN = np.dtype([("row", "<i8"), ("position", "<i8"), ("level", "<f8"), ("doubts", "<i2"), ("unknown", "<i2")])


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
            flop=np.array([np.nan if amount is None else amount for amount in flop]),
            unit=np.array([text.unit_of(self.site.series(key)) for key in self.site.keys], np.str_),
        )

    def at(self, position: int) -> Values:
        """Return what was measured of the commit at a position on the line."""
        if self._stretch is None or position not in self._stretch.positions:
            self._stretch = None  # before there is another
            self._stretch = self._make(self._from(position))
        index = int(np.searchsorted(self._stretch.positions, position))
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

    def _from(self, position: int) -> Indices:
        """Return a position and those after it that have up to MOST_VALUES values together."""
        counts = [sum(len(self._layout.files[path]) for path in paths) for paths in self.files.values()]
        positions, ends = np.array([*self.files], np.int64), np.cumsum(counts)
        first = int(np.searchsorted(positions, position))
        begun = int(ends[first - 1]) if first else 0
        last = int(np.searchsorted(ends, begun + MOST_VALUES, side="right"))
        return positions[first : max(last, first + 1)]

    def _make(self, positions: Indices) -> _Stretch:
        """Return the values of the commits at some positions."""
        blocks = layout.blocks(self._layout, self._numbers, self._since(positions), int(positions[-1]))
        parts = [self._part(block, positions) for block in blocks]
        empty = {name: np.empty(0, np.int64) for name in ("which", "position", "slot", "entry", "changed", *_COLUMNS)}
        columns = {name: np.concatenate([part[name] for part in parts] or [empty[name]]) for name in empty}
        order = np.argsort(columns["position"], kind="stable")
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
        first = np.searchsorted(columns["position"], [*positions.tolist(), len(self.site.line)])
        return _Stretch(positions=positions, first=first, values=values)

    def _since(self, positions: Indices) -> int:
        """Return the first position of the values that those at some positions are compared with."""
        first, tag = int(positions[0]), int(self.tags[positions[0]])
        since, before = first, first - 1 if tag == NO_TAG else min(first - 1, tag)
        ends = before, int(positions[-1])
        outcome, method = (self._layout.columns[name] for name in ("outcome", "method"))
        for number in self._numbers.tolist():
            part = self._layout.part(number)
            position = self._layout.position[part]
            old, end = np.searchsorted(position, ends, side="right").tolist()
            newest = slice(max(old - 1, 0), end)
            if old and outcome[part][old - 1] == MEASURED and (method[part][newest] == method[part][old - 1]).all():
                since = min(since, int(position[old - 1]))  # nearly always
                continue
            measured = np.flatnonzero(outcome[part][:end] == MEASURED)
            methods = method[part][measured]
            count = int(np.searchsorted(measured, old))
            for used in set(methods[count:].tolist()):
                alike = np.flatnonzero((methods[:count] == used) | (methods[:count] == NOTHING) | (used == NOTHING))
                if alike.size:
                    since = min(since, int(position[measured[alike[-1]]]))
        return since

    def _remark(self, slot: int) -> Remark:
        number = int(self._layout.columns["remark"][slot])
        return (None, ()) if number == NOTHING else self.site.past.names.remarks[number]

    def _part(self, block: Block, positions: Indices) -> dict[str, NDArray[Any]]:
        """Return the values of a block's series at some positions, as columns of shape (values,)."""
        columns = np.flatnonzero(np.isin(block.positions, positions))
        slots = block.slots[:, columns]
        row, at = np.nonzero(slots != NONE)
        slot = slots[row, at]
        start = block.start[row]
        steps = self._steps(block)
        part: dict[str, NDArray[Any]] = {}
        for name, base in zip(BASES, _bases(block, columns, self.tags), strict=True):
            against = _against(steps, (row, columns[at]), slot, base[row, at], block)
            part |= {f"{name} {column}": values for column, values in against.items()}
        word = part["before word"]
        return part | {
            "which": (row + block.rows.start).astype(np.int32),
            "position": block.positions[columns][at].astype(np.int32),
            "slot": slot,
            "entry": (slot - start).astype(np.int32),
            "changed": (word == WORDS.index(Word.SLOWER))
            | (word == WORDS.index(Word.FASTER))
            | self._lost(slot, start),
        }

    def _steps(self, block: Block) -> Steps:
        """Return the steps of a block's series."""
        turns = self._turns
        part = slice(*np.searchsorted(turns["row"], [block.rows.start, block.rows.stop]).tolist())
        column = np.searchsorted(block.positions, turns["position"][part])
        is_here = column < len(block.positions)  # else it comes later
        at = (turns["row"][part] - block.rows.start)[is_here], column[is_here]

        def so_far(name: str) -> NDArray[Any]:
            amounts = np.zeros(block.slots.shape, turns.dtype[name])
            np.add.at(amounts, at, turns[name][part][is_here])
            return np.cumsum(amounts, axis=1, out=amounts)

        return Steps(so_far("level"), so_far("doubts"), so_far("unknown") == 0)

    @cached_property
    def _turns(self) -> NDArray[np.void]:
        """Where anything that `Steps` says of a series changes, and by how much. By series, then by position."""
        turns: list[tuple[int, int, float, int, int]] = []
        for row, key in enumerate(self.site.keys):
            levels, position = self.site.past.verdicts[key], self.site.series(key).position
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
        return np.array(turns, _TURN)

    def _judge(self, _: str, key: SeriesKey, old: int, new: int) -> Verdict:
        return self.site.past.verdicts[key].between(old, new)

    def _lost(self, slot: Indices, start: Indices) -> Truth:
        """Return which values are no times although the one before is. N/a without a reason was not asked for.

        Args:
            slot: where they lie. start: where the first value of the series of each lies.
        """
        columns, has_reason = self._layout.columns, self.site.past.having[0]
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
            files = [(path, past.directory.files[path].signature, past.adjustments.digests.get(path)) for path in paths]
            lasting = repr((position, self.site.line[position], files, events.lasting.get(position)))
            values.update(lasting.encode("utf-8", "surrogatepass"))
            by_position.append(f"{values.hexdigest()} {int(self.tags[position])} {events.steps.get(position)}")
            levels.update(repr((events.steps.get(position), events.levels.get(position))).encode())
            up_to.append(levels.hexdigest())
        last = len(up_to) - 1
        return {
            position: Inputs(
                values=by_position[number],
                scatter=repr(events.scatter.get(position)),
                # up to so many values after a commit limit what would have been seen from it on
                levels=f"{up_to[min(number + SHORTER, last)]} {min(last - number, SHORTER)}",
            )
            for number, position in enumerate(self.files)
        }

    def _events(self) -> _Events:
        """Return what happens to the levels of the series, by position."""
        events = _Events({}, {}, {}, {})
        for number, key in enumerate(self.site.keys):
            levels, columns = self.site.past.verdicts[key], self.site.series(key)
            position, methods = columns.position, columns.method[columns.is_measured]
            # a time is compared with the newest one of its method, which may lie before steps of another method
            has_one = methods.size and (methods == methods[0]).all()
            steps, of_steps = (events.steps, events.scatter) if has_one else (events.lasting, events.lasting)
            scatter = [noise and [f"{figure:.3g}" for figure in vars(noise).values()] for noise in levels.noises]
            for count, point in enumerate(levels.points, start=1):
                at = int(position[point.index])
                steps.setdefault(at, []).append((number, levels.points[:count]))
                of_steps.setdefault(at, []).append((number, scatter[:count]))
            if levels.doubt is not None:
                steps.setdefault(int(position[levels.doubt.index]), []).append((number, levels.doubt))
            starts = (0, *(point.index for point in levels.points))
            for at, noise in zip(position[[*starts]].tolist(), scatter, strict=True):
                events.levels.setdefault(at, []).append((number, noise))
                if None in scatter:
                    events.lasting.setdefault(at, []).append((number, noise is None))
        return events


class Inputs(NamedTuple):
    """Texts that change whenever a part of what is said of a commit would."""

    values: str  # its values, and the changes of those that are slower or faster than before
    scatter: str  # the least changes that would have been seen of these
    levels: str  # the changes of all values, and the least that would have been seen


class _Events(NamedTuple):
    """What happens to the levels of the series, by position on the line. Each event begins with a series' number."""

    lasting: dict[int, list[tuple[object, ...]]]  # what the verdicts of all later commits follow from
    steps: dict[int, list[tuple[object, ...]]]  # steps and doubts, with the earlier steps of their series
    scatter: dict[int, list[tuple[object, ...]]]  # of the levels before the steps here
    levels: dict[int, list[tuple[object, ...]]]  # the scatter of the levels that begin here


AGAINST = ("other", "entry", "effect", "word")
_COLUMNS = tuple(f"{base} {name}" for base in BASES for name in AGAINST)


def _bases(block: Block, columns: Indices, tags: IntArray) -> tuple[Indices, Indices]:
    """Return the slots that some commits' values are compared with: before, and at the last tag. (series, own).

    Args:
        own: the commits' columns in the block. tags: of `tags_before`.
    """
    at_tag = np.searchsorted(block.positions, tags[block.positions[columns]], side="right") - 1  # -1 of NO_TAG, too
    bases = tuple(np.full((len(block.slots), len(columns)), NONE, np.int64) for _ in BASES)
    methods = block.methods[:, columns]
    for method in np.flatnonzero(np.bincount(methods.ravel())).tolist():
        last, rows = layout.newest(block.alike(method)), methods == method
        for base, upto in zip(bases, (columns - 1, at_tag), strict=True):
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
    is_comparable = (base != NONE) & (outcome[slot] == MEASURED)
    is_comparable &= (seconds[slot] > 0) & (
        seconds[base] > 0
    )  # another suite's may be 0 or less: levels say nothing of them
    position = block.layout.position[base]
    before = np.searchsorted(block.positions, position)
    before = np.where(is_comparable, before, 0)
    effect = np.where(is_comparable, level[row, column] - level[row, before], 0.0)
    doubted = ~is_comparable | ~has_scatter[row, before] | (doubts[row, column] > doubts[row, before])
    word = np.where(doubted, WORDS.index(Word.UNDECIDED), WORDS.index(Word.UNCHANGED))
    word[effect >= MIN_EFFECT], word[effect <= -MIN_EFFECT] = WORDS.index(Word.SLOWER), WORDS.index(Word.FASTER)
    return {
        "other": np.where(is_comparable, position, NONE).astype(np.int32),
        "entry": np.where(is_comparable, base - block.start[row], NONE).astype(np.int32),
        "effect": effect,
        "word": word.astype(np.uint8),
    }


def beside(site: Site, sha: str, tags: IntArray) -> Values:
    """Return what was measured of a commit beside the first-parent line, against its parent and the last tag before.

    Its values belong to no history, so each is tested against the newest level up to its parent.
    """
    parents = site.commits[sha].parents[:1]
    position = site.order.get(parents[0], NO_TAG) if parents else NO_TAG
    tag = position if position == NO_TAG or site.line[position] in site.tags else int(tags[position])
    ranks = {key: rank for rank, key in enumerate(site.keys)}
    measurements = sorted(site.at(sha), key=lambda measurement: ranks.get(measurement.key, len(ranks)))
    bases = {
        base: [
            _newest_up_to(site, measurement, upto) if measurement.key in ranks else NONE for measurement in measurements
        ]
        for base, upto in (("before", position), ("tag", tag))
    }
    verdicts = {
        base: site.past.verdicts.beside(
            [
                (measurement.key, entry, measurement)
                for measurement, entry in zip(measurements, entries, strict=True)
                if entry != NONE
            ]
        )
        for base, entries in bases.items()
    }
    shas = {
        base: [
            site.line[site.series(measurement.key).position[entry]] if entry != NONE else ""
            for measurement, entry in zip(measurements, entries, strict=True)
        ]
        for base, entries in bases.items()
    }
    others = tuple(dict.fromkeys(sha for column in shas.values() for sha in column if sha))

    def against(base: str) -> Against:
        columns = zip(measurements, bases[base], shas[base], strict=True)
        compared = [
            (entry, others.index(sha), verdicts[base][measurement.key]) for measurement, entry, sha in columns if sha
        ]
        is_known = np.array([bool(sha) for sha in shas[base]], np.bool_)
        against = Against(
            other=np.full(len(measurements), NONE, np.int32),
            entry=np.full(len(measurements), NONE, np.int32),
            effect=np.zeros(len(measurements)),
            word=np.full(len(measurements), WORDS.index(Word.UNDECIDED), np.uint8),
        )
        against.entry[is_known] = [entry for entry, _, _ in compared]
        against.other[is_known] = [other for _, other, _ in compared]
        against.effect[is_known] = [math.log(verdict.ratio) for _, _, verdict in compared]
        against.word[is_known] = [WORDS.index(verdict.word) for _, _, verdict in compared]
        return against

    before = against("before")
    flop = [np.nan if measurement.flop is None else measurement.flop for measurement in measurements]
    return Values(
        series=Series(
            keys=[measurement.key for measurement in measurements],
            flop=np.array(flop, np.float64),
            unit=np.array([text.unit_of(measurement) for measurement in measurements], np.str_),
        ),
        others=others,
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
        tag=against("tag"),
    )


def _newest_up_to(site: Site, measurement: Measurement, position: int) -> int:
    """Return the newest entry of a measurement's series, up to a position, that it can be compared with. NONE: none."""
    series = site.series(measurement.key)
    method = series.methods.index(measurement.method) if measurement.method in series.methods else -1
    entries = np.flatnonzero(changes.alike(series, method) & (series.position <= position))
    return int(entries[-1]) if entries.size and measurement.outcome is Outcome.MEASURED else NONE


def _figures(measurement: Measurement) -> list[float]:
    """Return a measurement's FIGURES."""
    low, high = (None, None) if measurement.interval is None else (measurement.interval.low, measurement.interval.high)
    adjusted = None if measurement.adjusted is None else measurement.adjusted.seconds
    return [np.nan if figure is None else figure for figure in (measurement.seconds, low, high, adjusted)]


def _is_lost(site: Site, measurement: Measurement, position: int) -> bool:
    """Return whether a result is no time although its parent's is."""
    if measurement.outcome is Outcome.MEASURED or measurement.key not in site.past.verdicts:
        return False
    entry = site.series(measurement.key).entry(position)
    had_time = entry is not None and bool(site.series(measurement.key).is_measured[entry])
    return had_time and (measurement.outcome is Outcome.FAILED or measurement.reason is not None)
