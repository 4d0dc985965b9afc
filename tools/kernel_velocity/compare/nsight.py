"""Nsight Compute's view of an implementation beside ours: DRAM and SM throughput as the hardware counted them.

`ncu` runs a child process that makes a few calls, and writes its raw page as CSV: a header, a line of units, a line per
kernel launch (Nsight Compute CLI user guide, "Output Pages" and "Metrics and Units"; docs.nvidia.com/nsight-compute).
Without `--page raw` there is a line per metric instead, with the columns Metric Name, Metric Unit and Metric Value;
that is read, too. ncu fixes the GPU's clocks and empties caches before every replay by default: its times are not ours.

A process that calls one implementation a few times, for a profiler around it (``python -m`` and this module).

Only the calls lie between the CUDA profiler's start and stop: making the inputs and warming up do not count (Nsight
Compute's `--profile-from-start off`).
"""

from __future__ import annotations

import argparse
import csv
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_velocity import units
from kernel_velocity.compare.profile import WARM_UPS, require_torch
from kernel_velocity.errors import KernelVelocityError, UsageError
from kernel_velocity.harness.timers import Call
from kernel_velocity.tables import Table, percent

DURATION = "gpu__time_duration.sum"
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"  # of the section Speed Of Light
SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"  # likewise
READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
METRICS = (DURATION, DRAM, SM, READ, WRITTEN)

NAMES = ("ncu", "nv-nsight-cu-cli")  # the second is what versions before 2020 are called
PLACES = ("/usr/local/cuda/bin", "/opt/nvidia/nsight-compute/*")
FORBIDDEN = "ERR_NVGPUCTRPERM"  # what ncu says where only an administrator may read the counters
TIMEOUT = 600.0  # s
LAST_LINES = 3  # of what a failed ncu said
# Base units are asked for (--print-units base), but what an older file has is read as well.
SCALES: Mapping[str, float] = {
    **{"": 1.0, "%": 0.01},
    **{"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9},
    **{"nsecond": 1e-9, "usecond": 1e-6, "msecond": 1e-3, "second": 1.0, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0},
}

CALLS = 3  # a profiler replays each kernel many times: more calls say nothing new
DTYPE = "float32"


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One launch of a kernel. Shares of the peak as fractions; what ncu says is n/a is None.

    Attributes:
        kernel: its name.
        seconds: on the GPU.
        dram: share of the peak DRAM throughput.
        sm: share of the peak throughput of the multiprocessors.
        bytes: read from and written to DRAM.
    """

    kernel: str
    seconds: float | None
    dram: float | None
    sm: float | None
    bytes: float | None


@dataclass(frozen=True, kw_only=True)
class Ours:
    """What a comparison found of the same implementation: s per call, B/s, share of the attainable rate."""

    seconds: float
    bandwidth: float | None
    efficiency: float | None


def find(path: str | None = None) -> Path:
    """Return the program.

    Args:
        path: its path, or of the folder that has it; None: look on PATH and where it is usually installed.

    Raises:
        UsageError: it is not there; the message says what was looked for.
    """
    if path:
        named = Path(path)
        candidates = [named, *(named / name for name in NAMES)]
        found = next((each for each in candidates if each.is_file() and os.access(each, os.X_OK)), None)
        if found is None:
            raise UsageError(f"--ncu={path}: no program, and no folder with one ({', '.join(NAMES)})")
        return found
    on_path = next((program for name in NAMES if (program := shutil.which(name))), None)
    if on_path is not None:
        return Path(on_path)
    installed = [each for place in PLACES for each in _programs(place)]
    if not installed:
        looked = f"{' and '.join(NAMES)} on PATH, and ncu in {' and '.join(PLACES)}"
        raise UsageError(f"--ncu: Nsight Compute is not installed (looked for {looked}): say where with --ncu=PATH")
    return installed[-1]


def _programs(place: str) -> list[Path]:
    return sorted(Path("/").glob(f"{place.lstrip('/')}/ncu"))


def command(program: Path, child: Sequence[str], log: Path, *, full: bool = False) -> list[str]:
    """Return ncu's command line around a child's: counters as CSV into `log`, `--set full` where asked for."""
    sets = ["--set", "full"] if full else []
    return [
        *(str(program), "--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log)),
        *("--target-processes", "all", "--profile-from-start", "off", *sets, "--metrics", ",".join(METRICS)),
        *child,
    ]


def ncu(child: Sequence[str], *, path: str | None = None, full: bool = False) -> tuple[Launch, ...]:
    """Run a child process under Nsight Compute; return its kernel launches.

    Args:
        child: a command that makes the calls (`profiled_call.command`).
        path: of ncu; None: look for it.
        full: whether the whole set of sections is collected; slower, and what is shown is the same.

    Raises:
        UsageError: ncu is not installed, failed, was not let, or saw no kernel.
    """
    program = find(path)
    with tempfile.TemporaryDirectory(prefix="ncu-") as folder:
        log = Path(folder) / "ncu.csv"
        try:
            ended = subprocess.run(
                command(program, child, log, full=full), capture_output=True, text=True, timeout=TIMEOUT, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UsageError(f"{program}: {error}") from None
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    if ended.returncode:
        raise UsageError(_why(program, ended.returncode, "\n".join((text, ended.stdout, ended.stderr))))
    launches = parse(text)
    if not launches:
        raise UsageError(f"{program}: no kernel was profiled; the implementation may run on the CPU")
    return launches


def _why(program: Path, status: int, said: str) -> str:
    """Return one line on why ncu failed."""
    if FORBIDDEN in said:
        hint = "developer.nvidia.com/ERR_NVGPUCTRPERM"
        return f"{program}: this user may not read the GPU's counters ({FORBIDDEN}): see {hint}"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return f"{program}: ended with status {status}: {' / '.join(lines[-LAST_LINES:]) or 'it said nothing'}"


def parse(text: str) -> tuple[Launch, ...]:
    """Return the launches of ncu's CSV, of the raw page or of a line per metric; lines of its own (==...) are skipped.

    Raises:
        UsageError: there is a table, but not one of ncu's, or a number in it is none.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("==")]
    begin = next((number for number, line in enumerate(lines) if line.startswith('"ID"')), None)
    if begin is None:
        return ()
    header, *rest = list(csv.reader(lines[begin:]))
    if "Kernel Name" not in header:
        raise UsageError(f"ncu's CSV has no column Kernel Name; it has {', '.join(header[:6])}, ...")
    read = _long if "Metric Name" in header else _wide
    return tuple(_launch(name, values) for name, values in read(header, rest))


Values = Mapping[str, float | None]  # in base units, by metric


def _wide(header: Sequence[str], rest: Sequence[Sequence[str]]) -> Iterator[tuple[str, Values]]:
    """Yield kernel and metrics of the raw page: a line of units (its ID is empty), then a line per launch."""
    named = [dict(zip(header, line, strict=False)) for line in rest]
    unit_line = next((each for each in named if not each["ID"]), {})
    for line in named:
        if line["ID"]:
            values = {name: _number(line[name], unit_line.get(name, ""), name) for name in METRICS if name in line}
            yield line["Kernel Name"], values


def _long(header: Sequence[str], rest: Sequence[Sequence[str]]) -> Iterator[tuple[str, Values]]:
    """Yield kernel and metrics of the form with a line per launch and metric."""
    kernels: dict[str, str] = {}
    values: dict[str, dict[str, float | None]] = {}
    for cells in rest:
        line = dict(zip(header, cells, strict=False))
        number, metric = line["ID"], line["Metric Name"]
        kernels[number] = line["Kernel Name"]
        found = values.setdefault(number, {})
        if metric in METRICS:
            found[metric] = _number(line["Metric Value"], line["Metric Unit"], metric)
    for number, kernel in kernels.items():
        yield kernel, values[number]


def _number(text: str, unit: str, metric: str) -> float | None:
    """Return a value in base units, percentages as fractions; None for n/a."""
    if text.strip().lower() in ("", "n/a", "nan"):
        return None
    scale = SCALES.get("%" if metric.endswith("pct_of_peak_sustained_elapsed") else unit)
    try:
        if scale is None:
            raise ValueError(f"unit {unit!r}")
        return float(text.replace(",", "")) * scale
    except ValueError as error:
        raise UsageError(f"ncu's CSV: {metric} is {text!r} {unit}: not understood ({error})") from None


def _launch(kernel: str, values: Values) -> Launch:
    moved = [values.get(READ), values.get(WRITTEN)]
    known = [each for each in moved if each is not None]
    return Launch(
        kernel=kernel,
        seconds=values.get(DURATION),
        dram=values.get(DRAM),
        sm=values.get(SM),
        bytes=sum(known) if len(known) == len(moved) else None,
    )


def table(launches: Sequence[Launch], ours: Ours | None = None) -> Table:
    """Return the launches by kernel, means over its launches, and our own figures of the whole call in a last line."""
    kernels: dict[str, list[Launch]] = {}
    for launch in launches:
        kernels.setdefault(launch.kernel, []).append(launch)
    lines = [_line(name, found) for name, found in kernels.items()]
    if ours is not None:
        rate = _shown(ours.bandwidth, lambda value: units.gigabytes(value / 1e9))
        lines.append(
            ["ours, a call as timed", "-", units.seconds(ours.seconds), rate, "-", "-", percent(ours.efficiency)]
        )
    heads = ["kernel", "launches", "time", "DRAM traffic", "DRAM throughput", "SM throughput", "efficiency"]
    note = "shares are of the hardware's peak; ncu fixes the clocks and empties the caches, so its times are not ours"
    return Table("Nsight Compute", note, heads, lines)


def _line(kernel: str, found: Sequence[Launch]) -> list[str]:
    seconds, moved = _mean(each.seconds for each in found), _mean(each.bytes for each in found)
    rate = moved / seconds if moved is not None and seconds else None
    return [
        kernel if len(kernel) <= 60 else f"{kernel[:59]}…",
        str(len(found)),
        _shown(seconds, units.seconds),
        _shown(rate, lambda value: units.gigabytes(value / 1e9)),
        percent(_mean(each.dram for each in found)),
        percent(_mean(each.sm for each in found)),
        "-",
    ]


def _shown(value: float | None, of: Callable[[float], str]) -> str:
    return "-" if value is None else of(value)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def child_command(
    what: str,
    implementation: str,
    case: str,
    *,
    device: str,
    solutions: Sequence[Path] = (),
    calls: int = CALLS,
    dtype: str = DTYPE,
) -> tuple[str, ...]:
    """Return the command of a process that makes these calls, to be run from the repository's root.

    Args:
        what: a kernel's name, or the path of a file with a Problem.
        implementation: which one is called.
        case: name of the test case.
        device: "cpu" or "cuda".
        solutions: files with solutions of a foreign problem.
        calls: how many, after the warm-up.
        dtype: of the elements, for older definitions that ask for one.
    """
    found = [sys.executable, "-m", "kernel_velocity.compare.nsight", what, implementation, case]
    found += ["--device", device, "--calls", str(calls), "--dtype", dtype]
    for path in solutions:
        found += ["--solution", str(path)]
    return tuple(found)


def main(argv: Sequence[str]) -> int:
    """Make the calls; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m kernel_velocity.compare.nsight", description="Call an implementation."
    )
    for name in ("what", "implementation", "case"):
        parser.add_argument(name)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--dtype", default=DTYPE)
    parser.add_argument("--solution", type=Path, action="append", default=[])
    args = parser.parse_args(argv)
    try:
        make_calls(_bound(args), args.device, args.calls)
    except (KernelVelocityError, NotImplementedError, KeyError) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - a program of its own
        return KernelVelocityError.exit_code
    return 0


def make_calls(call: Call, device: str, calls: int) -> None:
    """Call, warm-up aside, between the CUDA profiler's start and stop."""
    torch = require_torch(device)
    for _ in range(WARM_UPS):
        call()
    if device != "cuda":
        for _ in range(calls):
            call()
        return
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    for _ in range(calls):
        call()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def _bound(args: argparse.Namespace) -> Call:
    """Return the call, bound to the inputs of its test case."""
    loaded = importlib.import_module("kernel_velocity.compare.problems.load").load(
        args.what, args.device, args.solution, args.dtype
    )
    if args.implementation not in loaded.implementations:
        raise UsageError(f"{args.what} has no {args.implementation}; there are {', '.join(loaded.implementations)}")
    problem = loaded.problem
    inputs = problem.test_case(args.case)["create_inputs"]()
    call: Call = loaded.implementations[args.implementation](problem, args.case, inputs).call
    return call


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
