"""Plan what the machines of a fleet measure. Pure: commits, lanes, machines and a budget in, jobs out.

A lane is a test case of a kernel, with all of its implementations: PyTorch's, which no commit can change, among them.
All commits of a lane stay on one machine. A history that is too long for one session is cut into blocks. Each block
measures the same anchor commits again, by which values of two sessions are linked (stats/link.py).

A plan is made anew whenever something changes: a run resumes, a machine joins or is lost. What is measured is not
planned again, and a lane stays where it began while that machine is there.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby

from kernel_velocity.runner.report import Pace

ANCHORS = 4  # with fewer, linked values are no nearer to the truth than unlinked ones (docs/how-to/cluster.md)
SESSION = 2 * 3600.0  # s; long enough that anchors cost little, short enough that a lost machine does, too
# That a session should have room for: they are compared in turns. Else it measures fewer lanes.
FEWEST_COMMITS = 8


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A test case of a kernel, and what is measured of it."""

    name: str  # kernel and case
    series: int  # timed ones
    machine: str | None = None  # that measured it so far
    done: frozenset[str] = frozenset()  # commits
    anchors: tuple[str, ...] = ()  # of its earlier blocks
    refused: frozenset[str] = frozenset()  # machines on which it failed


@dataclass(frozen=True, kw_only=True)
class FleetJob:
    """A block for one machine, in one session."""

    machine: str
    lanes: tuple[str, ...]
    commits: tuple[str, ...]  # newest first; no other job has them for these lanes
    anchors: tuple[str, ...]  # measured too, whether they are among the commits or not
    rounds: int
    seconds: float = field(default=0.0, compare=False)  # expected

    @property
    def measured(self) -> tuple[str, ...]:
        """All that the session measures."""
        return tuple(dict.fromkeys((*self.anchors, *self.commits)))

    @property
    def key(self) -> str:
        """A name that equal jobs share, whenever they were planned."""
        text = json.dumps({**asdict(self), "seconds": None}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a plan must keep to."""

    rounds: int  # of every series
    pace: Pace = field(default_factory=Pace)
    session: float = SESSION  # s that a block may take. One more commit than its anchors is always measured
    budget: float = math.inf  # s that a machine may take. The older commits are left, if they do not fit
    anchors: int = ANCHORS  # commits that the blocks of a lane share

    def cost(self, commits: int, lanes: Iterable[Lane]) -> float:
        """Return the expected cost of a session, s."""
        return self.pace.seconds(commits, commits * sum(lane.series for lane in lanes) * self.rounds)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is measured where, in the order of each machine, and what the budget leaves out."""

    jobs: tuple[FleetJob, ...]
    left: tuple[FleetJob, ...]

    def of(self, machine: str) -> list[FleetJob]:
        """Return the jobs of a machine."""
        return [job for job in self.jobs if job.machine == machine]

    @property
    def seconds(self) -> float:
        """Until the last machine is done."""
        return max(
            (sum(job.seconds for job in self.of(name)) for name in {job.machine for job in self.jobs}), default=0
        )


def plan(
    commits: Sequence[str],
    lanes: Sequence[Lane],
    machines: Collection[str],
    limits: Limits,
    busy: Mapping[str, float] | None = None,
) -> Plan:
    """Return the jobs that measure what is missing.

    Args:
        commits: newest first. machines: of one kind. busy: s until a machine has done what is not planned here.
    """
    machine_of = _machines_of(commits, lanes, {name: (busy or {}).get(name, 0.0) for name in sorted(machines)}, limits)
    jobs: list[FleetJob] = []
    left: list[FleetJob] = []
    for machine in sorted(machines):
        here = [lane for lane in lanes if machine_of.get(lane.name) == machine]
        blocks = [
            (number, job)
            for together in _sessions(commits, here, limits)
            for number, job in enumerate(_blocks(commits, together, machine, limits))
        ]
        spent = 0.0
        for _, job in sorted(blocks, key=lambda block: block[0]):  # of every lane its newest commits first
            spent += job.seconds
            (jobs if spent <= limits.budget else left).append(job)
    return Plan(jobs=tuple(jobs), left=tuple(left))


def missing(commits: Sequence[str], lane: Lane) -> tuple[str, ...]:
    """Return the commits of a lane that are not measured, newest first."""
    return tuple(commit for commit in commits if commit not in lane.done)


def _machines_of(
    commits: Sequence[str], lanes: Sequence[Lane], load: dict[str, float], limits: Limits
) -> dict[str, str]:
    """Return the machine of each lane: where it began, else the one with the least to do, the longest lane first."""
    machine_of: dict[str, str] = {}
    work = {lane.name: limits.cost(len(missing(commits, lane)), [lane]) for lane in lanes}
    began = {lane.name for lane in lanes if lane.machine in load and lane.machine not in lane.refused}
    for lane in sorted(lanes, key=lambda lane: (lane.name not in began, -work[lane.name], lane.name)):
        possible = [name for name in load if name not in lane.refused]
        if lane.name in began:
            machine_of[lane.name] = str(lane.machine)
        elif possible:
            machine_of[lane.name] = min(possible, key=lambda name: (load[name], name))
        else:
            continue
        load[machine_of[lane.name]] += work[lane.name]
    return machine_of


def _sessions(commits: Sequence[str], lanes: Sequence[Lane], limits: Limits) -> Iterator[list[Lane]]:
    """Yield the lanes that are measured together: of the same commits, and with time for FEWEST_COMMITS of those."""

    def same(lane: Lane) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return missing(commits, lane), lane.anchors

    for (todo, anchors), alike in groupby(sorted(lanes, key=lambda lane: (same(lane), lane.name)), key=same):
        together: list[Lane] = []
        for lane in alike if todo else ():
            count = min(len({*todo, *anchors}), FEWEST_COMMITS)
            if together and limits.cost(count, [*together, lane]) > limits.session:
                yield together
                together = []
            together.append(lane)
        if together:
            yield together


def _blocks(commits: Sequence[str], lanes: Sequence[Lane], machine: str, limits: Limits) -> Iterator[FleetJob]:
    """Yield the blocks of lanes that are measured together, the newest commits first."""
    todo = missing(commits, lanes[0])
    anchors = (lanes[0].anchors or todo)[: limits.anchors]
    room = int(limits.session / limits.cost(1, lanes))  # commits of a session
    names = tuple(lane.name for lane in lanes)
    while todo:
        count = max(1, room - sum(anchor not in todo for anchor in anchors))
        job = FleetJob(machine=machine, lanes=names, commits=todo[:count], anchors=anchors, rounds=limits.rounds)
        yield replace(job, seconds=limits.cost(len(job.measured), lanes))
        todo = todo[count:]
