"""Quiet-core filter: a kernel's samples count only while a gauge, a fixed piece of work beside them, runs undisturbed.

Whoever shares a core's hardware (the sibling hyper-thread of another tenant, a lowered clock) slows a gauge down in the
same milliseconds as the kernel: on a shared machine by a third, for .1 to 4 ms at a time, a quarter of the time. So
samples are taken in short portions between two readings of the gauge, and a portion counts if both were quiet. The
gauge decides, never the kernel's own time: a kernel's own unsteadiness stays in its samples.

Some days have no quiet. The gate's patience is limited, the readings travel with the round (`Round.core_gauge`), and
samples taken after the patience ended are flagged. Where IN_VAIN rounds in a row waited for nothing, the next ones do
not wait, but for one in ASK_AGAIN: they take the samples that they would have taken at the end.

Two more gauges are read beside the samples and decide nothing: a copy through memory, and a control implementation on
the same inputs. No commit is in their code, so values are adjusted by them (`stats`). What a kernel leaves behind in
caches and memory queues can touch them, so readings are taken many times a round, and shrunk slopes used.

Note: on the same two shared cores, rounds without any quiet were 35% where a round waited on its core, 17% where it
moved to the other one, 6 to 10% with portions of .5 instead of 1 ms. Lower quantiles of what passed the gate scattered
half as much between rounds as the trimmed mean for what the caches hold, no less for what they do not. Rejected: a
kernel that became slow in half of its calls would look as fast as before.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np

from kernel_velocity.engine import reported
from kernel_velocity.engine.reported import page_faults
from kernel_velocity.engine.statistics import trimmed_mean
from kernel_velocity.engine.timers import Call, Timer

Gauge = Callable[[], float]  # returns the s that its work took

PORTION = 5e-4  # s of samples between two readings of 28 us each: quiet lasts .2 to 4 ms
# Times the reference: a quiet core reads up to 8% above it (its clock varies), a shared one a third.
# Note: 1.05 found no quiet in most rounds, once a core with a higher clock had set the reference.
QUIET = 1.1
# s of samples between two readings of the memory's gauge, which takes .1 ms. Note: at 5 ms the adjusted rounds of the
# three native cases that memory bounds scattered by 3.2 to 5.3%, with one beside every portion by 1.6 to 2.7%, but
# minutes later, in sessions of their own; with 1 ms, in 12 sessions after that, by 2.0 to 2.7%.
EVERY = 1e-3
# s of a round, at most: 144 rounds of tier `core` then wait 36 s. Note: with .35 a commit took 152 s on a busy evening,
# beyond the tier's 150.
PATIENCE = 0.25
# Rounds that waited in vain, one after the other, after which others do not wait. Note: of 4,800 rounds of 50 sessions
# on shared cores 7% waited in vain, at most 5 in a row; of 432 beside nine busy processes 39%, at most 7. By series,
# with 4 rounds in a row, half of the rounds that did not wait would have had quiet.
IN_VAIN, ASK_AGAIN = 16, 8
SHARE = 0.3  # s of the control's timed calls per s of samples
ENOUGH = 24  # quiet samples that are better than more of any kind; as many as `adaptive` wants at least

# The core's gauge: exponentials of half the first-level cache of today's smallest, no memory beyond it.
ELEMENTS = 2048
PASSES, UNTIMED = 25, 3  # the first passes fetch from further out what a kernel displaced: 59 instead of 55 us
# The memory's: a copy of a slice, the next one each time, of buffers as large as the last-level cache.
SLICE = 512 << 10  # bytes
LARGEST = 64 << 20  # bytes of a buffer
# The control's.
WARM, WARM_MOST = 10, 0.1  # untimed calls, until so many s are spent: fresh memory, and the libraries' own set-up
CONTROL_MOST = 0.03  # s of a call: at SHARE a round of .3 s then has three readings
CALIBRATION = 64  # readings of the core's gauge, of which the fastest tenth is the reference
FRESH = 24 * 3600.0  # s that a reference in a file is believed: a machine's clocks may be set otherwise


class GateError(ValueError):
    """A patience that is no time."""


def patience(environ: Mapping[str, str]) -> float:
    """Return the patience that KV_PATIENCE sets, s. 0 takes every sample as it comes.

    Raises:
        GateError: no number of seconds.
    """
    text = environ.get("KV_PATIENCE") or str(PATIENCE)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise GateError(f"KV_PATIENCE: got {text!r}; wanted seconds, 0 or more")
    return value


# Gauges ---------------------------------------------------------------------------------------------------------------


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
    """Return the gauge that a control implementation is, warm. None for one that is too slow to be read often.

    Each timed call follows an untimed one, as a commit can change what the kernel under test left in the caches. It
    does the kernel's own work, so it sees what slows that kernel down and no other gauge: on 2 shared cores the
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
    """Return what the core's gauge reads on a quiet core of this machine, s.

    It is the least of what rounds of the last day read, kept in `folder`: a round that begins in a busy second knows
    quiet all the same.
    """
    now = sorted(gauge() for _ in range(CALIBRATION))[CALIBRATION // 10]
    path = folder / f"{reported.machine_id('cpu', np.__version__, str(ELEMENTS), str(PASSES))}.json"
    with suppress(OSError):  # there is none yet
        before = reported.read_figure(path, "seconds")
        if before is not None and 0 < before <= now and time.time() - path.stat().st_mtime <= FRESH:
            return before
    with suppress(OSError):  # a clone that cannot be written to: each round has its own reference
        reported.write_figure(path, {"seconds": now})
    return now


def rounds_in_vain(folder: Path) -> int:
    """Return how many rounds in a row, of the last day, waited in vain or did not wait any more."""
    path = _in_vain(folder)
    with suppress(OSError):  # there is none
        if time.time() - path.stat().st_mtime <= FRESH:
            return int(reported.read_figure(path, "rounds") or 0)
    return 0


def _in_vain(folder: Path) -> Path:
    return folder / f"in-vain-{reported.machine_id('cpu')}.json"


# Quiet ----------------------------------------------------------------------------------------------------------------


class Cores:
    """Cores of equal distance to a thread's memory, on one of which it is held until `release`.

    Args:
        numbers: at least one, as the operating system counts them.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self._before = os.sched_getaffinity(0)
        self._numbers = numbers
        self._index = -1
        self.move()

    @property
    def here(self) -> int:
        """Return the number of the core that the thread is held on."""
        return self._numbers[self._index]

    def move(self) -> None:
        """Go on to the next core."""
        self._index = (self._index + 1) % len(self._numbers)
        with suppress(OSError):  # whoever runs this process has taken the core away: it stays where it is
            os.sched_setaffinity(0, {self.here})

    def release(self) -> None:
        """Let the thread run where it might before."""
        with suppress(OSError):
            os.sched_setaffinity(0, self._before)


class Gate:
    """Takes samples while the gauge is quiet, on whichever core it is.

    Args:
        gauge: read before and after every portion.
        reference: what the gauge reads on a quiet core, s.
        patience: s that a round may look for quiet, and lose on portions that were not.
        cores: those that the thread may move to. Without them it waits where it is.
        memory: gauge of the memory, read now and then. It decides nothing.
        control: gauge of a control implementation, called in between. Nor does it.
        gives_up: whether there is no patience because rounds before waited in vain.
    """

    def __init__(
        self,
        gauge: Gauge,
        reference: float,
        patience: float = PATIENCE,
        cores: Cores | None = None,
        *,
        memory: Gauge | None = None,
        control: Gauge | None = None,
        gives_up: bool = False,
    ) -> None:
        self.gives_up = gives_up
        self._quiet_samples = 0
        self._gauge, self._memory, self._control = gauge, memory, control
        self._memory_due = self._control_due = 0.0  # s of samples until these gauges are read
        self._limit = QUIET * reference
        self._patience = patience
        self._cores = cores
        self._before: float | None = None  # the reading that ended the portion before, on the same core
        self.readings: list[float] = []  # mean of the two around each portion that counted, s
        self.memory_readings: list[float] = []  # s
        self.control_readings: list[float] = []  # s
        self._disturbed: list[float] = []  # s: the control's that do not count
        self.lost = 0.0  # s
        self.faults = 0  # page faults while the samples that counted were taken

    @property
    def is_open(self) -> bool:
        """Return whether the patience is spent: every sample counts."""
        return self.lost >= self._patience

    @property
    def waited_in_vain(self) -> bool:
        """Return whether the patience was spent before there were enough quiet samples."""
        return self.is_open and self._quiet_samples < ENOUGH

    def take(self, timer: Timer, call: Call, batch: int, n: int, per_batch: float) -> tuple[list[float], float]:
        """Return samples that count, and the s that taking them took.

        Args:
            timer: takes the samples.
            call: what is timed.
            batch: calls per sample.
            n: samples wanted. Fewer are returned when the patience ends.
            per_batch: s that a sample takes, about.
        """
        portion = 1 if timer.by_wall else max(1, int(PORTION / per_batch))  # with its flush, one takes 10 ms
        quiet: list[float] = []
        spent = 0.0
        was_open = self.is_open
        is_long = per_batch > self._patience  # one that does not count would be the last
        while len(quiet) < n:
            size = min(portion, n - len(quiet))
            before = self._quiet(partial(timer.samples, call, batch, size))
            if self.is_open != was_open:
                break
            faults, began = page_faults(), perf_counter()
            samples = timer.samples(call, batch, size)
            lasted, faults = perf_counter() - began, page_faults() - faults
            self._before = self._gauge()
            if was_open or is_long or self._before <= self._limit:
                quiet += samples
                spent += lasted
                self.faults += faults
                self.readings.append((before + self._before) / 2)
                self._read_memory(lasted)
                self._read_control(lasted, partial(timer.samples, call, batch, 1))
            else:
                self.lost += lasted
        self._quiet_samples += 0 if was_open else len(quiet)
        return quiet, spent

    def _read_memory(self, lasted: float) -> None:
        self._memory_due -= lasted
        if self._memory is not None and self._memory_due <= 0:
            self.memory_readings.append(self._memory())
            self._memory_due = EVERY

    def _read_control(self, lasted: float, settle: Call) -> None:
        """Call the control when it is its turn. Its time counts if the core was quiet to the end of it.

        `settle` then fetches what the control displaced.
        """
        self._control_due -= lasted
        if self._control is not None and self._control_due <= 0:
            reading = self._control()
            self._control_due = reading / SHARE
            is_quiet = self.is_open or self._gauge() <= self._limit
            (self.control_readings if is_quiet else self._disturbed).append(reading)
            settle()
            self._before = None

    def _quiet(self, settle: Call) -> float:
        """Look for quiet until the patience is spent. Return the gauge's reading.

        On another core than before, `settle` fills its caches first.
        """
        reading = self._gauge() if self._before is None else self._before
        if reading <= self._limit or self.is_open:
            return reading
        began = perf_counter()
        here = self._cores.here if self._cores else None
        while reading > self._limit and self.lost + perf_counter() - began < self._patience:
            if self._cores:
                self._cores.move()
            reading = self._gauge()
            if reading <= self._limit and self._cores and self._cores.here != here:
                here = self._cores.here
                settle()
                reading = self._gauge()
        self.lost = self._patience if reading > self._limit else self.lost + perf_counter() - began
        self._before = reading  # if the patience ended, the first portion after it opens with this one
        return reading

    def gauges(self) -> tuple[float | None, float | None, float | None]:
        """Return what the gauges of core, memory and control read, s: trimmed means, None for one that was not read.

        The core's are the readings around samples that counted. The control's are the disturbed ones if there are no
        others: a round that had no quiet one would else be left out of what is adjusted.
        """
        core, memory, control = (
            trimmed_mean(np.asarray(readings)) if readings else None
            for readings in (self.readings, self.memory_readings, self.control_readings or self._disturbed)
        )
        return core, memory, control


@contextmanager
def on_cpu(
    working_set: float, folder: Path, environ: Mapping[str, str], control: Call | None = None
) -> Iterator[Gate | None]:
    """Yield the gate of a round on the CPU, whose thread is held on one core until the end. None for several threads.

    A gauge sees one core, and the kernel's own workers, which spin for a while after it, would slow it down.

    The memory's gauge would displace a working set that the core's own caches hold. For larger ones it is read. The
    control is called beside working sets that the last-level cache holds. Beyond it the memory's gauge tells as much
    (add_mul_exp 10M: rounds less the first differ by 2.9, less both by 1.9 to 2.7%), and a control takes long.

    Args:
        working_set: bytes that a call touches. Infinity where its caches are cold anyway.
        folder: where the gauge's reference is kept.
        environ: KV_PATIENCE, KV_THREADS.
        control: a call of a control implementation on the same inputs, where there is one to compare with.

    Raises:
        GateError: KV_PATIENCE is no number of seconds.
    """
    gauge, most = cpu_gauge(), patience(environ)
    before = rounds_in_vain(folder)
    gives_up = before >= IN_VAIN and (before - IN_VAIN) % ASK_AGAIN != 0 and most > 0
    if reported.threads(environ) != 1:
        yield None
        return
    numbers = reported.neighbours() if most > 0 else []
    cores = Cores(numbers) if numbers else None
    try:
        private, last = reported.private_cache(), reported.last_level_cache()
        memory = witness = None
        if private is not None and last is not None and working_set > private:
            memory = memory_gauge(last, untimed=int(working_set > last))
        if control is not None and working_set <= (last or 0):
            witness = control_gauge(control)
        waits = 0.0 if gives_up else most
        gate = Gate(gauge, reference(gauge, folder), waits, cores, memory=memory, control=witness, gives_up=gives_up)
        yield gate
        if most > 0 and (now := before + 1 if gate.waited_in_vain else 0) != before:
            with suppress(OSError):  # as with the reference
                reported.write_figure(_in_vain(folder), {"rounds": now})
    finally:
        if cores:
            cores.release()
