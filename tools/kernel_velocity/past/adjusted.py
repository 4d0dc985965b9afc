"""Adjust the times of a layout for machine noise, and store them in the cache.

A time follows from how its series is adjusted and from the rounds of its commit. How a series is adjusted is fitted on
its basis, the rounds of the commits that were measured first. Fits and adjusted times are stored with digests of the
rounds that they follow from. So one more commit costs its own rounds, until the basis grows, and all other rounds stay
unread.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, astuple, dataclass, field, fields
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernel_velocity import progress
from kernel_velocity.engine.telemetry import GAUGES
from kernel_velocity.names import CONTROLS
from kernel_velocity.past.cache import Cache
from kernel_velocity.past.columns import TIMES
from kernel_velocity.past.layout import ADJUSTED, Layout
from kernel_velocity.past.packing import ADJUSTMENT, NO_TEXT, ROUND, Entries
from kernel_velocity.results import blocks
from kernel_velocity.results.blocks import Block, Time
from kernel_velocity.results.measurement import CONTROLS_TOGETHER, Fit, SeriesKey, Signal, round_interval
from kernel_velocity.stats import adjust_series
from kernel_velocity.stats.adjust import Logs, grown
from kernel_velocity.stats.adjust_series import Centres, Rounds, RoundTimes
from kernel_velocity.stats.link import Link, link

if TYPE_CHECKING:
    from kernel_velocity.results.asv_file import Series  # imports asv, .1 s that no report needs

    Times = Mapping[Series, Mapping[str, Time]]  # of the anchors of a block, by series and commit

_BLOCK = 2_000_000  # rounds in memory at a time: 80 MB
_KEY_FIELDS = tuple(field_.name for field_ in fields(SeriesKey))
Digests = NDArray[np.uint64]
Slots = NDArray[np.int64]  # indices into the columns of a layout


@dataclass(frozen=True, kw_only=True)
class Adjustments:
    """What adjusting a layout computed, beside the adjusted columns."""

    computed: int = 0  # adjusted times that were not in the cache
    fits: Mapping[SeriesKey, Fit] = field(default_factory=dict)  # of the newest adjusted value of each series
    link_errors: Mapping[SeriesKey, Mapping[int, float]] = field(default_factory=dict)  # by slot, of linked values
    digests: Mapping[str, str] = field(default_factory=dict)  # path of a results file -> digest of its adjusted times


def fill(cache: Cache, layout: Layout, paths: Sequence[str], blocks: Sequence[Block]) -> Adjustments:
    """Fill in the adjusted times. `cache.save` makes them last.

    Args:
        paths: of the results files with rounds. blocks: of a fleet, oldest first.
    """
    return _Adjuster(cache, layout, paths).run(SessionLinks(blocks)) if paths else Adjustments()


@dataclass(frozen=True, kw_only=True, eq=False)
class CachedRounds:
    """The rounds of some values of a layout."""

    slots: Slots  # (rounds,) of the value of each, ascending
    rounds: Entries
    commit: NDArray[Any]  # number of the commit of every value of the layout

    def of(self, slots: Iterable[int]) -> Rounds:
        """Return the rounds of values, by commit (its number in the layout, as text), in their order."""
        return {str(self.commit[slot]): self._at(slot) for slot in slots}

    def _at(self, slot: int) -> list[RoundTimes]:
        first, last = np.searchsorted(self.slots, [slot, slot + 1]).tolist()
        return [
            RoundTimes(str(launch), index, estimate, *(None if math.isnan(gauge) else gauge for gauge in gauges))
            for index, (_, launch, estimate, *gauges) in enumerate(self.rounds[first:last].tolist())
        ]


def read(cache: Cache, layout: Layout, paths: Iterable[str], wanted: NDArray[np.bool_]) -> CachedRounds:
    """Return the rounds that results files have of the wanted values, a truth value for each slot (`_no_slots`)."""
    slots, rounds = [np.zeros(0, np.int64)], [np.zeros(0, ROUND)]
    for path in paths:
        shown = layout.files[path]
        if not wanted[shown[shown >= 0]].any():
            continue
        stored = cache.rounds(path)
        slot = shown[stored["entry"]]
        is_wanted = (slot >= 0) & wanted[slot]
        slots.append(slot[is_wanted])
        rounds.append(stored[is_wanted])
    all_slots, all_rounds = np.concatenate(slots), np.concatenate(rounds)
    order = np.argsort(all_slots, kind="stable")
    return CachedRounds(slots=all_slots[order], rounds=all_rounds[order], commit=layout.commit)


def _no_slots(layout: Layout) -> NDArray[np.bool_]:
    """Return False for each slot of a layout, and once more for slot -1, which stands for no value."""
    return np.zeros(len(layout.commit) + 1, np.bool_)


@dataclass(frozen=True, kw_only=True, eq=False)
class Controls:
    """The controls that series without gauges are adjusted by."""

    keys: tuple[SeriesKey, ...]
    slots: Slots  # (controls, commits) of their values; -1: there is none
    digests: Digests  # (commits,) of all their rounds

    def rounds(self, stored: CachedRounds, commits: NDArray[np.int32]) -> dict[SeriesKey, Rounds]:
        """Return the rounds of every control at some commits."""
        slots = self.slots[:, commits]
        return {key: stored.of(row[row >= 0].tolist()) for key, row in zip(self.keys, slots, strict=True)}


@dataclass(kw_only=True, eq=False)
class TimedSeries:
    """The values of a series that one method timed, and how they are adjusted."""

    key: SeriesKey
    method: str
    slots: Slots  # of its values with rounds
    basis: Slots  # of the values that it is fitted on, in the order in which they were measured
    controls: Controls | None  # None: it has gauges
    digest: bytes  # of all that it is fitted on
    fit: Fit | None = None  # None: no signal explains it
    centres: Centres = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its key in the cache."""
        return json.dumps([*astuple(self.key), self.method])

    def restore(self, text: str) -> None:
        """Set fit and centres from the `text` in the cache."""
        fit, centres = json.loads(text)
        self.centres = {SeriesKey(**dict(zip(_KEY_FIELDS, key, strict=True))): value for key, value in centres}
        if fit is not None:
            self.fit = Fit(**{**fit, "signals": tuple(Signal(**signal) for signal in fit["signals"])})

    @property
    def text(self) -> str:
        """Fit and centres as the cache stores them."""
        centres = [(astuple(key), value) for key, value in self.centres.items()]
        return json.dumps([None if self.fit is None else asdict(self.fit), centres])


class _Adjuster:
    """Adjusts the series of a layout. Its arrays have shape (slots,)."""

    def __init__(self, cache: Cache, layout: Layout, paths: Sequence[str]) -> None:
        self.cache, self.layout, self.paths = cache, layout, paths  # paths: of the results files with rounds
        total = len(layout.commit)
        self._rounds_digest = np.zeros(total, np.uint64)  # of a value's rounds; 0: it has none
        self._source_digest = np.zeros(total, np.uint64)  # of what its stored adjusted time follows from
        self._is_gauged = np.zeros(total, np.bool_)
        self._controls: dict[tuple[tuple[str, ...], int], Controls] = {}
        self._centres: dict[tuple[object, ...], Centres] = {}

    def run(self, links: SessionLinks) -> Adjustments:
        """Fill in the adjusted times of the layout."""
        self._recall()
        series = [timed for number in range(len(self.layout.keys)) for timed in self._timed_series(number)]
        self._fit_all(series)
        computed = self._adjust_all(series)
        errors = self._link(series, links)
        return Adjustments(
            computed=computed, fits=self._newest_fits(series), link_errors=errors, digests=self._digests()
        )

    def _recall(self) -> None:
        """Load from the cache what it has of the values."""
        columns = {
            "rounds_digest": self._rounds_digest,
            "source_digest": self._source_digest,
            "is_gauged": self._is_gauged,
            **{name: self.layout.columns[name] for name in ADJUSTED},
        }
        for path in self.paths:
            slots, stored = self.layout.files[path], self._stored(path)
            for name, column in columns.items():
                column[slots[slots >= 0]] = stored[name][slots >= 0]
            self.layout.scratch.used(len(slots))

    def _stored(self, path: str) -> Entries:
        stored = self.cache.adjustments(path)
        return new_adjustments(self.cache.rounds(path), len(self.layout.files[path])) if stored is None else stored

    def _timed_series(self, number: int) -> Iterator[TimedSeries]:
        """Yield a series of the layout, method by method."""
        part, columns, commit = self.layout.part(number, on_line=False), self.layout.columns, self.layout.commit
        with_rounds = part.start + np.flatnonzero(self._rounds_digest[part])
        methods = columns["method"][with_rounds]
        for method in np.unique(methods).tolist():
            slots = with_rounds[methods == method]
            order = np.lexsort((self._rank[commit[slots]], columns["began"][slots]))
            basis = slots[order[: grown(len(slots))]]
            key, digested = self.layout.keys[number], [self._rounds_digest[basis], columns["code"][basis]]
            controls = None if self._is_gauged[basis].any() else self._controls_of(key, method)
            if controls is not None:
                digested.append(controls.digests[commit[basis]])
            digest = hashlib.blake2b(b"".join(array.tobytes() for array in digested), digest_size=8).digest()
            text = self.cache.names.texts[method]
            yield TimedSeries(key=key, method=text, slots=slots, basis=basis, controls=controls, digest=digest)

    @cached_property
    def _rank(self) -> Slots:
        """By commit, its rank in the order of their SHAs."""
        return np.argsort(np.argsort(np.array(self.layout.commits)))

    def _controls_of(self, key: SeriesKey, method: int) -> Controls:
        """Return the controls of a series that a method timed. A control has none."""
        conditions = () if key.implementation in CONTROLS else adjust_series.shared_conditions(key)
        if (conditions, method) not in self._controls:
            self._controls[conditions, method] = self._find_controls(conditions, method)
        return self._controls[conditions, method]

    def _find_controls(self, conditions: tuple[str, ...], method: int) -> Controls:
        layout, commit = self.layout, self.layout.commit
        controls = (key for key in layout.keys if key.implementation in CONTROLS)
        keys = tuple(key for key in controls if adjust_series.shared_conditions(key) == conditions)
        all_slots = np.full((len(keys), len(layout.commits)), -1, np.int64)
        digests = np.zeros(len(layout.commits), np.uint64)
        for row, key in enumerate(keys):
            part = layout.part(layout.numbers[key], on_line=False)
            is_timed = (self._rounds_digest[part] != 0) & (layout.columns["method"][part] == method)
            slots = part.start + np.flatnonzero(is_timed)
            all_slots[row, commit[slots]] = slots
            digests[commit[slots]] += self._rounds_digest[slots] * _odd(key)
        return Controls(keys=keys, slots=all_slots, digests=digests)

    def _fit_all(self, series: Sequence[TimedSeries]) -> None:
        """Fit every series, or restore its fit from the cache."""
        stored = self.cache.fits()
        unknown = []
        for timed in series:
            digest, text = stored.get(timed.name, (b"", ""))
            if digest == timed.digest:
                timed.restore(text)
                timed.centres = self._shared(timed.centres)
            else:
                unknown.append(timed)
        for block in self._blocks(unknown):
            wanted = _no_slots(self.layout)
            for timed in block:
                wanted[timed.basis] = True
                if timed.controls is not None:
                    wanted[timed.controls.slots[:, self.layout.commit[timed.basis]]] = True
            self._fit(block, read(self.cache, self.layout, self.paths, wanted))

    def _shared(self, centres: Centres) -> Centres:
        """Return one object for all equal centres."""
        return self._centres.setdefault(tuple(centres.items()), centres)

    def _blocks(self, series: Sequence[TimedSeries]) -> Iterator[Sequence[TimedSeries]]:
        """Yield series in blocks, the rounds of whose basis memory may hold together."""
        block: list[TimedSeries] = []
        total = 0
        for timed in series:
            count = int(self.layout.columns["rounds"][timed.basis].sum())
            if block and total + count > _BLOCK:
                yield block
                block, total = [], 0
            block.append(timed)
            total += count
        if block:
            yield block

    def _fit(self, block: Sequence[TimedSeries], stored: CachedRounds) -> None:
        commit, texts = self.layout.commit, self.cache.names.texts
        cached: tuple[object, Logs, Centres] = (None, {}, {})  # most series share their controls and commits
        for timed in progress.counted("fitting the machine's noise", block):
            if timed.controls is not None:
                cache_key = id(timed.controls), commit[timed.basis].tobytes()
                if cached[0] != cache_key:
                    controls = timed.controls.rounds(stored, commit[timed.basis])
                    centres = self._shared(adjust_series.centres(controls))
                    cached = cache_key, adjust_series.witnessed(controls, centres), centres
                timed.centres = cached[2]
            codes = zip(commit[timed.basis].tolist(), self.layout.columns["code"][timed.basis].tolist(), strict=True)
            code = {str(number): texts[text] for number, text in codes if text != NO_TEXT}
            rounds = stored.of(timed.basis.tolist())
            timed.fit = adjust_series.fit(rounds, {} if timed.controls is None else cached[1], code, timed.method)
            self.cache.put_fit(timed.name, timed.digest, timed.text)

    def _adjust_all(self, series: Sequence[TimedSeries]) -> int:
        """Compute and store the adjusted times that the cache does not have. Return how many."""
        commit = self.layout.commit
        owner, stale = np.zeros(len(commit), np.int32), _no_slots(self.layout)
        for number, timed in enumerate(series):
            source = np.full(len(timed.slots), int.from_bytes(timed.digest), np.uint64)
            if timed.controls is not None:
                source += timed.controls.digests[commit[timed.slots]]
            stale[timed.slots] = self._source_digest[timed.slots] != source
            self._source_digest[timed.slots], owner[timed.slots] = source, number
        slots = np.flatnonzero(stale)
        slots = slots[np.argsort(commit[slots], kind="stable")]
        for same in np.split(slots, np.flatnonzero(np.diff(commit[slots])) + 1) if slots.size else ():
            self._adjust(int(commit[same[0]]), [(slot, series[owner[slot]]) for slot in same.tolist()])
        for path in self.paths:
            if stale[self.layout.files[path]].any():
                self._store(path)
        return len(slots)

    def _adjust(self, commit: int, values: Sequence[tuple[int, TimedSeries]]) -> None:
        """Compute adjusted times of one commit: of the values at slots."""
        wanted = _no_slots(self.layout)
        for slot, timed in values:
            if timed.fit is not None:
                wanted[slot] = True
                if timed.controls is not None:
                    wanted[timed.controls.slots[:, commit]] = True
        stored = read(self.cache, self.layout, self._paths_of[commit], wanted)
        deviations: dict[tuple[int, int], Logs] = {}  # of controls, which most series share
        for slot, timed in values:
            times = [math.nan] * len(ADJUSTED)
            if timed.fit is not None:
                cache_key = id(timed.controls), id(timed.centres)
                if timed.controls is not None and cache_key not in deviations:
                    controls = timed.controls.rounds(stored, np.array([commit], np.int32))
                    deviations[cache_key] = adjust_series.witnessed(controls, timed.centres)
                by_commit = adjust_series.freed(timed.fit, stored.of([slot]), deviations.get(cache_key, {}))
                for estimates in by_commit.values():
                    times = _times(estimates)
            for name, time in zip(ADJUSTED, times, strict=True):
                self.layout.columns[name][slot] = time

    def _link(self, series: Sequence[TimedSeries], links: SessionLinks) -> dict[SeriesKey, dict[int, float]]:
        """Take out of adjusted times what the sessions of blocks differ by. Return the errors of links.

        The cache has the times without it: links change with each block.
        """
        errors: dict[SeriesKey, dict[int, float]] = {}
        columns = self.layout.columns
        for timed in series if links.recorded else ():
            slots = {self.layout.commits[self.layout.commit[slot]]: slot for slot in timed.slots.tolist()}
            for sha, linked in links.of(timed.key, timed.fit, slots.keys()).items():
                if (slot := slots.get(sha)) is not None:
                    names = TIMES[:3] if math.isnan(columns["adjusted"][slot]) else ADJUSTED
                    middle, *bounds = (float(columns[name][slot]) for name in names)
                    columns["adjusted"][slot] = level = middle * math.exp(-linked.step)
                    for name, bound, side in zip(ADJUSTED[1:], bounds, (-1, 1), strict=True):
                        half = math.hypot(math.log(bound / middle), NormalDist().inv_cdf(0.975) * linked.error)
                        columns[name][slot] = level * math.exp(side * half)
                    errors.setdefault(timed.key, {})[slot] = linked.error
        return errors

    @cached_property
    def _paths_of(self) -> Mapping[int, Sequence[str]]:
        """By commit, its results files with rounds."""
        paths: dict[int, list[str]] = {}
        for path in self.paths:
            slots = self.layout.files[path]
            for commit in np.unique(self.layout.commit[slots[slots >= 0]]).tolist():
                paths.setdefault(commit, []).append(path)
        return paths

    def _store(self, path: str) -> None:
        slots, stored = self.layout.files[path], self._stored(path).copy()
        for name, column in {
            "source_digest": self._source_digest,
            **{name: self.layout.columns[name] for name in ADJUSTED},
        }.items():
            stored[name][slots >= 0] = column[slots[slots >= 0]]
        self.cache.put_adjustments(path, stored)

    def _newest_fits(self, series: Sequence[TimedSeries]) -> dict[SeriesKey, Fit]:
        """Return the fit of the newest adjusted time of each series."""
        newest: dict[SeriesKey, tuple[int, Fit]] = {}
        for timed in series:
            adjusted = timed.slots[~np.isnan(self.layout.columns["adjusted"][timed.slots])]
            if timed.fit is not None and adjusted.size:
                last = int(adjusted[-1]), timed.fit
                newest[timed.key] = max(newest.get(timed.key, last), last, key=lambda pair: pair[0])
        return {key: fit for key, (_, fit) in newest.items()}

    def _digests(self) -> dict[str, str]:
        """Return a digest of the adjusted times of each results file."""
        digests = {}
        for path in self.paths:
            slots = self.layout.files[path]
            content = b"".join(self.layout.columns[name][slots[slots >= 0]].tobytes() for name in ADJUSTED)
            digests[path] = hashlib.blake2b(content, digest_size=16).hexdigest()
        return digests


def _odd(key: SeriesKey) -> np.uint64:
    """Return an odd number for a series: a sum of products with it depends on which series each factor is of."""
    digest = hashlib.blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest) | 1)


def _times(estimates: Sequence[float]) -> list[float]:
    """Return ADJUSTED of the adjusted estimates of a commit's rounds, s: median, and the bounds of its interval."""
    interval = round_interval(estimates)
    bounds = (math.nan, math.nan) if interval is None else (interval.low, interval.high)
    return [statistics.median(estimates), *bounds]


def new_adjustments(rounds: Entries, count: int) -> Entries:
    """Return the ADJUSTMENT entries of a results file of so many values, before any time is adjusted."""
    entries = np.zeros(count, ADJUSTMENT)
    for name in ADJUSTED:
        entries[name] = math.nan
    digested = rounds.copy()
    digested["entry"] = 0  # a digest does not depend on where the rounds stand
    starts = np.flatnonzero(np.diff(rounds["entry"], prepend=-1))
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(rounds)], strict=False):
        digest = hashlib.blake2b(digested[start:stop].tobytes(), digest_size=8).digest()
        entries["rounds_digest"][rounds["entry"][start]] = int.from_bytes(digest, "big") | 1
    is_read = np.any([~np.isnan(rounds[name]) for name in GAUGES], axis=0)
    entries["is_gauged"][rounds["entry"][is_read]] = True
    return entries


# Sessions of a fleet --------------------------------------------------------------------------------------------------

# Sessions of identical code differ, and the blocks of a lane were measured in several (results/blocks.py). The anchors
# that each block measured again tell the difference for each series, less what gauges and controls explain of it. What
# a link leaves is a step at the border of two blocks, of the size of its error: a change point there must be larger.
FEWEST_ANCHORS = 4  # linked by fewer, values are no nearer to the truth than unlinked ones (docs/how-to/cluster.md)


@dataclass(frozen=True, eq=False)
class SessionLinks:
    """How the sessions of a fleet differ, from its recorded blocks, oldest first."""

    recorded: Sequence[Block]
    _moves: dict[tuple[int, int, str, str], list[float]] = field(default_factory=dict, init=False)

    @cached_property
    def _by_lane(self) -> Mapping[tuple[str, str], Sequence[tuple[Block, Times]]]:
        """The blocks of each machine and lane, with the times of its anchors."""
        by_lane: dict[tuple[str, str], list[tuple[Block, Times]]] = {}
        for block in self.recorded:
            times: dict[Series, dict[str, Time]] = {}
            for time in block.times:
                times.setdefault(time.series, {})[time.commit] = time
            for lane in block.lanes:
                by_lane.setdefault((block.machine, lane), []).append((block, times))
        return by_lane

    def of(self, key: SeriesKey, fit: Fit | None, commits: Set[str]) -> dict[str, Link]:
        """Return, for commits of a series, the link of their session to the series' first one.

        Commits of the first session, and of those with too few anchors in common with it, are left out.

        Args:
            fit: how the series is adjusted. None: it is not. commits: with a value of the series.
        """
        series = key.benchmark, (key.implementation, key.case)
        several = self._by_lane.get((key.machine, blocks.lane_of(series)), ())
        here = [(block, times) for block, times in several if not commits.isdisjoint(block.commits)]
        result: dict[str, Link] = {}
        for number, (block, times) in enumerate(here):
            pairs = list(self._pairs(here[0][1], times, series, fit)) if number else []
            if len(pairs) >= FEWEST_ANCHORS:
                linked = link(*zip(*pairs, strict=True))
                result |= {sha: linked for sha in block.commits if sha not in here[0][0].commits}
        return result

    def _pairs(self, first: Times, later: Times, series: Series, fit: Fit | None) -> Iterator[tuple[float, float]]:
        """Yield, for each anchor of two blocks, the step of a series' adjusted log times and its standard error."""
        for commit, after in later.get(series, {}).items():
            before = first.get(series, {}).get(commit)
            if before is None:
                continue
            step = math.log(after.seconds / before.seconds)
            for signal in fit.signals if fit is not None else ():
                if signal.name == CONTROLS_TOGETHER:
                    moves = self._of_controls(first, later, commit, series[0].partition(".")[2])
                else:
                    readings = (after.gauges.get(signal.name), before.gauges.get(signal.name))
                    moves = [math.log(readings[0] / readings[1])] if readings[0] and readings[1] else []
                if not moves:
                    break  # what is taken out of the values is not known of the anchor
                step -= signal.slope * statistics.fmean(moves)
            else:
                yield step, math.hypot(before.error, after.error)

    def _of_controls(self, first: Times, later: Times, commit: str, what: str) -> list[float]:
        """Return the steps of the controls of a device and cache state ("Cpu.time_hot") at an anchor of two blocks."""
        which = id(first), id(later), commit, what
        if which not in self._moves:
            both = (
                (times[commit].seconds, first[series][commit].seconds)
                for series, times in later.items()
                if series[1][0] in CONTROLS and series[0].partition(".")[2] == what
                if commit in times and commit in first.get(series, {})
            )
            self._moves[which] = [math.log(after / before) for after, before in both]
        return self._moves[which]
