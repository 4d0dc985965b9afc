"""One series of a suite, set up and called outside asv."""

from __future__ import annotations

from dataclasses import dataclass

from kernel_velocity.names import DEVICES
from kernel_velocity.suite.benchmark import _KernelBenchmark
from kernel_velocity.suite.suite import Suite


@dataclass(frozen=True)
class Series:
    """One implementation of a kernel on one case of a device, to be set up and called outside asv."""

    kernel: str
    device: str
    implementation: str
    case: str
    timed_by: type[_KernelBenchmark]  # the asv class

    @property
    def name(self) -> str:
        """Return the name as asv matches it: ``matmul.Cpu.time_hot('native', 'float32-256x256x256')``."""
        return f"{self.kernel}.{DEVICES[self.device]}.time_hot({self.implementation!r}, {self.case!r})"

    def set_up(self) -> _KernelBenchmark:
        """Return a fresh benchmark with inputs made and its output checked.

        Raises:
            NotImplementedError: n/a here.
            WrongResultError: the output is wrong. It is never timed.
        """
        bench: _KernelBenchmark = self.timed_by()
        bench.setup(self.implementation, self.case)
        return bench

    @property
    def bytes(self) -> int | None:
        """Return the least memory traffic of a call, bytes: the size of its working set, too."""
        return self.timed_by.bytes.get(self.case)


def of_suite(suite: Suite, kernel: str, device: str, implementation: str, case: str) -> Series:
    """Return one implementation of a kernel on a case."""
    return Series(kernel, device, implementation, case, suite.benchmark(kernel, device))
