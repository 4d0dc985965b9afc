"""A live command's own process, set up as those that measure the history are: allocator, threads, PyTorch.

PyTorch's settings that belong to a whole process: what one implementation sets would be the next one's, too.

`set_back` puts them back and says what was changed; `allows_tf32` says in which arithmetic float32 products are taken.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kernel_velocity.errors import UsageError
from kernel_velocity.harness.benchmark import prepare_torch
from kernel_velocity.runner import host

# cuBLAS's own switch, above whatever PyTorch asks for: 1 takes every float32 product in TF32, 0 none.
OVERRIDE = "NVIDIA_TF32_OVERRIDE"
PRECISION = "precision of float32 products"


def is_command() -> bool:
    """Return whether this process is the command line, whose main module has `console`, and not one that calls it."""
    return hasattr(sys.modules["__main__"], "console")


def environment(threads: str) -> dict[str, str]:
    """Return our environment with what every measuring process has: the allocator reads its settings at the start."""
    return {**os.environ, **host.measuring_variables(threads), "KV_THREADS": threads}


def command() -> list[str]:
    """Return the command that started this process."""
    return [sys.executable, *sys.orig_argv[1:]]


@contextmanager
def prepared(device: str, threads: int) -> Iterator[None]:
    """Set PyTorch up as measuring processes have it, and set it back at the end.

    Raises:
        UsageError: PyTorch or the device is not there.
    """
    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError:
        raise UsageError("PyTorch is not installed for this Python: `make venv` installs it") from None
    names = ("threads", "grad mode", PRECISION)
    before = {each: each.read(torch) for each in SETTINGS if each.name in names}
    variable = os.environ.get("KV_THREADS")
    os.environ["KV_THREADS"] = str(threads)  # what native kernels, compiled packages and PyTorch go by
    try:
        _prepare_torch(device)
        yield
    finally:
        os.environ.pop("KV_THREADS")
        os.environ |= {} if variable is None else {"KV_THREADS": variable}
        for setting, value in before.items():
            setting.write(torch, value)


def _prepare_torch(device: str) -> None:
    try:
        prepare_torch(device)
    except NotImplementedError as error:
        raise UsageError(f"--device {device}: {error}; take --device cpu") from None


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting: how it is read (None: it has no value now) and written, and how a value of it is said ("": not)."""

    name: str
    read: Callable[[Any], Any]
    write: Callable[[Any, Any], None]
    say: Callable[[Any], str] = str


def _precision(torch: Any) -> tuple[str | None, ...]:
    """Return the precision of float32 products: by PyTorch's older name for it, on CUDA, on the CPU, everywhere.

    None for what this version does not have, or refuses to tell, because the older name has no word for the newer ones.
    """
    try:
        older = torch.get_float32_matmul_precision()
    except RuntimeError:
        older = None
    places = (torch.backends.cuda.matmul, getattr(torch.backends.mkldnn, "matmul", None), torch.backends)
    return (older, *(getattr(place, "fp32_precision", None) for place in places))


def _set_precision(torch: Any, wanted: tuple[str | None, ...]) -> None:
    older, *newer = wanted
    if older is not None:
        torch.set_float32_matmul_precision(older)  # sets the newer ones of CUDA and of the CPU, too
    places = (torch.backends.cuda.matmul, getattr(torch.backends.mkldnn, "matmul", None), torch.backends)
    for place, value in zip(places, newer, strict=True):
        if value is not None:
            place.fp32_precision = value


def _device(torch: Any) -> Any:
    return torch.get_default_device() if hasattr(torch, "get_default_device") else None  # from 2.3 on


def _set_device(torch: Any, device: Any) -> None:
    """Set the default device; the CPU by setting none: a mode that is set costs every call of PyTorch a microsecond."""
    torch.set_default_device(None if device.type == "cpu" else device)


def _random_on_cuda(torch: Any) -> bytes | None:
    return torch.cuda.get_rng_state().numpy().tobytes() if torch.cuda.is_initialized() else None


def _as_state(torch: Any, state: bytes) -> Any:
    return torch.frombuffer(bytearray(state), dtype=torch.uint8)


SETTINGS = (
    Setting(name="threads", read=lambda t: t.get_num_threads(), write=lambda t, value: t.set_num_threads(value)),
    Setting(
        name="default dtype",
        read=lambda t: t.get_default_dtype(),
        write=lambda t, value: t.set_default_dtype(value),
        say=lambda value: str(value).removeprefix("torch."),
    ),
    Setting(name="default device", read=_device, write=_set_device),
    Setting(
        name="grad mode",
        read=lambda t: t.is_grad_enabled(),
        write=lambda t, value: t.set_grad_enabled(value),
        say=lambda value: "on" if value else "off",
    ),
    Setting(name=PRECISION, read=_precision, write=_set_precision, say=lambda value: value[0] or ""),
    Setting(
        name="deterministic mode",
        read=lambda t: t.get_deterministic_debug_mode(),
        write=lambda t, value: t.set_deterministic_debug_mode(value),
    ),
    Setting(
        name="state of random numbers",
        read=lambda t: t.get_rng_state().numpy().tobytes(),
        write=lambda t, value: t.set_rng_state(_as_state(t, value)),
        say=lambda value: "",
    ),
    Setting(
        name="state of CUDA's random numbers",
        read=_random_on_cuda,
        write=lambda t, value: t.cuda.set_rng_state(_as_state(t, value)),
        say=lambda value: "",
    ),
)


@contextmanager
def set_back(changed: Callable[[str], None]) -> Iterator[None]:
    """Put every setting back that is changed within; `changed` is told which, as "threads from 1 to 4"."""
    torch: Any = importlib.import_module("torch")
    before = {setting.name: setting.read(torch) for setting in SETTINGS}
    try:
        yield
    finally:
        for setting in SETTINGS:
            was, now = before[setting.name], setting.read(torch)
            if was is not None and now != was:
                setting.write(torch, was)
                changed(_in_words(setting, was, now))


def _in_words(setting: Setting, was: Any, now: Any) -> str:
    said = setting.say(was), setting.say(now)
    return f"{setting.name} from {said[0]} to {said[1]}" if all(said) and said[0] != said[1] else setting.name


def allows_tf32(torch: Any, environ: Mapping[str, str]) -> bool:
    """Return whether float32 products on CUDA may be taken in TF32 now."""
    if environ.get(OVERRIDE) in ("0", "1"):
        return environ[OVERRIDE] == "1"
    older, on_cuda, _, everywhere = _precision(torch)
    if on_cuda is None:  # before PyTorch 2.9
        return older in ("high", "medium")
    return (everywhere if on_cuda == "none" else on_cuda) == "tf32"
