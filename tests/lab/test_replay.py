"""Replaying: costs and errors of rules on traces, and what is printed of them."""

import pytest

from kernel_velocity.engine.stopping import FixedCount, FixedTime
from lab.replay import ReplayOutcome, equal_time, replay, worse
from lab.traces import Trace


def trace(samples, truth=1e-3, batch=1):
    return Trace(source="a", samples=list(samples), batch=batch, truth=truth)


def outcome(error=0.01, source="a", covered=True):
    return ReplayOutcome(
        source=source,
        error=error,
        covered=covered,
        spent=1.0,
        n=10,
        reason="converged",
    )


def test_outcome_is_of_the_samples_that_the_rule_took():
    samples = [2e-3] * 20 + [1e-3] * 80 + [5e-3] * 100
    result = replay(FixedCount(n=100), trace(samples, truth=1.25e-3))
    assert (result.n, result.reason) == (100, "complete")
    assert result.error == pytest.approx(0.2)  # of 1 ms, without the first fifth
    assert result.spent == pytest.approx(0.12)
    assert result.covered is False
    batch = replay(FixedTime(t_max=0.1), trace([1e-3] * 1000, batch=5))
    assert (batch.n, batch.spent) == (20, pytest.approx(0.1))


def test_equal_time_costs_as_much_or_little_more():
    traces = [trace([1e-3] * 5000), trace([7e-3] * 700), trace([0.03] * 50, batch=3)]
    totals = {"a": 0.5, "b": 1.7, "c": 6.0, "d": 100.0}
    times = equal_time(traces, 4.0, totals)
    assert times.pop("d") == pytest.approx(4.0)  # no time costs more than there is
    for name, seconds in times.items():
        spent = sum(replay(FixedTime(t_max=seconds), recorded).spent for recorded in traces)
        assert totals[name] <= spent * 1.0001
        assert spent < 1.01 * totals[name] + 0.1  # half a percent, and one sample of each


def test_worse_rule_is_worse_in_all_resamples():
    good = [outcome(0.001 * (1 + number), str(number)) for number in range(12)]
    bad = [outcome(1.1 * before.error, before.source) for before in good]
    assert worse(bad, good, seed=1) == (1.0, 1.0)
    assert worse(good, bad, seed=1) == (0.0, 0.0)


def test_resamples_are_of_sources_with_all_their_repetitions():
    # one source of nine decides: it is in 1 - (8/9)^9 = 65% of resamples; with outcomes drawn one by one in 56%
    good = [outcome(0.001, str(number // 5)) for number in range(45)]
    bad = [outcome(0.5 if before.source == "0" else 0.001, before.source) for before in good]
    assert 0.62 < worse(bad, good, seed=1)[1] < 0.69
