"""The live measurements: ceilings, timers. live.py starts each in a process of its own.

    ceilings FILE.json    what the machine can do at most (harness/ceilings.py). --caches sweeps the caches too
    timers FILE.json      our timers beside independent ones (harness/independent.py)
    sharing FILE.json     series that share a process beside series in their own (harness/sharing.py)

A file appears whole.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, TextIO

from kernel_velocity import config
from kernel_velocity.errors import BenchmarkFailed, KernelVelocityError, NothingMeasured, UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.harness import ceilings, independent, sharing
from kernel_velocity.harness.cases import NATIVE
from kernel_velocity.harness.documents import with_checksum
from kernel_velocity.harness.suite import Series
from kernel_velocity.harness.timing import prepare_torch
from kernel_velocity.runner import live
from kernel_velocity.statuses import Status


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the process is started with."""
    parser.add_argument("what", choices=("ceilings", "sharing", "timers"))
    parser.add_argument("target", type=Path)
    parser.add_argument("--caches", action="store_true")
    parser.add_argument("--passes", type=int, default=1)  # of sharing
    parser.add_argument("--most", type=int)  # series, where there is no time for all
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    live.add_bench(parser)


def main(argv: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Measure a stage in this process. Return its exit status."""
    parser = argparse.ArgumentParser(prog=f"python -m {live.MODULE}")
    add_arguments(parser)
    try:
        return measure(parser.parse_args(argv), out, err)
    except KernelVelocityError as error:
        print(f"error: {error}", file=err)
        return error.exit_code
    except KeyboardInterrupt:
        return Status.INTERRUPTED


def measure(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Measure in this process. Return the exit status.

    Raises:
        UsageError: torch or the device is missing, or an option makes no sense.
        BenchmarkFailed: a process of several series ended.
        NothingMeasured: no series could be timed.
    """
    try:
        stages = {"ceilings": _ceilings, "sharing": _sharing, "timers": _timers}
        return stages[args.what](args, out, err)
    except NotImplementedError as error:
        raise UsageError(f"--device {args.device}: {error}; nothing was measured") from None


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


def _ceilings(args: argparse.Namespace, _out: TextIO, err: TextIO) -> int:
    """Measure the ceilings of the device."""
    loops = config.suite(Path()).loops() if Path(config.NAME).exists() else None
    document = ceilings.measure(args.device, caches=args.caches, loops=loops)
    _write(args.target, document)
    err.writelines(f"warning: {warning}\n" for warning in document["warnings"])
    return 0


def _sharing(args: argparse.Namespace, out: TextIO, _err: TextIO) -> int:
    """Compare both kinds of process, pass by pass."""
    rows: list[dict[str, Any]] = []
    try:
        for comparison in sharing.compare(chosen(args.device, args.bench, args.most), args.passes):
            rows.append(asdict(comparison))
            out.write(f"pass {comparison.number + 1}: {comparison.series}\n")
    except EOFError:
        after = rows[-1]["series"] if rows else "the start"
        raise BenchmarkFailed(f"a process ended without a word after {after}") from None
    _write(args.target, {"rows": rows})
    return 0


def _timers(args: argparse.Namespace, _out: TextIO, _err: TextIO) -> int:
    """Compare our timers with independent ones. Disagreement is a finding, not a failure."""
    series = chosen(args.device, args.bench, args.most)
    prepare_torch(args.device)
    document = independent.measure(series, args.device, partial(_write, args.target))
    _write(args.target, document)
    if all(row["harness"] is None for row in document["rows"]):
        raise NothingMeasured(f"--device {args.device}: none of {len(series)} series could be timed, see {args.target}")
    return 0


def _write(path: Path, document: Mapping[str, Any]) -> None:
    replace_text(path, with_checksum(json.dumps(document)) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout, sys.stderr))
