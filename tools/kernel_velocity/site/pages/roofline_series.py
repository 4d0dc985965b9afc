"""Every series of a device against its roofs: the newest value, and what places all its older ones in the plot.

For a series intensity, least time and bound are the same at every commit that was measured with as many threads; only
the measured time differs, so that the page places an older value by dividing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.roofline import model as roofline
from kernel_velocity.roofline.model import Roofline, Roofs
from kernel_velocity.roofline.roof_choice import Choice
from kernel_velocity.series.columns import Columns
from kernel_velocity.site import text as pages
from kernel_velocity.site.model import Site
from kernel_velocity.site.text import Place

COLD = "cold"  # the cache state in which nothing lies in a cache


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A series with its newest value."""

    key: SeriesKey
    kernel: str
    state: str
    commit: str  # full SHA of the newest value
    seconds: float  # the newest value, per call
    slowest: float  # of all its values
    fastest: float
    measured: int  # commits
    flop: float | None
    bytes_moved: float | None
    roofline: Roofline | None  # of the newest value; None: nothing can be said
    choice: Choice  # of that value's roofs

    @property
    def intensity(self) -> float | None:
        """FLOP/B; None where one of them is not known, or 0: such a series has no place on a logarithmic axis."""
        return self.flop / self.bytes_moved if self.flop and self.bytes_moved else None

    @property
    def least(self) -> float | None:
        """The s that a call takes at least under DRAM's slope and the peak; None where no roof is known."""
        return None if self.roofline is None else self.roofline.roof_ratio * self.seconds


def placed(found: Site, place: Place, device: str) -> Iterator[Placed]:
    """Yield every series of a device at a place that has a value; of several versions, the newest one's."""
    newest: dict[tuple[str, str, str], tuple[int, Placed]] = {}
    for key in found.keys_at(place):
        if pages.parts(key.benchmark)[1] != device:
            continue
        columns = found.series(key)
        measured = np.flatnonzero(columns.is_measured & np.isfinite(columns.seconds))
        asked = (key.benchmark, key.implementation, key.case)
        when = int(columns.place[measured[-1]]) if measured.size else -1
        if measured.size and (asked not in newest or newest[asked][0] <= when):
            choice = found.roof_choice(place, device, found.line[when])
            newest[asked] = when, _placed(columns, columns.seconds[measured], found.line[when], choice)
    for _, item in newest.values():
        yield item


def _placed(columns: Columns, seconds: FloatArray, commit: str, choice: Choice) -> Placed:
    """Return a series from its values in the order of the commits, the last of them of `commit`."""
    kernel, _, state = pages.parts(columns.key.benchmark)
    return Placed(
        key=columns.key,
        kernel=kernel,
        state=state,
        commit=commit,
        seconds=float(seconds[-1]),
        slowest=float(seconds.max()),
        fastest=float(seconds.min()),
        measured=int(seconds.size),
        flop=columns.flop,
        bytes_moved=columns.bytes_moved,
        roofline=None if choice.roofs is None else _against(columns, float(seconds[-1]), state, choice.roofs),
        choice=choice,
    )


def _against(columns: Columns, seconds: float, state: str, roofs: Roofs) -> Roofline | None:
    """Return a value against the roofs; results hold no footprint, so a hot call's is taken for what it moves."""
    return roofline.roofline(
        flops=columns.flop,
        bytes=columns.bytes_moved,
        seconds=seconds,
        roofs=roofs,
        dtype=columns.key.dtype,
        working_set=math.inf if state == COLD else None,
    )
