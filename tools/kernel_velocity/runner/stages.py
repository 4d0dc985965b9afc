"""The live measurements: ceilings, timers, traces. live.py starts each in a process of its own.

    ceilings FILE.json    what the machine can do at most (harness/ceilings.py). --caches sweeps the caches too
    timers FILE.json      our timers beside independent ones (harness/independent.py)
    sharing FILE.json     series that share a process beside series in their own (harness/sharing.py)
    traces FOLDER         raw samples of every timer and cache state (harness/traces.py), a file for each

A file appears whole. A trace that is there is not repeated, so an interrupted command resumes.
FOLDER/missing.json lists the series without a trace, and why.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, TextIO

from kernel_velocity import config
from kernel_velocity.errors import BenchmarkFailed, KernelVelocityError, NothingMeasured, UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.harness import ceilings, documents, independent, sharing, traces
from kernel_velocity.harness.cases import NATIVE
from kernel_velocity.harness.documents import with_checksum
from kernel_velocity.harness.suite import Series
from kernel_velocity.harness.timing import prepare_torch
from kernel_velocity.runner import live

MISSING = "missing.json"
STARTED = "started.json"  # series -> how many processes began it and ended without a word
ATTEMPTS = 3  # then a series is left out
INTERRUPTED = 130  # what a shell reports for a command that Ctrl-C ended


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the process is started with."""
    parser.add_argument("what", choices=("ceilings", "sharing", "timers", "traces"))
    parser.add_argument("target", type=Path)
    parser.add_argument("--caches", action="store_true")
    parser.add_argument("--seconds", type=float, default=1.0)  # wall time of a trace
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
        return INTERRUPTED


def measure(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Measure in this process. Return the exit status.

    Raises:
        UsageError: torch or the device is missing, or an option makes no sense.
        BenchmarkFailed: a series could not be traced. The others were.
        NothingMeasured: no series could be timed or traced.
    """
    try:
        stages = {"ceilings": _ceilings, "sharing": _sharing, "timers": _timers, "traces": _traces}
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


def _traces(args: argparse.Namespace, out: TextIO, _err: TextIO) -> int:
    """Record the traces that are missing in the folder."""
    folder: Path = args.target
    if not 0 < args.seconds < 3600:
        raise UsageError(f"--seconds {args.seconds:g}: wanted a time between 0 and an hour")
    series = chosen(args.device, args.bench, args.most)
    wanted = {member.name for member in series}
    before = (_read(folder / MISSING) or {"missing": []})["missing"]
    missing = [entry for entry in before if entry["series"] not in wanted]  # of an earlier command's other series
    for member in series:
        why, failed = _record(member, args, out)
        if why is not None:
            why = " ".join(why.split())
            names = {"kernel": member.kernel, "device": member.device, "implementation": member.implementation}
            missing.append({"series": member.name, **names, "case": member.case, "failed": failed, "why": why})
            out.write(f"{member.name}: {'failed' if failed else 'n/a'}: {why}\n")
    _write(folder / MISSING, {"format": traces.FORMAT, "missing": missing})
    failures = [entry["series"] for entry in missing if entry["failed"] and entry["series"] in wanted]
    if failures:
        raise BenchmarkFailed(f"{len(failures)} series could not be traced, see {folder / MISSING}: {failures[0]}")
    if not any(folder.glob(f"*-{args.device}-*.json")):
        raise NothingMeasured(f"--device {args.device}: no series applies here, see {folder / MISSING}")
    return 0


def _record(series: Series, args: argparse.Namespace, out: TextIO) -> tuple[str | None, bool]:
    """Record the traces of a series. Return why some are missing (None: none is), and whether that is a failure."""
    started = (_read(args.target / STARTED) or {"started": {}})["started"]
    others = {name: count for name, count in started.items() if name != series.name}
    attempts = started.get(series.name, 0)
    if attempts >= ATTEMPTS:
        return f"its process ended {attempts} times without a word: not tried again", True
    _write(args.target / STARTED, {"started": {**others, series.name: attempts + 1}})
    why: str | None = None
    failed = False
    try:
        for name, trace in traces.record(series, args.seconds, lambda name: _read(args.target / name, documents.read)):
            replace_text(args.target / name, with_checksum(json.dumps(trace, separators=(",", ":"))) + "\n")
            out.write(f"{name}: {len(trace['seconds'])} samples of batch {trace['batch']}\n")
    except KeyboardInterrupt:
        _write(args.target / STARTED, {"started": started})
        raise
    except NotImplementedError as error:
        why = str(error)
    except Exception as error:  # noqa: BLE001 - nobody watches: what one series raises must not cost the others
        why, failed = f"{type(error).__name__}: {error}", True
    _write(args.target / STARTED, {"started": others})
    return why, failed


def _write(path: Path, document: Mapping[str, Any]) -> None:
    replace_text(path, with_checksum(json.dumps(document)) + "\n")


def _read(path: Path, read: Callable[[Path], dict[str, Any]] = documents.read_checked) -> dict[str, Any] | None:
    """Return a document. None where there is none, or it is damaged: then it is made again."""
    try:
        return read(path)
    except (FileNotFoundError, documents.DamagedError):
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout, sys.stderr))
