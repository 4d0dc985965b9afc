"""asv's results files as rows that can be merged: a row per benchmark, a cell per combination of its parameters.

Which of two measurements of one series stays. Pure: rows and lines in, rows and lines out.

A value beats none, more rounds beat fewer, and what is here stays where the other is not better: so unpacking twice
changes nothing, and nothing that was measured is lost. Rows of different versions of a benchmark cannot be mixed; the
suite's version wins as a whole.
"""

from __future__ import annotations

import enum
import itertools
import math
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from asv.results import Results

from kernel_velocity.harness import telemetry
from kernel_velocity.harness.telemetry import Round
from kernel_velocity.results import failures
from kernel_velocity.results.asv_file import Series, StoredFile
from kernel_velocity.results.failures import Failure
from kernel_velocity.results.reader import parameter
from kernel_velocity.results.records import AGREEMENT

Params = tuple[str, ...]  # as asv stores them: the repr of each

Decode = Callable[[str], Round | Failure]


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


_NOT_ASKED = Cell(value=math.nan, stats=None, samples=None, evidence=0)  # as asv stores it


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


class Verdict(enum.Enum):
    """What became of one series of the tar."""

    TAKEN = "taken"
    SAME = "the same"  # is here already
    BETTER = "fewer rounds than here"
    EQUAL = "as many rounds as here"
    FAILED = "failed"  # in the tar; here it has a value
    METHOD = "timed by another method"  # than the values here
    VERSION = "another version"  # than the suite's, or than the one here


@dataclass(frozen=True, kw_only=True)
class MergedRow:
    """A benchmark's row after merging, and what became of each cell of the tar's."""

    row: Row
    verdicts: Mapping[Params, Verdict]
    replaced: int = 0  # values of another version that went with their row
    dropped: frozenset[Params] = frozenset()  # their places, where the new row has none

    @property
    def taken(self) -> frozenset[Params]:
        """What is the tar's now."""
        return frozenset(params for params, verdict in self.verdicts.items() if verdict is Verdict.TAKEN)


def merge_rows(here: Row | None, there: Row, current: str | None, method: str | None = None) -> MergedRow:
    """Return what stays of a benchmark's row here and the tar's.

    Args:
        here: the row here; None: there is none. there: the tar's. current: the version of the benchmark in the suite.
        method: the suite's timing method, by its hash. Values of two methods are not compared: the suite's wins, else
            what is here stays.
    """
    if here is None:
        return MergedRow(row=there, verdicts=dict.fromkeys(there.cells, Verdict.TAKEN))
    if here.version != there.version:
        return _other_version(here, there, current)
    if len(here.axes) != len(there.axes):  # nothing of the one has a place in the other
        return MergedRow(row=here, verdicts=dict.fromkeys(there.cells, Verdict.VERSION))
    verdicts = {params: _verdict(here.cells.get(params), cell, method) for params, cell in there.cells.items()}
    taken = {params: there.cells[params] for params, verdict in verdicts.items() if verdict is Verdict.TAKEN}
    return MergedRow(row=_joined(here, there, taken) if taken else here, verdicts=verdicts)


def _other_version(here: Row, there: Row, current: str | None) -> MergedRow:
    values = sum(cell.measured for cell in here.cells.values())
    has_values = any(cell.measured for cell in there.cells.values())
    if current is not None and there.version == current and (has_values or not values):
        dropped = frozenset(here.cells) - frozenset(there.cells)
        return MergedRow(
            row=there, verdicts=dict.fromkeys(there.cells, Verdict.TAKEN), replaced=values, dropped=dropped
        )
    return MergedRow(row=here, verdicts=dict.fromkeys(there.cells, Verdict.VERSION))


def _verdict(here: Cell | None, there: Cell, method: str | None) -> Verdict:
    if here is not None and here.measured and there.measured and _differ(here.method, there.method):
        return Verdict.TAKEN if there.method == method else Verdict.METHOD
    if here is None or there.rank > here.rank:
        return Verdict.TAKEN
    if here.same_as(there):
        return Verdict.SAME
    if here.measured and there.measured:
        return Verdict.EQUAL if there.rank == here.rank else Verdict.BETTER
    return Verdict.FAILED if there.failed else Verdict.SAME  # n/a, or not asked for: nothing was lost on the node


def _differ(one: str | None, other: str | None) -> bool:
    """Return whether two methods are known to differ."""
    return one is not None and other is not None and one != other


def _joined(here: Row, there: Row, taken: Mapping[Params, Cell]) -> Row:
    """Return the row here with cells of the tar's; its axes grow where the tar has more cases or implementations."""
    axes = tuple(tuple(dict.fromkeys([*one, *other])) for one, other in zip(here.axes, there.axes, strict=True))
    cells = {params: taken.get(params) or here.cells.get(params) or _NOT_ASKED for params in itertools.product(*axes)}
    last = there if (there.started_at or 0) > (here.started_at or 0) else here
    profile = last.profile or here.profile
    return replace(here, axes=axes, cells=cells, started_at=last.started_at, duration=last.duration, profile=profile)


def merge_lines(
    here: str, there: str, taken: Container[Series], decode: Decode, gone: Container[Series] = frozenset()
) -> str:
    """Return the telemetry (or the failures) of a merged results file: each series with the lines of the side it is of.

    Args:
        here, there: the files' texts. taken: the series that are the tar's now. decode: of a line. gone: series that
            are here no more, and not in the tar.
    """
    kept = [
        (item, line)
        for item, line in _lines(here, decode)
        if item is None or not (_is_of(item, taken) or _is_of(item, gone))
    ]
    kept += [(item, line) for item, line in _lines(there, decode) if item is not None and _is_of(item, taken)]
    kept.sort(key=lambda pair: math.inf if pair[0] is None else pair[0].time)
    return "".join(f"{line}\n" for line in dict.fromkeys(line for _, line in kept))


def rounds(text: str) -> dict[Series, list[Round]]:
    """Return the rounds of each series in telemetry, oldest first; a line that stands there twice is one round."""
    found: dict[Series, list[Round]] = {}
    items = {item for item, _ in _lines(text, telemetry.decode) if isinstance(item, Round)}
    for item in sorted(items, key=lambda item: item.time):
        found.setdefault((item.benchmark, item.params), []).append(item)
    return found


def told(text: str) -> Counter[Series]:
    """Return how many lines of failures each series has."""
    found = {item for item, _ in _lines(text, failures.decode) if item is not None}
    return Counter((item.benchmark, item.params) for item in found)


def _lines(text: str, decode: Decode) -> Iterator[tuple[Round | Failure | None, str]]:
    """Yield what each line says, None where it cannot be read, and the line."""
    for line in text.split("\n"):
        if not line.strip():
            continue
        try:
            yield decode(line), line
        except ValueError:  # TelemetryError, FailureLineError
            yield None, line


def _is_of(item: Round | Failure, chosen: Container[Series]) -> bool:
    return (item.benchmark, item.params) in chosen


def merge_benchmarks(
    here: Mapping[str, object], there: Mapping[str, object], *, tar_is_current: bool
) -> dict[str, object]:
    """Return benchmarks.json with the benchmarks of both; what both have stays as it is here.

    Only where the suite of the tar is today's, its entries are taken: with an old one, the pages would hide what was
    just merged, another version or a new case.
    """
    newer = [name for name in there if tar_is_current and here.get(name) != there[name]]
    return {**there, **here, **{name: there[name] for name in newer}}


def versions(first: Mapping[str, object], second: Mapping[str, object]) -> dict[str, str]:
    """Return the version of each benchmark as the first benchmarks.json has it, else the second."""
    named = ((name, _version(entry)) for name, entry in {**second, **first}.items())
    return {name: version for name, version in named if version is not None}


def _version(entry: object) -> str | None:
    version = entry.get("version") if isinstance(entry, Mapping) else None
    return None if version is None else str(version)
