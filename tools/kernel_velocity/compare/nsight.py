"""Nsight Compute's view of an implementation beside ours: DRAM and SM throughput as the hardware counted them.

`ncu` runs a child process that makes a few calls, and writes its raw page as CSV: a header, a line of units, a line per
kernel launch (Nsight Compute CLI user guide, "Output Pages" and "Metrics and Units", docs.nvidia.com/nsight-compute).
ncu fixes the GPU's clocks and empties caches before every replay by default: its times are not ours.

This module is that child, too (``python -m kernel_velocity.compare.nsight``). Only its calls lie between the CUDA
profiler's start and stop: making the inputs and warming up do not count (ncu's `--profile-from-start off`).
"""

from __future__ import annotations

import csv
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from kernel_velocity import units
from kernel_velocity.compare.implementations import load
from kernel_velocity.compare.profile import WARM_UPS
from kernel_velocity.compare.result import ComparedRow
from kernel_velocity.compare.settings import prepared
from kernel_velocity.engine.timers import Call
from kernel_velocity.errors import KernelVelocityError, UsageError
from kernel_velocity.problem.problem import ProblemError
from kernel_velocity.tables import Table, aligned, percent
from kernel_velocity.terminal import screen

DURATION = "gpu__time_duration.sum"
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"  # of the section Speed Of Light
SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"  # likewise
READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
METRICS = (DURATION, DRAM, SM, READ, WRITTEN)

PROGRAM = "ncu"
PATTERNS = ("usr/local/cuda/bin/ncu", "opt/nvidia/nsight-compute/*/ncu")  # below /
FORBIDDEN = "ERR_NVGPUCTRPERM"  # what ncu says where only an administrator may read the counters
TIMEOUT = 600.0  # s
LAST_LINES = 3  # of the output of an ncu that failed
CALLS = 3  # ncu replays every kernel many times: more calls add nothing
# of base units (--print-units base), by the names that ncu's versions have for them
SCALES: Mapping[str, float] = {"": 1.0, "byte": 1.0, "B": 1.0, "%": 0.01, "nsecond": 1e-9, "ns": 1e-9}

# A kernel's name, and of one launch the metrics in base units, percentages as fractions; None: n/a
Launch = tuple[str, Mapping[str, float | None]]


def find(path: str) -> Path:
    """Return the program.

    Args:
        path: its path, or of the folder that has it. "": look on PATH and where it is usually installed.

    Raises:
        UsageError: it is not there. The message says where it was looked for.
    """
    if path:
        program = shutil.which(path) or shutil.which(PROGRAM, path=path)
        if program is None:
            raise UsageError(f"--ncu={path}: must be a program, or a folder with {PROGRAM}")
        return Path(program)
    if (on_path := shutil.which(PROGRAM)) is not None:
        return Path(on_path)
    installed = [program for pattern in PATTERNS for program in sorted(Path("/").glob(pattern))]
    if not installed:
        looked = f"{PROGRAM} on PATH, and {' and '.join(f'/{pattern}' for pattern in PATTERNS)}"
        raise UsageError(f"--ncu: Nsight Compute is not installed (looked for {looked}): give its path with --ncu=PATH")
    return installed[-1]


def ncu(child: Sequence[str], path: str) -> list[Launch]:
    """Return the kernel launches of a child process, run under Nsight Compute.

    Args:
        child: a command that makes the calls (`child_command`).
        path: as `find` takes it.

    Raises:
        UsageError: ncu is not installed, failed, may not read the counters, or saw no kernel.
    """
    program = find(path)
    with tempfile.TemporaryDirectory(prefix="ncu-") as folder:
        log = Path(folder) / "ncu.csv"
        options = ["--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log)]
        options += ["--target-processes", "all", "--profile-from-start", "off"]
        command = [str(program), *options, "--metrics", ",".join(METRICS), *child]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UsageError(f"{program}: {error}") from None
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    if done.returncode:
        output = "\n".join((text, done.stdout, done.stderr))
        if FORBIDDEN in output:
            hint = "developer.nvidia.com/ERR_NVGPUCTRPERM"
            raise UsageError(f"{program}: this user may not read the GPU's counters ({FORBIDDEN}): see {hint}")
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        last = " / ".join(lines[-LAST_LINES:]) or "it printed nothing"
        raise UsageError(f"{program}: ended with status {done.returncode}: {last}")
    launches = parse(text)
    if not launches:
        raise UsageError(f"{program}: no kernel was profiled; the implementation may run on the CPU")
    return launches


def parse(text: str) -> list[Launch]:
    """Return the launches of ncu's raw page as CSV, without its messages (==...).

    Raises:
        UsageError: there is a table, but not one of ncu's, or a number in it is none.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("==")]
    begin = next((number for number, line in enumerate(lines) if line.startswith('"ID"')), None)
    if begin is None:
        return []
    header, *rows = list(csv.reader(lines[begin:]))
    if "Kernel Name" not in header:
        raise UsageError(f"ncu's CSV has no column Kernel Name; it has {', '.join(header[:6])}, ...")
    named = [dict(zip(header, row, strict=False)) for row in rows]
    unit_of = next((row for row in named if not row["ID"]), {})  # the line of units has no ID
    return [
        (row["Kernel Name"], {name: _number(row[name], unit_of.get(name, ""), name) for name in METRICS if name in row})
        for row in named
        if row["ID"]
    ]


def _number(text: str, unit: str, metric: str) -> float | None:
    if text.strip().lower() in ("", "n/a", "nan"):
        return None
    try:
        return float(text.replace(",", "")) * SCALES[unit]
    except (ValueError, KeyError):
        raise UsageError(f"ncu's CSV: cannot read {metric}, {text!r} in unit {unit!r}") from None


def report(launches: Sequence[Launch], row: ComparedRow) -> str:
    """Return a table of means over the launches of each kernel, with our figures of the whole call as last line."""
    kernels: dict[str, list[Mapping[str, float | None]]] = {}
    for kernel, values in launches:
        kernels.setdefault(kernel, []).append(values)
    lines = [_line(kernel, metrics) for kernel, metrics in kernels.items()]
    if row.timing is not None:
        share = percent(None if row.timed.roofline is None else row.timed.roofline.of_limit)
        ours = [units.seconds(row.timing.seconds), _rate(row.bandwidth), "-", "-", share]
        lines.append(["the call, as timed", "-", *ours])
    heads = ["kernel", "launches", "time", "DRAM traffic", "DRAM throughput", "SM throughput", "roofline efficiency"]
    note = "percent of the hardware's peak; ncu fixes clocks and empties caches, so its times differ from ours"
    table = aligned(Table("Nsight Compute", note, heads, lines))
    return f"{row.timed.implementation} on {row.compared.case}\n{table}"


def _line(kernel: str, launches: Sequence[Mapping[str, float | None]]) -> list[str]:
    counted = ([value for launch in launches if (value := launch.get(metric)) is not None] for metric in METRICS)
    seconds, dram, sm, read, written = (fmean(values) if values else None for values in counted)
    return [
        kernel if len(kernel) <= 60 else f"{kernel[:59]}…",
        str(len(launches)),
        "-" if seconds is None else units.seconds(seconds),
        _rate(None if read is None or written is None or not seconds else (read + written) / seconds),
        percent(dram),
        percent(sm),
        "-",
    ]


def _rate(value: float | None) -> str:
    return "-" if value is None else units.bandwidth(value / 1e9)


def child_command(what: str, row: ComparedRow, solutions: Sequence[Path], dtype: str) -> list[str]:
    """Return the command of a process that calls the implementation of a row, to be run inside `prepared`.

    Args:
        what: a kernel's name, or the path of a file with a Problem.
        row: implementation, test case and device.
        solutions: files with solutions of the problem.
        dtype: of the elements, for older definitions that ask for one.
    """
    names = [what, row.timed.implementation, row.compared.case, row.compared.device, dtype]
    return [sys.executable, "-m", "kernel_velocity.compare.nsight", *names, *map(str, solutions)]


def main(argv: Sequence[str]) -> int:
    """Make the calls that `child_command` asks for, and return the exit status."""
    what, implementation, case, device, dtype, *solutions = argv
    try:
        with prepared(device, int(os.environ["KV_THREADS"])):
            problem, implementations = load(what, device, [Path(path) for path in solutions], dtype)
            inputs = problem.test_case(case)["create_inputs"]()
            problem.expected(*inputs)  # says whether the reference writes its inputs
            make_calls(implementations[implementation](problem, case, inputs).call, device)
    except (KernelVelocityError, ProblemError, NotImplementedError, KeyError) as error:
        print(f"error: {error}", file=screen(sys.stderr))
        return KernelVelocityError.exit_code
    return 0


def make_calls(call: Call, device: str) -> None:
    """Make CALLS calls, behind warm-up calls, between the CUDA profiler's start and stop."""
    torch = importlib.import_module("torch")
    for _ in range(WARM_UPS):
        call()
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
    for _ in range(CALLS):
        call()
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
