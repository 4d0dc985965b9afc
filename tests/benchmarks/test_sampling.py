"""One round: warm-up, batch, estimate, flags."""

import pytest

from benchmarks.harness import sampling
from benchmarks.harness.sampling import batch_for, measure
from benchmarks.harness.stopping import CoefficientOfVariation, FixedTime


class FakeTimer:
    """A timer whose calls take what a list says, without waiting."""

    batch_limit = 1 << 20

    def __init__(self, seconds=1e-5, tick=1e-7, overhead=5e-8, spike_every=0):
        self.flags = set()
        self.seconds, self._tick, self._overhead = seconds, tick, overhead
        self.spike_every, self.taken = spike_every, 0

    def samples(self, call, batch, n):
        found = []
        for _ in range(n):
            self.taken += 1
            spike = self.spike_every and self.taken % self.spike_every == 0
            found.append(self.seconds * (50 if spike else 1))
        return found

    def tick(self):
        return self._tick

    def overhead(self):
        return self._overhead


@pytest.mark.parametrize(
    ("per_call", "tick", "overhead", "batch"),
    [(1e-3, 1e-7, 5e-8, 1), (1e-6, 1e-7, 5e-8, 20), (1e-6, 1e-9, 5e-7, 10), (1e-12, 1e-3, 1e-3, 1 << 20)],
)
def test_batch_resolves_the_clock(per_call, tick, overhead, batch):
    assert batch_for(per_call, tick=tick, overhead=overhead, limit=1 << 20) == batch


def test_estimate_is_robust():
    timer = FakeTimer(spike_every=15)  # 7% of the samples are 50 times too slow
    result = measure(lambda: None, timer, FixedTime(t_max=0.05))
    assert result.estimate == pytest.approx(1e-5)
    assert result.stop == "complete"
    assert result.cv > 1


def test_a_coarse_clock_is_flagged():
    timer = FakeTimer(seconds=1e-6, tick=1e-6)
    timer.batch_limit = 1
    result = measure(lambda: None, timer, CoefficientOfVariation(t_min=1e-5, t_max=1e-4))
    assert result.flags == ("quantised",)


def test_what_went_wrong_while_warming_up_is_in_no_sample():
    class Underfed(FakeTimer):
        def samples(self, call, batch, n):
            if not self.taken:
                self.flags.add("underfed")
            return super().samples(call, batch, n)

    assert measure(lambda: None, Underfed(), CoefficientOfVariation(t_min=1e-5, t_max=1e-4)).flags == ()


def test_a_timer_that_returns_zero_is_an_error():
    with pytest.raises(ValueError, match="the timer returned 0"):
        measure(lambda: None, FakeTimer(seconds=0.0), CoefficientOfVariation())


def test_real_calls_on_the_real_clock():
    from benchmarks.harness.timers import HostTimer

    result = measure(lambda: sum(range(2000)), HostTimer(), CoefficientOfVariation(t_min=0.01, t_max=0.02))
    assert 1e-7 < result.estimate < 1e-2
    assert result.n >= 3
    assert result.warmup >= sampling.WARM_UP
    assert result.spent == pytest.approx(0.015, abs=0.03)


def faulting_calls(monkeypatch, faults):
    """Have the n-th reading of the fault counter grow by what `faults(n)` says."""
    state = {"reading": 0, "total": 0}

    def count():
        state["reading"] += 1
        state["total"] += faults(state["reading"])
        return state["total"]

    monkeypatch.setattr(sampling, "page_faults", count)


def test_warm_up_goes_on_until_memory_has_settled(monkeypatch):
    monkeypatch.setattr(sampling, "WARM_UP", 0.0)
    faulting_calls(monkeypatch, lambda reading: 2 if reading <= 20 else 0)
    timer = FakeTimer()
    sampling.warm_up(lambda: None, timer)
    assert timer.taken == 10 + sampling.SETTLED  # two readings a batch


def test_warm_up_of_memory_that_never_settles_ends(monkeypatch):
    monkeypatch.setattr(sampling, "WARM_UP_MOST", 0.02)
    faulting_calls(monkeypatch, lambda reading: 2)
    assert 0.02 <= sampling.warm_up(lambda: None, FakeTimer())[1] < 5


def test_page_faults_while_timing_are_flagged(monkeypatch):
    faulting_calls(monkeypatch, lambda reading: 1000 if reading > 10**9 else 0)
    assert measure(lambda: None, FakeTimer(), CoefficientOfVariation()).flags == ()
    monkeypatch.setattr(sampling, "WARM_UP_MOST", 0.0)
    faulting_calls(monkeypatch, lambda reading: 10**6)
    assert measure(lambda: None, FakeTimer(), CoefficientOfVariation()).flags == ("faulting",)
