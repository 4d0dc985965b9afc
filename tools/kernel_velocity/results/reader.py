"""Reads asv's results directory (format version 2) and the telemetry beside it.

A part that cannot be read becomes a note, one line that says where and what. Everything else is still read: a history
of years must not be lost to one truncated file.

asv's layout is `benchmarks.json`, `<machine>/machine.json`, `<machine>/<commit8>-<environment>.json`. Beside it lie
`<machine>/telemetry/<commit8>-<environment>.jsonl`, one round a line, and files of the same stem with failures
(failures.py) and with facts of the machine (sessions.py).
"""

from __future__ import annotations

import ast
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from kernel_velocity import bounds, units
from kernel_velocity.direction import Better, better
from kernel_velocity.documents import contents_of
from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.engine.telemetry import Round
from kernel_velocity.errors import ResultsError
from kernel_velocity.results import identity, lines
from kernel_velocity.results.lines import FAILURES
from kernel_velocity.results.measurement import OUTCOMES, Outcome
from kernel_velocity.results.records import (
    Benchmark,
    Machine,
    Pair,
    RecordedRow,
    ResultsFile,
    TrackedValue,
    name_parts,
)

_strict: Callable[[bytes], Any]
try:
    from orjson import loads as _strict  # three times as fast
except ImportError:  # a machine that only measures has none
    from json import loads as _strict

# of a row, as asv writes them; it leaves out the last ones where they are null
COLUMNS = (
    *("result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b"),
    *("stats_q_25", "stats_q_75", "stats_number", "stats_repeat", "samples", "profile"),
)
FORMAT_VERSION = 2  # of results files and benchmarks.json; machine.json has its own, which changes nothing here
HIGHER_IS_BETTER = "higher_is_better"  # key of benchmarks.json, which asv itself does not have
_AXES = 2  # implementation, case (contract); of another suite any number
_ROUNDED = 1e-4  # relative; asv rounds its bounds to five digits
_MOST_COMBINATIONS = 100_000  # of a benchmark's parameters
_PLAIN = frozenset((float, int, type(None)))  # numpy converts these as we do, None to NaN
_MEASURED, _NOT_APPLICABLE, _FAILED = (
    OUTCOMES.index(outcome) for outcome in (Outcome.MEASURED, Outcome.NOT_APPLICABLE, Outcome.FAILED)
)
# asv's facts of a machine that are read. Not its memory, whose size changes with the kernel.
_HARDWARE = ("cpu", "num_cpu")
_ADDRESS = re.compile(r"^(<.*) at 0x[0-9a-fA-F]+(>)$")  # of an object of Python in its repr
_NO_NAME = re.compile("[\0\ud800-\udfff]")
_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def folders(results: Path) -> Iterator[tuple[Path, list[Path]]]:
    """Yield the machines' folders, each with its results files, both in the order of their names.

    Raises:
        ResultsError: `results` is not a directory.
    """
    if not results.is_dir():
        raise ResultsError(
            f"{results}: no such directory, asv's results_dir is wanted: run `kv track`, or name it with --results"
        )
    for folder in sorted(path for path in results.iterdir() if path.is_dir() and not path.name.startswith(".")):
        paths = sorted(  # by name: to compare 10,000 paths takes half a second
            (path for path in folder.glob("*.json") if path.name != "machine.json"), key=lambda path: path.name
        )
        if paths or (folder / "machine.json").exists():  # else it is not a machine's folder
            yield folder, paths


def _wrong(what: str, wanted: str, got: object) -> str:
    return f"{what}: {wanted} is wanted, got {str(got)[:60]!r}"


def _refuse(what: str, wanted: str, got: object) -> NoReturn:
    raise ResultsError(_wrong(what, wanted, got))


def load(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises:
        ResultsError: there is none. The message does not name the file.
    """
    try:
        data = _parsed(contents_of(path))
    except OSError as error:
        raise ResultsError(str(error.strerror)) from None
    except (ValueError, RecursionError) as error:  # ValueError: not JSON, or not UTF-8
        raise ResultsError(str(error) if path.stat().st_size else "empty file") from None
    if not isinstance(data, dict):
        _refuse("contents", "an object", type(data).__name__)
    return data


def _parsed(content: bytes) -> Any:
    """Return what JSON says. NaN and Infinity, which asv writes and JSON lacks, included."""
    try:
        return _strict(content)
    except ValueError:
        return json.loads(content.decode())


def _check_name(what: str, text: str) -> None:
    """Refuse a name that no file, command line or text in UTF-8 can hold."""
    if _NO_NAME.search(text):
        _refuse(what, "a text without NUL and halves of surrogate pairs", ascii(text))


def _require(data: Mapping[str, Any], key: str, kind: type) -> Any:
    if not isinstance(data.get(key), kind):
        _refuse(key, f"a {kind.__name__}", data.get(key, "nothing"))
    return data[key]


def _check_version(data: Mapping[str, Any]) -> None:
    if data.get("version") != FORMAT_VERSION:
        raise ResultsError(
            f"results version {data.get('version')!r} is unknown, {FORMAT_VERSION} is wanted: "
            "try `asv update`, or a newer kernel-velocity"
        )


def read_machine(folder: Path, notes: list[str]) -> Machine:
    """Return the machine of a folder. Without a usable machine.json, only its name."""
    path = folder / "machine.json"
    try:
        if not path.exists():
            raise ResultsError("no such file, so asv itself skips this machine: run `asv machine`")
        data = load(path)
        if "machine" not in data:
            raise ResultsError("it names no machine, and asv fails on it: run `asv machine`")
    except ResultsError as error:
        notes.append(f"{folder.name}/machine.json: {error}")
        data = {}
    shown = {key: str(value) for key, value in data.items() if key not in ("version", "machine") and value}
    called = str(data["machine"]) if "machine" in data else None
    return Machine(name=folder.name, details=tuple(sorted(shown.items())), called=called)


def read_benchmarks(path: Path, notes: list[str]) -> dict[str, Benchmark] | None:
    """Return the benchmarks with a trend by name. None, and a note, where the file cannot be read."""
    try:
        data = load(path)
        _check_version(data)
    except ResultsError as error:
        notes.append(f"{path.name}: {error}; values are shown, units and GFLOPS need it (`asv run` writes it again)")
        return None
    benchmarks = {}
    for name, entry in data.items():
        if name == "version" or identity.is_tracked(name):
            continue
        try:
            benchmarks[name] = _benchmark(name, entry)
        except ResultsError as error:
            notes.append(f"{path.name}, {name}: {error}; it is left out")
    return benchmarks


def _benchmark(name: str, entry: object) -> Benchmark:
    if not isinstance(entry, dict):
        _refuse("entry", "an object", entry)
    pairs = _pairs(name, _axes(_require(entry, "params", list)))
    return Benchmark(
        name=name,
        version=str(entry.get("version")),
        implementations=tuple(dict.fromkeys(implementation for implementation, _ in pairs)),
        cases=tuple(dict.fromkeys(case for _, case in pairs)),
        unit=(unit := _unit(name, entry)),
        better=better(name, unit, str(entry.get("type", "")), _stated(entry)),
        flop=_amounts(entry, "flops"),
        bytes_moved=_amounts(entry, "bytes"),
        unfused_bytes=_amounts(entry, "unfused_bytes"),
    )


def _unit(name: str, entry: Mapping[str, Any]) -> str:
    """Return the unit of a benchmark's values. "" for asv's "unit", which it writes where a benchmark has none.

    The units of rates that are computed from FLOPs get another spelling, as a value in them is no time.
    """
    unit = str(entry.get("unit") or identity.unit(name))
    return {"unit": "", "GFLOPS": "GFLOP/s", "GOPS": "GOP/s"}.get(unit, unit)


def _stated(entry: Mapping[str, Any]) -> Better | None:
    """Return what a benchmark's author states of its direction. None: nothing."""
    stated = entry.get(HIGHER_IS_BETTER)
    if not isinstance(stated, bool | None):
        _refuse(HIGHER_IS_BETTER, "true or false", stated)
    return None if stated is None else Better.HIGHER if stated else Better.LOWER


def _amounts(entry: Mapping[str, Any], key: str) -> dict[str, float]:
    """Return an amount by case. A benchmark without them is valid and has no rates."""
    amounts = entry.get(key, {})
    if not isinstance(amounts, dict):
        _refuse(key, "an object", amounts)
    for case, amount in amounts.items():
        if not bounds.is_work(amount):
            _refuse(f"{key} of {case}", f"a positive number up to {bounds.MOST_WORK:g}", amount)
    return amounts


def _axes(params: object) -> tuple[tuple[str, ...], ...]:
    if not isinstance(params, list) or not all(isinstance(axis, list) for axis in params):
        _refuse("params", "a list of axes", params)
    return tuple(tuple(map(str, axis)) for axis in params)


def without_addresses(axis: tuple[str, ...]) -> tuple[str, ...]:
    """Return the parameters of an axis as today's asv names them: old ones hold an address, another in each run.

    Those that become equal are numbered in the order of the axis, as asv does, so that none is taken for another.
    """
    cut = tuple(_ADDRESS.sub(r"\1\2", text) for text in axis)
    if cut == axis:
        return axis
    numbers = Counter[str]()
    names = []
    for text in cut:
        names.append(f"{text} ({numbers[text]})" if cut.count(text) > 1 else text)
        numbers[text] += 1
    return tuple(names)


@lru_cache(maxsize=10_000)  # the same few names stand in every file
def parameter(text: str) -> str:
    """Return a parameter from its repr, as asv stores it: "'native'" -> "native". Other text as it is.

    So is the repr of what no name can hold: its escapes stand for that.
    """
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):  # the last two: too many brackets
        return text
    return value if isinstance(value, str) and not _NO_NAME.search(value) else text


def load_results(path: Path) -> dict[str, Any]:
    """Return the object in a results file, its head checked: all but the rows of `results`.

    Raises:
        ResultsError: the file is damaged, or of an unknown version. The message does not name the file.
    """
    data = load(path)
    _check_version(data)
    columns = _require(data, "result_columns", list)
    _require(data, "results", dict)
    if not all(isinstance(name, str) for name in columns):
        _refuse("result_columns", "a list of names", columns)
    if tuple(columns[: len(COLUMNS)]) != COLUMNS[: len(columns)]:
        _refuse("result_columns", "asv's order of columns", columns)
    _check_name("env_name", _require(data, "env_name", str))
    commit = _require(data, "commit_hash", str)
    if not _HASH.fullmatch(commit):  # git would resolve a branch's name just as well
        _refuse("commit_hash", "a commit's full hash", commit)
    return data


def named_row(row: object, columns: Sequence[str]) -> dict[str, Any]:
    """Return a row of `results` by column.

    Raises:
        ResultsError: it is no row.
    """
    if not isinstance(row, list):
        _refuse("row", "a list", row)
    if len(row) > len(columns):
        _refuse("row", f"a value for each of {len(columns)} columns", f"{len(row)} values")
    named = dict(zip(columns, row, strict=False))
    if not isinstance(named.get("version"), str | None):
        _refuse("version", "a text", named["version"])
    return named


def read_file(path: Path, notes: list[str]) -> ResultsFile | None:
    """Return what a results file says, and the telemetry beside it. None, and a note, where it cannot be read."""
    where = f"{path.parent.name}/{path.name}"
    try:
        data = load_results(path)
    except ResultsError as error:
        notes.append(f"{where}: {error}; it is left out")
        return None
    commit8, _, environment = path.stem.partition("-")
    if data["commit_hash"].startswith(commit8) and environment != lines.in_name(data["env_name"]):
        notes.append(f"{where}: env_name: {environment!r} of the file's name is wanted, got {data['env_name']!r}")
    rounds = lines.read_rounds(lines.beside(path, lines.ROUNDS), notes)
    rows: list[_Row] = []
    tracked: list[TrackedValue] = []
    for name, stored in data["results"].items():
        try:
            named = named_row(stored, data["result_columns"])
            if identity.is_tracked(name):
                tracked += _tracked(name, named)
            else:
                rows.append(_row(name, named))
        except ResultsError as error:
            notes.append(f"{where}, {name}: {error}; it is left out")
    recorded, columns = _recorded(rows, rounds, lambda name, defect: notes.append(f"{where}, {name}: {defect}"))
    if rounds:
        have_values = {(row.benchmark, *pair) for row in recorded for pair in row.pairs}
        refused = data["results"].keys() - {row.benchmark for row in recorded}  # which have a note
        if strangers := [series for series in rounds if series not in have_values and series[0] not in refused]:
            got = f"{' '.join(strangers[0])}, {len(strangers)} in all"
            notes.append(f"{where}: no value of a series that its telemetry has rounds of, got {got}")
    facts = data["params"] if isinstance(data.get("params"), dict) else {}
    return ResultsFile(
        machine=path.parent.name,
        environment=data["env_name"],
        commit=data["commit_hash"],
        rows=recorded,
        **columns,
        rounds=rounds,
        failures=lines.read_failures(lines.beside(path, FAILURES), notes),
        tracked=tuple(tracked),
        sessions=lines.read_sessions(path, notes),
        hardware={name: str(facts[name]) for name in _HARDWARE if facts.get(name)},
    )


Rounds = Mapping[tuple[str, str, str], Sequence[Round]]  # by benchmark, implementation, case


class _Row(NamedTuple):
    """The row of a benchmark with a trend, as asv stores it."""

    recorded: RecordedRow
    columns: tuple[list[Any], ...]  # of each value the result, and the ends of asv's interval
    counts: Any  # of each value how many rounds it rests on, where asv says so


def _row(name: str, row: Mapping[str, Any]) -> _Row:
    """Return a row's columns. Without a result, all of its combinations failed."""
    pairs = _pairs(name, _axes(_require(row, "params", list)))
    columns = tuple(_column(row, key, len(pairs)) for key in ("result", "stats_ci_99_a", "stats_ci_99_b"))
    return _Row(RecordedRow(name, row.get("version"), pairs, _began(row)), columns, row.get("stats_repeat"))


def _recorded(
    rows: Sequence[_Row], rounds: Rounds, note: Callable[[str, str], None]
) -> tuple[tuple[RecordedRow, ...], dict[str, Any]]:
    """Return rows, and the columns of their values, with bounds where asv stored some, which it cannot for few samples.

    A row with a result that is no value is left out. A value that contradicts asv's interval is left out, unless it has
    rounds. `note` takes benchmark and defect.
    """
    # of all rows at once: numpy's calls take longer than its work on one of them
    stored = [[value for row in rows for value in row.columns[number]] for number in range(3)]
    seconds, low, high = map(_numbers, stored)
    failed = np.array([value is None for value in stored[0]], np.bool_)
    without_time = np.where(failed, _FAILED, _NOT_APPLICABLE)
    outcome = np.where(np.isnan(seconds), without_time, _MEASURED).astype(np.int32)
    bounded = _are_times(low) & _are_times(high)
    # asv rounds its bounds to five digits when it stores them, but not the value
    wrong = bounded & ~((seconds >= low * (1 - _ROUNDED)) & (seconds <= high * (1 + _ROUNDED)))
    columns: dict[str, NDArray[Any]] = {
        "outcome": outcome,
        "seconds": seconds,
        "low": np.where(bounded & ~wrong, np.minimum(low, seconds), np.nan),
        "high": np.where(bounded & ~wrong, np.maximum(high, seconds), np.nan),
    }
    is_excluded = wrong & ~np.isnan(seconds)
    strange = ~failed & ~_are_times(seconds)  # NaN, and values of other units among them
    keep = np.ones(len(seconds), np.bool_)
    recorded: list[RecordedRow] = []
    start = 0
    for row in rows:
        (name, _, pairs, _), (results, lows, highs), _ = row
        part = slice(start, start + len(pairs))
        start = part.stop
        if strange[part].any() and (defect := _defect(name, results)):
            note(name, f"{defect}; it is left out")
            keep[part] = False
            continue
        for defect in _lost_rounds(row, rounds) if rounds else ():
            note(name, defect)
        excluded: list[int] = np.flatnonzero(is_excluded[part]).tolist()
        for at in excluded:
            if (name, *pairs[at]) not in rounds:
                got = f"{results[at]:g}, and {lows[at]:g} to {highs[at]:g}, for {', '.join(pairs[at])}"
                note(name, f"a value in asv's interval is wanted, got {got}; it is left out")
                keep[part.start + at] = False
        recorded.append(row.recorded._replace(pairs=tuple(itertools.compress(pairs, keep[part].tolist()))))
    return tuple(recorded), {name: column[keep] for name, column in columns.items()}


def _defect(name: str, values: Sequence[object]) -> str | None:
    """Return what is wrong with the first result that is no value: asv stores null for a failure and NaN for n/a."""
    is_time = identity.unit(name) == units.SECONDS
    wanted = f"a time from {bounds.LEAST:g} to {bounds.MOST:g} s" if is_time else "a number"
    for value in values:
        is_missing = value is None or (isinstance(value, float) and math.isnan(value))
        if not (is_missing or (bounds.is_time(value) if is_time else bounds.is_number(value))):
            return _wrong("result", f"{wanted}, null or NaN", value)
    return None


def _lost_rounds(row: _Row, rounds: Rounds) -> Iterator[str]:
    """Yield the values of a row that rest on more rounds, by asv's count, than its telemetry has."""
    counts = row.counts if isinstance(row.counts, list) else ()
    for pair, count in zip(row.recorded.pairs, counts, strict=False):
        timed = rounds.get((row.recorded.benchmark, *pair))
        if timed and bounds.is_number(count) and count > len(timed):
            yield f"rounds that its telemetry lacks, got {len(timed)} of {count:g} for {', '.join(pair)}"


@lru_cache(maxsize=10_000)  # the same few axes stand in every file
def _pairs(name: str, axes: tuple[tuple[str, ...], ...]) -> tuple[Pair, ...]:
    """Return implementation and case of each combination of a benchmark's axes.

    A benchmark of another suite has no implementations. Its parameters together are the case.
    """
    for text in (name, *itertools.chain(*axes)):
        _check_name("name", text)
    axes = tuple(map(without_addresses, axes))
    if math.prod(map(len, axes)) > _MOST_COMBINATIONS:
        _refuse("params", f"at most {_MOST_COMBINATIONS:,} combinations", math.prod(map(len, axes)))
    combinations = list(itertools.product(*axes))
    pairs: list[Pair]
    if len(axes) == _AXES and name_parts(name).device:
        pairs = [(parameter(implementation), parameter(case)) for implementation, case in combinations]
    else:
        pairs = [("", ", ".join(map(parameter, texts))) for texts in combinations]
        if len(set(pairs)) < len(pairs):  # 1 and '1', or a comma in a text
            pairs = [("", ", ".join(texts)) for texts in combinations]
    if len(set(pairs)) < len(pairs):
        _refuse("params", "a name for each combination", axes)
    return tuple(pairs)


def _column(row: Mapping[str, Any], key: str, length: int) -> list[Any]:
    """Return a column of a row: a value for each combination of the parameters."""
    values = row.get(key)
    if values is None:  # asv's short form of a list of nulls
        return [None] * length
    if not isinstance(values, list) or len(values) != length:
        _refuse(key, f"a list of {length}, one for each combination of the parameters", values)
    return values


def _are_times(values: FloatArray) -> NDArray[np.bool_]:
    """Return which values are possible times (`bounds.is_time`)."""
    return (values >= bounds.LEAST) & (values <= bounds.MOST)


def _numbers(values: Sequence[object]) -> FloatArray:
    """Return a column of numbers. NaN for anything else, and for an integer that no float holds."""
    if _PLAIN.issuperset(map(type, values)):
        with suppress(OverflowError):
            return np.array(values, np.float64)
    return np.array([value if bounds.is_number(value) else None for value in values], np.float64)


def _tracked(name: str, row: Mapping[str, Any]) -> Iterator[TrackedValue]:
    """Yield the values of a track_ benchmark: one for each combination of both axes, or one without parameters."""
    pairs = _pairs(name, _axes(row.get("params") or []))
    for pair, value in zip(pairs, _column(row, "result", len(pairs)), strict=True):
        if not isinstance(value, float | None) and not bounds.is_number(value):
            _refuse("result", "a number, null or NaN", value)
        number = value if bounds.is_number(value) else math.nan
        yield TrackedValue(name, pair, row.get("version"), number, _began(row))


def _began(row: Mapping[str, Any]) -> float:
    """Return when asv began the last round of a row, Unix time, s. NaN: unknown."""
    began = row.get("started_at")  # ms
    return began / 1000 if bounds.is_number(began) and bounds.is_moment(began / 1000) else math.nan
