"""The series of tier `core` on a device, outside asv: what the live stages set up and call themselves."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.harness.benchmark import _KernelBenchmark
from benchmarks.harness.cases import DEVICES, core, implementations_on


@dataclass(frozen=True)
class Series:
    """One implementation of a kernel on one of its core cases."""

    kernel: str
    device: str
    implementation: str
    case: str

    @property
    def name(self) -> str:
        """Return the name as asv matches it: ``matmul.Cpu.time_hot('native', 'float32-256x256x256')``."""
        return f"{self.kernel}.{DEVICES[self.device]}.time_hot({self.implementation!r}, {self.case!r})"

    def set_up(self) -> _KernelBenchmark:
        """Return a fresh benchmark with inputs made and its output checked.

        Raises:
            NotImplementedError: n/a here.
            WrongResultError: the output is wrong; it is never timed.
        """
        bench: _KernelBenchmark = self._owner()()
        bench.setup(self.implementation, self.case)
        return bench

    @property
    def has_cold(self) -> bool:
        """Return whether the suite times this case with cold caches, too."""
        return self.case in self._owner().cold_params[1]

    @property
    def bytes(self) -> int | None:
        """Return the least memory traffic of a call, bytes: the size of its working set, too."""
        return self._owner().bytes.get(self.case)

    def _owner(self) -> type[_KernelBenchmark]:
        owner: type[_KernelBenchmark] = vars(importlib.import_module(f"benchmarks.{self.kernel}"))[DEVICES[self.device]]
        return owner


def core_series(device: str, pattern: str | None = None) -> Iterator[Series]:
    """Yield every kernel x core case x implementation whose name contains the regular expression `pattern`.

    Implementations are those that can exist on the device.

    Raises:
        re.error: it is none.
    """
    wanted = re.compile(pattern or "")
    for kernel, cases in core(device).items():
        for case in cases:
            for implementation in implementations_on(device):
                series = Series(kernel, device, implementation, case)
                if wanted.search(series.name):
                    yield series
