"""`kv offline traces FOLDER --device D`: record raw samples of every timer and cache state.

One file per trace, which appears whole; what is there already is not repeated, so that a command that was cut off goes
on where it was. FOLDER/missing.json lists what could not be traced, and why.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from kernel_velocity.errors import BenchmarkFailed, NothingMeasured, ResultsError, UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.harness import traces
from kernel_velocity.harness.suite import Series
from kernel_velocity.runner import live

MISSING = "missing.json"
STARTED = "started.json"  # series -> how often it was begun since its last trace; a process that dies cannot say so
ATTEMPTS = 3  # then a series is left out: it took its process with it each time


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the step's arguments."""
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="where the traces are written")
    parser.add_argument("--seconds", type=float, default=1.0, help="wall time of a trace (default: 1.0)")
    live.add_device(parser)
    live.add_bench(parser)


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Record in a process of its own; return its exit status."""
    return live.run("traces", [str(args.folder), *live.given(args, ("seconds", "device", "bench"))], out, err)


def measure(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Record in this process; print a line per trace.

    Raises:
        UsageError: --seconds or --bench makes no sense.
        ResultsError: a file of FOLDER cannot be read.
        BenchmarkFailed: a series raised or died; the others were traced.
        NothingMeasured: no series applies here.
    """
    if not 0 < args.seconds < 3600:
        raise UsageError(f"--seconds {args.seconds:g}: wanted a time between 0 and an hour")
    recorder = Recorder(args.folder, args.seconds, out)
    series = live.chosen(args.device, args.bench)
    failed = [each.name for each in series if not recorder.record(each)]
    recorder.finish(series)
    if failed:
        raise BenchmarkFailed(f"{len(failed)} series could not be traced, see {args.folder / MISSING}: {failed[0]}")
    if not any(args.folder.glob(f"*-{args.device}-*.json")):
        raise NothingMeasured(f"--device {args.device}: no series applies here, see {args.folder / MISSING}")
    return 0


class Recorder:
    """Writes the traces of series into a folder, and keeps account of those that have none."""

    def __init__(self, folder: Path, seconds: float, out: TextIO) -> None:
        self._folder, self._seconds, self._out = folder, seconds, out
        self._started: dict[str, int] = self._load(STARTED) or {}
        self._missing: dict[str, dict[str, Any]] = {}

    def record(self, series: Series) -> bool:
        """Record what is not there yet; return whether nothing failed (n/a is no failure)."""
        attempts = self._started.get(series.name, 0)
        if attempts >= ATTEMPTS:
            return self._miss(
                series, f"its process ended {attempts} times without a word: not tried again", failed=True
            )
        self._begin(series, attempts + 1)
        try:
            for name, trace in traces.record(series, self._seconds, self._load):
                replace_text(self._folder / name, json.dumps(trace, separators=(",", ":")) + "\n")
                self._out.write(f"{name}: {len(trace['seconds'])} samples of batch {trace['batch']}\n")
                self._begin(series, 1)
        except (KeyboardInterrupt, ResultsError):
            self._begin(series, attempts)
            raise
        except NotImplementedError as error:
            self._begin(series, 0)
            return self._miss(series, str(error), failed=False)
        except Exception as error:  # noqa: BLE001 - nobody watches: what one series raises must not cost the others
            self._begin(series, 0)
            return self._miss(series, f"{type(error).__name__}: {error}", failed=True)
        self._begin(series, 0)
        return True

    def finish(self, series: Sequence[Series]) -> None:
        """Write what is missing; what an earlier command said of other series stays."""
        before = self._load(MISSING) or {"missing": []}
        names = {each.name for each in series}
        kept = {each["series"]: each for each in before["missing"] if each["series"] not in names}
        missing = [*kept.values(), *self._missing.values()]
        replace_text(self._folder / MISSING, json.dumps({"format": traces.FORMAT, "missing": missing}, indent=1) + "\n")

    def _begin(self, series: Series, attempts: int) -> None:
        """Keep account of a series that is begun; 0: it has ended."""
        others = {name: count for name, count in self._started.items() if name != series.name}
        self._started = {**others, series.name: attempts} if attempts else others
        replace_text(self._folder / STARTED, json.dumps(self._started) + "\n")

    def _miss(self, series: Series, why: str, *, failed: bool) -> bool:
        self._missing[series.name] = {
            "series": series.name,
            "kernel": series.kernel,
            "device": series.device,
            "implementation": series.implementation,
            "case": series.case,
            "failed": failed,
            "why": " ".join(why.split()),
        }
        self._out.write(f"{series.name}: {'failed' if failed else 'n/a'}: {self._missing[series.name]['why']}\n")
        return not failed

    def _load(self, name: str) -> dict[str, Any] | None:
        path = self._folder / name
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ResultsError(f"{path} is not JSON ({error}): remove it, and it is made again") from None
        return found
