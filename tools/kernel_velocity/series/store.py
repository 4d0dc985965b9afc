"""What a site is made from, series by series: the cache brought up to date, laid out, and asked."""

from __future__ import annotations

import hashlib
import math
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.results import git
from kernel_velocity.results.measurement import OUTCOMES, Adjusted, Fit, Interval, Measurement, Outcome, SeriesKey
from kernel_velocity.results.records import History
from kernel_velocity.series import adjusted as adjusted_columns
from kernel_velocity.series import cache as cached_results
from kernel_velocity.series import changes, measured
from kernel_velocity.series import layout as series_layout
from kernel_velocity.series.cache import Cache, Found
from kernel_velocity.series.columns import TIMES, ByEntry, Columns
from kernel_velocity.series.layout import Layout
from kernel_velocity.series.packing import NOTHING, Names, Numbers

SHOWN = ("outcome", "rounds", "method", "interval_method", "remark", *TIMES)  # columns that pages show
_NOT_APPLICABLE = OUTCOMES.index(Outcome.NOT_APPLICABLE)


@dataclass(frozen=True, kw_only=True, eq=False)
class Store:
    """A results directory and its repository, read."""

    found: Found
    past: History
    order: Mapping[str, int]  # commit -> its place on the first-parent line
    layout: Layout
    names: Names
    computed: int  # adjusted times that were computed for it
    fits: Mapping[SeriesKey, Fit]  # how the newest adjusted time of a series was made
    adjusted: Mapping[str, str]  # path of a results file -> digest of the adjusted times of its values
    notes: tuple[str, ...]

    @cached_property
    def keys(self) -> tuple[SeriesKey, ...]:
        """The series with a trend: values on the first-parent line, and something to say (`trends.telling`)."""
        parts = [(key, self.layout.part(number)) for number, key in enumerate(self.layout.keys)]
        outcome = self.layout.columns["outcome"]
        applied = {key for key, part in parts if (outcome[part] != _NOT_APPLICABLE).any()}
        return tuple(changes.telling((key for key, part in parts if part.stop > part.start), applied))

    @cached_property
    def places(self) -> frozenset[tuple[str, str]]:
        """The machines and environments that have measurements of commits that the repository has."""
        had = np.array([sha in self.past.commits for sha in self.layout.commits], np.bool_)
        parts = ((key, self.layout.part(number, on_line=False)) for number, key in enumerate(self.layout.keys))
        return frozenset((key.machine, key.environment) for key, part in parts if had[self.layout.commit[part]].any())

    @cached_property
    def paths(self) -> Mapping[str, tuple[str, ...]]:
        """Commit -> its results files that have something to show; those of commits that the repository has."""
        paths: dict[str, list[str]] = {}
        for path, sha in self.found.commits.items():
            if sha in self.past.commits and (self.layout.files[path] >= 0).any():
                paths.setdefault(sha, []).append(path)
        return {sha: tuple(several) for sha, several in paths.items()}

    def series(self, key: SeriesKey) -> Columns:
        """Return one of the series as columns."""
        part = self.layout.part(self.layout.numbers[key])
        columns = {name: self.layout.columns[name][part] for name in ("place", *SHOWN)}
        texts, remarks = self.names.texts, self.names.remarks
        times: dict[str, Any] = {name: columns[name] for name in TIMES}
        methods, method = _ranked(columns["method"])
        remark = columns["remark"]
        return Columns(
            key=key,
            place=columns["place"],
            outcome=columns["outcome"],
            rounds=columns["rounds"],
            method=method,
            methods=tuple(texts[number] for number in methods),
            interval_methods=ByEntry(columns["interval_method"], texts.__getitem__),
            reasons=ByEntry(self.having[0][remark], lambda number: remarks[number][0] or ""),
            warnings=ByEntry(self.having[1][remark], lambda number: remarks[number][1]),
            remarks=remark.tobytes(),
            **self._amounts(key),
            **times,
        )

    @cached_property
    def having(self) -> tuple[NDArray[np.int32], ...]:
        """By the number of a remark, the same number, NOTHING for those that have no reason (0) or no warnings (1)."""
        known = list(enumerate(self.names.remarks.things, start=1))
        return tuple(
            np.array([NOTHING, *(number if remark[side] else NOTHING for number, remark in known)], np.int32)
            for side in (0, 1)
        )

    def _amounts(self, key: SeriesKey) -> Any:
        known = (self.found.benchmarks or {}).get(key.benchmark)
        return {
            "flop": self.flop(key),
            "bytes_moved": None if known is None else known.bytes_moved.get(key.case),
        }

    def flop(self, key: SeriesKey) -> float | None:
        """Return the floating-point operations per call of a series; None where nothing says how many."""
        known = (self.found.benchmarks or {}).get(key.benchmark)
        return None if known is None else known.flop.get(key.case)

    def digest(self, key: SeriesKey, first: int = 0, last: int | None = None) -> str:
        """Return what changes whenever anything that `series` says of a series does, in whatever cache or history.

        Args:
            first: the first entry that counts. last: the one behind the last; None: all further ones.
        """
        whole = self.layout.part(self.layout.numbers[key])
        part = slice(whole.start + first, whole.stop if last is None else whole.start + last)
        made = hashlib.sha256(repr(self._amounts(key)).encode())
        for name in SHOWN:
            column = self.layout.columns[name][part]
            made.update((self.said[name][column] if name in self.said else column).tobytes())
        made.update(self._shas[self.layout.commit[part]].tobytes())
        return made.hexdigest()

    @cached_property
    def said(self) -> Mapping[str, NDArray[np.uint64]]:
        """Return, for the columns of numbers, a digest of what each number stands for: a new cache numbers anew."""
        texts, remarks = self.names.texts, self.names.remarks
        columns: dict[str, Numbers[Any]] = {"method": texts, "interval_method": texts, "remark": remarks}
        return {name: _digests(numbers, self.layout.columns[name]) for name, numbers in columns.items()}

    @cached_property
    def _shas(self) -> NDArray[np.uint64]:
        """The first 64 bits of every commit's SHA."""
        return np.array([int(sha[:16], 16) for sha in self.layout.commits], np.uint64)

    def at(self, commit: str) -> Iterator[Measurement]:
        """Yield everything measured of a commit, in the order of its results files."""
        for path in self.paths.get(commit, ()):
            slots = self.layout.files[path]
            slots = slots[slots >= 0]
            columns = {name: column[slots].tolist() for name, column in self.layout.columns.items()}
            for place, number in enumerate(self.layout.owners(slots).tolist()):
                row = {name: column[place] for name, column in columns.items()}
                yield self._measurement(self.layout.keys[number], commit, row)

    def _measurement(self, key: SeriesKey, commit: str, row: Mapping[str, Any]) -> Measurement:
        texts = self.names.texts
        reason, warnings = self.names.remarks[row["remark"]] if row["remark"] else (None, ())
        method = texts[row["interval_method"]] if row["interval_method"] else ""
        fair = _known(row["adjusted"])
        return Measurement(
            key=key,
            commit=commit,
            outcome=OUTCOMES[row["outcome"]],
            seconds=_known(row["seconds"]),
            interval=_interval(row["low"], row["high"], method),
            rounds=row["rounds"] if row["rounds"] >= 0 else None,
            adjusted=None
            if fair is None
            else Adjusted(seconds=fair, interval=_interval(row["adjusted_low"], row["adjusted_high"], method)),
            method=texts[row["method"]] if row["method"] else None,
            reason=reason,
            warnings=warnings,
            **self._amounts(key),
        )

    def last_measured(self, key: SeriesKey) -> float | None:
        """Return the Unix time, s, at which a series was measured last; None where nothing says when."""
        return _known(float(self._began[self.layout.numbers[key]]))

    @cached_property
    def _began(self) -> FloatArray:
        """Return when each series of the layout was measured last, Unix time, s; NaN where nothing says when."""
        layout = self.layout
        found = np.full(len(layout.keys), np.nan)
        for number in range(len(layout.keys)):
            part = layout.part(number, on_line=False)
            if part.stop > part.start:
                found[number] = np.fmax.reduce(layout.columns["began"][part])
        return found


def _ranked(numbers: NDArray[np.int32]) -> tuple[list[int], NDArray[np.int32]]:
    """Return the numbers that there are, in order of appearance, and the place of each among them, -1 for NOTHING."""
    used = [number for number in dict.fromkeys(numbers.tolist()) if number != NOTHING]
    places = np.full(max(used, default=0) + 1, -1, np.int32)
    places[used] = np.arange(len(used))
    return used, places[numbers]


def _digests(numbers: Numbers[Any], used: NDArray[np.int32]) -> NDArray[np.uint64]:
    """Return a digest of the thing of every number that is used, shape (numbers + 1,); 0 for NOTHING."""
    is_used = np.zeros(len(numbers.things) + 1, np.bool_)
    is_used[used] = True
    found = np.zeros(len(is_used), np.uint64)
    for number in (np.flatnonzero(is_used[1:]) + 1).tolist():
        said = repr(numbers[number]).encode("utf-8", "surrogatepass")
        found[number] = int.from_bytes(hashlib.sha256(said).digest()[:8], "big")
    return found


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _interval(low: float, high: float, method: str) -> Interval | None:
    return None if math.isnan(low) or math.isnan(high) else Interval(low=low, high=high, method=method)


def read(results: Path, repository: Path, folder: Path | None) -> Store:
    """Read what changed since the cache in a folder was written, and lay everything out.

    Args:
        results: asv's results directory. repository: a folder of the repository.
        folder: the cache's; where it cannot be used, everything is read, and a note says so.

    Raises:
        ResultsError: `results` is no directory.
        HistoryError: `repository` is no git repository with a commit.
    """
    if folder is None:
        return _read(Cache(None, results, repository), results, repository, ())
    try:
        return _with_cache(folder, results, repository)
    except (OSError, sqlite3.Error) as error:  # a full disk among them: SQLite's own error, and no OSError
        note = f"the cache cannot be used, so everything was read anew: {error}; another is named with --cache"
        return _read(Cache(None, results, repository), results, repository, (note,))


def _with_cache(folder: Path, results: Path, repository: Path) -> Store:
    cache = Cache(folder, results, repository)
    try:
        return _read(cache, results, repository, ())
    # damaged where it looked whole, or else it fails again
    except (sqlite3.DatabaseError, ValueError, LookupError, TypeError, OverflowError):
        cached_results.remove(folder)
        return _read(Cache(folder, results, repository), results, repository, ())


def _read(cache: Cache, results: Path, repository: Path, notes: tuple[str, ...]) -> Store:
    try:
        found = cached_results.update(cache, results)
        past = git.read(repository, dict.fromkeys(found.commits.values()))
        cache.save()
        order = {sha: place for place, sha in enumerate(past.line)}
        layout = series_layout.build(cache, found, order)
        filled = adjusted_columns.fill(cache, layout)
        cache.save()
    finally:
        cache.close()
    store = Store(
        found=found,
        past=past,
        order=order,
        layout=layout,
        names=cache.names,
        computed=filled.computed,
        fits=filled.fits,
        adjusted=filled.digests,
        notes=notes,
    )
    said = measured.history_notes(past, found.commits.values(), store.paths)
    return replace(store, notes=(*notes, *found.notes, *layout.notes, *said))
