"""What two builds' compilers made of the same kernels: the figures of the code that differ, without running it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kernel_velocity.harness import build_figures, cases

SPILLS = "spill_bytes"


@dataclass(frozen=True, kw_only=True)
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
        """Whether more is stored and loaded for want of registers: the one figure that is worse the higher it is."""
        return self.figure == SPILLS and self.after > self.before

    def __str__(self) -> str:
        """Return it in words: "matmul sm_90: 168 -> 128 registers of a thread"."""
        unit = "bytes spilled" if self.figure == SPILLS else cases.FIGURES[self.device][self.figure]
        return f"{self.kernel} {self.target}: {self.before:,} -> {self.after:,} {unit}"


def changes(before: Mapping[str, Any], after: Mapping[str, Any], kernels: Iterable[str]) -> tuple[CodeChange, ...]:
    """Return the figures of kernels that two builds (their build-info.json) both have, and that differ."""
    found = []
    for kernel in kernels:
        for device, figures in cases.FIGURES.items():
            for target in cases.TARGETS[device]:
                for figure in figures:
                    with suppress(NotImplementedError):  # what one of them lacks is no change of it
                        one, other = (build_figures.figure(info, kernel, figure, target) for info in (before, after))
                        if one != other:
                            change = CodeChange(
                                kernel=kernel, device=device, target=target, figure=figure, before=one, after=other
                            )
                            found.append(change)
    return tuple(found)
