"""What a kernel's times can be shown as, and how a time becomes it. Pure.

The page's script converts: `amount / time`, `time x amount`, or one series' time over another's. All that is known
of the kernel or of the machine's roofs is in the amounts, which are made here by what the other pages and tables use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernel_velocity.harness.cases import dtype_of
from kernel_velocity.results.measurement import Measurement, Outcome, SeriesKey
from kernel_velocity.roofline.model import MEMORY, Roofs, dram_bandwidth, roofline
from kernel_velocity.roofline.roof_choice import Choice

GFLOPS, GIGABYTES, TIME = "GFLOPS", "GB/s", "µs"
SPEED_UP, EFFICIENCY, BENEFIT, COLD_HOT, ERROR = "speed-up", "efficiency", "cache benefit", "cold / hot", "error"
# What a page offers, in this order, with the words of its axis.
AXES = {
    GFLOPS: "GFLOPS",
    GIGABYTES: "GB/s",
    TIME: "time of a call, µs",
    SPEED_UP: "times as fast as eager",
    EFFICIENCY: "efficiency, % of the roof",
    BENEFIT: "cache benefit, times as fast as memory alone",
    COLD_HOT: "time with cold caches / with hot ones",
    ERROR: "largest error, absolute or relative (the smaller)",
}
BASELINE = "eager"  # what a speed-up is over


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """How a time, s per call, becomes a value; one of the first five is set, unknown is None."""

    per: float | None = None  # value = per / time
    times: float | None = None  # value = times x time
    over: str | None = None  # value = time of that series / time
    under: str | None = None  # value = time / time of that series
    own: str | None = None  # the values themselves, a data file
    least: float | None = None  # bounds of the value
    most: float | None = None
    unit: str | None = None  # of the value; None: the quantity's own
    apart: tuple[str, ...] | None = None  # full SHA of the commits that it tells nothing of; None: of all it does

    def as_data(self) -> dict[str, Any]:
        """Return what is set of it, for JSON."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Roof:
    """The least time of a call under the machine's ceilings, and which of them binds."""

    seconds: float
    text: str  # "DRAM, 12.3 GB/s" or "peak float32"


def of_work(flop: float | None, bytes_moved: float | None, choice: Choice, case: str) -> dict[str, Conversion]:
    """Return what the times of a series can be shown as by its work alone, by quantity.

    Args:
        flop: of a call. bytes_moved: of a call, B. choice: of the device. case: the test case, which names the dtype.
    """
    roofs, apart = choice.roofs, tuple(sorted(choice.apart)) or None
    one = _of_a_second(flop, bytes_moved, case)
    found = {GFLOPS: Conversion(per=one.gflops, unit=one.key.rate_unit), GIGABYTES: Conversion(per=one.gigabytes)}
    least = roof(flop, bytes_moved, roofs, case)
    dram = None if roofs is None else dram_bandwidth(roofs)
    if least is not None:
        found[EFFICIENCY] = Conversion(per=100 * least.seconds, most=100, apart=apart)
    if dram is not None and bytes_moved is not None:
        found[BENEFIT] = Conversion(per=bytes_moved / dram, least=1, apart=apart)
    known = {name: item for name, item in found.items() if item.per is not None}
    return known | {TIME: Conversion(times=1e6)}


def _of_a_second(flop: float | None, bytes_moved: float | None, case: str) -> Measurement:
    """Return a call that takes a second: its rates are what a time, s, divides."""
    nowhere = SeriesKey(machine="", environment="", benchmark="", implementation="", case=case, version="")
    return Measurement(
        key=nowhere, commit="", outcome=Outcome.MEASURED, seconds=1.0, flop=flop, bytes_moved=bytes_moved
    )


def roof(flop: float | None, bytes_moved: float | None, roofs: Roofs | None, case: str) -> Roof | None:
    """Return the roof over a test case; None where nothing can be said (`roofline.roofline`)."""
    if roofs is None:
        return None
    dtype = dtype_of(case)
    found = roofline(flops=flop, bytes=bytes_moved, seconds=1.0, roofs=roofs, dtype=dtype)
    if found is None:
        return None
    text = f"peak {dtype}" if found.bound == "compute" else MEMORY
    return Roof(seconds=found.roof_ratio, text=text)


def ratios(own: SeriesKey, names: Mapping[SeriesKey, str], benchmarks: Mapping[str, str]) -> dict[str, Conversion]:
    """Return the ratios to other series of the same machine, environment and test case, by quantity.

    Args:
        own: the series. names: of the data files of all series.
        benchmarks: cache state -> the benchmark of the same kernel and device.
    """
    found = {}
    beside = {
        (key.benchmark, key.implementation): name
        for key, name in names.items()
        if (key.machine, key.environment, key.case) == (own.machine, own.environment, own.case)
    }
    eager = beside.get((own.benchmark, BASELINE))
    if eager is not None and len({name for benchmark, name in beside if benchmark == own.benchmark}) > 1:
        found[SPEED_UP] = Conversion(over=eager)
    cold, hot = (beside.get((benchmarks.get(state, ""), own.implementation)) for state in ("cold", "hot"))
    if cold is not None and hot is not None:
        is_hot = own.benchmark == benchmarks["hot"]
        found[COLD_HOT] = Conversion(over=cold) if is_hot else Conversion(under=hot)
    return found
