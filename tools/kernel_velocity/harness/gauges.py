"""Gauges: fixed pieces of work whose time says how fast the core, or the memory, is just now.

What slows a kernel down from outside slows them down as well, and no commit is in their code. What a kernel leaves
behind in caches and memory queues can touch them, so readings are taken many times a round, and shrunk slopes used.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter

import numpy as np

from kernel_velocity.harness import kept_figure, reported

Gauge = Callable[[], float]  # returns the s that its work took

# Work that needs the core alone: exponentials of half the first-level cache of today's smallest, no memory beyond it.
ELEMENTS = 2048
PASSES, UNTIMED = 25, 3  # the first passes fetch from further out what a kernel displaced: 59 instead of 55 us
# Work that needs the memory: a copy of a slice, the next one each time, of buffers as large as the last-level cache.
SLICE = 512 << 10  # bytes
LARGEST = 64 << 20  # bytes of a buffer
# Work like the kernel's: a control implementation on the same inputs.
WARM, WARM_MOST = 10, 0.1  # untimed calls, until so many s are spent: fresh memory, and the libraries' own set-up
CONTROL_MOST = 0.03  # s of a call: at SHARE (gate.py) a round of .3 s then has three readings
CALIBRATION = 64  # readings, of which the fastest tenth is the reference
FRESH = 24 * 3600.0  # s that a kept reference is believed: a machine's clocks may be set otherwise


def cpu_gauge() -> Gauge:
    """Return the gauge of the core that this process runs on: float32 exponentials in the first-level cache, 25 us."""
    values = np.full(3 * ELEMENTS, 0.5, dtype=np.float32)  # one array: the distance of input and output never differs
    source, target = values[:ELEMENTS], values[-ELEMENTS:]

    def read() -> float:
        for _ in range(UNTIMED):
            np.exp(source, out=target)
        began = perf_counter()
        for _ in range(PASSES):
            np.exp(source, out=target)
        return perf_counter() - began

    return read


def memory_gauge(size: int, untimed: int = 0) -> Gauge:
    """Return the gauge of the memory: copies of slices of two buffers of `size` bytes each.

    Args:
        size: bytes.
        untimed: slices copied before the one that is timed: they push out what a kernel left to be written back.
    """
    size = max(min(size, LARGEST), 2 * SLICE) // SLICE * SLICE
    source, target = (np.full(size, 1, dtype=np.uint8) for _ in range(2))
    begin = 0

    def copy() -> None:
        nonlocal begin
        end = begin + SLICE
        np.copyto(target[begin:end], source[begin:end])
        begin = end % size

    def read() -> float:
        for _ in range(untimed):
            copy()
        began = perf_counter()
        copy()
        return perf_counter() - began

    return read


def control_gauge(control: Callable[[], object]) -> Gauge | None:
    """Return the gauge that a control implementation is, warm; None for one that is too slow to be read often.

    Each timed call follows an untimed one: what the kernel under test left in the caches, a commit can change. It does
    the kernel's own work, so what slows that kernel down, and no other gauge sees, is in it: on 2 shared cores the
    rounds of a matmul of 512 differed by 4.7 to 5.9% (robust s.d.), less what core and memory gauge tell by 2.9 to
    3.7%, less the control beside it by 1.3 to 1.9%.
    """

    def timed() -> float:
        began = perf_counter()
        control()
        return perf_counter() - began

    def read() -> float:
        control()
        return timed()

    calls = [timed()]
    while len(calls) < WARM and sum(calls) < WARM_MOST:
        calls.append(timed())
    return read if min(calls) <= CONTROL_MOST else None


def reference(gauge: Gauge, folder: Path) -> float:
    """Return what the gauge reads on a quiet core of this machine, s.

    The least of what rounds of the last day found, kept in `folder`: a round that begins in a busy second knows quiet
    all the same.
    """
    found = sorted(gauge() for _ in range(CALIBRATION))[CALIBRATION // 10]
    path = folder / f"{_machine()}.json"
    known = _read(path)
    if known is not None and known <= found:
        return known
    with suppress(OSError):  # a clone that cannot be written to: each round has its own reference
        kept_figure.keep(path, {"seconds": found})
    return found


def _machine() -> str:
    """Return the name under which a reference is kept: another numpy computes otherwise."""
    identity = f"{reported.name('cpu')}-{os.uname().nodename}-{np.__version__}-{ELEMENTS}-{PASSES}"
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def _read(path: Path) -> float | None:
    """Return the reference that is kept; None where there is none, no positive number, or one of another day."""
    try:
        age = time.time() - path.stat().st_mtime
    except OSError:
        return None
    found = kept_figure.read(path, "seconds")
    return found if found is not None and found > 0 and age <= FRESH else None
