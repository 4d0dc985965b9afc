"""A module that answers as pynvml does, in its units (MHz, mW). A test puts it in its place, or copies it there."""

import os
from pathlib import Path
from types import SimpleNamespace

NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
NVML_CLOCK_LIMIT_ID_TDP = 0xFFFFFF01
opened: list[int] = []
sm_clocks = [1980]  # MHz: each question takes the first, while there is another
reasons = [0]
energies = [7_000_000]  # mJ: each question takes the first, while there is another
processes: list[tuple[int, int | None]] = [(1, 700_000_000)]  # pid, bytes: by default the one that measures
refused: set[str] = set()  # questions that the device does not answer


class NVMLError(Exception):
    """As pynvml's."""


def _ask(question):
    if question in refused:
        raise NVMLError("Not Supported")
    if not opened:
        raise NVMLError("Uninitialized")


def reset():
    """Answer as at the start."""
    opened.clear()
    refused.clear()
    sm_clocks[:] = [1980]
    reasons[:] = [0]
    energies[:] = [7_000_000]
    processes[:] = [(1, 700_000_000)]


def nvmlDeviceGetComputeRunningProcesses(handle):
    _ask("processes")
    return [SimpleNamespace(pid=pid, usedGpuMemory=memory) for pid, memory in processes]


def nvmlSystemGetProcessName(pid):
    if pid == 1:
        raise NVMLError("Not Found")
    return f"/usr/bin/job-{pid}"


def nvmlInit():
    if "nvmlInit" in refused:
        raise NVMLError("Driver Not Loaded")
    opened.append(1)


def nvmlShutdown():
    opened.pop()


def nvmlDeviceGetHandleByUUID(uuid):
    if not uuid.startswith("GPU-"):
        raise NVMLError("Not Found")
    return f"handle of {uuid}"


def nvmlSystemGetDriverVersion():
    return "580.1"


def nvmlSystemGetCudaDriverVersion():
    return 13000


def nvmlDeviceGetCount():
    return 1


def nvmlDeviceGetHandleByIndex(index):
    return f"handle of GPU-{index}"


def nvmlDeviceGetName(handle):
    return "NVIDIA H200"


def nvmlDeviceGetCudaComputeCapability(handle):
    return (9, 0)


def nvmlDeviceGetClockInfo(handle, kind):
    _ask("clock")
    assert handle.startswith("handle of GPU-")
    if kind == NVML_CLOCK_MEM:
        return 2619
    return sm_clocks.pop(0) if len(sm_clocks) > 1 else sm_clocks[0]


def nvmlDeviceGetMaxClockInfo(handle, kind):
    return {NVML_CLOCK_SM: 1980, NVML_CLOCK_MEM: 2619}[kind]


def nvmlDeviceGetPowerUsage(handle):
    _ask("power")
    return 350_000


def nvmlDeviceGetTotalEnergyConsumption(handle):
    _ask("energy")
    return energies.pop(0) if len(energies) > 1 else energies[0]


def nvmlDeviceGetEnforcedPowerLimit(handle):
    return 700_000


def nvmlDeviceGetTemperature(handle, kind):
    _ask("temperature")
    assert kind == NVML_TEMPERATURE_GPU
    return 41


def nvmlDeviceGetCurrentClocksThrottleReasons(handle):
    _ask("reasons")
    return reasons[0]


# A driver of other processes too: the file that PRETEND_NVML names has a line for each change of the clocks. The words
# of PRETEND_NVML_REFUSED are refused there.


def _change(what):
    if what.split()[0] in os.environ.get("PRETEND_NVML_REFUSED", "").split():
        raise NVMLError("Insufficient Permissions")
    with Path(os.environ["PRETEND_NVML"]).open("a") as file:
        file.write(f"{what}\n")


def nvmlDeviceSetGpuLockedClocks(handle, least, most):
    assert handle == "handle of GPU-1"
    _change(f"lock {least} {most}")


def nvmlDeviceResetGpuLockedClocks(handle):
    assert handle == "handle of GPU-1"
    _change("reset")
