"""A machine without asv: commits are names, rounds are drawn at random, a clock counts what they cost. Seeded."""

from dataclasses import dataclass, field

import numpy as np

from kernel_velocity.ab.rounds import Pair
from kernel_velocity.engine.telemetry import Round
from kernel_velocity.stats.sequential import Obstacle

SERIES = ("scale.Cpu.time_hot", ("native", "float32-1k"))
OTHER = ("scale.Cpu.time_hot", ("native", "float32-2k"))


def a_round(series, time, estimate, launch, **more):
    return Round(
        benchmark=series[0],
        params=series[1],
        time=time,
        estimate=estimate,
        n=64,
        batch=1,
        spent=0.1,
        stop="converged",
        method="m",
        launch=launch,
        **more,
    )


@dataclass
class Machine:
    """A `Runner`: `speed` says by what factor a commit is slower, series by series or for all of them."""

    speed: dict = field(default_factory=dict)  # commit -> factor, or series -> factor; absent: 1
    noise: float = 0.01  # standard deviation of log estimates between rounds
    mood: float = 0.0  # the same of what the sides of a round share; a gauge reads it
    unbuildable: tuple = ()
    failing: tuple = ()
    codes: dict = field(default_factory=dict)  # commit -> code; absent: unknown
    placements: dict = field(default_factory=dict)  # commit -> place of its code; absent: unknown
    cost: float = 1.0  # s of a round of one series on one side
    steps: dict = field(default_factory=dict)  # Unix time from which the machine is slower by a factor
    seed: int = 0
    now: float = 0.0
    stored: dict = field(default_factory=dict)  # (before, after) -> series -> (rounds before, rounds after)
    requests: list = field(default_factory=list)  # (before, after, series, rounds) of each call that measured

    def __post_init__(self):
        self.random = np.random.default_rng(self.seed)

    def prepare(self, commit):
        return f"commit {commit} does not build: error" if commit in self.unbuildable else None

    def code(self, commit, series):
        return self.codes.get(commit)

    def placement(self, commit):
        return self.placements.get(commit)

    def clock(self):
        return self.now

    def factor(self, commit, series):
        result = self.speed.get(commit, 1.0)
        return result.get(series, 1.0) if isinstance(result, dict) else result

    def measure_pair(self, before, after, series, rounds, deadline):
        pairs = self.stored.setdefault((before, after), {})
        if rounds:
            self.requests.append((before, after, tuple(series), rounds))
        for member in series:
            sides = pairs.setdefault(member, ([], []))
            while len(sides[0]) < rounds and self.now < deadline:
                self.measure_round(member, (before, after), sides)
        return {member: self.pair(pairs[member], (before, after)) for member in series}

    def measure_round(self, series, commits, sides):
        mood = self.random.normal(0, self.mood)
        environment = float(np.prod([factor for since, factor in self.steps.items() if self.now >= since]))
        for commit, rounds in zip(commits, sides, strict=True):
            self.now += self.cost
            seconds = (
                1e-3 * environment * self.factor(commit, series) * np.exp(mood + self.random.normal(0, self.noise))
            )
            gauge = {"core_gauge": float(25e-6 * np.exp(mood))} if self.mood else {}
            rounds.append(a_round(series, self.now, float(seconds), f"{self.now}", **gauge))

    def pair(self, sides, commits):
        for commit in commits:
            if commit in self.failing:
                return Pair(obstacle=Obstacle.FAILED, reason=f"failed at {commit}: wrong")
        return Pair(before=tuple(sides[0]), after=tuple(sides[1]))
