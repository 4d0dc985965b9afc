"""Which caches a device has, seen and not assumed: the pace at which working sets of growing size are read again.

A single operation of torch costs a microsecond, in which a core reads all of its first-level cache twice. So one call
reads the same set over and over: a sum over each row of a matrix whose rows are all the same memory. The pace falls
wherever the set outgrows a cache; between the falls it is level. `levels` finds those stretches, `sizes_seen` says
which cache each fall belongs to. Both are pure, and need no torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from kernel_velocity.harness.ceilings import BEYOND, Ceiling, NewTimer, ceiling_of
from kernel_velocity.harness.reported import cache_size, free_memory
from kernel_velocity.harness.workloads import reread

WHAT = "reread"
NAMES: Mapping[str, tuple[str, ...]] = {"cpu": ("L1", "L2", "L3"), "cuda": ("L2",)}  # innermost first
# Bytes. A quarter of a 32 KiB L1; a GPU's own L1s (256 KiB each) hold nothing of a row that all of them read.
SMALLEST = {"cpu": 1 << 13, "cuda": 1 << 21}
PER_CALL = {"cpu": 1 << 22, "cuda": 1 << 28}  # bytes that a call reads at least: 80 us and more, so that it costs <= 2%
UNKNOWN = 1 << 28  # bytes: the sweep's end where nobody says how large the last cache is
MEMORY_SHARE = 8  # at most one part in eight of the free memory
STRETCH = 3  # points of a level stretch, at two per doubling: fewer are the way down between two
FALL = 1.2  # times that the pace must fall from one level to the next: noise between points is a few percent
NEAR = 4.0  # times that a seen size may differ from the reported one (a share of it, or of a neighbour's)


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """A level stretch of the sweep: its working sets, bytes, first and last, and the pace there, B/s."""

    first: int
    last: int
    pace: float


def sweep_sizes(smallest: int, cache: int | None, memory: int | None) -> list[int]:
    """Return working sets, bytes: two per doubling from `smallest` to the first of at least BEYOND caches.

    As far as memory allows. Each is a multiple of 256 bytes.
    """
    wanted = BEYOND * cache if cache else UNKNOWN
    most = math.inf if memory is None else memory // MEMORY_SHARE
    sizes = [smallest]
    while sizes[-1] < wanted and (size := int(smallest * 2 ** (len(sizes) / 2)) // 256 * 256) <= most:
        sizes.append(size)
    return sizes


def measured(device: str, new_timer: NewTimer) -> Iterator[Ceiling]:
    """Yield the pace of every working set of the sweep, B/s."""
    sizes = sweep_sizes(SMALLEST[device], cache_size(device), free_memory(device))
    calls = reread(device, sizes[-1], PER_CALL[device])
    for size in sizes:
        yield ceiling_of(partial(calls, size), new_timer, what=WHAT, unit="B/s", bytes=size, dtype="float32")


def levels(points: Sequence[tuple[int, float]], most: int) -> list[Stretch]:
    """Return the level stretches of a sweep, innermost first: as many as the points tell apart, `most` at most.

    Args:
        points: (working set in bytes, B/s), by size. most: caches and memory together.

    The logarithms of the pace are cut into stretches so that they differ least from each stretch's median (the sum of
    absolute differences: one disturbed point moves no cut); of the numbers of stretches the largest whose every fall is
    at least FALL.
    """
    paces = [math.log2(pace) for _, pace in points]
    for count in range(min(most, len(points) // STRETCH), 1, -1):
        cuts = _cuts(paces, count)
        found = [_stretch(points[first:last]) for first, last in pairwise(cuts)]
        if all(inner.pace >= FALL * outer.pace for inner, outer in pairwise(found)):
            return found
    return [_stretch(points)] if points else []


def _stretch(points: Sequence[tuple[int, float]]) -> Stretch:
    return Stretch(first=points[0][0], last=points[-1][0], pace=sorted(pace for _, pace in points)[len(points) // 2])


def _cuts(values: Sequence[float], count: int) -> list[int]:
    """Return the edges of the best `count` stretches of at least STRETCH values (dynamic programming over the ends)."""
    ends = range(STRETCH, len(values) + 1)
    best = {end: (_misfit(values[:end]), [0, end]) for end in ends}
    for _ in range(count - 1):
        best = {
            end: min(
                (best[cut][0] + _misfit(values[cut:end]), [*best[cut][1], end]) for cut in best if cut <= end - STRETCH
            )
            for end in ends
            if any(cut <= end - STRETCH for cut in best)
        }
    return best[len(values)][1]


def _misfit(values: Sequence[float]) -> float:
    middle = sorted(values)[len(values) // 2]
    return sum(abs(value - middle) for value in values)


def falls(points: Sequence[tuple[int, float]], most: int) -> list[int]:
    """Return the working sets after which the pace falls, bytes: the last that is nearer to the pace before.

    Nearer in ratio: the pace is above the geometric mean of those on both sides. Where disturbed points are on the
    wrong side, the place counts that leaves the fewest of them there.
    """
    found = []
    for inner, outer in pairwise(levels(points, most)):
        middle = math.sqrt(inner.pace * outer.pace)
        joint = [(size, pace >= middle) for size, pace in points if inner.first <= size <= outer.last]
        wrong = [
            sum(not above for _, above in joint[:cut]) + sum(above for _, above in joint[cut:])
            for cut in range(1, len(joint))
        ]
        found.append(joint[wrong.index(min(wrong))][0])
    return found


def sizes_seen(points: Sequence[tuple[int, float]], device: str, reported: Mapping[str, int]) -> dict[str, int | None]:
    """Return the size of each of a device's caches as the sweep shows it, bytes; None for one that does not show.

    A fall belongs to the reported cache nearest in size, if it is within NEAR times of it; of two falls for one cache
    the nearer counts. Where nobody reports sizes, falls are taken in order if there is one for each cache; of fewer,
    only the last is known to be the last cache's.
    """
    names = NAMES[device]
    found: dict[str, int | None] = dict.fromkeys(names)
    seen = falls(points, len(names) + 1)
    known_names = [name for name in names if name in reported]
    if not known_names:
        pairs = zip(names, seen, strict=True) if len(seen) == len(names) else zip(names[-1:], seen[-1:], strict=False)
        return found | dict(pairs)
    for size in seen:
        name = min(known_names, key=lambda name: _apart(size, reported[name]))
        known = found[name]
        if _apart(size, reported[name]) <= math.log2(NEAR) and (
            known is None or _apart(size, reported[name]) < _apart(known, reported[name])
        ):
            found[name] = size
    return found


def _apart(one: float, other: float) -> float:
    """Return how many doublings lie between two sizes."""
    return abs(math.log2(one / other))
