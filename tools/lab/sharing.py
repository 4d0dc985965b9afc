"""``python -m lab sharing``: whether a series reads the same in a process that measured others, and what that saves.

A round's series share one process on a GPU, on a CPU with KV_ISOLATE=0 (engine/server.py). In each pass one process
measures all series one after the other, as `server` has it. Beside it each series has a fresh process, which holds the
same inputs. Short portions of samples alternate between the two, so that whatever slows the machine down slows both.
Fresh processes differ from each other, by the pages that they got: that takes several passes.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import re
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import Any, TextIO

from kernel_velocity import documents, lock, units
from kernel_velocity.documents import with_checksum
from kernel_velocity.engine.sampling import calibrate
from kernel_velocity.engine.server import ProcessState
from kernel_velocity.engine.statistics import t_975
from kernel_velocity.errors import BenchmarkFailed, KernelVelocityError, UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.names import DEVICES
from kernel_velocity.runner import asv, host
from kernel_velocity.suite import config
from kernel_velocity.suite.benchmark import _KernelBenchmark
from kernel_velocity.suite.suite import Suite
from kernel_velocity.tables import Table, aligned

MODULE = "lab.sharing"  # a measuring process runs it
TURNS = 20
PORTION = 0.03  # s of samples of one process in a turn, of which the first third only fills the caches again
KINDS = ("isolated", "shared")
FEWEST_PASSES, PASSES = 3, 8  # for an interval, by default


@dataclass(frozen=True)
class Series:
    """One implementation of a kernel on one case of a device, to be set up and called outside asv."""

    kernel: str
    device: str
    implementation: str
    case: str
    timed_by: type[_KernelBenchmark]  # the asv class

    @property
    def name(self) -> str:
        """Return the name as asv matches it: ``matmul.Cpu.time_hot('native', 'float32-256x256x256')``."""
        return f"{self.kernel}.{DEVICES[self.device]}.time_hot({self.implementation!r}, {self.case!r})"

    def set_up(self) -> _KernelBenchmark:
        """Return a fresh benchmark with inputs made and its output checked.

        Raises:
            NotImplementedError: n/a here.
            WrongResultError: the output is wrong. It is never timed.
        """
        bench: _KernelBenchmark = self.timed_by()
        bench.setup(self.implementation, self.case)
        return bench


def of_suite(suite: Suite, kernel: str, device: str, implementation: str, case: str) -> Series:
    """Return one implementation of a kernel on a case."""
    return Series(kernel, device, implementation, case, suite.benchmark(kernel, device))


def core_series(device: str, bench: str | None) -> list[Series]:
    """Return every kernel x core case x implementation of a device, whose name contains the expression `bench`.

    Implementations are those that can exist on the device.

    Raises:
        UsageError: no series matches, or `bench` is no regular expression.
    """
    suite = config.suite(Path())
    every = [
        of_suite(suite, str(problem.kernel), device, implementation, case)
        for problem in suite.problems(device)
        for case in problem.core[device]
        for implementation in problem.implementations_on(device)
    ]
    try:
        chosen = [series for series in every if re.search(bench or "", series.name)]
    except re.error as error:
        raise UsageError(f"--bench {bench!r}: not a regular expression ({error})") from None
    if not chosen:
        raise UsageError(f"--bench {bench!r} matches no core series on {device}")
    return chosen


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One series in one pass. By kind of process: s per call of each turn, and s until it was warm."""

    number: int  # of the pass
    series: str
    seconds: dict[str, list[float]]
    setup: dict[str, float]


class _Timed:
    """A forked process that sets series up and takes samples of them."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("fork")
        self._tasks, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._tasks), daemon=True)
        self._process.start()
        theirs.close()

    def ask(self, task: Series | float) -> float:
        """Have it set a series up, or take samples for some s. Return the s that it took, or per call.

        Raises:
            NotImplementedError: n/a here.
            EOFError: the process ended.
        """
        self._tasks.send(task)
        answer: float | Exception = self._tasks.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def end(self) -> None:
        """End it."""
        self._tasks.close()
        self._process.join()


def _serve(tasks: Connection, other_end: Connection) -> None:
    other_end.close()  # the fork's copy: else it would never read as closed
    state = ProcessState()
    sample: Callable[[float], float] | None = None
    with suppress(EOFError):
        while True:
            task = tasks.recv()
            if isinstance(task, float) and sample is not None:
                tasks.send(sample(task))
                continue
            if sample is not None:
                sample = None
                state.put_back()
            began = perf_counter()
            try:
                sample = _sampler(task)
            except NotImplementedError as error:
                tasks.send(error)
            else:
                tasks.send(perf_counter() - began)


def _sampler(series: Series) -> Callable[[float], float]:
    """Set a series up and warm it up. Return a function that takes samples for some s, and returns s per call."""
    bench = series.set_up()
    timer = bench.new_timer()
    per_call, batch = calibrate(bench.call, timer)

    def sample(seconds: float) -> float:
        samples = timer.samples(bench.call, batch, max(3, int(seconds / (batch * per_call))))
        return statistics.median(samples[len(samples) // 3 :])

    return sample


def compare(series: Sequence[Series], passes: int) -> Iterator[Comparison]:
    """Yield a comparison for each pass and each series that applies here.

    This process imports torch, and forks. On a CPU all processes stay on one core.

    Raises:
        EOFError: a process died.
    """
    import torch  # noqa: F401, PLC0415 - once, for all that are forked

    if series[0].device == "cpu":
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for number in range(passes):
        shared = _Timed()
        for member in series:
            isolated = _Timed()
            try:
                yield _compare(number, member, {"isolated": isolated, "shared": shared})
            except NotImplementedError:
                continue
            finally:
                isolated.end()
        shared.end()


def _compare(number: int, series: Series, processes: dict[str, _Timed]) -> Comparison:
    setup = {kind: processes[kind].ask(series) for kind in KINDS}
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for turn in range(TURNS):
        for kind in KINDS if turn % 2 else reversed(KINDS):
            seconds[kind].append(processes[kind].ask(PORTION))
    return Comparison(number=number, series=series.name, seconds=seconds, setup=setup)


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """Return how much longer each series reads in a shared process. A row is a `sharing.Comparison`."""
    by_series: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_series.setdefault(row["series"], []).append(row)
    longer = {series: [_longer(row["seconds"]) for row in passes] for series, passes in by_series.items()}
    cells, apart = [], 0
    for series, values in longer.items():
        mean, half = _interval(values)
        apart += abs(mean) > half
        isolated = statistics.median(value for row in by_series[series] for value in row["seconds"]["isolated"])
        setup = [statistics.fmean(row["setup"][kind] for row in by_series[series]) for kind in KINDS]
        cells.append([series, units.seconds(isolated), *_percents(mean, half), *(f"{value:.3f} s" for value in setup)])
    overall = [statistics.median(values) for values in zip(*longer.values(), strict=True)]
    setup = [statistics.fmean(row["setup"][kind] for row in rows) for kind in KINDS]
    cells.append(["median, and mean", "", *_percents(*_interval(overall)), *(f"{value:.3f} s" for value in setup)])
    note = f"{len(overall)} passes; of {len(longer)} intervals (95%) {apart} do not hold 0, where chance makes 5%"
    heads = ["series", "isolated", "longer", "+-", *(f"warm, {kind}" for kind in KINDS)]
    return Table("in a shared process", note, heads, cells)


def _longer(seconds: dict[str, list[float]]) -> float:
    """Return the median over the turns of log(shared / isolated)."""
    return statistics.median(
        math.log(shared / isolated) for isolated, shared in zip(*(seconds[kind] for kind in KINDS), strict=True)
    )


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and 95% half-width (Student's t)."""
    return statistics.fmean(values), t_975(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def _percents(mean: float, half: float) -> tuple[str, str]:
    return f"{math.expm1(mean):+.2%}", f"{half:.2%}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--bench", metavar="REGEX", help="only series whose name matches, such as 'matmul.*native'")
    text = f"passes, each with fresh processes (default {PASSES})"
    parser.add_argument("--passes", type=int, default=PASSES, help=text)


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Measure, then print the table. Return the exit status."""
    if args.passes < FEWEST_PASSES:
        raise UsageError(f"--passes {args.passes}: wanted at least {FEWEST_PASSES}, for an interval")
    with lock.held(Path()), tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sharing.json")
        options = [f"--device={host.device()}", f"--passes={args.passes}"]
        options += [] if args.bench is None else [f"--bench={args.bench}"]
        status = asv.run_measuring(MODULE, [str(path), *options], lambda line: print(line, file=err, flush=True))
        if status == 0:
            print(aligned(table(documents.read_checked(path)["rows"])), file=out)
    return status


def main(argv: Sequence[str], out: TextIO) -> int:
    """Compare the core series of a device whose names match --bench, and write the passes. Return 0.

    Raises:
        UsageError: no series matches, or --bench is no regular expression.
        BenchmarkFailed: a process died.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}")
    parser.add_argument("target", type=Path)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--bench")
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    args = parser.parse_args(argv)
    series = core_series(args.device, args.bench)
    rows: list[dict[str, Any]] = []
    try:
        for comparison in compare(series, args.passes):
            rows.append(asdict(comparison))
            print(f"pass {comparison.number + 1}: {comparison.series}", file=out, flush=True)
    except EOFError:
        after = rows[-1]["series"] if rows else "the start"
        raise BenchmarkFailed(f"a process ended without a word after {after}") from None
    replace_text(args.target, with_checksum(json.dumps({"rows": rows})) + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:], sys.stdout))
    except KernelVelocityError as problem:
        print(f"error: {problem}", file=sys.stderr)  # noqa: T201
        sys.exit(problem.exit_code)
