"""``kv doctor``: print what this machine has, what will be n/a here and why, and what to run first.

It only reads. A machine without a GPU, a compiler or PyTorch gets a line with the cure, and the exit status is 0.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import itertools
import json
import os
import platform
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from kernel_velocity.engine import gpu, timing
from kernel_velocity.engine.timing import prepare_torch
from kernel_velocity.errors import UsageError
from kernel_velocity.names import DEVICES
from kernel_velocity.problem.implementations import check
from kernel_velocity.runner import fingerprint
from kernel_velocity.runner.checks import installed_torch
from kernel_velocity.runner.host import NO_COMPILER, compiler, measuring_variables, python
from kernel_velocity.suite import config
from kernel_velocity.suite.suite import Suite
from kernel_velocity.units import significant, size

LINE_WIDTH = 110  # letters of a line
BUSY = 0.5  # cores busy in the minute before: less is the system's
FREE = 5e9  # bytes on the disk: a CUDA build of PyTorch alone takes as much
# The newest versions that the tests ran with. Of some private parts are used, too (docs/reference/versions.md)
TESTED: Mapping[str, tuple[int, ...]] = {
    "torch": (2, 13),
    "asv": (0, 6, 6),
    "asv_runner": (0, 3, 2),
    "numpy": (2, 5),
    "scipy": (1, 18),
    "triton": (3, 7),
    "numba": (0, 68),
    "numba-cuda": (0, 30),
    "distributed": (2026, 8),
}
LISTED_KERNELS = 6  # kernels that a line names before it counts them
SMT = Path("/sys/devices/system/cpu/smt/active")
CURES: Mapping[str, str] = {  # a part of a text of the code that decides -> what to do about it
    "no nvcc": "`make venv NVCC_FROM=pip`",
    "no CUDA compiler at build time": "`make build` with nvcc on PATH",
    "driver too old": "update the driver, or build with an older CUDA",
    "Triton is not installed": "`pip install triton`, the version that this PyTorch wants",
    "torch.compile needs Triton": "`pip install triton`, the version that this PyTorch wants",
    "is a CPU build": "another PyTorch: docs/how-to/gpu-and-pytorch.md",
    "PyTorch sees no CUDA device": "a GPU, its driver, and a CUDA build of PyTorch",
    "TRITON_INTERPRET is set": "`unset TRITON_INTERPRET`",
    "pynvml is not installed": "`pip install nvidia-ml-py`",
    "no NumPy": "`pip install numpy`",
}

# In a process of its own: this one never imports torch, and a broken CUDA must not end the command.
TORCH_PROBE = """
import importlib.util, json
import torch
found = {"gpus": [], "reason": None, "numpy": importlib.util.find_spec("numpy") is not None}
found |= {"torch": torch.__version__, "torch_cuda": torch.version.cuda}
try:
    if torch.cuda.is_available():
        found["gpus"] = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        torch.ones(1, device="cuda").sum().item()
    elif torch.version.cuda is not None:
        torch.cuda.init()
except Exception as error:
    found["reason"] = str(error).strip().splitlines()[0]
print(json.dumps(found))
"""

Pairs = list[tuple[str, str]]  # what a row names or what is n/a, and the text


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What PyTorch and the compilers of a machine are. Unknown is None."""

    torch: str
    torch_cuda: str | None  # CUDA version that torch was built with; None: a CPU build
    gpus: list[str]  # that torch can use
    reason: str | None  # why torch cannot use a GPU although it was built for it
    numpy: bool  # whether it lies beside torch
    driver: str | None  # version of the NVIDIA driver; None: no driver
    toolchain: str  # compilers, as fingerprint.py describes them


def probe() -> dict[str, Any]:
    """Return what PyTorch says of this machine.

    Raises:
        UsageError: torch cannot be imported.
    """
    status, last = python("-c", TORCH_PROBE)
    if status != 0:
        raise UsageError(f"torch cannot be imported by {sys.executable}: {last}")
    document: dict[str, Any] = json.loads(last)
    return document


def gather() -> Facts:
    """Ask PyTorch and the compilers.

    Raises:
        UsageError: torch cannot be imported.
    """
    return Facts(
        **probe(),
        driver=fingerprint.now(os.environ).get("driver") or ("unknown" if Path("/dev/nvidiactl").exists() else None),
        toolchain=fingerprint.toolchain(os.environ, config.project(Path())),
    )


def lacking(node: Facts) -> Pairs:
    """Return what a machine lacks, and what that costs."""
    if node.driver is not None and (node.reason is not None or not node.gpus):
        why = f"sees no usable GPU: {node.reason or 'CUDA reports none'}" if node.torch_cuda else "is a CPU build"
        return [("the GPU", f"NVIDIA driver {node.driver}, but torch {node.torch} {why}")]
    notes = {
        "no nvcc (looked in CUDACXX, CUDA_HOME, CUDA_PATH, /usr/local/cuda, PATH): the native CUDA kernels are n/a, "
        "PyTorch's implementations are measured": node.driver is not None and "no nvcc" in node.toolchain,
        "no NumPy beside torch: the tests of the kernels cannot run, nothing says that the kernels are right": (
            not node.numpy
        ),
        "no NVIDIA driver: the CPU is measured, and no GPU": node.driver is None,
    }
    return [("this machine", note) for note, applies in notes.items() if applies]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--root", type=Path, default=Path(), help="the folder of asv.conf.json (default: here)")


def run(args: argparse.Namespace, out: TextIO, _err: TextIO) -> int:
    """Print the three parts. Return 0.

    Raises:
        UsageError: there is no such folder.
    """
    if not args.root.is_dir():
        raise UsageError(f"--root {args.root}: no such folder; name the folder of asv.conf.json")
    with contextlib.chdir(args.root):
        node: Facts | str
        try:
            installed_torch()
            node = gather()
        except UsageError as error:
            node = str(error)
        info = fingerprint.build_info(Path())
        rows = [*software(node, info), *gpus(node, info), *host()]
        absent = [("every series", node)] if isinstance(node, str) else lacking(node)
        reasons = [*absent, *suite_reasons(node)]
        print(text(rows, reasons, first_commands(node, reasons)), file=out)
    return 0


def text(rows: Pairs, reasons: Pairs, first: Iterable[str]) -> str:
    """Return the three parts as they are printed."""
    lines = [_wrapped(f"{name:<15}{value}{_cure(value)}", 15) for name, value in rows]
    lines += ["", "What will be n/a here, and why"]
    lines += [_wrapped(f"- {what}: {why}{_cure(why)}", 2) for what, why in reasons] or ["nothing"]
    return "\n".join([*lines, "", "What to run first", *(f"  {command}" for command in first)])


def _cure(why: str) -> str:
    return next((f" -> {cure}" for part, cure in CURES.items() if part in why), "")


def _wrapped(line: str, indent: int) -> str:
    return textwrap.fill(line, LINE_WIDTH, subsequent_indent=" " * indent, break_on_hyphens=False)


# What is here ---------------------------------------------------------------------------------------------------------


def software(node: Facts | str, info: Mapping[str, Any]) -> Pairs:
    """Return the rows of Python, its packages, and the compilers."""
    torch, tools = node, ""
    if isinstance(node, Facts):
        torch = f"{node.torch}, {'for CUDA ' + node.torch_cuda if node.torch_cuda else 'without CUDA'}"
        tools = node.toolchain
    cxx, nvcc, *settings = (tools or fingerprint.toolchain(os.environ, config.project(Path()))).split("; ")
    cuda = info.get("cuda_compiler_version")
    code = f"by CUDA {cuda} for {', '.join(architectures(info))}" if cuda else "without CUDA" if info else "not yet"
    packages = [(name, _version(package)) for name, package in (("Triton", "triton"), ("NumPy", "numpy"))]
    rows = [("Python", f"{platform.python_version()}, {sys.executable}"), ("PyTorch", str(torch)), *packages]
    rows += [("NVML binding", _version("nvidia-ml-py")), ("compiler", cxx), ("nvcc", nvcc), ("kernels built", code)]
    rows += [("untested", text) for text in newer_than_tested({name: _version(name) for name in TESTED})]
    return rows + [("settings", text) for text in settings]


def newer_than_tested(versions: Mapping[str, str]) -> Iterator[str]:
    """Yield a text for each package whose version is newer than that of TESTED."""
    for package, most in TESTED.items():
        numbers = re.match(r"\d+(?:\.\d+)*", versions[package])
        if numbers and tuple(map(int, numbers[0].split(".")))[: len(most)] > most:
            yield f"{package} {versions[package]} is newer than {'.'.join(map(str, most))}, the newest that was tested"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def architectures(info: Mapping[str, Any]) -> list[str]:
    """Return the GPU architectures that a build has machine code for, such as sm_80, sm_90, sm_90a."""
    functions = [function for entry in info.get("kernels", {}).values() for function in entry.get("ptxas") or ()]
    return sorted({*(info.get("cuda_architectures") or ()), *(function["architecture"] for function in functions)})


def machine_code(capability: str, built: Sequence[str]) -> str:
    """Return which machine code of a build a GPU of a compute capability runs."""
    major, minor = map(int, capability.split("."))
    versions = {(int(name[3:-1]), int(name[-1])): name for name in built if re.fullmatch(r"sm_\d+", name)}
    if fitting := [version for version in versions if version[0] == major and version[1] <= minor]:
        return " and ".join([versions[max(fitting)], *(name for name in built if name == f"sm_{major}{minor}a")])
    rebuild = f" -> KV_CUDA_ARCHITECTURES=sm_{major}{minor} make build"
    if versions and max(versions) < (major, minor):
        return f"PTX of {versions[max(versions)]}, which the driver compiles when it is loaded{rebuild}"
    return f"none{rebuild}"


def driver_fit(driver: int, built: str | None) -> str:
    """Return whether a driver for CUDA `driver` (1000 * major + 10 * minor, 0: unknown) fits the CUDA of a build."""
    if not driver or built is None:
        return f" for CUDA {driver // 1000}.{driver % 1000 // 10}" if driver else ""
    fits = driver // 1000 >= int(built.partition(".")[0])  # within a major version, older drivers run newer code
    return f"{driver_fit(driver, None)}, {'fits' if fits else 'too old for'} our code of CUDA {built}"


def gpus(node: Facts | str, info: Mapping[str, Any]) -> Pairs:
    """Return the rows of every GPU, as NVML describes it."""
    try:
        with gpu.nvml() as nvml:
            handles = fingerprint.visible(nvml, os.environ.get("CUDA_VISIBLE_DEVICES"))
            rows = [row for index, handle in enumerate(handles) for row in _gpu(nvml, handle, index, info)]
            return rows or [("GPU", "NVML lists none")]
    except gpu.NvmlError as error:
        if isinstance(node, str) or node.driver is None:
            return [("GPU", "none")]
        names = ", ".join(node.gpus) or "none that PyTorch sees"
        return [("GPU", f"{names}; driver, clocks and other processes unknown: {error}")]


def _gpu(nvml: Any, handle: Any, index: int, info: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    def ask(question: Callable[[], Any]) -> str | None:
        return fingerprint.query(nvml, question)

    yield f"GPU {index}", ask(lambda: nvml.nvmlDeviceGetName(handle)) or "unknown"
    fit = driver_fit(int(ask(nvml.nvmlSystemGetCudaDriverVersion) or 0), info.get("cuda_compiler_version"))
    yield "  driver", f"{ask(nvml.nvmlSystemGetDriverVersion)}{fit}"
    if capability := ask(lambda: "{}.{}".format(*nvml.nvmlDeviceGetCudaComputeCapability(handle))):
        code = machine_code(capability, built) if (built := architectures(info)) else "not built"
        yield "  capability", f"{capability}, machine code: {code}"
    state = gpu.read(nvml, handle)
    now = "unknown" if state.sm_clock is None else f"{state.sm_clock / 1e6:.0f}"
    most = ask(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM))
    held = state.reasons is not None and state.reasons & gpu.SETTING_HOLDS
    lock = "held by a setting (a lock, or application clocks)" if held else "NVML tells of no lock"
    yield "  SM clock", f"{now} MHz now, {most} MHz at most, {lock}"
    limit = ask(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle))
    yield "  power limit", "unknown" if limit is None else f"{significant(int(limit) / 1e3)} W"
    processes = gpu.processes(nvml, handle)
    for process in processes:
        memory = "" if process.memory is None else f", {size(process.memory)}"
        yield (
            "  process",
            f"pid {process.pid} {process.name or 'without a name'}{memory} -> let it end, or rounds are contended",
        )
    if not processes:
        yield "  processes", "none that NVML lists"


def host() -> Pairs:
    """Return the rows of the processor and the disk."""
    machine, load, free = fingerprint.now(os.environ), os.getloadavg()[0], shutil.disk_usage(Path()).free
    governor = machine.get("governor", "not told (a virtual machine?)")
    steady = " -> `cpupower frequency-set -g performance`" if governor in ("powersave", "ondemand", "schedutil") else ""
    is_on = SMT.read_text(encoding="ascii").strip() if SMT.exists() else ""
    return [
        ("processor", f"{machine.get('cpu', platform.machine())}, {len(os.sched_getaffinity(0))} cores"),
        ("hyperthreads", {"1": "on, two of these cores may be one", "0": "off"}.get(is_on, "not told")),
        ("governor", governor + steady),
        ("load", significant(load) + " -> other work disturbs measurements, let it end" * (load > BUSY)),
        ("free disk", size(free) + " -> free some: builds and PyTorch take more" * (free < FREE)),
    ]


# What is n/a, and what to run -----------------------------------------------------------------------------------------


def suite_reasons(node: Facts | str) -> Pairs:
    """Return which series of the suite here are n/a, from a fresh process: it imports torch and initialises CUDA."""
    try:
        folder = config.suite(Path()).folder
    except UsageError as error:
        return [("the suite", str(error))]
    driver = ["--driver"] if isinstance(node, Facts) and node.driver is not None else []
    environ = {**os.environ, **measuring_variables(os.environ.get("KV_THREADS") or None)}
    status, last = python("-m", "kernel_velocity.runner.doctor", str(folder), *driver, environ=environ)
    return [("the suite", f"status {status}: {last}")] if status else [(what, why) for what, why in json.loads(last)]


def missing(suite: Suite, device: str, *, has_driver: bool) -> Pairs:
    """Return what the suite cannot measure on a device in this process, and what the harness's checks say.

    Of CUDA without a driver that alone.
    """
    name, reasons = DEVICES[device], []
    try:
        prepare_torch(device)
    except NotImplementedError as error:
        reasons = [(f"{name}, every series", str(error))]
        if device == "cuda" and not has_driver:
            return reasons
    else:
        try:
            timing.flush_size(device)
        except NotImplementedError as error:
            reasons = [(f"{name}, time_cold", str(error))]
    refused: dict[str, tuple[dict[str, None], dict[str, None]]] = {}  # why -> implementations, kernels
    for kernel in suite.modules():
        bench = suite.benchmark(kernel, device)
        for implementation, case in itertools.product(*bench.params) if hasattr(bench, "problem") else ():
            try:
                check(implementation, bench.problem, case)
            except (NotImplementedError, ImportError) as error:  # ImportError: the kernels are not built
                implementations, kernels = refused.setdefault(str(error), ({}, {}))
                implementations[implementation] = kernels[kernel] = None
    for why, (implementations, kernels) in refused.items():
        which = ", ".join(kernels) if len(kernels) <= LISTED_KERNELS else f"{len(kernels)} kernels"
        reasons.append((f"{name}, {' and '.join(implementations)} of {which}", why))
    return reasons


def first_commands(node: Facts | str, reasons: Pairs) -> list[str]:
    """Return the first commands, in their order."""
    if compiler(os.environ) is None:
        return [NO_COMPILER]
    if isinstance(node, str):
        return ["make venv    # PyTorch for this environment"]
    if not Path(config.NAME).exists():
        return ["kv init    # set up tracking in a git repository"]
    build = ["make build                 # the kernels of the working tree"]
    return build * any("`make build`" in why for _, why in reasons) + [
        "kv peaks                   # half a minute: the most that this machine can do",
        "kv compare all --sample    # a small case of every kernel beside PyTorch",
        "kv track                   # the last commits of the kernels, and the dashboard",
    ]


if __name__ == "__main__":
    pairs = [missing(Suite(Path(sys.argv[1])), device, has_driver="--driver" in sys.argv) for device in DEVICES]
    print(json.dumps(list(itertools.chain(*pairs))))  # noqa: T201
