"""``python -m lab links``: how wrong values of two sessions are when they are linked by 0, 1, 2 or 4 anchors.

The sessions are of identical code, so the true difference is none. The rounds of a session are dealt out to commits,
in turns as a run measures them. Some commits are anchors, and another one is compared between two sessions, and within
one.

A second table tells what the detector makes of it: histories of several sessions, whose commits draw their rounds from
those of a session, and a share of them with a change.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple, TextIO

import numpy as np

from kernel_velocity.ab import false_alarms
from kernel_velocity.ab.false_alarms import IdenticalSessions
from kernel_velocity.engine.sampling import ROUNDS
from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.errors import ResultsError
from kernel_velocity.names import CONTROLS
from kernel_velocity.stats.adjust import Logs
from kernel_velocity.stats.changepoints import detector
from kernel_velocity.stats.changepoints.detector import beyond_doubt
from kernel_velocity.stats.link import Z, link, median_error
from kernel_velocity.tables import columns

DEFAULT_SESSIONS = 10
COMMITS = 5  # that a session's rounds are dealt out to: 4 anchors and one that is compared
ANCHORS = (0, 1, 2, 4)


# Simulated histories
BLOCKS, LENGTH = 6, 24  # sessions, and commits of each
HISTORIES = 200  # of each series
CHANGE = math.log1p(0.05)  # in the middle of the fourth session
SEED = 5


class Detection(NamedTuple):
    """What the detector saw in simulated histories of one kind."""

    kind: str
    false: int  # change points
    commits: int
    detected: int  # changes
    planted: int


class LinkErrors(NamedTuple):
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
    false_alarms.add_arguments(parser, DEFAULT_SESSIONS)


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Measure the sessions that are missing, then print the table."""
    sessions = false_alarms.obtain(args, 2, out, err)
    print(table(rows(sessions)), file=out)
    if len(sessions) >= BLOCKS:
        print(f"\n{detection_table(detections(sessions))}", file=out)
    return 0


def rows(sessions: IdenticalSessions) -> list[LinkErrors]:
    """Return a row for comparisons within a session, and one for each number of anchors between two.

    Raises:
        ResultsError: there are not two sessions with rounds for all commits.
    """
    dealt = [_dealt(values) for values in false_alarms.logs_of(sessions).values()]
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
    return [LinkErrors(number, *map(np.array, zip(*pairs, strict=True))) for number, pairs in compared.items()]


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


def detections(sessions: IdenticalSessions) -> list[Detection]:
    """Return what the detector sees in histories of one session and of several, adjusted: unlinked, and linked."""
    signals, rng = false_alarms.signals_of(sessions), np.random.default_rng(SEED)
    kinds: dict[str, list[tuple[FloatArray, FloatArray]]] = {}  # kind -> values and link errors of each history
    for series, values in false_alarms.logs_of(sessions).items():
        if series[1][0] not in CONTROLS:
            adjusted, _ = false_alarms.out_of_sample(values, signals[series])
            by_session = [[value for (name, _), value in adjusted.items() if name == session] for session in sessions]
            for _ in range(HISTORIES):
                chosen = sorted(rng.choice(len(by_session), size=BLOCKS, replace=False))
                for kind, history in _history([np.array(by_session[number]) for number in chosen], rng).items():
                    kinds.setdefault(kind, []).append(history)
    planted = BLOCKS // 2 * LENGTH + LENGTH // 2
    change = np.where(np.arange(BLOCKS * LENGTH) >= planted, CHANGE, 0.0)
    rows = []
    for kind, histories in kinds.items():
        quiet, changed = (_points(histories, extra) for extra in (np.zeros_like(change), change))
        detected = sum(any(abs(index - planted) <= detector.MARGIN for index in points) for points in changed)
        false = sum(map(len, quiet))
        rows.append(Detection(kind, false, change.size * len(quiet), detected, len(changed)))
    return rows


def _points(histories: Sequence[tuple[FloatArray, FloatArray]], extra: FloatArray) -> list[list[int]]:
    """Return the change points of each history, beyond the doubt of its links, with something added to its values."""
    several = detector.detect_many([values + extra for values, _ in histories], [None] * len(histories))
    return [
        [point.index for point in beyond_doubt(values + extra, errors, history.points)]
        for history, (values, errors) in zip(several, histories, strict=True)
    ]


def _history(sessions: Sequence[FloatArray], rng: np.random.Generator) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return log values of a history, and the errors of their links, by kind."""

    def measured(rounds: FloatArray, commits: int) -> FloatArray:
        return rng.choice(rounds, size=(commits, ROUNDS))

    steps, errors, blocks = [0.0], [0.0], [np.median(measured(rounds, LENGTH), axis=1) for rounds in sessions]
    first, *later = ([sorted(anchor) for anchor in measured(rounds, max(ANCHORS)).tolist()] for rounds in sessions)
    for anchors in later:
        pairs = [_within(before, after) for before, after in zip(first, anchors, strict=True)]
        session = link(*zip(*pairs, strict=True))
        steps.append(session.step)
        errors.append(session.error)
    nothing = np.zeros(BLOCKS * LENGTH)
    values, linked_values = np.concatenate(blocks), np.concatenate(blocks) - np.repeat(steps, LENGTH)
    return {
        "one session": (np.median(measured(sessions[0], BLOCKS * LENGTH), axis=1), nothing),
        "unlinked": (values, nothing),
        "linked": (linked_values, nothing),
        "linked, steps beyond a link's doubt": (linked_values, np.repeat(errors, LENGTH)),
    }


def detection_table(rows: Sequence[Detection]) -> str:
    """Return the rows as text."""
    cells = [
        [f"{BLOCKS} sessions of {LENGTH} commits", "false change points in 1000", f"{math.expm1(CHANGE):.0%} found"]
    ]
    cells += [[row.kind, f"{1000 * row.false / row.commits:.2f}", f"{row.detected / row.planted:.0%}"] for row in rows]
    return columns(cells)


def table(rows: Sequence[LinkErrors]) -> str:
    """Return the rows as text."""
    cells = [["compared", "typical error", "claimed", "false alarms"]]
    for row in rows:
        name = "within a session" if row.anchors is None else f"between two, {row.anchors} anchors"
        claimed = float(np.sqrt(np.mean(np.square(row.errors))))
        cells.append([name, f"{row.rms:.2%}", f"{claimed:.2%}", f"{row.false_alarms:.1%}"])
    return columns(cells)
