"""Small trends: a line of some 30 commits in a table's cell, as the path of an SVG. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from kernel_velocity import units

WIDTH, HEIGHT, EDGE = 120, 28, 3  # in the SVG's own units
POINTS = 32  # the newest commits that are drawn; more are no wider, and a page has thousands of these


@dataclass(frozen=True, kw_only=True)
class Sparkline:
    """A small trend in an SVG of WIDTH x HEIGHT; it starts from zero, newest at the right."""

    path: str  # "M3 14l114 -11"
    end: tuple[int, int]  # the newest point
    label: str  # what it shows, for those who do not see it


def sparkline(values: Sequence[float], unit: str, *, commits: int | None = None) -> Sparkline | None:
    """Return the small trend of rates in a unit, one a commit, oldest first; None for fewer than two.

    Args:
        commits: how many there are, where only the newest of them, POINTS at least, are in `values`; None: as many.
    """
    if len(values) < 2:
        return None
    shown = values[-POINTS:]
    points = _points(shown)
    first, last = (units.rate(value, unit) for value in (shown[0], shown[-1]))
    steps = [f"{x - left} {y - above}" for (left, above), (x, y) in pairwise(points)]
    many = _commits(len(shown), commits or len(values))
    return Sparkline(
        path=f"M{points[0][0]} {points[0][1]}l{' '.join(steps)}",
        end=points[-1],
        label=f"from {first} to {last} over {many}",
    )


def _points(values: Sequence[float]) -> list[tuple[int, int]]:
    """Return the coordinates: the highest value at the upper edge, zero at the lower one."""
    top = max(values)
    step = (WIDTH - 2 * EDGE) / (len(values) - 1)
    return [
        (round(EDGE + index * step), round(HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * value / top))
        for index, value in enumerate(values)
    ]


def _commits(shown: int, all_of_them: int) -> str:
    return f"{shown} commits" if shown == all_of_them else f"the last {shown} of {all_of_them:,} commits"
