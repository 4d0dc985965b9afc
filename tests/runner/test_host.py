"""Choosing a device: what the processes see, and what is refused."""

import os
import subprocess
import sys

import pytest

from kernel_velocity.errors import UsageError
from kernel_velocity.runner import host
from tests.engine import pretend_nvml
from tests.runner.test_fingerprint import two_gpus

__all__ = ["two_gpus"]


def visible():
    """Return the visible devices of a process that the body starts."""
    script = "import os; print(os.environ.get('CUDA_VISIBLE_DEVICES'))"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(("chosen", "wanted"), [(None, "GPU-before"), ("cpu", ""), ("cuda:1", "GPU-1-x")])
@pytest.mark.usefixtures("two_gpus")
def test_processes_see_the_chosen_device_alone(monkeypatch, chosen, wanted):
    monkeypatch.setenv(host.VISIBLE, "GPU-before")
    with host.seeing(chosen):
        assert visible() == wanted
    assert os.environ[host.VISIBLE] == "GPU-before"


@pytest.mark.parametrize(
    ("chosen", "message"),
    [("cuda:2", "this machine has 2 GPUs, the last is cuda:1"), ("gpu", "such as --device cuda:1")],
)
@pytest.mark.usefixtures("two_gpus")
def test_device_that_is_not_there_is_refused(chosen, message):
    with pytest.raises(UsageError, match=message), host.seeing(chosen):
        pass
    pretend_nvml.refused.add("nvmlInit")
    with pytest.raises(UsageError, match=r"Driver Not Loaded|such as"), host.seeing(chosen):
        pass
