"""The machine itself: what it can do at most, as ordinary series, so that their history shows when it changed.

`device.Cpu.track_<figure>` and `device.Cuda.track_<figure>`; the figures and their units are those of
`harness/device_figures.py`. Everything is measured once per run of asv, in `setup_cache`; the methods only pick. What
cannot be measured is None, which asv stores as null; without the device they do not apply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from kernel_velocity.harness import cache_sweep, ceilings
from kernel_velocity.harness.device_figures import FORMAT, UNITS, figures, version

Document = dict[str, Any]  # {"figures": name -> value} or {"unavailable": why}
SETUP_TIMEOUT = 300.0  # s; the CPU's take 25 s on a quiet core


def measured(device: str) -> Document:
    """Measure the ceilings of "cpu" or "cuda"; return their figures by name, or why there are none.

    It returns the reason, and does not raise it: asv calls a class whose `setup_cache` raises failed, not n/a.
    """
    try:
        document = ceilings.measure(device, cache_sweep.measured)
    except NotImplementedError as error:
        return {"unavailable": str(error)}
    return {"figures": {figure.name: figure.value for figure in figures(document)}}


def _tracked(name: str, device: str | None = None) -> Callable[[Any, Document], float | None]:
    """Return the method that tracks one figure; with the version that it has on one device, else with the class's."""
    unit = next(units[name] for units in UNITS.values() if name in units)

    def track(self: Any, document: Document) -> float | None:
        value: float | None = document["figures"][name]
        return value

    track.__name__ = track.__qualname__ = f"track_{name}"
    track.__doc__ = f"Return {name.replace('_', ' ')}, {unit}; None where it cannot be measured."
    track.unit = unit  # type: ignore[attr-defined]  # asv stores it
    if device is not None:
        track.version = version(device, name)  # type: ignore[attr-defined]
    track.pretty_source = f"track_{name} = _tracked({name!r})"  # type: ignore[attr-defined]  # what asv's pages show
    return track


class _Device:
    """What both devices have in common."""

    version: ClassVar[str] = FORMAT
    timeout: ClassVar[float] = 60.0  # s; a method only starts, and picks its figure

    def setup(self, document: Document) -> None:
        """Raise NotImplementedError where the device is missing: n/a."""
        if "unavailable" in document:
            raise NotImplementedError(document["unavailable"])

    track_dram_copy_bandwidth = _tracked("dram_copy_bandwidth")
    track_dram_read_bandwidth = _tracked("dram_read_bandwidth")
    track_dram_triad_bandwidth = _tracked("dram_triad_bandwidth")
    track_l2_bandwidth = _tracked("l2_bandwidth")
    track_l2_size = _tracked("l2_size")
    track_peak_float64 = _tracked("peak_float64")
    track_peak_float32 = _tracked("peak_float32")
    track_peak_float16 = _tracked("peak_float16")
    track_peak_bfloat16 = _tracked("peak_bfloat16")
    track_launch_overhead = _tracked("launch_overhead")
    track_timer_tick = _tracked("timer_tick")
    track_threads = _tracked("threads")
    track_device_id = _tracked("device_id")


class Cpu(_Device):
    """The processor, with as many threads as KV_THREADS says."""

    def setup_cache(self) -> Document:
        """Measure; asv keeps this while the class's methods run, by the place of this function: one for each class."""
        return measured("cpu")

    setup_cache.timeout = SETUP_TIMEOUT  # type: ignore[attr-defined]

    track_dram_copy_bandwidth = _tracked("dram_copy_bandwidth", "cpu")
    track_dram_triad_bandwidth = _tracked("dram_triad_bandwidth", "cpu")
    track_peak_float64 = _tracked("peak_float64", "cpu")
    track_peak_float32 = _tracked("peak_float32", "cpu")
    track_peak_float16 = _tracked("peak_float16", "cpu")
    track_peak_bfloat16 = _tracked("peak_bfloat16", "cpu")
    track_l1_bandwidth = _tracked("l1_bandwidth")
    track_l3_bandwidth = _tracked("l3_bandwidth")
    track_l1_size = _tracked("l1_size")
    track_l3_size = _tracked("l3_size")


class Cuda(_Device):
    """The current CUDA device."""

    def setup_cache(self) -> Document:
        """Measure; see `Cpu.setup_cache`."""
        return measured("cuda")

    setup_cache.timeout = SETUP_TIMEOUT  # type: ignore[attr-defined]

    track_peak_tf32 = _tracked("peak_tf32")
    track_peak_int8 = _tracked("peak_int8")
