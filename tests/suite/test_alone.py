"""Calls by themselves: an honest kernel may lose by a pause what PyTorch's own calls lose there, others may not."""

from time import perf_counter, sleep

import pytest

from kernel_velocity.engine.timers import HostTimer
from kernel_velocity.suite import alone
from kernel_velocity.suite.alone import APART_TURNS, AloneCalls, ApartError, HonestCalls

torch = pytest.importorskip("torch", reason="the honest calls are PyTorch's")
ROW, NEAR = 15.4e-6, 19e-6  # s


class SteadyTimer(HostTimer):
    """A timer by which a call takes the s that its attributes say: one by itself, or several in a row."""

    alone, row = 20.2e-6, ROW

    def samples(self, call, batch, n):
        return [self.alone if batch == 1 else self.row] * n


def kernel():
    return None


class Timer(SteadyTimer):
    """A timer by which honest calls lose `loss` s by a pause, and `kernel` takes what `SteadyTimer` says."""

    loss = 0.0

    def samples(self, call, batch, n):
        if call is kernel:
            return super().samples(call, batch, n)
        return [ROW + self.loss * (batch == 1)] * n


@pytest.fixture
def planned(monkeypatch):
    """Have one honest call, whose size no planned time depends on."""
    monkeypatch.setattr(alone, "KINDS", ((lambda count, device: lambda: None, 0),))


def audits(timer, calls, count=APART_TURNS):
    """Return how many audits refuse the kernel."""
    refused = 0
    for _ in range(count):
        try:
            calls.check(kernel, [], timer, NEAR, 0)
        except ApartError:
            refused += 1
    return refused


@pytest.mark.parametrize(("loss", "refused"), [(0.0, APART_TURNS), (0.5e-6, APART_TURNS), (0.7e-6, 1), (5e-6, 1)])
def test_kernel_may_lose_by_a_pause_twice_what_honest_calls_lose(planned, loss, refused):
    timer = Timer()
    timer.loss = loss
    assert audits(timer, AloneCalls("cpu", ROW)) == refused


def test_a_longer_kernel_may_lose_the_same_share(planned):
    timer = Timer()
    timer.loss, timer.alone = 1e-6, 1000e-6
    assert audits(timer, AloneCalls("cpu", ROW)) == APART_TURNS
    assert audits(timer, AloneCalls("cpu", 1000 * ROW)) == 1


def test_fastest_call_of_all_audits_counts(planned):
    timer, calls = Timer(), AloneCalls("cpu", ROW)
    assert audits(timer, calls, 2) == 2
    timer.alone = NEAR
    assert audits(timer, calls, 1) == 0
    timer.alone = 9e-3
    assert audits(timer, calls, 1) == 0


def test_late_audits_make_twice_as_many_calls(planned):
    counts, timer, calls = [], Timer(), AloneCalls("cpu", ROW)

    class Counted(Timer):
        def samples(self, call, batch, n):
            counts[-1] += call is kernel
            return super().samples(call, batch, n)

    for _ in range(APART_TURNS):
        counts.append(0)
        audits(Counted(), calls, 1)
    blocks = [alone.FEWEST_BLOCKS] * 4 + [16]
    assert counts == [number * alone.SINGLES for number in blocks] and timer.loss == 0


def test_honest_calls_grow_with_the_kernel():
    rows = []
    for seconds in (1e-6, 5e-5):
        honest = HonestCalls(HostTimer(), seconds, "cpu", moved=int(seconds * 1e10))
        for pause in alone.PAUSES:
            assert honest.loss(pause) == 0.0
            honest.take(pause, lambda: None)
            assert honest.loss(pause) >= 0.0
        rows.append(honest._rows)
    assert all(short < long for short, long in zip(*rows, strict=True))


def test_kernel_that_skips_work_when_called_again_is_refused():
    last = [0.0]

    def skips():
        if perf_counter() - last[0] > 1e-5:
            sleep(1e-4)
        last[0] = perf_counter()

    calls = AloneCalls("cpu", 1e-6)
    for _ in range(2):
        with pytest.raises(ApartError, match="times as fast when called again at once: 1 us in a row"):
            calls.check(skips, [], HostTimer(), 3e-6, 0)
