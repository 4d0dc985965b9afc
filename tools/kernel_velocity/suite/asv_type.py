"""The asv benchmark types of the suite: times (one robust estimate per round, 8 rounds), errors and figures (once).

asv's own track_ benchmarks state here which direction of their values is better.

Imported inside asv only.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
import re
import sys
from pathlib import Path
from time import time
from types import SimpleNamespace
from typing import Any

from asv_runner.benchmarks import benchmark_types
from asv_runner.benchmarks._base import Benchmark, _get_first_attr
from asv_runner.benchmarks.track import TrackBenchmark as AsvTrackBenchmark

from kernel_velocity import processes
from kernel_velocity.engine import process_state, spool, timing
from kernel_velocity.engine.sampling import ROUNDS
from kernel_velocity.names import UNITS_OF_FIGURES
from kernel_velocity.suite.benchmark import axes_of
from kernel_velocity.suite.originals import ORIGINALS
from kernel_velocity.suite.under_test import root_folder

ERROR_UNIT = "absolute or relative, the smaller"  # of track_max_error; integers: absolute


class _Recorded(Benchmark):  # type: ignore[misc]  # asv_runner has no types
    """A benchmark of a kernel on one device whose errors are written down, because asv stores none of their text."""

    def __init__(self, name: str, func: Any, attr_sources: list[Any], params: list[list[str]]) -> None:
        super().__init__(name, func, [SimpleNamespace(params=params), *attr_sources])
        self._owner = func.__self__

    def do_setup(self) -> bool:
        """Run setup and return whether to skip."""
        processes.adopt_orphans()  # so that what the code leaves running is this process's, and ended by it
        self._children = processes.children()
        try:
            spool.begin(self._mark())
        except spool.EarlierRoundDiedError as error:
            self._record_failure(error)
            raise
        try:
            self._set_up()
        except NotImplementedError as error:
            self._record_failure(error)
            print(f"asv: skipped: {error!r} ")  # noqa: T201 - as asv's own types say it
            return True
        except BaseException as error:
            spool.end(self._mark())  # asv calls no teardown then
            self._record_failure(error)
            self._end_children()
            raise
        return False

    def _set_up(self) -> None:
        for setup in self._setups:
            setup(*self._build_params())

    def do_teardown(self) -> None:
        """Run teardown. The round ended by itself."""
        spool.end(self._mark())
        super().do_teardown()
        self._end_children()

    def _end_children(self) -> None:
        """End the processes that the code under test left running: they would slow down the next rounds."""
        series = " ".join((self.name, *self._current_params))
        for process in processes.end_children(self._children):
            print(f"kernel-velocity: {series} {processes.LEFT} {process}", file=sys.stderr, flush=True)  # noqa: T201 - asv shows it

    def run(self, *params: Any) -> Any:
        """Return the result of one round."""
        try:
            return self._measure(*params)
        except BaseException as error:
            self._record_failure(error)
            raise

    def _measure(self, *params: Any) -> Any:
        raise NotImplementedError

    def _mark(self) -> Path | None:
        return spool.mark_path(root_folder(os.environ), os.environ, self.name, self._current_params)

    def _record_failure(self, error: BaseException) -> None:
        where = spool.location(os.environ)
        if where is not None and not isinstance(error, spool.SpoolError):
            path = spool.spool_path(root_folder(os.environ), *where).with_suffix(".failures.jsonl")
            spool.append_failure(path, benchmark=self.name, params=self._current_params, when=time(), error=error)


class RoundBenchmark(_Recorded):
    """Runs `_KernelBenchmark.measure`. Everything public here is stored in benchmarks.json."""

    name_regex = re.compile("^time_(hot|cold)$")

    def __init__(self, name: str, func: Any, attr_sources: list[Any]) -> None:
        owner = func.__self__
        params = owner.cold_params if timing.is_cold(name) else owner.params
        super().__init__(name, func, attr_sources, params)
        self.type = "time"
        self.unit = "seconds"
        self.rounds = ROUNDS
        cases = (
            *params[1],
            *owner.problem.counts,
        )  # the simulated traffic of a counted call is compared with its bytes
        self.flops = {case: owner.flops[case] for case in cases if case in owner.flops}
        self.bytes = {case: owner.bytes[case] for case in cases if case in owner.bytes}
        if not {"run", "run_server"} & {*sys.argv}:  # no round needs them, and to count them takes a while
            self.unfused_bytes = {case: owner.unfused_bytes[case] for case in params[1] if case in owner.unfused_bytes}

    def _set_up(self) -> None:
        super()._set_up()
        if timing.is_cold(self.name):
            timing.flush_size(self._owner.device)  # raises where the caches cannot be made cold: n/a, not failed

    def _measure(self, *params: Any) -> Any:
        """Return {"samples": [estimate], "number": 1}."""
        return self._owner.measure(self.name, *params)


class TrackBenchmark(_Recorded):
    """Runs a `track_*` method of `_KernelBenchmark` once: it is no time, and every round would give the same.

    An error is that of a call. A figure of the compiled code (`compiled.figure`) is read, a count of a call is made
    outside of this process, and nothing is set up.
    """

    name_regex = re.compile(f"^track_(max_error|{'|'.join(UNITS_OF_FIGURES)})$")

    def __init__(self, name: str, func: Any, attr_sources: list[Any]) -> None:
        owner, self._is_error = func.__self__, name.endswith("track_max_error")
        super().__init__(name, func, attr_sources, axes_of(owner, name.rpartition(".track_")[2]))
        self.type = "track"
        self.unit = ERROR_UNIT if self._is_error else func.unit

    def _set_up(self) -> None:
        if self._is_error:
            super()._set_up()

    def _measure(self, *params: Any) -> float:
        """Return the value. NaN, asv's "n/a", where there is none.

        That is written down: asv stores a series that was not measured alike, and the run would repeat it for ever.
        """
        try:
            return float(self.func(*params))
        except NotImplementedError as error:
            self._record_failure(error)
            return math.nan


class StatedBenchmark(AsvTrackBenchmark):  # type: ignore[misc]  # asv_runner has no types
    """asv's `track_*`, with `higher_is_better` of the function, its class or its module in benchmarks.json."""

    def __init__(self, name: str, func: Any, attr_sources: list[Any]) -> None:
        super().__init__(name, func, attr_sources)
        stated = _get_first_attr(attr_sources, "higher_is_better", None)
        if stated is not None:
            self.higher_is_better = stated


def register() -> None:
    """Put these types before asv's own, which would claim every `time_*`.

    The server that forks the rounds imports torch here: 1.3 s, paid once a launch instead of once a round. It notes
    the originals then: torch's took .045 s in each round.
    """
    for kind in (StatedBenchmark, TrackBenchmark, RoundBenchmark):
        if kind not in benchmark_types:
            benchmark_types.insert(0, kind)
    if "run_server" in sys.argv and importlib.util.find_spec("torch") is not None:
        importlib.import_module("torch")
        process_state.State()  # what it imports took .003 s in each round
        ORIGINALS.note()
