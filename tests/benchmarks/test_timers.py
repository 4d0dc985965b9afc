"""Timers: the host's clock for real, CUDA events on a simulated device."""

from dataclasses import dataclass, field

import pytest

from benchmarks.harness import timers
from benchmarks.harness.timers import CudaEventTimer, HostTimer


def test_host_timer_divides_by_the_batch(monkeypatch):
    clock = iter(range(0, 10**9, 5000))  # each reading 5000 ns after the last
    monkeypatch.setattr(timers, "perf_counter_ns", lambda: next(clock))
    calls = []
    assert HostTimer().samples(lambda: calls.append(1), 10, 3) == pytest.approx([500e-9] * 3)
    assert len(calls) == 30


def test_host_timer_knows_its_own_limits():
    timer = HostTimer()
    assert 0 < timer.tick() < 1e-4
    assert 0 < timer.overhead() < 1e-5


def test_collector_is_off_only_while_timing():
    import gc

    seen = []
    HostTimer().samples(lambda: seen.append(gc.isenabled()), 1, 1)
    assert seen == [False]
    assert gc.isenabled()


@pytest.fixture(autouse=True)
def simulated_host(monkeypatch, request):
    """Where a test has a simulated device, the timer's host clock is that device's."""
    devices = []
    monkeypatch.setattr(Device, "__post_init__", devices.append, raising=False)
    real = timers.perf_counter_ns
    monkeypatch.setattr(timers, "perf_counter_ns", lambda: int(devices[-1].host * 1e9) if devices else real())


@dataclass
class Event:
    device: "Device"
    at: float  # device time at which it passes, s

    def query(self):
        return self.at <= self.device.host

    def elapsed_time(self, later):
        return (later.at - self.at) * 1e3


@dataclass
class Device:
    """A stream: work starts when it was enqueued and all before it is done. Host and device clocks in seconds."""

    launch: float = 5e-6  # host time per launch
    host: float = 0.0
    busy_until: float = 0.0
    blocks: list[float] = field(default_factory=list)
    blocker: float = 1.0  # share of the blocking time asked for that is delivered
    queued: int = 0
    most_queued: int = 0
    depth: int = 1 << 30  # launches that the queue holds; one more waits until the device is idle

    def work(self, seconds):
        if self.queued >= self.depth:
            self.synchronize()
        self.host += self.launch
        self.busy_until = max(self.busy_until, self.host) + seconds
        self.queued += 1
        self.most_queued = max(self.most_queued, self.queued)

    def block(self, seconds):
        self.blocks.append(seconds)
        self.work(seconds * self.blocker)

    def event(self):
        self.work(0.0)
        return Event(self, self.busy_until)

    def synchronize(self):
        self.host = max(self.host, self.busy_until)
        self.queued = 0

    def nothing(self):
        self.work(2e-6)


def test_queued_ahead_a_short_kernel_reads_its_own_time():
    device = Device()
    timer = CudaEventTimer(device)
    samples = timer.samples(lambda: device.work(3e-6), 4, 200)
    assert samples == pytest.approx([3e-6] * 200)
    assert not timer.flags


def test_without_the_blocker_the_launch_gap_shows_and_is_flagged():
    device = Device(blocker=0.0)
    timer = CudaEventTimer(device)
    samples = timer.samples(lambda: device.work(3e-6), 4, 8)
    assert len(samples) == 8
    assert timer.batch_limit < CudaEventTimer.LAUNCHES
    assert min(samples) > 4e-6  # the gap is in it: that is why it must be flagged
    assert timer.flags == {"underfed"}


def test_an_overtaken_block_is_thrown_away_and_covered_for_longer():
    device = Device(launch=50e-6)  # a slow host: the cover of 20 us a launch is too short at first
    timer = CudaEventTimer(device)
    samples = timer.samples(lambda: device.work(3e-6), 1, 100)
    assert samples == pytest.approx([3e-6] * 100)
    assert not timer.flags
    asked = len(device.blocks)
    timer.samples(lambda: device.work(3e-6), 1, 10)
    assert len(device.blocks) == asked + 1  # what it learnt is kept


def test_calls_of_several_launches_do_not_overrun_the_queue():
    device = Device(depth=1024)

    def five_launches():
        for _ in range(5):
            device.work(1e-6)

    timer = CudaEventTimer(device)
    timer.samples(five_launches, timer.batch_limit, 1)  # overruns: the host waits, and the next are smaller
    timer.flags.clear()
    samples = timer.samples(five_launches, min(20, timer.batch_limit), 50)
    assert samples == pytest.approx([5e-6] * 50)
    assert not timer.flags


def test_never_more_launches_than_the_queue_holds():
    device = Device()
    CudaEventTimer(device).samples(lambda: device.work(1e-6), 8, 500)
    assert device.most_queued <= 2 * CudaEventTimer.LAUNCHES


def test_overhead_is_an_empty_kernel_and_tick_is_positive():
    timer = CudaEventTimer(Device())
    assert timer.overhead() == pytest.approx(2e-6)
    assert timer.tick() > 0
