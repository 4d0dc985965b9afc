"""Settings of a whole process, PyTorch's and others, restored where an implementation changes one.

What one implementation sets would apply to the next one, too, and to a control. `State` undoes it and says what it was.
`allows_tf32` says whether float32 products may use TF32.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import platform
import random
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

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


# In C's fenv_t of 64-bit Linux: where the register is that rounds, and flushes small numbers to zero, and which of its
# bits only say what happened (Intel SDM 1, 10.2.3; Arm ARM, FPCR)
FLOAT_CONTROL = {"x86_64": (28, 0x3F), "aarch64": (0, 0)}
FENV_BYTES = 32
LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
# Variables that PyTorch's compiler sets for itself
OF_COMPILERS = ("TORCH", "TRITON", "PYTORCH")


def _float_environment() -> tuple[Any, ctypes.Array[ctypes.c_char]] | None:
    """Return the C library, and its floating-point environment of this thread. None where its form is not known."""
    if sys.platform != "linux" or platform.machine() not in FLOAT_CONTROL:
        return None
    library, environment = ctypes.CDLL(None), ctypes.create_string_buffer(FENV_BYTES)
    with suppress(AttributeError):  # no libm in this process
        library.fegetenv(environment)
        return library, environment
    return None


def _float_control(_torch: Any) -> str | None:
    if (float_environment := _float_environment()) is None:
        return None
    start, flags = FLOAT_CONTROL[platform.machine()]
    return hex(int.from_bytes(float_environment[1].raw[start : start + 4], "little") & ~flags)


def _set_float_control(_torch: Any, control: str) -> None:
    library, environment = _float_environment() or (None, None)
    if library is not None and environment is not None:
        start, _ = FLOAT_CONTROL[platform.machine()]
        ctypes.memmove(ctypes.addressof(environment) + start, int(control, 16).to_bytes(4, "little"), 4)
        library.fesetenv(environment)


def _folder(_torch: Any) -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - text
    except FileNotFoundError:  # it was removed
        return None


def _variables(_torch: Any) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.lstrip("_").startswith(OF_COMPILERS)}


def _set_variables(torch: Any, variables: Mapping[str, str]) -> None:
    for name in _variables(torch).keys() - variables.keys():
        del os.environ[name]
    os.environ.update(variables)


def _limits(_torch: Any) -> dict[int, tuple[int, int]]:
    return {limit: resource.getrlimit(limit) for limit in LIMITS}


def _set_limits(_torch: Any, limits: Mapping[int, tuple[int, int]]) -> None:
    for limit, bounds in limits.items():
        with suppress(ValueError, PermissionError):  # a hard limit cannot be raised again
            resource.setrlimit(limit, bounds)


def _set_priority(_torch: Any, priority: int) -> None:
    with suppress(PermissionError):  # only root may take back a lower one
        os.setpriority(os.PRIO_PROCESS, 0, priority)


class _CoresOfThreads(dict[int, tuple[int, ...]]):
    """Cores by a thread's number. Two are equal where threads that are in both have the same cores."""

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dict) and all(other.get(thread, cores) == cores for thread, cores in self.items())

    def __ne__(self, other: object) -> bool:
        return not self == other


def _cores_of_threads(_torch: Any) -> _CoresOfThreads | None:
    """Return the cores of the other threads of this process. None where the system does not say."""
    threads = _CoresOfThreads()
    if not os.path.isdir("/proc/self/task"):  # noqa: PTH112
        return None
    for thread in map(int, os.listdir("/proc/self/task")):  # noqa: PTH208
        with suppress(OSError):  # it has ended
            threads[thread] = tuple(sorted(os.sched_getaffinity(thread)))
    threads.pop(os.getpid(), None)
    return threads


def _set_cores_of_threads(_torch: Any, threads: _CoresOfThreads) -> None:
    for thread, cores in threads.items():
        with suppress(OSError):
            os.sched_setaffinity(thread, cores)


def _stop_timers(_torch: Any, had: tuple[bool, ...]) -> None:
    for timer, ran in zip(TIMERS, had, strict=True):
        if not ran:
            signal.setitimer(timer, 0)


def _set_collection(_torch: Any, value: tuple[bool, int, int, int]) -> None:
    is_on, *thresholds = value
    gc.set_threshold(*thresholds)
    (gc.enable if is_on else gc.disable)()


def _stance(torch: Any) -> str | None:
    """Return what PyTorch's compiler does with a compiled function, or would once it is imported."""
    frames = sys.modules.get("torch._dynamo.eval_frame")
    return getattr(getattr(frames, "_stance", None), "stance", "default") if hasattr(torch, "compiler") else None


# Whose `install_config_module` keeps what somebody set
COMPILER_CONFIGS = tuple(f"torch.{name}" for name in ("_dynamo.config", "_inductor.config", "_functorch.config"))


def _compiler_configs(_torch: Any) -> dict[str, Any]:
    """Return what somebody set of PyTorch's compiler, by name. {} before it is imported."""
    return {
        f"{module}.{name}": value
        for module in COMPILER_CONFIGS
        for name, entry in getattr(sys.modules.get(module), "_config", {}).items()
        if hasattr(entry, "user_override")  # from PyTorch 2.6 on
        and (value := entry.user_override.get()) is not sys.modules["torch.utils._config_module"]._UNSET_SENTINEL
        and value != entry.default
    }


def _set_compiler_configs(torch: Any, values: Mapping[str, Any]) -> None:
    for full_name in {*values, *_compiler_configs(torch)}:
        module = next(module for module in COMPILER_CONFIGS if full_name.startswith(f"{module}."))
        config, name = sys.modules[module], full_name.removeprefix(f"{module}.")
        setattr(config, name, values.get(full_name, config._config[name].default))


OF_DEVICES = ("/CPU", "/CUDA")


def _operators(torch: Any) -> dict[str, str]:
    """Return which of PyTorch's own operators `torch.library` has replaced: {"aten/relu/CPU": "replaced"}."""
    return _replaced_among(len(getattr(torch.library, "_impls", ())))


@lru_cache(maxsize=2)
def _replaced_among(count: int) -> dict[str, str]:
    """Return the same of so many names of `torch.library`. To look at them in a forked process took 2 ms."""
    names = sys.modules["torch"].library._impls if count else ()
    return {name: "replaced" for name in names if name.startswith("aten/") and name.endswith(OF_DEVICES)}


def _put_operators_back(torch: Any, before: Mapping[str, str]) -> None:
    new = _operators(torch).keys() - before.keys()
    for library in [value for value in gc.get_objects() if type(value) is torch.library.Library]:
        if not new.isdisjoint(library._op_impls):
            library._destroy()


def _modes(module: str, stack: str) -> tuple[Callable[[Any], tuple[Any, ...]], Callable[[Any, tuple[Any, ...]], None]]:
    """Return what reads and writes the modes that see every call of PyTorch. That of a default device is no such."""

    def read(_torch: Any) -> list[Any]:
        modes: list[Any] = getattr(importlib.import_module(module), stack)()
        return modes

    def others(torch: Any) -> tuple[Any, ...]:
        return tuple(mode for mode in read(torch) if type(mode).__name__ != "DeviceContext")

    def write(torch: Any, modes: tuple[Any, ...]) -> None:
        of = importlib.import_module(module)
        now = read(torch)
        for _ in now:
            of._pop_mode()
        for mode in (*(mode for mode in now if type(mode).__name__ == "DeviceContext"), *modes):
            of._push_mode(mode)

    return others, write


Settings = Mapping[str, tuple[Callable[[Any], Any], Callable[[Any, Any], object]]]

ATTENTION, DEVICES = ("flash", "mem_efficient", "math"), ("cpu", "cuda")
MOST_TEXT = 100  # letters of variables in a message
RANDOM = ("state of random numbers", "state of CUDA's random numbers")
# Name -> how it is read (None: it has no value now) and written
TORCH_SETTINGS: Settings = {
    # First: a mode sees the other functions that are called here
    "modes of operators": _modes("torch.utils._python_dispatch", "_get_current_dispatch_mode_stack"),
    "modes of functions": _modes("torch.overrides", "_get_current_function_mode_stack"),
    "operators": (_operators, _put_operators_back),
    "compiler's configuration": (_compiler_configs, _set_compiler_configs),
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
    "oneDNN": (
        lambda t: getattr(t.backends.mkldnn, "enabled", None),
        lambda t, value: t.backends.mkldnn.set_flags(value),
    ),
    "cuDNN (on, benchmark, deterministic)": (
        lambda t: (t.backends.cudnn.enabled, t.backends.cudnn.benchmark, t.backends.cudnn.deterministic),
        lambda t, value: t.backends.cudnn.set_flags(value[0], _benchmark=value[1], _deterministic=value[2]),
    ),
    "attention (flash, memory-efficient, plain)": (
        lambda t: tuple(getattr(t.backends.cuda, f"{name}_sdp_enabled")() for name in ATTENTION),
        lambda t, value: [getattr(t.backends.cuda, f"enable_{n}_sdp")(on) for n, on in zip(ATTENTION, value)],  # noqa: B905
    ),
    "autocast (CPU, CUDA)": (
        # from 2.4 on by device
        lambda t: tuple(map(t.is_autocast_enabled, DEVICES)) if hasattr(t, "get_autocast_dtype") else None,
        lambda t, value: [t.set_autocast_enabled(*pair) for pair in zip(DEVICES, value, strict=True)],
    ),
    "detection of anomalies": (lambda t: t.is_anomaly_enabled(), lambda t, value: t.set_anomaly_enabled(value)),
    "compiler's stance": (_stance, lambda t, value: t.compiler.set_stance(value)),
    RANDOM[0]: (
        lambda t: t.get_rng_state().numpy().tobytes(),
        lambda t, value: t.set_rng_state(_as_state(t, value)),
    ),
    RANDOM[1]: (
        lambda t: t.cuda.get_rng_state().numpy().tobytes() if t.cuda.is_initialized() else None,
        lambda t, value: t.cuda.set_rng_state(_as_state(t, value)),
    ),
}

PROCESS_SETTINGS: Settings = {
    "folder": (_folder, lambda t, value: os.chdir(value)),
    "cores": (
        lambda t: os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None,
        lambda t, value: os.sched_setaffinity(0, value),
    ),
    "cores of threads": (_cores_of_threads, _set_cores_of_threads),
    "floating-point control": (_float_control, _set_float_control),
    "environment variables": (_variables, _set_variables),
    "priority": (lambda t: os.getpriority(os.PRIO_PROCESS, 0), _set_priority),
    "limits of resources": (_limits, _set_limits),
    "timers": (lambda t: tuple(any(signal.getitimer(timer)) for timer in TIMERS), _stop_timers),
    "trace function": (lambda t: sys.gettrace() or "", lambda t, value: sys.settrace(value or None)),
    "profile function": (lambda t: sys.getprofile() or "", lambda t, value: sys.setprofile(value or None)),
    "interval between threads": (lambda t: sys.getswitchinterval(), lambda t, value: sys.setswitchinterval(value)),
    "collection of garbage": (
        lambda t: (gc.isenabled(), *gc.get_threshold()),
        _set_collection,
    ),
}
SETTINGS: Settings = {**PROCESS_SETTINGS, **TORCH_SETTINGS}
# Those that do not slow down what PyTorch computes
HARMLESS = (*RANDOM, "folder", "limits of resources", "environment variables", "timers", "collection of garbage")


class State:
    """The value of every setting, as it is now."""

    def __init__(self) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._values = {name: read(self._torch) for name, (read, _) in SETTINGS.items()}

    def put_back(self) -> dict[str, str]:
        """Restore every setting that was changed since. Return the changes by name: "threads from 1 to 4"."""
        changes = dict[str, str]()
        for name, (read, write) in SETTINGS.items():
            old, new = self._values[name], read(self._torch)
            if old is not None and new != old:
                write(self._torch, old)
                texts = _text(old, new), _text(new, old)
                changes[name] = f"{name} from {texts[0]} to {texts[1]}" if all(texts) and texts[0] != texts[1] else name
        return changes


@contextmanager
def restored(note: Callable[[str], None]) -> Iterator[None]:
    """Restore every setting that is changed within, and call `note` with each change."""
    state = State()
    try:
        yield
    finally:
        for change in state.put_back().values():
            note(change)


def owned(change: str) -> str:
    """Return whose setting changed, and the change: "PyTorch's threads from 1 to 4"."""
    return f"{'the process' if change.startswith(tuple(PROCESS_SETTINGS)) else 'PyTorch'}'s {change}"


def random_state() -> Callable[[], None]:
    """Return what sets the random numbers of PyTorch, Python and NumPy (if imported) back to their present state."""
    torch, numpy = importlib.import_module("torch"), sys.modules.get("numpy")
    states = [(write, read(torch)) for read, write in map(TORCH_SETTINGS.__getitem__, RANDOM)]
    python, of_numpy = random.getstate(), None if numpy is None else numpy.random.get_state()

    def restore() -> None:
        for write, state in states:
            if state is not None:
                write(torch, state)
        random.setstate(python)
        if numpy is not None:
            numpy.random.set_state(of_numpy)

    return restore


def _text(value: Any, other: Any) -> str:
    """Return a setting's value for a message, where `other` is its other one. "" where it has no short text."""
    if isinstance(value, dict) and LIMITS[0] in value:
        return ""
    if isinstance(value, dict):
        names = (name for name in sorted({*value, *other}) if value.get(name) != other.get(name))
        return ", ".join(f"{name}={value.get(name, '')}" for name in names)[:MOST_TEXT]
    if isinstance(value, set):  # of cores
        return ", ".join(map(str, sorted(value)))
    if isinstance(value, tuple):
        is_name = bool(value) and isinstance(value[0], str)
        return (value[0] or "") if is_name else ", ".join(_text(part, None) for part in value) or "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    text = "" if isinstance(value, bytes) or callable(value) else str(value)
    return type(value).__name__ if " object at 0x" in text else text.removeprefix("torch.")


def allows_tf32(torch: Any, environ: Mapping[str, str]) -> bool:
    """Return whether float32 products on CUDA may be taken in TF32 now."""
    if environ.get(OVERRIDE) in ("0", "1"):
        return environ[OVERRIDE] == "1"
    older, on_cuda, _, everywhere = _precision(torch)
    if on_cuda is None:  # before PyTorch 2.9
        return older in ("high", "medium")
    return (everywhere if on_cuda == "none" else on_cuda) == "tf32"
