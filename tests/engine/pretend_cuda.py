"""A CUDA device that is the CPU, for the paths that a machine without one would never run.

Tensors stay on the CPU, events read the host's clock, and work is done when its call returns. What it cannot show is
that a real device does what PyTorch says of it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import SimpleNamespace

GB = 10**9
CLOCK = 2e9  # Hz, of the multiprocessors
PROPERTIES = SimpleNamespace(
    L2_cache_size=1 << 20, total_memory=GB, multi_processor_count=7, major=9, minor=0, uuid="0-1-2"
)


@dataclass(frozen=True)
class HostEvent:
    """An event that passes when it is recorded. `query` says that the device is busy, as behind a blocker."""

    at: float

    def query(self) -> bool:
        return False

    def elapsed_time(self, later: HostEvent) -> float:
        return (later.at - self.at) * 1e3


class HostEvents:
    """An event source for `CudaEventTimer` on the host's clock."""

    def __init__(self, _device: str) -> None:
        self.launches = 0
        self.last = self.spun = 0.0  # s

    def block(self, seconds: float) -> None:
        assert seconds > 0

    def spin(self, cycles: int) -> None:
        self.spun = cycles / CLOCK

    def event(self) -> HostEvent:
        """Return an event of now. After a spin one that is exactly so much later than the last."""
        at, self.spun = (self.last + self.spun, 0.0) if self.spun else (time.perf_counter(), 0.0)
        self.last = at
        return HostEvent(at)

    def synchronize(self) -> None:
        pass

    def nothing(self) -> None:
        self.launches += 1


def plant(monkeypatch, torch) -> list[int]:
    """Make "cuda" mean the CPU in `torch` and in our timers. Return a list that grows by one with each synchronise."""
    from kernel_velocity.engine import timing
    from kernel_velocity.machine import ceilings

    synchronised: list[int] = []
    move = torch.Tensor.to

    def to(self, where, *rest, **named):
        return move(self, "cpu" if where == "cuda" else where, *rest, **named)

    def on_the_cpu(make):
        return lambda *shape, device="cpu", **named: make(*shape, device="cpu" if device == "cuda" else device, **named)

    monkeypatch.setattr(torch.Tensor, "to", to)
    for name in ("empty", "zeros"):
        monkeypatch.setattr(torch, name, on_the_cpu(getattr(torch, name)))
    for module in (timing, ceilings):
        monkeypatch.setattr(module, "TorchEvents", HostEvents)
    answers = {
        "is_available": True,
        "current_device": 0,
        "get_device_name": "Pretend",
        "get_device_properties": PROPERTIES,
        "get_device_capability": (9, 0),
        "mem_get_info": (GB, GB),
    }
    for name, answer in answers.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: synchronised.append(1))
    return synchronised
