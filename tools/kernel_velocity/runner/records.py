"""Read the recorded values, rounds, failures and machine facts of commits, on one machine, for a run."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from asv.results import get_filename

from kernel_velocity.harness.telemetry import Round
from kernel_velocity.results import failures, lines, sessions
from kernel_velocity.results.asv_file import Series, StoredFile
from kernel_velocity.results.failures import Failure
from kernel_velocity.results.ingest import by_series
from kernel_velocity.results.join import StoredSeries, join
from kernel_velocity.results.measurement import Measurement
from kernel_velocity.runner import fingerprint, resume
from kernel_velocity.runner.select import Selection, is_measured
from kernel_velocity.series import past

Line = TypeVar("Line", Round, Failure)


@dataclass(frozen=True, kw_only=True)
class Records:
    """The files of one machine and environment in asv's results directory, and the telemetry beside them."""

    results: Path  # asv's directory
    machine: str
    environment: str
    series: Selection
    notes: dict[str, None] = field(default_factory=dict)  # unreadable lines, one note each, in order

    def path(self, commit: str) -> Path:
        """Return the path of asv's results file of a commit."""
        return self.results / str(get_filename(self.machine, commit, self.environment))

    def stored(self, commit: str) -> StoredFile | None:
        """Return asv's results file of a commit, or None.

        Raises:
            ResultsError: the file is broken.
        """
        path = self.path(commit)
        return StoredFile(path) if path.exists() else None

    def stored_series(self, commit: str) -> dict[Series, StoredSeries]:
        """Return the stored series of a commit whose version is that of today's suite."""
        stored, versions = self.stored(commit), self.series.versions
        if stored is None:
            return {}
        return {key: value for key, value in stored.series() if stored.version(key[0]) == versions.get(key[0])}

    def is_measured(self, commit: str, rounds: int, method: str) -> bool:
        """Return whether every series of a commit has its `rounds`, timed by `method`, or a reason for their lack."""
        stored = self.stored_series(commit)
        recorded = by_series(self.rounds(commit))
        joined = {series: join(recorded.get(series, ()), value) for series, value in stored.items()}
        other = {series for series, values in joined.items() if values and values[-1].method != method}
        failures = self.failure_counts(commit)
        return is_measured(stored, self.series.series, rounds, failures=failures, other_method=other)

    def measured_since(self, commit: str, when: float) -> bool:
        """Return whether every recorded round of a commit's chosen series is newer than a Unix time, s. False: none."""
        wanted = set(self.series.series)
        times = [record.time for record in self.rounds(commit) if (record.benchmark, record.params) in wanted]
        now = time.time()  # a later time was recorded before the clock was set back
        return bool(times) and all(when <= moment <= now for moment in times)

    def resumable_rounds(self, commit: str, rounds: int, method: str) -> int:
        """Return how many rounds of a commit a run of `rounds` can append to. 0 where the machine has changed."""
        if sessions.changes(self.facts(commit), fingerprint.now(os.environ)):
            return 0
        return resume.resumable_rounds(
            self.stored_series(commit),
            by_series(self.rounds(commit)),
            self.series.series,
            failures=self.failure_counts(commit),
            rounds=rounds,
            method=method,
            now=time.time(),
        )

    def measurements(self, commits: Collection[str], repository: Path) -> list[Measurement]:
        """Return the measurements of the chosen series at some commits of a repository."""
        wanted = set(self.series.series)
        recorded = past.open(self.results, repository, commits=commits)
        self.notes.update(dict.fromkeys(recorded.problems))
        return [
            measurement
            for commit in recorded.paths
            for measurement in recorded.at(commit)
            for key in [measurement.key]
            if (key.machine, key.environment) == (self.machine, self.environment)
            and (key.benchmark, (key.implementation, key.case)) in wanted
        ]

    def facts(self, commit: str) -> Mapping[str, str] | None:
        """Return the machine's facts of a commit's last session, or None."""
        last = sessions.at(lines.read_sessions(self.path(commit), []), None)
        return None if last is None else last.facts

    def failure_counts(self, commit: str) -> Counter[Series]:
        """Return the number of recorded failures of each series, inapplicable ones included."""
        return Counter((failure.benchmark, failure.params) for failure in self.failures(commit))

    def failures(self, commit: str) -> list[Failure]:
        """Return the recorded failures of a commit."""
        return self._read(commit, failures.SUFFIX, failures.decode)

    def rounds(self, commit: str) -> list[Round]:
        """Return the recorded rounds of a commit."""
        return self._read(commit, lines.ROUNDS, lines.decode_round)

    def _read(self, commit: str, suffix: str, decode: Callable[[str], Line]) -> list[Line]:
        notes: list[str] = []
        records = lines.read(lines.beside(self.path(commit), suffix), decode, notes)
        self.notes.update(dict.fromkeys(notes))
        return records
