"""``python -m lab spread``: how far apart sessions of identical code are, raw and adjusted.

Prints the spread of the sessions' medians per native series. A session is adjusted with slopes fitted on the others.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple, TextIO

from kernel_velocity.ab import false_alarms
from kernel_velocity.ab.false_alarms import IdenticalSessions, out_of_sample
from kernel_velocity.errors import ResultsError
from kernel_velocity.names import CONTROLS
from kernel_velocity.results.asv_file import Series
from kernel_velocity.stats.adjust import Logs
from kernel_velocity.tables import columns

DEFAULT_SESSIONS = 10
MIN_SESSIONS = 3  # a spread of fewer is no spread


class SeriesSpread(NamedTuple):
    """One series over the sessions. Spreads are standard deviations of the sessions' median log times."""

    series: Series
    seconds: float  # median of the sessions' medians
    raw: float
    adjusted: float | None = None  # None: not every session has a gauge or a control in the same rounds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    false_alarms.add_arguments(parser, DEFAULT_SESSIONS)


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Measure the sessions that are missing, then print the table."""
    print(table(rows(false_alarms.obtain(args, MIN_SESSIONS, out, err))), file=out)
    return 0


def rows(sessions: IdenticalSessions) -> list[SeriesSpread]:
    """Return a row for every series that is not a control.

    Raises:
        ResultsError: fewer than MIN_SESSIONS sessions.
    """
    if len(sessions) < MIN_SESSIONS:
        raise ResultsError(f"{len(sessions)} sessions: wanted at least {MIN_SESSIONS}, to estimate a spread")
    logs, signals = false_alarms.logs_of(sessions), false_alarms.signals_of(sessions)
    return [
        _row(series, logs[series], signals[series])
        for series in sorted(logs)
        if series[1][0] not in CONTROLS and len(_medians(logs[series])) >= MIN_SESSIONS
    ]


def _medians(values: Logs) -> dict[str, float]:
    """Return the median of every session's rounds."""
    by_session: dict[str, list[float]] = {}
    for (session, _), value in values.items():
        by_session.setdefault(session, []).append(value)
    return {session: statistics.median(rounds) for session, rounds in by_session.items()}


def _row(series: Series, values: Logs, signals: Sequence[Logs]) -> SeriesSpread:
    raw = _medians(values)
    row = SeriesSpread(series, math.exp(statistics.median(raw.values())), statistics.stdev(raw.values()))
    if not signals or not all({session for session, _ in signal} >= set(raw) for signal in signals):
        return row
    adjusted, _ = out_of_sample(values, signals)
    return row._replace(adjusted=statistics.stdev(_medians(adjusted).values()))


def table(rows: Sequence[SeriesSpread]) -> str:
    """Return the rows as text: spread in percent, one standard deviation between sessions."""
    cells = [["series", "time", "raw", "adjusted"]]
    for row in rows:
        adjusted = "-" if row.adjusted is None else f"{row.adjusted:.2%}"
        name = f"{row.series[0]} {' '.join(row.series[1])}"
        cells.append([name, f"{row.seconds * 1e3:.3f} ms", f"{row.raw:.2%}", adjusted])
    return columns(cells)
