"""PyTorch's packages of `compile`, made before the rounds that run them.

A package takes seconds to compile, and half of that PyTorch spends on importing its compiler. One process imports it
once, and forks others, which share the packages out: a run of `kv track` starts it (`python -m ... KERNEL CASE ...`).
What it leaves undone a round makes itself, or says why it cannot.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_velocity.engine import timing
from kernel_velocity.names import COMPILED, DEVICES
from kernel_velocity.problem import implementations
from kernel_velocity.statuses import Status
from kernel_velocity.suite import config
from kernel_velocity.suite.under_test import root_folder

if TYPE_CHECKING:
    from kernel_velocity.problem.problem import Problem
    from kernel_velocity.results.asv_file import Series

MODULE = "kernel_velocity.suite.packages"


def folder() -> Path:
    """Return the folder of the packages."""
    return root_folder(os.environ) / ".asv" / "cache" / "aoti"


def lacking(series: Iterable[Series]) -> tuple[Series, ...]:
    """Return those of some series that run a package which the current folder's clone does not have, of any torch."""
    suffix = f".{DEVICES['cpu']}"
    of_compile = [key for key in series if key[1][0] == COMPILED and key[0].rpartition(".")[0].endswith(suffix)]
    return tuple(key for key in of_compile if not _is_there(key))


def cases(series: Iterable[Series]) -> tuple[tuple[str, str], ...]:
    """Return the kernels and test cases of some series."""
    return tuple(dict.fromkeys((name.partition(".")[0], case) for name, (_, case) in series))


def _is_there(series: Series) -> bool:
    name, (_, case) = series
    problem = _problem(name.partition(".")[0])
    return problem is None or implementations.has_package(problem, case, folder())


def _problem(kernel: str) -> Problem | None:
    """Return the problem of a kernel on the CPU. None where its `compile` is not PyTorch's."""
    problem = getattr(config.suite(Path()).benchmark(kernel, "cpu"), "problem", None)
    return None if problem is None or COMPILED in problem.functions else problem


# The process that makes them ------------------------------------------------------------------------------------------


def main(argv: Sequence[str]) -> int:
    """Make the packages of test cases, each named by a kernel and a case. Return the exit status."""
    wanted = [*zip(argv[::2], argv[1::2], strict=True)]
    timing.prepare_torch("cpu")
    implementations.import_compiler()
    workers = min(len(wanted), len(os.sched_getaffinity(0)))
    try:
        with ProcessPoolExecutor(workers, get_context("fork")) as pool:
            for made in [pool.submit(_make, *case) for case in wanted]:
                made.result()
    except KeyboardInterrupt:
        return Status.INTERRUPTED
    return 0


def _make(kernel: str, case: str) -> None:
    problem = _problem(kernel)
    if problem is None:
        return
    try:
        implementations.package(problem, case, problem.test_case(case)["create_inputs"](), folder())
    except Exception:  # noqa: BLE001 - a reference may raise anything
        implementations.leave_to_rounds(problem, case, folder())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
