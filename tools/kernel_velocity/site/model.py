"""What the pages are made from: a results directory and its repository, series by series.

A page asks for what it shows (`series`, `at`, `findings`), so that no page needs all values at once.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kernel_velocity.engine.telemetry import Round
from kernel_velocity.findings import evidence, store, today
from kernel_velocity.findings import store as findings_store
from kernel_velocity.findings.evidence import Evidence
from kernel_velocity.findings.finding import Finding
from kernel_velocity.findings.store import NightRecord
from kernel_velocity.findings.text import bisection
from kernel_velocity.past import past
from kernel_velocity.past.columns import Columns
from kernel_velocity.past.past import Past, Sessions, Tracked
from kernel_velocity.results import git, lines
from kernel_velocity.results.identity import TRACKED
from kernel_velocity.results.measurement import Measurement, SeriesKey
from kernel_velocity.results.records import Commit, name_parts
from kernel_velocity.results.sessions import SessionFacts, hardware_doubts
from kernel_velocity.roofline import ceilings as kept_ceilings
from kernel_velocity.roofline.model import Roofline, Roofs, roofline
from kernel_velocity.roofline.roofs import CeilingSession, Choice, Chooser
from kernel_velocity.site import text as pages
from kernel_velocity.site.text import CommitLine, Platform
from kernel_velocity.suite import config
from kernel_velocity.suite.config import Project
from kernel_velocity.verdict import silence
from kernel_velocity.verdict.ranges import CommitRange
from kernel_velocity.verdict.verdicts import Verdicts

STEP = 64  # measured commits from one rewriting of all series' own files to the next
OF_COMMIT, OF_RANGE = "/commit/", "/compare/"  # in addresses of GitHub, GitLab, Gitea, Forgejo
DIGITS = 12  # of a hash in a command
COLD = "cold"  # the cache state in which nothing lies in a cache
Rounds = Mapping[lines.Series, Sequence[Round]]  # by benchmark, implementation, case


class Edge(NamedTuple):
    """Where the series' own files end."""

    position: int  # the first one on the first-parent line that is not in them
    commits: int  # measured commits before it


class Unfinished(NamedTuple):
    """What a run still measures, and until when its pages may be expected, Unix time, s."""

    until: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Site:
    """Results, history and findings. What does not fit in memory is read when it is asked for."""

    results: Path
    repository: Path
    project: Project  # what the repository says of its kernels' sources
    past: Past
    unfinished: Unfinished | None = None
    # Of what was asked for
    _sessions: dict[Platform, Sessions] = field(default_factory=dict, init=False, repr=False, compare=False)
    _ceilings: dict[tuple[str, str], tuple[CeilingSession, ...]] = field(
        default_factory=dict, init=False, compare=False
    )
    _choosers: dict[Platform, Chooser] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def levels(self) -> Verdicts:
        """The levels of all series: what every page asks whether a series changed."""
        return Verdicts(self.past, today.confirmed(self.findings, self.past))

    @cached_property
    def platforms(self) -> tuple[Platform, ...]:
        """The machines and environments that have measurements. asv's description of a machine knows no GPU."""
        result = []
        for platform in pages.platforms(self.past.machines, self.past.platforms):
            sessions = self.past.sessions(platform.machine, platform.environment)
            gpus = [session.facts["gpu"] for _, session in sessions if "gpu" in session.facts]
            gpu = [("GPU", gpus[-1].partition(";")[0])] if gpus else []
            result.append(replace(platform, details=(*gpu, *platform.details)))
        return tuple(result)

    @property
    def commits(self) -> Mapping[str, Commit]:
        """The commits that have a result and that the repository has, by SHA."""
        return self.past.commits

    @property
    def line(self) -> tuple[str, ...]:
        """The first-parent line of HEAD, oldest first. `Columns.position` counts along it."""
        return self.past.line

    @property
    def order(self) -> Mapping[str, int]:
        """SHA -> its position on `line`."""
        return self.past.order

    @cached_property
    def tags(self) -> Mapping[str, tuple[str, ...]]:
        """SHA -> the names of its tags, for commits on `line`. A release branch's tags are not."""
        return {sha: names for sha, names in self.past.repository.tags.items() if sha in self.order}

    def tags_of(self, sha: str) -> tuple[str, ...]:
        """Return the names of a commit's tags, also of one beside `line`."""
        return self.past.repository.tags.get(sha, ())

    @property
    def has_results(self) -> bool:
        """Whether there is a results file of any machine, shown or not."""
        folders = (self.results / machine.name for machine in self.past.machines)
        return any(path.name != "machine.json" for folder in folders for path in folder.glob("*.json"))

    @property
    def findings_folder(self) -> str:
        """The folder of findings, relative to the repository. Of results elsewhere the last part of their path."""
        results, root = self.results.resolve(), self.repository.resolve()
        folder = results.relative_to(root) if results.is_relative_to(root) else Path(results.name)
        return (folder / findings_store.FOLDER).as_posix()

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be read, and machines that may be one."""
        unread = (text for _, problems in self.evidence.values() for text in problems)
        files = Counter(path.partition("/")[0] for path in self.past.directory.files)
        scattered = silence.scattered(self.past.machines, files)
        return (*scattered, *self.past.notes, *self._stored.problems, *unread, *self._verdicts[1])

    @cached_property
    def keys(self) -> tuple[SeriesKey, ...]:
        """Every series with a trend, by platform, benchmark, and its position on the benchmark's axes."""
        return tuple(
            sorted(
                self.past.keys,
                key=lambda key: (
                    key.machine,
                    key.environment,
                    key.benchmark,
                    pages.position_on_axes(self.past.benchmarks, key),
                ),
            )
        )

    @cached_property
    def has_kernels(self) -> bool:
        """Whether a series is a kernel's, or there is none yet. False where all are another suite's."""
        return not self.keys or any(name_parts(key.benchmark).device for key in self.keys)

    def keys_at(self, platform: Platform, benchmark: str | None = None) -> tuple[SeriesKey, ...]:
        """Return the series of a machine and environment, of one benchmark or of all, in the order of `keys`."""
        return self._keys_at.get((platform.machine, platform.environment, benchmark), ())

    @cached_property
    def _keys_at(self) -> Mapping[tuple[str, str, str | None], tuple[SeriesKey, ...]]:
        by_platform: dict[tuple[str, str, str | None], list[SeriesKey]] = {}
        for key in self.keys:
            for benchmark in (key.benchmark, None):
                by_platform.setdefault((key.machine, key.environment, benchmark), []).append(key)
        return {which: tuple(keys) for which, keys in by_platform.items()}

    def series(self, key: SeriesKey) -> Columns:
        """Return one of `keys` as columns."""
        return self.past.columns(key)

    @cached_property
    def tracked(self) -> Mapping[SeriesKey, Tracked]:
        """Every series of errors and of the compilers' figures, where it has values."""
        series = self.past.tracked.items()
        return {key: values for key, values in series if key.benchmark.rpartition(".")[2] in TRACKED}

    @cached_property
    def measured(self) -> tuple[str, ...]:
        """The commits that have a measurement and that the repository has: oldest first, those beside `line` last.

        Each has a page.
        """
        return tuple(sorted(self.past.paths, key=lambda sha: (sha not in self.order, self.order.get(sha, 0), sha)))

    @cached_property
    def along(self) -> tuple[str, ...]:
        """The measured commits of `line`, oldest first."""
        return tuple(sha for sha in self.measured if sha in self.order)

    @cached_property
    def edge(self) -> Edge:
        """Where the series' own files end: before the newest commits, fewer than STEP."""
        count = len(self.along) // STEP * STEP
        return Edge(position=self.order[self.along[count - 1]] + 1 if count else 0, commits=count)

    def older(self, key: SeriesKey) -> int:
        """Return how many entries of a series come before the edge."""
        return int(np.searchsorted(self.series(key).position, self.edge.position))

    def digest(self, key: SeriesKey, last: int | None = None) -> str:
        """Return a text that changes whenever the entries of a series up to before `last` (None: all) would.

        It follows from the results files up to the newest of these entries, so no value is read for it.
        """
        position = self.series(key).position[:last]
        count = bisect_right(self.along, position[-1], key=self.order.__getitem__) if len(position) else 0
        return f"{self._until[count]} {self.past.amounts(key)} {self.past.better(key.benchmark)}"

    @cached_property
    def _until(self) -> Sequence[str]:
        """A digest of the first 0, 1, ... commits of `along` and of their results files."""
        digest, until = hashlib.sha256(self.past.layout.shown.encode()), [""]
        for sha in self.along:
            source = (sha, [self.past.inputs(path) for path in self.past.paths[sha]])
            digest.update(repr(source).encode("utf-8", "surrogatepass"))
            until.append(digest.hexdigest())
        return until

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every finding, whatever its state."""
        return tuple(self._stored.findings)

    def today(self, finding: Finding) -> str:
        """Return where today's values no longer hold what a finding told. "" where they do."""
        return today.of_finding(finding, self.past, self.levels)

    @property
    def verdicts(self) -> tuple[NightRecord, ...]:
        """The newest night of each machine, the newest of them first."""
        return self._verdicts[0]

    def commit_url(self, sha: str) -> str:
        """Return the address of a commit at the code's host. "" where asv.conf.json has no show_commit_url."""
        return f"{self._commit_url}{sha}" if self._commit_url else ""

    @cached_property
    def _commit_url(self) -> str:
        url = config.asv_settings(self.repository).get("show_commit_url") or ""
        return url if url.startswith(("https://", "http://")) else ""

    def compare_url(self, commits: CommitRange) -> str:
        """Return the address of a range at the code's host. "" where only the form of a commit's address is known."""
        host, form, rest = self._commit_url.rpartition(OF_COMMIT)
        return f"{host}{OF_RANGE}{commits.good}...{commits.bad}" if form and not rest else ""

    def cause(self, commits: CommitRange, listed: str) -> CommitLine:
        """Return what a page names as the cause of a change. `listed`: the address at which a range is listed."""
        commit = None if commits.culprit is None else self.commit(commits.culprit)
        return pages.cause(commits, commit, listed, self.past.paths)

    def cause_url(self, commits: CommitRange) -> str:
        """Return the address of a range, or of its only commit, at the code's host. "" where it is not known."""
        if commits.culprit is not None:
            return self.commit_url(commits.culprit)
        return self.compare_url(commits) if commits.commits else ""

    def narrowing(self, key: SeriesKey, commits: CommitRange, *, rises: bool) -> str:
        """Return the command that narrows the range of a step. "" where nothing is left to be narrowed.

        It measures what is not measured. Where all of it is, noise left the range: `kv bisect` measures in turns.
        """
        if len(commits.commits) < 2:
            return ""
        good, bad = (end[:DIGITS] for end in (commits.good, commits.bad))
        series = self.series(key)
        measured = {*series.position[series.is_measured].tolist()}
        if any(self.order[sha] not in measured for sha in commits.commits):
            return f"kv track --range {good}..{bad}"
        if rises and name_parts(key.benchmark).device:
            return bisection(key.benchmark, key.implementation, key.case, good, bad)
        return f"kv track --range {good}..{bad} --again 1"

    @cached_property
    def source_changes(self) -> Mapping[str, Sequence[str]]:
        """The commits of `line` that changed the source of a kernel, by kernel."""
        kernels = dict.fromkeys(name_parts(key.benchmark).kernel for key in self.keys)
        return git.source_changes(self.repository, self.project, kernels)

    def commit(self, sha: str) -> Commit | None:
        """Return a commit that has a result or that a finding names. None where the repository does not have it."""
        return self.commits.get(sha) or self._named.get(sha)

    def roof_choice(self, platform: Platform, device: str, commit: str | None = None) -> Choice:
        """Return the roofs of a machine's device ("Cpu", "Cuda") from its recorded ceilings, or why there are none.

        Args:
            commit: whose values they are for. None: all commits of the platform.
        """
        if platform not in self._choosers:
            self._choosers[platform] = Chooser(self.sessions(platform), partial(self.ceilings, platform))
        return self._choosers[platform].choice(device, commit)

    def ceilings(self, platform: Platform, device: str) -> tuple[CeilingSession, ...]:
        """Return every session known of a machine that measured a device's ceilings, oldest first."""
        key = (platform.machine, device)
        if key not in self._ceilings:
            paths = (self.results / path for path in self.past.with_ceilings if path.startswith(f"{platform.machine}/"))
            self._ceilings[key] = kept_ceilings.of_machine(paths, self.repository, *key)
        return self._ceilings[key]

    def sessions(self, platform: Platform) -> Sessions:
        """Return (commit, what the machine was) of a platform's sessions, oldest first. One without news left none."""
        if platform not in self._sessions:
            self._sessions[platform] = self.past.sessions(platform.machine, platform.environment)
        return self._sessions[platform]

    def hardware_doubts(self, machine: str) -> Sequence[str]:
        """Return the signs that a machine's name stands for several machines, as sentences."""
        recorded = [pair for at in self.platforms if at.machine == machine for pair in self.sessions(at)]
        by_time = sorted(recorded, key=lambda pair: pair[1].began)
        if doubts := tuple(hardware_doubts(by_time)):
            return doubts
        # what asv says of results files spells a CPU in another way: it counts only where no session tells
        files = self.past.directory.of_machine(machine)
        along = sorted(files, key=lambda file: self.order.get(file.commit, len(self.line)))
        return tuple(hardware_doubts([(file.commit, SessionFacts(began=0.0, facts=file.hardware)) for file in along]))

    def path(self, platform: Platform, commit: str) -> str:
        """Return the results file of a commit at a platform, as the past names it, "" where there is none."""
        return self.past.path(platform.machine, platform.environment, commit)

    def has_rounds(self, platform: Platform, commit: str) -> bool:
        """Return whether there is telemetry of a commit whose results could be read. Of what, `rounds_at` says."""
        file = self.past.directory.files.get(self.path(platform, commit))
        return file is not None and file.has_telemetry

    def signature(self, platform: Platform, commit: str) -> str:
        """Return what changes whenever the files of a commit at a platform do: results, rounds, failures, sessions."""
        file = self.past.directory.files.get(self.path(platform, commit))
        return "" if file is None else file.signature

    def rounds_at(self, platform: Platform, commit: str) -> Rounds:
        """Return the rounds that telemetry has of a commit, by benchmark, implementation and case."""
        return lines.read_rounds(lines.beside(self.results / self.path(platform, commit), lines.ROUNDS), [])

    @cached_property
    def evidence(self) -> Mapping[str, tuple[Mapping[str, Evidence], tuple[str, ...]]]:
        """What is kept of each finding (its id) by machine, and a line for each file that cannot be read."""
        return {finding.id: evidence.read(self.results, finding.id) for finding in self.findings}

    @cached_property
    def _verdicts(self) -> tuple[tuple[NightRecord, ...], tuple[str, ...]]:
        return store.read_nights(self.results)

    @cached_property
    def _named(self) -> Mapping[str, Commit]:
        """The commits without a result that findings name, or that can have caused a change."""
        wanted = {sha for finding in self.findings for sha in finding.commits}
        wanted |= {sha for key in self.keys for range_ in self.levels[key].ranges for sha in range_.commits}
        wanted -= self.commits.keys()
        return git.read(self.repository, wanted).commits if wanted else {}

    @cached_property
    def _stored(self) -> findings_store.Stored:
        return findings_store.read(self.results)


def read(results: Path, repository: Path, cache: Path | None = None, unfinished: Unfinished | None = None) -> Site:
    """Read a results directory and its repository. Of the results only what changed since they were read last.

    Args:
        results: asv's results directory. repository: a folder of the repository.
        cache: the folder of the cache. None: the usual one beside the results directory.
        unfinished: what a run still measures.

    Raises:
        ResultsError: `results` is no directory.
        HistoryError: `repository` is no git repository with a commit.
    """
    opened = past.open(results, repository, folder=cache)
    return Site(results=results, repository=repository, project=opened.project, past=opened, unfinished=unfinished)


def below(series: Columns | Measurement, seconds: float | None, roofs: Roofs | None) -> Roofline | None:
    """Return how far a time of a series, s, is from the roofs. None where nothing can be said.

    Results hold no working set: a hot call's is taken for the bytes that it moves, and a cold one finds no cache full.
    """
    if roofs is None or seconds is None:
        return None
    is_cold = name_parts(series.key.benchmark)[2] == COLD
    return roofline(
        flops=series.flop,
        bytes=series.bytes_moved,
        working_set=math.inf if is_cold else None,
        seconds=seconds,
        roofs=roofs,
        dtype=series.key.dtype,
    )
