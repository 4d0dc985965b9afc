"""Simulate nights: run the judging code of `nightly` on simulated machines, night after night. Seeded.

Only the machine is simulated: the values of each night's commit, and the rounds of two commits measured in turns. What
moved, what is measured again and which commit is blamed is decided by the functions that `nightly/conclude.py` calls.
The findings of a night are carried on to the next. What the machine does changes both sides of a pair.

Every night measures one new commit. `effects` are log factors of shape (commits, series): what the machine did to a
series in the night that measured the commit. `changes` are those of the code, of the same shape.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernel_velocity.ab.rounds import Pair
from kernel_velocity.direction import better
from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.engine.telemetry import Round
from kernel_velocity.findings import finding
from kernel_velocity.findings.evidence import Rerun
from kernel_velocity.findings.finding import Finding, Kind, State
from kernel_velocity.findings.store import NO_MEMORY, Memory
from kernel_velocity.nightly import confirm, judge
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.identity import Identity
from kernel_velocity.tables import Table
from kernel_velocity.units import significant
from kernel_velocity.verdict import controls
from kernel_velocity.verdict.history import Observation, SeriesHistory

PAST = 60  # commits that were measured before the first night
EVENT = PAST + 3  # place of the night in which the machine changes
NIGHTS = 15  # nights of a machine that changes
APART = 4  # nights from one changed kernel to the next
DAY, BEGINS = 86400.0, 1.7e9  # s; Unix time of the first commit's session
BUDGET = 2880.0  # s of measuring again: what the default budget of a night leaves, if measuring takes its share
COST = 1.0  # s of one round of one side
ROUND = 0.009  # standard deviation of log seconds between rounds of one session, as measured on shared cores
LOG_SECONDS = math.log(1e-3)
LARGE = "float32-1M"  # a case
STEPS, NOISES = (0.02, 0.03), (0.003, 0.005, 0.007, 0.01)  # planted; between sessions, standard deviation of logs
INNOCENT = 2  # kernels whose code changes without an effect, beside those that become slower
SLOWER = 4
CODES = ("changed code", "unknown code")
USUAL = 0.005  # noise between sessions where the machine changes
SOON = (0, 1, 2)  # commits after a planted one


class Stage(NamedTuple):
    """What an environment may depend on. Shapes: (commits, 1) and (series,)."""

    rng: np.random.Generator
    positions: npt.NDArray[np.int64]
    since: FloatArray  # 1 from the event on, else 0
    native: FloatArray  # 1 for native series, else 0
    cuda: FloatArray
    half: FloatArray  # 1 for the second case of each kernel


def _states(stage: Stage) -> FloatArray:
    """Return two states 2.5% apart, each for 4 nights on average."""
    return np.asarray(0.025 * (np.cumsum(stage.rng.random(stage.positions.shape) < 1 / 4) % 2)[:, None])


def _levels(stage: Stage, mean: float, deviation: float) -> FloatArray:
    """Return a random level for each series, from the event on."""
    return np.asarray(stage.since * stage.rng.normal(mean, deviation, stage.native.shape))


ENVIRONMENTS: Mapping[str, Callable[[Stage], FloatArray]] = {
    "nothing": lambda stage: 0 * stage.since,
    "+2% on all": lambda stage: 0.02 * stage.since,
    "+3% on all": lambda stage: 0.03 * stage.since,
    "+2% on native alone": lambda stage: 0.02 * stage.since * stage.native,
    "+3% on native alone": lambda stage: 0.03 * stage.since * stage.native,
    "+3% on one device": lambda stage: 0.03 * stage.since * stage.cuda,
    "drift of all, .3% a night": lambda stage: 0.003 * np.maximum(stage.positions - EVENT, 0),
    "drift of native alone": lambda stage: 0.003 * np.maximum(stage.positions - EVENT, 0) * stage.native,
    "two states by turns": _states,
    "two states of native alone": lambda stage: _states(stage) * stage.native,
    "another compiler, +2% on native": lambda stage: 0.02 * stage.since * stage.native,
    "another torch, +2% on native": lambda stage: 0.02 * stage.since * stage.native,
    "one bad night, +5%": lambda stage: 0.05 * (stage.positions == EVENT),
    "clock +2%, felt twice by half": lambda stage: 0.02 * stage.since * (1 + stage.half),
    "noisy night, four times": lambda stage: 0 * stage.since,
    "reboot, +3% with 1% of each": lambda stage: _levels(stage, 0.03, 0.01),
    "reboot, 1.5% of each native": lambda stage: _levels(stage, 0.0, 0.015) * stage.native,
}
FACTS = {"another compiler, +2% on native": "cxx compiler version", "another torch, +2% on native": "torch"}
NOISY = {"noisy night, four times": 4.0}


@dataclass(frozen=True, kw_only=True)
class World:
    """A machine, its kernels, and what happens to them. Arrays have shape (commits, series)."""

    series: Sequence[Identity]
    values: FloatArray  # log seconds, recorded
    effects: FloatArray
    changes: FloatArray
    code: npt.NDArray[np.int64] | None  # version of the code of a series at a commit; None: unknown
    noise: FloatArray  # (commits,) factor of the rounds' noise in a night
    planted: Mapping[str, int] = field(default_factory=dict)  # kernel -> place of the commit that made it slower
    fact: str = ""  # that changes at the event


class PlayedNight(NamedTuple):
    """The outcome of one night: its findings, and what it measured again."""

    findings: tuple[Finding, ...]
    runs: int  # series between two commits
    rounds: int  # both sides together
    memory: Memory  # what the next one has to know
    reruns: tuple[Rerun, ...]


class Tally(NamedTuple):
    """What the nights of one world did."""

    delays: tuple[float, ...]  # commits after a planted one at which it was confirmed; inf: never
    exact: int  # of them, those that named it alone
    accused: int  # confirmed findings against commits that did nothing
    suspected: int  # such findings that were only suspected
    runs: int
    rounds: int
    nights: int


def commit(position: int) -> str:
    """Return the hash of the commit at a place of the line."""
    return f"{position:040x}"


def planted(step: float, noise: float, code: str, seed: Sequence[int]) -> World:
    """Return a quiet machine on which some kernels become slower by `step`, one after the other, and others do not."""
    series = _series(SLOWER + INNOCENT, ("Cpu",), (LARGE,))
    positions = {name: PAST + 2 + APART * n for n, name in enumerate(dict.fromkeys(member.kernel for member in series))}
    slower = dict(itertools.islice(positions.items(), SLOWER))
    size = PAST + 2 + APART * len(positions)
    is_later = np.arange(size)[:, None] >= [positions[identity.kernel] for identity in series]
    is_slower = is_later * [identity.kernel in slower and not identity.is_control for identity in series]
    changes = np.where(is_slower, math.log1p(step), 0.0)
    rng = np.random.default_rng([*seed, 0])
    return World(
        series=series,
        values=LOG_SECONDS + changes + noise * rng.standard_normal(changes.shape),
        effects=np.zeros(changes.shape),
        changes=changes,
        code=is_later.astype(np.int64) if code == CODES[0] else None,
        noise=np.ones(size),
        planted=slower,
    )


def environment(name: str, code: str, seed: Sequence[int]) -> World:
    """Return a machine that changes by itself, while commits change the code of its kernels to no effect."""
    series = _series(4, ("Cpu", "Cuda"), ("float32-1k", LARGE))
    positions = np.arange(PAST + NIGHTS, dtype=np.int64)[:, None]
    rng = np.random.default_rng([*seed, 1])
    stage = Stage(
        rng=rng,
        positions=positions,
        since=(positions >= EVENT).astype(np.float64),
        native=np.array([float(not identity.is_control) for identity in series]),
        cuda=np.array([float(identity.device == "Cuda") for identity in series]),
        half=np.array([float(identity.case == LARGE) for identity in series]),
    )
    shape = positions.size, len(series)
    effects = np.broadcast_to(ENVIRONMENTS[name](stage), shape)
    noise = np.where(positions[:, 0] == EVENT, NOISY.get(name, 1.0), 1.0)
    # Each kernel's code changes at every 12th commit, that of the first one at the event
    code_of = (positions - EVENT + np.array([3 * int(identity.kernel[-1]) for identity in series])) // 12
    return World(
        series=series,
        values=LOG_SECONDS + effects + USUAL * noise[:, None] * rng.standard_normal(shape),
        effects=effects,
        changes=np.zeros(shape),
        code=code_of if code == CODES[0] else None,
        noise=noise,
        fact=FACTS.get(name, ""),
    )


def _series(kernels: int, devices: Sequence[str], cases: Sequence[str]) -> list[Identity]:
    """Return the series of some kernels: native ones of each case, and PyTorch's of the large one."""
    return [
        Identity(
            machine="simulated",
            environment="host-py3.11",
            benchmark=f"kernel{number}.{device}.time_hot",
            implementation=implementation,
            case=case,
            version="1",
            method="m",
        )
        for number, device in itertools.product(range(kernels), devices)
        for implementation, case in (*(("native", case) for case in cases), ("eager", LARGE))
    ]


class Scenario(NamedTuple):
    """Worlds of one kind: a planted step at a noise between sessions, or an environment by its name."""

    code: str  # of CODES
    environment: str = ""
    step: float = 0.0
    noise: float = USUAL


SCENARIOS = (
    *(Scenario(code, step=step, noise=noise) for code in CODES for step in STEPS for noise in NOISES),
    *(Scenario(code, environment=name) for name in ENVIRONMENTS for code in CODES),
)


def tally(scenario: Scenario, worlds: int, seed: int) -> Tally:
    """Play some worlds of a scenario, and return what all of their nights did."""
    played = []
    for number in range(worlds):
        part = seed, zlib.crc32(repr(scenario).encode()), number
        name, code = scenario.environment, scenario.code
        world = environment(name, code, part) if name else planted(scenario.step, scenario.noise, code, part)
        played.append(play(world, part))
    delays = tuple(delay for part in played for delay in part.delays)
    return Tally(delays, *(sum(counts) for counts in zip(*(part[1:] for part in played), strict=True)))


def tables(results: Mapping[Scenario, Tally], worlds: int) -> Iterator[Table]:
    """Yield the tables of planted steps and of environments."""
    heads = ["accused", "suspected", "re-runs", "rounds"]
    note = (
        "Accused and suspected: commits that did nothing, of all nights together. Re-runs: series measured again "
        "between two commits, a night. Rounds: theirs, both sides, a night."
    )
    steps = {key: part for key, part in results.items() if not key.environment}
    rows = [
        [f"{key.step:.0%}, noise {key.noise:.1%}, {key.code}", *_caught(part), *_spent(part)]
        for key, part in steps.items()
    ]
    soon = ["same night", "next", "third", "alone"]
    title = (
        f"The judging code of nightly, one commit a night, on {worlds} machines with 6 kernels (12 series): {SLOWER} "
        f"become slower, {INNOCENT} change their code to no effect. Share confirmed in the night of the commit, or up "
        "to one or two nights later, and share of those confirmed that name the commit alone. Noise: between sessions. "
    )
    yield Table("True night: planted steps", title + note, ["step", *soon, *heads], rows)
    title = (
        f"{NIGHTS} nights on each of {worlds} machines that change by themselves, with 24 series and one innocent "
        "change of code every third night. Whether the hash of the code is recorded: changed code / unknown code. "
    )
    names = [key.environment for key in results if key.environment and key.code == CODES[0]]
    parts = {name: [_spent(results[Scenario(code, environment=name)]) for code in CODES] for name in names}
    rows = [[name, *map(" / ".join, zip(*part, strict=True))] for name, part in parts.items()]
    yield Table("True night: environments", title + note, ["environment", *heads], rows)


def _caught(part: Tally) -> list[str]:
    shares = [sum(delay <= soon for delay in part.delays) / len(part.delays) for soon in SOON]
    confirmed = sum(map(math.isfinite, part.delays))
    return [*(f"{share:.2f}" for share in shares), f"{part.exact / confirmed:.2f}" if confirmed else "-"]


def _spent(part: Tally) -> list[str]:
    counts = str(part.accused), str(part.suspected)
    return [*counts, *(significant(number / part.nights) for number in (part.runs, part.rounds))]


def play(world: World, seed: Sequence[int]) -> Tally:
    """Play every night of a world."""
    nights = [PlayedNight((), 0, 0, NO_MEMORY, ())]
    for position in range(PAST, len(world.values)):
        nights.append(judged(world, position, nights[-1], np.random.default_rng([*seed, 2, position])))
    del nights[0]
    confirmed: dict[str, tuple[int, Finding]] = {}  # id -> the first night that confirms it
    suspected: dict[str, Finding] = {}
    for number, night in enumerate(nights):
        for record in night.findings:
            if record.kind in (Kind.REGRESSION, Kind.IMPROVEMENT) and record.state is State.CONFIRMED:
                confirmed.setdefault(record.id, (number, record))
            elif record.state is State.SUSPECT:
                suspected[record.id] = record
    right = [
        [pair for pair in confirmed.values() if pair[1].subject == kernel and not _is_innocent(world, pair[1])]
        for kernel in world.planted
    ]
    positions = world.planted.values()
    return Tally(
        delays=tuple(
            min((PAST + number - position for number, _ in pairs), default=math.inf)
            for position, pairs in zip(positions, right, strict=True)
        ),
        exact=sum(any(record.culprit is not None for _, record in pairs) for pairs in right),
        accused=sum(_is_innocent(world, record) for _, record in confirmed.values()),
        suspected=sum(_is_innocent(world, suspected[key]) for key in suspected.keys() - confirmed.keys()),
        runs=sum(night.runs for night in nights),
        rounds=sum(night.rounds for night in nights),
        nights=len(nights),
    )


def _is_innocent(world: World, finding: Finding) -> bool:
    position = world.planted.get(finding.subject)
    return position is None or finding.kind is not Kind.REGRESSION or commit(position) not in finding.commits


def judged(world: World, position: int, before: PlayedNight, rng: np.random.Generator) -> PlayedNight:
    """Judge the night that measured the commit at a place, as `conclude.conclude` does.

    Args:
        before: the last night. rng: of the rounds that are measured again.
    """
    line = [commit(number) for number in range(position + 1)]
    order = {sha: number for number, sha in enumerate(line)}
    since = BEGINS + position * DAY
    histories = _histories(world, position)
    machine = SimulatedMachine(world, position, rng)
    steps = finding.known_steps(before.findings, order)
    suspected = judge.Night(histories, line=line, since=since, explained=steps, memory=before.memory).suspicions()
    already = {(move.identity, move.bad.commit) for move in suspected.suspects}
    moves = (*suspected.suspects, *confirm.pending(before.findings, histories, already))
    earlier = confirm.sessions(before.reruns, since)
    outcome = confirm.look_again(moves, machine, budget=BUDGET, earlier=earlier)
    findings = judge.findings(
        outcome,
        suspected,
        histories,
        {},
        recorded=before.findings,
        expectations=(),
        order=order,
        when=datetime.fromtimestamp(since, UTC),
    )
    sides = [rounds for pairs in machine.measured.values() for rounds in pairs.values()]
    return PlayedNight(
        findings=findings,
        runs=len(sides),
        rounds=sum(len(rounds) for pair in sides for rounds in pair),
        memory=judge.remembered(moves, outcome, suspected, before.memory),
        reruns=tuple(outcome.reruns),
    )


def _histories(world: World, newest: int) -> list[SeriesHistory]:
    """Return the histories up to a place. A control begins anew with another torch."""
    times = BEGINS + np.arange(newest + 1, dtype=np.float64) * DAY + 10.0
    shared = {device: _shared(world, device, times) for device in {identity.device for identity in world.series}}
    histories = []
    for number, identity in enumerate(world.series):
        observations = [
            Observation(
                commit=commit(position),
                position=position,
                value=float(world.values[position, number]),
                measured=float(times[position]),
                facts={"driver": "550", "governor": "performance", **_fact(world, position)},
                code=None if identity.is_control else _code(world, position, number, position),
                machine=float(shared[identity.device][position]),
            )
            for position in range(newest + 1)
        ]
        is_new = identity.is_control and world.fact == "torch"
        before, after = (observations[:EVENT], observations[EVENT:]) if is_new else (observations, [])
        which = better(identity.benchmark)
        histories.append(SeriesHistory(identity=identity, better=which, observations=tuple(before)))
        if after:
            later = replace(identity, environment=f"{identity.environment}-torch2.9")
            histories.append(SeriesHistory(identity=later, better=which, observations=tuple(after)))
    return histories


def _shared(world: World, device: str, times: FloatArray) -> FloatArray:
    """Return what the controls of a device share, shape (commits,). Another torch begins a level of its own."""
    numbers = [n for n, identity in enumerate(world.series) if identity.is_control and identity.device == device]
    cuts = (0, EVENT, times.size) if world.fact == "torch" and times.size > EVENT else (0, times.size)
    result = np.full(times.size, np.nan)
    for first, last in itertools.pairwise(cuts):
        positions = np.arange(first, last, dtype=np.int32)
        if positions.size >= controls.FEWEST_VALUES:
            rows = [(positions, times[first:last], world.values[first:last, number]) for number in numbers]
            common = controls.common(rows)
            result[common.position] = common.values
    return result


def _fact(world: World, night: int) -> dict[str, str]:
    return {world.fact: "2" if night >= EVENT else "1"} if world.fact else {}


def _code(world: World, position: int, number: int, night: int) -> str | None:
    """Return the hash of a series' code at a commit, as built in a night. Another compiler makes another code."""
    if world.code is None:
        return None
    compiler = _fact(world, night).get("cxx compiler version", "")
    return f"{world.series[number].kernel} {world.code[position, number]} {compiler}"


class SimulatedMachine:
    """A `Runner` that measures rounds of two commits in turns, on the machine in the state of one night."""

    def __init__(self, world: World, night: int, rng: np.random.Generator) -> None:
        self._world, self._night, self._rng = world, night, rng
        self._now = BEGINS + night * DAY + 3600.0
        self._numbers: dict[Series, int] = {
            (member.benchmark, (member.implementation, member.case)): number
            for number, member in enumerate(world.series)
        }
        self.measured: dict[tuple[str, str], dict[Series, tuple[list[Round], list[Round]]]] = {}

    def prepare(self, commit: str) -> str | None:
        """Build a commit. All build."""
        return None

    def code(self, commit: str, series: Series) -> str | None:
        """Return what identifies the code that a series runs, built by the compiler of this night."""
        return _code(self._world, int(commit, 16), self._numbers[series], self._night)

    def placement(self, commit: str) -> str | None:
        """Return None: a simulated commit has no library in which its code could lie elsewhere."""
        return None

    def clock(self) -> float:
        """Return the time, s. Each round of a side takes COST."""
        return self._now

    def measure_pair(
        self, before: str, after: str, series: Sequence[Series], rounds: int, deadline: float
    ) -> Mapping[Series, Pair]:
        """Bring some series to `rounds` rounds a side, and return all their rounds."""
        pairs = self.measured.setdefault((before, after), {})
        for key in series if rounds else ():
            sides = pairs.setdefault(key, ([], []))
            while len(sides[0]) < rounds and self._now < deadline:
                for commit, side in zip((before, after), sides, strict=True):
                    side.append(self._round(key, commit))
        return {key: Pair(before=tuple(pairs[key][0]), after=tuple(pairs[key][1])) for key in series if key in pairs}

    def _round(self, series: Series, commit: str) -> Round:
        self._now += COST
        number, world = self._numbers[series], self._world
        log = LOG_SECONDS + world.changes[int(commit, 16), number] + world.effects[self._night, number]
        log += self._rng.normal(0.0, ROUND * world.noise[self._night])
        return Round(
            benchmark=series[0],
            params=series[1],
            time=self._now,
            estimate=math.exp(log),
            n=64,
            batch=1,
            spent=COST,
            stop="converged",
            method="m",
            launch=f"{self._now}",
        )
