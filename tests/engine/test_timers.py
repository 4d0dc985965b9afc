"""Timers: on the host, on a simulated device (launch gaps, ticks, a backlog, a cache, graphs)."""

import gc

import pytest

from kernel_velocity.engine import timers
from kernel_velocity.engine.sampling import measure
from kernel_velocity.engine.stopping import FixedTime
from kernel_velocity.engine.timers import (
    CudaEventTimer,
    CudaGraphTimer,
    HostTimer,
    StandingClockError,
    SyncTimer,
)
from tests.engine.simulated_cuda import device


@pytest.fixture
def ticking(monkeypatch):
    """A clock each of whose readings lies 5000 ns after the last."""
    clock = iter(range(0, 10**9, 5000))
    monkeypatch.setattr(timers, "perf_counter_ns", lambda: next(clock))
    return clock


def test_host_timer_divides_by_the_batch(ticking):
    calls, timer = [], HostTimer()
    assert timer.samples(lambda: calls.append(1), 10, 3) == pytest.approx([500e-9] * 3)
    assert len(calls) == 30
    assert (timer.batch_limit, timer.by_wall) == (1 << 20, False)


def test_host_timer_tick_and_overhead():
    assert 0 < HostTimer().tick() < 1e-4
    assert 0 < HostTimer().overhead() < 1e-4


def test_collector_is_off_while_timing():
    observed = []
    HostTimer().samples(lambda: observed.append(gc.isenabled()), 1, 1)
    assert observed == [False]
    assert gc.isenabled()


def test_clock_that_stands_still_is_named(monkeypatch):
    monkeypatch.setattr(timers, "perf_counter_ns", lambda: 7)
    with pytest.raises(StandingClockError, match="the clock stood still for 1000 readings"):
        HostTimer().tick()


def test_host_flush_is_not_timed(ticking):
    did = []
    timer = HostTimer(lambda: did.extend(["flush", next(ticking)]))
    assert timer.samples(lambda: did.append("call"), 1, 3) == pytest.approx([5e-6] * 3)
    assert [what for what in did if isinstance(what, str)] == ["flush", "call"] * 3
    assert (timer.batch_limit, timer.by_wall) == (1, True)


def test_cold_overhead_is_taken_cold():
    flushed = []
    HostTimer(lambda: flushed.append(1)).overhead()
    assert len(flushed) == 5  # each costs milliseconds


__all__ = ["device"]


def test_launch_gap_is_flagged_underfed(device):
    device.blocker = 0.0
    timer = CudaEventTimer(device)
    samples = timer.samples(lambda: device.work(3e-6), 4, 8)
    assert len(samples) == 8
    assert timer.batch_limit < CudaEventTimer.LAUNCHES
    assert min(samples) > 4e-6  # the gap is in it: that is why it must be flagged
    assert timer.flags == {"underfed"}


def test_cover_falls_to_what_launches_cost(device):
    device.launch = 1e-6
    timer = CudaEventTimer(device)
    timer.samples(lambda: device.work(3e-6), 8, 200)
    assert device.blocks[0] == pytest.approx(timer.COVER * 51 * 10)  # blocks of 51 samples, of 8 calls and 2 events
    assert device.blocks[1] == pytest.approx(2 * timer.COVER_LEAST / 2 * 51 * 10, rel=0.05)
    assert not timer.flags


def test_clock_is_read_at_the_end_of_each_block(device):
    timer = CudaEventTimer(device)
    timer.samples(lambda: device.work(3e-6), 8, 60)
    device.clock = 1.8e9
    timer.samples(lambda: device.work(3e-6), 8, 51)
    assert timer.clocks() == pytest.approx([2e9, 2e9, 1.8e9])
    timer.restart()
    assert timer.clocks() == []


def test_overtaken_block_is_repeated(device):
    device.launch = 50e-6  # a slow host: the cover of 20 us a launch is too short at first
    timer = CudaEventTimer(device)
    samples = timer.samples(lambda: device.work(3e-6), 1, 100)
    assert samples == pytest.approx([3e-6] * 100)
    assert not timer.flags
    count = len(device.blocks)
    timer.samples(lambda: device.work(3e-6), 1, 10)
    assert len(device.blocks) == count + 1  # what it learnt is kept


def test_calls_of_several_launches_fit_the_queue(device):
    device.depth = 1024

    def five_launches():
        for _ in range(5):
            device.work(1e-6)

    timer = CudaEventTimer(device)
    timer.samples(five_launches, timer.batch_limit, 1)  # overruns: the host waits, and the next are smaller
    timer.flags.clear()
    samples = timer.samples(five_launches, min(20, timer.batch_limit), 50)
    assert samples == pytest.approx([5e-6] * 50)
    assert not timer.flags


def test_events_tick_and_overhead(device):
    assert CudaEventTimer(device).overhead() == pytest.approx(2e-6)
    assert CudaEventTimer(device).tick() > 0
    device.event_tick = 0.5e-6
    device.launch = 0.7e-6  # empty pairs read 0 or a tick or two
    device.blocker = 0.0
    assert CudaEventTimer(device).tick() == pytest.approx(0.5e-6)


def test_coarse_ticks_need_a_batch(device, monkeypatch):
    device.event_tick, device.launch = 0.5e-6, 10e-6
    monkeypatch.setattr("kernel_velocity.engine.sampling.perf_counter", lambda: device.host)
    result = measure(lambda: device.kernel(3.3e-6), CudaEventTimer(device), FixedTime(t_max=0.05))
    assert 0.05 <= result.spent < 0.1  # by its samples alone it would take .05 s / 3.3 us x 10 us
    assert result.batch >= 30  # 200 ticks / 3.3 us
    assert result.estimate == pytest.approx(3.3e-6, rel=0.005)
    assert "quantised" not in result.flags


def test_hot_calls_stay_warm(device):
    device.cold = True
    timer = CudaEventTimer(device)
    samples = timer.samples(lambda: device.kernel(3e-6, missing=7e-6), 1, 50)
    assert samples == pytest.approx([10e-6] + [3e-6] * 49)
    assert (device.flushes, timer.flags) == (0, set())


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [
        (CudaEventTimer, 10e-6),
        (CudaGraphTimer, 3e-6),
        (SyncTimer, 15e-6),
    ],
)
def test_cold_samples_exclude_the_flush(device, kind, seconds):
    """A graph holds what its capture saw: of the simulated device, a warm call. The host's clock sees the launch."""
    timer = kind(device.synchronize if kind is SyncTimer else device, device.flush)
    samples = timer.samples(lambda: device.kernel(3e-6, missing=7e-6), 1, 300)
    assert samples == pytest.approx([seconds] * 300)
    assert (device.flushes, timer.batch_limit, timer.flags) == (300, 1, set())  # of a batch the first is cold


def test_graph_has_no_launch_gap(device):
    device.launch, device.blocker = 50e-6, 1.0
    timer = CudaGraphTimer(device)
    samples = timer.samples(lambda: device.work(3e-6), 100, 20)
    assert samples == pytest.approx([3e-6] * 20)
    assert not timer.flags
    assert device.most_queued < 100  # one launch a graph


def test_graph_is_captured_once_per_batch(device, monkeypatch):
    captured = []
    capture = device.capture
    monkeypatch.setattr(device, "capture", lambda call, batch: captured.append(batch) or capture(call, batch))
    timer = CudaGraphTimer(device)
    call = lambda: device.work(3e-6)  # noqa: E731 - the same object each time
    for batch in (1, 1, 4, 4):
        assert timer.samples(call, batch, 3) == pytest.approx([3e-6] * 3)
    assert captured == [1, 4]


def test_refused_capture_times_launches(device, capsys):
    device.refuses = "operation not permitted when stream is capturing"
    timer = CudaGraphTimer(device)
    assert timer.tick() > 0
    assert not timer.flags  # which needs no graph
    call = lambda: device.work(3e-6)  # noqa: E731
    for _ in range(2):
        timer.flags.clear()  # as after the warm-up
        assert timer.samples(call, 4, 10) == pytest.approx([3e-6] * 10)
        assert timer.flags == {"ungraphed"}
    assert capsys.readouterr().err.count("no CUDA graph, so launches are timed: operation not permitted") == 1


def test_sync_timer_includes_launch_and_wait(device):
    timer = SyncTimer(device.synchronize)
    assert timer.samples(lambda: device.work(3e-6), 1, 20) == pytest.approx([8e-6] * 20)
    assert timer.samples(lambda: device.work(3e-6), 5, 20) == pytest.approx([8e-6] * 20)
    device.work(1.0)  # a backlog is no part of a sample
    assert timer.samples(lambda: device.work(3e-6), 1, 1) == pytest.approx([8e-6])
