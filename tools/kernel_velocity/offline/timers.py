"""`kv offline timers FILE.json --device D`: compare our timers with independent ones, in a table."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from kernel_velocity.errors import NothingMeasured, UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.harness import independent
from kernel_velocity.harness.benchmark import prepare_torch
from kernel_velocity.runner import live
from kernel_velocity.units import seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the step's arguments."""
    parser.add_argument("file", metavar="FILE.json", type=Path, help="where the comparison is written")
    live.add_device(parser)
    live.add_bench(parser)


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Compare in a process of its own; return its exit status."""
    return live.run("timers", [str(args.file), *live.given(args, ("device", "bench"))], out, err)


def measure(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Compare in this process, write the file, print the table. Disagreement is a finding, not a failure.

    Raises:
        UsageError: torch or the device is missing, or --bench makes no sense.
        NothingMeasured: no series could be timed.
    """
    series = live.chosen(args.device, args.bench)
    try:
        prepare_torch(args.device)
    except NotImplementedError as error:
        raise UsageError(f"--device {args.device}: {error}; nothing was measured") from None
    document = independent.measure(series, args.device, partial(_write, args.file))
    _write(args.file, document)
    out.writelines(f"{line}\n" for line in table(document))
    if all(row["harness"] is None for row in document["rows"]):
        raise NothingMeasured(f"--device {args.device}: none of {len(series)} series could be timed, see {args.file}")
    return 0


def _write(path: Path, document: Mapping[str, Any]) -> None:
    replace_text(path, json.dumps(document, indent=1) + "\n")


def table(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a plain-text table: a series per line, our time first, then the others', then the verdict."""
    rows = document["rows"]
    methods = list(rows[0]["others"]) if rows else []
    cells = [["series", "harness", *methods, "worst", "verdict"]]
    for row in rows:
        name = f"{row['kernel']} {row['implementation']} {row['case']}"
        times = [row["harness"], *(row["others"][method] for method in methods)]
        worst = "-" if row["worst"] is None else f"{row['worst']:+.1%}"
        cells.append([name, *("-" if time is None else seconds(time) for time in times), worst, verdict(row)])
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    for line, why in zip(cells, ["", *(row["why"] for row in rows)], strict=True):
        first, *rest = (
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        yield "  ".join([first, *rest, why]).rstrip()
    for method, why in document["missing"].items():
        yield f"{method}: no value: {why}"


def verdict(row: Mapping[str, Any]) -> str:
    """Return the verdict of a row in a word or two; "too noisy": the passes differ by more than the methods."""
    if row["harness"] is None:
        return "not timed"
    unknown = "not compared" if row["worst"] is None else "too noisy"
    return {True: "agree", False: "DISAGREE", None: unknown}[row["agrees"]]
