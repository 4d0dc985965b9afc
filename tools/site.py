"""What the pages are made from: a results directory and its repository, series by series.

A page asks for what it shows (`series`, `at`, `findings`), so that no page needs all values at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tools import findings_store, kept_ceilings, pages, reading, roofs, site_store
from tools.columns import Columns
from tools.finding import Finding
from tools.measurements import Measurement, SeriesKey
from tools.pages import Place, SiteData
from tools.recorded import Benchmark, Commit, Machine
from tools.roofline import Roofs
from tools.site_store import Store

CACHE = Path(".asv", "cache", "report")  # beside the results directory


@dataclass(frozen=True, kw_only=True)
class Site:
    """Results, history and findings; what does not fit in memory is read when it is asked for."""

    results: Path
    repository: Path
    store: Store

    @property
    def machines(self) -> tuple[Machine, ...]:
        """Every machine's folder."""
        return self.store.found.machines

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """The machines and environments that have measurements."""
        return pages.places(self.machines, self.store.places)

    @property
    def benchmarks(self) -> Mapping[str, Benchmark]:
        """What benchmarks.json says of every timing benchmark."""
        return self.store.found.benchmarks or {}

    @property
    def commits(self) -> Mapping[str, Commit]:
        """The commits that have a result and that the repository has, by SHA."""
        return self.store.past.commits

    @property
    def line(self) -> tuple[str, ...]:
        """The first-parent line of HEAD, oldest first; `Columns.place` counts along it."""
        return self.store.past.line

    @property
    def order(self) -> Mapping[str, int]:
        """SHA -> its place on `line`."""
        return self.store.order

    @property
    def tags(self) -> Mapping[str, tuple[str, ...]]:
        """SHA -> the names of its tags, for commits on `line`."""
        return self.store.past.tags

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be read."""
        return (*self.store.notes, *self._stored.problems)

    @cached_property
    def keys(self) -> tuple[SeriesKey, ...]:
        """Every series with a trend, by place, benchmark, and its place on the benchmark's axes."""
        return tuple(
            sorted(
                self.store.keys,
                key=lambda key: (
                    key.machine,
                    key.environment,
                    key.benchmark,
                    pages.place_on_axes(self.benchmarks, key),
                ),
            )
        )

    def keys_at(self, place: Place, benchmark: str | None = None) -> tuple[SeriesKey, ...]:
        """Return the series of a machine and environment, of one benchmark or of all, in the order of `keys`."""
        return self._keys_at.get((place.machine, place.environment, benchmark), ())

    @cached_property
    def _keys_at(self) -> Mapping[tuple[str, str, str | None], tuple[SeriesKey, ...]]:
        found: dict[tuple[str, str, str | None], list[SeriesKey]] = {}
        for key in self.keys:
            for benchmark in (key.benchmark, None):
                found.setdefault((key.machine, key.environment, benchmark), []).append(key)
        return {which: tuple(keys) for which, keys in found.items()}

    def series(self, key: SeriesKey) -> Columns:
        """Return one of `keys` as columns."""
        return self.store.series(key)

    def digest(self, key: SeriesKey) -> str:
        """Return what changes whenever `series` would say something else: an input of a page or data file."""
        return self.store.digest(key)

    def digest_until(self, commit: str) -> str:
        """Return what changes whenever `at` would say something else of a commit, or of one before it on `line`."""
        return self.store.digests[commit]

    def last_measured(self, key: SeriesKey) -> float | None:
        """Return the Unix time, s, at which a series was measured last; None where nothing says when."""
        return self.store.last_measured(key)

    def at(self, commit: str) -> tuple[Measurement, ...]:
        """Return everything measured of a commit, on all machines; also of one beside the first-parent line."""
        return tuple(self.store.at(commit))

    @cached_property
    def measured(self) -> tuple[str, ...]:
        """The commits that have a measurement and that the repository has: oldest first, those beside `line` last."""
        return tuple(sorted(self.store.paths, key=lambda sha: (sha not in self.order, self.order.get(sha, 0), sha)))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every finding, whatever its state."""
        return tuple(self._stored.findings)

    def roofs(self, place: Place, device: str) -> Roofs | None:
        """Return the roofs of a machine's device ("Cpu", "Cuda") from its recorded ceilings; None without any."""
        known = kept_ceilings.recorded(self.results / place.machine, device.lower())
        return roofs.roofs(sorted(known, key=lambda session: session.began), device.lower())

    @cached_property
    def data(self) -> SiteData:
        """Everything as objects, in memory: for pages that are not yet made series by series."""
        return reading.site_data(self.results, self.repository)

    @cached_property
    def _stored(self) -> findings_store.Stored:
        return findings_store.read(self.results)


def read(results: Path, repository: Path, cache: Path | None = None) -> Site:
    """Read a results directory and its repository; of the results only what changed since they were read last.

    Args:
        results: asv's results directory. repository: a folder of the repository.
        cache: the folder of what is kept of the results; None: `CACHE` beside the results directory.

    Raises:
        ResultsError: `results` is no directory.
        HistoryError: `repository` is no git repository with a commit.
    """
    folder = results.resolve().parent / CACHE if cache is None else cache
    return Site(results=results, repository=repository, store=site_store.read(results, repository, folder))
