"""Replay stopping rules on traces: the cost of each, and the error of its estimates. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kernel_velocity.harness.statistics import autocorrelation, half_width, trimmed_mean
from kernel_velocity.harness.stopping import Stop, StoppingRule, without_burn_in
from kernel_velocity.results.traces import Trace

ENDED = "trace ended"  # reason if the rule wanted more than was recorded
RESAMPLES = 1000
PERCENTILE = 0.9

MakeRule = Callable[[], StoppingRule]


class Outcome(NamedTuple):
    """One rule on one trace. Times in s. Errors relative to the truth."""

    source: str
    estimate: float  # of the harness: 10% trimmed mean without the burn-in
    error: float
    error_of_mean: float  # of the plain mean of all that the rule kept
    covered: bool | None  # whether estimate and half-width include the truth; None: too few samples for a half-width
    spent: float
    n: int
    reason: str
    correlation: float | None  # lag-1, of all samples that were taken
    correlation_kept: float | None  # of those behind the estimate


class Result(NamedTuple):
    """Every rule on one set of traces."""

    title: str
    outcomes: Mapping[str, Sequence[Outcome]]  # by rule
    worse: Mapping[str, tuple[float, float]]  # our rules against `fixed_time` at equal total time (`worse`)


def replay(rule: StoppingRule, trace: Trace) -> Outcome:
    """Return the outcome of a rule on a trace."""
    rule.start()
    position, end = 0, len(trace.samples)
    while not isinstance(decision := rule.decide(), Stop) and position < end:
        portion = trace.samples[position : position + decision.n]
        rule.add(portion, sum(portion) * trace.batch)
        position += len(portion)
    samples = trace.samples[:position]
    by_rule = rule.samples or samples  # none yet, where the trace ended as a rule had dropped its first phase
    settled = np.asarray(without_burn_in(by_rule))
    estimate, width = trimmed_mean(settled), half_width(settled)
    return Outcome(
        source=trace.source,
        estimate=estimate,
        error=abs(estimate / trace.truth - 1),
        error_of_mean=abs(float(np.mean(by_rule)) / trace.truth - 1),
        covered=None if width is None else abs(estimate - trace.truth) <= width * estimate,
        spent=rule.spent,
        n=len(samples),
        reason=decision.reason.value if isinstance(decision, Stop) else ENDED,
        correlation=autocorrelation(samples),
        correlation_kept=autocorrelation(settled),
    )


def median(outcomes: Iterable[Outcome], name: str) -> float | None:
    """Return the median of a field over the outcomes that have one. None if none has."""
    present = [value for outcome in outcomes if (value := getattr(outcome, name)) is not None]
    return float(np.median(present)) if present else None


def p90(outcomes: Iterable[Outcome]) -> float:
    """Return the 90th percentile of the errors."""
    return float(np.quantile([outcome.error for outcome in outcomes], PERCENTILE))


def share(values: Iterable[bool | None]) -> float | None:
    """Return the share of the values that are true. None if none is known."""
    present = [value for value in values if value is not None]
    return float(np.mean(present)) if present else None


def equal_time(traces: Iterable[Trace], longest: float, totals: Mapping[str, float]) -> dict[str, float]:
    """Return the time per trace, s, that costs each total, or up to half a percent more, if all traces stop at it.

    A trace is stopped by the first sample that ends at or after the time, or by its last. `fixed_time` gets this time
    when it is compared at equal total time, so that it never gets less than the other rule.

    Args:
        traces: all traces.
        longest: time that is tried, s. Returned if no time costs the total.
        totals: by rule, s.
    """
    times = np.geomspace(longest / 1e4, longest, 2000)
    costs = np.zeros(2000)
    for trace in traces:
        spent = np.cumsum(trace.samples) * trace.batch
        costs += spent[np.minimum(np.searchsorted(spent, times), spent.size - 1)]
    return {
        rule: float(times[min(int(np.searchsorted(costs, total)), times.size - 1)]) for rule, total in totals.items()
    }


def worse(first: Sequence[Outcome], second: Sequence[Outcome], seed: int) -> tuple[float, float]:
    """Return the shares of resamples in which the first rule has the larger median error, and 90th percentile.

    The resamples are a paired bootstrap over sources, each with all its repetitions.

    Args:
        first: outcomes of the one rule.
        second: of the other, on the same traces.
        seed: of the resamples.
    """
    rng = np.random.default_rng([seed, RESAMPLES])
    sources = [outcome.source for outcome in first]
    groups = [np.flatnonzero(np.asarray(sources) == source) for source in dict.fromkeys(sources)]
    errors = np.asarray([[outcome.error for outcome in outcomes] for outcomes in (first, second)])
    count = np.zeros(2)
    for _ in range(RESAMPLES):
        drawn = errors[:, np.concatenate([groups[index] for index in rng.integers(0, len(groups), len(groups))])]
        figures = np.quantile(drawn, (0.5, PERCENTILE), axis=1)  # rows: median, p90
        count += figures[:, 0] > figures[:, 1]
    return float(count[0] / RESAMPLES), float(count[1] / RESAMPLES)


def repeatability(outcomes: Sequence[Outcome]) -> tuple[float, float]:
    """Return the relative standard deviation of a rule's estimates of one source, and the mean time of a repetition, s.

    Both are medians over sources, of which each has at least two repetitions.
    """
    by_source: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_source.setdefault(outcome.source, []).append(outcome)
    estimates = [[outcome.estimate for outcome in group] for group in by_source.values()]
    times = [float(np.mean([outcome.spent for outcome in group])) for group in by_source.values()]
    deviation = np.median([float(np.std(group, ddof=1) / np.mean(group)) for group in estimates])
    return float(deviation), float(np.median(times))
