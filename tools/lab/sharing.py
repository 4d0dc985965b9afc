"""``python -m lab sharing``: whether a series reads the same in a process that measured others, and what that saves.

A round's series share one process on a GPU, on a CPU with KV_ISOLATE=0 (engine/server.py). This compares them with
series in processes of their own, of the working tree, in turns (sharing_series.py).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TextIO

from kernel_velocity import documents, lock
from kernel_velocity.errors import UsageError
from kernel_velocity.runner import asv, host
from kernel_velocity.tables import aligned
from lab.sharing_series import FEWEST_PASSES, MODULE, table

PASSES = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--bench", metavar="REGEX", help="only series whose name matches, such as 'matmul.*native'")
    text = f"passes, each with fresh processes (default {PASSES})"
    parser.add_argument("--passes", type=int, default=PASSES, help=text)


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Measure, then print the table. Return the exit status."""
    if args.passes < FEWEST_PASSES:
        raise UsageError(f"--passes {args.passes}: wanted at least {FEWEST_PASSES}, for an interval")
    with lock.held(Path()), tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sharing.json")
        options = [f"--device={host.device()}", f"--passes={args.passes}"]
        options += [] if args.bench is None else [f"--bench={args.bench}"]
        status = asv.run_measuring(MODULE, [str(path), *options], lambda line: print(line, file=err, flush=True))
        if status == 0:
            print(aligned(table(documents.read_checked(path)["rows"])), file=out)
    return status
