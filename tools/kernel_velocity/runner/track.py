"""``kv track`` (`make track`): measure the last commits that changed the kernels, then write the site.

Settings are checked first. Then commits are built, asv measures those that are incomplete, telemetry is ingested, and
the site is written. A commit that does not build and a series that fails cost a line and an exit status, and stop
nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from kernel_velocity import lock, units
from kernel_velocity.engine.sampling import REFUSED_ROUNDS, ROUNDS
from kernel_velocity.errors import BenchmarkFailed, BuildFailed, NothingMeasured, ResultsError, UsageError
from kernel_velocity.past import past
from kernel_velocity.processes import interrupted_by_request
from kernel_velocity.results import blocks, git
from kernel_velocity.results.asv_file import check_machine
from kernel_velocity.results.measurement import FIRST_LOOK, NARROW, Outcome
from kernel_velocity.runner import backfill, checks, host, report, select
from kernel_velocity.runner.asv import machine
from kernel_velocity.runner.checks import check_settings, installed_torch, seconds
from kernel_velocity.runner.session import Session
from kernel_velocity.suite import config

TOGETHER = 3  # commits whose rounds are interleaved where the time is limited
SETTINGS = {
    "range": "a git range, of which those count that changed what is built, or one revision; default: the last three",
    "bench": "measure only series that match this regular expression",
    "rounds": (
        f"most rounds of a series (default {ROUNDS}; {FIRST_LOOK} are enough where they agree within {NARROW:.1%}%; "
        f"fewer for a first look, {REFUSED_ROUNDS} is refused)"
    ),
    "tier": "core (default: two test cases of every kernel) or full (all)",
    "machine": "the machine's name in results/ (default: asv's, the host's name)",
    "again": "1: measure recorded commits again, and repeat failed builds and those of another compiler",
}


# Of several sessions, the first counts. One that halves has measured nothing where its commits do not build
STATUSES = (ResultsError.exit_code, BuildFailed.exit_code, BenchmarkFailed.exit_code, NothingMeasured.exit_code)


@dataclass(frozen=True, kw_only=True)
class TrackSettings:
    """The settings of a run. None: the default."""

    range: str | None
    bench: str | None
    rounds: int
    tier: str
    machine: str | None
    again: bool
    every: int | None = None
    all: bool = False  # whether commits of a range count that changed nothing that is built
    seconds: float = math.inf  # that the run, or each machine of a fleet, may take


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments. Each default comes from KV_<NAME>."""
    for name, text in SETTINGS.items():
        parser.add_argument(f"--{name}", help=f"{text} (or KV_{name.upper()})")
    parser.add_argument(
        "--device", help="cpu, or cuda:1 for one of several GPUs, which is a machine of its own in results/"
    )
    parser.add_argument(
        "--every", type=int, metavar="N", help="measure every N-th commit, then halve where a test case changed"
    )
    parser.add_argument("--all", action="store_true", help="measure every commit of the range")
    parser.add_argument(
        "--minutes",
        "--budget",
        dest="minutes",
        metavar="N",
        help="measure as many commits as fit into so many minutes (of each machine of a fleet), the newest first",
    )
    parser.add_argument("--no-site", action="store_true", help="do not write the dashboard")
    parser.add_argument("--no-ceilings", action="store_true", help="do not measure the machine's ceilings")
    parser.add_argument("--root", type=Path, default=Path(), help="the folder of asv.conf.json (default: here)")
    checks.add_lock_clocks(parser)
    lock.add_wait(parser)


def settings(args: argparse.Namespace, environ: Mapping[str, str]) -> TrackSettings:
    """Return the settings of the command line, else of the environment. An empty value is unset.

    Raises:
        UsageError: a value is malformed.
    """
    value = {name: getattr(args, name) or environ.get(f"KV_{name.upper()}") or None for name in SETTINGS}
    check_settings(environ)
    if args.every is not None and args.every < 1:
        raise UsageError(f"--every must be a positive number of commits (got {args.every}), for example --every 8")
    return TrackSettings(
        range=value["range"],
        bench=value["bench"],
        rounds=_rounds(value["rounds"]),
        tier=value["tier"] or "core",
        machine=value["machine"] and check_machine("MACHINE=", value["machine"]),
        again=value["again"] not in (None, "0"),
        every=args.every,
        all=args.all,
        seconds=math.inf if args.minutes is None else seconds(args.minutes, "--minutes"),
    )


def _rounds(text: str | None) -> int:
    if text is None:
        return ROUNDS
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise UsageError(f"ROUNDS={text!r}: a positive number is wanted, such as ROUNDS={ROUNDS}")
    if int(text) == REFUSED_ROUNDS:
        raise UsageError(
            f"ROUNDS={text}: asv's test cannot reach its own threshold with {text} values a side; "
            f"take {ROUNDS} for a history, or 3 for a first look"
        )
    return int(text)


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Measure, publish, report. Return the exit status (contract.md)."""
    config.check(args.root)
    chosen = settings(args, os.environ)
    with (
        interrupted_by_request(),
        contextlib.chdir(args.root),
        host.seeing(args.device),
        lock.held(Path(), wait=args.wait),
        checks.locked_clocks(args.lock_clocks, err),
        contextlib.ExitStack() as ending,
    ):
        began, measured = time.time(), 0
        device_name, commits, series = _select(chosen, out)
        is_one_gpu = args.device and args.device != "cpu"  # which is a machine of its own
        of_gpu = f"{machine(None)}-{args.device.replace(':', '')}" if is_one_gpu else None
        waves = Waves(chosen=chosen, line=commits, device=device_name, series=series)
        statuses: list[int] = []
        while True:
            work = Session(
                root=Path.cwd(),
                commits=waves.commits,
                series=waves.series,
                rounds=chosen.rounds,
                machine=machine(chosen.machine or of_gpu),
            )
            if not args.no_site:
                ending.callback(work.end_look, out)
            work.recover(out)
            work.announce(chosen.again, out, first_look=not args.no_site)
            work.build(chosen.again, out)
            work.measure(chosen.again, out, first_look=not args.no_site)
            if not args.no_ceilings and not statuses:  # after ingesting, so that an interruption loses no timing
                work.measure_ceilings(device_name, out)
            statuses.append(_report(work, chosen.tier, out))  # before publishing, which may fail
            measured += len(work.measured)
            if not waves.advance(work, out):
                break
        status = next((code for code in STATUSES if code in statuses), 0)
        if args.no_site or not work.has_results():
            return status
        print("\nwriting the dashboard", file=out, flush=True)
        index = work.publish(out)
        print(f"{units.count(measured, 'commit')} measured, {time.time() - began:.0f} s in all", file=out)
        print(f"Dashboard: {index.as_uri()}", file=out, flush=True)
        return status


@dataclass(kw_only=True)
class Waves:
    """The sessions of a run: one, or with --every one for each time that intervals are halved."""

    chosen: TrackSettings
    line: tuple[str, ...]  # newest first
    device: str
    series: select.Selection  # of the next session
    commits: tuple[str, ...] = ()  # of the next session, newest first. Empty: there is none
    tried: dict[str, set[str]] = field(default_factory=dict)  # commits of each lane
    measured: int = 0  # lanes of commits
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        if self.chosen.every is not None:
            self.commits = backfill.wanted(self.line, self.chosen.every, (), {})
        else:
            self.commits = self.line if math.isinf(self.chosen.seconds) else self.line[:TOGETHER]

    def advance(self, work: Session, out: TextIO) -> bool:
        """Set what the next session measures, by what a session recorded. Return whether there is one."""
        lanes = self._lanes
        for lane in lanes:
            self.tried.setdefault(lane, set()).update(self.commits)
        self.measured += len(work.measured) * len(lanes)
        if self.chosen.every is None:
            left = [sha for sha in self.line if sha not in self.tried[lanes[0]]]
            self.commits = tuple(left[: min(TOGETHER, self._room(len(lanes)))])
            if left and not self.commits:
                count = units.count(len(left), "commit")
                print(f"\nno time left for {count}: run the same command again", file=out)
            return bool(self.commits)
        todo = self._search(work, self.chosen.every)
        commits = tuple(sha for sha in self.line if any(sha in several for several in todo.values()))
        self.commits = commits[: self._room(len(todo))]
        if len(self.commits) < len(commits):
            count = units.count(len(commits) - len(self.commits), "commit")
            print(f"\nno time left for {count} between two that differ", file=out, flush=True)
        if self.commits:
            bench = select.of_lanes(todo, self.chosen.bench)
            self.series = select.select(config.suite(Path()), self.device, self.chosen.tier, bench)
            count = units.count(len(self.commits), "commit")
            print(f"\n{count} between two that differ in {units.listed(sorted(todo), 3)}", file=out, flush=True)
        return bool(self.commits)

    @property
    def _lanes(self) -> list[str]:
        return list(dict.fromkeys(map(blocks.lane_of, self.series.series)))

    def _search(self, work: Session, every: int) -> dict[str, tuple[str, ...]]:
        """Return the commits to measure next of each lane of the last session that changed somewhere."""
        recorded = past.open(work.results, work.root)
        here = (work.machine, work.environment)
        keys = (key for key in recorded.keys if (key.machine, key.environment) == here)
        todo = {}
        for lane, of_lane in backfill.by_lane(keys, self._lanes).items():
            commits = self.tried[lane] if self.chosen.again else self.line
            levels = backfill.levels(recorded, of_lane, commits, self.chosen.rounds)
            todo[lane] = backfill.wanted(self.line, every, self.tried[lane] | levels.keys(), levels)
        return {lane: commits for lane, commits in todo.items() if commits}

    def _room(self, lanes: int) -> int:
        """Return how many more commits of so many lanes fit into the time, by what those before took."""
        if math.isinf(self.chosen.seconds) or not self.measured:
            return len(self.line)
        spent = time.monotonic() - self.began
        return max(0, int((self.chosen.seconds - spent) / (lanes * spent / self.measured)))


def _select(chosen: TrackSettings, out: TextIO) -> tuple[str, tuple[str, ...], select.Selection]:
    """Return the device, the commits, newest first, and the series.

    Raises:
        KernelVelocityError: a requirement is missing, or a revision, tier or benchmark is unknown.
    """
    for note in git.check_clone(Path()):
        print(f"note: {note}", file=out)
    torch = installed_torch()
    commits = wanted(Path(), chosen, out)
    device_name = host.device()
    series = select.select(config.suite(Path()), device_name, chosen.tier, chosen.bench)
    if config.project(Path()).build is not None and not host.has_compiler():
        print(f"note: {host.NO_COMPILER}; only commits that are built already can be measured", file=out)
    print(
        f"{units.count(len(commits), 'commit')}, {len(series.series)} series on {device_name.upper()} "
        f"(tier {chosen.tier}), {units.count(chosen.rounds, 'round')}, torch {torch}",
        file=out,
        flush=True,
    )
    return device_name, commits, series


def wanted(repository: Path, chosen: TrackSettings, out: TextIO) -> tuple[str, ...]:
    """Return the commits to measure, newest first. Say how many of the range are left out.

    Raises:
        UsageError: the range names no commit.
    """
    commits = git.commits(repository, chosen.range, changing=not chosen.all)
    every = git.commits(repository, chosen.range) if chosen.range else commits
    if left_out := len(every) - len(commits):
        which = f"{left_out:,} of {units.count(len(every), 'commit')}"
        print(f"{which} left out, which changed nothing that is built (`--all` measures them)", file=out)
    return commits


def _report(work: Session, tier: str, out: TextIO) -> int:
    """Print the tables and the series without a value. Return the exit status, the first in the contract's order."""
    oldest_first = tuple(reversed(work.commits))
    measurements = work.measurements()
    for text in (
        report.cost_table(work.costs(), tier) if work.measured else "",
        report.speed_table(measurements, oldest_first),
    ):
        if text:
            print(f"\n{text}", file=out)
    failures = work.failures()
    failed = report.failed(measurements, work.wrong_errors(), failures)
    measured = [value for value in measurements if value.commit in work.measured]
    short = report.short(measured, work.rounds, work.reader.deaths)
    for line in [
        *(f"note: {note}" for note in work.notes),
        *work.unreadable.values(),
        *work.failed_builds.values(),
        *failed,
        *short,
        *report.unproven_lines(measured),
        *report.absent_lines(measurements, failures),
        *report.uncompiled_lines(work.series.figures, work.failures(of_this_run=True)),
    ]:
        print(line, file=out)
    out.flush()
    if work.unreadable:
        return ResultsError.exit_code
    if not any(value.outcome is Outcome.MEASURED for value in measurements):
        print("nothing was measured: no commit of this range has a value", file=out)
        return NothingMeasured.exit_code
    if work.failed_builds:
        return BuildFailed.exit_code
    return BenchmarkFailed.exit_code if failed or short else 0
