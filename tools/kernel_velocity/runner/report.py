"""What `make track` prints at its end: its cost, its speeds, what has no value. Pure: values in, text out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kernel_velocity import units
from kernel_velocity.harness.telemetry import Round
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.failures import Failure
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.measurement import Measurement, Outcome
from kernel_velocity.runner.asv import Death, Step
from kernel_velocity.tables import columns

LIMITS = {"core": 150, "full": 600}  # s that a commit may cost on two cores, by tier (contract)
COLUMNS = 6  # commits that a table shows; the pages show them all


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Where the time of one commit went, s."""

    commit: str  # 8 digits
    build: float  # 0 where the wheel was in the cache
    measuring: float  # wall clock of its rounds
    setup: float  # inputs, loading, verification
    warmup: float
    timing: float
    waiting: float  # for a quiet core

    @property
    def rest(self) -> float:
        """Starting processes, importing torch, forking, checks after timing, and asv itself."""
        return max(self.measuring - self.setup - self.warmup - self.timing - self.waiting, 0.0)


def wall_clock(steps: Sequence[Step], end: float) -> dict[str, float]:
    """Return the seconds spent on each commit (8 digits), from asv's steps and the Unix time of its end."""
    found: dict[str, float] = {}
    after = [*(step.time for step in steps), end][1:]
    for step, left in zip(steps, after, strict=True):
        found[step.commit] = found.get(step.commit, 0.0) + left - step.time
    return found


def cost(commit: str, build: float, measuring: float, rounds: Iterable[Round]) -> Cost:
    """Return what a commit cost; `rounds` are those of this run."""
    rounds = list(rounds)
    return Cost(
        commit=commit[:SHORT],
        build=build,
        measuring=measuring,
        setup=sum(item.setup or 0.0 for item in rounds),
        warmup=sum(item.warmup or 0.0 for item in rounds),
        timing=sum(item.spent for item in rounds),
        waiting=sum(item.lost or 0.0 for item in rounds),
    )


def cost_table(costs: Sequence[Cost], tier: str) -> str:
    """Return the costs of the commits and their sum, in seconds, and which of them are over the tier's limit."""
    rows = [["cost, s", "total", "build", "set-up", "warm-up", "timing", "waiting", "launch and rest"]]
    numbers = {
        item.commit: [
            *(item.build + item.measuring, item.build, item.setup, item.warmup),
            *(item.timing, item.waiting, item.rest),
        ]
        for item in costs
    }
    if len(numbers) > 1:
        numbers["all"] = [sum(column) for column in zip(*numbers.values(), strict=True)]
    rows += [[name, *(f"{value:.1f}" for value in values)] for name, values in numbers.items()]
    over = [item.commit for item in costs if item.build + item.measuring > LIMITS[tier]]
    said = f"over it: {', '.join(over)} (the first run of a machine also compiles PyTorch's packages, once)"
    limit = f"limit per commit (tier {tier}, two cores): {LIMITS[tier]} s"
    return f"{columns(rows)}\n{limit}; {said if over else 'all within'}"


def speed_table(measurements: Iterable[Measurement], commits: Sequence[str]) -> str:
    """Return rates by series (rows) and commit (columns, oldest first); "" where nothing is recorded."""
    shown = list(commits)[-COLUMNS:]
    cells: dict[tuple[str, str, str], dict[str, str]] = {}
    dtypes: set[str] = set()
    for item in measurements:
        key = (item.key.benchmark.removesuffix(".time_hot"), item.key.implementation, item.key.case)
        cells.setdefault(key, {})[item.commit] = _speed(item)
        dtypes.add(item.key.dtype)
    if not cells:
        return ""
    rows = [[units.rate_units(dtypes), *(commit[:SHORT] for commit in shown)]]
    rows += [[" ".join(key), *(cells[key].get(commit, "-") for commit in shown)] for key in cells]
    return columns(rows)


def _speed(item: Measurement) -> str:
    if item.outcome is not Outcome.MEASURED or item.seconds is None:
        return item.outcome.value
    return units.seconds(item.seconds) if item.gflops is None else units.significant(item.gflops)


def failed_lines(measurements: Iterable[Measurement], failures: Mapping[str, Sequence[Failure]]) -> list[str]:
    """Return a line per series that failed, with the reason of its last failure; `failures` by full commit."""
    lines = []
    for item in measurements:
        if item.outcome is not Outcome.FAILED:
            continue
        params = (item.key.implementation, item.key.case)
        said = [
            failure
            for failure in failures.get(item.commit, ())
            if _series(failure) == (item.key.benchmark, params) and not failure.skipped
        ]
        why = said[-1].error if said else "its process ended without a reason"
        lines.append(f"failed: {item.commit[:SHORT]} {item.key.benchmark} {' '.join(params)}: {why}")
    return lines


def error_lines(wrong: Mapping[str, Sequence[Series]], failures: Mapping[str, Sequence[Failure]]) -> list[str]:
    """Return a line per error (track_max_error) that failed, with its reason; both by full commit."""
    lines = []
    for commit, found in wrong.items():
        said = {_series(failure): failure.error for failure in failures.get(commit, ())}
        for series in found:
            why = said.get(series, "its process ended without a reason")
            lines.append(f"failed: {commit[:SHORT]} {series[0]} {' '.join(series[1])}: {why}")
    return lines


def short_lines(measurements: Iterable[Measurement], rounds: int, deaths: Iterable[Death]) -> list[str]:
    """Return a line per series that has a value of fewer than `rounds` rounds, or one of whose rounds died just now."""
    died: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for death in deaths:
        died.setdefault((death.commit, death.benchmark, death.params), []).append(death.what)
    lines = []
    for item in measurements:
        params = (item.key.implementation, item.key.case)
        said = died.get((item.commit[:SHORT], item.key.benchmark, params), [])
        missing = max(rounds - (rounds if item.rounds is None else item.rounds), len(said))
        if item.outcome is Outcome.MEASURED and missing > 0:
            why = f": {said[-1]}" if said else ""
            lines.append(
                f"incomplete: {item.commit[:SHORT]} {item.key.benchmark} {' '.join(params)}: "
                f"{missing} of {rounds} rounds ended without a value{why}"
            )
    return lines


def reasons(failures: Mapping[str, Sequence[Failure]]) -> dict[tuple[str, str, tuple[str, ...]], str]:
    """Return why series do not apply, as recorded, by commit (8 digits), benchmark and parameters."""
    return {
        (commit[:SHORT], item.benchmark, item.params): item.error
        for commit, items in failures.items()
        for item in items
        if item.skipped
    }


def _series(failure: Failure) -> Series:
    return failure.benchmark, failure.params


def absent_lines(
    measurements: Iterable[Measurement], reasons: Mapping[tuple[str, str, tuple[str, ...]], str]
) -> list[str]:
    """Return a line per commit, benchmark and implementation that does not apply, with its reason if that is known."""
    found: dict[tuple[str, str, str], list[Measurement]] = {}
    for item in measurements:
        if item.outcome is Outcome.NOT_APPLICABLE:
            found.setdefault((item.commit[:SHORT], item.key.benchmark, item.key.implementation), []).append(item)
    lines = []
    for (commit, benchmark, implementation), items in found.items():
        known = (reasons.get((commit, benchmark, (implementation, item.key.case))) for item in items)
        why = next((reason for reason in known if reason is not None), None)
        names = ", ".join(item.key.case for item in items)
        lines.append(f"n/a: {commit} {benchmark} {implementation} ({names}){': ' + why if why else ''}")
    return lines
