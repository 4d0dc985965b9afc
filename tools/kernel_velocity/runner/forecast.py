"""Forecast what measuring costs: the model of docs/explanation/measuring.md. A run replaces terms by its own.

Seconds of a round of a series: `setup` with the first check, `warm_up`, `timing`, `rest` (audit, last check, asv). A
process takes `process` (on a GPU its context) and `end`, the first `compile` in it `compiler`, and each `graph`. A
launch of asv takes `launch`. Series share a process, or each has its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kernel_velocity.harness import ceilings, independent, isolation, sharing
from kernel_velocity.results.asv_file import Series
from kernel_velocity.runner.report import Cost

COMPILE = "compile"
METHODS = 3  # of the timers' comparison on a GPU
TRACES = 6  # files of a series: two clocks, hot and cold, with a batch where it is not 1
CEILINGS = 50  # roofs, products and the sweep of the caches
A_CEILING = 0.35  # s around the samples of one: 50 of them took 25 s on an H200


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The terms of the model, s."""

    launch: float
    process: float
    end: float
    compiler: float
    graph: float
    setup: float
    warm_up: float
    timing: float
    rest: float
    build: float  # of a commit, times cores
    test_file: float


# CUDA: recorded on an H200 (results/h200), with what is drawn and timed less since then taken off. `graph` is of a CPU.
# How `end` and `rest` share .19 s is not known. CPU: means of the 2,832 rounds of results/epyc-2-cores.
TERMS = {
    "cuda": Terms(
        launch=1.9,
        process=0.35,
        end=0.08,
        compiler=2.7,
        graph=0.1,
        setup=0.025,
        warm_up=0.06,
        timing=0.13,
        rest=0.1,
        build=180.0,
        test_file=6.0,
    ),
    "cpu": Terms(
        launch=1.9,
        process=0.05,
        end=0.05,
        compiler=0.0,
        graph=0.0,
        setup=0.06,
        warm_up=0.1,
        timing=0.27,
        rest=0.1,
        build=90.0,
        test_file=6.0,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What work on a device takes by these terms."""

    terms: Terms
    is_shared: bool  # whether the series of a round share a process
    cores: int
    pace: float = 1.0  # what commits took so far, over what these terms say

    def commit(self, series: Sequence[Series], rounds: int, build: float | None = None) -> Cost:
        """Return the cost of a commit. `build`: s, None where it is not built yet."""
        t, n = self.terms, len(series)
        compiled = sum(params[0] == COMPILE for _, params in series)
        processes = min(1, n) if self.is_shared else n
        compilers = min(compiled, processes) * t.compiler + max(0, compiled - processes) * t.graph
        set_up = processes * t.process + compilers + n * t.setup
        round_ = t.launch + processes * t.end + set_up + n * (t.warm_up + t.timing + t.rest)
        return Cost(
            commit="forecast",
            build=t.build / self.cores if build is None else build,
            measuring=self.pace * rounds * round_,
            setup=rounds * set_up,
            warmup=rounds * n * t.warm_up,
            timing=rounds * n * t.timing,
            queue=0.0,
            waiting=0.0,
        )

    def stage(self, name: str, *, series: int, compiled: float, files: int, passes: int, trace: float) -> float:
        """Return the s of a stage of `kv offline run` that measures no commits.

        Args:
            name: of the stage. series: of tier core that it measures. compiled: how many of them are `compile`.
            files: with tests. passes: of sharing. trace: s of a trace.
        """
        t = self.terms
        ready = t.setup + t.warm_up
        alone = t.process + t.end + 2 * (sharing.TURNS * sharing.PORTION + ready)  # with the other kind beside it
        others = (independent.PASSES + 1) * 2 * METHODS * independent.SECONDS
        return {
            "doctor": 3 * t.launch,
            "build": t.build / self.cores,
            "tests": t.launch + files * t.test_file,
            "ceilings": t.launch + CEILINGS * (ceilings.SECONDS + A_CEILING),
            "sharing": t.launch + passes * (series * alone + compiled * (t.compiler + t.graph)),
            "timers": t.launch + series * (METHODS * ready + others) + compiled * METHODS * t.graph,
            "traces": t.launch + TRACES * (series * (ready + trace) + compiled * t.graph),
        }[name]

    def learn_commits(self, seconds: float, forecast: float) -> Forecast:
        """Return the forecast after commits that took so many s, of which `forecast` were expected."""
        return replace(self, pace=self.pace * seconds / forecast)

    def learn_build(self, seconds: float) -> Forecast:
        """Return the forecast after a build that took so long."""
        return replace(self, terms=replace(self.terms, build=seconds * self.cores))


def here(device: str, environ: Mapping[str, str]) -> Forecast:
    """Return the forecast for a device of this machine, before anything was measured."""
    return Forecast(
        terms=TERMS[device], is_shared=isolation.is_shared(environ, device), cores=len(os.sched_getaffinity(0))
    )
