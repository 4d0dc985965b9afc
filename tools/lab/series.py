"""One series of a suite, set up and called outside asv."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kernel_velocity.errors import UsageError
from kernel_velocity.names import DEVICES
from kernel_velocity.suite import config
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


def core_series(device: str, bench: str | None) -> list[Series]:
    """Return every kernel x core case x implementation of a device, whose name contains the expression `bench`.

    Implementations are those that can exist on the device.

    Raises:
        UsageError: no series matches, or `bench` is no regular expression.
    """
    suite = config.suite(Path())
    every = [
        of_suite(suite, str(problem.kernel), device, implementation, case)
        for problem in suite.problems(device)
        for case in problem.core[device]
        for implementation in problem.implementations_on(device)
    ]
    try:
        chosen = [series for series in every if re.search(bench or "", series.name)]
    except re.error as error:
        raise UsageError(f"--bench {bench!r}: not a regular expression ({error})") from None
    if not chosen:
        raise UsageError(f"--bench {bench!r} matches no core series on {device}")
    return chosen
