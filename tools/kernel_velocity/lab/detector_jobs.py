"""The work of scoring detectors, cut into jobs that processes share; what comes out does not depend on how."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

import numpy as np

from kernel_velocity.lab.contenders import CONTENDERS, Scene
from kernel_velocity.lab.detector_data import RealSeries, RealSet
from kernel_velocity.lab.f_measure import f_measure
from kernel_velocity.lab.score_noise import SYNTHETIC, Family, drifting, resampled
from kernel_velocity.lab.score_online import Found, Silence, merged, reported, scene, search, silence

STEPS = (0.01, 0.02, 0.05, 0.10)
SEARCHED = ("normal", "heavy tails")  # synthetic families that steps are planted in, beside the real ones
CREEPING = "creeping"  # the family whose level is not still
NOTHING = "report nothing"
CHUNK = 25  # annotated series of a job
QUIET, PLANTED = 0, 1  # parts of a seed

Progress = Callable[[str, float], None]


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
Result = Silence | tuple[Found, ...] | dict[str, float]


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
