"""A site of one kernel with any number of commits and series, made of columns: no results directory is as fast.

It has what `Site` has and the kernel's page asks for. Planted: `native` gets 1.25 times faster at a third of the
history and 1.1 times slower at two thirds, for which there is a finding. Every hundredth commit is tagged. The driver
changes in the middle. `native` fails at every 97th commit.
"""

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

import git
import numpy as np

from kernel_velocity.findings.finding import Affected, Finding, Kind, State
from kernel_velocity.past import past
from kernel_velocity.past.columns import Columns
from kernel_velocity.results import git as results_git
from kernel_velocity.results.measurement import INTERVAL_METHOD, SeriesKey
from kernel_velocity.results.records import Commit
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.roofline.model import MemoryLevel, Roofs
from kernel_velocity.roofline.roofs import Choice
from kernel_velocity.site import report, series_data, text
from kernel_velocity.site.model import Site
from kernel_velocity.site.pages import kernel
from kernel_velocity.site.text import Platform
from kernel_velocity.site.writer import Writer
from kernel_velocity.suite.config import Project
from kernel_velocity.verdict import verdicts
from kernel_velocity.verdict.controls import Shared
from kernel_velocity.verdict.ranges import CommitRange
from tests.findings import nights
from tests.past.one_by_one import change_points_of

BENCHMARK, CASE = "matmul.Cuda.time_hot", "float32-1024x1024x1024"
FLOP, BYTES = 2.0 * 1024**3, 12.0 * 1024**2
NIGHT = 1_700_000_000.0  # Unix time of the first session, s


PROJECT = Project(sources=("kernels/{kernel}",))


class LargeLevels(dict):
    """The levels of all series, whose controls share nothing."""

    @property
    def shared(self):
        return dict.fromkeys(self, Shared({}))


@dataclass
class LargeSite:
    """What the kernel's page asks of a `Site`."""

    repository: Path
    length: int
    implementations: tuple[str, ...]
    machine: str = "bench-1"
    subjects: tuple[str, ...] = ("Tile the outer loops",)  # of the commits, in turn
    author: str = "Ada Lovelace"
    tag_names: tuple[str, ...] = ("v{}",)
    details: tuple[tuple[str, str], ...] = (("cpu", "Imaginary 9000"),)
    states: tuple[str, ...] = ("hot",)
    project: Project = PROJECT
    benchmarks: dict = field(default_factory=dict)  # by name; the columns know FLOPs and bytes
    has_kernels: bool = True
    takes_turns: bool = False  # each implementation is measured at every so many-th commit only, one after the other
    nowhere: tuple[str, ...] = ()  # implementations that are n/a at every commit
    findings_at: tuple[float, ...] = (2 / 3,)  # shares of the history
    _series: dict = field(default_factory=dict)

    def __post_init__(self):
        self.line = tuple(hashlib.sha1(str(index).encode()).hexdigest() for index in range(self.length))
        self.measured = self.line
        self.order = {sha: index for index, sha in enumerate(self.line)}
        moment = datetime(2020, 1, 1, tzinfo=UTC)
        self.commits = {
            sha: Commit(
                sha=sha,
                parents=(),
                author=self.author,
                date=moment + timedelta(hours=6 * index),
                committed=moment + timedelta(hours=6 * index),
                message=self.subjects[index % len(self.subjects)],
            )
            for index, sha in enumerate(self.line)
        }
        self.platform = Platform(
            anchor="place-1", machine=self.machine, environment="host-py3.11", details=self.details
        )
        self.platforms = (self.platform,)
        self.keys = tuple(
            SeriesKey(
                machine=self.machine,
                environment="host-py3.11",
                benchmark=f"matmul.Cuda.time_{state}",
                implementation=name,
                case=CASE,
                version="1",
            )
            for state in self.states
            for name in self.implementations
        )
        positions = [int(share * self.length) for share in self.findings_at]
        self.findings = tuple(map(self._finding, positions)) if self.length > 1 else ()

    along, edge, older = Site.along, Site.edge, Site.older

    @property
    def tags(self):
        names = self.tag_names
        return {sha: (names[i % len(names)].format(i),) for i, sha in enumerate(self.line) if i % 100 == 99}

    def keys_at(self, _platform, benchmark=None):
        return tuple(key for key in self.keys if benchmark in (None, key.benchmark))

    def series(self, key):
        if key not in self._series:
            self._series[key] = self._columns(key)
        return self._series[key]

    @property
    def source_changes(self):
        return results_git.source_changes(self.repository, self.project, ["matmul"])

    @cached_property
    def levels(self):
        # of the one with steps: looking for none in the others takes most of a large site's time
        native = {key for key in self.keys if key.implementation == "native"}
        points = {key: change_points_of(self.series(key)) if key in native else () for key in self.keys}
        return LargeLevels({key: self._levels(key, tuple(several)) for key, several in points.items()})

    def _levels(self, key, points):
        columns = self.series(key)
        (unseen,) = verdicts.unseen([columns], [np.full(len(columns), np.nan)], [points], [None], 0.001)
        ends = [columns.position[point.index - 1 : point.index + 1].tolist() for point in points]
        ranges = tuple(
            CommitRange(good=self.line[good], bad=self.line[bad], commits=self.line[good + 1 : bad + 1])
            for good, bad in ends
        )
        return verdicts.Levels(points=points, values=columns.seconds, within=unseen.within, doubt=None, ranges=ranges)

    def cause(self, commits, listed):
        return text.cause(commits, self.commits.get(commits.culprit), listed, self.order)

    @property
    def evidence(self):
        return {finding.id: ({}, ()) for finding in self.findings}

    def roof_choice(self, _platform, _device, _commit=None):
        return Choice(
            roofs=Roofs(levels=(MemoryLevel(name="DRAM", size=None, bandwidth=2e12),), peaks={"float32": 40e12})
        )

    def sessions(self, _platform):
        half = self.length // 2
        return tuple(
            (sha, SessionFacts(began=NIGHT + index, facts={"driver": "580.65" if index < half else "590.10"}))
            for index, sha in enumerate(self.line)
        )

    folder = None  # of a cache

    @property
    def past(self):
        return self

    @cached_property
    def tracked(self):
        return {
            key: past.Tracked(
                key=key,
                position=np.arange(self.length, dtype=np.int32),
                value=np.full(self.length, 1.5e-7),
                began=np.full(self.length, np.nan),
            )
            for name in self.implementations
            for key in [
                SeriesKey(
                    machine=self.machine,
                    environment="host-py3.11",
                    benchmark="matmul.Cuda.track_max_error",
                    implementation=name,
                    case=CASE,
                    version="1",
                )
            ]
        }

    def _columns(self, key):
        count, rng = self.length, np.random.default_rng(self.keys.index(key))
        speed = 8e12 * (1 + 0.15 * self.implementations.index(key.implementation))
        level = np.full(count, FLOP / speed * (1.3 if key.benchmark.endswith("cold") else 1.0))
        outcome = np.zeros(count, dtype=np.int32)
        if key.implementation == "native":
            level[count // 3 :] /= 1.25
            level[2 * count // 3 :] *= 1.1
            outcome[96::97] = 2
        if self.takes_turns:
            turns = np.arange(count) % len(self.implementations)
            outcome[turns != self.implementations.index(key.implementation)] = 1
        if key.implementation in self.nowhere:
            outcome[:] = 1
        # in the digits of a data file, so that the browser rounds the same numbers
        seconds = np.where(outcome == 0, np.round(level * np.exp(rng.normal(0, 0.008, count)), 10), np.nan)
        half = 1 + np.abs(rng.normal(0.01, 0.002, count))
        return Columns(
            key=key,
            position=np.arange(count, dtype=np.int32),
            outcome=outcome,
            seconds=seconds,
            low=seconds / half,
            high=seconds * half,
            adjusted=np.full(count, np.nan),
            adjusted_low=np.full(count, np.nan),
            adjusted_high=np.full(count, np.nan),
            rounds=np.full(count, 8, dtype=np.int32),
            method=np.zeros(count, dtype=np.int32),
            methods=("a1b2c3d4",),
            interval_methods=dict.fromkeys(range(count), INTERVAL_METHOD),
            reasons={int(index): "wrong by 3e-2" for index in np.flatnonzero(outcome == 2)},
            warnings={1: ("contended in 1 of 8 rounds",)},
            flop=FLOP,
            bytes_moved=BYTES,
        )

    def digest(self, key, last=None):
        """Return a name of these entries of the series: they never change here."""
        return repr((key, last))

    def _finding(self, position):
        sha = self.line[position]
        identity = nights.identity(machine=self.machine, benchmark=BENCHMARK, case=CASE, method="a1b2c3d4")
        return Finding(
            id=f"matmul-regression-{sha[:8]}",
            kind=Kind.REGRESSION,
            state=State.CONFIRMED,
            subject="matmul",
            found=datetime(2026, 1, 1, tzinfo=UTC),
            commits=(sha,),
            affected=(Affected(identity=identity, ratio=1.1, low=1.09, high=1.11),),
        )


def make(folder, length, implementations, **more):
    """Return a site whose repository has one commit, which is none of its own."""
    with git.Repo.init(folder / "repository", initial_branch="main") as repo:
        repo.index.commit("Begin")
    return LargeSite(repository=folder / "repository", length=length, implementations=tuple(implementations), **more)


def write(site, out):
    """Write the kernel's page, the data and what pages load below `out`. Return the page."""
    out.mkdir()
    new = out / ".new"
    new.mkdir()
    writer = Writer(new=new, out=out, makers="")
    for name, content in report.static_files().items():
        writer.add(f"static/{name}", content)
    report._make(site, writer, [*kernel.parts(site), series_data.build])
    writer.finish()
    for finding in site.findings:
        (out / f"finding-{finding.id}.html").write_text("<!doctype html><title>finding</title>")
    return out / "kernel-matmul-Cuda.html"
