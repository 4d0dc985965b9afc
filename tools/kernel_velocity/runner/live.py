"""Run a live stage in a fresh process, with the environment that every measuring process gets.

The allocator reads its settings when a process starts, so the command starts another one (stages.py).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from typing import IO, TextIO

from kernel_velocity.processes import contained
from kernel_velocity.runner.host import measuring_variables

MODULE = "kernel_velocity.runner.stages"  # run, not imported: it imports all that measures
_NOISE = "USDT:"  # what the library behind torch's profiler prints at each start and stop, whatever its log level
PATIENCE = 5.0  # s that an interrupted stage has to end by itself


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
    environment = {**os.environ, **measuring_variables(os.environ.get("KV_THREADS") or None), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", MODULE, stage, *argv]
    with (
        contained() as mark,
        subprocess.Popen(
            command,
            env={**environment, **mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as process,
    ):
        notes = threading.Thread(target=_pass_on, args=(process.stderr, err))
        notes.start()
        try:
            _pass_on(process.stdout, out)
            return process.wait()
        except BaseException:
            _end(process)
            raise
        finally:
            notes.join()


def _pass_on(lines: IO[str] | None, to: TextIO) -> None:
    for line in lines or ():
        if not line.startswith(_NOISE):
            to.write(line)
            to.flush()


def _end(process: subprocess.Popen[str]) -> None:
    """Wait for the stage, which Ctrl-C interrupts too. Then kill it: it must not share the device with what is next."""
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()


def add_bench(parser: argparse.ArgumentParser) -> None:
    """Declare --bench."""
    parser.add_argument("--bench", metavar="REGEX", help="only series whose name matches, such as 'matmul.*native'")


def options_given(args: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """Return the options of these names that were given, as a command line."""
    values = {name: getattr(args, name) for name in names}
    return [f"--{name}={value}" for name, value in values.items() if value is not None]
