"""What NVIDIA's driver says of a GPU: its description, its state at a moment, its states while a round was timed.

NVML is opened in the process that measures, never in the server that forks it: a handle does not survive a fork. GPUs
are found by UUID: NVML counts them otherwise than CUDA does. Every figure may be one that a device keeps to itself:
None. Base units: Hz, W, degrees Celsius. No import of ours: run as a program, this file samples a GPU (`Sampler`).
"""

from __future__ import annotations

import importlib
import json
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import time
from typing import Any

# nvml.h, nvmlClocksEventReasons (ThrottleReasons of old): what slows a busy GPU down against its settings.
THROTTLING: Mapping[str, int] = {
    "power cap": 0x4,
    "hardware slowdown": 0x8,
    "sync boost": 0x10,
    "software thermal slowdown": 0x20,
    "hardware thermal slowdown": 0x40,
    "power brake": 0x80,
}
CLOCK_DRIFT = 0.01  # relative; a clock that moves more moves the time of a kernel as much


class NvmlError(RuntimeError):
    """The driver cannot be asked."""


@dataclass(frozen=True, kw_only=True)
class GpuState:
    """A GPU at a moment; what it does not say is None."""

    sm_clock: float | None  # Hz
    memory_clock: float | None  # Hz
    power: float | None  # W
    temperature: float | None  # degrees Celsius
    reasons: int | None  # why its clocks are what they are: bits of nvml.h


@dataclass(frozen=True, kw_only=True)
class GpuActivity:
    """A GPU from the warm-up's end to the last sample; what it does not say is None."""

    sm_before: float | None  # Hz
    sm_after: float | None
    memory_before: float | None  # Hz
    memory_after: float | None
    power: float | None  # W, the highest seen
    temperature: float | None  # degrees Celsius, the highest seen
    reasons: int | None  # of all states together


def activity(states: Sequence[GpuState]) -> GpuActivity:
    """Return what happened over states in order: the first before, the last after, what lies between sampled."""
    before, after = states[0], states[-1]
    reasons = [state.reasons for state in states if state.reasons is not None]
    together = 0
    for bits in reasons:
        together |= bits
    return GpuActivity(
        sm_before=before.sm_clock,
        sm_after=after.sm_clock,
        memory_before=before.memory_clock,
        memory_after=after.memory_clock,
        power=max(_known(state.power for state in states), default=None),
        temperature=max(_known(state.temperature for state in states), default=None),
        reasons=together if reasons else None,
    )


def _known(values: Iterator[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def flags(states: Sequence[GpuState]) -> tuple[str, ...]:
    """Return what speaks against a round: "clock_drift" (over 1%, of either clock), "throttled"."""
    clocks = ([state.sm_clock for state in states], [state.memory_clock for state in states])
    drifted = any(_moved(_known(iter(values))) for values in clocks)
    mask = sum(THROTTLING.values())
    throttled = any(state.reasons is not None and state.reasons & mask for state in states)
    return (("clock_drift",) if drifted else ()) + (("throttled",) if throttled else ())


def _moved(clocks: Sequence[float]) -> bool:
    return bool(clocks) and max(clocks) > (1 + CLOCK_DRIFT) * min(clocks)


@contextmanager
def opened(uuid: str) -> Iterator[tuple[Any, Any]]:
    """Open NVML; yield the library and the handle of the GPU with that UUID.

    Raises:
        NvmlError: no binding, no driver, or the driver knows no such GPU.
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
        try:
            handle = library.nvmlDeviceGetHandleByUUID(uuid)
        except (library.NVMLError, TypeError) as error:  # TypeError: an old binding that wants bytes
            raise NvmlError(f"NVML: {error}") from None
        yield library, handle
    finally:
        with suppress(library.NVMLError):  # what was read is read
            library.nvmlShutdown()


def describe(uuid: str) -> dict[str, Any] | str:
    """Return what the driver says of the GPU with that UUID now, or why it cannot be asked."""
    try:
        with opened(uuid) as (library, handle):
            try:
                driver = library.nvmlSystemGetDriverVersion()
            except library.NVMLError as error:
                return f"NVML: {error}"
            return {"driver": driver} | _answers(library, _questions(library, handle) | _limits(library, handle))
    except NvmlError as error:
        return str(error)


def read(library: Any, handle: Any) -> GpuState:
    """Return the state of an opened GPU now."""
    answers = _answers(library, _questions(library, handle))
    reasons = _reasons(library, handle)
    return GpuState(**answers, reasons=reasons)


def _reasons(library: Any, handle: Any) -> int | None:
    """Return why the clocks are what they are.

    NVML 12.2 calls events what was throttling: a binding may know both names, and an old driver only the old one.
    """
    for word in ("Event", "Throttle"):
        ask = getattr(library, f"nvmlDeviceGetCurrentClocks{word}Reasons", None)
        found = _answers(library, {"reasons": (1, partial(ask, handle))}).get("reasons") if ask else None
        if found is not None:
            return int(found)
    return None


Questions = dict[str, tuple[float, Callable[[], Any]]]  # name -> what one of NVML's units is in ours, and the question


def _questions(library: Any, handle: Any) -> Questions:
    return {
        "sm_clock": (1e6, lambda: library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_SM)),
        "memory_clock": (1e6, lambda: library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_MEM)),
        "power": (1e-3, lambda: library.nvmlDeviceGetPowerUsage(handle)),
        "temperature": (1, lambda: library.nvmlDeviceGetTemperature(handle, library.NVML_TEMPERATURE_GPU)),
    }


def _limits(library: Any, handle: Any) -> Questions:
    return {
        "sm_clock_most": (1e6, lambda: library.nvmlDeviceGetMaxClockInfo(handle, library.NVML_CLOCK_SM)),
        "memory_clock_most": (1e6, lambda: library.nvmlDeviceGetMaxClockInfo(handle, library.NVML_CLOCK_MEM)),
        "power_limit": (1e-3, lambda: library.nvmlDeviceGetEnforcedPowerLimit(handle)),
    }


def _answers(library: Any, questions: Questions) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for question, (scale, ask) in questions.items():
        try:
            found[question] = ask() * scale
        except library.NVMLError:  # a device may keep one of them to itself; the others are still known
            found[question] = None
    return found


class Sampler:
    """Samples a GPU in a process of its own, which takes neither the measuring one's time nor its interpreter lock.

    Args:
        uuid: of the GPU. interval: s between samples. path: file for one JSON line per sample, its time `t` (Unix, s)
            with it.

    Raises:
        NvmlError: the driver cannot be asked, with its reason.
    """

    def __init__(self, uuid: str, interval: float, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        command = [sys.executable, "-P", __file__, uuid, str(interval), str(path)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        said = self._process.stdout.readline().strip() if self._process.stdout else ""
        if said != "sampling":
            self._process.communicate()
            raise NvmlError(said or "the sampling process ended without a word")

    def stop(self) -> list[tuple[float, GpuState]]:
        """End the sampling; return the states in order, each behind its Unix time, s."""
        self._process.communicate()  # closes its input, which ends it; so does the death of this process
        # A sampler that was killed leaves its last line unended.
        texts = [
            text for text in self._path.read_text(encoding="utf-8").splitlines(keepends=True) if text.endswith("\n")
        ]
        lines = [json.loads(text) for text in texts]
        return [(line.pop("t"), GpuState(**line)) for line in lines]


def _sample(uuid: str, interval: float, path: str) -> None:
    """Write states to `path` until standard input ends; say "sampling", or why not, on standard output."""
    try:
        with opened(uuid) as (library, handle), Path(path).open("w", encoding="utf-8") as file:
            print("sampling", flush=True)  # noqa: T201 - the first line is what `Sampler` waits for
            while not select.select([sys.stdin], [], [], interval)[0]:
                file.write(json.dumps({"t": round(time(), 3)} | asdict(read(library, handle))) + "\n")
    except NvmlError as error:
        print(error, flush=True)  # noqa: T201


if __name__ == "__main__":
    _sample(sys.argv[1], float(sys.argv[2]), sys.argv[3])
