"""The adjusted times of a layout: those that are kept, and what they do not reach, computed.

A time follows from how its series is adjusted, which is fitted on the first rounds of the series, and from the rounds
of its commit. Both are kept with digests of what they followed from; so one more commit costs its own rounds, until the
basis grows.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernel_velocity.results.measurement import Fit, SeriesKey
from kernel_velocity.series import adjusted_rounds, measured
from kernel_velocity.series.adjusted import Bases, Series
from kernel_velocity.series.cache import Cache
from kernel_velocity.series.layout import ADJUSTED, Layout
from kernel_velocity.series.packing import Entries
from kernel_velocity.stats import adjust_series as adjusted_series
from kernel_velocity.stats.adjust import Logs


@dataclass(frozen=True, kw_only=True)
class Filled:
    """What was done."""

    computed: int  # adjusted times that were computed
    fits: Mapping[SeriesKey, Fit]  # how the newest value of each series was adjusted
    digests: Mapping[str, str]  # of the adjusted times of each results file that has rounds


def fill(cache: Cache, layout: Layout) -> Filled:
    """Fill in the adjusted times. `cache.save` makes them last."""
    for name in ADJUSTED:
        for number in range(len(layout.keys)):
            layout.columns[name][layout.part(number, on_line=False)] = math.nan
    timed = cache.with_rounds()
    work = _Work(cache, layout, tuple(path for path in layout.files if path in timed))
    if not work.paths:
        return Filled(computed=0, fits={}, digests={})
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
            known = adjusted_rounds.unfreed(self.cache.rounds(path), len(self.layout.files[path]))
        return known

    def free(self, series: Sequence[Series]) -> int:
        """Compute the times that are not kept, and keep them; return how many."""
        owner, stale, commit = np.zeros(len(self.told), np.int32), adjusted_rounds.none(self.layout), self.layout.commit
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
        wanted = adjusted_rounds.none(self.layout)
        for slot, one in values:
            if one.fit is not None:
                wanted[slot] = True
                if one.beside is not None:
                    wanted[one.beside.slots[:, commit]] = True
        found = adjusted_rounds.read(self.cache, self.layout, self._paths[commit], wanted)
        told: dict[tuple[int, int], Logs] = {}
        for slot, one in values:
            times = [math.nan] * len(ADJUSTED)
            if one.fit is not None:
                asked = id(one.beside), id(one.centres)
                if one.beside is not None and asked not in told:
                    controls = one.beside.rounds(found, np.array([commit], np.int32))
                    told[asked] = adjusted_series.witnessed(controls, one.centres)
                estimates = adjusted_series.freed(one.fit, found.of([slot]), told.get(asked, {}))
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
    """Return ADJUSTED of the adjusted estimates of a commit's rounds, s."""
    fair = measured.fair(estimates)
    bounds = fair.interval
    return [fair.seconds, *((math.nan, math.nan) if bounds is None else (bounds.low, bounds.high))]
