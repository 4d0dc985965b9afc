"""One round: warm-up, batch, estimate, flags."""

import pytest

from kernel_velocity.engine import quiet, sampling
from kernel_velocity.engine.sampling import batch_for, measure
from kernel_velocity.engine.stopping import CoefficientOfVariation, FixedCount, FixedTime
from kernel_velocity.engine.timers import HostTimer, Timer


class FakeTimer(Timer):
    """A timer whose calls take what a list says, without waiting."""

    batch_limit = 1 << 20
    by_wall = False

    def __init__(self, seconds=1e-5, tick=9e-8, overhead=5e-8, spike_every=0, jitter=1e-4):
        super().__init__()
        self.seconds, self._tick, self._overhead = seconds, tick, overhead
        self.spike_every, self.drawn, self.jitter = spike_every, 0, jitter

    def samples(self, call, batch, n):
        samples = []
        for _ in range(n):
            self.drawn += 1
            spike = self.spike_every and self.drawn % self.spike_every == 0
            samples.append(self.seconds * (50 if spike else 1) * (1 + self.jitter * (self.drawn % 3 - 1)))
        return samples

    def tick(self):
        return self._tick

    def overhead(self):
        return self._overhead


@pytest.fixture(autouse=True)
def no_faults(monkeypatch):
    """A timer that does not wait is done in microseconds: one page fault of the test's own is many a second."""
    monkeypatch.setattr(sampling, "page_faults", lambda: 0)


@pytest.mark.parametrize(
    ("per_call", "tick", "overhead", "batch"),
    [
        (1e-3, 1e-7, 5e-8, 1),
        (1e-6, 1e-7, 5e-8, 20),
        (1e-6, 1e-9, 5e-7, 10),
        (1e-12, 1e-3, 1e-3, 1 << 20),
    ],
)
def test_batch_resolves_the_clock(per_call, tick, overhead, batch):
    assert batch_for(per_call, HostTimer(), tick, overhead) == batch


def test_estimate_is_robust():
    timer = FakeTimer(spike_every=15)  # 7% of the samples are 50 times too slow
    result = measure(lambda: None, timer, FixedTime(t_max=0.05))
    assert result.estimate == pytest.approx(1e-5, rel=1e-4)
    assert result.stop == "complete"
    assert result.cv > 1


def test_coarse_clock_is_flagged():
    timer = FakeTimer(seconds=1e-6, tick=1e-6)
    timer.batch_limit = 1
    result = measure(lambda: None, timer, CoefficientOfVariation(t_min=1e-5, t_max=1e-4))
    assert result.flags == ("quantised",)


def test_equal_samples_are_flagged():
    rule = FixedTime(t_max=0.01)
    assert measure(lambda: None, FakeTimer(jitter=0.0), rule).flags == ("constant",)
    few = FakeTimer(seconds=2e-3, jitter=0.0)  # 5 samples of a millisecond's call may agree
    assert measure(lambda: None, few, rule).flags == ()


def test_short_call_is_flagged():
    rule = FixedTime(t_max=0.01)
    assert measure(lambda: None, FakeTimer(seconds=4.9e-6, overhead=1e-6), rule).flags == ("short",)
    assert measure(lambda: None, FakeTimer(seconds=5.1e-6, overhead=1e-6), rule).flags == ()


def test_drift_is_last_third_over_first():
    assert sampling.drift([1.0] * 30) == 0
    assert sampling.drift([1.0] * 10 + [9.0] * 10 + [1.1] * 10) == pytest.approx(0.1)
    assert sampling.drift([*[1.0] * 29, 100.0]) == 0  # one spike is none
    assert sampling.drift([1.0] * 5) is None


def test_wall_clock_timer_spends_wall_time(monkeypatch):
    now = iter(x / 100 for x in range(10**9))  # every look at the clock is 10 ms after the last
    monkeypatch.setattr(sampling, "perf_counter", lambda: next(now))
    timer = FakeTimer()
    timer.by_wall = True
    result = measure(lambda: None, timer, FixedTime(t_max=0.05))
    assert result.n < 1000  # by its own times alone it would be 5000
    assert result.spent == pytest.approx(0.05)


@pytest.mark.parametrize("rule", [FixedCount(n=100), FixedTime(t_max=1000.0)])
def test_sampling_stops_before_the_timeout(monkeypatch, rule):
    clock = [0.0]

    class Slow(FakeTimer):
        def samples(self, call, batch, n):
            clock[0] += 3.0 * batch * n
            return super().samples(call, batch, n)

    monkeypatch.setattr(sampling, "perf_counter", lambda: clock[0])
    result = measure(lambda: None, Slow(seconds=3.0), rule)
    assert result.stop == "timeout"
    assert result.estimate == pytest.approx(3.0, rel=1e-3)
    assert sampling.SAMPLING_MOST - 3 < 3 * result.n <= sampling.SAMPLING_MOST + 3


def test_looks_before_and_after_the_samples():
    timer = FakeTimer()
    looks = []
    result = measure(lambda: None, timer, FixedTime(t_max=0.01), lambda: looks.append(timer.drawn))
    first, last = looks
    assert first > 0
    assert last - first == result.n


def test_warm_up_flags_are_dropped():
    class Underfed(FakeTimer):
        def samples(self, call, batch, n):
            if not self.drawn:
                self.flags.add("underfed")
            return super().samples(call, batch, n)

    assert measure(lambda: None, Underfed(), CoefficientOfVariation(t_min=1e-5, t_max=1e-4)).flags == ()


@pytest.mark.parametrize(("last", "flags"), [(1.99e9, ()), (1.97e9, ("clock_drift",))])
def test_clock_that_moves_beside_the_samples_is_flagged(monkeypatch, last, flags):
    monkeypatch.setattr(FakeTimer, "clocks", lambda _: [2e9, last])
    result = measure(lambda: None, FakeTimer(), CoefficientOfVariation(t_min=1e-5, t_max=1e-4))
    assert (result.flags, result.clocks) == (flags, (2e9, last))


class SharedCore(FakeTimer):
    """A timer and a gauge of a core that somebody else slows down at times: a third of what it usually does.

    Its clock moves when it is used. The rule must not see what was slow.
    """

    def __init__(self, busy, **settings):
        super().__init__(seconds=1e-4, jitter=1e-4, **settings)
        self.now, self._busy = 0.0, busy

    def _use(self, seconds):
        slowed = seconds * (1.5 if self._busy(self.now) else 1.0)
        self.now += slowed
        return slowed

    def gauge(self):
        return self._use(3e-5)

    def samples(self, call, batch, n):
        return [self._use(sample) for sample in super().samples(call, batch, n)]

    def overhead(self):
        self.now = 0.0  # warm: the round begins
        return super().overhead()


def gated(core, monkeypatch, rule, patience=0.35):
    """Measure a round on a shared core. Return what it found, and its gate."""
    for module in (quiet, sampling):
        monkeypatch.setattr(module, "perf_counter", lambda: core.now)
        monkeypatch.setattr(module, "page_faults", lambda: 0)  # this process's are not the script's
    made = quiet.Gate(core.gauge, 3e-5, patience)
    return measure(lambda: None, core, rule, gate=made), made


def test_rule_sees_counted_samples_only(monkeypatch):
    rule = FixedTime(t_max=0.04995)
    core = SharedCore(lambda now: now % 0.008 > 0.005)  # 3 ms of every 8
    result, made = gated(core, monkeypatch, rule)
    slow = [sample for sample in rule.samples if sample > 1.01e-4]
    assert slow == []
    assert (result.n, result.stop, result.flags) == (500, "complete", ())
    assert (result.spent, rule.spent) == pytest.approx((0.05, 0.05), rel=1e-4)
    assert 0.015 < result.lost < 0.05
    assert made.gauges()[0] == result.core_gauge == pytest.approx(3e-5, rel=0.01)
    assert core.now == pytest.approx(result.spent + result.lost + 3e-5 * len(made.readings), rel=0.05)


class Impatient:
    """A gate whose patience ends once it has let so many samples through."""

    is_open, lost, per_batch, gives_up = False, 0.35, None, False

    def __init__(self, most, faults=0):
        self._left = most
        self.faults = faults

    def take(self, timer, call, batch, n, per_batch):
        allowed = n if self.is_open else min(n, self._left)
        self._left -= allowed
        self.is_open = self.is_open or allowed < n
        self.per_batch = per_batch
        samples = timer.samples(call, batch, allowed)
        return samples, sum(samples)

    def gauges(self):
        return None, None, None


@pytest.mark.parametrize(
    ("quiet", "stop", "flags"), [(quiet.ENOUGH, "contended", ()), (quiet.ENOUGH - 1, "complete", ("contended",))]
)
def test_enough_is_what_a_rule_wants_at_least(quiet, stop, flags):
    result = measure(lambda: None, FakeTimer(), FixedTime(t_max=0.01), gate=Impatient(quiet))
    assert (result.stop, result.flags) == (stop, flags)
    assert (result.n == quiet) is (stop == "contended")


def test_round_that_does_not_wait_any_more_is_flagged():
    gate = Impatient(0)
    gate.is_open = gate.gives_up = True
    assert measure(lambda: None, FakeTimer(), FixedTime(t_max=0.01), gate=gate).flags == ("contended",)


def test_too_few_quiet_samples_are_flagged(monkeypatch):
    rule = FixedTime(t_max=0.05)
    result, _ = gated(SharedCore(lambda now: now > 0.0015), monkeypatch, rule, 0.02)
    assert (result.stop, result.flags) == ("complete", ("contended",))
    assert result.n > 300
    assert sum(sample < 1.01e-4 for sample in rule.samples) < quiet.ENOUGH
    assert result.lost == 0.02
    assert result.core_gauge == pytest.approx(4.5e-5)  # what it read beside them is kept


def faulting_calls(monkeypatch, faults):
    """Have the n-th reading of the fault counter grow by what `faults(n)` says."""
    state = {"reading": 0, "total": 0}

    def count():
        state["reading"] += 1
        state["total"] += faults(state["reading"])
        return state["total"]

    monkeypatch.setattr(sampling, "page_faults", count)


def test_warm_up_until_memory_settles(monkeypatch):
    monkeypatch.setattr(sampling, "WARM_UP", 0.0)
    faulting_calls(monkeypatch, lambda reading: 2 if reading <= 20 else 0)
    timer = FakeTimer()
    sampling.warm_up(lambda: None, timer)
    assert timer.drawn == 10 + sampling.SETTLED  # two readings a batch


def test_warm_up_ends_without_settling(monkeypatch):
    monkeypatch.setattr(sampling, "WARM_UP_MOST", 0.02)
    faulting_calls(monkeypatch, lambda reading: 2)
    assert 0.02 <= sampling.warm_up(lambda: None, FakeTimer())[1] < 5


def test_page_faults_are_flagged(monkeypatch):
    faulting_calls(monkeypatch, lambda reading: 1000 if reading > 10**9 else 0)
    assert measure(lambda: None, FakeTimer(), CoefficientOfVariation()).flags == ()
    monkeypatch.setattr(sampling, "WARM_UP_MOST", 0.0)
    faulting_calls(monkeypatch, lambda reading: 10**6)
    assert measure(lambda: None, FakeTimer(), CoefficientOfVariation()).flags == ("faulting",)
