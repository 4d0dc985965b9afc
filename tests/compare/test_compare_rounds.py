"""One round: as in the history, or as published scripts take it; the time of a whole function."""

from functools import partial

import pytest

from kernel_velocity.compare import rounds
from kernel_velocity.compare.rounds import Place, take_round, time_of_function
from kernel_velocity.harness.stopping import FixedCount, ReactiveBenchmarking


class Counting:
    """A timer whose samples are 1, 2, 3, ... µs; it calls what it times."""

    by_wall = False
    batch_limit = 1

    def __init__(self, device="cpu"):
        self.flags, self.asked = set(), []

    def samples(self, call, batch, n):
        self.asked.append((batch, n))
        for _ in range(batch * n):
            call()
        taken = sum(count for _, count in self.asked)
        return [(taken - n + number + 1) * 1e-6 for number in range(n)]


@pytest.fixture
def place():
    timer = Counting()
    return timer, Place(device="cpu", working_set=0, new_timer=lambda device: timer)


def test_published_rounds_have_their_warm_ups_and_a_sample_is_a_call(place):
    timer, where = place
    calls = []
    found = take_round(partial(calls.append, 1), FixedCount(n=20), where, warmups=7)
    assert len(calls) == 7 + 20 and {batch for batch, _ in timer.asked} == {1}
    assert found.samples == pytest.approx([number * 1e-6 for number in range(1, 21)])  # no burn-in is left out
    assert found.estimate == pytest.approx(10.5e-6)
    assert (found.stop, found.power) == ("complete", None)


def test_without_warm_ups_the_first_call_is_a_sample(place):
    calls = []
    assert len(take_round(partial(calls.append, 1), FixedCount(n=1), place[1], warmups=0).samples) == 1
    assert calls == [1]


def test_a_rule_that_drops_its_first_phase_keeps_the_rest(place):
    found = take_round(lambda: None, ReactiveBenchmarking(runs=10, min_time=1e-6, max_time=1e-5), place[1], warmups=0)
    assert len(found.samples) >= 5 and found.samples[0] > 10e-6


def test_flags_of_the_timer_and_of_the_host_are_kept(place, monkeypatch):
    from kernel_velocity.harness.machine import HostActivity

    timer, where = place
    timer.flags.add("underfed")
    monkeypatch.setattr(rounds, "activity", lambda *_: HostActivity(99, None, None, contended=True))
    assert take_round(lambda: None, FixedCount(n=2), where, warmups=0).flags == ("underfed", "contended")


def test_a_round_of_the_history_waits_for_quiet_cores_on_one_thread(monkeypatch):
    asked = []
    real = rounds.gate.on_cpu

    def on_cpu(working_set, folder, environ):
        asked.append((working_set, environ["KV_THREADS"]))
        return real(working_set, folder, {**environ, "KV_PATIENCE": "0"})

    monkeypatch.setattr(rounds.gate, "on_cpu", on_cpu)
    found = take_round(lambda: sum(range(1000)), FixedCount(n=10), Place(device="cpu", working_set=4.0, threads=2))
    assert asked == [(4.0, "2")]
    assert len(found.samples) == 8


def test_a_function_is_timed_by_the_call():
    assert 2e-6 < time_of_function(lambda: sum(range(1000)), "cpu", 1e-5) < 1e-3


def test_a_slow_function_has_few_samples():
    calls = []
    time_of_function(partial(calls.append, 1), "cpu", per_call=0.5)
    assert len(calls) == 1 + rounds.FEWEST
