"""What a node is and has, and what follows from it for a run: the device, and lines that a user should know."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from kernel_velocity.errors import UsageError
from kernel_velocity.runner import fingerprint

# Asked in a process of its own: this half never imports torch, and a broken CUDA must not take the run with it.
_PROBE = """
import importlib.util, json, sys
import torch
found = {"gpus": [], "capability": None, "reason": None, "numpy": importlib.util.find_spec("numpy") is not None}
found |= {"torch": torch.__version__, "torch_cuda": torch.version.cuda}
try:
    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        found["gpus"] = [torch.cuda.get_device_name(index) for index in range(count)]
        found["capability"] = list(torch.cuda.get_device_capability(0))
        torch.ones(1, device="cuda").sum().item()
    elif torch.version.cuda is not None:
        torch.cuda.init()
except Exception as error:
    found["reason"] = str(error).strip().splitlines()[0]
print(json.dumps(found))
"""
_OLDEST = (8, 0)  # compute capability that CMakeLists.txt compiles for
_PORTABLE = (10, 0)  # from here on the driver would compile our PTX anew at load: the node's own code is better


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a node is and has; unknown is None."""

    python: str
    torch: str
    torch_cuda: str | None  # CUDA version that torch was built with; None: a CPU build
    gpus: tuple[str, ...]  # that torch can use
    capability: tuple[int, int] | None  # of the first
    reason: str | None  # why torch cannot use a GPU although it was built for it
    driver: str | None  # version of the NVIDIA driver; None: no driver
    numpy: bool  # whether it lies beside torch
    toolchain: str  # compilers, as runner/fingerprint.py describes it
    processor: str
    cores: int
    kernel: str
    libc: str

    @property
    def has_nvcc(self) -> bool:
        """Return whether CUDA code can be compiled."""
        return "no nvcc" not in self.toolchain

    def machine(self, device: str) -> str:
        """Return what makes this node another machine than the next: its GPUs, and what code is built for."""
        return ", ".join([*(self.gpus if device == "cuda" else ()), self.processor])

    def as_json(self) -> str:
        """Return the facts as JSON."""
        return json.dumps(asdict(self), indent=1)


def gather() -> Facts:
    """Ask the node.

    Raises:
        UsageError: torch cannot be imported.
    """
    done = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UsageError(f"torch cannot be imported by {sys.executable}: {said}; name another Python with --python")
    torch = json.loads(done.stdout.splitlines()[-1])
    return Facts(
        python=platform.python_version(),
        torch=torch["torch"],
        torch_cuda=torch["torch_cuda"],
        gpus=tuple(torch["gpus"]),
        capability=None if torch["capability"] is None else (torch["capability"][0], torch["capability"][1]),
        reason=torch["reason"],
        driver=_driver(),
        numpy=torch["numpy"],
        toolchain=fingerprint.toolchain(os.environ),
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        kernel=platform.release(),
        libc=" ".join(platform.libc_ver()),
    )


def _driver() -> str | None:
    """Return the driver's version as its module or nvidia-smi gives it."""
    try:
        asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.splitlines()[0].strip()
    except (OSError, subprocess.SubprocessError, IndexError):
        pass
    path = Path("/proc/driver/nvidia/version")
    if path.exists():
        return path.read_text(encoding="utf-8").splitlines()[0]
    return "unknown" if Path("/dev/nvidiactl").exists() else None


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def device(facts: Facts, asked: str) -> str:
    """Return what is measured, "cuda" or "cpu".

    Args:
        asked: "cuda", "cpu", or "auto": the GPU of a node that has a driver for one, else the CPU.

    Raises:
        UsageError: there is a GPU, or one is asked for, that this torch cannot use; measuring the CPU instead would be
            a night lost.
    """
    if asked == "cpu" or (asked == "auto" and facts.driver is None):
        return "cpu"
    if facts.gpus and facts.reason is None:
        return "cuda"
    where = "no NVIDIA driver found" if facts.driver is None else f"NVIDIA driver {facts.driver}"
    if facts.torch_cuda is None:
        why = f"torch {facts.torch} is a CPU build"
    else:
        why = f"torch {facts.torch} sees no usable GPU: {facts.reason or 'CUDA reports none'}"
    raise UsageError(
        f"{where}, but {why}; name a Python with a torch that fits with --python, or measure the CPU with --device cpu"
    )


def notes(facts: Facts, device: str) -> list[str]:
    """Return what the node lacks, and what that costs, one line each."""
    found = []
    if device == "cuda" and not facts.has_nvcc:
        found.append(
            "no nvcc (looked in CUDACXX, CUDA_HOME, CUDA_PATH, /usr/local/cuda, PATH): the native CUDA kernels are "
            "n/a, PyTorch's implementations are measured"
        )
    if not facts.numpy:
        found.append(
            "no NumPy beside torch: the tests of the kernels cannot run, nothing says that the kernels are right"
        )
    if device == "cpu" and facts.driver is None:
        found.append("no NVIDIA driver: the CPU is measured, nothing ran on a GPU")
    elif device == "cpu":
        found.append("--device cpu: nothing ran on the GPU")
    return found


def settings(facts: Facts, device: str) -> Mapping[str, str]:
    """Return the variables that every stage needs here: the GPU hidden where the CPU is measured, and the build's
    architecture where our machine code would not fit the GPU.
    """
    if device == "cpu":
        return {"CUDA_VISIBLE_DEVICES": ""}  # `track` and the tests look for a GPU by themselves
    capability = facts.capability
    if capability is None or _OLDEST <= capability < _PORTABLE:
        return {}
    return {"KV_CUDA_ARCHITECTURES": f"sm_{capability[0]}{capability[1]}"}
