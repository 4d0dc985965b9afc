"""``python -m tools offline <step>``: the whole suite on a machine without a network.

    pack DIR              on a machine with a network: everything that a node needs, in one folder
    sh DIR/run OUT        on the node (node/run, node/launch.py): set-up, then the stages of stages.py, in time slices
    unpack TAR            back home: merge what was measured into `results/`

The steps between are commands of their own, because a stage is a process that can be killed: `time_slice`, which the
launcher starts, and `ceilings`, `traces` and `timers`, which that one starts.
"""

from __future__ import annotations

import argparse
import importlib
from typing import TextIO

STEPS = {
    "pack": "collect what a node without a network needs into one folder",
    "unpack": "merge the tar of a node into results/",
    "time_slice": "what `sh DIR/run OUT` runs on the node: every stage, resumed where it was cut off",
    "ceilings": "measure what the machine can do: bandwidths, FLOP/s, launch overhead",
    "traces": "record raw samples of every timer and cache state",
    "timers": "compare our timers with independent ones",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare a subcommand per step."""
    steps = parser.add_subparsers(dest="step", metavar="step", required=True)
    for name, text in STEPS.items():
        importlib.import_module(f"tools.offline.{name}").add_arguments(
            steps.add_parser(name, help=text, description=text)
        )


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Run the step; return its exit status."""
    status: int = importlib.import_module(f"tools.offline.{args.step}").run(args, out, err)
    return status
