"""TOPS of 8-bit integer products: torch._int_mm, int8 x int8 -> int32, of cubes of 1024, 2048 and 4096.

A product of n x n matrices is 2 n^3 operations, a multiplication and an addition each (as for FLOPs). The operator is
PyTorch's own entry to cuBLASLt's and oneDNN's int8 products; which devices have it differs by version, so that what it
says where it does not run becomes the reason.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernel_velocity import units
from kernel_velocity.harness.benchmark import prepare_torch
from kernel_velocity.harness.sampling import batch_for, warm_up
from kernel_velocity.harness.statistics import trimmed_mean
from kernel_velocity.harness.timers import Call, Timer
from kernel_velocity.harness.timing import plain
from kernel_velocity.harness.workloads import product
from kernel_velocity.results.measurement import Interval, round_interval
from kernel_velocity.tables import Table

SIZES = (1024, 2048, 4096)
ROUNDS = 8
ROUND = 0.05  # s of samples
FEWEST_ROUNDS = 3  # with fewer there is no interval
SLOW = 0.5  # s: a call that takes longer is timed FEWEST_ROUNDS times
LONGEST = 10.0  # s that one product may take; a longer one is n/a


@dataclass(frozen=True, kw_only=True)
class IntegerProduct:
    """One size. Where it is n/a, `why` says so and the rest is None.

    Attributes:
        size: rows and columns of both matrices.
        seconds: per product, the median of the rounds' trimmed means.
        interval: 95% over rounds of this process, s.
        why: empty where it was measured.
    """

    size: int
    seconds: float | None = None
    interval: Interval | None = None
    why: str = ""

    @property
    def rate(self) -> float | None:
        """Operations per second."""
        return None if self.seconds is None else operations(self.size) / self.seconds

    @property
    def rate_bounds(self) -> tuple[float, float] | None:
        """The interval in operations per second, lower rate first."""
        if self.interval is None:
            return None
        return operations(self.size) / self.interval.high, operations(self.size) / self.interval.low


def operations(size: int) -> int:
    """Return how many operations a product of two cubes' sides is: 2 n^3."""
    return 2 * size**3


def measure(
    device: str, sizes: Sequence[int] = SIZES, make: Callable[[str, str, int], Call] = product
) -> tuple[IntegerProduct, ...]:
    """Measure every size on "cpu" or "cuda", smallest first.

    Args:
        device: where.
        sizes: of the cubes, each at least 1.
        make: returns the call of a product, of device, dtype and size.

    Raises:
        ValueError: a size below 1.
    """
    if any(size < 1 for size in sizes):
        raise ValueError(f"sizes {tuple(sizes)}: each must be at least 1")
    try:
        prepare_torch(device)
    except NotImplementedError as error:
        return tuple(IntegerProduct(size=size, why=str(error)) for size in sizes)
    found: list[IntegerProduct] = []
    for size in sorted(sizes):
        found.append(_one(device, size, plain(device), make, found[-1] if found else None))
    return tuple(found)


def _one(
    device: str, size: int, timer: Timer, make: Callable[[str, str, int], Call], before: IntegerProduct | None
) -> IntegerProduct:
    if before is not None and before.seconds is not None:
        expected = before.seconds * operations(size) / operations(before.size)
        if expected > LONGEST:
            return IntegerProduct(size=size, why=f"would take {units.seconds(expected)} a product")
    try:
        estimates = rounds(make(device, "int8", size), timer)
    except (RuntimeError, AttributeError) as error:  # not on this device, no memory; not in this torch
        return IntegerProduct(size=size, why=(str(error).splitlines() or [repr(error)])[0])
    return IntegerProduct(size=size, seconds=statistics.median(estimates), interval=round_interval(estimates))


def rounds(call: Call, timer: Timer) -> list[float]:
    """Return the trimmed mean, s per call, of each of ROUNDS rounds; of FEWEST_ROUNDS where a call is slow."""
    per_call, _ = warm_up(call, timer)
    if per_call > SLOW:
        return [timer.samples(call, 1, 1)[0] for _ in range(FEWEST_ROUNDS)]
    batch = batch_for(per_call, tick=timer.tick(), overhead=timer.overhead(), limit=timer.batch_limit)
    count = max(1, round(ROUND / (per_call * batch)))
    return [trimmed_mean(timer.samples(call, batch, count)) for _ in range(ROUNDS)]


def table(found: Sequence[IntegerProduct]) -> Table:
    """Return the sizes as a table: TOPS (10^12 operations per second) with its interval, time, or why there is none."""
    rows = [[f"{each.size} x {each.size} x {each.size}", *_figures(each)] for each in found]
    note = "int8 x int8 -> int32, torch._int_mm; 2 n^3 operations a product"
    return Table("Integer products", note, ["shape", "rate", "95% over rounds", "time"], rows)


def _figures(each: IntegerProduct) -> list[str]:
    if each.rate is None or each.seconds is None:
        return ["n/a", each.why, "-"]
    bounds = each.rate_bounds
    between = "-" if bounds is None else f"{units.significant(bounds[0] / 1e12)} to {_tops(bounds[1])}"
    return [_tops(each.rate), between, units.seconds(each.seconds)]


def _tops(rate: float) -> str:
    return f"{units.significant(rate / 1e12)} TOPS"
