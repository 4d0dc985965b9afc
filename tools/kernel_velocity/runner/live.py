"""Run a live stage in a fresh process, with the environment that every measuring process gets.

The allocator reads its settings when a process starts, so the command starts another one (stages.py).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

from kernel_velocity.runner import child
from kernel_velocity.runner.host import measuring_variables

MODULE = "kernel_velocity.runner.stages"  # run, not imported: it imports all that measures


def run(stage: str, argv: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Run a stage in a measuring process. Return its exit status.

    Args:
        stage: one of those of stages.py.
        argv: its arguments.
        out: gets what it prints, line by line.
        err: gets its notes and the one line of an error.

    Raises:
        UsageError: KV_THREADS is not a number of threads.
    """
    environ = {**os.environ, **measuring_variables(os.environ.get("KV_THREADS") or None)}
    command = [sys.executable, "-m", MODULE, stage, *argv]
    return child.run(command, _to(out), environ=environ, on_error=_to(err))


def _to(stream: TextIO) -> Callable[[str], None]:
    return lambda line: print(line, file=stream, flush=True)


def add_bench(parser: argparse.ArgumentParser) -> None:
    """Declare --bench."""
    parser.add_argument("--bench", metavar="REGEX", help="only series whose name matches, such as 'matmul.*native'")


def options_given(args: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """Return the options of these names that were given, as a command line."""
    values = {name: getattr(args, name) for name in names}
    return [f"--{name}={value}" for name, value in values.items() if value is not None]
