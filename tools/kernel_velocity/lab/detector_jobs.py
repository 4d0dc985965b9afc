"""The work of scoring detectors, cut into jobs that processes share; what comes out does not depend on how.

Detectors at work: histories played to them commit by commit, and what they said of them. Seeded.

Every contender sees the same histories, and a history with a step is the one without it, plus the step.

The F-measure of change points against several annotators. Pure.

As the Turing Change Point Dataset has it (van den Burg and Williams, arXiv:2003.06222): precision against the
annotations of all taken together, recall as the mean over annotators; the series' first point counts as found by
everybody, so that "nothing" is an answer that can be right.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

import numpy as np

from kernel_velocity.lab.contenders import CONTENDERS, SPARE, Alarm, Confirmed, Contender, Scene, Watcher
from kernel_velocity.lab.detector_data import SYNTHETIC, Family, RealSeries, RealSet, drifting, resampled

STEPS = (0.01, 0.02, 0.05, 0.10)
SEARCHED = ("normal", "heavy tails")  # synthetic families that steps are planted in, beside the real ones
CREEPING = "creeping"  # the family whose level is not still
NOTHING = "report nothing"
CHUNK = 25  # annotated series of a job
QUIET, PLANTED = 0, 1  # parts of a seed

Progress = Callable[[str, float], None]

SAME_CHANGE = 5  # commits: reports no further apart are of one change
BEFORE, AFTER = 60, 40  # commits of a history with a step: those before it, and those of its new level
SOON = 10  # commits

MARGIN = 5  # points that a change may be off


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is played."""

    seed: int
    series: int  # histories in which nothing happens, a family
    commits: int  # of each
    planted: int  # histories with a step, a family and step


@dataclass(frozen=True, kw_only=True)
class Scores:
    """What came out. Keys begin with the contender's name."""

    plan: Plan
    families: tuple[str, ...]
    silences: Mapping[tuple[str, str], Silence]  # by family
    found: Mapping[tuple[str, str, float], tuple[Found, ...]]  # by family and step
    f_measures: Mapping[tuple[str, str], Mapping[str, float]]  # by set of annotated series: series -> F1


@dataclass(frozen=True, kw_only=True)
class SilenceJob:
    """Play histories in which nothing happens."""

    contender: str
    name: str  # of the family
    family: Family
    plan: Plan

    def work(self) -> Silence:
        """Return what was said of all of them together."""
        plan = self.plan
        scenes = (scene(self.family, (plan.seed, QUIET, number), plan.commits) for number in range(plan.series))
        return merged([silence(CONTENDERS[self.contender], each) for each in scenes])


@dataclass(frozen=True, kw_only=True)
class SearchJob:
    """Play histories with a step."""

    contender: str
    name: str
    family: Family
    step: float
    plan: Plan

    def work(self) -> tuple[Found, ...]:
        """Return how the step of each was found."""
        seeds = ((self.plan.seed, PLANTED, number) for number in range(self.plan.planted))
        return tuple(search(CONTENDERS[self.contender], self.family, seed, self.step) for seed in seeds)


@dataclass(frozen=True, kw_only=True)
class AnnotatedJob:
    """Play annotated histories as a whole."""

    contender: str
    name: str  # of the set
    series: tuple[RealSeries, ...]

    def work(self) -> dict[str, float]:
        """Return the F1 of each."""
        return {each.name: self._f_measure(each) for each in self.series}

    def _f_measure(self, series: RealSeries) -> float:
        played = Scene(logs=series.logs, levels=np.zeros(len(series.logs)), spare=np.empty(0))
        found = [] if self.contender == NOTHING else reported(CONTENDERS[self.contender], played)
        return f_measure(series.annotations or (), found)


Job = SilenceJob | SearchJob | AnnotatedJob


def families(sets: Iterable[RealSet]) -> dict[str, Family]:
    """Return the families of noise by name: the synthetic ones, and one for every set that has usable series."""
    real = {f"real: {each.name}": resampled([series.known for series in each.series]) for each in sets}
    return {**SYNTHETIC, **{name: family for name, family in real.items() if family is not None}}


def score(plan: Plan, sets: Sequence[RealSet], progress: Progress, processes: int | None = None) -> Scores:
    """Do all jobs, by as many processes as there are CPUs unless told otherwise (1: in this one)."""
    known = families(sets)
    jobs: list[Job] = [*_annotated(sets), *_searches(plan, known), *_silences(plan, known)]
    silences: dict[tuple[str, str], Silence] = {}
    found: dict[tuple[str, str, float], tuple[Found, ...]] = {}
    measures: dict[tuple[str, str], dict[str, float]] = {}
    for number, (job, result) in enumerate(_done(jobs, processes or os.cpu_count() or 1), 1):
        progress(f"{job.contender}, {job.name}", number / len(jobs))
        if isinstance(result, Silence):
            silences[job.contender, job.name] = result
        elif isinstance(result, dict):
            measures.setdefault((job.contender, job.name), {}).update(result)
        elif isinstance(job, SearchJob):
            found[job.contender, job.name, job.step] = result
    return Scores(plan=plan, families=tuple(known), silences=silences, found=found, f_measures=measures)


def _annotated(sets: Iterable[RealSet]) -> Iterator[AnnotatedJob]:
    names = [NOTHING, *(name for name, contender in CONTENDERS.items() if contender.localises)]
    for each in sets:
        for start in range(0, len(each.annotated), CHUNK):
            part = each.annotated[start : start + CHUNK]
            yield from (AnnotatedJob(contender=name, name=each.name, series=part) for name in names)


def _searches(plan: Plan, known: Mapping[str, Family]) -> Iterator[SearchJob]:
    for name, family in known.items():
        if name in SEARCHED or name not in SYNTHETIC:
            for step in STEPS:
                for contender in CONTENDERS:
                    yield SearchJob(contender=contender, name=name, family=family, step=step, plan=plan)


def _silences(plan: Plan, known: Mapping[str, Family]) -> Iterator[SilenceJob]:
    for name, family in {**known, CREEPING: drifting}.items():
        yield from (SilenceJob(contender=each, name=name, family=family, plan=plan) for each in CONTENDERS)


def _work(job: Job) -> Result:
    return job.work()


def _done(jobs: Sequence[Job], processes: int) -> Iterator[tuple[Job, Result]]:
    """Yield every job with its result, in whatever order they end."""
    if processes == 1:
        yield from ((job, job.work()) for job in jobs)
        return
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        working = {pool.submit(_work, job): job for job in jobs}
        try:
            for future in as_completed(working):
                yield working[future], future.result()
        finally:  # interrupted: what has not begun is not begun
            pool.shutdown(wait=True, cancel_futures=True)


@dataclass(frozen=True, kw_only=True)
class Silence:
    """What was reported of histories in which nothing happened."""

    commits: int
    alarms: int
    reruns: int | None  # rounds measured for confirmation; None for who confirms nothing

    def __add__(self, other: Silence) -> Silence:
        """Return both together."""
        reruns = None if self.reruns is None or other.reruns is None else self.reruns + other.reruns
        return Silence(commits=self.commits + other.commits, alarms=self.alarms + other.alarms, reruns=reruns)


@dataclass(frozen=True, kw_only=True)
class Found:
    """How a planted step was found."""

    delay: int | None  # commits after the new level's first one; None: not within AFTER
    error: int | None  # |reported - true| index after AFTER commits; None: not reported then, or not localised


Result = Silence | tuple[Found, ...] | dict[str, float]


def scene(family: Family, seed: Sequence[int], size: int, step: float = 0.0, at: int | None = None) -> Scene:
    """Return a history of `size` commits whose values rise by the factor 1 + step at commit `at`."""
    path = family(np.random.default_rng(list(seed)), size + SPARE)
    levels = np.zeros(size)
    if at is not None:
        levels[at:] = math.log1p(step)
    return Scene(logs=tuple((path[:size] + levels).tolist()), levels=levels, spare=path[size:])


def silence(contender: Contender, played: Scene) -> Silence:
    """Play a history in which nothing happens, and count what is reported anew.

    A report within MARGIN of an earlier one is that one, moved: a system that remembers its reports tells it once.
    """
    watcher = contender.watch(played)
    known: set[int] = set()
    alarms = 0
    for size in range(contender.stride, len(played.logs) + 1, contender.stride):
        for alarm in watcher.look(size):
            alarms += all(abs(alarm.index - other) > SAME_CHANGE for other in known)
            known.add(alarm.index)
    reruns = watcher.reruns if isinstance(watcher, Confirmed) else None
    return Silence(commits=len(played.logs), alarms=alarms, reruns=reruns)


def search(contender: Contender, family: Family, seed: Sequence[int], step: float) -> Found:
    """Play a history with a step upwards at commit BEFORE, and say when it was reported, and where in the end."""
    played = scene(family, seed, BEFORE + AFTER, step, BEFORE)
    watcher = contender.watch(played)
    watcher.look(BEFORE)
    delay = next((size - BEFORE - 1 for size in _sizes(contender) if _right(contender, watcher.look(size))), None)
    if delay is not None and contender.stride > 1:
        delay = _exact(contender, played, delay)
    at_the_end = contender.watch(played).look(len(played.logs)) if contender.localises else []
    errors = [abs(alarm.index - BEFORE) for alarm in _right(contender, at_the_end)]
    return Found(delay=delay, error=min(errors, default=None))


def _sizes(contender: Contender) -> Iterator[int]:
    return iter(range(BEFORE + contender.stride, BEFORE + AFTER + 1, contender.stride))


def _exact(contender: Contender, played: Scene, delay: int) -> int:
    """Return the delay, looking at the commits that were passed over too. Only for who remembers no earlier look."""
    for size in range(BEFORE + delay + 2 - contender.stride, BEFORE + delay + 1):
        if _right(contender, contender.watch(played).look(size)):
            return size - BEFORE - 1
    return delay


def _right(contender: Contender, alarms: list[Alarm]) -> list[Alarm]:
    """Return the reports of the planted step: upwards, and at its place, or at a later commit where that is all."""
    return [
        alarm
        for alarm in alarms
        if alarm.rises and (abs(alarm.index - BEFORE) <= SAME_CHANGE if contender.localises else alarm.index >= BEFORE)
    ]


def reported(contender: Contender, played: Scene) -> list[int]:
    """Return the indices that are reported of a whole history."""
    watcher: Watcher = contender.watch(played)
    return sorted({alarm.index for alarm in watcher.look(len(played.logs))})


def merged(parts: Sequence[Silence]) -> Silence:
    """Return several histories together; at least one."""
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


def matched(wanted: Iterable[int], found: Iterable[int], margin: int = MARGIN) -> int:
    """Return how many of the wanted points have one found within the margin; every found one serves once."""
    left, count = set(found), 0
    for point in sorted(set(wanted)):
        near = [(abs(point - other), other) for other in left if abs(point - other) <= margin]
        if near:
            left.remove(min(near)[1])
            count += 1
    return count


def f_measure(annotations: Sequence[AbstractSet[int]], found: Iterable[int], margin: int = MARGIN) -> float:
    """Return the F1 of the found change points of a series.

    Args:
        annotations: indices of the first points of new levels, by annotator; at least one annotator.
        found: those that a detector reports.
        margin: points.
    """
    by_annotator = [{0, *points} for points in annotations]
    reported = {0, *found}
    precision = matched(set[int]().union(*by_annotator), reported, margin) / len(reported)
    recall = statistics.fmean(matched(points, reported, margin) / len(points) for points in by_annotator)
    return 2 * precision * recall / (precision + recall)
