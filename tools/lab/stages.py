"""What `lab record` measures, in a measuring process (`python -m lab.stages`).

    traces FOLDER         raw samples of every timer and cache state (traces.py), a file for each

A file appears whole. A trace that is there is not repeated, so an interrupted command resumes.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from kernel_velocity import config
from kernel_velocity.errors import BenchmarkFailed, KernelVelocityError, NothingMeasured, UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.harness import documents, traces
from kernel_velocity.harness.documents import with_checksum
from kernel_velocity.harness.suite import Series

MODULE = "lab.stages"


def add_bench(parser: argparse.ArgumentParser) -> None:
    """Declare --bench."""
    parser.add_argument("--bench", metavar="REGEX", help="only series whose name matches, such as 'matmul.*native'")


def options_given(args: argparse.Namespace, names: Sequence[str]) -> list[str]:
    """Return the options of these names that were given, as a command line."""
    values = {name: getattr(args, name) for name in names}
    return [f"--{name}={value}" for name, value in values.items() if value is not None]


def main(argv: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Measure in this process. Return the exit status."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}")
    parser.add_argument("what", choices=("traces",))
    parser.add_argument("target", type=Path)
    parser.add_argument("--seconds", type=float, default=1.0)  # wall time of a trace
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    add_bench(parser)
    args = parser.parse_args(argv)
    try:
        record(chosen(args.device, args.bench), args.target, args.seconds, out)
    except KernelVelocityError as error:
        print(f"error: {error}", file=err)
        return error.exit_code
    return 0


def chosen(device: str, pattern: str | None) -> list[Series]:
    """Return the core series of a device whose name matches --bench.

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
    return names


def record(series: Sequence[Series], folder: Path, seconds: float, out: TextIO) -> None:
    """Record the traces that are missing in a folder. A series that fails costs no other.

    Raises:
        UsageError: `seconds` makes no sense.
        BenchmarkFailed: a series could not be traced. The others were.
        NothingMeasured: no series applies here.
    """
    if not 0 < seconds < 3600:
        raise UsageError(f"--seconds {seconds:g}: wanted a time between 0 and an hour")
    failed = []

    def load(name: str) -> dict[str, Any] | None:
        try:
            return documents.read(folder / name)
        except (FileNotFoundError, documents.DamagedError):
            return None  # it is made again

    for member in series:
        try:
            for name, trace in traces.record(member, seconds, load):
                replace_text(folder / name, with_checksum(json.dumps(trace, separators=(",", ":"))) + "\n")
                out.write(f"{name}: {len(trace['seconds'])} samples of batch {trace['batch']}\n")
        except NotImplementedError as error:
            out.write(f"{member.name}: n/a: {error}\n")
        except Exception as error:  # noqa: BLE001 - what one series raises must not cost the others
            failed.append(member.name)
            out.write(f"{member.name}: failed: {type(error).__name__}: {error}\n")
    if failed:
        raise BenchmarkFailed(f"{len(failed)} series could not be traced, the first of them {failed[0]}")
    if not any(folder.glob("*.json")):
        raise NothingMeasured("no series applies here")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout, sys.stderr))
