"""PyTorch's settings of a whole process: set for measuring, restored where an implementation changes one.

What one implementation sets would apply to the next one, too. `restored` undoes it and reports the change.
`allows_tf32` says whether float32 products may use TF32.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kernel_velocity.engine.timing import prepare_torch
from kernel_velocity.errors import UsageError
from kernel_velocity.suite.originals import ORIGINALS

# cuBLAS's own switch, above whatever PyTorch asks for: 1 takes every float32 product in TF32, 0 none.
OVERRIDE = "NVIDIA_TF32_OVERRIDE"


def _precision(torch: Any) -> tuple[str | None, ...]:
    """Return the precision of float32 products: by PyTorch's older name for it, on CUDA, on the CPU, everywhere.

    None where this version lacks a setting, or where the older name has no word for the newer settings.
    """
    try:
        older = torch.get_float32_matmul_precision()
    except RuntimeError:
        older = None
    return (older, *(getattr(holder, "fp32_precision", None) for holder in _holders(torch)))


def _set_precision(torch: Any, precision: tuple[str | None, ...]) -> None:
    older, *newer = precision
    if older is not None:
        torch.set_float32_matmul_precision(older)  # sets the newer ones of CUDA and of the CPU, too
    for holder, value in zip(_holders(torch), newer, strict=True):
        if value is not None:
            holder.fp32_precision = value


def _holders(torch: Any) -> tuple[Any, ...]:
    return torch.backends.cuda.matmul, getattr(torch.backends.mkldnn, "matmul", None), torch.backends


def _as_state(torch: Any, state: bytes) -> Any:
    return torch.frombuffer(bytearray(state), dtype=torch.uint8)


# Name -> how it is read (None: it has no value now) and written
TORCH_SETTINGS: Mapping[str, tuple[Callable[[Any], Any], Callable[[Any, Any], None]]] = {
    "threads": (lambda t: t.get_num_threads(), lambda t, value: t.set_num_threads(value)),
    "default dtype": (lambda t: t.get_default_dtype(), lambda t, value: t.set_default_dtype(value)),
    # None for the CPU: a device that is set costs every call of PyTorch a microsecond
    "default device": (
        lambda t: t.get_default_device() if hasattr(t, "get_default_device") else None,  # from 2.3 on
        lambda t, value: t.set_default_device(None if value.type == "cpu" else value),
    ),
    "grad mode": (lambda t: t.is_grad_enabled(), lambda t, value: t.set_grad_enabled(value)),
    "precision of float32 products": (_precision, _set_precision),
    "deterministic mode": (
        lambda t: t.get_deterministic_debug_mode(),
        lambda t, value: t.set_deterministic_debug_mode(value),
    ),
    "state of random numbers": (
        lambda t: t.get_rng_state().numpy().tobytes(),
        lambda t, value: t.set_rng_state(_as_state(t, value)),
    ),
    "state of CUDA's random numbers": (
        lambda t: t.cuda.get_rng_state().numpy().tobytes() if t.cuda.is_initialized() else None,
        lambda t, value: t.cuda.set_rng_state(_as_state(t, value)),
    ),
}


@contextmanager
def prepared(device: str, threads: int) -> Iterator[None]:
    """Set PyTorch up as in measuring processes, and restore its settings at the end.

    Raises:
        UsageError: PyTorch or the device is not there.
    """
    try:
        importlib.import_module("torch")
    except ModuleNotFoundError:
        raise UsageError("PyTorch is not installed for this Python: `make venv` installs it") from None
    variable = os.environ.get("KV_THREADS")
    os.environ["KV_THREADS"] = str(threads)  # read by native kernels, compiled packages and PyTorch
    try:
        with restored(lambda change: None):
            try:
                prepare_torch(device)
            except NotImplementedError as error:
                raise UsageError(f"--device {device}: {error}; use --device cpu") from None
            ORIGINALS.note()
            yield
    finally:
        os.environ.pop("KV_THREADS")
        os.environ |= {} if variable is None else {"KV_THREADS": variable}


@contextmanager
def restored(note: Callable[[str], None]) -> Iterator[None]:
    """Restore every setting that is changed within, and call `note` with each change: "threads from 1 to 4"."""
    torch: Any = importlib.import_module("torch")
    before = {name: read(torch) for name, (read, _) in TORCH_SETTINGS.items()}
    try:
        yield
    finally:
        for name, (read, write) in TORCH_SETTINGS.items():
            old, new = before[name], read(torch)
            if old is not None and new != old:
                write(torch, old)
                texts = _text(old), _text(new)
                note(f"{name} from {texts[0]} to {texts[1]}" if all(texts) and texts[0] != texts[1] else name)


def _text(value: Any) -> str:
    """Return a setting's value for a message, "" for a state of random numbers."""
    if isinstance(value, bytes):
        return ""
    if isinstance(value, tuple):  # of precisions
        return value[0] or ""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value).removeprefix("torch.")


def allows_tf32(torch: Any, environ: Mapping[str, str]) -> bool:
    """Return whether float32 products on CUDA may be taken in TF32 now."""
    if environ.get(OVERRIDE) in ("0", "1"):
        return environ[OVERRIDE] == "1"
    older, on_cuda, _, everywhere = _precision(torch)
    if on_cuda is None:  # before PyTorch 2.9
        return older in ("high", "medium")
    return (everywhere if on_cuda == "none" else on_cuda) == "tf32"
