"""What the pages are made from: a results directory and its repository, series by series.

A page asks for what it shows (`series`, `at`, `findings`), so that no page needs all values at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tools import accuracy_series, asv_results, columns, findings_store, kept_ceilings, reading, roofs, series_changes
from tools.accuracy_series import Accuracy
from tools.changepoints_values import ChangePoint
from tools.columns import Columns
from tools.finding import Finding
from tools.measurements import Measurement, SeriesKey
from tools.pages import Place, SiteData
from tools.recorded import Benchmark, Commit, Machine, ResultsFile
from tools.roofline import Roofs
from tools.session_facts import SessionFacts


@dataclass(frozen=True, kw_only=True)
class Site:
    """Results, history and findings; what does not fit in memory is read when it is asked for."""

    results: Path
    repository: Path
    data: SiteData

    @property
    def machines(self) -> tuple[Machine, ...]:
        """Every machine's folder."""
        return self.data.machines

    @property
    def places(self) -> tuple[Place, ...]:
        """The machines and environments that have measurements."""
        return self.data.places

    @property
    def benchmarks(self) -> Mapping[str, Benchmark]:
        """What benchmarks.json says of every timing benchmark."""
        return self.data.benchmarks

    @property
    def commits(self) -> Mapping[str, Commit]:
        """The commits that have a result and that the repository has, by SHA."""
        return self.data.history.commits

    @property
    def line(self) -> tuple[str, ...]:
        """The first-parent line of HEAD, oldest first; `Columns.place` counts along it."""
        return self.data.history.line

    @property
    def order(self) -> Mapping[str, int]:
        """SHA -> its place on `line`."""
        return self.data.order

    @property
    def tags(self) -> Mapping[str, tuple[str, ...]]:
        """SHA -> the names of its tags, for commits on `line`."""
        return self.data.history.tags

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be read."""
        return (*self.data.notes, *self._stored.problems)

    @cached_property
    def keys(self) -> tuple[SeriesKey, ...]:
        """Every series with a trend, by place, benchmark, and its place on the benchmark's axes."""
        found = self.data.trends
        return tuple(
            sorted(found, key=lambda key: (key.machine, key.environment, key.benchmark, self.data.place_on_axes(key)))
        )

    def keys_at(self, place: Place, benchmark: str | None = None) -> tuple[SeriesKey, ...]:
        """Return the series of a machine and environment, of one benchmark or of all, in the order of `keys`."""
        here = (place.machine, place.environment)
        return tuple(
            key for key in self.keys if (key.machine, key.environment) == here and benchmark in (None, key.benchmark)
        )

    def series(self, key: SeriesKey) -> Columns:
        """Return one of `keys` as columns."""
        return columns.of([point.measurement for point in self.data.trends[key].points], self.order)

    def change_points(self, key: SeriesKey) -> tuple[ChangePoint, ...]:
        """Return the change points of one of `keys`; their indices are entries of its columns."""
        return series_changes.of(self.series(key))

    @property
    def accuracy_keys(self) -> tuple[SeriesKey, ...]:
        """Every series of errors, `<kernel>.<Device>.track_max_error`."""
        return tuple(self._errors)

    def accuracy(self, key: SeriesKey) -> Accuracy:
        """Return one of `accuracy_keys` as columns."""
        return self._errors[key]

    def sessions(self, place: Place) -> tuple[tuple[str, SessionFacts], ...]:
        """Return what the sessions that measured a machine and environment found, each with its commit; as kept."""
        here = (place.machine, place.environment)
        return tuple(
            (file.commit, session)
            for file in self._files
            if (file.machine, file.environment) == here
            for session in file.sessions
        )

    def at(self, commit: str) -> tuple[Measurement, ...]:
        """Return everything measured of a commit, on all machines; also of one beside the first-parent line."""
        return self._by_commit.get(commit, ())

    @property
    def measured(self) -> tuple[str, ...]:
        """The commits that have a measurement and that the repository has: oldest first, those beside `line` last."""
        return tuple(sorted(self._by_commit, key=lambda sha: (sha not in self.order, self.order.get(sha, 0), sha)))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every finding, whatever its state."""
        return tuple(self._stored.findings)

    def roofs(self, place: Place, device: str) -> Roofs | None:
        """Return the roofs of a machine's device ("Cpu", "Cuda") from its recorded ceilings; None without any."""
        known = kept_ceilings.recorded(self.results / place.machine, device.lower())
        return roofs.roofs(sorted(known, key=lambda session: session.began), device.lower())

    @cached_property
    def _files(self) -> tuple[ResultsFile, ...]:
        return asv_results.read(self.results).files

    @cached_property
    def _errors(self) -> dict[SeriesKey, Accuracy]:
        return accuracy_series.build(self._files, self.order)

    @cached_property
    def _by_commit(self) -> dict[str, tuple[Measurement, ...]]:
        found: dict[str, list[Measurement]] = {}
        for item in self.data.measurements:
            found.setdefault(item.commit, []).append(item)
        return {sha: tuple(items) for sha, items in found.items()}

    @cached_property
    def _stored(self) -> findings_store.Stored:
        return findings_store.read(self.results)


def read(results: Path, repository: Path) -> Site:
    """Read a results directory and its repository.

    Raises:
        ResultsError: `results` is no directory.
        HistoryError: `repository` is no git repository with a commit.
    """
    return Site(results=results, repository=repository, data=reading.site_data(results, repository))
