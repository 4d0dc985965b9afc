"""Replaying stopping rules on traces: what each takes, what it says, and how far off that is. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernel_velocity.harness.statistics import autocorrelation, half_width, trimmed_mean
from kernel_velocity.harness.stopping import Stop, StoppingRule, without_burn_in
from kernel_velocity.results.traces import Trace

ENDED = "trace ended"  # reason of ours: the rule wanted more than was recorded
CLOSE = 0.005  # relative error that counts as close
RESAMPLES = 1000
PERCENTILE = 0.9

MakeRule = Callable[[], StoppingRule]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a rule made of one trace. Times in s; error and half-width relative to the truth and the estimate."""

    source: str
    estimate: float  # as the harness takes it: 10% trimmed mean without the burn-in
    error: float
    error_of_mean: float  # of the plain mean of all that the rule kept
    covered: bool | None  # whether estimate and half-width include the truth; None: too few samples for a half-width
    spent: float
    n: int
    reason: str
    correlation: float | None  # lag-1, of all samples that were taken
    correlation_kept: float | None  # of those behind the estimate


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One rule over many traces. Errors and shares as fractions, times in s; unknown is None."""

    rule: str
    traces: int
    median: float
    p90: float
    median_of_mean: float
    close: float  # share of traces with an error within CLOSE
    total: float
    coverage: float | None
    reasons: tuple[tuple[str, int], ...]
    correlation: float | None  # medians over traces
    correlation_kept: float | None


def replay(rule: StoppingRule, trace: Trace) -> Outcome:
    """Return what a rule makes of a trace."""
    rule.start()
    position, end = 0, len(trace.samples)
    while not isinstance(decision := rule.decide(), Stop) and position < end:
        portion = trace.samples[position : position + decision.n]
        rule.add(portion, sum(portion) * trace.batch)
        position += len(portion)
    reason = decision.reason.value if isinstance(decision, Stop) else ENDED
    return _outcome(trace, rule, trace.samples[:position], reason)


def _outcome(trace: Trace, rule: StoppingRule, taken: Sequence[float], reason: str) -> Outcome:
    kept_by_rule = rule.samples or taken  # nothing yet, where the trace ended as a rule had dropped its first phase
    kept = np.asarray(without_burn_in(kept_by_rule))
    estimate = trimmed_mean(kept)
    width = half_width(kept)
    return Outcome(
        source=trace.source,
        estimate=estimate,
        error=abs(estimate / trace.truth - 1),
        error_of_mean=abs(float(np.mean(kept_by_rule)) / trace.truth - 1),
        covered=None if width is None else abs(estimate - trace.truth) <= width * estimate,
        spent=rule.spent,
        n=len(taken),
        reason=reason,
        correlation=autocorrelation(taken),
        correlation_kept=autocorrelation(kept),
    )


def summary(rule: str, outcomes: Sequence[Outcome]) -> Summary:
    """Return a rule's figures over its outcomes, of which there is at least one."""
    errors = [each.error for each in outcomes]
    covered = [each.covered for each in outcomes if each.covered is not None]
    return Summary(
        rule=rule,
        traces=len(outcomes),
        median=float(np.median(errors)),
        p90=float(np.quantile(errors, PERCENTILE)),
        median_of_mean=float(np.median([each.error_of_mean for each in outcomes])),
        close=float(np.mean([error <= CLOSE for error in errors])),
        total=sum(each.spent for each in outcomes),
        coverage=float(np.mean(covered)) if covered else None,
        reasons=tuple(Counter(each.reason for each in outcomes).most_common()),
        correlation=_median(each.correlation for each in outcomes),
        correlation_kept=_median(each.correlation_kept for each in outcomes),
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None


class Costs:
    """What stopping every trace at the same time would cost in total, for times half a percent apart."""

    def __init__(self, longest: float) -> None:
        self._times = np.geomspace(longest / 1e4, longest, 2000)
        self._totals = np.zeros(2000)

    def add(self, trace: Trace) -> None:
        """Take a trace in: it is stopped by the first sample that ends at or after the time, or by its last."""
        spent = np.cumsum(trace.samples) * trace.batch
        self._totals += spent[np.minimum(np.searchsorted(spent, self._times), spent.size - 1)]

    def time_for(self, total: float) -> float:
        """Return the time per trace, s, that costs `total` s or up to half a percent more; the longest if none does.

        It is what `fixed_time` gets when it is compared at equal total time: never less than the other rule.
        """
        return float(self._times[min(int(np.searchsorted(self._totals, total)), self._times.size - 1)])


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two rules on the same traces, by paired bootstrap over sources: how often the first is worse."""

    first: str
    second: str
    worse_median: float  # share of resamples in which the first rule's median error is larger
    worse_p90: float


def compare(first: str, second: str, outcomes: Mapping[str, Sequence[Outcome]], seed: int) -> Comparison:
    """Return how often `first` is worse than `second` when sources are drawn anew, each with all its repetitions."""
    rng = np.random.default_rng([seed, RESAMPLES])
    sources = [each.source for each in outcomes[first]]
    groups = [np.flatnonzero(np.asarray(sources) == source) for source in dict.fromkeys(sources)]
    errors = np.asarray([[each.error for each in outcomes[name]] for name in (first, second)])
    worse = np.zeros(2)
    for _ in range(RESAMPLES):
        drawn = errors[:, np.concatenate([groups[index] for index in rng.integers(0, len(groups), len(groups))])]
        figures = np.quantile(drawn, (0.5, PERCENTILE), axis=1)  # rows: median, p90
        worse += figures[:, 0] > figures[:, 1]
    return Comparison(
        first=first, second=second, worse_median=float(worse[0] / RESAMPLES), worse_p90=float(worse[1] / RESAMPLES)
    )


@dataclass(frozen=True, kw_only=True)
class Repeatability:
    """How far apart repetitions of a rule are, beside what they cost: medians over sources."""

    rule: str
    deviation: float  # relative standard deviation of the estimates of one source
    seconds: float  # mean time of a repetition


def repeatability(rule: str, outcomes: Sequence[Outcome]) -> Repeatability:
    """Return the spread of a rule's estimates over repetitions of the same source; at least two of each."""
    by_source: dict[str, list[Outcome]] = {}
    for each in outcomes:
        by_source.setdefault(each.source, []).append(each)
    spreads = [
        float(np.std([each.estimate for each in group], ddof=1) / np.mean([each.estimate for each in group]))
        for group in by_source.values()
    ]
    times = [float(np.mean([each.spent for each in group])) for group in by_source.values()]
    return Repeatability(rule=rule, deviation=float(np.median(spreads)), seconds=float(np.median(times)))


@dataclass(frozen=True, kw_only=True)
class Result:
    """Every rule on one set of traces."""

    title: str
    traces: int
    summaries: tuple[Summary, ...]
    comparisons: tuple[Comparison, ...]  # of each of our rules with `fixed_time` at equal total time


@dataclass(frozen=True, kw_only=True)
class Proof:
    """All that one replay found."""

    seed: int
    results: tuple[Result, ...]
    families: Mapping[str, Mapping[str, float]]  # family -> rule -> median relative error
    repeatabilities: tuple[Repeatability, ...]
