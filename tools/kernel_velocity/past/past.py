"""The recorded past of a repository: open it, and query its series, commits, sessions and change points.

`open` brings the cache up to date and lays out every series as columns, with adjusted times. Nothing else reads a
results directory as a whole.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_velocity import direction, units
from kernel_velocity.direction import Better
from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.past import adjusted, cache, columns, layout, reading
from kernel_velocity.past.adjusted import Adjustments
from kernel_velocity.past.cache import Cache
from kernel_velocity.past.columns import TIMES, ByEntry, Columns
from kernel_velocity.past.layout import Layout
from kernel_velocity.past.packing import NO_TEXT, Entries, Names, key_of
from kernel_velocity.past.reading import Directory
from kernel_velocity.results import blocks, git, identity, sessions
from kernel_velocity.results.blocks import Block
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.lines import in_name
from kernel_velocity.results.measurement import (
    OUTCOMES,
    IntArray,
    Measurement,
    Outcome,
    SeriesKey,
)
from kernel_velocity.results.records import Benchmark, Commit, History, Machine
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.suite import config
from kernel_velocity.suite.config import Project

CACHE_FOLDER = Path(".asv", "cache", "report")  # of the cache, beside the results directory
SHOWN_COLUMNS = ("outcome", "rounds", "method", "interval_method", "remark", *TIMES)  # columns that pages show
COMMITS_LISTED = 5  # commits named in a note before it only counts them
_NOT_APPLICABLE = OUTCOMES.index(Outcome.NOT_APPLICABLE)
Sessions = tuple[tuple[str, SessionFacts], ...]  # with the full SHA that each measured


@dataclass(frozen=True, kw_only=True, eq=False)
class Tracked:
    """A series of errors, compiler figures or ceilings. Arrays have shape (commits with a value,)."""

    key: SeriesKey
    position: IntArray  # of the commit on the first-parent line, ascending
    value: FloatArray  # in the benchmark's unit; 0 or more
    began: FloatArray  # Unix time at which it was measured, s; NaN: not known


@dataclass(frozen=True, kw_only=True, eq=False)
class Past:
    """A results directory and its repository."""

    results: Path
    root: Path  # a folder of the repository
    folder: Path | None  # of the cache; None: there is none
    project: Project  # what the section of the repository says
    directory: Directory
    repository: History
    order: Mapping[str, int]  # commit -> its position on the first-parent line
    layout: Layout
    names: Names
    adjustments: Adjustments
    rounds: Mapping[str, Entries] = field(repr=False)  # by path, where they were wanted
    blocks: tuple[Block, ...]  # what a fleet measured, oldest first
    _tracked: Mapping[str, Entries] = field(repr=False)  # by path
    _columns: dict[SeriesKey, Columns] = field(default_factory=dict, init=False, repr=False)
    problems: tuple[str, ...]  # a line for each part that could not be read or shown

    @property
    def notes(self) -> tuple[str, ...]:
        """A line for each part that could not be read or shown, and for commits without a place in the history."""
        return (*self.problems, *_history_notes(self.repository, self.directory.commits.values(), self.paths))

    @property
    def machines(self) -> tuple[Machine, ...]:
        """Every machine's folder."""
        return self.directory.machines

    @property
    def benchmarks(self) -> Mapping[str, Benchmark]:
        """The benchmarks with a trend of benchmarks.json, by name."""
        return self.directory.benchmarks or {}

    @property
    def commits(self) -> Mapping[str, Commit]:
        """The commits with a result that the repository has, by SHA."""
        return self.repository.commits

    @property
    def line(self) -> tuple[str, ...]:
        """The first-parent line of HEAD, oldest first. `Columns.position` is an index into it."""
        return self.repository.line

    @cached_property
    def idle(self) -> frozenset[str]:
        """The commits of the line that touched nothing that a build depends on. None where every file may count."""
        return git.idle(self.root)

    @cached_property
    def side_commits(self) -> Mapping[str, git.SideCommit]:
        """The commits beside the line that have a value and that a merge brought to it, by SHA."""
        return git.side_commits(self.root, [sha for sha in self.paths if sha not in self.order])

    def beside(self, key: SeriesKey) -> Iterator[tuple[git.SideCommit, str | None, float, float]]:
        """Yield the values of a series at `side_commits`, with the hash of their timing method before them.

        Behind them is the Unix time, s, at which each was measured, NaN where it is unknown.
        """
        if not self.side_commits:
            return
        number = self.layout.numbers[key]
        names = ("commit", "outcome", "method", "began", "adjusted", "seconds")
        start = self.layout.line_stop[number]
        rows = (self.layout.columns[name][start : self.layout.stop[number]].tolist() for name in names)
        for commit, outcome, method, began, value, seconds in zip(*rows, strict=True):
            side = self.side_commits.get(self.layout.commits[commit])
            if side is not None and OUTCOMES[outcome] is Outcome.MEASURED:
                name = self.names.texts[method] if method else None
                yield side, name, seconds if math.isnan(value) else value, began

    @cached_property
    def keys(self) -> tuple[SeriesKey, ...]:
        """The series with a trend: with values on the first-parent line, and applicable (`columns.telling`)."""
        parts = [(key, self.layout.part(number)) for number, key in enumerate(self.layout.keys)]
        outcome = self.layout.columns["outcome"]
        applied = {key for key, part in parts if (outcome[part] != _NOT_APPLICABLE).any()}
        return tuple(columns.telling((key for key, part in parts if part.stop > part.start), applied))

    @cached_property
    def slots(self) -> Mapping[tuple[str, ...], SeriesKey]:
        """The series by slot and version. Of several PyTorch versions that share a slot, the one measured last."""
        keys = sorted(self.keys, key=lambda key: self.last_measured(key) or 0.0)
        return {
            (
                *(key.machine, identity.environment_of(key.environment, key.implementation)),
                *(key.benchmark, key.implementation, key.case, key.version),
            ): key
            for key in keys
        }

    @cached_property
    def platforms(self) -> frozenset[tuple[str, str]]:
        """The machines and environments that have measurements of commits that the repository has."""
        exists = np.array([sha in self.commits for sha in self.layout.commits], np.bool_)
        parts = ((key, self.layout.part(number, on_line=False)) for number, key in enumerate(self.layout.keys))
        return frozenset(
            (key.machine, key.environment) for key, part in parts if exists[self.layout.commit[part]].any()
        )

    @cached_property
    def paths(self) -> Mapping[str, tuple[str, ...]]:
        """Commit of the repository -> its results files with a value to show."""
        paths: dict[str, list[str]] = {}
        for path, sha in self.directory.commits.items():
            if sha in self.commits and (self.layout.files[path] >= 0).any():
                paths.setdefault(sha, []).append(path)
        return {sha: tuple(several) for sha, several in paths.items()}

    def columns(self, key: SeriesKey) -> Columns:
        """Return one of the series as columns: views of what the past holds, the same ones each time."""
        columns = self._columns.get(key)
        if columns is None:
            columns = self._columns[key] = self._columns_of(key)
        self.layout.scratch.used(len(columns))
        return columns

    def _columns_of(self, key: SeriesKey) -> Columns:
        part = self.layout.part(self.layout.numbers[key])
        arrays = {name: self.layout.columns[name][part] for name in ("position", *SHOWN_COLUMNS)}
        texts, remarks = self.names.texts, self.names.remarks
        times: dict[str, Any] = {name: arrays[name] for name in TIMES}
        methods, method = _ranked(arrays["method"])
        remark = arrays["remark"]
        return Columns(
            key=key,
            position=arrays["position"],
            outcome=arrays["outcome"],
            rounds=arrays["rounds"],
            method=method,
            methods=tuple(texts[number] for number in methods),
            interval_methods=ByEntry(arrays["interval_method"], texts.__getitem__),
            reasons=ByEntry(remark, lambda number: remarks[number][0] or "", self.has_reason),
            warnings=ByEntry(remark, lambda number: remarks[number][1], self.has_warning),
            remarks=remark,
            link_error=self._link_error(key, part),
            **self.amounts(key),
            better=self.better(key.benchmark),
            **times,
        )

    def _link_error(self, key: SeriesKey, part: slice) -> FloatArray | None:
        errors = self.adjustments.link_errors.get(key)
        if errors is None:
            return None
        return np.array([errors.get(slot, 0.0) for slot in range(part.start, part.stop)])

    @cached_property
    def has_reason(self) -> NDArray[np.bool_]:
        """By number of a remark, whether it says why there is no time."""
        return np.array([False, *(bool(reason) for reason, _ in self.names.remarks.values)])

    @cached_property
    def has_warning(self) -> NDArray[np.bool_]:
        """By number of a remark, whether it has warnings."""
        return np.array([False, *(bool(warnings) for _, warnings in self.names.remarks.values)])

    def amounts(self, key: SeriesKey) -> dict[str, Any]:
        """Return FLOP and bytes per call of a series, None where unknown, and the unit of its values."""
        benchmark = self.benchmarks.get(key.benchmark)
        return {
            "flop": self.flop(key),
            "bytes_moved": None if benchmark is None else benchmark.bytes_moved.get(key.case),
            "unit": identity.unit(key.benchmark) if benchmark is None else benchmark.unit,
        }

    def better(self, benchmark: str) -> Better:
        """Return which values of a benchmark are better, as the repository's section, its author, or its unit says."""
        recorded = self.benchmarks.get(benchmark)
        stated = self.project.better_of(benchmark)
        return direction.better(benchmark, stated=stated) if recorded is None else stated or recorded.better

    def flop(self, key: SeriesKey) -> float | None:
        """Return the floating-point operations per call of a series. None where unknown."""
        benchmark = self.benchmarks.get(key.benchmark)
        return None if benchmark is None else benchmark.flop.get(key.case)

    def inputs(self, path: str) -> tuple[str, str, str | None]:
        """Return what changes whenever the values of a results file would: its path, signature and adjusted times."""
        return path, self.directory.files[path].signature, self.adjustments.digests.get(path)

    def series_of(self, path: str) -> NDArray[np.int64]:
        """Return the numbers in `layout.keys` of the series that a results file has values of, in its order."""
        slots = self.layout.files[path]
        return self.layout.owners(slots[slots >= 0])

    def at(self, commit: str) -> Iterator[Measurement]:
        """Yield the measurements of a commit (full SHA), in the order of its results files."""
        for path in self.paths.get(commit, ()):
            yield from self.in_file(path)

    def in_file(self, path: str) -> Iterator[Measurement]:
        """Yield the measurements of a results file, those of `series_of`."""
        slots = self.layout.files[path]
        slots, commit = slots[slots >= 0], self.directory.files[path].commit
        arrays = {name: column[slots].tolist() for name, column in self.layout.columns.items()}
        for index, number in enumerate(self.layout.owners(slots).tolist()):
            row = {name: array[index] for name, array in arrays.items()}
            yield self._measurement(self.layout.keys[number], commit, row)

    def _measurement(self, key: SeriesKey, commit: str, row: Mapping[str, Any]) -> Measurement:
        texts = self.names.texts
        reason, warnings = self.names.remarks[row["remark"]] if row["remark"] else (None, ())
        return columns.measurement(
            key,
            commit,
            row,
            interval_method=texts[row["interval_method"]] if row["interval_method"] else "",
            method=texts[row["method"]] if row["method"] else None,
            reason=reason,
            warnings=warnings,
            **self.amounts(key),
        )

    def last_measured(self, key: SeriesKey) -> float | None:
        """Return the Unix time, s, at which a series was last measured. None where unknown."""
        began = float(self._began[self.layout.numbers[key]])
        return None if math.isnan(began) else began

    @cached_property
    def _began(self) -> FloatArray:
        """When each series of the layout was last measured, Unix time, s. NaN where unknown."""
        began = np.full(len(self.layout.keys), np.nan)
        for number in range(len(self.layout.keys)):
            part = self.layout.part(number, on_line=False)
            if part.stop > part.start:
                began[number] = np.fmax.reduce(self.layout.columns["began"][part])
        return began

    @cached_property
    def tracked(self) -> Mapping[SeriesKey, Tracked]:
        """The series of errors, figures and ceilings, by key. Of a commit in two files, the first counts."""
        values: dict[int, dict[int, tuple[float, float]]] = {}  # number of a series -> position -> value, began
        for path, commit in self.directory.commits.items():
            if path in self._tracked and commit in self.order:
                for number, value, began in self._tracked[path].tolist():
                    if value >= 0:
                        values.setdefault(number, {}).setdefault(self.order[commit], (value, began))
        tracked = {}
        for number, by_position in values.items():
            ordered = sorted(by_position.items())
            pairs = np.array([pair for _, pair in ordered])
            key = key_of(self.names.series[number])
            tracked[key] = Tracked(
                key=key,
                position=np.array([position for position, _ in ordered], np.int32),
                value=pairs[:, 0],
                began=pairs[:, 1],
            )
        return dict(sorted(tracked.items()))

    @cached_property
    def with_ceilings(self) -> tuple[str, ...]:
        """The results files with ceilings of a device, by name. Few have some."""
        series = enumerate(self.names.series.values, start=1)
        numbers = [number for number, (_, _, benchmark, *_) in series if benchmark.startswith(f"{identity.DEVICE}.")]
        paths = sorted(self._tracked.keys() & self.directory.files.keys())
        return tuple(path for path in paths if np.isin(self._tracked[path]["series"], numbers).any())

    def path(self, machine: str, environment: str, commit: str) -> str:
        """Return the results file of a commit (full SHA), "" where there is none."""
        return self._path_of.get((machine, in_name(environment), commit), "")

    @cached_property
    def _path_of(self) -> Mapping[tuple[str, str, str], str]:
        files = ((path, *path.partition("/")[::2], commit) for path, commit in self.directory.commits.items())
        return {
            (machine, name.removesuffix(".json").partition("-")[2], commit): path
            for path, machine, name, commit in files
        }

    def sessions(self, machine: str, environment: str) -> Sessions:
        """Return the sessions of a machine and environment, oldest first, without those like the one before."""
        pairs = (
            (sha, session)
            for sha in self.paths
            for session in self._sessions.get(self.path(machine, environment, sha), ())
        )
        return tuple(sorted(pairs, key=lambda pair: pair[1].began))

    @cached_property
    def _sessions(self) -> Mapping[str, tuple[SessionFacts, ...]]:
        """The sessions of each results file, by path."""
        files = self.directory.files.items()
        return {path: tuple(map(sessions.decode, facts.sessions)) for path, facts in files if facts.sessions}

    def sessions_of(self, path: str) -> tuple[SessionFacts, ...]:
        """Return the sessions that measured a results file, as recorded."""
        return self._sessions.get(path, ())


def open(  # noqa: A001 - `past.open(...)` reads like what it does
    results: Path,
    repository: Path,
    *,
    folder: Path | None = None,
    commits: Collection[str] | None = None,
    rounds: bool = False,
) -> Past:
    """Read what changed since the cache was written, and lay everything out.

    Args:
        results: asv's results directory. repository: a folder of the repository.
        folder: of the cache. None: `CACHE_FOLDER` beside the results directory. Where it cannot be used, everything is
            read, and a note says so.
        commits: full SHAs. With them, only these commits are read, without the cache and without adjusted times, which
            need the whole history.
        rounds: whether the rounds of every value are wanted.

    Raises:
        ResultsError: `results` is no directory.
        HistoryError: `repository` is no git repository with a commit.
        UsageError: its section is malformed.
    """
    if commits is not None:
        return _read(Cache(None, results, repository), results, repository, (), commits)
    folder = results.resolve().parent / CACHE_FOLDER if folder is None else folder
    try:
        return _with_cache(folder, results, repository, rounds=rounds)
    except (OSError, sqlite3.Error) as error:  # a full disk among them: SQLite's own error, and no OSError
        note = f"the cache cannot be used, so everything was read anew: {error}; another is named with --cache"
        return _read(Cache(None, results, repository), results, repository, (note,), rounds=rounds)


def _with_cache(folder: Path, results: Path, repository: Path, *, rounds: bool) -> Past:
    try:
        return _read(Cache(folder, results, repository), results, repository, (), rounds=rounds)
    # The cache is damaged inside. If it is not, reading anew fails in the same way.
    except (sqlite3.DatabaseError, ValueError, LookupError, TypeError, OverflowError):
        cache.remove(folder)
        return _read(Cache(folder, results, repository), results, repository, (), rounds=rounds)


def _read(
    opened: Cache,
    results: Path,
    repository: Path,
    notes: tuple[str, ...],
    only: Collection[str] | None = None,
    *,
    rounds: bool = False,
) -> Past:
    try:
        project = config.project(repository)
        directory = reading.update(opened, results, only)
        commits = git.read(repository, dict.fromkeys(directory.commits.values()))
        opened.save()
        order = {sha: position for position, sha in enumerate(commits.line)}
        with_rounds = sorted(opened.with_rounds() & directory.files.keys())
        laid_out = layout.build(opened, directory, order, has_adjusted=only is None and bool(with_rounds))
        unread: list[str] = []
        recorded = tuple(blocks.read(results, unread)) if only is None else ()
        adjustments = adjusted.fill(opened, laid_out, with_rounds, recorded) if only is None else Adjustments()
        opened.save()
        tracked = opened.tracked()
        rounds_of = {path: opened.rounds(path) for path in with_rounds} if rounds else {}
    finally:
        opened.close()
    return Past(
        results=results,
        root=repository,
        folder=opened.folder,
        project=project,
        directory=directory,
        repository=commits,
        order=order,
        layout=laid_out,
        names=opened.names,
        adjustments=adjustments,
        rounds=rounds_of,
        _tracked=tracked,
        blocks=recorded,
        problems=(*notes, *directory.notes, *laid_out.notes, *unread),
    )


def _ranked(numbers: NDArray[np.int32]) -> tuple[list[int], NDArray[np.int32]]:
    """Return the distinct numbers in order of appearance, and the index of each number in them, -1 for NO_TEXT."""
    if _is_constant(numbers):  # nearly always; its index takes no memory
        used = [number for number in numbers[:1].tolist() if number != NO_TEXT]
        return used, np.broadcast_to(np.int32(len(used) - 1), len(numbers))
    used = [number for number in dict.fromkeys(numbers.tolist()) if number != NO_TEXT]
    positions = np.full(max(used, default=0) + 1, -1, np.int32)
    positions[used] = np.arange(len(used))
    return used, positions[numbers]


def _is_constant(column: NDArray[Any]) -> bool:
    """Return whether all values of a column are the same, NaN included."""
    if not len(column):
        return True
    if np.isnan(column[0]):
        return bool(np.isnan(column).all())
    return bool(column[0] == column[-1]) and bool((column == column[0]).all())  # most differ at the ends


def _history_notes(history: History, recorded: Collection[str], shown: Collection[str]) -> Iterator[str]:
    """Yield notes on commits without a place in the history.

    Args:
        recorded: the commits of the results files, in their order. shown: those with a value to show.
    """
    line = frozenset(history.line)
    gone = [sha[:SHORT] for sha in dict.fromkeys(recorded) if sha not in history.commits]
    beside = [sha[:SHORT] for sha in dict.fromkeys(shown) if sha in history.commits and sha not in line]
    if gone:
        names = units.listed(gone, COMMITS_LISTED)
        yield f"results of commits that the repository does not have are kept, not shown: {names}"
    if beside:
        names = units.listed(beside, COMMITS_LISTED)
        yield f"commits off the first-parent line of HEAD have a page and are on no trend: {names}"
    if history.shallow:
        yield "the clone is shallow, so trends may begin too late: run `git fetch --unshallow`"
