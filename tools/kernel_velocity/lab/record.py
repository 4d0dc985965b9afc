"""``kv lab record``: record raw traces of every kernel, in several fresh processes, for `kv lab replay`.

Each process has a folder, `.asv/traces/process-01` and so on, with a file for each series. A file that exists is not
recorded again, so that an interrupted command resumes. Remove the folder to record anew.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TextIO

from kernel_velocity import lock
from kernel_velocity.errors import BenchmarkFailed, UsageError
from kernel_velocity.results.traces import TRACES
from kernel_velocity.runner import host
from kernel_velocity.runner import stages as processes
from lab import stages

PROCESSES = 3
SECONDS = 2.0  # of every trace: as long as the longest that our own rule takes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    stages.add_bench(parser)
    text = f"processes to record, earlier ones included (default {PROCESSES})"
    parser.add_argument("--processes", type=int, default=PROCESSES, help=text)
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"wall time of a trace (default {SECONDS:g})")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Record in one process after the other. Return the status of the first in which a series failed, else 0.

    A failed series keeps the others' traces, and further processes are started. Any other error ends the command.
    """
    if args.processes < 1:
        raise UsageError(f"--processes {args.processes}: wanted at least 1")
    options = [f"--device={host.device()}", *stages.options_given(args, ("seconds", "bench"))]
    failed = 0
    with lock.held(Path()):
        for number in range(1, args.processes + 1):
            folder = TRACES / f"process-{number:02}"
            print(f"process {number}/{args.processes}: {folder}", file=out, flush=True)
            status = processes.run(stages.MODULE, ["traces", str(folder), *options], out, err)
            if status not in (0, BenchmarkFailed.exit_code):
                return status
            failed = failed or status
    return failed
