"""What a kernel's accesses cost a GPU's memory: sectors of global memory, conflicts of banks of shared memory.

A warp's lanes make their accesses together, as one request: those of one site that each lane makes for the n-th time.
That is what they are on a GPU where no lane skips a site that others are at, so look at sizes at which none does.

Global memory is moved in sectors of 32 bytes. Shared memory has 32 banks of 4 bytes, each of which gives one word at a
time. Lanes that want the same word share it. Requests of 8 bytes are served in two parts of 16 lanes, of 16 bytes in
four of 8. (CUDA C++ Programming Guide, compute capabilities 5.x to 9.0, Nsight Compute, memory tables.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

WARP, BANKS, WORD, SECTOR = 32, 32, 4, 32
SHARED = -1  # the number of shared memory; arrays have those of their place among a call's arguments
ACCESS = np.dtype(  # engine/traffic.cpp has the same
    [
        ("site", np.uint64),
        ("address", np.uint64),
        ("block", np.uint32),
        ("thread", np.uint32),
        ("memory", np.int32),
        ("bytes", np.uint16),
        ("writes", np.uint16),
    ]
)


@dataclass(frozen=True)
class Traffic:
    """What requests to one memory cost, all together.

    Args:
        requests: of warps. bytes: the sizes of a lane's accesses.
        cost: sectors of global memory. Of shared memory times that a bank gives a word.
        least: what it were for the same bytes next to each other. Without conflicts.
    """

    requests: int
    bytes: tuple[int, ...]
    cost: int
    least: int

    @property
    def excess(self) -> int:
        """Sectors too many, or conflicts."""
        return self.cost - self.least


def traffic(accesses: np.ndarray, memory: int, *, writes: bool) -> Traffic:
    """Return what the reads, or the writes, of one memory cost."""
    chosen = accesses[(accesses["memory"] == memory) & (accesses["writes"] == writes) & (accesses["bytes"] > 0)]
    requests = _requests(chosen)
    cost, least = (_banks if memory == SHARED else _sectors)(chosen, requests)
    return Traffic(len(np.unique(requests)), tuple(map(int, np.unique(chosen["bytes"]))), cost, least)


def _requests(accesses: np.ndarray) -> np.ndarray:
    """Return the number of the request that each access is a part of."""
    lanes = _numbered(accesses["block"], accesses["thread"], accesses["site"], accesses["bytes"])
    order = np.argsort(lanes, kind="stable")
    begins = np.searchsorted(lanes[order], lanes[order])
    times = np.empty(len(lanes), np.int64)  # how often the lane has been there before
    times[order] = np.arange(len(lanes)) - begins
    return _numbered(accesses["block"], accesses["thread"] // WARP, accesses["site"], accesses["bytes"], times)


def _numbered(*columns: np.ndarray) -> np.ndarray:
    """Return a number for each row: the same for rows that are equal."""
    numbers = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, which = np.unique(column, return_inverse=True)
        numbers = np.unique(numbers * len(values) + which, return_inverse=True)[1]
    return numbers


def _sectors(accesses: np.ndarray, requests: np.ndarray) -> tuple[int, int]:
    """Return the sectors that requests touch, and how many their bytes would fill."""
    request, byte = _touched(accesses, requests, 1)
    _, bytes_of = np.unique(request, return_counts=True)
    return len(np.unique(_numbered(request, byte // SECTOR))), int(np.sum(-(-bytes_of // SECTOR)))


def _banks(accesses: np.ndarray, requests: np.ndarray) -> tuple[int, int]:
    """Return how often a bank must give a word, for all parts of requests, and how many parts there are."""
    lanes_at_once = WARP * WORD // np.maximum(accesses["bytes"], WORD)
    parts = _numbered(requests, accesses["thread"] % WARP // lanes_at_once)
    part, word = _touched(accesses, parts, WORD)
    words = np.zeros((parts.max(initial=-1) + 1, BANKS), np.int64)
    np.add.at(words, (part, word % BANKS), 1)
    return int(words.max(axis=1).sum()), len(words)


def _touched(accesses: np.ndarray, owners: np.ndarray, unit: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the different units (of so many bytes) of memory that each owner's accesses touch."""
    counts = -(-accesses["bytes"].astype(np.int64) // unit)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    units = np.repeat(accesses["address"].astype(np.int64) // unit, counts) + within
    first, span = (units.min(), np.ptp(units) + 1) if len(units) else (0, 1)
    both = np.unique(np.repeat(owners, counts) * span + units - first)
    return both // span, both % span + first
