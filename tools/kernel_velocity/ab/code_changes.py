"""The figures of compiled kernels that differ between two builds, without running the code."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kernel_velocity.harness import cases, under_test

SPILLS = "spill_bytes"


@dataclass(frozen=True)
class CodeChange:
    """A figure of a kernel's code that differs between two builds."""

    kernel: str
    device: str  # "cpu" or "cuda", that the code is for
    target: str  # "avx512", "sm_90"
    figure: str  # of cases.FIGURES
    before: int
    after: int

    @property
    def spills_more(self) -> bool:
        """Whether more registers spill to memory: the one figure that is worse the higher it is."""
        return self.figure == SPILLS and self.after > self.before

    def __str__(self) -> str:
        """Return it in words: "matmul sm_90: 168 -> 128 registers of a thread"."""
        unit = "bytes spilled" if self.figure == SPILLS else cases.FIGURES[self.device][self.figure]
        return f"{self.kernel} {self.target}: {self.before:,} -> {self.after:,} {unit}"


def changes(before: Mapping[str, Any], after: Mapping[str, Any], kernels: Iterable[str]) -> tuple[CodeChange, ...]:
    """Return the figures of kernels that two builds (their build-info.json) both have, and that differ."""
    differing = []
    for kernel, (device, figures) in itertools.product(kernels, cases.FIGURES.items()):
        for target, figure in itertools.product(cases.TARGETS[device], figures):
            with suppress(NotImplementedError):  # a figure that one build lacks is no change
                old, new = (under_test.figure(info, kernel, figure, target) for info in (before, after))
                if old != new:
                    differing.append(CodeChange(kernel, device, target, figure, old, new))
    return tuple(differing)
