"""The asv benchmark type of the suite: one robust estimate per round, 8 rounds. Imported inside asv only."""

from __future__ import annotations

import os
import re
from pathlib import Path
from time import time
from types import SimpleNamespace
from typing import Any

from asv_runner.benchmarks._base import Benchmark

from benchmarks.harness import running
from benchmarks.harness.benchmark import root_folder
from benchmarks.harness.cache import flush_size, is_cold
from benchmarks.harness.sampling import ROUNDS
from benchmarks.harness.telemetry import append_failure, spool_path


class RoundBenchmark(Benchmark):  # type: ignore[misc]  # asv_runner has no types
    """Runs `_KernelBenchmark.measure`; everything public here is stored in benchmarks.json."""

    name_regex = re.compile("^time_.+$")

    def __init__(self, name: str, func: Any, attr_sources: list[Any]) -> None:
        owner = func.__self__
        params = owner.cold_params if is_cold(func) else owner.params
        super().__init__(name, func, [SimpleNamespace(params=params), *attr_sources])
        self.type = "time"
        self.unit = "seconds"
        self.rounds = ROUNDS
        self.flops = {case: owner.flops[case] for case in params[1] if case in owner.flops}
        self.bytes = {case: owner.bytes[case] for case in params[1] if case in owner.bytes}
        self._owner = owner

    def do_setup(self) -> bool:
        """Run setup and return whether to skip; what it raises is written down, because asv stores none of its text."""
        try:
            running.begin(self._mark())
        except running.EarlierRoundDiedError as error:
            self._record_failure(error)
            raise
        try:
            for setup in self._setups:
                setup(*self._build_params())
            if is_cold(self.func):
                flush_size(self._owner.device)  # raises where the caches cannot be made cold: n/a, not failed
        except NotImplementedError as error:
            self._record_failure(error)
            print(f"asv: skipped: {error!r} ")  # noqa: T201 - as asv's own types say it
            return True
        except BaseException as error:
            running.end(self._mark())  # asv calls no teardown then
            self._record_failure(error)
            raise
        return False

    def do_teardown(self) -> None:
        """Run teardown; the round ended by itself."""
        running.end(self._mark())
        super().do_teardown()

    def run(self, *params: Any) -> dict[str, Any]:
        """Measure one round; return {"samples": [estimate], "number": 1}."""
        try:
            return self._owner.measure(self.name, *params)  # type: ignore[no-any-return]
        except BaseException as error:
            self._record_failure(error)
            raise

    def _mark(self) -> Path | None:
        return running.mark_path(root_folder(os.environ), os.environ, self.name, self._current_params)

    def _record_failure(self, error: BaseException) -> None:
        environment, commit = os.environ.get("ASV_ENV_NAME"), os.environ.get("ASV_COMMIT")
        if environment and commit:
            path = spool_path(root_folder(os.environ), environment, commit).with_suffix(".failures.jsonl")
            append_failure(path, benchmark=self.name, params=self._current_params, when=time(), error=error)
