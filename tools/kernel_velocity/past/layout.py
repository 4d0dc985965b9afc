"""All series as columns, one after the other in a scratch file.

The layout is made from the cache at every report, so it is never out of date. The scratch file has no name, so no crash
leaves it behind.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_velocity import units
from kernel_velocity.past.cache import Cache
from kernel_velocity.past.columns import TIMES, Indices
from kernel_velocity.past.packing import ENTRY, STORED, Series, key_of
from kernel_velocity.past.reading import Directory
from kernel_velocity.results.measurement import IntArray, SeriesKey
from kernel_velocity.results.records import Benchmark

# Note: tried polars 2.1 in place of this file and the cache's tables, rejected. Its import starts threads, so `forking`
# no longer shares a report between two processes: 10.2 s instead of 6.2 s of processor time in the longer one for 500
# commits of 1000 series from nothing, 4.4 s instead of 2.7 s with one more commit. Sorting 10,000 commits of 1000
# series takes 1,969 MB, where a whole report takes 798 MB.
BESIDE = np.iinfo(np.int32).max  # the position of a commit that is not on the first-parent line: behind all others
ADJUSTED = tuple(name for name in TIMES if name.startswith("adjusted"))

FILES = 256  # copied at a time
_ZEROS = bytes(1 << 20)


class Scratch:
    """Columns in a file without a name, mapped into memory.

    Pages that were used are released now and then. They come back from the file at the next access.
    """

    _MOST = 1_000_000  # values used between two releases: 100 MB; after half as many each page comes back once more

    def __init__(self, folder: Path | None, length: int, *, has_adjusted: bool) -> None:
        """Make the columns of STORED and ADJUSTED, position and commit, of a length, in a file in a folder.

        Args:
            has_adjusted: whether times will be adjusted. Otherwise ADJUSTED is NaN, takes no memory and is read-only.
        """
        kinds = {name: ENTRY[name] for name in STORED} | dict.fromkeys(("position", "commit"), np.dtype("<i4"))
        kinds |= dict.fromkeys(ADJUSTED if has_adjusted else (), np.dtype("<f8"))
        # widest first, so that each column begins at a multiple of its width
        ordered = sorted(kinds.items(), key=lambda pair: -pair[1].itemsize)
        size = max(sum(kind.itemsize for _, kind in ordered) * length, 1)
        with tempfile.TemporaryFile(dir=folder) as stream:
            # Not a hole, which a full disk would make a bus error of: this is an OSError.
            os.posix_fallocate(stream.fileno(), 0, size)
            # 640 MB of pages that are written in order take a second less than those that come as series need them.
            for _ in range(0, size, len(_ZEROS)):
                stream.write(_ZEROS)
            stream.flush()
            self._memory = mmap.mmap(stream.fileno(), size)
        self._used = 0
        self.columns: dict[str, NDArray[Any]] = dict.fromkeys(ADJUSTED, np.broadcast_to(np.nan, length))
        offset = 0
        for name, kind in ordered:
            self.columns[name] = np.frombuffer(self._memory, dtype=kind, count=length, offset=offset)
            offset += kind.itemsize * length
            if name in ADJUSTED:
                self.columns[name].fill(np.nan)
                self._release()

    def used(self, values: int) -> None:
        """Count values of all columns that were used, and release memory after many of them."""
        self._used += values
        if self._used > self._MOST:
            self._release()

    def _release(self) -> None:
        self._used = 0
        self._memory.madvise(mmap.MADV_DONTNEED)  # of a file's: its contents stay


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """The columns of all series. Series `keys[n]` has the slots `start[n]` to `stop[n]`, by position, then by path."""

    keys: tuple[SeriesKey, ...]
    start: Indices
    line_stop: Indices  # where its values beside the first-parent line begin
    stop: Indices
    commits: tuple[str, ...]  # full SHAs, in the order of the first-parent line, those beside it last
    files: Mapping[str, NDArray[np.int32]]  # path -> the slots of its values; -1: not shown
    shown: str  # digest: which series of the cache are shown, and as which of `keys`
    notes: tuple[str, ...]
    scratch: Scratch

    def part(self, number: int, *, on_line: bool = True) -> slice:
        """Return the slots of a series, with or without those of commits beside the line."""
        start, stop = int(self.start[number]), int((self.line_stop if on_line else self.stop)[number])
        self.scratch.used(stop - start)
        return slice(start, stop)

    def owners(self, slots: NDArray[np.int32]) -> Indices:
        """Return the numbers of the series that slots belong to."""
        return np.searchsorted(self.start, slots, side="right") - 1

    @property
    def columns(self) -> Mapping[str, NDArray[Any]]:
        """The columns by name: STORED, ADJUSTED, position and commit."""
        return self.scratch.columns

    @property
    def position(self) -> IntArray:
        """Of each value, the position of its commit on the first-parent line, or BESIDE."""
        return self.scratch.columns["position"]

    @property
    def commit(self) -> IntArray:
        """Of each value, the index of its commit in `commits`."""
        return self.scratch.columns["commit"]

    @cached_property
    def numbers(self) -> Mapping[SeriesKey, int]:
        """The number of every series."""
        return {key: number for number, key in enumerate(self.keys)}


@dataclass(frozen=True, kw_only=True, eq=False)
class _Groups:
    """Which series of the cache are one. A value without a version counts as one of today's version."""

    keys: tuple[SeriesKey, ...]
    member: NDArray[np.int64]  # number of a stored series -> index of its key; -1: not shown
    reasons: Mapping[int, str]  # number of a stored series -> why it is not shown


def build(cache: Cache, directory: Directory, order: Mapping[str, int], *, has_adjusted: bool) -> Layout:
    """Lay out all values of a cache that a trend or a commit's page shows.

    Args:
        cache: up to date. directory: what `reading.update` returned.
        order: commit -> its position on the first-parent line. has_adjusted: whether times will be adjusted.
    """
    commits = directory.commits
    paths = sorted(commits, key=lambda path: (order.get(commits[path], BESIDE), commits[path]))
    stored = cache.counts(commits.keys())
    groups = _groups(cache.names.series.values, stored, directory.benchmarks)
    sizes = np.zeros(len(groups.keys), np.int64)
    np.add.at(sizes, groups.member[groups.member >= 0], stored[groups.member >= 0])
    start = np.concatenate([[0], np.cumsum(sizes)])
    scratch = Scratch(cache.folder, int(start[-1]), has_adjusted=has_adjusted)
    left_out: Counter[tuple[str, str]] = Counter()
    for number, reason in groups.reasons.items():
        left_out[cache.names.series[number][2], reason] += int(stored[number])
    along = {commits[path]: order.get(commits[path], BESIDE) for path in paths}
    filling = _Filling(scratch, groups, start.copy(), along, left_out)

    def add(some: Sequence[str]) -> Iterator[tuple[str, NDArray[np.int32]]]:
        for first in range(0, len(some), FILES):
            paths = some[first : first + FILES]
            yield from zip(paths, filling.add([(commits[path], cache.entries(path)) for path in paths]), strict=True)

    on_line = sum(commits[path] in order for path in paths)  # those of commits beside it are the last
    files = dict(add(paths[:on_line]))
    line_stop = filling.stop.copy()
    files |= add(paths[on_line:])
    return Layout(
        keys=groups.keys,
        start=start[:-1],
        line_stop=line_stop[:-1],
        stop=filling.stop[:-1],
        commits=tuple(along),
        files=files,
        shown=hashlib.sha256(groups.member.tobytes() + repr(groups.reasons).encode()).hexdigest(),
        notes=left_out_notes(+left_out),
        scratch=scratch,
    )


def _groups(series: Sequence[Series], stored: NDArray[np.int64], benchmarks: Mapping[str, Benchmark] | None) -> _Groups:
    """Return which series of the cache are one.

    Args:
        series: by number, from 1 on. stored: how many values each number has. None where all its files are gone.
        benchmarks: what benchmarks.json says. None: it cannot be read.
    """
    numbers: dict[SeriesKey, int] = {}
    member, reasons = np.full(len(stored), -1, np.int64), {}
    for number in np.flatnonzero(stored).tolist():
        _, _, benchmark, _, _, version = series[number - 1]
        reason = unshowable(benchmark, version, benchmarks)
        if reason is not None:
            reasons[number] = reason
            continue
        current = (benchmarks or {}).get(benchmark)
        key = key_of(series[number - 1], current.version if current else None)
        member[number] = numbers.setdefault(key, len(numbers))
    return _Groups(keys=tuple(numbers), member=member, reasons=reasons)


def unshowable(name: str, version: str | None, benchmarks: Mapping[str, Benchmark] | None) -> str | None:
    """Return why the values of a benchmark and version have no place on a trend. None where they have one.

    Args:
        name: of the benchmark. version: as stored with the values. None: not stored.
        benchmarks: the contents of benchmarks.json. None: it cannot be read.
    """
    if benchmarks is None:
        return None
    benchmark = benchmarks.get(name)
    if benchmark is None:
        return "is no longer in benchmarks.json"
    if version is not None and version != benchmark.version:
        return f"was recorded in another version ({version[:12]}, now it is {benchmark.version[:12]})"
    return None


def duplicate_note(commit: str, machine: str) -> str:
    """Explain that a commit has two values for one series, and that the first is shown."""
    return f"stands in two files of a commit, of which the first is shown ({commit[:8]} on {machine})"


def left_out_notes(counts: Mapping[tuple[str, str], int]) -> tuple[str, ...]:
    """Return a note for each cause for which values are not shown, with its count.

    Args:
        counts: how many values of a benchmark are not shown for a reason. What a reason has in parentheses is no part
            of the cause.
    """
    causes: dict[str, dict[tuple[str, str], int]] = {}
    for (benchmark, reason), number in sorted(counts.items()):
        causes.setdefault(reason.partition(" (")[0], {})[benchmark, reason] = number
    return tuple(_left_out_note(numbers) for numbers in causes.values())


def _left_out_note(numbers: Mapping[tuple[str, str], int]) -> str:
    benchmarks = {benchmark for benchmark, _ in numbers}
    of = f" of {units.count(len(benchmarks), 'such benchmark')}" if len(benchmarks) > 1 else ""
    return f"{' '.join(next(iter(numbers)))}: {units.count(sum(numbers.values()), 'value')}{of} kept, not shown"


class _Filling:
    """Copies results files into the columns, many at a time, so that the values of a series are written together."""

    def __init__(
        self,
        scratch: Scratch,
        groups: _Groups,
        start: Indices,
        order: Mapping[str, int],
        left_out: Counter[tuple[str, str]],
    ) -> None:
        """Take the commits in the order of their files, with their positions."""
        self._scratch, self._groups, self._left_out = scratch, groups, left_out
        self.stop = start  # where the next value of each series goes; one more, which -1 means
        self._shas = tuple(order)
        self._numbers = {sha: number for number, sha in enumerate(order)}
        self._positions = np.array([*order.values()], np.int32)
        self._last = np.full(len(start), -1, np.int64)  # number of the commit of each series' last value

    def add(self, files: Sequence[tuple[str, Mapping[str, NDArray[Any]]]]) -> Sequence[NDArray[np.int32]]:
        """Add the values of files: commit and columns of each. Return their slots, -1 for those that are not shown."""
        lengths = [len(entries["series"]) for _, entries in files]
        commit = np.repeat([self._numbers[sha] for sha, _ in files], lengths)
        group = self._groups.member[np.concatenate([entries["series"] for _, entries in files])]
        chosen = np.argsort(group, kind="stable")  # the values of a series one after the other, by commit
        group, commit = group[chosen], commit[chosen]
        before = np.where(np.diff(group, prepend=-2) == 0, np.roll(commit, 1), self._last[group])
        again = (group >= 0) & (commit == before)
        for index, number in zip(group[again].tolist(), commit[again].tolist(), strict=True):
            key = self._groups.keys[index]
            self._left_out[key.benchmark, duplicate_note(self._shas[number], key.machine)] += 1
        is_shown = (group >= 0) & ~again
        chosen, group, commit = chosen[is_shown], group[is_shown], commit[is_shown]
        counts = np.bincount(group, minlength=len(self.stop))
        slots = (self.stop - (np.cumsum(counts) - counts))[group] + np.arange(len(group))
        columns = self._scratch.columns
        for name in STORED:
            columns[name][slots] = np.concatenate([entries[name] for _, entries in files])[chosen]
        columns["position"][slots] = self._positions[commit]
        columns["commit"][slots] = commit
        self.stop += counts
        self._last[group] = commit
        self._scratch.used(len(slots))
        in_order = np.full(sum(lengths), -1, np.int32)
        in_order[chosen] = slots
        return np.split(in_order, np.cumsum(lengths)[:-1])
