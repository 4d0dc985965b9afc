"""``kv lab record``: raw traces of every kernel, in several fresh processes, for `kv lab replay`.

A folder for each process, `.asv/traces/process-01` and so on, a file for each series in it; a file that is there is not
recorded again, so that a command that was cut off goes on where it was. Remove the folder to record anew.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TextIO

from kernel_velocity import lock
from kernel_velocity.errors import BenchmarkFailed, UsageError
from kernel_velocity.results.traces import TRACES
from kernel_velocity.runner import host, live

DEFAULT_PROCESSES = 3
DEFAULT_SECONDS = 2.0  # s of every trace: as long as the longest that our own rule takes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    live.add_bench(parser)
    parser.add_argument(
        "--processes",
        type=int,
        default=DEFAULT_PROCESSES,
        help=f"fresh processes to have traces of in the end (default {DEFAULT_PROCESSES})",
    )
    parser.add_argument(
        "--seconds", type=float, default=DEFAULT_SECONDS, help=f"wall time of a trace (default {DEFAULT_SECONDS:g})"
    )


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Record in one process after the other; return the status of the first in which something failed, else 0.

    A series that fails leaves the others' traces, and further processes are tried; after any other error, they are not.
    """
    if args.processes < 1:
        raise UsageError(f"--processes {args.processes}: wanted at least 1")
    options = [f"--device={host.device()}", *live.given(args, ("seconds", "bench"))]
    failed = 0
    with lock.held(Path()):
        for number in range(1, args.processes + 1):
            folder = TRACES / f"process-{number:02}"
            print(f"process {number}/{args.processes}: {folder}", file=out, flush=True)
            status = live.run("traces", [str(folder), *options], out, err)
            if status not in (0, BenchmarkFailed.exit_code):
                return status
            failed = failed or status
    return failed
