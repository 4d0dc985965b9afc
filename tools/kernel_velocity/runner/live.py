"""Run a live stage in a fresh process, with the environment that every measuring process gets.

The allocator reads its settings when a process starts, so the command starts another one. That one's module path is
`python -m kernel_velocity.runner.live STAGE ARGS`: it imports the stage alone, and torch through
`kernel_velocity.harness`.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import IO, TextIO

from kernel_velocity import config
from kernel_velocity.errors import KernelVelocityError, UsageError
from kernel_velocity.harness.cases import NATIVE
from kernel_velocity.harness.suite import Series
from kernel_velocity.processes import contained
from kernel_velocity.runner.host import measuring_variables

INTERRUPTED = 130  # what a shell reports for a command that Ctrl-C ended
_NOISE = "USDT:"  # what the library behind torch's profiler prints at each start and stop, whatever its log level
PATIENCE = 5.0  # s that an interrupted stage has to end by itself


def run(stage: str, argv: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Run a stage in a measuring process. Return its exit status.

    Args:
        stage: one of those of offline/live.py.
        argv: its arguments.
        out: gets what it prints, line by line.
        err: gets its notes and the one line of an error.

    Raises:
        UsageError: KV_THREADS is not a number of threads.
    """
    environment = {**os.environ, **measuring_variables(os.environ.get("KV_THREADS") or None), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "kernel_velocity.runner.live", stage, *argv]
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


def chosen(device: str, pattern: str | None, most: int | None = None) -> list[Series]:
    """Return the core series of a device whose name matches --bench.

    With `most` only so many: of each kernel its first, then of each its second, native ones before others.

    Raises:
        UsageError: no regular expression, or none matches.
    """
    try:
        suite = config.suite(Path())
        names = list(suite.core_series(device, pattern))
    except re.error as error:
        raise UsageError(f"--bench {pattern!r}: not a regular expression ({error})") from None
    if not names:
        example = next(suite.core_series(device)).name
        raise UsageError(f"--bench {pattern!r} matches no core series on {device}; one of them is {example}")
    if most is None:
        return names
    names.sort(key=lambda series: series.implementation != NATIVE)
    of_kernels = [[series for series in names if series.kernel == kernel] for kernel in {s.kernel: None for s in names}]
    return [series for turn in zip_longest(*of_kernels) for series in turn if series is not None][:most]


def add_device(parser: argparse.ArgumentParser) -> None:
    """Declare --device."""
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True, help="what to measure")


def add_bench(parser: argparse.ArgumentParser) -> None:
    """Declare --bench."""
    parser.add_argument("--bench", metavar="REGEX", help="only series whose name matches, such as 'matmul.*native'")


def options_given(args: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """Return the options of these names that were given, as a command line."""
    values = {name: getattr(args, name) for name in names}
    return [f"--{name}={value}" for name, value in values.items() if value is not None]


def main(argv: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Measure a stage in this process. Return its exit status."""
    stages = importlib.import_module("kernel_velocity.offline.live")
    parser = argparse.ArgumentParser(prog="python -m kernel_velocity.runner.live")
    stages.add_arguments(parser)
    try:
        status: int = stages.measure(parser.parse_args(argv), out, err)
    except KernelVelocityError as error:
        print(f"error: {error}", file=err)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout, sys.stderr))
