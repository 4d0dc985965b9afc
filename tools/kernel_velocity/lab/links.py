"""``kv lab links``: how wrong values of two sessions are when they are linked by 0, 1, 2 or 4 anchors.

The sessions are of identical code, so the true difference is none. The rounds of a session are dealt out to commits,
in turns as a run measures them. Some commits are anchors, and another one is compared between two sessions, and within
one.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple, TextIO

import numpy as np

from kernel_velocity.errors import ResultsError
from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.lab import sessions as identical_sessions
from kernel_velocity.lab.sessions import Sessions
from kernel_velocity.stats.adjust import Logs
from kernel_velocity.stats.link import Z, link, median_error
from kernel_velocity.tables import columns

DEFAULT_SESSIONS = 10
COMMITS = 5  # that a session's rounds are dealt out to: 4 anchors and one that is compared
ANCHORS = (0, 1, 2, 4)


class Row(NamedTuple):
    """Comparisons of one kind."""

    anchors: int | None  # None: within a session
    differences: FloatArray  # logs; the truth is 0
    errors: FloatArray  # standard errors that the link and the rounds claim

    @property
    def rms(self) -> float:
        """Typical size of a difference."""
        return float(np.sqrt(np.mean(np.square(self.differences))))

    @property
    def false_alarms(self) -> float:
        """Share of differences that are called changes."""
        return float(np.mean(np.abs(self.differences) > Z * self.errors))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    identical_sessions.add_arguments(parser, DEFAULT_SESSIONS)


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Measure the sessions that are missing, then print the table."""
    print(table(rows(identical_sessions.obtain(args, 2, out, err))), file=out)
    return 0


def rows(sessions: Sessions) -> list[Row]:
    """Return a row for comparisons within a session, and one for each number of anchors between two.

    Raises:
        ResultsError: there are not two sessions with rounds for all commits.
    """
    dealt = [_dealt(values) for values in identical_sessions.logs(sessions).values()]
    compared: dict[int | None, list[tuple[float, float]]] = {number: [] for number in (None, *ANCHORS)}
    for by_session in dealt:
        for here in by_session:
            compared[None] += [_within(a, b) for a, b in itertools.combinations(here, 2)]
        for (here, there), target in itertools.product(itertools.combinations(by_session, 2), range(COMMITS)):
            for number in ANCHORS:
                chosen = [(target + 1 + step) % COMMITS for step in range(number)]
                compared[number].append(_between(here, there, target, chosen))
    if not compared[0]:
        raise ResultsError(f"{len(sessions)} sessions: two with {2 * COMMITS} rounds of a series are wanted")
    return [Row(number, *map(np.array, zip(*pairs, strict=True))) for number, pairs in compared.items()]


def _dealt(values: Logs) -> list[list[list[float]]]:
    """Return the rounds of each session, dealt out to commits. Sessions with too few are left out."""
    by_session: dict[str, list[float]] = {}
    for (session, _), value in values.items():
        by_session.setdefault(session, []).append(value)
    return [
        [rounds[number::COMMITS][: len(rounds) // COMMITS] for number in range(COMMITS)]
        for rounds in by_session.values()
        if len(rounds) >= 2 * COMMITS
    ]


def _within(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    return statistics.median(b) - statistics.median(a), math.hypot(median_error(a), median_error(b))


def _between(
    here: Sequence[Sequence[float]], there: Sequence[Sequence[float]], target: int, anchors: Sequence[int]
) -> tuple[float, float]:
    difference, error = _within(here[target], there[target])
    if not anchors:
        return difference, error
    ratios, errors = zip(*(_within(here[number], there[number]) for number in anchors), strict=True)
    step = link(ratios, errors)
    return difference - step.step, math.hypot(error, step.error)


def table(rows: Sequence[Row]) -> str:
    """Return the rows as text."""
    cells = [["compared", "typical error", "claimed", "false alarms"]]
    for row in rows:
        name = "within a session" if row.anchors is None else f"between two, {row.anchors} anchors"
        claimed = float(np.sqrt(np.mean(np.square(row.errors))))
        cells.append([name, f"{row.rms:.2%}", f"{claimed:.2%}", f"{row.false_alarms:.1%}"])
    return columns(cells)
