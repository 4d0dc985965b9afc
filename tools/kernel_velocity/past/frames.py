"""What is recorded as tables: a row for each value, each round, and each fact of a machine. `kv export` writes them.

`kernel_velocity.read` is `read` of this module. docs/how-to/notebook.md has examples.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from kernel_velocity import progress, units
from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.errors import ResultsError, UsageError
from kernel_velocity.files import replace_bytes, replace_text
from kernel_velocity.past import past as series_past
from kernel_velocity.past.columns import TIMES
from kernel_velocity.past.layout import BESIDE
from kernel_velocity.past.past import Past
from kernel_velocity.results import identity
from kernel_velocity.results.measurement import OUTCOMES, Outcome, SeriesKey
from kernel_velocity.results.records import name_parts

BACKENDS = ("polars", "pandas")  # in order of preference
TEXT, NUMBER, TIME = "text", "number", "time"  # kinds of columns
_SERIES = ("machine", "environment", "benchmark", "kernel", "device", "state", "implementation", "case", "version")
_IDENTIFYING = dict.fromkeys((*_SERIES, "unit", "commit"), TEXT)
# Column -> kind. Times of day are in UTC, values in the series' unit: those of timings in s per call.
VALUES = {
    **_IDENTIFYING,
    "place": NUMBER,  # of the commit on the first-parent line of HEAD, from 0 on; unknown beside it
    "date": TIME,  # of the commit
    "measured": TIME,
    "better": TEXT,  # which values are: "higher", "lower", "neither"
    "outcome": TEXT,  # "measured", "n/a", "failed"
    "value": NUMBER,
    **dict.fromkeys(("low", "high", *(name for name in TIMES if name.startswith("adjusted"))), NUMBER),
    "interval": TEXT,  # how `low` and `high` were made
    "rounds": NUMBER,
    "method": TEXT,  # hash of the timing method
    "flop": NUMBER,  # of a call
    "bytes": NUMBER,
    "reason": TEXT,  # why there is no value
    "warnings": TEXT,
}
ROUND_COLUMNS = {
    **_IDENTIFYING,
    "round": NUMBER,  # from 0 on
    "launch": TEXT,  # of the process: rounds of one launch are not independent
    **dict.fromkeys(("estimate", "core_gauge", "memory_gauge", "control_gauge"), NUMBER),  # s
}
MACHINES = {**dict.fromkeys(("machine", "environment", "commit"), TEXT), "measured": TIME, "fact": TEXT, "text": TEXT}
EXPORTS = {
    "parquet": "every value as a Parquet file (needs polars, or pandas with pyarrow)",
    "csv": "every value as a CSV file",
    "openmetrics": "the newest value of every series as text for Prometheus",
}
# Not the commit: every new one would begin another series in the database
LABELS = ("machine", "environment", "benchmark", "implementation", "case", "version")
METRICS = {units.SECONDS: "kernel_velocity_time_seconds", units.BYTES: "kernel_velocity_memory_bytes"}  # by unit
OTHER = "kernel_velocity_value"  # the metric of all other units, each of which is a label
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
Table = dict[str, Any]  # column -> list, or array; all of one length


class Recorded(NamedTuple):
    """What a results directory holds, as data frames of pandas or polars."""

    values: Any  # columns of VALUES
    rounds: Any  # columns of ROUND_COLUMNS
    machines: Any  # columns of MACHINES; environment and commit are unknown for what machine.json says


def read(results: Path | str, repository: Path | str | None = None, *, backend: str | None = None) -> Recorded:
    """Read a results directory of asv into data frames.

    Args:
        results: asv's results directory. repository: a clone of what was measured. None: the folder that `results` is
            in. backend: "polars" or "pandas". None: the first of them that is installed.

    Raises:
        ResultsError: `results` is no directory.
        HistoryError: `repository` is no git repository with a commit.
        UsageError: neither polars nor pandas is installed, or not the one that is wanted.
    """
    name = backend_of(backend)
    folder = Path(results)
    past = series_past.open(folder, folder.resolve().parent if repository is None else Path(repository), rounds=True)
    return Recorded(
        values=frame(values(past), VALUES, name).to_native(),
        rounds=frame(rounds(past), ROUND_COLUMNS, name).to_native(),
        machines=frame(machines(past), MACHINES, name).to_native(),
    )


def backend_of(wanted: str | None = None) -> str:
    """Return the package that makes data frames: the wanted one, else the first of BACKENDS that is installed.

    Raises:
        UsageError: it is not installed, or not one of BACKENDS.
    """
    if wanted is not None and wanted not in BACKENDS:
        raise UsageError(f"backend: one of {', '.join(BACKENDS)} is wanted, got {wanted!r}")
    for name in BACKENDS if wanted is None else (wanted,):
        if importlib.util.find_spec(name) is not None:
            return name
    missing = wanted or "polars or pandas, of which neither is installed"
    raise UsageError(f"a data frame needs {missing}: pip install {wanted or BACKENDS[0]}")


def frame(table: Table, kinds: Mapping[str, str], backend: Any) -> Any:
    """Return a table as a data frame of narwhals. What is unknown is null in it, where the backend has nulls."""
    import narwhals as nw  # noqa: PLC0415 - a node that only measures has none

    schema = {TEXT: nw.String(), NUMBER: nw.Float64(), TIME: nw.Datetime("us")}
    made = nw.from_dict(table, {name: schema[kind] for name, kind in kinds.items()}, backend=backend)
    numbers = [name for name, kind in kinds.items() if kind == NUMBER]
    times = [name for name, kind in kinds.items() if kind == TIME]
    return made.with_columns(
        *(nw.col(name).fill_nan(None) for name in numbers),
        *(nw.col(name).dt.replace_time_zone("UTC") for name in times),
    )


def values(past: Past) -> Table:
    """Return a row for each recorded value that has a place in a trend, and for each error, figure and ceiling."""
    layout = past.layout
    slots, numbers = _slots(past)
    column = {name: layout.columns[name][slots] for name in layout.columns}
    commits = [layout.commits[index] for index in column["commit"].tolist()]
    texts, remarks = past.names.texts, past.names.remarks
    remark = [remarks[number] if number else (None, ()) for number in column["remark"].tolist()]
    amounts = [past.amounts(key) for key in layout.keys]
    table: Table = {
        **_names([*map(_named, layout.keys)], numbers),
        "unit": _picked([amount["unit"] for amount in amounts], numbers),
        "better": _picked([past.better(key.benchmark).value for key in layout.keys], numbers),
        "commit": commits,
        "place": np.where(column["position"] == BESIDE, np.nan, column["position"]),
        "date": _dates(past, commits),
        "measured": _times(column["began"]),
        "outcome": [OUTCOMES[outcome].value for outcome in column["outcome"].tolist()],
        "value": column["seconds"],
        **{name: column[name] for name in TIMES[1:]},
        "interval": [texts[number] if number else None for number in column["interval_method"].tolist()],
        "rounds": np.where(column["rounds"] < 0, np.nan, column["rounds"]),
        "method": [texts[number] if number else None for number in column["method"].tolist()],
        "flop": np.array([_or_nan(amount["flop"]) for amount in amounts])[numbers],
        "bytes": np.array([_or_nan(amount["bytes_moved"]) for amount in amounts])[numbers],
        "reason": [reason for reason, _ in remark],
        "warnings": ["; ".join(warnings) for _, warnings in remark],
    }
    beside = _tracked(past)
    return {
        name: [*table[name], *beside[name]] if kind == TEXT else np.concatenate([table[name], beside[name]])
        for name, kind in VALUES.items()
    }


def _tracked(past: Past) -> Table:
    """Return the rows of the errors, figures and ceilings."""
    series = tuple(past.tracked.items())
    numbers = np.repeat(np.arange(len(series)), [len(columns.value) for _, columns in series])
    empty: FloatArray = np.full(len(numbers), np.nan)
    positions = np.concatenate([empty[:0], *(columns.position for _, columns in series)])
    commits = [past.line[position] for position in positions.astype(np.int64).tolist()]
    return {
        **{name: [None] * len(numbers) for name, kind in VALUES.items() if kind == TEXT},
        **{name: empty for name, kind in VALUES.items() if kind == NUMBER},
        **_names([_named(key) for key, _ in series], numbers),
        "unit": _picked([identity.unit(key.benchmark) for key, _ in series], numbers),
        "better": _picked([past.better(key.benchmark).value for key, _ in series], numbers),
        "commit": commits,
        "place": positions,
        "date": _dates(past, commits),
        "measured": _times(np.concatenate([empty[:0], *(columns.began for _, columns in series)])),
        "outcome": [Outcome.MEASURED.value] * len(numbers),
        "value": np.concatenate([empty[:0], *(columns.value for _, columns in series)]),
    }


def rounds(past: Past) -> Table:
    """Return a row for each round that a value rests on. `past` is opened with its rounds."""
    parts = []
    for path, entries in past.rounds.items():
        slots = past.layout.files[path][entries["entry"]]
        parts.append((slots[slots >= 0], entries[slots >= 0]))
    slots = np.concatenate([np.zeros(0, np.int64), *(part for part, _ in parts)])
    order = np.argsort(slots, kind="stable")
    slots = slots[order]
    numbers = past.layout.owners(slots)

    def column(name: str) -> NDArray[Any]:
        return np.concatenate([np.zeros(0), *(entries[name] for _, entries in parts)])[order]

    texts = past.names.texts
    first = np.searchsorted(slots, slots)  # of the rounds of the same value
    return {
        **_names([*map(_named, past.layout.keys)], numbers),
        "unit": _picked([past.amounts(key)["unit"] for key in past.layout.keys], numbers),
        "commit": [past.layout.commits[index] for index in past.layout.commit[slots].tolist()],
        "round": (np.arange(len(slots)) - first).astype(np.float64),
        "launch": [texts[int(number)] for number in column("launch").tolist()],
        **{name: column(name) for name in ("estimate", "core_gauge", "memory_gauge", "control_gauge")},
    }


def machines(past: Past) -> Table:
    """Return a row for each fact of a machine: of machine.json, and of each session that found another one."""
    rows: list[tuple[str | None, str | None, str | None, float, str, str]] = [
        (machine.name, None, None, np.nan, fact, text) for machine in past.machines for fact, text in machine.details
    ]
    for machine, environment in sorted(past.platforms):
        for commit, session in past.sessions(machine, environment):
            facts = session.facts.items()
            rows += [(machine, environment, commit, session.began, fact, text) for fact, text in facts]
    columns: Sequence[Any] = list(zip(*rows, strict=True)) or [()] * len(MACHINES)
    table = dict(zip(MACHINES, map(list, columns), strict=True))
    return {**table, "measured": _times(np.array(table["measured"], np.float64))}


def _slots(past: Past) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the slots of all values of a layout, and the number of the series of each."""
    start, counts = past.layout.start, past.layout.stop - past.layout.start
    numbers = np.repeat(np.arange(len(counts)), counts)
    return np.arange(int(counts.sum())) + np.repeat(start - np.cumsum(counts) + counts, counts), numbers


def _named(key: SeriesKey) -> dict[str, str]:
    return vars(key) | name_parts(key.benchmark)._asdict()


def _names(keys: Sequence[Mapping[str, str]], numbers: NDArray[np.int64]) -> Table:
    """Return the columns that identify the series of each row, by the number of its key."""
    return {name: _picked([key[name] for key in keys], numbers) for name in _SERIES}


def _picked(texts: Sequence[str], numbers: NDArray[np.int64]) -> list[str]:
    return [texts[number] for number in numbers.tolist()]


def _or_nan(amount: float | None) -> float:
    return np.nan if amount is None else amount


def _dates(past: Past, commits: Sequence[str]) -> NDArray[np.datetime64]:
    timestamps = {sha: commit.date.timestamp() for sha, commit in past.commits.items()}
    return _times(np.array([timestamps.get(sha, np.nan) for sha in commits], np.float64))


def _times(seconds: FloatArray) -> NDArray[np.datetime64]:
    """Return Unix times, s, as times of numpy. NaT for NaN."""
    is_known = np.isfinite(seconds)
    times = (np.where(is_known, seconds, 0) * 1e6).astype(np.int64).astype("datetime64[us]")
    return np.where(is_known, times, np.datetime64("NaT", "us"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the `export` command."""
    group = parser.add_mutually_exclusive_group(required=True)
    for name, text in EXPORTS.items():
        group.add_argument(f"--{name}", type=Path, metavar="FILE", help=text)
    parser.add_argument(
        "--history", action="store_true", help="with --openmetrics: every value, at the time of its commit"
    )
    parser.add_argument(
        "--results", type=Path, default=Path("results"), help="asv's results directory (default: results)"
    )
    parser.add_argument("--repository", type=Path, default=Path(), help="the clone of the kernels (default: here)")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Write the file. Print notes to `err`, one line each, and what was written to `out`."""
    name, path = next((name, path) for name in EXPORTS if (path := getattr(args, name)) is not None)
    if args.history and name != "openmetrics":
        raise UsageError(f"--history: is for --openmetrics, got --{name}, which has every value without it")
    backend = _backend() if name == "parquet" else ""
    with progress.reported(err):
        past = series_past.open(args.results, args.repository)
    for note in past.notes:
        print(f"note: {note}", file=err)
    table = values(past)
    count = len(table["value"])
    if not count:
        raise ResultsError(f"{args.results}: it has no value to export: name asv's results directory with --results")
    if name == "parquet":
        replace_bytes(path, parquet(table, backend))
    elif name == "csv":
        replace_text(path, csv_text(table))
    else:
        lines = [*openmetrics(past, history=args.history)]
        count = sum(not line.startswith("#") for line in lines)
        replace_text(path, "".join(f"{line}\n" for line in lines))
    print(f"{units.count(count, 'value')}: {path}", file=out)
    return 0


def _backend() -> str:
    """Return the data frame package that writes Parquet."""
    backend = backend_of()
    if backend == "pandas" and importlib.util.find_spec("pyarrow") is None:
        raise UsageError("a Parquet file needs polars, or pyarrow beside pandas: pip install polars")
    return backend


def parquet(table: Table, backend: str) -> bytes:
    """Return a table of VALUES as a Parquet file, made by a data frame package."""
    stream = io.BytesIO()
    frame(table, VALUES, backend).write_parquet(stream)
    return stream.getvalue()


def csv_text(table: Table) -> str:
    """Return a table of VALUES as CSV (RFC 4180). Times of day are in UTC. What is unknown is empty."""

    def texts(name: str, kind: str) -> list[Any]:
        if kind == TEXT:
            return table[name]  # type: ignore[no-any-return]
        if kind == TIME:
            moments = np.datetime_as_string(np.asarray(table[name], "M8[us]"), unit="s").tolist()
            return ["" if moment == "NaT" else f"{moment}Z" for moment in moments]
        return ["" if math.isnan(number) else number for number in np.asarray(table[name], np.float64).tolist()]

    columns = [texts(name, kind) for name, kind in VALUES.items()]
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow(VALUES)
    writer.writerows(zip(*columns, strict=True))
    return stream.getvalue()


def openmetrics(past: Past, *, history: bool = False) -> Iterator[str]:
    """Yield the lines of the newest value of every series that has one: a gauge for times, memory and other values.

    Args:
        history: yield all values, at the times of their commits, ascending. Of commits of one second, the newest one's.
    """
    samples: dict[str, list[str]] = {metric: [] for metric in (*METRICS.values(), OTHER)}
    for key in past.keys:
        columns = past.columns(key)
        measured = np.flatnonzero(columns.is_measured)
        metric = METRICS.get(columns.unit, OTHER)
        labels = {name: getattr(key, name) for name in LABELS} | ({"unit": columns.unit} if metric == OTHER else {})
        listed = ",".join(f'{name}="{text.translate(_ESCAPED)}"' for name, text in labels.items())
        values = columns.seconds[measured].tolist()
        if history:
            dates = [past.commits[past.line[position]].date for position in columns.position[measured].tolist()]
            by_time = {int(date.timestamp()): value for date, value in zip(dates, values, strict=True)}
            samples[metric] += [f"{metric}{{{listed}}} {by_time[time]} {time}" for time in sorted(by_time)]
        else:
            samples[metric] += [f"{metric}{{{listed}}} {value}" for value in values[-1:]]
    what = (
        "a value on the first-parent line of HEAD" if history else "the newest value on the first-parent line of HEAD"
    )
    for metric, lines in samples.items():
        if lines:
            yield f"# TYPE {metric} gauge"
            yield from (f"# UNIT {metric} {unit}" for unit, name in METRICS.items() if name == metric)
            yield f"# HELP {metric} {what}"
            yield from lines
    yield "# EOF"
