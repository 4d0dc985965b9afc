"""``kv nightly`` (`make nightly`): what is new is measured, judged, confirmed, written down and published.

    measure     what is new, holes, what once did not build, or a heartbeat (night_selection), by asv, into the history
    screen      every series that has a value of this night against its history; attribute what moved (regressions)
    confirm     what is left by re-runs in turns, and bisect it (ab_run, confirming, bisecting)
    record      findings, and what became of those of earlier nights (results/findings)
    publish     the site, with the verdict; then the comparison, the verdict, and an exit status that says it (contract)

Whatever interrupts it, the next start goes on: values, rounds and findings are kept as they come, the rest in a
journal.

What a night prints at its end, and the files that it writes of its verdict.
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
from kernel_velocity.files import replace_text
from kernel_velocity.findings import last_night
from kernel_velocity.findings import text as finding_text
from kernel_velocity.findings.verdict import Verdict, exit_status, summary
from kernel_velocity.findings.verdict_formats import FORMATS
from kernel_velocity.nightly import conclude, journal, measure, plan
from kernel_velocity.nightly.conclude import Concluded
from kernel_velocity.nightly.measure import LOOKED_AT
from kernel_velocity.results import git
from kernel_velocity.runner import report, select, track
from kernel_velocity.runner.asv import machine
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
    for name in FORMATS:
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
        concluded = conclude.conclude(work, end.since, runner, budget=left, out=out)
        try:
            unwritten = _written(concluded.verdict, reports, work, out, site=not args.no_site)
        finally:  # whatever becomes of files and pages
            print_verdict(concluded, work, out)
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
        "verdict": lambda: last_night.write(work.results, last_night.of(verdict, work.machine))
    }
    steps |= {name: partial(write_report, name, path, verdict) for name, path in reports.items()}
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
    found = {name: path.absolute() for name in FORMATS if (path := getattr(args, name)) is not None}
    for name, path in found.items():
        if path.name == "-" or path.is_dir() or not path.parent.is_dir():
            raise UsageError(f"--{name} {getattr(args, name)}: a file in a folder that exists is wanted")
    return found


def _measured(
    args: argparse.Namespace, chosen: track.Settings, budget: float, out: TextIO, err: TextIO
) -> tuple[Session, measure.Kept, str]:
    """Choose the night's commits, or go on with those of a night that was cut off, and measure them on a device."""
    name, asked = machine(chosen.machine), args.device or os.environ.get("KV_DEVICE") or None
    where = plan.choose(asked, Path(Config.load().results_dir, name), time.time())
    series = select.select(config.suite(Path()), where, chosen.tier, chosen.bench)

    def session(commits: tuple[str, ...]) -> Session:
        return Session(root=Path.cwd(), commits=commits, series=series, rounds=chosen.rounds, machine=name)

    line = session(git.newest(Path(), LOOKED_AT))
    setting = measure.setting(line, os.environ)
    kept = measure.Kept(journal.path_of(Path.cwd(), name, line.environment), setting)
    night = measure.begin(line, kept.journal, budget=budget, tier=chosen.tier, now=time.time(), out=out)
    kept.begun(night)
    work = session(night.commits)
    work.unreadable.update(line.unreadable)
    measure.measure(work, night, device=where, ceilings=not args.no_ceilings, out=out, err=err)
    return work, kept, where


def write_report(name: str, path: Path, verdict: Verdict) -> None:
    """Write a verdict in one of FORMATS; the file is never seen half written."""
    replace_text(path, FORMATS[name](verdict))


def print_verdict(concluded: Concluded, work: Session, out: TextIO) -> None:
    """Print the comparison of the night's commits, the findings, and the verdict in the last line."""
    verdict = concluded.verdict
    table = report.speed_table(work.measurements(), tuple(reversed(work.commits)))
    if table:
        print(f"\n{table}", file=out)
    for group, items in (("failed build", verdict.failed_builds), ("failed", verdict.failures)):
        for failed in items:
            print(f"{group}: {failed.what[:8] if group == 'failed build' else failed.what}: {failed.why}", file=out)
    for text in (*verdict.errors, *(f"note: {note}" for note in verdict.notes)):
        print(text, file=out)
    for stale in verdict.stale:
        print(f"note: {finding_text.stale(stale)}", file=out)
    for line in concluded.refuted:
        print(f"refuted: {line}", file=out)
    if verdict.findings:
        print(f"\n{finding_text.table(verdict.findings)}", file=out)
    said = f"{verdict.title}: {summary(verdict)} ({verdict.measured} series measured)"
    print(f"\n{said}", file=out, flush=True)
