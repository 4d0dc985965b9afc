"""Timers on a simulated device: launch gaps, ticks, a backlog, a cache, graphs."""

import itertools

import pytest

from kernel_velocity.harness.cuda_timers import CudaEventTimer, CudaGraphTimer
from kernel_velocity.harness.sampling import measure
from kernel_velocity.harness.stopping import FixedTime
from kernel_velocity.harness.timers import SyncTimer
from tests.harness.simulated_cuda import device

__all__ = ["device"]


def test_queued_ahead_a_short_kernel_reads_its_own_time(device):
    timer = CudaEventTimer(device)
    samples = timer.samples(lambda: device.work(3e-6), 4, 200)
    assert samples == pytest.approx([3e-6] * 200)
    assert not timer.flags


def test_without_the_blocker_the_launch_gap_shows_and_is_flagged(device):
    device.blocker = 0.0
    timer = CudaEventTimer(device)
    samples = timer.samples(lambda: device.work(3e-6), 4, 8)
    assert len(samples) == 8
    assert timer.batch_limit < CudaEventTimer.LAUNCHES
    assert min(samples) > 4e-6  # the gap is in it: that is why it must be flagged
    assert timer.flags == {"underfed"}


def test_an_overtaken_block_is_thrown_away_and_covered_for_longer(device):
    device.launch = 50e-6  # a slow host: the cover of 20 us a launch is too short at first
    timer = CudaEventTimer(device)
    samples = timer.samples(lambda: device.work(3e-6), 1, 100)
    assert samples == pytest.approx([3e-6] * 100)
    assert not timer.flags
    asked = len(device.blocks)
    timer.samples(lambda: device.work(3e-6), 1, 10)
    assert len(device.blocks) == asked + 1  # what it learnt is kept


def test_calls_of_several_launches_do_not_overrun_the_queue(device):
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


@pytest.mark.parametrize(("batch", "cold"), [(8, False), (1, True)])
def test_never_more_launches_than_the_queue_holds(device, batch, cold):
    timer = CudaEventTimer(device, device.flush if cold else None)
    timer.samples(lambda: device.work(1e-6), batch, 500)
    assert device.most_queued <= CudaEventTimer.LAUNCHES + 2


def test_overhead_is_an_empty_kernel_and_tick_is_that_of_the_events(device):
    assert CudaEventTimer(device).overhead() == pytest.approx(2e-6)
    assert CudaEventTimer(device).tick() > 0
    device.event_tick = 0.5e-6
    device.launch = 0.7e-6  # empty pairs read 0 or a tick or two
    device.blocker = 0.0
    assert CudaEventTimer(device).tick() == pytest.approx(0.5e-6)


def test_coarse_ticks_ask_for_a_batch(device, monkeypatch):
    device.event_tick = 0.5e-6
    looks = itertools.count()  # a host that nothing stops: else warming up may end with what one call read
    monkeypatch.setattr("kernel_velocity.harness.sampling.perf_counter", lambda: next(looks) * 50e-6)
    monkeypatch.setattr("kernel_velocity.harness.sampling.WARM_UP", 0.005)
    result = measure(lambda: device.kernel(3.3e-6), CudaEventTimer(device), FixedTime(t_max=0.005))
    assert result.batch >= 30  # 200 ticks / 3.3 us
    assert result.estimate == pytest.approx(3.3e-6, rel=0.005)
    assert "quantised" not in result.flags


def test_a_clock_that_shows_nothing_is_an_error(device, monkeypatch):
    device.event_tick = 0.1
    monkeypatch.setattr("kernel_velocity.harness.sampling.WARM_UP", 0.0)
    with pytest.raises(ValueError, match=r"the timer returned 0\.0"):
        measure(lambda: device.kernel(3.3e-6), CudaEventTimer(device), FixedTime(t_max=0.005))


def test_hot_calls_find_what_the_call_before_left(device):
    device.cold = True
    samples = CudaEventTimer(device).samples(lambda: device.kernel(3e-6, missing=7e-6), 1, 50)
    assert samples == pytest.approx([10e-6] + [3e-6] * 49)
    assert device.flushes == 0


def test_every_cold_sample_is_cold_and_none_has_the_flush_in_it(device):
    timer = CudaEventTimer(device, device.flush)
    samples = timer.samples(lambda: device.kernel(3e-6, missing=7e-6), 1, 300)
    assert samples == pytest.approx([10e-6] * 300)
    assert device.flushes == 300
    assert not timer.flags
    assert timer.batch_limit == 1  # of a batch only the first call would be cold


def test_a_cold_round_spends_its_budget_on_flushes_too(device, monkeypatch):
    monkeypatch.setattr("kernel_velocity.harness.sampling.WARM_UP", 0.0)
    monkeypatch.setattr("kernel_velocity.harness.sampling.perf_counter", lambda: device.host)
    timer = CudaEventTimer(device, device.flush)
    result = measure(lambda: device.kernel(3e-6, missing=7e-6), timer, FixedTime(t_max=0.05))
    assert result.batch == 1
    assert result.estimate == pytest.approx(10e-6)
    assert 0.05 <= result.spent < 0.12  # by its samples alone it would take .05 s / 10 us x 80 us


def test_a_graph_has_no_launch_gap_in_it(device):
    device.launch, device.blocker = 50e-6, 1.0
    timer = CudaGraphTimer(device)
    samples = timer.samples(lambda: device.work(3e-6), 100, 20)
    assert samples == pytest.approx([3e-6] * 20)
    assert not timer.flags
    assert device.most_queued < 100  # one launch a graph


def test_a_graph_is_captured_once_per_call_and_batch(device, monkeypatch):
    captured = []
    capture = device.capture
    monkeypatch.setattr(device, "capture", lambda call, batch: captured.append(batch) or capture(call, batch))
    timer = CudaGraphTimer(device)
    call = lambda: device.work(3e-6)  # noqa: E731 - the same object each time
    for batch in (1, 1, 4, 4):
        assert timer.samples(call, batch, 3) == pytest.approx([3e-6] * 3)
    assert captured == [1, 4]


def test_what_cannot_be_captured_is_timed_by_launches_and_said(device, capsys):
    device.refuses = "operation not permitted when stream is capturing"
    timer = CudaGraphTimer(device)
    call = lambda: device.work(3e-6)  # noqa: E731
    for _ in range(2):
        timer.flags.clear()  # as after the warm-up
        assert timer.samples(call, 4, 10) == pytest.approx([3e-6] * 10)
        assert timer.flags == {"ungraphed"}
    assert capsys.readouterr().err.count("no CUDA graph, so launches are timed: operation not permitted") == 1


def test_the_tick_of_a_graph_timer_needs_no_graph(device):
    device.refuses = "no"
    timer = CudaGraphTimer(device)
    assert timer.tick() > 0
    assert not timer.flags


def test_cold_graphs_are_flushed_before_each(device):
    timer = CudaGraphTimer(device, device.flush)
    timer.samples(lambda: device.work(3e-6), 1, 30)
    assert device.flushes == 30
    assert timer.batch_limit == 1


def test_a_synchronised_call_has_launch_and_wait_in_it(device):
    timer = SyncTimer(device.synchronize)
    assert timer.samples(lambda: device.work(3e-6), 1, 20) == pytest.approx([8e-6] * 20)
    assert timer.samples(lambda: device.work(3e-6), 5, 20) == pytest.approx([8e-6] * 20)
    device.work(1.0)  # a backlog is no part of a sample
    assert timer.samples(lambda: device.work(3e-6), 1, 1) == pytest.approx([8e-6])


def test_a_cold_synchronised_call_has_no_flush_in_it(device):
    timer = SyncTimer(device.synchronize, device.flush)
    assert timer.samples(lambda: device.kernel(3e-6, missing=7e-6), 1, 20) == pytest.approx([15e-6] * 20)
    assert (device.flushes, timer.batch_limit, timer.by_wall) == (20, 1, True)
