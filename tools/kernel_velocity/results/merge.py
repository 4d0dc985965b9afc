"""Merge two results files of one commit: what a node, or another machine of that name, measured, and what is here.

The better measurement of each series stays, whole, with its rounds and failures. A value beats none, more rounds beat
fewer, and of two as good the one here stays: nothing measured is lost, and a second merge changes nothing. A results
file of asv has one version of each benchmark: of two versions the suite's stays.
"""

from __future__ import annotations

import enum
import itertools
import math
import statistics
import tempfile
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from asv.results import Results

from kernel_velocity import units
from kernel_velocity.errors import ResultsError
from kernel_velocity.files import replace_text
from kernel_velocity.harness.stopping import from_environment, method_hash
from kernel_velocity.harness.telemetry import Round, decode
from kernel_velocity.results import failures, sessions
from kernel_velocity.results.asv_file import StoredFile
from kernel_velocity.results.failures import Failure
from kernel_velocity.results.lines import ROUNDS, beside, read_failures, read_rounds, read_sessions
from kernel_velocity.results.reader import parameter
from kernel_velocity.results.records import AGREEMENT

Params = tuple[str, ...]  # of a series, as asv stores them: the repr of each
Series = tuple[str, ...]  # benchmark and parameters, as telemetry names them
Decode = Callable[[str], Round | Failure]

DECODERS: dict[str, Decode] = {ROUNDS: decode, failures.SUFFIX: failures.decode}  # of the files beside a results file
METHOD = method_hash(from_environment({}), None)  # the suite's own, as it is measured by default
# Of asv's object: what it stores of each series of a benchmark, and of the benchmark
BY_SERIES = {"_results": math.nan, "_stats": None, "_samples": None}  # and for a series that was not asked for
BY_ROW = ("_benchmark_params", "_benchmark_version", "_started_at", "_duration", "_profiles")
NAMED = 3  # series that a note names before it counts the others


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What a results file stores of one series, and on how much it rests."""

    value: float | None  # seconds per call, or a track's unit; NaN: n/a, or not asked for; None: failed
    samples: tuple[float, ...] | None = None  # round estimates, s per call
    evidence: int = 0  # rounds of a value; where there is none, the recorded reasons
    method: str | None = None  # hash of the timing method; None: unknown

    @property
    def measured(self) -> bool:
        """Whether there is a value."""
        return self.value is not None and math.isfinite(self.value)

    @property
    def rank(self) -> tuple[int, int]:
        """How good it is: a value, before a failure, before n/a."""
        return (2 if self.measured else 1 if self.value is None else 0), self.evidence


class Verdict(enum.Enum):
    """What became of a series of the other file."""

    TAKEN = "taken"
    SAME = "says no more than here"
    FEWER = "fewer rounds than here; what is here stays"
    EQUAL = "as many rounds as here; what is here stays"
    FAILED = "failed; the value here stays"
    METHOD = "timed by another method; what is here stays"
    VERSION = "another version than here; what is here stays"


def verdict(here: Cell | None, there: Cell, method: str | None = METHOD) -> Verdict:
    """Return what becomes of a series of the other file.

    Values of two timing methods cannot be compared: that of the suite's method (`method`) stays, else the one here.
    """
    if here is None:
        return Verdict.TAKEN
    both = here.measured and there.measured
    if both and here.method != there.method and None not in (here.method, there.method):
        return Verdict.TAKEN if there.method == method else Verdict.METHOD
    if there.rank > here.rank:
        return Verdict.TAKEN
    if both and (here.value, here.samples) != (there.value, there.samples):
        return Verdict.EQUAL if there.rank == here.rank else Verdict.FEWER
    return Verdict.FAILED if here.measured and there.value is None else Verdict.SAME


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A results file with what lies beside it."""

    results: Any  # asv's object
    cells: Mapping[str, Mapping[Params, Cell]]  # by benchmark
    lines: Mapping[str, str]  # texts of the files beside it, by suffix
    sessions: tuple[sessions.SessionFacts, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Row:
    """What became of a benchmark of the other file."""

    verdicts: Mapping[Params, Verdict]
    replaced: int = 0  # values of another version, which went with their row
    gone: frozenset[Params] = frozenset()  # their series that the new version does not have


@dataclass(frozen=True, kw_only=True)
class Merged:
    """What became of a results file."""

    path: Path  # the file here
    changed: bool  # whether it was written
    taken: int = 0  # series
    stayed: int = 0  # series of the other file that are as good here, or better
    notes: list[str] = field(default_factory=list)


def merge_file(theirs: Path, path: Path, versions: Mapping[str, str]) -> Merged:
    """Merge a results file into the one at `path`, which is made where there is none.

    What lies beside a results file is written before it: the next merge finishes one that was interrupted.

    Args:
        theirs: the other file. path: `results/<machine>/<commit8>-<environment>.json`.
        versions: of each benchmark in the suite.

    Raises:
        ResultsError: one of them is no results file, or they are of two commits.
    """
    there = read(theirs)
    there.results.params["machine"] = path.parent.name
    new = not path.exists()
    here = replace(there, cells={}, lines={}, sessions=()) if new else read(path)
    if here.results.commit_hash != there.results.commit_hash:
        raise ResultsError(f"{path}: of commit {here.results.commit_hash}, not of {there.results.commit_hash}")
    rows = {name: merge_row(name, here, there, versions.get(name)) for name in there.cells}
    taken = {_series(name, params) for name, row in rows.items() for params in _by(row, Verdict.TAKEN)}
    gone = {_series(name, params) for name, row in rows.items() for params in row.gone}
    if new or taken:
        for suffix, text in there.lines.items():
            _replace(beside(path, suffix), merge_lines(here.lines.get(suffix, ""), text, taken, gone, DECODERS[suffix]))
        _replace(beside(path, sessions.SUFFIX), sessions.merged(here.sessions, there.sessions))
        replace_text(path, _text(here.results))
    tried = {(name, params) for name, cells in there.cells.items() for params, cell in cells.items() if any(cell.rank)}
    count = sum(rows[name].verdicts[params] is Verdict.TAKEN for name, params in tried)
    notes = [f"{path.name}: {name}: {note}" for name, row in rows.items() for note in _notes(row, there.cells[name])]
    return Merged(path=path, changed=new or bool(taken), taken=count, stayed=len(tried) - count, notes=notes)


def read(path: Path) -> Stored:
    """Return a results file with what lies beside it.

    Raises:
        ResultsError: it is no results file.
    """
    StoredFile(path)  # checks what asv does not
    results: Any = Results.load(str(path))
    files = {suffix: beside(path, suffix) for suffix in DECODERS}
    lines = {suffix: file.read_text("utf-8", "replace") if file.exists() else "" for suffix, file in files.items()}
    rounds, reasons = read_rounds(files[ROUNDS], []), read_failures(files[failures.SUFFIX], [])
    try:
        cells = {name: dict(series_of(results, name, rounds, reasons)) for name in results.get_all_result_keys()}
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ResultsError(f"{path}: its columns do not fit together: {type(error).__name__}: {error}") from None
    return Stored(results=results, cells=cells, lines=lines, sessions=read_sessions(path, []))


def series_of(
    results: Any,
    name: str,
    rounds: Mapping[Any, Sequence[Round]],
    reasons: Mapping[Any, Sequence[Failure]],
) -> Iterator[tuple[Params, Cell]]:
    """Yield the series of a benchmark. Telemetry counts where asv stored neither a count nor samples."""
    stats, samples = _column(results, "_stats", name), _column(results, "_samples", name)
    for params, value in _column(results, "_results", name).items():
        series = _series(name, params)
        timed = sorted(rounds.get(series, ()), key=lambda item: item.time)
        count = len(reasons.get(series, ()))
        if value is not None and math.isfinite(value):
            stored = (stats[params] or {}).get("repeat") or len(samples[params] or ())
            count = int(stored or _resting_on(timed, value))
        drawn = None if samples[params] is None else tuple(samples[params])
        method = timed[-1].method if timed else None
        yield params, Cell(value=value, samples=drawn, evidence=count, method=method)


def _resting_on(rounds: Sequence[Round], value: float) -> int:
    """Return how many rounds a value is the median of; 0 where they are of another run."""
    middle = statistics.median([item.estimate for item in rounds]) if rounds else math.nan
    return len(rounds) if math.isclose(middle, value, rel_tol=AGREEMENT) else 0


def _column(results: Any, column: str, name: str) -> dict[Params, Any]:
    """Return what a column stores of each series of a benchmark; asv writes None for a column of None."""
    every = list(itertools.product(*results.get_result_params(name)))
    values = getattr(results, column).get(name)
    return dict(zip(every, [None] * len(every) if values is None else values, strict=True))


def merge_row(name: str, here: Stored, there: Stored, current: str | None) -> Row:
    """Merge a benchmark into asv's object of the results here; `current` is its version in the suite."""
    cells, mine = there.cells[name], here.cells.get(name)
    if mine is None:
        take_row(name, there.results, here.results)
        return Row(verdicts=dict.fromkeys(cells, Verdict.TAKEN))
    version = there.results.benchmark_version.get(name)
    if here.results.benchmark_version.get(name) != version:
        values = sum(cell.measured for cell in mine.values())
        if current is None or version != current or (values and not any(cell.measured for cell in cells.values())):
            return Row(verdicts=dict.fromkeys(cells, Verdict.VERSION))
        take_row(name, there.results, here.results)
        return Row(
            verdicts=dict.fromkeys(cells, Verdict.TAKEN), replaced=values, gone=frozenset(mine) - frozenset(cells)
        )
    if len(here.results.get_result_params(name)) != len(there.results.get_result_params(name)):
        return Row(verdicts=dict.fromkeys(cells, Verdict.VERSION))
    row = Row(verdicts={params: verdict(mine.get(params), cell) for params, cell in cells.items()})
    if taken := _by(row, Verdict.TAKEN):
        take_cells(name, taken, there.results, here.results)
    return row


def take_row(name: str, there: Any, here: Any) -> None:
    """Copy a benchmark of one results object of asv, whole, into another."""
    for column in (*BY_SERIES, *BY_ROW):
        getattr(here, column)[name] = getattr(there, column).get(name)


def take_cells(name: str, taken: Container[Params], there: Any, here: Any) -> None:
    """Copy some series of a benchmark of one results object of asv into another, which has it in the same version.

    The axes grow where the other has more cases or implementations.
    """
    both = zip(here.get_result_params(name), there.get_result_params(name), strict=True)
    axes = [list(dict.fromkeys([*mine, *other])) for mine, other in both]
    for column, absent in BY_SERIES.items():
        mine, other = _column(here, column, name), _column(there, column, name)
        values = [other[key] if key in taken else mine.get(key, absent) for key in itertools.product(*axes)]
        getattr(here, column)[name] = None if all(value is None for value in values) else values
    here._benchmark_params[name] = axes
    if (there.started_at.get(name) or 0) > (here.started_at.get(name) or 0):
        for column in ("_started_at", "_duration", "_profiles"):
            getattr(here, column)[name] = getattr(there, column).get(name) or getattr(here, column).get(name)


def merge_lines(here: str, there: str, taken: Container[Series], gone: Container[Series], decode: Decode) -> str:
    """Return the lines beside a merged results file, in the order of time, those that cannot be read last.

    Args:
        here, there: the files' texts. taken: the series that are the other's now. gone: the series that no longer are.
        decode: of a line.
    """
    lines: dict[str, float] = {}  # and its Unix time
    for text, other in ((here, False), (there, True)):
        for line in filter(str.strip, text.split("\n")):
            try:
                item = decode(line)
            except ValueError:  # TelemetryError, FailureLineError
                lines |= {} if other else {line: math.inf}
                continue
            series = (item.benchmark, *item.params)
            if (series in taken) is other and series not in gone:
                lines[line] = item.time
    return "".join(f"{line}\n" for line in sorted(lines, key=lines.__getitem__))


def _by(row: Row, wanted: Verdict) -> list[Params]:
    return [params for params, given in row.verdicts.items() if given is wanted]


def _notes(row: Row, cells: Mapping[Params, Cell]) -> Iterator[str]:
    """Yield why series were not taken; a series that was not tried (asv stores n/a) needs no reason."""
    for reason in (Verdict.FAILED, Verdict.EQUAL, Verdict.FEWER, Verdict.METHOD, Verdict.VERSION):
        named = [", ".join(map(parameter, params)) for params in _by(row, reason) if any(cells[params].rank)]
        if named:
            more = f" and {len(named) - NAMED} more" if named[NAMED:] else ""
            yield f"{reason.value} ({'; '.join(named[:NAMED])}{more})"
    if row.replaced:
        yield f"the suite's version replaces {units.count(row.replaced, 'value')} of another"


def _series(name: str, params: Params) -> Series:
    return name, *map(parameter, params)


def _replace(path: Path, text: str) -> None:
    """Write a file beside the results; one that would be empty is removed."""
    if text:
        replace_text(path, text)
    else:
        path.unlink(missing_ok=True)


def _text(results: Any) -> str:
    """Return the results file of asv's object."""
    with tempfile.TemporaryDirectory() as folder:
        results.save(folder)
        (saved,) = Path(folder).glob("*/*.json")
        return saved.read_text(encoding="utf-8")
