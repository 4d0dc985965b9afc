"""``kv track``: measure here, or by the machines of --fleet.

The jobs of a plan are given to machines, and what comes back is merged, until nothing is left.

Each machine has one job at a time. What is merged is recorded beside the results (results/blocks.py), so an interrupted
run resumes from there. A machine that is lost, or on which a job fails, loses the job whole: the next plan gives it to
another. A job counts once, however often it comes back.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, TextIO

from kernel_velocity import lock, units
from kernel_velocity.errors import BenchmarkFailed, BuildFailed, KernelVelocityError, NothingMeasured, UsageError
from kernel_velocity.fleet import plan as planning
from kernel_velocity.fleet import scheduler as dask
from kernel_velocity.fleet import slurm, unpack, worker
from kernel_velocity.fleet.plan import FleetJob, Lane, Limits, Plan
from kernel_velocity.fleet.scheduler import FleetMachine
from kernel_velocity.fleet.worker import Order, Result
from kernel_velocity.past import past
from kernel_velocity.results import blocks, git
from kernel_velocity.runner import backfill, host, select, track
from kernel_velocity.runner.track import TrackSettings
from kernel_velocity.suite import config

POLL = 1.0  # s between two looks at the machines
LOST = 15.0  # s that a machine may be away before its lanes go elsewhere; Dask restarts a worker in a few
ATTEMPTS = 3  # machines that a lane is tried on
FLEET_ONLY = ("anchors", "session", "insecure")  # options
PAGES = Path(".asv", "html", "kernel-velocity")


@dataclass(kw_only=True)
class Fleet:
    """A run: what is wanted, what is measured, and which machine has which job."""

    root: Path
    commits: tuple[str, ...]  # newest first
    settings: TrackSettings
    out: TextIO
    head: str
    first: str  # SHA of the repository's first commit
    limits: Limits
    wants_ceilings: bool = True
    device: str | None = None  # of all machines, "cpu" or "cuda"
    lanes: dict[str, Lane] = field(default_factory=dict)
    levels: dict[str, backfill.Levels] = field(default_factory=dict)  # of lanes, where --every halves intervals
    machines: dict[str, FleetMachine] = field(default_factory=dict)  # by name
    last_seen: dict[str, float] = field(default_factory=dict)  # of machines, by the monotonic clock
    running: dict[Any, tuple[FleetJob, FleetMachine, float]] = field(default_factory=dict)  # by the future of Dask
    with_ceilings: set[str] = field(default_factory=set)  # machines
    there: set[str] = field(default_factory=set)  # addresses of workers, when we last looked
    unfit: set[str] = field(default_factory=set)  # addresses of workers that get no job
    notes: dict[str, None] = field(default_factory=dict)  # lines that are printed once
    failures: list[str] = field(default_factory=list)  # one line each
    statuses: set[int] = field(default_factory=set)  # of the jobs
    spent: dict[str, float] = field(default_factory=dict)  # s of jobs, by machine
    jobs: slurm.Jobs | None = None  # of Slurm, where machines are its jobs

    # What is known ------------------------------------------------------------------------------------------------

    def select(self) -> None:
        """Make the lanes of the series of the machines' device, with what is recorded of them."""
        kinds = Counter(machine.device for machine in self.machines.values())
        self.device = kinds.most_common(1)[0][0]
        for machine in list(self.machines.values()):
            self.meet(machine)  # again: those of another device get no job
        chosen = select.select(config.suite(self.root), self.device, self.settings.tier, self.settings.bench)
        self.lanes = {
            name: Lane(name=name, series=len(list(series)))
            for name, series in groupby(sorted(chosen.series, key=blocks.lane_of), blocks.lane_of)
        }
        self.remember()

    def bound(self) -> None:
        """Keep sessions within the time that Slurm gives a job."""
        if self.jobs is None or not self.jobs.ask(self.say):
            return
        longest = slurm.USABLE * self.jobs.limit
        if longest < self.limits.session:
            self.say(f"Slurm gives a job {_minutes(longest / slurm.USABLE)}: sessions of {_minutes(longest)} at most")
            self.limits = replace(self.limits, session=longest)

    @property
    def results(self) -> Path:
        """asv's results directory."""
        return self.root / config.results_dir(self.root)

    def remember(self) -> None:
        """Note what is recorded of the lanes."""
        problems: list[str] = []
        recorded = blocks.read(self.results, problems)
        for block in recorded:
            if block.rounds >= self.settings.rounds and not self.settings.again:
                anchors = tuple(sha for sha in block.anchors if git.is_ancestor(self.root, sha, self.head))
                self.note(block.lanes, block.machine, block.commits, anchors)
        for line in problems:
            self.say(f"note: {line}")
        self.look_back()

    def look_back(self) -> None:
        """Note the levels that are recorded of the lanes, where --every halves intervals that they change in."""
        if self.settings.every is None or not any(lane.done for lane in self.lanes.values()):
            return
        recorded = past.open(self.results, self.root)
        for name, keys in backfill.by_lane(recorded.keys, self.lanes).items():
            self.levels[name] = backfill.levels(recorded, keys, self.lanes[name].done, self.settings.rounds)

    def wanted(self, lane: Lane) -> tuple[str, ...]:
        """Return the commits of a lane that are to be measured, newest first. With --every those of now."""
        if self.settings.every is None:
            return planning.missing(self.commits, lane)
        return backfill.wanted(self.commits, self.settings.every, lane.done, self.levels.get(lane.name, {}))

    def note(self, lanes: Iterable[str], machine: str, commits: Iterable[str], anchors: tuple[str, ...]) -> None:
        """Note that a machine measured commits of lanes."""
        for name in lanes:
            if lane := self.lanes.get(name):
                done = lane.done | frozenset(commits)
                self.lanes[name] = replace(lane, machine=machine, done=done, anchors=lane.anchors or anchors)

    def plan(self) -> Plan:
        """Plan what is neither measured nor running."""
        busy = {name: (job, machine) for job, machine, _ in self.running.values() for name in job.lanes}
        lanes = []
        for name, lane in self.lanes.items():
            if len(lane.refused) >= ATTEMPTS:
                continue
            done = frozenset(self.commits) - set(self.wanted(lane))
            if name in busy:
                job, machine = busy[name]
                done, anchors = done | set(job.commits), lane.anchors or job.anchors
                lanes.append(replace(lane, machine=machine.name, done=done, anchors=anchors))
            else:
                lanes.append(replace(lane, done=done))
        return planning.plan(
            self.commits,
            lanes,
            self.machines.keys(),
            replace(self.limits, budget=self.limits.budget - max(self.spent.values(), default=0.0)),
            self.busy(),
        )

    def busy(self) -> dict[str, float]:
        """Return how long machines will take for their jobs, s."""
        left = {}
        for job, machine, began in self.running.values():
            cost = self.limits.cost(len(job.measured), [self.lanes[name] for name in job.lanes])
            left[machine.name] = max(0.0, cost - (time.monotonic() - began))
        return left

    # What happens -------------------------------------------------------------------------------------------------

    def run(self, client: Any, scheduler: dask.Scheduler, bundle: bytes) -> None:
        """Measure until nothing is left that a machine can do."""
        shared: Any = None
        try:
            while True:
                self.look(client, scheduler)
                if not self.machines and not self.running:
                    dask.wait(client, scheduler, self.say, wanted=1, jobs=self.jobs)  # a requeued job comes back
                    continue
                plan = self.plan()
                if shared is None and plan.jobs:
                    # As a task of Dask, it is computed again where it is lost
                    shared = client.submit(bytes, bundle, key=f"kernel-velocity-bundle-{self.head}")
                self.give(client, plan, shared)
                if not self.running and not plan.jobs:
                    return
                self.collect()
        except KeyboardInterrupt:
            self.say(f"interrupted: {units.count(len(self.running), 'job')} stopped; the same command resumes")
            client.run(worker.stop, on_error="ignore")
            raise

    def look(self, client: Any, scheduler: dask.Scheduler) -> None:
        """Meet machines that are new, and give up those that are gone."""
        workers, now = dask.addresses(client), time.monotonic()
        self.there = set(workers)
        if self.jobs is not None:
            self.jobs.tend(workers.values(), self.say)
        met = {machine.address for machine in self.machines.values()} | self.unfit
        if fresh := self.there - met:
            for machine in dask.machines(client, scheduler, fresh, self.say):
                self.meet(machine)
            self.unfit |= fresh - {machine.address for machine in self.machines.values()}
        for name, machine in list(self.machines.items()):
            if self.is_there(machine):
                self.last_seen[name] = now
            elif now - self.last_seen[name] > LOST:
                del self.machines[name]
                fate = self.fate(machine)
                self.say(f"{name}: lost{f', {fate}' if fate else ''}; what it had not finished goes to another machine")
        for future, (job, machine, began) in list(self.running.items()):
            if not self.is_there(machine):
                del self.running[future]
                future.cancel()
                fate = self.fate(machine)
                self.say(
                    f"{machine.name}: its worker ended while it measured {_what(job)}{f', {fate}' if fate else ''}"
                )
                if fate is not None and fate.state == slurm.TIMEOUT:
                    self.shorten(job, machine.name, now - began)

    def fate(self, machine: FleetMachine) -> slurm.Job | None:
        """Return what Slurm says of a machine that is gone. None where there is no Slurm."""
        return None if self.jobs is None else self.jobs.fate(machine.job, self.say)

    def shorten(self, job: FleetJob, machine: str, seconds: float) -> None:
        """Plan shorter sessions after one that Slurm ended: it would have taken longer, by how much nobody knows."""
        if len(job.commits) == len(job.lanes) == 1:
            self.refuse(job, machine, "longer than a job of Slurm may be: wanted a longer time= of --fleet")
        self.learn(job, 2 * max(seconds, job.seconds))

    def meet(self, machine: FleetMachine) -> None:
        """Add a machine, unless it cannot measure what the others do."""
        other = self.machines.get(machine.name)
        if self.device not in (None, machine.device):
            self.machines.pop(machine.name, None)
            self._once(f"{machine.name}: measures {machine.device}, the fleet {self.device}: it gets no job")
            return
        if other is not None and other.address != machine.address and self.is_there(other):
            self._once(
                f"{machine.address}: is called {machine.name}, as {other.address} is: it gets no job. A machine needs "
                f"one worker with --nthreads 1, or one with a name of its own ({worker.NAME_VARIABLE}) for each device"
            )
            return
        kinds = Counter(present.kind for present in self.machines.values())
        if kinds and machine.kind != (usual := kinds.most_common(1)[0][0]):
            self._once(f"{machine.name}: is a {machine.kind}, most others are {usual}")
        if abs(machine.clock) > dask.CLOCK:
            self._once(f"{machine.name}: its clock is {machine.clock:+.0f} s off; blocks are ordered by the clock here")
        if other is None:
            self.say(f"{machine.name}: {machine.kind}, at {machine.address}")
        self.machines[machine.name] = machine
        self.last_seen[machine.name] = time.monotonic()

    def is_there(self, machine: FleetMachine) -> bool:
        """Return whether a machine's worker was there when we last looked."""
        return machine.address in self.there

    def _once(self, line: str) -> None:
        if line not in self.notes:
            self.notes[line] = None
            self.say(f"note: {line}")

    def give(self, client: Any, plan: Plan, shared: Any) -> None:
        """Give each idle machine its next job."""
        busy = {machine.name for _, machine, _ in self.running.values()}
        idle = [machine for name, machine in self.machines.items() if name not in busy and self.is_there(machine)]
        for machine in idle:
            for job in plan.of(machine.name)[:1]:
                if self.jobs is not None and self.jobs.is_short(machine.job, job.seconds):
                    self.renew(machine, job)
                    continue
                future = client.submit(
                    worker.measure,
                    self.order(job, machine),
                    shared,
                    key=f"{job.key}-{time.time_ns()}",
                    workers=[machine.address],
                    pure=False,
                )
                self.running[future] = (job, machine, time.monotonic())
                self.say(f"{machine.name}: measures {_what(job)}, about {_minutes(job.seconds)}")

    def renew(self, machine: FleetMachine, job: FleetJob) -> None:
        """Have another job of Slurm in place of one whose time is too short for what is next."""
        if self.jobs is not None and self.jobs.renew(machine.job):
            self.say(f"{machine.name}: the time that Slurm gave it is too short for {_what(job)}: asks for more")

    def order(self, job: FleetJob, machine: FleetMachine) -> Order:
        """Return a job with all that its machine must know."""
        return Order(
            job=job,
            root=self.first,
            head=self.head,
            bench=select.of_lanes(job.lanes, self.settings.bench),
            tier=self.settings.tier,
            ceilings=self.wants_ceilings and machine.name not in self.with_ceilings,
            kind=machine.kind,
            device=machine.device,
            number=machine.number,
            began=time.time(),
            settings={key: value for key, value in os.environ.items() if key.startswith("KV_") and key not in LOCAL},
        )

    def collect(self) -> None:
        """Wait a moment, then take what is done."""
        until = time.monotonic() + POLL
        while time.monotonic() < until and not any(future.done() for future in self.running):
            time.sleep(0.05)
        for future, (job, machine, _) in list(self.running.items()):
            if not future.done():
                continue
            del self.running[future]
            if future.status == "finished":
                self.take(job, future.result())
            elif future.status == "error":
                self.refuse(job, machine.name, str(future.exception()))
            future.release()

    def take(self, job: FleetJob, result: Result) -> None:
        """Merge what came back. Dask hands out each result once."""
        if result.reason:
            self.refuse(job, result.machine, result.reason)
            return
        if result.tar:
            try:
                self.merge(result)
            except KernelVelocityError as error:
                self.refuse(job, result.machine, str(error))
                return
            self.with_ceilings.add(result.machine)
        self.statuses.add(result.status)
        self.spent[result.machine] = self.spent.get(result.machine, 0.0) + result.seconds
        self.note(job.lanes, result.machine, job.commits, job.anchors)
        self.look_back()
        self.learn(job, result.seconds)
        self.say(f"{result.machine}: measured {_what(job)} in {_minutes(result.seconds)}; {self.progress()}")

    def merge(self, result: Result) -> None:
        """Merge a tar into results/, as a node's.

        Raises:
            KernelVelocityError: it does not fit here.
        """
        with tempfile.TemporaryDirectory(prefix="fleet-", dir=self.root / ".asv") as scratch:
            tar = Path(scratch, "worker.tar.xz")
            tar.write_bytes(result.tar)
            problems = io.StringIO()
            args = argparse.Namespace(tar=tar, machine=result.machine, root=self.root)
            unpack.run(args, io.StringIO(), problems)
            for line in problems.getvalue().splitlines():
                self.say(f"note: {line}")

    def refuse(self, job: FleetJob, machine: str, reason: str) -> None:
        """Have a job tried on another machine."""
        line = f"{machine}: failed to measure {_what(job)}: {reason}"
        self.failures.append(line)
        self.say(line)
        for name in job.lanes:
            self.lanes[name] = replace(self.lanes[name], refused=self.lanes[name].refused | {machine})

    def learn(self, job: FleetJob, seconds: float) -> None:
        """Correct the expected cost of a round by what a job took."""
        factor = seconds / self.limits.cost(len(job.measured), [self.lanes[name] for name in job.lanes])
        pace = self.limits.pace
        pace = replace(pace, a_round=pace.a_round * factor, a_build=pace.a_build * factor)
        self.limits = replace(self.limits, pace=pace)

    # What is said -------------------------------------------------------------------------------------------------

    def say(self, line: str) -> None:
        """Print a line."""
        print(line, file=self.out, flush=True)

    def progress(self) -> str:
        """Return how far the run is, and how long the rest takes."""
        done = sum(len(lane.done & set(self.commits)) for lane in self.lanes.values())
        wanted = done + sum(len(self.wanted(lane)) for lane in self.lanes.values())
        plan = self.plan()
        busy = self.busy()
        left = {name: busy.get(name, 0.0) + sum(job.seconds for job in plan.of(name)) for name in self.machines}
        time_left = _minutes(max(left.values(), default=0.0))
        return f"{units.count(len(self.machines), 'machine')}, {done} of {wanted} measured, {time_left} left"

    def given_up(self) -> dict[str, list[str]]:
        """Return the commits of lanes that no machine measured, by lane."""
        rest = {name: list(self.wanted(lane)) for name, lane in self.lanes.items()}
        return {name: commits for name, commits in rest.items() if commits}


LOCAL = {
    lock.HOLDER,
    lock.LOCK_FOLDER,
    worker.FOLDER_VARIABLE,
    worker.NAME_VARIABLE,
    "KV_RANGE",
    "KV_BENCH",
    "KV_ROUNDS",
    "KV_TIER",
    "KV_AGAIN",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `kv track`, and those of a fleet."""
    track.add_arguments(parser)
    fleet = parser.add_argument_group("many machines", "docs/how-to/cluster.md")
    fleet.add_argument(
        "--fleet",
        metavar="SCHEDULER",
        help="measure by the workers of Dask: tls://HOST:PORT, local:3, or slurm:nodes=4,partition=gpu",
    )
    fleet.add_argument(
        "--anchors", type=int, metavar="N", help=f"commits that blocks of a history share (default {planning.ANCHORS})"
    )
    fleet.add_argument(
        "--session",
        type=float,
        metavar="MINUTES",
        help=f"longest session of a machine (default {planning.SESSION / 60:g})",
    )
    fleet.add_argument(
        "--insecure",
        action="store_true",
        default=None,
        help="send code to a scheduler without TLS (tcp://HOST:PORT): who reaches it runs code on every machine",
    )


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Measure here, or by a fleet. Return the exit status.

    Raises:
        UsageError: an option makes no sense.
    """
    if args.fleet is None:
        if unfit := [name for name in FLEET_ONLY if getattr(args, name) is not None]:
            raise UsageError(f"--{unfit[0]} is for --fleet, which is missing")
        return track.run(args, out, err)
    args.anchors = planning.ANCHORS if args.anchors is None else args.anchors
    args.session = planning.SESSION / 60 if args.session is None else args.session
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
        return _measure(args, settings, out)


def _measure(args: argparse.Namespace, settings: TrackSettings, out: TextIO) -> int:
    """Measure by a fleet, then write the dashboard. Return the exit status, as `kv track` does."""
    scheduler = dask.parse(args.fleet, insecure=bool(args.insecure))
    root = Path()
    for note in git.check_clone(root):
        print(f"note: {note}", file=out)
    commits = track.wanted(root, settings, out)
    head = git.resolve(root, "HEAD", "HEAD")
    fleet = Fleet(
        root=root.absolute(),
        commits=commits,
        settings=settings,
        out=out,
        head=head,
        first=git.first_commit(root),
        limits=Limits(rounds=settings.rounds, anchors=args.anchors, session=60 * args.session, budget=settings.seconds),
        wants_ceilings=not args.no_ceilings,
    )
    git.check_ancestors(root, commits)
    with tempfile.TemporaryDirectory(prefix="kernel-velocity-") as folder:
        git.bundle(root, path := Path(folder, worker.BUNDLE))
        bundle = path.read_bytes()
    with lock.held(root, measures=False), dask.connected(scheduler) as (client, fleet.jobs):
        fleet.say(f"Dask's dashboard: {dask.dashboard(client, scheduler)}")
        dask.wait(client, scheduler, fleet.say, jobs=fleet.jobs)
        fleet.bound()
        fleet.look(client, scheduler)
        fleet.select()
        plan = fleet.plan()
        fleet.say(summary(plan, fleet))
        fleet.run(client, scheduler, bundle)
    return _finish(fleet, args, plan)


def _finish(fleet: Fleet, args: argparse.Namespace, plan: Plan) -> int:
    """Say what is left, and write the dashboard. Return the exit status."""
    for name, commits in fleet.given_up().items():
        count = units.count(len(commits), "commit")
        fleet.say(f"not measured: {name} at {count}: {', '.join(sha[:8] for sha in commits[:3])}")
    if not args.no_site and (fleet.results / "benchmarks.json").exists():
        for note in host.write_site(results=fleet.results, repository=fleet.root, out=fleet.root / PAGES):
            fleet.say(f"note: {note}")
        fleet.say(f"Dashboard: {(fleet.root / PAGES / 'index.html').as_uri()}")
    if not plan.jobs and not plan.left:
        fleet.say("nothing to do: everything is measured already (`--again 1` repeats it)")
        return 0
    if not fleet.statuses:
        return NothingMeasured.exit_code
    order = (NothingMeasured, BuildFailed, BenchmarkFailed)
    if fleet.given_up() and fleet.failures:
        return KernelVelocityError.exit_code
    return next((error.exit_code for error in order if error.exit_code in fleet.statuses), 0)


def summary(plan: Plan, fleet: Fleet) -> str:
    """Return what a plan costs and how uncertain its links will be, a line each machine."""
    lines = [
        f"{units.count(len(fleet.commits), 'commit')}"
        f"{'' if fleet.settings.every is None else f', one in {fleet.settings.every} at first'}, "
        f"{units.count(len(fleet.lanes), 'test case')}, "
        f"{units.count(fleet.settings.rounds, 'round')}: {units.count(len(plan.jobs), 'job')} on "
        f"{units.count(len(fleet.machines), 'machine')}, about {_minutes(plan.seconds)}"
    ]
    blocks_of = Counter(name for job in plan.jobs for name in job.lanes)
    if any(count > 1 for count in blocks_of.values()) or any(lane.anchors for lane in fleet.lanes.values()):
        shared = units.count(fleet.limits.anchors, "anchor commit") if fleet.limits.anchors else "no anchor commit"
        lines.append(f"blocks share {shared}{'' if fleet.limits.anchors else ': their values cannot be linked'}")
    if plan.left:
        lines.append(f"{units.count(len(plan.left), 'job')} do not fit into the budget: {_what(plan.left[0])} first")
    return "\n".join(lines)


def _what(job: FleetJob) -> str:
    again = len(job.measured) - len(job.commits)
    anchors = f" and {units.count(again, 'anchor')}" if again else ""
    return f"{units.listed(job.lanes)} at {units.count(len(job.commits), 'commit')}{anchors}"


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
