"""PyTorch's settings are restored after an implementation, and its changes are noted."""

import ctypes
import gc
import os
import queue
import resource
import signal
import sys
import threading
from pathlib import Path

import pytest

from kernel_velocity.compare.settings import prepared
from kernel_velocity.engine import process_state

torch = pytest.importorskip("torch", reason="these are PyTorch's settings")
TorchFunctionMode = pytest.importorskip("torch.overrides").TorchFunctionMode
TorchDispatchMode = pytest.importorskip("torch.utils._python_dispatch").TorchDispatchMode
X86 = os.uname().machine == "x86_64"


def changes(do):
    """Return the notes on a change that ends with an error. Check that all settings are restored."""
    settings = [*process_state.TORCH_SETTINGS.values(), *process_state.PROCESS_SETTINGS.values()]
    before = [read(torch) for read, _ in settings]
    notes = []
    with pytest.raises(RuntimeError, match="done"), process_state.restored(notes.append):
        do()
        raise RuntimeError("done")
    assert [read(torch) for read, _ in settings] == before
    assert torch.utils._device.CURRENT_DEVICE is None  # no mode is left behind
    return notes


@pytest.mark.parametrize(
    ("do", "note"),
    [
        (lambda: torch.set_num_threads(torch.get_num_threads() + 3), "threads from"),
        (lambda: torch.set_default_dtype(torch.float64), "default dtype from float32 to float64"),
        (lambda: torch.set_default_device("meta"), "default device from cpu to meta"),
        (lambda: torch.set_grad_enabled(not torch.is_grad_enabled()), "grad mode from"),
        (lambda: torch.set_float32_matmul_precision("high"), "precision of float32 products from highest to high"),
        (lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", True), "precision of float32 products"),
        (lambda: torch.rand(3), "state of random numbers"),
        (lambda: torch.backends.mkldnn.set_flags(False), "oneDNN from on to off"),
        (
            lambda: torch.backends.cuda.enable_flash_sdp(enabled=False),
            "attention (flash, memory-efficient, plain) from",
        ),
        (lambda: torch.set_autocast_enabled("cpu", True), "autocast (CPU, CUDA) from off, off to on, off"),
        (lambda: os.chdir("/"), f"folder from {Path.cwd()} to /"),
        (lambda: os.environ.update(OMP_NUM_THREADS="99"), "environment variables from OMP_NUM_THREADS="),
        (
            lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (99, resource.getrlimit(resource.RLIMIT_NOFILE)[1])),
            "limits of resources",
        ),
        (lambda: signal.setitimer(signal.ITIMER_VIRTUAL, 1e6), "timers from "),
        (lambda: sys.setprofile(lambda *_: None), "profile function"),
        (lambda: sys.setswitchinterval(1.0), "interval between threads from"),
        (gc.disable, "collection of garbage from on, "),
    ],
)
def test_every_setting_is_restored_and_noted(do, note):
    (change,) = changes(do)
    assert change.startswith(note)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_cores_are_restored_and_noted():
    first, *others = sorted(os.sched_getaffinity(0))
    (change,) = changes(lambda: os.sched_setaffinity(0, {first}))
    assert change == f"cores from {', '.join(map(str, (first, *others)))} to {first}"


@pytest.mark.skipif(process_state._float_control(None) is None, reason="the form of fenv_t is not known here")
@pytest.mark.parametrize(
    "do",
    [lambda: torch.set_flush_denormal(True), lambda: ctypes.CDLL(None).fesetround(0x800 if X86 else 0x800000)],
    ids=["small numbers are zero", "rounding upwards"],
)
def test_arithmetic_is_restored_and_noted(do):
    (change,) = changes(do)
    assert change.startswith("floating-point control from 0x") and process_state.owned(change).startswith(
        "the process's"
    )
    tiny, unit = sys.float_info.min, 1.0
    assert tiny / 2 > 0.0 and unit + sys.float_info.epsilon / 4 == 1.0


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the system does not name threads")
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_cores_of_threads_are_restored_and_noted():
    ended, numbers = threading.Event(), queue.Queue()

    def wait():
        numbers.put(threading.get_native_id())
        ended.wait()

    def pin():  # and a new one, which nobody knows
        os.sched_setaffinity(number, {min(os.sched_getaffinity(0))})
        threads[1].start()

    threads = [threading.Thread(target=wait) for _ in range(2)]
    threads[0].start()
    number = numbers.get()
    (change,) = changes(pin)
    ended.set()
    for thread in threads:
        thread.join()
    assert change.startswith(f"cores of threads from {number}=(")


class SlowFunctions(TorchFunctionMode):
    def __torch_function__(self, function, _types, args=(), named=None):
        return function(*args, **(named or {}))


class SlowOperators(TorchDispatchMode):
    def __torch_dispatch__(self, function, _types, args=(), named=None):
        return function(*args, **(named or {}))


def replace_relu():
    libraries.append(torch.library.Library("aten", "IMPL"))
    libraries[-1].impl("relu", lambda x: x + 1, "CPU", allow_override=True)


libraries = []  # that are alive


@pytest.mark.filterwarnings("ignore:Warning only once for all operators")
@pytest.mark.parametrize(
    ("do", "note"),
    [
        (lambda: SlowFunctions().__enter__(), "modes of functions from none to SlowFunctions"),
        (lambda: SlowOperators().__enter__(), "modes of operators from none to SlowOperators"),
        (replace_relu, "operators from aten/relu/CPU= to aten/relu/CPU=replaced"),
    ],
)
def test_what_sees_calls_of_pytorch_is_removed_and_noted(do, note):
    assert changes(do) == [note]
    assert torch.relu(torch.tensor([-1.0, 2.0])).tolist() == [0.0, 2.0]


def test_modes_that_were_there_stay():
    with SlowFunctions() as mode, torch.device("meta"):
        with process_state.restored(lambda _: None):
            SlowFunctions().__enter__()
        assert torch.overrides._get_current_function_mode_stack()[-1] is mode and torch.ones(1).device.type == "meta"


@pytest.mark.slow  # it imports PyTorch's compiler, and newer versions set that
def test_deterministic_mode_is_restored_and_noted():
    assert changes(lambda: torch.use_deterministic_algorithms(True))[-1] == "deterministic mode from 0 to 2"


@pytest.mark.slow  # it imports PyTorch's compiler
def test_configuration_of_the_compiler_is_restored_and_noted():
    import torch._dynamo.config as configuration

    (change,) = changes(lambda: setattr(configuration, "disable", True))
    assert change == "compiler's configuration from torch._dynamo.config.disable= to torch._dynamo.config.disable=True"
    assert configuration.disable is False


def test_no_change_is_no_note():
    assert changes(lambda: torch.ones(3).sum()) == []


def test_older_pytorch_is_restored(monkeypatch):
    monkeypatch.delattr(torch, "get_default_device")
    threads = torch.get_num_threads()
    assert changes(lambda: torch.set_num_threads(threads + 1)) == [f"threads from {threads} to {threads + 1}"]


def test_prepared_leaves_pytorch_as_it_was(monkeypatch):
    monkeypatch.setenv("KV_THREADS", "7")
    newer, before = torch.backends.cuda.matmul, torch.get_num_threads()
    torch.set_grad_enabled(True)
    had = getattr(newer, "fp32_precision", None)
    if had is not None:  # a precision that only the newer settings have
        newer.fp32_precision = "tf32"
    try:
        with prepared("cpu", 2):
            assert (os.environ["KV_THREADS"], torch.get_num_threads(), torch.is_grad_enabled()) == ("2", 2, False)
            assert had is None or newer.fp32_precision == "ieee"
        assert (os.environ["KV_THREADS"], torch.get_num_threads(), torch.is_grad_enabled()) == ("7", before, True)
        assert had is None or newer.fp32_precision == "tf32"
    finally:
        if had is not None:
            newer.fp32_precision = had


@pytest.mark.parametrize(
    ("do", "override", "allowed"),
    [
        (lambda: None, None, False),
        (lambda: torch.set_float32_matmul_precision("medium"), None, True),
        (lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"), None, True),
        (lambda: setattr(torch.backends, "fp32_precision", "tf32"), None, True),
        (lambda: None, "1", True),
        (lambda: torch.set_float32_matmul_precision("high"), "0", False),
    ],
)
def test_tf32_is_allowed_as_pytorch_and_the_driver_say(do, override, allowed):
    with process_state.restored(lambda _: None):
        torch.set_float32_matmul_precision("highest")
        if hasattr(torch.backends.cuda.matmul, "fp32_precision"):
            torch.backends.cuda.matmul.fp32_precision = "none"
        do()
        allows = process_state.allows_tf32(torch, {} if override is None else {"NVIDIA_TF32_OVERRIDE": override})
    assert allows is allowed
