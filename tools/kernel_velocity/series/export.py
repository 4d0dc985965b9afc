"""`kv export`: every recorded value as a Parquet or CSV file, or the newest value of each series for OpenMetrics."""

from __future__ import annotations

import argparse
import csv
import importlib.util
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from kernel_velocity import units
from kernel_velocity.errors import ResultsError, UsageError
from kernel_velocity.files import replace_bytes, replace_text
from kernel_velocity.series import frames
from kernel_velocity.series import past as series_past
from kernel_velocity.series.frames import TEXT, TIME, VALUES, Table
from kernel_velocity.series.past import Past

FORMATS = {
    "parquet": "every value as a Parquet file (needs polars, or pandas with pyarrow)",
    "csv": "every value as a CSV file",
    "openmetrics": "the newest value of every series as text for Prometheus",
}
# Not the commit: every new one would begin another series in the database
LABELS = ("machine", "environment", "benchmark", "implementation", "case", "version")
METRICS = {units.SECONDS: "kernel_velocity_time_seconds", units.BYTES: "kernel_velocity_memory_bytes"}  # by unit
OTHER = "kernel_velocity_value"  # the metric of all other units, each of which is a label
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the `export` command."""
    group = parser.add_mutually_exclusive_group(required=True)
    for name, text in FORMATS.items():
        group.add_argument(f"--{name}", type=Path, metavar="FILE", help=text)
    parser.add_argument(
        "--results", type=Path, default=Path("results"), help="asv's results directory (default: results)"
    )
    parser.add_argument("--repository", type=Path, default=Path(), help="the clone of the kernels (default: here)")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Write the file. Print notes to `err`, one line each, and what was written to `out`."""
    name, path = next((name, path) for name in FORMATS if (path := getattr(args, name)) is not None)
    backend = _backend() if name == "parquet" else ""
    past = series_past.open(args.results, args.repository)
    for note in past.notes:
        print(f"note: {note}", file=err)
    table = frames.values(past)
    count = len(table["value"])
    if not count:
        raise ResultsError(f"{args.results}: it has no value to export: name asv's results directory with --results")
    if name == "parquet":
        replace_bytes(path, parquet(table, backend))
    elif name == "csv":
        replace_text(path, csv_text(table))
    else:
        lines = [*openmetrics(past)]
        count = sum(not line.startswith("#") for line in lines)
        replace_text(path, "".join(f"{line}\n" for line in lines))
    print(f"{units.count(count, 'value')}: {path}", file=out)
    return 0


def _backend() -> str:
    """Return the data frame package that writes Parquet."""
    backend = frames.backend_of()
    if backend == "pandas" and importlib.util.find_spec("pyarrow") is None:
        raise UsageError("a Parquet file needs polars, or pyarrow beside pandas: pip install polars")
    return backend


def parquet(table: Table, backend: str) -> bytes:
    """Return a table of VALUES as a Parquet file, made by a data frame package."""
    stream = io.BytesIO()
    frames.frame(table, VALUES, backend).write_parquet(stream)
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


def openmetrics(past: Past) -> Iterator[str]:
    """Yield the lines of the newest value of every series that has one: a gauge for times, memory and other values."""
    samples: dict[str, list[str]] = {metric: [] for metric in (*METRICS.values(), OTHER)}
    for key in past.keys:
        columns = past.columns(key)
        measured = np.flatnonzero(columns.is_measured)
        if measured.size:
            metric = METRICS.get(columns.unit, OTHER)
            labels = {name: getattr(key, name) for name in LABELS} | ({"unit": columns.unit} if metric == OTHER else {})
            listed = ",".join(f'{name}="{text.translate(_ESCAPED)}"' for name, text in labels.items())
            samples[metric].append(f"{metric}{{{listed}}} {columns.seconds[measured[-1]]}")
    for metric, lines in samples.items():
        if lines:
            yield f"# TYPE {metric} gauge"
            yield from (f"# UNIT {metric} {unit}" for unit, name in METRICS.items() if name == metric)
            yield f"# HELP {metric} the newest value on the first-parent line of HEAD"
            yield from lines
    yield "# EOF"
