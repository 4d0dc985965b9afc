"""What every series of a layout is adjusted by: fitted on its first rounds, or taken from the cache.

Which rounds these are, and what tells whether they are still the same, follows from digests of the rounds of values, so
that of the rounds themselves only those are read that something is fitted on anew.

The adjusted times of a layout: those that are kept, and what they do not reach, computed.

A time follows from how its series is adjusted, which is fitted on the first rounds of the series, and from the rounds
of its commit. Both are kept with digests of what they followed from; so one more commit costs its own rounds, until the
basis grows.

The rounds of a layout's values, as adjusting asks for them: read from the cache for the values that are wanted.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernel_velocity.harness.cases import CONTROLS
from kernel_velocity.harness.telemetry import GAUGES
from kernel_velocity.results.measurement import Fit, SeriesKey, Signal, round_interval
from kernel_velocity.series.cache import Cache
from kernel_velocity.series.layout import ADJUSTED, Layout
from kernel_velocity.series.packing import FREED, NOTHING, ROUND, Entries
from kernel_velocity.stats import adjust_series
from kernel_velocity.stats.adjust import Logs
from kernel_velocity.stats.adjust_series import Centres, Rounds
from kernel_velocity.stats.growth import grown

_BLOCK = 2_000_000  # rounds held at a time: 80 MB
_NAMES = tuple(each.name for each in fields(SeriesKey))
Digests = NDArray[np.uint64]


Slots = NDArray[np.int64]  # places in the columns of a layout


@dataclass(frozen=True, kw_only=True, eq=False)
class Beside:
    """The controls that tell of series without gauges."""

    keys: tuple[SeriesKey, ...]
    slots: Slots  # (controls, commits) where their values lie; -1: there is none
    told: Digests  # (commits,) of all their rounds

    def rounds(self, found: Read, commits: NDArray[np.int32]) -> dict[SeriesKey, Rounds]:
        """Return the rounds of every control at some commits."""
        slots = self.slots[:, commits]
        return {key: found.of(row[row >= 0].tolist()) for key, row in zip(self.keys, slots, strict=True)}


@dataclass(kw_only=True, eq=False)
class Series:
    """A series, as far as one method timed it."""

    key: SeriesKey
    method: str
    slots: Slots  # of its values that have rounds
    first: Slots  # of its basis, in the order in which it was measured
    beside: Beside | None  # None: it has gauges
    basis: bytes  # digest of what it is fitted on
    fit: Fit | None = None  # None: nothing tells of it
    centres: Centres = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What it is kept by."""
        return json.dumps([*astuple(self.key), self.method])

    def restore(self, text: str) -> None:
        """Take what was fitted, as it is kept."""
        found, usual = json.loads(text)
        self.centres = {SeriesKey(**dict(zip(_NAMES, key, strict=True))): value for key, value in usual}
        if found is not None:
            self.fit = Fit(**{**found, "signals": tuple(Signal(**each) for each in found["signals"])})

    @property
    def text(self) -> str:
        """What was fitted, to be kept."""
        usual = [(astuple(key), value) for key, value in self.centres.items()]
        return json.dumps([None if self.fit is None else asdict(self.fit), usual])


class Bases:
    """What the series of a layout are fitted on."""

    def __init__(
        self, cache: Cache, layout: Layout, paths: Sequence[str], told: Digests, is_gauged: NDArray[np.bool_]
    ) -> None:
        """Take a layout.

        Args:
            paths: of the results files that have rounds.
            told: of every value, a digest of its rounds; 0: it has none. is_gauged: whether they have gauges.
        """
        self._cache, self._layout, self._paths = cache, layout, paths
        self._told, self._is_gauged = told, is_gauged
        self._known_beside: dict[tuple[tuple[str, ...], int], Beside] = {}
        self._known_usual: dict[tuple[object, ...], Centres] = {}

    def fitted(self) -> list[Series]:
        """Return every series that has rounds; what was fitted anew is put into the cache."""
        every = [one for number in range(len(self._layout.keys)) for one in self._of(number)]
        self._fit_all(every)
        return every

    def _of(self, number: int) -> Iterator[Series]:
        """Yield a series of the layout, method by method."""
        part, columns, commit = self._layout.part(number, on_line=False), self._layout.columns, self._layout.commit
        own = part.start + np.flatnonzero(self._told[part])
        methods = columns["method"][own]
        for method in np.unique(methods).tolist():
            slots = own[methods == method]
            order = np.lexsort((self._rank[commit[slots]], columns["began"][slots]))
            first = slots[order[: grown(len(slots))]]
            key, said = self._layout.keys[number], [self._told[first], columns["code"][first]]
            beside = None if self._is_gauged[first].any() else self._beside(key, method)
            if beside is not None:
                said.append(beside.told[commit[first]])
            basis = hashlib.blake2b(b"".join(each.tobytes() for each in said), digest_size=8).digest()
            text = self._cache.names.texts[method]
            yield Series(key=key, method=text, slots=slots, first=first, beside=beside, basis=basis)

    @cached_property
    def _rank(self) -> Slots:
        """By commit, its place in the order of their SHAs."""
        return np.argsort(np.argsort(np.array(self._layout.commits)))

    def _beside(self, key: SeriesKey, method: int) -> Beside:
        """Return the controls of a series that a method timed; none of a control."""
        own = () if key.implementation in CONTROLS else adjust_series.seconds_of(key)
        if (own, method) not in self._known_beside:
            self._known_beside[own, method] = self._controls(own, method)
        return self._known_beside[own, method]

    def _controls(self, seconds: tuple[str, ...], method: int) -> Beside:
        layout, commit = self._layout, self._layout.commit
        every = (key for key in layout.keys if key.implementation in CONTROLS)
        keys = tuple(key for key in every if adjust_series.seconds_of(key) == seconds)
        slots = np.full((len(keys), len(layout.commits)), -1, np.int64)
        told = np.zeros(len(layout.commits), np.uint64)
        for row, key in enumerate(keys):
            part = layout.part(layout.numbers[key], on_line=False)
            has = (self._told[part] != 0) & (layout.columns["method"][part] == method)
            own = part.start + np.flatnonzero(has)
            slots[row, commit[own]] = own
            told[commit[own]] += self._told[own] * _odd(key)
        return Beside(keys=keys, slots=slots, told=told)

    def _fit_all(self, series: Sequence[Series]) -> None:
        known = self._cache.fits()
        unknown = []
        for one in series:
            basis, text = known.get(one.name, (b"", ""))
            if basis == one.basis:
                one.restore(text)
                one.centres = self._shared(one.centres)
            else:
                unknown.append(one)
        for block in self._blocks(unknown):
            wanted = none(self._layout)
            for one in block:
                wanted[one.first] = True
                if one.beside is not None:
                    wanted[one.beside.slots[:, self._layout.commit[one.first]]] = True
            self._fit(block, read(self._cache, self._layout, self._paths, wanted))

    def _shared(self, usual: Centres) -> Centres:
        """Return the one object of those that say the same."""
        return self._known_usual.setdefault(tuple(usual.items()), usual)

    def _blocks(self, series: Sequence[Series]) -> Iterator[Sequence[Series]]:
        """Yield series, those together of whose rounds memory may hold as many."""
        block: list[Series] = []
        held = 0
        for one in series:
            count = int(self._layout.columns["rounds"][one.first].sum())
            if block and held + count > _BLOCK:
                yield block
                block, held = [], 0
            block.append(one)
            held += count
        if block:
            yield block

    def _fit(self, block: Sequence[Series], found: Read) -> None:
        commit, texts = self._layout.commit, self._cache.names.texts
        told: tuple[object, Logs, Centres] = (None, {}, {})  # most series have their controls and commits in common
        for one in block:
            if one.beside is not None:
                asked = id(one.beside), commit[one.first].tobytes()
                if told[0] != asked:
                    controls = one.beside.rounds(found, commit[one.first])
                    usual = self._shared(adjust_series.centres(controls))
                    told = asked, adjust_series.witnessed(controls, usual), usual
                one.centres = told[2]
            codes = zip(commit[one.first].tolist(), self._layout.columns["code"][one.first].tolist(), strict=True)
            code = {str(number): texts[text] for number, text in codes if text != NOTHING}
            rounds = found.of(one.first.tolist())
            one.fit = adjust_series.fit(rounds, {} if one.beside is None else told[1], code, one.method)
            self._cache.put_fit(one.name, one.basis, one.text)


def _odd(key: SeriesKey) -> np.uint64:
    """Return an odd number for a series, so that sums of products with it tell whose digest was added."""
    digest = hashlib.blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest) | 1)


@dataclass(frozen=True, kw_only=True)
class Filled:
    """What was done."""

    computed: int = 0  # adjusted times that were computed
    fits: Mapping[SeriesKey, Fit] = field(default_factory=dict)  # how the newest value of each series was adjusted
    digests: Mapping[str, str] = field(default_factory=dict)  # of the adjusted times of a results file, by path


def fill_nothing(layout: Layout) -> Filled:
    """Say that no time is adjusted."""
    for name in ADJUSTED:
        for number in range(len(layout.keys)):
            layout.columns[name][layout.part(number, on_line=False)] = math.nan
    return Filled()


def fill(cache: Cache, layout: Layout) -> Filled:
    """Fill in the adjusted times. `cache.save` makes them last."""
    fill_nothing(layout)
    timed = cache.with_rounds()
    work = _Work(cache, layout, tuple(path for path in layout.files if path in timed))
    if not work.paths:
        return Filled()
    work.recall()
    series = Bases(cache, layout, work.paths, work.told, work.is_gauged).fitted()
    computed = work.free(series)
    return Filled(computed=computed, fits=work.newest(series), digests=work.digests())


class _Work:
    """What is known while the series of a layout are adjusted; what is said of a value stands at its slot."""

    def __init__(self, cache: Cache, layout: Layout, paths: Sequence[str]) -> None:
        self.cache, self.layout, self.paths = cache, layout, paths  # of the results files that have rounds
        total = len(layout.commit)
        self.told, self.by = np.zeros(total, np.uint64), np.zeros(total, np.uint64)
        self.is_gauged = np.zeros(total, np.bool_)

    def recall(self) -> None:
        """Take what is known of the values from the cache."""
        columns = {"told": self.told, "by": self.by, "is_gauged": self.is_gauged}
        columns |= {name: self.layout.columns[name] for name in ADJUSTED}
        for path in self.paths:
            slots, known = self.layout.files[path], self._known(path)
            for name, column in columns.items():
                column[slots[slots >= 0]] = known[name][slots >= 0]
            self.layout.held.used(len(slots))

    def _known(self, path: str) -> Entries:
        known = self.cache.freed(path)
        if known is None:
            known = unfreed(self.cache.rounds(path), len(self.layout.files[path]))
        return known

    def free(self, series: Sequence[Series]) -> int:
        """Compute the times that are not kept, and keep them; return how many."""
        owner, stale, commit = np.zeros(len(self.told), np.int32), none(self.layout), self.layout.commit
        for number, one in enumerate(series):
            by = np.full(len(one.slots), int.from_bytes(one.basis), np.uint64)
            if one.beside is not None:
                by += one.beside.told[commit[one.slots]]
            stale[one.slots] = self.by[one.slots] != by
            self.by[one.slots], owner[one.slots] = by, number
        slots = np.flatnonzero(stale)
        slots = slots[np.argsort(commit[slots], kind="stable")]
        for each in np.split(slots, np.flatnonzero(np.diff(commit[slots])) + 1) if slots.size else ():
            self._free(int(commit[each[0]]), [(slot, series[owner[slot]]) for slot in each.tolist()])
        for path in self.paths:
            if stale[self.layout.files[path]].any():
                self._keep(path)
        return len(slots)

    def _free(self, commit: int, values: Sequence[tuple[int, Series]]) -> None:
        """Compute times of one commit."""
        wanted = none(self.layout)
        for slot, one in values:
            if one.fit is not None:
                wanted[slot] = True
                if one.beside is not None:
                    wanted[one.beside.slots[:, commit]] = True
        found = read(self.cache, self.layout, self._paths[commit], wanted)
        told: dict[tuple[int, int], Logs] = {}
        for slot, one in values:
            times = [math.nan] * len(ADJUSTED)
            if one.fit is not None:
                asked = id(one.beside), id(one.centres)
                if one.beside is not None and asked not in told:
                    controls = one.beside.rounds(found, np.array([commit], np.int32))
                    told[asked] = adjust_series.witnessed(controls, one.centres)
                estimates = adjust_series.freed(one.fit, found.of([slot]), told.get(asked, {}))
                for own in estimates.values():
                    times = _times(own)
            for name, time in zip(ADJUSTED, times, strict=True):
                self.layout.columns[name][slot] = time

    @cached_property
    def _paths(self) -> Mapping[int, Sequence[str]]:
        """The results files of every commit that have rounds."""
        found: dict[int, list[str]] = {}
        for path in self.paths:
            slots = self.layout.files[path]
            for commit in np.unique(self.layout.commit[slots[slots >= 0]]).tolist():
                found.setdefault(commit, []).append(path)
        return found

    def _keep(self, path: str) -> None:
        slots, made = self.layout.files[path], self._known(path).copy()
        for name, column in {"by": self.by, **{name: self.layout.columns[name] for name in ADJUSTED}}.items():
            made[name][slots >= 0] = column[slots[slots >= 0]]
        self.cache.put_freed(path, made)

    def newest(self, series: Sequence[Series]) -> dict[SeriesKey, Fit]:
        """Return how the newest time of each series was adjusted."""
        found: dict[SeriesKey, tuple[int, Fit]] = {}
        for one in series:
            known = one.slots[~np.isnan(self.layout.columns["adjusted"][one.slots])]
            if one.fit is not None and known.size:
                last = int(known[-1]), one.fit
                found[one.key] = max(found.get(one.key, last), last, key=lambda pair: pair[0])
        return {key: how for key, (_, how) in found.items()}

    def digests(self) -> dict[str, str]:
        """Return a digest of the adjusted times of each results file."""
        found = {}
        for path in self.paths:
            slots = self.layout.files[path]
            own = b"".join(self.layout.columns[name][slots[slots >= 0]].tobytes() for name in ADJUSTED)
            found[path] = hashlib.blake2b(own, digest_size=16).hexdigest()
        return found


def _times(estimates: Sequence[float]) -> list[float]:
    """Return ADJUSTED of the adjusted estimates of a commit's rounds, s: median, and the bounds of its interval."""
    interval = round_interval(estimates)
    bounds = (math.nan, math.nan) if interval is None else (interval.low, interval.high)
    return [statistics.median(estimates), *bounds]


class Seen(NamedTuple):
    """A round, as adjusting asks for it."""

    launch: str
    time: float  # its place in the order of the value's rounds
    estimate: float
    core_gauge: float | None
    memory_gauge: float | None
    control_gauge: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Read:
    """The rounds of some values."""

    slots: Slots  # of the value of each, ascending
    rounds: Entries
    commit: NDArray[Any]  # number of the commit of every value of the layout

    def of(self, slots: Iterable[int]) -> Rounds:
        """Return the rounds of values, by commit (its number in the layout, as text), in their order."""
        return {str(self.commit[slot]): self._at(slot) for slot in slots}

    def _at(self, slot: int) -> list[Seen]:
        first, last = np.searchsorted(self.slots, [slot, slot + 1]).tolist()
        return [
            Seen(str(launch), place, estimate, *(None if math.isnan(gauge) else gauge for gauge in gauges))
            for place, (_, launch, estimate, *gauges) in enumerate(self.rounds[first:last].tolist())
        ]


def none(layout: Layout) -> NDArray[np.bool_]:
    """Return, for each value of a layout, that it is not wanted; one more, which -1 means, never counts."""
    return np.zeros(len(layout.commit) + 1, np.bool_)


def read(cache: Cache, layout: Layout, paths: Iterable[str], wanted: NDArray[np.bool_]) -> Read:
    """Return the rounds that results files have of values.

    Args:
        wanted: whether those of each value of the layout are.
    """
    slots, rounds = [np.zeros(0, np.int64)], [np.zeros(0, ROUND)]
    for path in paths:
        shown = layout.files[path]
        if not wanted[shown[shown >= 0]].any():
            continue
        found = cache.rounds(path)
        lie = layout.files[path][found["entry"]]
        kept = (lie >= 0) & wanted[lie]
        slots.append(lie[kept])
        rounds.append(found[kept])
    all_slots, all_rounds = np.concatenate(slots), np.concatenate(rounds)
    order = np.argsort(all_slots, kind="stable")
    return Read(slots=all_slots[order], rounds=all_rounds[order], commit=layout.commit)


def unfreed(rounds: Entries, count: int) -> Entries:
    """Return the FREED of a results file of so many values, with nothing in it yet but what tells of their rounds."""
    made = np.zeros(count, FREED)
    for name in ADJUSTED:
        made[name] = math.nan
    own = rounds.copy()
    own["entry"] = 0
    starts = np.flatnonzero(np.diff(rounds["entry"], prepend=-1))
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(rounds)], strict=False):
        digest = hashlib.blake2b(own[start:stop].tobytes(), digest_size=8).digest()
        made["told"][rounds["entry"][start]] = int.from_bytes(digest, "big") | 1
    is_read = np.any([~np.isnan(rounds[name]) for name in GAUGES], axis=0)
    made["is_gauged"][rounds["entry"][is_read]] = True
    return made
