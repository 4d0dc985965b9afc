"""``kv track``: measure here, or by the machines of --fleet."""

from __future__ import annotations

import argparse
import contextlib
import os
from typing import TextIO

from kernel_velocity.errors import UsageError
from kernel_velocity.fleet import plan
from kernel_velocity.runner import track
from kernel_velocity.suite import config

FLEET_ONLY = ("anchors", "session")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `kv track`, and those of a fleet."""
    track.add_arguments(parser)
    fleet = parser.add_argument_group("many machines", "docs/how-to/cluster.md")
    fleet.add_argument(
        "--fleet",
        metavar="SCHEDULER",
        help="measure by the workers of Dask: tcp://HOST:PORT, local:3, or slurm:nodes=4,partition=gpu",
    )
    fleet.add_argument(
        "--anchors", type=int, metavar="N", help=f"commits that blocks of a history share (default {plan.ANCHORS})"
    )
    fleet.add_argument(
        "--session", type=float, metavar="MINUTES", help=f"longest session of a machine (default {plan.SESSION / 60:g})"
    )


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Measure. Return the exit status.

    Raises:
        UsageError: an option makes no sense.
    """
    if args.fleet is None:
        if unfit := [name for name in FLEET_ONLY if getattr(args, name) is not None]:
            raise UsageError(f"--{unfit[0]} is for --fleet, which is missing")
        return track.run(args, out, err)
    from kernel_velocity.fleet import run as fleet  # noqa: PLC0415 - a node that only measures has less installed

    args.anchors = plan.ANCHORS if args.anchors is None else args.anchors
    args.session = plan.SESSION / 60 if args.session is None else args.session
    if args.anchors < 0 or not args.session > 0:
        raise UsageError(
            f"--anchors {args.anchors}, --session {args.session:g}: a number from 0 on and positive minutes are "
            "wanted, for example --anchors 2 --session 120"
        )
    if args.device is not None:
        raise UsageError(f"--device {args.device}: is for this machine; a fleet measures the devices of its workers")
    config.check(args.root)
    settings = track.settings(args, os.environ)
    with contextlib.chdir(args.root):
        return fleet.run(args, settings, out)
