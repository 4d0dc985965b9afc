"""Describe a node: what it is, which of its devices is measured, and what it lacks."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_velocity import config
from kernel_velocity.errors import UsageError
from kernel_velocity.runner import fingerprint, host

# In a process of its own: this one never imports torch, and a broken CUDA must not end the run.
PROBE = """
import importlib.util, json
import torch
found = {"gpus": [], "capability": None, "reason": None, "numpy": importlib.util.find_spec("numpy") is not None}
found |= {"torch": torch.__version__, "torch_cuda": torch.version.cuda}
try:
    if torch.cuda.is_available():
        found["gpus"] = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        found["capability"] = torch.cuda.get_device_capability(0)
        torch.ones(1, device="cuda").sum().item()
    elif torch.version.cuda is not None:
        torch.cuda.init()
except Exception as error:
    found["reason"] = str(error).strip().splitlines()[0]
print(json.dumps(found))
"""
OLDEST = (8, 0)  # compute capability that CMakeLists.txt compiles for
PORTABLE = (10, 0)  # from here on the driver would compile our PTX at load: code for the node's own GPU is better


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a node is and has. Unknown is None."""

    torch: str
    torch_cuda: str | None  # CUDA version that torch was built with; None: a CPU build
    gpus: list[str]  # that torch can use
    capability: list[int] | None  # of the first
    reason: str | None  # why torch cannot use a GPU although it was built for it
    numpy: bool  # whether it lies beside torch
    driver: str | None  # version of the NVIDIA driver; None: no driver
    toolchain: str  # compilers, as runner/fingerprint.py describes them
    processor: str
    cores: int
    python: str
    libc: str

    def machine(self, device: str) -> str:
        """Return what makes this node another machine than the next: its GPUs, and what code is built for."""
        return ", ".join([*(self.gpus if device == "cuda" else ()), self.processor])


def probe() -> dict[str, Any]:
    """Return what PyTorch says of the node.

    Raises:
        UsageError: torch cannot be imported.
    """
    status, last = host.python("-c", PROBE)
    if status != 0:
        raise UsageError(f"torch cannot be imported by {sys.executable}: {last}", "name another Python with --python")
    document: dict[str, Any] = json.loads(last)
    return document


def gather() -> Facts:
    """Ask the node.

    Raises:
        UsageError: torch cannot be imported.
    """
    machine = fingerprint.now(os.environ)
    return Facts(
        **probe(),
        driver=machine.get("driver") or ("unknown" if Path("/dev/nvidiactl").exists() else None),
        toolchain=fingerprint.toolchain(os.environ, config.project(Path())),
        processor=machine.get("cpu") or platform.machine(),
        cores=len(os.sched_getaffinity(0)),
        python=platform.python_version(),
        libc=" ".join(platform.libc_ver()),
    )


def device(facts: Facts, wanted: str) -> str:
    """Return what is measured, "cuda" or "cpu".

    Args:
        facts: of the node. wanted: "cuda", "cpu", or "auto": the GPU of a node that has a driver for one, else the CPU.

    Raises:
        UsageError: this torch cannot use the GPU. Measuring the CPU instead would be a night lost.
    """
    if wanted == "cpu" or (wanted == "auto" and facts.driver is None):
        return "cpu"
    if facts.gpus and facts.reason is None:
        return "cuda"
    where = "no NVIDIA driver found" if facts.driver is None else f"NVIDIA driver {facts.driver}"
    why = f"sees no usable GPU: {facts.reason or 'CUDA reports none'}" if facts.torch_cuda else "is a CPU build"
    raise UsageError(
        f"{where}, but torch {facts.torch} {why}",
        "name a Python with a torch that fits with --python, or measure the CPU with --device cpu",
    )


def lacking(facts: Facts, device: str) -> list[str]:
    """Return what the node lacks, and what that costs, one line each."""
    notes = {
        "no nvcc (looked in CUDACXX, CUDA_HOME, CUDA_PATH, /usr/local/cuda, PATH): the native CUDA kernels are n/a, "
        "PyTorch's implementations are measured": device == "cuda" and "no nvcc" in facts.toolchain,
        "no NumPy beside torch: the tests of the kernels cannot run, nothing says that the kernels are right": (
            not facts.numpy
        ),
        "no NVIDIA driver: the CPU is measured, and no GPU": device == "cpu" and facts.driver is None,
        "--device cpu: nothing ran on the GPU": device == "cpu" and facts.driver is not None,
    }
    return [note for note, applies in notes.items() if applies]


def variables(facts: Facts, device: str) -> Mapping[str, str]:
    """Return the environment variables that every stage needs here.

    Where the CPU is measured, the GPU is hidden: `track` and the tests look for one by themselves. Where our machine
    code does not fit the GPU, the build gets its architecture.
    """
    if device == "cpu":
        return {"CUDA_VISIBLE_DEVICES": ""}
    if facts.capability is None or OLDEST <= tuple(facts.capability) < PORTABLE:
        return {}
    return {"KV_CUDA_ARCHITECTURES": f"sm_{facts.capability[0]}{facts.capability[1]}"}
