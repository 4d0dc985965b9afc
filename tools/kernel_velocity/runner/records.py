"""What is recorded of commits on one machine, read for a run: values, rounds, failures, what the machine was."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from asv.results import get_filename

from kernel_velocity.harness import telemetry
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
    """The files of a machine and environment in asv's results directory, and of what lies beside them."""

    results: Path  # asv's directory
    machine: str
    environment: str
    series: Selection  # whose versions count
    notes: dict[str, None] = field(default_factory=dict)  # what could not be read, one line each, in order

    def path(self, commit: str) -> Path:
        """Return where asv keeps what it recorded of a commit."""
        return self.results / str(get_filename(self.machine, commit, self.environment))

    def stored(self, commit: str) -> StoredFile | None:
        """Return what asv recorded of a commit; None: nothing.

        Raises:
            ResultsError: the file is broken.
        """
        path = self.path(commit)
        return StoredFile(path) if path.exists() else None

    def known(self, commit: str) -> dict[Series, StoredSeries]:
        """Return what is stored of a commit in the versions of today's suite."""
        stored, versions = self.stored(commit), self.series.versions
        found = stored.series() if stored else ()
        return {one: item for one, item in found if stored and stored.version(one[0]) == versions.get(one[0])}

    def is_measured(self, commit: str, rounds: int, method: str) -> bool:
        """Return whether what is recorded of a commit leaves nothing to measure of `rounds` by a timing method."""
        known = self.known(commit)
        recorded = by_series(self.rounds(commit))
        joined = {series: join(recorded.get(series, ()), item) for series, item in known.items()}
        other = {series for series, found in joined.items() if found and found[-1].method != method}
        return is_measured(known, self.series.series, rounds, told=self.told(commit), other_method=other)

    def measured_since(self, commit: str, when: float) -> bool:
        """Return whether every chosen series of a commit that has a value was measured after a Unix time, s."""
        wanted = set(self.series.series)
        found = [item for item in self.rounds(commit) if (item.benchmark, item.params) in wanted]
        now = time.time()  # what is of after it was measured before the clock was set back
        return bool(found) and all(when <= item.time <= now for item in found)

    def kept_rounds(self, commit: str, rounds: int, method: str) -> int:
        """Return how many rounds of a commit a run of `rounds` can go on from: of a machine that is as it was."""
        if sessions.changes(self.facts(commit), fingerprint.now(os.environ)):
            return 0
        return resume.kept_rounds(
            self.known(commit),
            by_series(self.rounds(commit)),
            self.series.series,
            told=self.told(commit),
            rounds=rounds,
            method=method,
            now=time.time(),
        )

    def measurements(self, commits: Collection[str], repository: Path) -> list[Measurement]:
        """Return what is recorded of some commits of a repository and of the chosen series."""
        wanted = set(self.series.series)
        recorded = past.open(self.results, repository, commits=commits)
        self.notes.update(dict.fromkeys(recorded.problems))
        return [
            item
            for commit in recorded.paths
            for item in recorded.at(commit)
            if (item.key.machine, item.key.environment) == (self.machine, self.environment)
            and (item.key.benchmark, (item.key.implementation, item.key.case)) in wanted
        ]

    def facts(self, commit: str) -> Mapping[str, str] | None:
        """Return what the machine was when a commit was measured last; None: it is not known."""
        last = sessions.at(lines.read_sessions(self.path(commit), []), None)
        return None if last is None else last.facts

    def told(self, commit: str) -> Counter[Series]:
        """Return how many rounds of each series said why they have no value."""
        return Counter((item.benchmark, item.params) for item in self.failures(commit))

    def failures(self, commit: str) -> list[Failure]:
        """Return the recorded failures of a commit."""
        return self._read(commit, failures.SUFFIX, failures.decode)

    def rounds(self, commit: str) -> list[Round]:
        """Return the recorded rounds of a commit."""
        return self._read(commit, lines.ROUNDS, telemetry.decode)

    def _read(self, commit: str, suffix: str, decode: Callable[[str], Line]) -> list[Line]:
        notes: list[str] = []
        found = lines.read(lines.beside(self.path(commit), suffix), decode, notes)
        self.notes.update(dict.fromkeys(notes))
        return found
