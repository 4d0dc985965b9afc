"""``python -m tools spread``: how far apart sessions of identical code are, raw and adjusted by the controls.

Measures one commit in several sessions (each a whole `asv run` of its own), keeps their telemetry in
`.asv/sessions/<environment>-<method>/<commit8>/` and nothing in results/, and prints the spread of the sessions'
medians per native series. Beta is fitted on the other sessions than the one it adjusts.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import shutil
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from asv.config import Config

from benchmarks.harness import telemetry, timing
from benchmarks.harness.cases import CONTROLS
from benchmarks.harness.sampling import ROUNDS
from benchmarks.harness.telemetry import Round
from tools import failures, lock, selection
from tools.adjustment import Logs, RoundKey, adjust
from tools.asv_process import run_asv
from tools.asv_setup import environment_of, machine
from tools.errors import NothingMeasured, ResultsError, UsageError
from tools.host import device
from tools.stored_file import Series

DEFAULT_SESSIONS = 10
LOG = Path(".asv", "logs", "spread.log")
FAILED = 2  # asv's status where a benchmark failed and the others were measured
MIN_SESSIONS = 3  # a spread of fewer is no spread
MACHINE = "kv-spread"  # asv interleaves rounds only where it stores results: under this name, removed afterwards


@dataclass(frozen=True, kw_only=True)
class Row:
    """One series over the sessions. Spreads are standard deviations of the sessions' median log times."""

    series: Series
    seconds: float  # median of the sessions' medians
    raw: float
    adjusted: float | None  # None: no control was measured in the same rounds
    beta: float | None  # mean over the fits
    correlation: float | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--sessions", type=int, default=DEFAULT_SESSIONS, help="sessions to have in the end")
    parser.add_argument("--commit", default="HEAD", help="the commit to measure (default HEAD)")
    parser.add_argument("--tier", default="core", help="core (default) or full")
    parser.add_argument("--bench", help="a regular expression that the series to measure match")
    parser.add_argument("--root", type=Path, default=Path(), help="the folder of asv.conf.json (default: here)")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Measure the sessions that are missing, then print the table."""
    if args.sessions < MIN_SESSIONS:
        raise UsageError(f"--sessions {args.sessions}: at least {MIN_SESSIONS} make a spread")
    with contextlib.chdir(args.root), lock.held(Path()):
        (commit,) = selection.commits(Path(), args.commit)[:1]
        method = timing.method(os.environ)
        folder = Path(".asv", "sessions", f"{environment_of(Config.load()).name}-{method}", commit[:8])
        chosen = selection.select(device(), args.tier, args.bench)
        for number in range(1, args.sessions + 1):
            kept = folder / f"{number:02}.jsonl"
            if not kept.exists():
                began = time.time()
                if _measure(commit, chosen.expressions(), kept):
                    print(f"session {number}: a series failed (log: {LOG.absolute()})", file=err, flush=True)
                print(f"session {number}/{args.sessions}: {time.time() - began:.0f} s", file=out, flush=True)
        sessions = {path.stem: _read(path) for path in sorted(folder.glob("*.jsonl"))}
    _check_method(sessions)
    print(table(rows(sessions)), file=out)
    return 0


def _measure(commit: str, expressions: Sequence[str], kept: Path) -> bool:
    """Run one session and move its telemetry to `kept`; return whether a series failed.

    Nothing of a session stays in the spool, however it ends: no result will ever claim it.
    """
    conf = Config.load()
    environment = environment_of(conf).name
    spool = telemetry.spool_path(Path.cwd(), environment, commit)
    if spool.exists():
        raise UsageError(f"{spool}: rounds of this commit wait to be ingested; run `python -m tools ingest` first")
    benches = [text for expression in expressions for text in ("--bench", expression)]
    options = ["--interleave-rounds", "--machine", machine(MACHINE), "--attribute", f"rounds={ROUNDS}"]
    kept.parent.mkdir(parents=True, exist_ok=True)
    try:
        status = run_asv(
            ["run", f"{commit}^!", *options, *benches],
            root=Path(),
            environment=os.environ,
            log=LOG,
            on_line=lambda line: None,
        )
        if status not in (0, FAILED) or not spool.exists():
            raise NothingMeasured(f"asv run ended with status {status} (log: {LOG.absolute()})")
        spool.replace(kept)
    finally:
        shutil.rmtree(Path(conf.results_dir, MACHINE), ignore_errors=True)
        spool.unlink(missing_ok=True)
        failures.spool_path(Path.cwd(), environment, commit).unlink(missing_ok=True)
    return status == FAILED


def _read(path: Path) -> list[Round]:
    try:
        return [telemetry.decode(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except telemetry.TelemetryError as error:
        raise ResultsError(f"{path}: {error}; remove the file to measure that session again") from None


def _check_method(sessions: Mapping[str, Iterable[Round]]) -> None:
    """Raise ResultsError where sessions were timed by different methods: their spread says nothing."""
    found = sorted({item.method for rounds in sessions.values() for item in rounds})
    if len(found) > 1:
        raise ResultsError(f"the sessions were timed by {len(found)} methods ({', '.join(found)}): remove some of them")


def _logs(sessions: Mapping[str, Iterable[Round]]) -> dict[Series, dict[RoundKey, float]]:
    found: dict[Series, dict[RoundKey, float]] = {}
    for session, rounds in sessions.items():
        for item in rounds:
            found.setdefault((item.benchmark, item.params), {})[session, item.launch] = math.log(item.estimate)
    return found


def _medians(values: Logs) -> dict[str, float]:
    by_session: dict[str, list[float]] = {}
    for (session, _), value in values.items():
        by_session.setdefault(session, []).append(value)
    return {session: statistics.median(found) for session, found in by_session.items()}


def rows(sessions: Mapping[str, Iterable[Round]]) -> list[Row]:
    """Return a row for every series that is not a control.

    Raises:
        ResultsError: fewer than MIN_SESSIONS sessions.
    """
    logs = _logs(sessions)
    if len(sessions) < MIN_SESSIONS:
        raise ResultsError(f"{len(sessions)} sessions: at least {MIN_SESSIONS} make a spread")
    return [
        _row(series, logs)
        for series in sorted(logs)
        if series[1][0] not in CONTROLS and len(_medians(logs[series])) >= MIN_SESSIONS
    ]


def _row(series: Series, logs: Mapping[Series, Logs]) -> Row:
    """Adjust each session with a beta that was fitted on the others."""
    values = logs[series]
    state = series[0].rpartition(".")[2]  # hot or cold: what empties the caches says nothing of a round that has them
    controls = [
        found for (name, params), found in logs.items() if params[0] in CONTROLS and name.rpartition(".")[2] == state
    ]
    raw = _medians(values)
    row = Row(
        series=series,
        seconds=math.exp(statistics.median(raw.values())),
        raw=statistics.stdev(raw.values()),
        adjusted=None,
        beta=None,
        correlation=None,
    )
    in_controls = {session for control in controls for session, _ in control}
    if not in_controls.issuperset(raw):
        return row
    adjusted, betas = {}, []
    for left_out in raw:
        others = {key: value for key, value in values.items() if key[0] != left_out}
        fit = adjust(values, controls, fitted_on=others)
        betas.append(fit.beta)
        adjusted[left_out] = _medians(fit.values)[left_out]
    return replace(
        row,
        adjusted=statistics.stdev(adjusted.values()),
        beta=statistics.fmean(betas),
        correlation=adjust(values, controls).correlation,
    )


def table(found: Sequence[Row]) -> str:
    """Return the rows as text: spread in percent, one standard deviation between sessions."""
    lines = [f"{'series':44} {'time':>10} {'raw':>7} {'adjusted':>9} {'beta':>6} {'r':>6}"]
    for row in found:
        name = f"{row.series[0]} {' '.join(row.series[1])}"
        adjusted = "-" if row.adjusted is None else f"{row.adjusted:.2%}"
        beta = "-" if row.beta is None else f"{row.beta:.2f}"
        r = "-" if row.correlation is None else f"{row.correlation:.2f}"
        lines.append(f"{name:44} {row.seconds * 1e3:7.3f} ms {row.raw:7.2%} {adjusted:>9} {beta:>6} {r:>6}")
    return "\n".join(lines)
