"""The report of `kv track`: costs, speeds, and series without a value. Pure: values in, text out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from kernel_velocity import units
from kernel_velocity.engine.telemetry import Round
from kernel_velocity.names import COMPILED, DEVICES, NATIVE
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.lines import Failure
from kernel_velocity.results.measurement import Measurement, Outcome, is_enough
from kernel_velocity.runner.asv import AsvStep
from kernel_velocity.tables import columns
from kernel_velocity.unproven import UNPROVEN

LIMITS = {"core": 150, "full": 600}  # s, cost limit of a commit on two cores, by tier (contract)
LONG = 3  # minutes that nobody minds
FEW_ROUNDS = 3  # of a first look
COMMITS_SHOWN = 6  # commits in a table; the pages show all


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How long building and measuring take: runs say it, fleets share work out by it, nights choose their commits."""

    a_round: float = 1.5  # s of one series, with all that is around it: 1.4 on an H200 in tier core
    a_build: float = 15.0  # s of a commit: 11 there
    a_compilation: float = 8.0  # s of what PyTorch compiles of a test case: 82 s of processor for six, on two cores
    a_cuda: float = 30.0  # s of a commit's CUDA code: 29 on two idle cores
    is_recorded: bool = False  # `a_round` is of this machine

    def seconds(self, builds: int, rounds: int, compilations: int = 0, cuda: int = 0) -> float:
        """Return how long it takes to build commits and to measure rounds, of all series, s.

        Args:
            compilations: test cases that PyTorch compiles before. cuda: commits whose CUDA code is compiled apart.
        """
        apart = compilations * self.a_compilation + cuda * self.a_cuda
        return builds * self.a_build + rounds * self.a_round + apart


@dataclass(frozen=True, kw_only=True)
class Ahead:
    """What a run is going to do."""

    commits: Sequence[str]  # to measure, newest first
    series: Sequence[Series]
    rounds: int
    done: int = 0  # rounds, of all series, that are there already
    builds: int = 0
    compilations: int = 0  # test cases that PyTorch compiles
    cuda: int = 0  # commits whose CUDA code is compiled for its figures
    has_look: bool = False  # whether there is a page after the first round

    @property
    def timings(self) -> int:
        """Rounds to measure, of all series."""
        return len(self.commits) * len(self.series) * self.rounds - self.done

    def minutes(self, pace: Pace) -> int:
        """Return how long it takes."""
        return _minutes(pace.seconds(self.builds, self.timings, self.compilations, self.cuda))

    def page(self, pace: Pace) -> int:
        """Return when the first page comes, in minutes. Of series that PyTorch compiles it has nothing yet."""
        at_once = sum(key[1][0] != COMPILED for key in self.series) if self.compilations else 0
        return _minutes(pace.seconds(self.builds, len(self.commits) * (at_once or len(self.series))))


def pace(rounds: Sequence[Round]) -> Pace:
    """Return the pace that the rounds of a commit had: half of them began so soon after the one before."""
    began = sorted(round_.time for round_ in rounds)
    apart = sorted(after - before for before, after in pairwise(began))
    return Pace(a_round=apart[len(apart) // 2], is_recorded=True) if apart else Pace()


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of one commit by kind, s."""

    commit: str  # 8 digits
    build: float  # 0 where the wheel was in the cache
    measuring: float  # wall clock of its rounds
    setup: float  # inputs, loading, verification
    warmup: float
    timing: float
    queue: float  # the part of a GPU's timing that is not the calls: queues ahead of them, spins, flushes
    waiting: float  # for a quiet core

    @property
    def rest(self) -> float:
        """Starting processes, importing torch, forking, checks after timing, and asv itself."""
        return max(self.measuring - self.setup - self.warmup - self.timing - self.waiting, 0.0)


def wall_clock(steps: Sequence[AsvStep], end: float) -> dict[str, float]:
    """Return the seconds spent on each commit (8 digits), from asv's steps and the Unix time of its end."""
    spent: dict[str, float] = {}
    ends = [*(step.time for step in steps), end][1:]
    for step, step_end in zip(steps, ends, strict=True):
        spent[step.commit] = spent.get(step.commit, 0.0) + step_end - step.time
    return spent


def forecast(ahead: Ahead, pace: Pace) -> str:
    """Return how long a run will take, and by what."""
    source = "as in this machine's records" if pace.is_recorded else "as on other machines"
    of = f"{units.count(ahead.timings, 'timing')} of {pace.a_round:.1f} s, {source}"
    page = f", a first page after {ahead.page(pace)}" if ahead.has_look else ""
    apart = [
        f"what PyTorch compiles of {units.count(ahead.compilations, 'test case')}" * bool(ahead.compilations),
        f"CUDA code of {units.count(ahead.cuda, 'commit')}" * bool(ahead.cuda),
    ]
    more = f"\nbesides: {', '.join(filter(None, apart))}" if any(apart) else ""
    return f"about {units.count(ahead.minutes(pace), 'minute')}{page}: {of}{more}"


def _minutes(seconds: float) -> int:
    return round(max(seconds / 60, 1))


def shorter(ahead: Ahead, pace: Pace) -> str:
    """Return what to leave out of a run of more than LONG minutes, and what it takes then. "" of a shorter one."""
    if (whole := ahead.minutes(pace)) <= LONG:
        return ""
    native = [key for key in ahead.series if key[1][0] == NATIVE]
    newest = replace(ahead, commits=ahead.commits[:1], builds=min(ahead.builds, 1), cuda=min(ahead.cuda, 1))
    options = {
        f"--range {ahead.commits[0][:SHORT]}": newest,
        f"--rounds {FEW_ROUNDS}": replace(ahead, rounds=min(ahead.rounds, FEW_ROUNDS)),
        f"--bench {NATIVE}": replace(ahead, series=native or ahead.series, compilations=0),
    }
    minutes = {option: less.minutes(pace) for option, less in options.items()}
    worth = [f"`{option}` {number}" for option, number in minutes.items() if number < whole]
    return f"shorter, in minutes: {', '.join(worth)}" if worth else ""


def cost(commit: str, build: float, measuring: float, rounds: Iterable[Round]) -> Cost:
    """Return the cost of a commit from the rounds of this run. `build` and `measuring` are wall clock, s."""
    rounds = list(rounds)
    return Cost(
        commit=commit[:SHORT],
        build=build,
        measuring=measuring,
        setup=sum(record.setup or 0.0 for record in rounds),
        warmup=sum(record.warmup or 0.0 for record in rounds),
        timing=sum(record.spent for record in rounds),
        queue=sum(record.spent - record.n * record.batch * record.estimate for record in rounds if record.gpu),
        waiting=sum(record.lost or 0.0 for record in rounds),
    )


def cost_table(costs: Sequence[Cost], tier: str) -> str:
    """Return a table of the commits' costs and their sum, s, and a line on the commits over the tier's limit."""
    rows = [["cost, s", "total", "build", "set-up", "warm-up", "timing", "waiting", "launch and rest"]]
    numbers = {
        cost.commit: [
            *(cost.build + cost.measuring, cost.build, cost.setup, cost.warmup),
            *(cost.timing, cost.waiting, cost.rest),
        ]
        for cost in costs
    }
    if len(costs) > 1:
        numbers["all"] = [sum(numbers[cost.commit][at] for cost in costs) for at in range(len(rows[0]) - 1)]
    rows += [[name, *(f"{value:.1f}" for value in values)] for name, values in numbers.items()]
    over = ", ".join(cost.commit for cost in costs if cost.build + cost.measuring > LIMITS[tier])
    verdict = f"over it: {over}"
    limit = f"limit per commit (tier {tier}, two cores): {LIMITS[tier]} s"
    queue = sum(cost.queue for cost in costs)
    around = f"\nof the timing, {queue:.1f} s are queues, spins and flushes around the calls" if queue else ""
    return f"{columns(rows)}\n{limit}; {verdict if over else 'all within'}{around}"


def speed_table(measurements: Iterable[Measurement], commits: Sequence[str]) -> str:
    """Return a table of rates by series (rows) and commit (columns, oldest first). "" without measurements.

    A series without a known number of operations has times.
    """
    shown = list(commits)[-COMMITS_SHOWN:]
    cells: dict[tuple[str, str, str], dict[str, str]] = {}
    for value in measurements:
        key = (value.key.benchmark.removesuffix(".time_hot"), value.key.implementation, value.key.case)
        cells.setdefault(key, {})[value.commit] = _speed(value)
    if not cells:
        return ""
    rows = [["series", *(commit[:SHORT] for commit in shown)]]
    rows += [[" ".join(key), *(cells[key].get(commit, "-") for commit in shown)] for key in cells]
    return columns(rows)


def _speed(value: Measurement) -> str:
    if value.outcome is not Outcome.MEASURED or value.seconds is None:
        return value.outcome.value
    if value.gflops is None:
        return units.value(value.seconds, value.unit)
    return units.rate(value.gflops, value.key.rate_unit)


class Lacking(NamedTuple):
    """A series without a value, or with fewer rounds than wanted, and why."""

    word: str
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.word}: {self.what}: {self.why}"


def failed(
    measurements: Iterable[Measurement],
    wrong: Mapping[str, Sequence[Series]],
    failures: Mapping[str, Sequence[Failure]],
) -> list[Lacking]:
    """Return the failed timings, and the failed errors (track_max_error), each with the reason of its last failure.

    Args:
        wrong: failed errors. failures: recorded ones. Both by full commit.
    """
    timings = [(value.commit, _series(value)) for value in measurements if value.outcome is Outcome.FAILED]
    errors = [(commit, series) for commit, several in wrong.items() for series in several]
    return [
        Lacking("failed", _named(commit, series), _reason(series, failures.get(commit, ())))
        for commit, series in (*timings, *errors)
    ]


def _named(commit: str, series: Series) -> str:
    return f"{commit[:SHORT]} {series[0]} {' '.join(series[1])}"


def _reason(series: Series, failures: Iterable[Failure]) -> str:
    errors = [
        failure.error for failure in failures if (failure.benchmark, failure.params) == series and not failure.skipped
    ]
    return errors[-1] if errors else "its process ended without a reason"


def _series(value: Measurement) -> Series:
    return value.key.benchmark, (value.key.implementation, value.key.case)


def short(measurements: Iterable[Measurement], rounds: int, deaths: Iterable[tuple[str, Failure]]) -> list[Lacking]:
    """Return the measured series that lack some of `rounds` rounds, or with a crash in this run (`Reader.deaths`)."""
    crashes: dict[tuple[str, Series], list[str]] = {}
    for commit, failure in deaths:
        crashes.setdefault((commit, (failure.benchmark, failure.params)), []).append(failure.error)
    lacking = []
    for value in measurements:
        series = _series(value)
        reasons = crashes.get((value.commit[:SHORT], series), [])
        is_whole = value.rounds is None or is_enough(value.rounds, value.interval, rounds)
        missing = max(0 if is_whole else rounds - (value.rounds or 0), len(reasons))
        if value.outcome is Outcome.MEASURED and missing > 0:
            why = ": ".join([f"{missing} of {rounds} rounds ended without a value", *reasons[-1:]])
            lacking.append(Lacking("incomplete", _named(value.commit, series), why))
    return lacking


def unproven_lines(measurements: Iterable[Measurement]) -> list[str]:
    """Return a line per commit and series whose outputs passed a check that null answers pass, too."""
    return [
        f"{_named(value.commit, _series(value))}: {warning}"
        for value in measurements
        for warning in value.warnings
        if warning.startswith(UNPROVEN)
    ]


def absent_lines(measurements: Iterable[Measurement], failures: Mapping[str, Sequence[Failure]]) -> list[str]:
    """Return a line per commit, benchmark and implementation that does not apply, with its recorded reason if any.

    Args:
        failures: recorded ones by full commit, inapplicable ones included.
    """
    absent: dict[tuple[str, str, str], list[Series]] = {}
    for value in measurements:
        if value.outcome is Outcome.NOT_APPLICABLE:
            key = (value.commit, value.key.benchmark, value.key.implementation)
            absent.setdefault(key, []).append(_series(value))
    lines = []
    for (commit, benchmark, implementation), several in absent.items():
        recorded = (failure for failure in failures.get(commit, ()) if failure.skipped)
        reasons = {(failure.benchmark, failure.params): f": {failure.error}" for failure in recorded}
        reason = next((reasons[series] for series in several if series in reasons), "")
        cases = ", ".join(params[-1] for _, params in several)
        lines.append(f"n/a: {commit[:SHORT]} {benchmark} {implementation} ({cases}){reason}")
    return lines


def uncompiled_lines(figures: Iterable[Series], failures: Mapping[str, Sequence[Failure]]) -> list[str]:
    """Return a line per commit and reason, with the GPU code of which no figure has a value.

    Args:
        figures: of code. failures: those of this run by full commit, inapplicable ones included.
    """
    of_gpu = [series for series in figures if f".{DEVICES['cuda']}." in series[0]]
    wanted = Counter((name.partition(".")[0], params) for name, params in of_gpu)
    lines = []
    for commit, several in failures.items():
        reasons = {(failure.benchmark, failure.params): failure.error for failure in several if failure.skipped}
        absent = Counter((key[0].partition(".")[0], key[1], reasons[key]) for key in of_gpu if key in reasons)
        names: dict[str, list[str]] = {}
        for (kernel, params, reason), count in absent.items():
            if count == wanted[kernel, params]:
                names.setdefault(reason, []).append(" ".join([kernel, *params]))
        lines += [
            f"n/a: {commit[:SHORT]} figures of code of {units.listed(codes, 3)}: {why}" for why, codes in names.items()
        ]
    return lines
