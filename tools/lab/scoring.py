"""Score detectors of change points on histories, in several processes: false alarms, power, agreement. Seeded.

Every contender sees the same histories, and a history with a step is the one without it, plus the step.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.processes import contained
from lab.contenders import CONTENDERS, Contender, Logs
from lab.histories import Family, normal

MARGIN = 5  # commits: reports no further apart are of one change
NEAR = 2  # commits that the report of a short level may be off
BEFORE, AFTER = 60, 40  # commits of a history with a step: those before it, and those of its new level
POSITIONS = 25  # successive places that a short level is put at
STAIRS = 6  # levels of a history that is optimised again and again


class Delay(NamedTuple):
    """The reports on a planted step."""

    commits: float  # from the new level's first one to the report; inf: not within AFTER
    error: int | None  # |reported - true| index after AFTER commits; None: not reported then


class AnnotationScore(NamedTuple):
    """How far reports and annotations agree. Shares."""

    f1: float
    precision: float
    recall: float


def played(tasks: Mapping[Any, Callable[[], Any]], progress: Callable[[str, float], None]) -> dict[Any, Any]:
    """Run tasks on all CPUs, and return their results by key. They do not depend on the number of processes."""
    processes, spawn = os.cpu_count() or 1, multiprocessing.get_context("spawn")
    # A pool of one thread does the work in this process
    pool: Executor = ThreadPoolExecutor(1) if processes == 1 else ProcessPoolExecutor(processes, mp_context=spawn)
    with contained(), pool:
        futures = {pool.submit(task): key for key, task in tasks.items()}
        try:
            for number, future in enumerate(as_completed(futures), 1):
                future.result()
                progress(", ".join(map(str, futures[future])), number / len(futures))
        finally:  # if interrupted, tasks that have not begun are cancelled
            pool.shutdown(cancel_futures=True)
    return {key: future.result() for future, key in futures.items()}


def noise(family: Family, seed: int, number: int, size: int) -> FloatArray:
    """Return the log values of a history of `size` commits in which nothing happens."""
    return family(np.random.default_rng([seed, number]), size)


def false_alarms(name: str, family: Family, seed: int, series: int, commits: int) -> int:
    """Return how many changes a contender reports in histories without any, looked at as they grow."""
    return sum(count_alarms(CONTENDERS[name], noise(family, seed, number, commits)) for number in range(series))


def count_alarms(contender: Contender, logs: FloatArray) -> int:
    """Count the new reports on a history as it grows.

    A report within MARGIN of an earlier one is that one, moved: a system that remembers its reports shows it once.
    """
    matched: set[int] = set()
    alarms = 0
    for size in range(contender.stride, len(logs) + 1, contender.stride):
        for report in contender.detect(logs[:size].tolist()):
            alarms += all(abs(report.index - other) > MARGIN for other in matched)
            matched.add(report.index)
    return alarms


def delays(name: str, family: Family, step: float, seed: int, series: int) -> list[Delay]:
    """Return when a contender reports the steps upwards of some histories, at commit BEFORE."""
    rise = math.log1p(step) * (np.arange(BEFORE + AFTER) >= BEFORE)
    return [delay(CONTENDERS[name], noise(family, seed, number, rise.size) + rise) for number in range(series)]


def delay(contender: Contender, logs: FloatArray) -> Delay:
    """Return when a contender reports a step upwards at commit BEFORE, and where in the end."""

    def errors(size: int) -> list[int]:
        reports = contender.detect(logs[:size].tolist())
        return [error for report in reports if report.rises and (error := abs(report.index - BEFORE)) <= MARGIN]

    sizes = range(BEFORE + contender.stride, BEFORE + AFTER + 1, contender.stride)
    length = next((size for size in sizes if errors(size)), None)
    if length is not None:  # also the commits that were passed over
        length = next(size for size in range(length + 1 - contender.stride, length + 1) if errors(size))
    error = min(errors(BEFORE + AFTER), default=None)
    return Delay(math.inf if length is None else length - BEFORE - 1, error)


def _levels(*stretches: tuple[float, int]) -> FloatArray:
    """Return log levels, from a factor and a number of commits for each stretch."""
    factors, sizes = zip(*stretches, strict=True)
    return np.repeat(np.log(factors), sizes)


def _optimised(size: int, number: int) -> FloatArray:
    """Return levels of `size` commits, each 5 to 30% below the one before, as of a kernel that is being optimised."""
    return np.repeat(-np.cumsum(np.random.default_rng(number).uniform(0.05, 0.3, STAIRS)), size)


SHORT: Mapping[str, Callable[[int], FloatArray]] = {  # of the number of the history
    "+10% for 8 commits": lambda number: _levels((1, BEFORE + number % POSITIONS), (1.1, 8), (1, AFTER)),
    "twofold, 8 + 8": lambda _: _levels((1, 8), (2, 8)),
    "tenfold, 11 + 300": lambda _: _levels((1, 11), (10, 300)),
    **{f"faster every {size}": partial(_optimised, size) for size in (6, 8, 10)},
}


def short_levels(name: str, shape: str, seed: int, series: int) -> list[float]:
    """Return the shares of the changes that a contender reports in histories with short levels, by history."""
    shares = []
    for number in range(series):
        levels = SHORT[shape](number)
        changes = np.flatnonzero(np.diff(levels)) + 1
        reports = CONTENDERS[name].detect((noise(normal, seed, number, levels.size) + levels).tolist())
        shares.append(matched(changes.tolist(), {report.index for report in reports}, NEAR) / changes.size)
    return shares


def indices(name: str, logs: Logs) -> set[int]:
    """Return where a contender reports changes."""
    return {report.index for report in CONTENDERS[name].detect(logs)}


def among_people(annotations: Sequence[AbstractSet[int]], reports: AbstractSet[int] | None) -> AnnotationScore:
    """Return how far reports agree with all annotators but one, on average over the one who is left out.

    Args:
        reports: None: those of the annotator who is left out.
    """
    parts = [
        agreement([*annotations[:number], *annotations[number + 1 :]], left_out if reports is None else reports)
        for number, left_out in enumerate(annotations)
    ]
    return mean(parts)


def mean(parts: Iterable[AnnotationScore]) -> AnnotationScore:
    """Return the mean agreement."""
    return AnnotationScore(*map(statistics.fmean, zip(*parts, strict=True)))


def agreement(
    annotations: Sequence[AbstractSet[int]], reports: AbstractSet[int], margin: int = MARGIN
) -> AnnotationScore:
    """Return how far the reported change points of a series agree with several annotators.

    As the Turing Change Point Dataset has it (van den Burg and Williams, arXiv:2003.06222): precision against the
    annotations of all together, recall as the mean over annotators. The series' first point counts as reported by
    everybody, so that reporting nothing can be right.

    Args:
        annotations: indices of the first points of new levels, by annotator (>= 1).
        reports: those that a detector reports.
        margin: points that a report may be off.
    """
    by_annotator = [{0, *points} for points in annotations]
    reported = {0, *reports}
    precision = matched(set[int]().union(*by_annotator), reported, margin) / len(reported)
    recall = statistics.fmean(matched(points, reported, margin) / len(points) for points in by_annotator)
    return AnnotationScore(2 * precision * recall / (precision + recall), precision, recall)


def matched(wanted: Iterable[int], reported: Iterable[int], margin: int) -> int:
    """Return how many of the wanted points have a reported one within the margin. Every report serves once."""
    left, count = set(reported), 0
    for point in sorted(wanted):
        near = [(abs(point - other), other) for other in left if abs(point - other) <= margin]
        if near:
            left.remove(min(near)[1])
            count += 1
    return count
