"""``python -m lab record``: record raw traces of every kernel, in several fresh processes, for `python -m lab replay`.

Each process has a folder, `.asv/traces/process-01` and so on, with a file for each trace (traces.py). A file that
exists is not recorded again, so that an interrupted command resumes. Remove the folder to record anew.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import TextIO

from kernel_velocity import documents, lock
from kernel_velocity.documents import with_checksum
from kernel_velocity.errors import ResultsError, UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.runner import asv, host
from lab import traces
from lab.traces import TRACES, Document

PROCESSES = 3
SECONDS = 2.0  # of every trace: as long as the longest that our own rule takes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--bench", metavar="REGEX", help="only series whose name matches, such as 'matmul.*native'")
    text = f"processes to record, earlier ones included (default {PROCESSES})"
    parser.add_argument("--processes", type=int, default=PROCESSES, help=text)
    text = f"wall time of a trace (default {SECONDS:g})"
    parser.add_argument("--seconds", type=float, default=SECONDS, help=text)
    parser.add_argument("--into", metavar="FOLDER", type=Path, help="record in this process, into FOLDER")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Record in one process after the other. Return the status of the first that failed, else 0.

    Raises:
        UsageError: a number makes no sense.
    """
    if args.processes < 1:
        raise UsageError(f"--processes {args.processes}: wanted at least 1")
    if not 0 < args.seconds < 3600:
        raise UsageError(f"--seconds {args.seconds:g}: wanted a time between 0 and an hour")
    if args.into is not None:
        return record(args.into, host.device(), args.bench, args.seconds, out)
    environ = {**os.environ, **host.measuring_variables(os.environ.get("KV_THREADS") or None)}
    bench = [] if args.bench is None else [f"--bench={args.bench}"]
    with lock.held(Path()):
        for number in range(1, args.processes + 1):
            folder = TRACES / f"process-{number:02}"
            print(f"process {number}/{args.processes}: {folder}", file=out, flush=True)
            command = [sys.executable, "-m", "lab", "record", f"--into={folder}", f"--seconds={args.seconds}", *bench]
            to_out, to_err = (partial(print, file=stream, flush=True) for stream in (out, err))
            if status := asv.run_child(command, to_out, environ=environ, on_error=to_err):
                return status
    return 0


def record(folder: Path, device: str, bench: str | None, seconds: float, out: TextIO) -> int:
    """Record the traces that a folder lacks, of the core series of a device whose names match `bench`. Return 0.

    A series that does not apply here is named. An error of another one ends the process.

    Raises:
        UsageError: no series matches, or `bench` is no regular expression.
        ResultsError: a file of the folder is damaged.
    """

    def existing(name: str) -> Document | None:
        path = folder / name
        try:
            return documents.read(path) if path.exists() else None
        except documents.DamagedError as error:
            raise ResultsError(f"{path}: {error}; remove it to record it again") from None

    for series in traces.core_series(device, bench):
        try:
            for name, trace in traces.record(series, seconds, existing):
                replace_text(folder / name, with_checksum(json.dumps(trace, separators=(",", ":"))) + "\n")
                print(f"{name}: {len(trace['seconds'])} samples of batch {trace['batch']}", file=out, flush=True)
        except NotImplementedError as error:
            print(f"{series.name}: n/a: {error}", file=out, flush=True)
    return 0
