"""A GPU watched while a round is timed: its state when warm and after the last sample and, where asked, between.

KV_NVML_SAMPLE gives the seconds between samples; they are kept in a file of their own.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from time import time
from types import TracebackType
from typing import Any

from kernel_velocity.harness import nvml
from kernel_velocity.harness.nvml import GpuActivity, GpuState, NvmlError, Sampler

SETTING = "KV_NVML_SAMPLE"


def interval(environ: Mapping[str, str]) -> float | None:
    """Return the seconds between two samples that KV_NVML_SAMPLE asks for; None: none are asked for.

    Raises:
        ValueError: it is not a positive number.
    """
    text = environ.get(SETTING)
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise ValueError(f"{SETTING}: got {text!r}; wanted seconds between two samples, such as .05")
    return seconds


def uuid() -> str | None:
    """Return the UUID of the current CUDA device as NVML writes it; None where this torch does not say (before 2.5)."""
    import torch  # noqa: PLC0415 - discovery must work without torch

    properties: Any = torch.cuda.get_device_properties(torch.cuda.current_device())
    found = getattr(properties, "uuid", None)
    return None if found is None else f"GPU-{found}"


class GpuWatch:
    """A context around a round. Where the driver cannot be asked everything stays unknown: None, and no flags.

    Args:
        gpu: UUID of the GPU; None: there is none, and nothing to watch.
        every: s between samples, None: none. samples: the file to keep them in.
    """

    def __init__(self, gpu: str | None, every: float | None, samples: Path) -> None:
        self._gpu, self._every, self._samples = gpu, every, samples
        self._stack = ExitStack()
        self._opened: tuple[Any, Any] | None = None
        self._sampler: Sampler | None = None
        self._looks: list[tuple[float, GpuState]] = []

    def __enter__(self) -> GpuWatch:
        if self._gpu is None:
            return self
        try:
            self._opened = self._stack.enter_context(nvml.opened(self._gpu))
            if self._every is not None:
                self._sampler = Sampler(self._gpu, self._every, self._samples)
        except NvmlError as error:
            if self._every is not None:  # asked for, so that its absence must be said
                print(f"kernel-velocity: {SETTING}: nothing is sampled: {error}", file=sys.stderr)  # noqa: T201
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._stack:
            if self._sampler is not None:
                between = self._sampler.stop()
                began, ended = (self._looks[0][0], self._looks[-1][0]) if self._looks else (math.inf, -math.inf)
                self._looks += [(when, state) for when, state in between if began <= when <= ended]
                self._looks.sort(key=lambda look: look[0])

    def look(self) -> None:
        """Take the GPU's state now."""
        if self._opened is not None:
            self._looks.append((time(), nvml.read(*self._opened)))

    @property
    def activity(self) -> GpuActivity | None:
        """What the GPU did between the first look and the last; None where nothing was seen."""
        return nvml.activity(self._states) if self._looks else None

    @property
    def flags(self) -> tuple[str, ...]:
        """What speaks against the round."""
        return nvml.flags(self._states)

    @property
    def _states(self) -> list[GpuState]:
        return [state for _, state in self._looks]
