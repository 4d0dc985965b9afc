"""Timers on the host's clock."""

import gc

import pytest

from kernel_velocity.harness import timers
from kernel_velocity.harness.timers import HostTimer


@pytest.fixture
def ticking(monkeypatch):
    """A clock each of whose readings lies 5000 ns after the last."""
    clock = iter(range(0, 10**9, 5000))
    monkeypatch.setattr(timers, "perf_counter_ns", lambda: next(clock))
    return clock


def test_host_timer_divides_by_the_batch(ticking):
    calls = []
    assert HostTimer().samples(lambda: calls.append(1), 10, 3) == pytest.approx([500e-9] * 3)
    assert len(calls) == 30


def test_host_timer_knows_its_own_limits():
    timer = HostTimer()
    assert 0 < timer.tick() < 1e-4
    assert 0 < timer.overhead() < 1e-5


def test_collector_is_off_only_while_timing():
    seen = []
    HostTimer().samples(lambda: seen.append(gc.isenabled()), 1, 1)
    assert seen == [False]
    assert gc.isenabled()


def test_the_flush_comes_before_every_sample_and_is_not_timed(ticking):
    did = []
    timer = HostTimer(lambda: did.extend(["flush", next(ticking)]))
    assert timer.samples(lambda: did.append("call"), 1, 3) == pytest.approx([5e-6] * 3)
    assert [what for what in did if isinstance(what, str)] == ["flush", "call"] * 3
    assert (timer.batch_limit, timer.by_wall) == (1, True)


def test_without_a_flush_budgets_are_spent_on_samples_alone():
    assert (HostTimer().batch_limit, HostTimer().by_wall) == (1 << 20, False)


def test_the_overhead_of_cold_calls_is_taken_cold():
    flushed = []
    HostTimer(lambda: flushed.append(1)).overhead()
    assert len(flushed) == 5  # each costs milliseconds
