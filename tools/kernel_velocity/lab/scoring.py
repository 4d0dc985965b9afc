"""Score detectors of change points: play histories to them commit by commit, in several processes. Seeded.

Every contender sees the same histories, and a history with a step is the one without it, plus the step.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kernel_velocity.lab.contenders import CONTENDERS, SPARE, Alarm, Confirmed, Contender, Scene
from kernel_velocity.lab.histories import SYNTHETIC, Family, RealSeries, creeping, resampled
from kernel_velocity.processes import contained

STEPS = (0.01, 0.02, 0.05, 0.10)
SEARCHED = ("normal", "heavy tails")  # synthetic families that steps are planted in, beside the real ones
CREEPING = "creeping"  # the family whose level is not constant
NOTHING = "report nothing"
QUIET, PLANTED = 0, 1  # parts of a seed

MARGIN = 5  # commits: reports no further apart are of one change
BEFORE, AFTER = 60, 40  # commits of a history with a step: those before it, and those of its new level

Progress = Callable[[str, float], None]


class Plan(NamedTuple):
    """How much is played."""

    seed: int
    series: int  # histories without a step, a family
    commits: int  # of each
    planted: int  # histories with a step, a family and step


class Silence(NamedTuple):
    """The reports on histories without a step."""

    alarms: int
    reruns: int | None  # rounds measured for confirmation; None for contenders that confirm nothing


class Found(NamedTuple):
    """The reports on a planted step."""

    delay: int | None  # commits after the new level's first one; None: not within AFTER
    error: int | None  # |reported - true| index after AFTER commits; None: not reported then, or not localised


@dataclass(frozen=True, kw_only=True)
class Scores:
    """All scores, by the contender's name first."""

    plan: Plan
    families: tuple[str, ...]
    silences: Mapping[tuple[str, str], Silence]  # by family
    found: Mapping[tuple[str, str, float], Sequence[Found]]  # by family and step
    f_measures: Mapping[tuple[str, str], Mapping[str, float]]  # by set of annotated series: series -> F1


def families(sets: Mapping[str, Sequence[RealSeries]]) -> dict[str, Family]:
    """Return the families of noise by name: the synthetic ones, and one for every set that has usable series."""
    real = {f"real: {name}": resampled(series) for name, series in sets.items()}
    return {**SYNTHETIC, **{name: family for name, family in real.items() if family is not None}}


def score(plan: Plan, sets: Mapping[str, Sequence[RealSeries]], progress: Progress) -> Scores:
    """Score every contender, on all CPUs. The scores do not depend on their number."""
    noise = families(sets)
    processes, spawn = os.cpu_count() or 1, multiprocessing.get_context("spawn")
    # A pool of one thread does the work in this process
    pool: Executor = ThreadPoolExecutor(1) if processes == 1 else ProcessPoolExecutor(processes, mp_context=spawn)
    with contained(), pool:
        measures = {
            (name, part, one.name): pool.submit(measure, name, one)
            for part, series in sets.items()
            for one in series
            for name in (NOTHING, *CONTENDERS)
            if one.annotations is not None and (name == NOTHING or CONTENDERS[name].localises)
        }
        found = {
            (name, family, step): pool.submit(search, name, draw, step, plan)
            for family, draw in noise.items()
            if family in SEARCHED or family not in SYNTHETIC
            for step in STEPS
            for name in CONTENDERS
        }
        silences = {
            (name, family): pool.submit(silence, name, draw, plan)
            for family, draw in {**noise, CREEPING: creeping}.items()
            for name in CONTENDERS
        }
        tasks: dict[Future[Any], tuple[Any, ...]] = {
            task: key for part in (measures, found, silences) for key, task in part.items()
        }
        try:
            for number, task in enumerate(as_completed(tasks), 1):
                task.result()
                progress(f"{tasks[task][0]}, {tasks[task][1]}", number / len(tasks))
        finally:  # if interrupted, tasks that have not begun are cancelled
            pool.shutdown(cancel_futures=True)
    f_measures: dict[tuple[str, str], dict[str, float]] = {}
    for (name, part, series_name), task in measures.items():
        f_measures.setdefault((name, part), {})[series_name] = task.result()
    return Scores(
        plan=plan,
        families=tuple(noise),
        silences={key: task.result() for key, task in silences.items()},
        found={key: task.result() for key, task in found.items()},
        f_measures=f_measures,
    )


def played(tasks: Mapping[Any, Callable[[], Any]], progress: Progress) -> dict[Any, Any]:
    """Run tasks on all CPUs, and return their results by key. They do not depend on the number of processes."""
    processes, spawn = os.cpu_count() or 1, multiprocessing.get_context("spawn")
    # A pool of one thread does the work in this process
    pool: Executor = ThreadPoolExecutor(1) if processes == 1 else ProcessPoolExecutor(processes, mp_context=spawn)
    with contained(), pool:
        futures = {pool.submit(task): key for key, task in tasks.items()}
        try:
            for number, future in enumerate(as_completed(futures), 1):
                future.result()
                progress(str(futures[future]), number / len(futures))
        finally:  # if interrupted, tasks that have not begun are cancelled
            pool.shutdown(cancel_futures=True)
    return {key: future.result() for future, key in futures.items()}


def scene(family: Family, seed: Sequence[int], size: int, step: float = 0.0) -> Scene:
    """Return a history of `size` commits whose values rise by the factor 1 + step at commit BEFORE."""
    path = family(np.random.default_rng(list(seed)), size + SPARE)
    levels = np.zeros(size)
    levels[BEFORE:] = math.log1p(step)
    return Scene(tuple((path[:size] + levels).tolist()), levels, path[size:])


def silence(name: str, family: Family, plan: Plan) -> Silence:
    """Play histories without a step to a contender."""
    parts = [
        count_alarms(CONTENDERS[name], scene(family, (plan.seed, QUIET, number), plan.commits))
        for number in range(plan.series)
    ]
    reruns = [part.reruns for part in parts if part.reruns is not None]
    return Silence(sum(part.alarms for part in parts), sum(reruns) if reruns else None)


def count_alarms(contender: Contender, played: Scene) -> Silence:
    """Play a history without a step, and count the new reports.

    A report within MARGIN of an earlier one is that one, moved: a system that remembers its reports shows it once.
    """
    look = contender.watch(played)
    known: set[int] = set()
    alarms = 0
    for size in range(contender.stride, len(played.logs) + 1, contender.stride):
        for alarm in look(size):
            alarms += all(abs(alarm.index - other) > MARGIN for other in known)
            known.add(alarm.index)
    return Silence(alarms, look.reruns if isinstance(look, Confirmed) else None)


def search(name: str, family: Family, step: float, plan: Plan) -> list[Found]:
    """Play histories with a step upwards at commit BEFORE to a contender."""
    scenes = (scene(family, (plan.seed, PLANTED, number), BEFORE + AFTER, step) for number in range(plan.planted))
    return [find(CONTENDERS[name], played) for played in scenes]


def find(contender: Contender, played: Scene) -> Found:
    """Play a history with a step upwards at commit BEFORE. Return when it was reported, and where in the end."""
    look = contender.watch(played)
    look(BEFORE)
    sizes = range(BEFORE + contender.stride, BEFORE + AFTER + 1, contender.stride)
    seen = next((size for size in sizes if _right(contender, look(size))), None)
    if seen is not None and contender.stride > 1:  # also the commits that were passed over; it has no memory
        passed = range(seen + 1 - contender.stride, seen)
        seen = next((size for size in passed if _right(contender, contender.watch(played)(size))), seen)
    at_the_end = contender.watch(played)(len(played.logs)) if contender.localises else []
    errors = [abs(alarm.index - BEFORE) for alarm in _right(contender, at_the_end)]
    return Found(None if seen is None else seen - BEFORE - 1, min(errors, default=None))


def _right(contender: Contender, alarms: Iterable[Alarm]) -> list[Alarm]:
    """Return the reports of the planted step: upwards, and at its place, or later if the contender only suspects."""
    return [
        alarm
        for alarm in alarms
        if alarm.rises and (abs(alarm.index - BEFORE) <= MARGIN if contender.localises else alarm.index >= BEFORE)
    ]


def measure(name: str, series: RealSeries) -> float:
    """Return the F1 of a contender, or of NOTHING, on an annotated series."""
    played = Scene(series.logs, np.zeros(len(series.logs)), np.empty(0))
    reports = [] if name == NOTHING else CONTENDERS[name].watch(played)(len(series.logs))
    return f_measure(series.annotations or (), {alarm.index for alarm in reports})


def f_measure(annotations: Sequence[AbstractSet[int]], found: AbstractSet[int], margin: int = MARGIN) -> float:
    """Return the F1 of the reported change points of a series against several annotators.

    As the Turing Change Point Dataset has it (van den Burg and Williams, arXiv:2003.06222): precision against the
    annotations of all together, recall as the mean over annotators. The series' first point counts as found by
    everybody, so that reporting nothing can be right.

    Args:
        annotations: indices of the first points of new levels, by annotator (>= 1).
        found: those that a detector reports.
        margin: points that a report may be off.
    """
    by_annotator = [{0, *points} for points in annotations]
    reported = {0, *found}
    precision = matched(set[int]().union(*by_annotator), reported, margin) / len(reported)
    recall = statistics.fmean(matched(points, reported, margin) / len(points) for points in by_annotator)
    return 2 * precision * recall / (precision + recall)


def matched(wanted: Iterable[int], found: Iterable[int], margin: int) -> int:
    """Return how many of the wanted points have a found one within the margin. Every found one serves once."""
    left, count = set(found), 0
    for point in sorted(wanted):
        near = [(abs(point - other), other) for other in left if abs(point - other) <= margin]
        if near:
            left.remove(min(near)[1])
            count += 1
    return count
