"""``kv lab spread``: how far apart sessions of identical code are, raw and adjusted.

Prints the spread of the sessions' medians per native series. The betas are fitted on the other sessions than the one
that they adjust.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TextIO

from kernel_velocity.errors import ResultsError
from kernel_velocity.harness.cases import CONTROLS
from kernel_velocity.lab import sessions as identical_sessions
from kernel_velocity.lab.sessions import Sessions
from kernel_velocity.results.asv_file import Series
from kernel_velocity.stats.adjust import Logs, RoundKey, adjusted, slopes
from kernel_velocity.tables import columns

DEFAULT_SESSIONS = 10
IDENTICAL = "identical"  # the code of all sessions: one commit's
MIN_SESSIONS = 3  # a spread of fewer is no spread


@dataclass(frozen=True, kw_only=True)
class Row:
    """One series over the sessions. Spreads are standard deviations of the sessions' median log times."""

    series: Series
    seconds: float  # median of the sessions' medians
    raw: float
    adjusted: float | None  # None: no gauge and no control was measured in the same rounds
    betas: tuple[float, ...] = ()  # means over the fits
    explained: float | None = None  # R^2 over the rounds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    identical_sessions.add_arguments(parser, DEFAULT_SESSIONS)


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Measure the sessions that are missing, then print the table."""
    print(table(rows(identical_sessions.obtain(args, MIN_SESSIONS, out, err))), file=out)
    return 0


def medians(values: Logs) -> dict[str, float]:
    """Return the median of every session's rounds."""
    by_session: dict[str, list[float]] = {}
    for (session, _), value in values.items():
        by_session.setdefault(session, []).append(value)
    return {session: statistics.median(found) for session, found in by_session.items()}


def rows(sessions: Sessions) -> list[Row]:
    """Return a row for every series that is not a control.

    Raises:
        ResultsError: fewer than MIN_SESSIONS sessions.
    """
    if len(sessions) < MIN_SESSIONS:
        raise ResultsError(f"{len(sessions)} sessions: at least {MIN_SESSIONS} make a spread")
    logs, signals = identical_sessions.logs(sessions), identical_sessions.signals(sessions)
    return [
        _row(series, logs[series], signals[series])
        for series in sorted(logs)
        if series[1][0] not in CONTROLS and len(medians(logs[series])) >= MIN_SESSIONS
    ]


def _row(series: Series, values: Logs, signals: Sequence[Logs]) -> Row:
    raw = medians(values)
    row = Row(
        series=series,
        seconds=math.exp(statistics.median(raw.values())),
        raw=statistics.stdev(raw.values()),
        adjusted=None,
    )
    if not signals or not all({session for session, _ in signal} >= set(raw) for signal in signals):
        return row
    freed, betas = out_of_sample(values, signals)
    return replace(
        row,
        adjusted=statistics.stdev(medians(freed).values()),
        betas=tuple(statistics.fmean(found) for found in zip(*betas, strict=True)),
        explained=slopes(values, signals, dict.fromkeys(raw, IDENTICAL))[1],
    )


def out_of_sample(values: Logs, signals: Sequence[Logs]) -> tuple[dict[RoundKey, float], list[tuple[float, ...]]]:
    """Return every session adjusted with betas that were fitted on the others, and those betas. All ran the same."""
    freed: dict[RoundKey, float] = {}
    code = dict.fromkeys(medians(values), IDENTICAL)
    betas = []
    for left_out in medians(values):
        others = {key: value for key, value in values.items() if key[0] != left_out}
        betas.append(slopes(others, signals, code)[0])
        own = {key: value for key, value in values.items() if key[0] == left_out}
        freed |= adjusted(own, signals, betas[-1])
    return freed, betas


def table(found: Sequence[Row]) -> str:
    """Return the rows as text: spread in percent, one standard deviation between sessions."""
    cells = [["series", "time", "raw", "adjusted", "betas", "R^2"]]
    for row in found:
        freed = "-" if row.adjusted is None else f"{row.adjusted:.2%}"
        betas = " ".join(f"{beta:.2f}" for beta in row.betas) or "-"
        explained = "-" if row.explained is None else f"{row.explained:.2f}"
        name = f"{row.series[0]} {' '.join(row.series[1])}"
        cells.append([name, f"{row.seconds * 1e3:.3f} ms", f"{row.raw:.2%}", freed, betas, explained])
    return columns(cells)
