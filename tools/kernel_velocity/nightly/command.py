"""``kv nightly`` (`make nightly`): what is new is measured, judged, confirmed, written down and published.

    measure     what is new, holes, what once did not build, or a heartbeat (night_selection), by asv, into the history
    screen      every series that has a value of this night against its history; attribute what moved (regressions)
    confirm     what is left by re-runs in turns, and bisect it (ab_run, confirming, bisecting)
    record      findings, and what became of those of earlier nights (results/findings)
    publish     the site, with the verdict; then the comparison, the verdict, and an exit status that says it (contract)

Whatever interrupts it, the next start goes on: values, rounds and findings are kept as they come, the rest in a
journal.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TextIO

from asv.config import Config

from kernel_velocity import config
from kernel_velocity.ab.session import AsvRunner
from kernel_velocity.errors import KernelVelocityError, UsageError
from kernel_velocity.findings import last_night as kept_verdicts
from kernel_velocity.findings.verdict import Verdict, exit_status
from kernel_velocity.nightly import conclude as night_concluding
from kernel_velocity.nightly import journal as night_journal
from kernel_velocity.nightly import measure as night_measuring
from kernel_velocity.nightly import night_device, night_report
from kernel_velocity.nightly.measure import LOOKED_AT
from kernel_velocity.results import clone
from kernel_velocity.runner import select as selection
from kernel_velocity.runner import track
from kernel_velocity.runner.asv_setup import machine
from kernel_velocity.runner.checks import measuring, seconds
from kernel_velocity.runner.session import Session

BUDGET = 120.0  # minutes
TIER = "full"
SETTINGS = ("bench", "rounds", "tier", "machine")  # of `track` that a night has, too


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments; each default comes from KV_<NAME>."""
    for name in SETTINGS:
        text = "core or full (default)" if name == "tier" else track.SETTINGS[name]
        parser.add_argument(f"--{name}", help=f"{text}; KV_{name.upper()}")
    parser.add_argument(
        "--budget",
        metavar="MINUTES",
        default=f"{BUDGET:g}",
        help="how many commits are measured, one at least and each of them whole, however long it then takes; what is "
        f"left of it is for looking again (default {BUDGET:g})",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: the GPU where there is one; KV_DEVICE")
    parser.add_argument("--no-site", action="store_true", help="write no pages")
    parser.add_argument("--no-ceilings", action="store_true", help="leave out what the machine can do at most")
    for name in night_report.FORMATS:
        parser.add_argument(f"--{name}", metavar="FILE", type=Path, help=f"write the verdict as {name}")
    parser.add_argument("--root", type=Path, default=Path(), help="the folder of asv.conf.json (default: here)")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Do the night; return the exit status (contract)."""
    began = time.monotonic()
    args.range, args.again = None, None
    args.tier = args.tier or os.environ.get("KV_TIER") or TIER
    budget = seconds(args.budget)
    reports = _reports(args)
    if ignored := [name for name in ("KV_RANGE", "KV_AGAIN") if os.environ.get(name)]:
        print(f"note: {' and '.join(ignored)}: for make track; a night chooses its commits by itself", file=err)
    with measuring(args.root, err):
        work, end, where = _measured(args, track.settings(args, os.environ), budget, out, err)
        runner = AsvRunner(root=Path.cwd(), device=where, err=err)
        left = _left(budget, time.monotonic() - began, out)
        concluded = night_concluding.conclude(work, end.since, runner, budget=left, out=out)
        try:
            unwritten = _written(concluded.verdict, reports, work, out, site=not args.no_site)
        finally:  # whatever becomes of files and pages
            night_report.say(concluded, work, out)
        if not concluded.unwritten:
            end.over(work)  # last: whoever ends this before has the next start tell everything again
        return exit_status(concluded.verdict) or (KernelVelocityError.exit_code if unwritten else 0)


def _left(budget: float, spent: float, out: TextIO) -> float:
    """Return the s that are left of a budget for looking again; where it is used up, that is said."""
    if spent >= budget:
        print(
            f"note: building and measuring took {spent / 60:.1f} minutes of a budget of {budget / 60:g}: what moved is "
            "looked at again by the next night",
            file=out,
        )
    return max(0.0, budget - spent)


def _written(verdict: Verdict, reports: Mapping[str, Path], work: Session, out: TextIO, *, site: bool) -> list[str]:
    """Keep the verdict, write its reports, and publish; return what could not be written, which is told a line each.

    That is no reason to do the night again: nothing that it measured is lost.
    """

    def publish() -> None:
        print(f"\nDashboard: {work.publish(out).as_uri()}", file=out)

    steps: dict[str, Callable[[], object]] = {
        "verdict": lambda: kept_verdicts.write(work.results, kept_verdicts.of(verdict, work.machine))
    }
    steps |= {name: partial(night_report.write, name, path, verdict) for name, path in reports.items()}
    steps |= {"site": publish} if site and work.has_results() else {}
    failed = []
    for name, write in steps.items():
        try:
            write()
        except (KernelVelocityError, OSError) as error:
            failed.append(name)
            print(f"error: the {name} cannot be written: {error}", file=out)
    return failed


def _reports(args: argparse.Namespace) -> dict[str, Path]:
    """Return where the verdict is written, by format.

    Raises:
        UsageError: a file cannot be written there. It is looked at before hours of measuring.
    """
    found = {name: path.absolute() for name in night_report.FORMATS if (path := getattr(args, name)) is not None}
    for name, path in found.items():
        if path.name == "-" or path.is_dir() or not path.parent.is_dir():
            raise UsageError(f"--{name} {getattr(args, name)}: a file in a folder that exists is wanted")
    return found


def _measured(
    args: argparse.Namespace, chosen: track.Settings, budget: float, out: TextIO, err: TextIO
) -> tuple[Session, night_measuring.Kept, str]:
    """Choose the night's commits, or go on with those of a night that was cut off, and measure them on a device."""
    name, asked = machine(chosen.machine), args.device or os.environ.get("KV_DEVICE") or None
    where = night_device.choose(asked, Path(Config.load().results_dir, name), time.time())
    series = selection.select(config.suite(Path()), where, chosen.tier, chosen.bench)

    def session(commits: tuple[str, ...]) -> Session:
        return Session(root=Path.cwd(), commits=commits, series=series, rounds=chosen.rounds, machine=name)

    line = session(clone.newest(Path(), LOOKED_AT))
    setting = night_measuring.setting(line, os.environ)
    kept = night_measuring.Kept(night_journal.path_of(Path.cwd(), name, line.environment), setting)
    night = night_measuring.begin(line, kept.journal, budget=budget, tier=chosen.tier, now=time.time(), out=out)
    kept.begun(night)
    work = session(night.commits)
    work.unreadable.update(line.unreadable)
    night_measuring.measure(work, night, device=where, ceilings=not args.no_ceilings, out=out, err=err)
    return work, kept, where
