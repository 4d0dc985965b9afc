"""``kv nightly`` (`make nightly`): measure what is new, judge it, confirm it, record it, publish it.

    measure     what is new, holes, what did not build, or a heartbeat (measure.py), by asv, into the history
    judge       what moved tonight, and what the machine did of it, as the pages say (judge.py, verdict/moves.py)
    confirm     the rest, and every series whose code changed, by re-runs in turns. Bisect (confirm.py)
    record      findings, and what became of those of earlier nights (results/findings)
    publish     the site, with the verdict. Then the comparison, the verdict, and its exit status (contract)

After any interruption, the next start resumes: values, rounds and findings are recorded as they come, the rest in a
journal.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TextIO

from kernel_velocity import lock, statuses
from kernel_velocity.ab.session import AsvRunner
from kernel_velocity.errors import KernelVelocityError, UsageError
from kernel_velocity.files import check_report, replace_text
from kernel_velocity.findings import store
from kernel_velocity.findings import text as finding_text
from kernel_velocity.findings.report import FORMATS
from kernel_velocity.findings.verdict import as_report, exit_status, summary
from kernel_velocity.nightly import conclude, measure
from kernel_velocity.nightly.conclude import Concluded
from kernel_velocity.nightly.measure import NightJournal
from kernel_velocity.past import past
from kernel_velocity.results import git
from kernel_velocity.runner import checks, report, select, track
from kernel_velocity.runner.asv import machine
from kernel_velocity.runner.checks import measuring, seconds
from kernel_velocity.runner.session import Session
from kernel_velocity.statuses import OF_NIGHTS
from kernel_velocity.suite import config

BUDGET = 120.0  # minutes
TIER = "full"
SETTINGS = ("bench", "rounds", "tier", "machine")  # of `track` that a night has, too


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments. Each default comes from KV_<NAME>."""
    parser.epilog = statuses.in_help(OF_NIGHTS)
    for name in SETTINGS:
        text = "core or full (default)" if name == "tier" else track.SETTINGS[name]
        parser.add_argument(f"--{name}", help=f"{text} (or KV_{name.upper()})")
    parser.add_argument(
        "--budget",
        metavar="MINUTES",
        default=f"{BUDGET:g}",
        help="time for as many whole commits as fit, at least one, and then for confirming changes "
        f"(default {BUDGET:g})",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: cuda where there is a GPU (or KV_DEVICE)")
    parser.add_argument("--no-site", action="store_true", help="do not write the dashboard")
    parser.add_argument("--no-ceilings", action="store_true", help="do not measure the machine's ceilings")
    for name in FORMATS:
        parser.add_argument(f"--{name}", metavar="FILE", type=Path, help=f"write the verdict as {name}")
    parser.add_argument("--root", type=Path, default=Path(), help="the folder of asv.conf.json (default: here)")
    checks.add_lock_clocks(parser)
    lock.add_wait(parser)


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Run a night. Return its exit status."""
    args.range, args.again, args.every, args.minutes, args.all = None, None, None, None, False
    args.tier = args.tier or os.environ.get("KV_TIER") or TIER
    budget = seconds(args.budget)
    reports = _reports(args)
    if ignored := [name for name in ("KV_RANGE", "KV_AGAIN") if os.environ.get(name)]:
        print(f"note: {' and '.join(ignored)}: for kv track; a night chooses its commits by itself", file=err)
    with measuring(args.root, err, wait=args.wait, lock_clocks=args.lock_clocks):
        began = time.monotonic()
        work, journal, device = _measured(args, track.settings(args, os.environ), budget, out, err)
        runner = AsvRunner(root=Path.cwd(), device=device, err=err)
        left = _left(budget, time.monotonic() - began, out)
        recorded = past.open(work.results, work.root) if work.has_results() else None
        concluded = conclude.conclude(work, journal, recorded, runner, budget=left, out=out)
        try:
            unwritten = _written(concluded, reports, work, out, site=not args.no_site)
        finally:  # whatever becomes of files and pages
            print_verdict(concluded, work.commits, out)
        if not concluded.unwritten:
            # Last: whoever ends this before has the next start report everything again
            built = [commit for commit in work.commits if commit not in work.failed_builds]
            incomplete = [commit for commit in built if commit not in work.unreadable and not work.is_measured(commit)]
            journal.end(work.commits, tuple(work.failed_builds), incomplete)
        return exit_status(concluded.verdict) or (KernelVelocityError.exit_code if unwritten else 0)


def _reports(args: argparse.Namespace) -> dict[str, Path]:
    """Return the file of each requested format.

    Raises:
        UsageError: a file cannot be written there.
    """
    paths = {name: path for name in FORMATS if (path := getattr(args, name)) is not None}
    for name, path in paths.items():
        if str(path) == "-":
            raise UsageError(f"--{name} -: a file is wanted; standard output has the night's progress")
        check_report(f"--{name}", path)
    return {name: path.absolute() for name, path in paths.items()}


def _measured(
    args: argparse.Namespace, settings: track.TrackSettings, budget: float, out: TextIO, err: TextIO
) -> tuple[Session, NightJournal, str]:
    """Choose the commits of a new or interrupted night, and measure them. Return the device as well."""
    name, wanted = machine(settings.machine), args.device or os.environ.get("KV_DEVICE") or None
    device = measure.choose(wanted, Path(config.results_dir(Path()), name), time.time())
    series = select.select(config.suite(Path()), device, settings.tier, settings.bench)

    def session(commits: tuple[str, ...]) -> Session:
        return Session(root=Path.cwd(), commits=commits, series=series, rounds=settings.rounds, machine=name)

    line = session(git.newest(Path(), measure.LOOKED_AT))
    measure.check_line(line)
    journal = NightJournal(measure.journal_path(Path.cwd(), name, line.environment), measure.setting(line, os.environ))
    night = measure.begin(line, journal.record, budget=budget, now=time.time(), out=out)
    journal.begin(night)
    work = session(night.commits)
    work.unreadable.update(line.unreadable)
    measure.measure(work, night, device=device, ceilings=not args.no_ceilings, out=out)
    return work, journal, device


def _left(budget: float, spent: float, out: TextIO) -> float:
    """Return the seconds of a budget that remain for re-runs, with a note where none do."""
    if spent >= budget:
        print(
            f"note: building and measuring took {spent / 60:.1f} minutes of a budget of {budget / 60:g}: the next "
            "night re-measures what moved",
            file=out,
        )
    return max(0.0, budget - spent)


def _written(concluded: Concluded, reports: Mapping[str, Path], work: Session, out: TextIO, *, site: bool) -> list[str]:
    """Record the verdict, write its reports, and publish. Return what could not be written, with an error line each.

    The night need not be repeated for that: nothing that it measured is lost.
    """

    def publish() -> None:
        print(f"\nDashboard: {work.publish(out).as_uri()}", file=out)

    verdict = concluded.verdict
    record = store.night_record(verdict, work.machine, concluded.memory)
    steps: dict[str, Callable[[], object]] = {"verdict": lambda: store.write_night(work.results, record)}
    written = as_report(verdict)
    steps |= {name: partial(replace_text, path, FORMATS[name](written)) for name, path in reports.items()}
    steps |= {"site": publish} if site and work.has_results() else {}
    failed = []
    for name, write in steps.items():
        try:
            write()
        except (KernelVelocityError, OSError) as error:
            failed.append(name)
            print(f"error: the {name} cannot be written: {error}", file=out)
    return failed


def print_verdict(concluded: Concluded, commits: Sequence[str], out: TextIO) -> None:
    """Print the comparison of the night's commits (newest first), the findings, and the verdict in the last line."""
    verdict = concluded.verdict
    table = report.speed_table(concluded.measurements, tuple(reversed(commits)))
    lines = [f"\n{table}"] if table else []
    lines += [f"failed build: {failed.what[:8]}: {failed.why}" for failed in verdict.failed_builds]
    lines += [f"failed: {failed.what}: {failed.why}" for failed in verdict.failures]
    lines += verdict.errors
    lines += [f"note: {note}" for note in (*verdict.notes, *map(finding_text.stale, verdict.stale))]
    lines += [f"refuted: {line}" for line in concluded.refuted]
    lines += [f"\n{finding_text.table(verdict.findings)}"] if verdict.findings else []
    lines += [f"\n{verdict.title}: {summary(verdict)} ({verdict.measured} series measured)"]
    print("\n".join(lines), file=out, flush=True)
