"""Read an NVIDIA GPU through its driver: its description, its state now, and its states while a round is timed.

NVML is opened in the process that measures, never in the server that forks it: a handle does not survive a fork. GPUs
are found by UUID, as NVML counts them otherwise than CUDA does. A figure that a device does not tell is None. Base
units: Hz, W, degrees Celsius. This module imports none of ours: run as a program, it locks a GPU's clocks until its
input ends (runner/checks.py).
"""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from functools import partial, reduce
from operator import or_
from types import TracebackType
from typing import Any

CLOCKS = "KV_LOCK_CLOCKS"
BASE = "base"  # of CLOCKS: the clock that NVML calls that of the TDP, which no load should bring down
LOCKED = "locked"  # what the program says when it holds the lock
# Bits of nvml.h, nvmlClocksEventReasons (ThrottleReasons of old): what slows a busy GPU down against its settings. The
# last two have a name of the old kind alone. A driver newer than these names may set others: they count, too.
THROTTLING: Mapping[int, str] = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",  # another GPU of its group has low clocks
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x200: "board limit",
    0x400: "reliability",
}
SETTING_HOLDS = 0x2  # of the same bits: the clocks are those of a user's setting, a lock or application clocks
HARMLESS = 0x1 | SETTING_HOLDS | 0x100  # no work, or a setting, of the display's clocks too, that holds in every round
CLOCK_DRIFT = 0.01  # relative; a clock that moves more moves the time of a kernel as much

Library = Any  # the module pynvml, opened
Handle = Any
Questions = dict[str, tuple[float, Callable[[], Any]]]  # name -> one of NVML's units in ours, and the call that asks


class NvmlError(RuntimeError):
    """The driver cannot be asked."""


@dataclass(frozen=True, kw_only=True)
class GpuState:
    """A GPU at a moment. None where it does not tell."""

    sm_clock: float | None  # Hz
    memory_clock: float | None  # Hz
    power: float | None  # W
    temperature: float | None  # degrees Celsius
    reasons: int | None  # why its clocks are what they are: bits of nvml.h


@dataclass(frozen=True, kw_only=True)
class GpuActivity:
    """A GPU from the warm-up's end to the last sample. None where it does not tell.

    The SM clocks are those of the first and the last samples, where the timer reads them (`with_clocks`).
    """

    sm_before: float | None  # Hz
    sm_after: float | None
    memory_before: float | None  # Hz
    memory_after: float | None
    power: float | None  # W, the highest seen
    temperature: float | None  # degrees Celsius, the highest seen
    reasons: int | None  # of all states together


def activity(states: Sequence[GpuState]) -> GpuActivity:
    """Return what happened over states in order, at least one."""
    reasons = [state.reasons for state in states if state.reasons is not None]
    return GpuActivity(
        sm_before=states[0].sm_clock,
        sm_after=states[-1].sm_clock,
        memory_before=states[0].memory_clock,
        memory_after=states[-1].memory_clock,
        power=max((state.power for state in states if state.power is not None), default=None),
        temperature=max((state.temperature for state in states if state.temperature is not None), default=None),
        reasons=reduce(or_, reasons) if reasons else None,
    )


def with_clocks(activity: GpuActivity | None, clocks: Sequence[float]) -> GpuActivity | None:
    """Return an activity with the SM clocks that a timer read beside its samples, Hz, in place of the driver's."""
    if not clocks:
        return activity
    unknown = GpuActivity(**dict.fromkeys(field.name for field in fields(GpuActivity)))
    return replace(activity or unknown, sm_before=clocks[0], sm_after=clocks[-1])


def flags(states: Sequence[GpuState]) -> tuple[str, ...]:
    """Return what speaks against a round: "clock_drift" (over 1%, of either clock), "throttled"."""
    clocks = ([state.sm_clock for state in states], [state.memory_clock for state in states])
    readings = [[clock for clock in values if clock is not None] for values in clocks]
    drifted = any(values and max(values) > (1 + CLOCK_DRIFT) * min(values) for values in readings)
    throttled = any(throttling(state.reasons or 0) for state in states)
    return (("clock_drift",) if drifted else ()) + (("throttled",) if throttled else ())


def throttling(reasons: int) -> list[str]:
    """Return what slowed a GPU down, of its reasons. A bit without a name in hexadecimal: "0x800"."""
    bits = (1 << shift for shift in range(reasons.bit_length()))
    return [THROTTLING.get(bit, f"{bit:#x}") for bit in bits if bit & reasons & ~HARMLESS]


# The current CUDA device ----------------------------------------------------------------------------------------------


def properties() -> Any:
    """Return what torch knows of the current CUDA device."""
    import torch  # noqa: PLC0415 - discovery must work without torch

    return torch.cuda.get_device_properties(torch.cuda.current_device())


def uuid() -> str | None:
    """Return the UUID of the current CUDA device as NVML writes it. None where this torch does not say (before 2.5)."""
    identity = getattr(properties(), "uuid", None)
    return None if identity is None else f"GPU-{identity}"


# NVML -----------------------------------------------------------------------------------------------------------------


@contextmanager
def nvml() -> Iterator[Library]:
    """Open NVML. Yield the library.

    Raises:
        NvmlError: no binding, or no driver.
    """
    try:
        library: Any = importlib.import_module("pynvml")
    except ModuleNotFoundError:
        raise NvmlError("pynvml is not installed (the package nvidia-ml-py)") from None
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        raise NvmlError(f"NVML: {error}") from None
    try:
        yield library
    finally:
        with suppress(library.NVMLError):  # what was read is read
            library.nvmlShutdown()


@contextmanager
def opened(uuid: str) -> Iterator[tuple[Library, Handle]]:
    """Open NVML. Yield the library and the handle of the GPU with that UUID.

    Raises:
        NvmlError: no binding, no driver, or the driver knows no such GPU.
    """
    with nvml() as library:
        try:
            handle = library.nvmlDeviceGetHandleByUUID(uuid)
        except (library.NVMLError, TypeError) as error:  # TypeError: an old binding that wants bytes
            raise NvmlError(f"NVML: {error}") from None
        yield library, handle


@dataclass(frozen=True)
class Process:
    """A process that computes on a GPU. None where the driver does not tell."""

    pid: int
    name: str | None
    memory: int | None  # bytes of the GPU


def processes(library: Library, handle: Handle) -> list[Process]:
    """Return the processes with a context on an opened GPU, this one too. [] where the driver does not list them."""

    def name(pid: int) -> str | None:
        with suppress(library.NVMLError):  # it has ended, or is another user's
            text = library.nvmlSystemGetProcessName(pid)
            return text.decode(errors="replace") if isinstance(text, bytes) else str(text)
        return None

    try:
        listed = library.nvmlDeviceGetComputeRunningProcesses(handle)
    except (library.NVMLError, AttributeError):
        return []
    return [Process(entry.pid, name(entry.pid), entry.usedGpuMemory) for entry in listed]


def describe(uuid: str) -> dict[str, Any] | str:
    """Return what the driver says of the GPU with that UUID now, or why it cannot be asked."""
    try:
        with opened(uuid) as (library, handle):
            try:
                driver = library.nvmlSystemGetDriverVersion()
            except library.NVMLError as error:
                return f"NVML: {error}"
            limits: Questions = {
                "sm_clock_most": (1e6, lambda: library.nvmlDeviceGetMaxClockInfo(handle, library.NVML_CLOCK_SM)),
                "memory_clock_most": (1e6, lambda: library.nvmlDeviceGetMaxClockInfo(handle, library.NVML_CLOCK_MEM)),
                "power_limit": (1e-3, lambda: library.nvmlDeviceGetEnforcedPowerLimit(handle)),
            }
            return {"driver": driver} | _answers(library, _questions(library, handle) | limits)
    except NvmlError as error:
        return str(error)


def read(library: Library, handle: Handle) -> GpuState:
    """Return the state of an opened GPU now."""
    reasons = None
    # NVML 12.2 calls events what was throttling: a binding may know both names, and an old driver only the old one.
    for word in ("Event", "Throttle"):
        ask = getattr(library, f"nvmlDeviceGetCurrentClocks{word}Reasons", None)
        if ask and reasons is None:
            reasons = _answers(library, {"reasons": (1, partial(ask, handle))})["reasons"]
    return GpuState(**_answers(library, _questions(library, handle)), reasons=None if reasons is None else int(reasons))


def energy(library: Library, handle: Handle) -> float | None:
    """Return what an opened GPU has used since its driver was loaded, J. None where it does not count.

    Newer GPUs count in steps of 20 to 100 ms.
    """
    ask = getattr(library, "nvmlDeviceGetTotalEnergyConsumption", None)
    answer: float | None = _answers(library, {"energy": (1e-3, partial(ask, handle))} if ask else {}).get("energy")
    return answer


def _questions(library: Library, handle: Handle) -> Questions:
    return {
        "sm_clock": (1e6, lambda: library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_SM)),
        "memory_clock": (1e6, lambda: library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_MEM)),
        "power": (1e-3, lambda: library.nvmlDeviceGetPowerUsage(handle)),
        "temperature": (1, lambda: library.nvmlDeviceGetTemperature(handle, library.NVML_TEMPERATURE_GPU)),
    }


def _answers(library: Library, questions: Questions) -> dict[str, Any]:
    answers: dict[str, Any] = dict.fromkeys(questions)
    for name, (scale, ask) in questions.items():
        with suppress(library.NVMLError):  # a device may not tell one of them; the others are still known
            answers[name] = ask() * scale
    return answers


# While a round is timed -----------------------------------------------------------------------------------------------


class GpuWatch:
    """A context around a round, of a process that uses the GPU already.

    Where the driver cannot be asked, activity is None and there are no flags.

    Args:
        gpu: UUID of the GPU. None: there is none, and nothing to watch.
    """

    def __init__(self, gpu: str | None) -> None:
        self._gpu = gpu
        self._stack = ExitStack()
        self._opened: tuple[Library, Handle] | None = None
        self._states: list[GpuState] = []  # one a look
        self._energies: list[float | None] = []  # J, at each look
        self._processes = 0  # on the GPU, this one too: the most at the beginning and at the end

    def __enter__(self) -> GpuWatch:
        if self._gpu is None:
            return self
        with suppress(NvmlError):
            self._opened = self._stack.enter_context(opened(self._gpu))
            self._count_processes()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._stack:
            self._count_processes()

    def _count_processes(self) -> None:
        # Not within the looks: a list of processes takes longer than a clock, and the GPU idles meanwhile.
        if self._opened is not None:
            self._processes = max(self._processes, len({process.pid for process in processes(*self._opened)}))

    def look(self) -> None:
        """Take the GPU's state now."""
        if self._opened is not None:
            self._states.append(read(*self._opened))
            self._energies.append(energy(*self._opened))

    @property
    def activity(self) -> GpuActivity | None:
        """What the GPU did between the first look and the last. None where nothing was seen."""
        return activity(self._states) if self._states else None

    @property
    def energy(self) -> float | None:
        """What the GPU used between the first look and the last, J. None where it does not count, or began anew."""
        readings = [reading for reading in self._energies if reading is not None]
        used = readings[-1] - readings[0] if len(readings) > 1 else 0.0
        return used if used > 0 else None

    @property
    def flags(self) -> tuple[str, ...]:
        """What speaks against the round: those of `flags`, and "contended" where another process has the GPU, too.

        A container may list processes by other numbers than their own, so they are counted. One of them is this one.
        """
        return flags(self._states) + (("contended",) if self._processes > 1 else ())


# Locking the clocks ---------------------------------------------------------------------------------------------------


def clock_lock(environ: Mapping[str, str]) -> str | None:
    """Return the clock that KV_LOCK_CLOCKS asks for: BASE, or whole MHz. None: clocks are not locked.

    Raises:
        ValueError: it is neither.
    """
    text = environ.get(CLOCKS) or None
    if text is not None and text != BASE and not (text.isascii() and text.isdigit() and 0 < int(text) < 100_000):
        raise ValueError(f"{text!r}: wanted {BASE}, or the clock in MHz, such as 1500")
    return text


def _lock(uuid: str, clock: str) -> None:
    """Lock the clocks until standard input ends. Say LOCKED, or why not, on standard output.

    A signal that can be caught unlocks them, too.
    """
    try:
        with opened(uuid) as (library, handle):
            if (read(library, handle).reasons or 0) & SETTING_HOLDS:
                raise NvmlError("they are set already: `nvidia-smi --reset-gpu-clocks` unlocks them")
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, lambda *_: sys.exit())
            is_refused = False
            try:  # around the call that locks, too: a signal may arrive just behind it
                try:
                    limit = library.NVML_CLOCK_LIMIT_ID_TDP if clock == BASE else int(clock)
                    library.nvmlDeviceSetGpuLockedClocks(handle, limit, limit)
                except (library.NVMLError, AttributeError) as error:
                    is_refused = True
                    raise NvmlError(f"NVML: {error}") from None
                print(LOCKED, flush=True)  # noqa: T201 - the first line is what runner/checks.py waits for
                sys.stdin.read()
            finally:
                if not is_refused:
                    library.nvmlDeviceResetGpuLockedClocks(handle)
    except NvmlError as error:
        print(error, flush=True)  # noqa: T201


if __name__ == "__main__":
    _lock(*sys.argv[1:])
