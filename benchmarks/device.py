"""The machine itself: what it can do at most, as ordinary series, so that their history shows when it changed.

`device.Cpu.track_<figure>`, `device.Cuda.track_<figure>`: names and units are of `machine/device_figures.py`. All are
measured once a run, in `setup_cache`, and picked by the methods. None, or null: it cannot be measured.
"""

from __future__ import annotations

from typing import Any, ClassVar

from kernel_velocity.machine import ceilings
from kernel_velocity.machine.device_figures import FIGURES_FORMAT, UNITS, figures, version
from kernel_velocity.suite.benchmark import tracked

Document = dict[str, Any]  # {"figures": name -> value} or {"unavailable": why}
LOOPS = "kernels._native"  # what PyTorch has not: streams around the caches, multiply-adds (`machine/workloads.py`)
SETUP_TIMEOUT = 300.0  # s; the CPU's take 25 s on a quiet core


def measured(device: str) -> Document:
    """Measure the ceilings of "cpu" or "cuda". Return their figures by name, or why there are none.

    It returns the reason, and does not raise it: asv calls a class whose `setup_cache` raises failed, not n/a.
    """
    try:
        document = ceilings.measure(device, caches=True, loops=LOOPS)
    except NotImplementedError as error:
        return {"unavailable": str(error)}
    return {"figures": {name: ceiling.value for name, ceiling in figures(document).items()}}


class _Device:
    """A device: one method for each figure."""

    device: ClassVar[str]
    version: ClassVar[str] = FIGURES_FORMAT
    timeout: ClassVar[float] = 60.0  # s; a method only starts, and picks its figure

    def __init_subclass__(cls) -> None:
        for name, unit in UNITS[cls.device].items():

            def value(_self: Any, document: Document, name: str = name) -> float | None:
                figure: float | None = document["figures"][name]
                return figure

            method = tracked(name, unit, value, f", {unit}; None where it cannot be measured")
            method.version = version(cls.device, name)
            setattr(cls, f"track_{name}", method)

    def setup(self, document: Document) -> None:
        """Raise NotImplementedError where the device is missing: n/a."""
        if "unavailable" in document:
            raise NotImplementedError(document["unavailable"])


class Cpu(_Device):
    """The processor, with as many threads as KV_THREADS says."""

    device = "cpu"

    def setup_cache(self) -> Document:
        """Measure. Asv keeps this while the class's methods run, by the place of this function: one for each class."""
        return measured("cpu")

    setup_cache.timeout = SETUP_TIMEOUT  # type: ignore[attr-defined]


class Cuda(_Device):
    """The current CUDA device."""

    device = "cuda"

    def setup_cache(self) -> Document:
        """Measure. See `Cpu.setup_cache`."""
        return measured("cuda")

    setup_cache.timeout = SETUP_TIMEOUT  # type: ignore[attr-defined]
