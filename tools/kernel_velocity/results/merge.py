"""Merge two results files of one commit: the one of this clone, and one that was measured elsewhere.

The better measurement of each series stays, whole, with its rounds and failures. A value beats none, more rounds beat
fewer, and of two as good the one here stays: nothing measured is lost, and a second merge changes nothing. A results
file of asv has one version of each benchmark: of two versions the suite's stays.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernel_velocity import units
from kernel_velocity.errors import ResultsError
from kernel_velocity.files import replace_text
from kernel_velocity.harness import telemetry
from kernel_velocity.harness.stopping import from_environment, method_hash
from kernel_velocity.harness.telemetry import Round
from kernel_velocity.results import sessions
from kernel_velocity.results.asv_file import Params, StoredFile
from kernel_velocity.results.lines import (
    FAILURES,
    ROUNDS,
    Failure,
    beside,
    decode_failure,
    decoded,
    encode_failure,
    read_failures,
    read_rounds,
    read_sessions,
    texts,
)
from kernel_velocity.results.reader import parameter
from kernel_velocity.results.records import AGREEMENT

Series = tuple[str, ...]  # benchmark and parameters, as telemetry names them
# of the lines of the files beside a results file
FORMATS: dict[str, tuple[Callable[[str], Any], Callable[[Any], str]]] = {
    ROUNDS: (telemetry.decode, telemetry.encode),
    FAILURES: (decode_failure, encode_failure),
}
METHOD = method_hash(from_environment({}), None)  # the suite's own, as it is measured by default
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

    ADOPTED = "taken"
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
        return Verdict.ADOPTED
    both = here.measured and there.measured
    if both and here.method != there.method and None not in (here.method, there.method):
        return Verdict.ADOPTED if there.method == method else Verdict.METHOD
    if there.rank > here.rank:
        return Verdict.ADOPTED
    if both and (here.value, here.samples) != (there.value, there.samples):
        return Verdict.EQUAL if there.rank == here.rank else Verdict.FEWER
    return Verdict.FAILED if here.measured and there.value is None else Verdict.SAME


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A results file, and on how much each of its series rests."""

    file: StoredFile
    cells: Mapping[str, Mapping[Params, Cell]]  # by benchmark


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
    adopted: int = 0  # series
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
    there, new = read(theirs), not path.exists()
    if new:
        there.file.move_to(path)
    here = replace(there, cells={}) if new else read(path)
    if here.file.commit != there.file.commit:
        raise ResultsError(f"{path}: of commit {here.file.commit}, not of {there.file.commit}")
    rows = {name: merge_row(name, here, there, versions.get(name)) for name in there.cells}
    adopted = {_series(name, params) for name, row in rows.items() for params in _by(row, Verdict.ADOPTED)}
    gone = {_series(name, params) for name, row in rows.items() for params in row.gone}
    if new or adopted:
        for suffix in FORMATS:
            ours, other = (texts(beside(file, suffix), []) for file in (path, theirs))
            _replace(beside(path, suffix), merge_lines(ours, other, adopted, gone, suffix))
        merged = sessions.merged(read_sessions(path, []), read_sessions(theirs, []))
        _replace(beside(path, sessions.SUFFIX), merged)
        here.file.save()
    tried = {(name, params) for name, cells in there.cells.items() for params, cell in cells.items() if any(cell.rank)}
    count = sum(rows[name].verdicts[params] is Verdict.ADOPTED for name, params in tried)
    notes = [f"{path.name}: {name}: {note}" for name, row in rows.items() for note in _notes(row, there.cells[name])]
    return Merged(path=path, changed=new or bool(adopted), adopted=count, stayed=len(tried) - count, notes=notes)


def read(path: Path) -> Stored:
    """Return a results file. What lies beside it tells on how much its series rest.

    Raises:
        ResultsError: it is no results file.
    """
    stored = StoredFile(path)
    rounds = read_rounds(beside(path, ROUNDS), [])
    reasons = read_failures(beside(path, FAILURES), [])
    cells = {name: dict(series_of(stored, name, rounds, reasons)) for name in stored.benchmarks()}
    return Stored(file=stored, cells=cells)


def series_of(
    file: StoredFile,
    name: str,
    rounds: Mapping[Any, Sequence[Round]],
    reasons: Mapping[Any, Sequence[Failure]],
) -> Iterator[tuple[Params, Cell]]:
    """Yield the series of a benchmark. Telemetry counts where asv stored neither a count nor samples."""
    stats, samples = file.stats(name), file.samples(name)
    for params, value in file.values(name).items():
        series = _series(name, params)
        timed = sorted(rounds.get(series, ()), key=lambda round_: round_.time)
        count = len(reasons.get(series, ()))
        if value is not None and math.isfinite(value):
            stored = (stats[params] or {}).get("repeat") or len(samples[params] or ())
            count = int(stored or _resting_on(timed, value))
        drawn, method = samples[params], timed[-1].method if timed else None
        cell = Cell(value=value, samples=None if drawn is None else tuple(drawn), evidence=count, method=method)
        yield params, cell


def _resting_on(rounds: Sequence[Round], value: float) -> int:
    """Return how many rounds a value is the median of. 0 where they are of another run."""
    middle = statistics.median([round_.estimate for round_ in rounds]) if rounds else math.nan
    return len(rounds) if math.isclose(middle, value, rel_tol=AGREEMENT) else 0


def merge_row(name: str, here: Stored, there: Stored, current: str | None) -> Row:
    """Merge a benchmark into the file here, in memory. `current` is its version in the suite."""
    cells, mine = there.cells[name], here.cells.get(name)
    if mine is None:
        here.file.take_benchmark(name, there.file)
        return Row(verdicts=dict.fromkeys(cells, Verdict.ADOPTED))
    version = there.file.version(name)
    if here.file.version(name) != version:
        values = sum(cell.measured for cell in mine.values())
        if current is None or version != current or (values and not any(cell.measured for cell in cells.values())):
            return Row(verdicts=dict.fromkeys(cells, Verdict.VERSION))
        here.file.take_benchmark(name, there.file)
        return Row(
            verdicts=dict.fromkeys(cells, Verdict.ADOPTED), replaced=values, gone=frozenset(mine) - frozenset(cells)
        )
    if len(here.file.axes(name)) != len(there.file.axes(name)):
        return Row(verdicts=dict.fromkeys(cells, Verdict.VERSION))
    row = Row(verdicts={params: verdict(mine.get(params), cell) for params, cell in cells.items()})
    if adopted := _by(row, Verdict.ADOPTED):
        here.file.take_series(name, adopted, there.file)
    return row


def merge_lines(
    here: Iterable[str], there: Iterable[str], adopted: Container[Series], gone: Container[Series], suffix: str
) -> str:
    """Return the text of the lines beside a merged results file, in the order of time, those that cannot be read last.

    Args:
        here, there: of the two files.
        adopted: the series whose values are the other file's now. gone: the series that were removed.
        suffix: of the file.
    """
    decode, encode = FORMATS[suffix]
    lines: dict[str, float] = {}  # and its Unix time
    for side, other in ((here, False), (there, True)):
        for _, line, entry in decoded(side, decode):
            if isinstance(entry, ValueError):
                lines |= {} if other else {line: math.inf}
                continue
            series = (entry.benchmark, *entry.params)
            if (series in adopted) is other and series not in gone:
                lines[encode(entry)] = entry.time
    return "".join(f"{line}\n" for line in sorted(lines, key=lines.__getitem__))


def _by(row: Row, wanted: Verdict) -> list[Params]:
    return [params for params, verdict in row.verdicts.items() if verdict is wanted]


def _notes(row: Row, cells: Mapping[Params, Cell]) -> Iterator[str]:
    """Yield why series were not taken. A series that was not tried (asv stores n/a) needs no reason."""
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
    """Write a file beside the results. One that would be empty is removed."""
    if text:
        replace_text(path, text)
    else:
        path.unlink(missing_ok=True)
