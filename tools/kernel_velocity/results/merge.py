"""asv's results files as rows that can be merged: a row per benchmark, a cell per combination of its parameters."""

from __future__ import annotations

import itertools
import math
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asv.results import Results

from kernel_velocity.harness.telemetry import Round
from kernel_velocity.results.asv_file import Series, StoredFile
from kernel_velocity.results.reader import parameter
from kernel_velocity.results.records import AGREEMENT

Params = tuple[str, ...]  # as asv stores them: the repr of each


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What asv stores of one combination of parameters, and on how much it rests."""

    value: float | None  # seconds per call, or a track's unit; NaN: does not apply or was not asked for; None: failed
    stats: Mapping[str, float] | None
    samples: tuple[float, ...] | None  # round estimates, s per call
    evidence: int  # rounds of a value; lines that say why, where there is none
    method: str | None = None  # hash of the timing method, where telemetry says

    @property
    def measured(self) -> bool:
        """Whether there is a value."""
        return self.value is not None and math.isfinite(self.value)

    @property
    def failed(self) -> bool:
        """Whether it was tried and gave none."""
        return self.value is None

    @property
    def rank(self) -> tuple[int, int]:
        """How much it says: a value, before a failure, before n/a (asv stores "not asked for" as the same)."""
        return (2 if self.measured else 1 if self.failed else 0), self.evidence

    def same_as(self, other: Cell) -> bool:
        """Whether the other says the same; two NaN do."""
        if not self.measured or not other.measured:
            return (self.measured, self.failed) == (other.measured, other.failed)
        return (self.value, self.samples) == (other.value, other.samples)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One benchmark of a results file."""

    version: str | None
    axes: tuple[tuple[str, ...], ...]
    cells: Mapping[Params, Cell]  # every combination of the axes
    started_at: int | None  # Unix time, ms (asv's)
    duration: float | None  # s
    profile: str | None


def load(path: Path) -> Any:
    """Return asv's object of a results file.

    Raises:
        ResultsError: it is not a results file.
    """
    StoredFile(path)  # checks what asv does not
    return Results.load(str(path))


def rows(results: Any, rounds: Mapping[Series, Sequence[Round]], failures: Mapping[Series, int]) -> dict[str, Row]:
    """Return the rows of a results file by benchmark.

    Args:
        results: asv's object. rounds: of each series in the telemetry beside it, oldest first; they count where asv
            stored neither a count nor samples, and the value is theirs. failures: the number of lines that say why a
            series has no value.
    """
    return {name: _row(results, name, rounds, failures) for name in results.get_all_result_keys()}


def series(name: str, params: Params) -> Series:
    """Return a cell's series as telemetry names it."""
    return name, tuple(parameter(text) for text in params)


def _row(results: Any, name: str, rounds: Mapping[Series, Sequence[Round]], failures: Mapping[Series, int]) -> Row:
    axes = results.get_result_params(name)
    columns = [get(name, axes) for get in (results.get_result_value, results.get_result_stats)]
    samples = results.get_result_samples(name, axes)
    cells = {}
    for params, value, stats, drawn in zip(itertools.product(*axes), *columns, samples, strict=True):
        key = series(name, params)
        cells[params] = _cell(value, stats, drawn, rounds.get(key, ()), failures.get(key, 0))
    return Row(
        version=results.benchmark_version.get(name),
        axes=tuple(tuple(axis) for axis in axes),
        cells=cells,
        started_at=results.started_at.get(name),
        duration=results.duration.get(name),
        profile=results._profiles.get(name),
    )


def _cell(
    value: float | None,
    stats: Mapping[str, float] | None,
    samples: list[float] | None,
    rounds: Sequence[Round],
    failures: int,
) -> Cell:
    if value is None or not math.isfinite(value):
        count = failures
    else:
        count = int((stats or {}).get("repeat") or len(samples or ()) or _resting_on(rounds, value))
    return Cell(
        value=value,
        stats=stats,
        samples=None if samples is None else tuple(samples),
        evidence=count,
        method=rounds[-1].method if rounds else None,
    )


def _resting_on(rounds: Sequence[Round], value: float) -> int:
    """Return how many rounds a value is the median of; 0 where they are of another run."""
    estimates = [item.estimate for item in rounds]
    if estimates and math.isclose(statistics.median(estimates), value, rel_tol=AGREEMENT):
        return len(rounds)
    return 0


def put(results: Any, name: str, row: Row) -> None:
    """Store a row in asv's object, in the place of the one that it had."""
    cells = [row.cells[params] for params in itertools.product(*row.axes)]
    results._benchmark_params[name] = [list(axis) for axis in row.axes]
    for column, values in (
        (results._results, [cell.value for cell in cells]),
        (results._stats, [cell.stats for cell in cells]),
        (results._samples, [None if cell.samples is None else list(cell.samples) for cell in cells]),
    ):
        column[name] = None if all(value is None for value in values) else values
    for kept, value in (
        (results._benchmark_version, row.version),
        (results._started_at, row.started_at),
        (results._duration, row.duration),
        (results._profiles, row.profile),
    ):
        kept[name] = value


def text(results: Any) -> str:
    """Return the results file of asv's object."""
    with tempfile.TemporaryDirectory() as folder:
        results.save(folder)
        (saved,) = Path(folder).glob("*/*.json")
        return saved.read_text(encoding="utf-8")
