"""A simulated stream: host and device clocks, launch gaps, a queue of finite depth, a cache, graphs. Seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from kernel_velocity.engine import timers
from kernel_velocity.engine.timers import CaptureError


@dataclass
class Event:
    device: Device
    at: float  # device time at which it passes

    def query(self):
        return self.at <= self.device.host

    def elapsed_time(self, later):
        """Return milliseconds, as coarse as the device's events are."""
        seconds = later.at - self.at
        tick = self.device.event_tick
        return (round(seconds / tick) * tick if tick else seconds) * 1e3


@dataclass
class Device:
    """Work starts when it was enqueued and all before it is done."""

    launch: float = 5e-6  # host time per launch
    host: float = 0.0
    busy_until: float = 0.0
    blocks: list[float] = field(default_factory=list)
    blocker: float = 1.0  # share of the blocking time asked for that is delivered
    queued: int = 0
    most_queued: int = 0
    depth: int = 1 << 30  # launches that the queue holds; one more waits until the device is idle
    event_tick: float = 0.0
    clock: float = 2e9  # Hz
    cold: bool = False  # whether the cache holds nothing of use
    flushes: int = 0
    capturing: list[float] | None = None
    refuses: str = ""  # why it captures no graph

    def work(self, seconds):
        if self.capturing is not None:
            self.capturing.append(seconds)
            return
        if self.queued >= self.depth:
            self.synchronize()
        self.host += self.launch
        self.busy_until = max(self.busy_until, self.host) + seconds
        self.queued += 1
        self.most_queued = max(self.most_queued, self.queued)

    def kernel(self, seconds, missing=0.0):
        """Launch a kernel that takes `missing` longer where the cache is cold, and leaves it warm."""
        self.work(seconds + (missing if self.cold else 0.0))
        self.cold = False

    def flush(self):
        self.work(70e-6)
        self.cold = True
        self.flushes += 1

    def block(self, seconds):
        self.blocks.append(seconds)
        self.work(seconds * self.blocker)

    def spin(self, cycles):
        self.work(cycles / self.clock)

    def event(self):
        self.work(0.0)
        return Event(self, self.busy_until)

    def synchronize(self):
        self.host = max(self.host, self.busy_until)
        self.queued = 0

    def nothing(self):
        self.work(2e-6)

    def capture(self, call, batch):
        if self.refuses:
            raise CaptureError(self.refuses)
        self.capturing = launches = []
        for _ in range(batch):
            call()
        self.capturing = None
        return lambda: self.work(sum(launches))


@pytest.fixture
def device(monkeypatch):
    """A simulated device. The timers' host clock is its own."""
    made = Device()
    monkeypatch.setattr(timers, "perf_counter_ns", lambda: round(made.host * 1e9))
    return made
