"""`--lock-clocks`: a simulated driver's clocks are locked during the body, and unlocked however it ends."""

import io
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_velocity.engine import gpu, timing
from kernel_velocity.errors import UsageError
from kernel_velocity.runner import checks, host
from tests.engine import pretend_nvml
from tests.waiting import wait_until

BODY = """
import sys, time
from kernel_velocity.runner import checks, host
host.gpu_uuid = lambda: "GPU-1"
with checks.locked_clocks("1500", sys.stderr):
    print("in it", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def changes(tmp_path, monkeypatch):
    """Put a driver in the place of NVML's. Return a function that reads what it was told."""
    shutil.copy(Path(pretend_nvml.__file__), tmp_path / "pynvml.py")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")])))
    monkeypatch.setenv("PRETEND_NVML", str(tmp_path / "changes"))
    monkeypatch.setattr(host, "gpu_uuid", lambda: "GPU-1")
    monkeypatch.delenv(gpu.CLOCKS, raising=False)

    def read():
        path = tmp_path / "changes"
        return path.read_text().splitlines() if path.exists() else []

    return read


@pytest.mark.parametrize(("clock", "line"), [("base", "lock 4294967041 4294967041"), ("1500", "lock 1500 1500")])
def test_clocks_are_locked_during_the_body(changes, clock, line):
    err, before = io.StringIO(), timing.method(os.environ)
    with checks.locked_clocks(clock, err):
        assert changes() == [line]
        assert timing.method(os.environ) != before  # another clock is another series
    assert changes() == [line, "reset"]
    assert (timing.method(os.environ), err.getvalue()) == (before, "")
    with checks.locked_clocks(None, err):
        assert len(changes()) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_signal_that_ends_the_command_unlocks(changes, number):
    with subprocess.Popen(
        [sys.executable, "-c", BODY], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        assert process.stdout.readline() == b"in it\n"
        assert changes() == ["lock 1500 1500"]
        os.killpg(process.pid, number)  # as a terminal does
    wait_until(lambda: changes() == ["lock 1500 1500", "reset"])


def test_signal_just_behind_the_lock_unlocks(changes, tmp_path):
    driver = tmp_path / "pynvml.py"
    late = "\n\n_lock = nvmlDeviceSetGpuLockedClocks\n\n\ndef nvmlDeviceSetGpuLockedClocks(*args):\n    _lock(*args)\n"
    driver.write_text(f"{driver.read_text()}{late}    os.kill(os.getpid(), 15)\n")
    with pytest.raises(UsageError, match="the clocks are not locked"):
        checks.locked_clocks("1500", io.StringIO()).__enter__()
    assert changes() == ["lock 1500 1500", "reset"]


def test_refusal_is_one_line(changes, monkeypatch):
    monkeypatch.setenv("PRETEND_NVML_REFUSED", "lock")
    with pytest.raises(UsageError, match=r"^--lock-clocks: .* not locked: NVML: Insufficient Permissions\. Without"):
        checks.locked_clocks("1500", io.StringIO()).__enter__()
    assert changes() == [] and gpu.CLOCKS not in os.environ


def test_lock_of_somebody_else_stays(changes, tmp_path):
    driver = tmp_path / "pynvml.py"
    driver.write_text(driver.read_text().replace("reasons = [0]", "reasons = [2]"))
    with pytest.raises(UsageError, match=r"they are set already: `nvidia-smi --reset-gpu-clocks` unlocks them"):
        checks.locked_clocks("1500", io.StringIO()).__enter__()
    assert changes() == []


def test_clocks_that_stay_locked_are_named(changes, monkeypatch):
    monkeypatch.setenv("PRETEND_NVML_REFUSED", "reset")
    err = io.StringIO()
    with checks.locked_clocks("1500", err):
        pass
    assert err.getvalue().startswith("the GPU's clocks may still be locked: ")
    assert err.getvalue().endswith("Insufficient Permissions\n") and err.getvalue().count("\n") == 1


@pytest.mark.parametrize("clock", ["fast", "0"])
def test_other_clocks_are_refused_in_one_line(changes, clock):
    with pytest.raises(UsageError, match=rf"^--lock-clocks '{clock}': wanted base, or the clock in MHz"):
        checks.locked_clocks(clock, io.StringIO()).__enter__()
    assert changes() == []


def test_without_a_gpu(changes, monkeypatch):
    monkeypatch.setattr(host, "gpu_uuid", lambda: None)
    with pytest.raises(UsageError, match="PyTorch sees no GPU here"):
        checks.locked_clocks("base", io.StringIO()).__enter__()
