"""commit-<8 digits>.html: what a commit changed, the surest and largest first, how it was built, on what machine.

The same as data, for other tools: `data/commit-<first 12 digits of its hash>`.

- `commit`, `page`, `parents`, `tags`. `last_tag`: the full SHA of the newest tagged commit before it, null for none.
- `findings`: the ids of those that name it.
- `places`: for each machine and environment with a value of it, `values`: how many there are, and how many of them are
  `slower`, `faster`, `unchanged`, `undecided`, `without a baseline`, `failed`, `n/a`.
- `changed`: the page's first table, in its order, as columns of equal length: what the value is of (`series` is its
  data file), `outcome`, times in s per call, `finding`, and `before` and `tag`, each with the `commit` that it is
  compared with, the `ratio` of times, new over old, by the levels of the series, and the `verdict`.

What did not change is counted here, and held by the series' own files. null: unknown, or there is none.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple
from urllib.parse import quote_plus

import numpy as np

from kernel_velocity import units
from kernel_velocity.errors import HistoryError
from kernel_velocity.findings.finding import Affected, Finding, State, finding_href
from kernel_velocity.results import git, identity
from kernel_velocity.results import sessions as session_facts
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.identity import Slot
from kernel_velocity.results.measurement import OUTCOMES, SeriesKey
from kernel_velocity.results.records import Commit, name_parts
from kernel_velocity.results.sessions import COMPILERS, SessionFacts
from kernel_velocity.series.columns import NONE, Truth
from kernel_velocity.site import model, text
from kernel_velocity.site.model import Site
from kernel_velocity.site.pages import commit_values, home, measurement
from kernel_velocity.site.pages.commit_values import (
    BASES,
    FAILED,
    FIGURES,
    MEASURED,
    NO_TAG,
    NOT_APPLICABLE,
    WORDS,
    Against,
    Line,
    Values,
)
from kernel_velocity.site.series_data import significant
from kernel_velocity.site.text import Cell, Footnotes, Platform, Table
from kernel_velocity.site.writer import DataFile, Page, series_name

FORMAT = 2  # of the data
DIGITS = 12  # of a hash in the data file's name and in links to compare.html
CODE_DIGITS = 12  # of a code hash: enough to tell the builds of a repository apart
NOT_RECORDED = "not recorded"
# Columns of a table: head -> CSS class
KERNEL = {
    "kernel": "",
    "code hash": "sha",
    "against before": "",
    "CUDA code: registers and spills, maximum over functions": "",
}
OPEN_UP_TO = 20  # rows: with no more, a fold is open from the start
# Values at a place of which the page of a commit on the line holds all rows. Of more, it holds those that changed, and
# links to where the reader's machine compares the others: a site of 500 commits by 1000 series would hold half a
# million. What would have been seen of the others changes with the newest values, so such a page stays as it is.
HELD_UP_TO = 100
MOST_LINES = 400  # of a difference
MOST_FILES = 20  # named on a page
FILES_AT_ONCE = 64  # commits that git is asked about in one call
_KEY = ("machine", "environment", "benchmark", "implementation", "case")
_SURE = (State.CONFIRMED, State.EXPECTED, State.ACKNOWLEDGED, State.SUSPECT, State.NEW)


def build(site: Site) -> Iterator[Page | DataFile]:
    """Yield the page of every commit that has a measurement and that the repository has, and its data."""
    maker = Maker(site)
    for sha in site.measured:
        context, inputs = partial(maker.context, sha), maker.inputs(sha)
        yield Page(name=text.commit_href(sha), template="commit.html", context=context, inputs=inputs.page)
        yield DataFile(name=f"commit-{sha[:DIGITS]}", value=partial(maker.data, sha), inputs=inputs.data)


class PageInputs(NamedTuple):
    """Texts that change whenever a commit's page and its data would. None for a commit beside the line."""

    page: str | None = None
    data: str | None = None


class Maker:
    """Makes the pages of a site's commits."""

    def __init__(self, site: Site) -> None:
        """Take a site."""
        self.site, self.line = site, Line(site)
        self._values = self.line.inputs()
        self._files: dict[str, tuple[tuple[str, str, str], ...]] = {}
        self._findings: dict[str, list[Finding]] = {}  # by commit that they name
        for finding in site.findings:
            for sha in finding.commits:
                self._findings.setdefault(sha, []).append(finding)
        along = [sha for sha in site.measured if sha in site.order]
        # commits of the line -> the ones measured before and after
        self._neighbours = dict(zip(along, zip([None, *along], [*along[1:], None], strict=False), strict=False))
        self._sessions = {platform.anchor: _sessions(site, platform, along) for platform in site.platforms}
        self._kernels = frozenset(text.kernel_href(*name_parts(key.benchmark)[:2]) for key in site.keys)

    def context(self, sha: str) -> dict[str, Any]:
        """Return what the template of a commit's page is filled with."""
        return {"page": self.page(sha)}

    def inputs(self, sha: str) -> PageInputs:
        """Return what a commit's page and its data follow from."""
        site, position = self.site, self.site.order.get(sha)
        if position is None:
            return PageInputs()
        findings = self._findings.get(sha, ())
        builds = [(self._build(at, sha), site.machine_steps.get((at, sha))) for at in site.platforms]
        # a commit is its hash; whether the clone has it, and it has a page, is not
        named = (*site.commits[sha].parents, *(commit for finding in findings for commit in finding.commits))
        present = [(site.commit(commit) is not None, commit in site.with_page) for commit in named]
        values = self._values[position]
        source = (sha, site.tags.get(sha), self._tag(sha), findings, builds, present, self._everywhere, values.values)
        both = repr(source)
        is_held = any(self._is_held(sha, platform) for platform in site.platforms)
        # A finding's series may be none that changed. The page alone links to the commits measured before and after.
        return PageInputs(
            page=f"{both} {self._neighbours[sha]} {values.levels if findings or is_held else values.shown}",
            data=f"{both} {values.levels if findings else values.ratios}",
        )

    def _is_held(self, sha: str, platform: Platform) -> bool:
        """Return whether the page of a commit holds the rows of all its values on a platform."""
        slots = self.site.past.layout.files.get(model.results_file(platform, sha), ())
        return 0 < len(slots) <= HELD_UP_TO or sha not in self.site.order

    @cached_property
    def _everywhere(self) -> str:
        """A digest of what all pages are made from."""
        cases = sorted((name, benchmark.cases) for name, benchmark in self.site.past.benchmarks.items())
        source = repr((self.site.platforms, cases, sorted(self._kernels)))
        return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()

    def page(self, sha: str) -> dict[str, Any]:
        """Return the page of a commit."""
        commit, site = self.site.commits[sha], self.site
        shown, rows = self.values(sha), self._rows(sha)
        is_first = rows.is_first(shown)
        changed = rows.rows(rows.ordered(shown[is_first]))
        at_platforms = [(platform, shown.at(platform.machine, platform.environment)) for platform in site.platforms]
        quiet = shown[~is_first]
        sections = [
            self._section(sha, platform, values, quiet, rows) for platform, values in at_platforms if len(values)
        ]
        older, newer = self._neighbours.get(sha, (None, None))
        line, tag = text.commit_line(commit), self._tag(sha)
        against = "parent" if _is_against(shown, commit.parents[:1]) else "the commit before"
        return {
            "name": line.href,
            "sha": sha,
            "short": line.short,
            "subject": line.subject,
            "body": commit.message.strip().partition("\n")[2].strip("\n"),  # the rest of the message
            "author": commit.author,
            "date": f"{commit.date:%Y-%m-%d %H:%M %z}",
            "tags": site.tags_of(sha),
            "parents": [
                (parent[:SHORT], text.commit_href(parent) if parent in site.with_page else "")
                for parent in commit.parents
            ],
            "older": older and text.commit_line(site.commits[older]),
            "newer": newer and text.commit_line(site.commits[newer]),
            "findings": [home.finding_line(site, finding) for finding in self._findings.get(sha, ())],
            "lead": self._lead(commit, shown),
            "heads": [f"against {against}", *([f"against {tag}"] if tag else [])],
            "tag": tag,
            "changed": changed,
            "sources": self._sources(sha),
            "files": self._changed_files(sha),
            "url": site.commit_url(sha),
            "several": len(sections) > 1,
            "sections": sections,
            "footnotes": rows.notes.texts,
        }

    def data(self, sha: str) -> dict[str, Any]:
        """Return the same as numbers."""
        position, commit, shown, rows = (
            self.site.order.get(sha),
            self.site.commits[sha],
            self.values(sha),
            self._rows(sha),
        )
        tag = NO_TAG if position is None else int(self.line.tags[position])
        changed = rows.ordered(shown[rows.is_first(shown)])
        keys = changed.keys
        findings = [rows.finding_of(key) for key in keys]
        at_platforms = [(at, shown.at(at.machine, at.environment)) for at in self.site.platforms]
        return {
            "format": FORMAT,
            "commit": sha,
            "page": text.commit_href(sha),
            "parents": list(commit.parents),
            "tags": list(self.site.tags_of(sha)),
            "last_tag": None if tag == NO_TAG else self.site.line[tag],
            "findings": [finding.id for finding in self._findings.get(sha, ())],
            "places": [
                {"machine": at.machine, "environment": at.environment, "values": len(values), **values.counts()}
                for at, values in at_platforms
                if len(values)
            ],
            "changed": {
                "series": list(map(series_name, keys)),
                **{part: [getattr(key, part) for key in keys] for part in _KEY},
                "outcome": [OUTCOMES[outcome].value for outcome in changed.outcome.tolist()],
                **{figure: significant(changed.figure(figure)) for figure in FIGURES},
                **{base: _against(getattr(changed, base), changed.others) for base in BASES},
                "finding": [finding and finding[0].id for finding in findings],
            },
        }

    def values(self, sha: str) -> Values:
        """Return what was measured of a commit, without test cases that nobody asked for."""
        position = self.site.order.get(sha)
        values = commit_values.beside(self.site, sha, self.line.tags) if position is None else self.line.at(position)
        return values.without_absent_cases()

    def _sources(self, sha: str) -> list[dict[str, str]]:
        """Return the kernels whose sources a commit changed, with the difference, its first MOST_LINES lines."""
        sources = []
        for kernel in self._kernels_of.get(sha, ()):
            lines = git.difference(self.site.repository, sha, self.site.project.sources_of(kernel)).splitlines()
            more = len(lines) - MOST_LINES
            sources.append(
                {
                    "kernel": kernel,
                    "changed": units.count(sum(map(_is_changed, lines)), "changed line"),
                    "text": "\n".join(lines[:MOST_LINES]),
                    "further": f"{more:,} more lines" if more > 0 else "",
                }
            )
        return sources

    def _changed_files(self, sha: str) -> dict[str, Any]:
        """Return the files that a commit changed, with the numbers of lines added and removed."""
        if sha not in self._files:
            at = self.site.measured.index(sha) // FILES_AT_ONCE * FILES_AT_ONCE
            wanted = self.site.measured[at : at + FILES_AT_ONCE]
            try:
                self._files |= git.changed_lines(self.site.repository, wanted)
            except HistoryError as error:
                return {"summary": "", "rows": (), "further": "", "unknown": str(error)}
        files = self._files.get(sha, ())
        added, removed = (sum(int(file[number]) for file in files if file[number] != "-") for number in (1, 2))
        more = len(files) - MOST_FILES
        return {
            "summary": f"{units.count(len(files), 'file')}, {added:,} lines added, {removed:,} removed",
            "rows": [
                (name, *("" if count == "-" else count for count in counts)) for name, *counts in files[:MOST_FILES]
            ],
            "further": f"and {units.count(more, 'more file')}" if more > 0 else "",
            "unknown": "",
        }

    @cached_property
    def _kernels_of(self) -> Mapping[str, list[str]]:
        """The kernels whose sources each commit changed."""
        kernels: dict[str, list[str]] = {}
        for kernel, shas in self.site.source_changes.items():
            for sha in shas:
                kernels.setdefault(sha, []).append(kernel)
        return kernels

    def _rows(self, sha: str) -> RowMaker:
        findings = self._findings.get(sha, ())
        by_slot = {affected.identity.slot: (finding, affected) for finding in findings for affected in finding.affected}
        return RowMaker(commit=self.site.commits[sha], findings=by_slot, kernels=self._kernels)

    def _tag(self, sha: str) -> str:
        """Return the name of the last tag before a commit. "" where there is none, or it is beside the line."""
        position = self.site.order.get(sha)
        tag = NO_TAG if position is None else int(self.line.tags[position])
        return "" if tag == NO_TAG else ", ".join(self.site.tags[self.site.line[tag]])

    def _lead(self, commit: Commit, values: Values) -> str:
        """Return why there is nothing to compare, or no trend. "" where there is no reason to."""
        on_line = commit.sha in self.site.order
        beside = "" if on_line else "It is not on the first-parent line of HEAD, so it is on no trend. "
        if not len(values):
            return beside + "Every value recorded for it is n/a."
        if (values.outcome == FAILED).all():
            return beside + "Nothing could be measured: the commit did not build, or every benchmark failed."
        return beside if values.before.is_known.any() else beside + "No earlier measurement to compare with."

    def _section(self, sha: str, platform: Platform, values: Values, quiet: Values, rows: RowMaker) -> dict[str, Any]:
        """Return what was measured of a commit on a machine. `quiet` are all values that did not change.

        Where the page does not hold their rows, it has a link to where they are compared.
        """
        shown = quiet.at(platform.machine, platform.environment)
        is_held = not len(shown) or self._is_held(sha, platform)
        is_absent = shown.outcome == NOT_APPLICABLE
        absent = commit_values.absent(shown[is_absent])
        left_out = commit_values.left_out(values, self.site.past.benchmarks)
        quiet_rows = rows.rows(shown[~is_absent]) if is_held else ()
        return {
            "place": platform,
            "lead": commit_values.summary(values),
            "machine": self.site.machine_steps.get((platform, sha), ()),
            "build": self._build(platform, sha),
            "rows": quiet_rows,
            "is_open": len(quiet_rows) <= OPEN_UP_TO,
            "compared": "" if is_held else rows.compared(shown),
            "unshown": f"{len(shown):,} values",
            "left_out": [*absent, *left_out] if is_held else (),
            "has_absent": bool(is_absent.any()),
        }

    def _build(self, platform: Platform, sha: str) -> dict[str, Any] | None:
        """Return how a commit was built on a machine, what that machine was, and what of it is new. None: unknown.

        New since the newest commit before it of which a session is known.
        """
        by_commit, before = self._sessions[platform.anchor]
        now = session_facts.at(by_commit.get(sha, ()), None)
        if now is None:
            return None
        earlier = before.get(sha)
        then = None if earlier is None else session_facts.at(by_commit[earlier], None)

        def code(kernel: str) -> str:
            old = None if then is None else then.code.get(kernel)
            return NOT_RECORDED if old is None else "same code" if old == now.code[kernel] else "other code"

        changes = {} if then is None else session_facts.changes(then.facts, now.facts)
        kernels = [
            (kernel, now.code[kernel][:CODE_DIGITS], code(kernel), now.ptxas.get(kernel, NOT_RECORDED))
            for kernel in sorted(now.code)
        ]
        return {
            "compilers": [(name, now.facts.get(name, NOT_RECORDED)) for name in sorted(COMPILERS)],
            "kernels": Table(f"build of the kernels: {platform.machine}, {platform.environment}", KERNEL, kernels),
            "changed": [(name, old, new) for name, (old, new) in changes.items()],
            "against": "" if earlier is None else earlier[:SHORT],
            "facts": [(name, value) for name, value in sorted(now.facts.items()) if name not in COMPILERS],
        }


def _sessions(
    site: Site, platform: Platform, line: Sequence[str]
) -> tuple[Mapping[str, Sequence[SessionFacts]], Mapping[str, str]]:
    """Return a platform's sessions by commit, and for each commit the newest one before it that has sessions.

    Args:
        line: the measured commits of the first-parent line, oldest first.
    """
    by_commit: dict[str, list[SessionFacts]] = {}
    for sha, session in site.sessions(platform):
        by_commit.setdefault(sha, []).append(session)
    before, newest = {}, None
    for sha in line:
        if newest is not None:
            before[sha] = newest
        newest = sha if sha in by_commit else newest
    return by_commit, before


def _is_changed(line: str) -> bool:
    """Return whether a line of a difference was added or removed. The names of the files are no such lines."""
    return line.startswith(("+", "-")) and not line.startswith(("+++ ", "--- "))


def _is_against(values: Values, parents: Sequence[str]) -> bool:
    """Return whether every change against the commit before is one against the parent."""
    against = values.against()
    return bool(against) and against == set(parents)


def _against(against: Against, others: Sequence[str]) -> Mapping[str, Any]:
    return {
        "commit": [None if other == NONE else others[other] for other in against.other.tolist()],
        "ratio": significant(np.where(against.is_known, np.exp(against.effect), np.nan)),
        "verdict": [
            WORDS[word].value if is_known else None
            for word, is_known in zip(against.word.tolist(), against.is_known.tolist(), strict=True)
        ],
    }


@dataclass(frozen=True, kw_only=True)
class RowMaker:
    """Makes the rows of one commit's page, whose footnotes are numbered together."""

    commit: Commit
    findings: Mapping[Slot, tuple[Finding, Affected]]  # that name the commit, by the series that show them
    kernels: frozenset[str]  # the kernels' pages
    notes: Footnotes = field(default_factory=Footnotes)

    def finding_of(self, key: SeriesKey) -> tuple[Finding, Affected] | None:
        """Return the finding that a series shows, and how much. None for none."""
        return self.findings.get(identity.of(key, None).slot) if self.findings else None

    def is_first(self, values: Values) -> Truth:
        """Return which rows stand in the table of what changed."""
        if not self.findings:
            return values.changed
        return values.changed | np.array([self.finding_of(key) is not None for key in values.keys], np.bool_)

    def ordered(self, values: Values) -> Values:
        """Return what changed in order: findings first, the surest of them. Then the largest change."""
        columns = (values.outcome.tolist(), values.changed.tolist(), values.before.effect.tolist())
        ranks = list(map(self._rank, values.keys, *columns))
        return values[np.array(sorted(range(len(values)), key=ranks.__getitem__), np.intp)]

    def _rank(self, key: SeriesKey, outcome: int, changed: bool, effect: float) -> tuple[int, float]:
        """Return a sort key. A value that is gone changed most."""
        shown = self.finding_of(key)
        if shown is not None:
            finding, affected = shown
            return _SURE.index(finding.state) if finding.state in _SURE else len(_SURE), -abs(affected.effect)
        if outcome != MEASURED:
            return len(_SURE) + 1, -math.inf if changed else 0.0
        return len(_SURE) + 1, -abs(effect)

    def rows(self, values: Values) -> list[dict[str, Any]]:
        """Return the rows of some values."""
        unit, flop = values.unit.tolist(), values.series.flop[values.which].tolist()
        changes = zip(*(map(text.verdict_cell, values.verdicts(base), unit) for base in BASES), strict=True)
        cells = map(_cell, values.outcome.tolist(), values.figure("seconds").tolist(), flop, unit)
        rows = zip(values.keys, cells, self._marks(values), changes, strict=True)
        return [self._row(*row) for row in rows]

    def _row(self, key: SeriesKey, cell: Cell, marks: tuple[int, ...], changes: Sequence[Cell]) -> dict[str, Any]:
        """Return the row of a value: names, time with rate, changes against BASES, the finding that it shows."""
        kernel, device, _ = name_parts(key.benchmark)
        shown = self.finding_of(key)
        # n/a and other suites have no rounds
        has_rounds = device and cell.tone != OUTCOMES[NOT_APPLICABLE].value
        return text.names_of(key) | {
            "href": text.trend_href(key) if text.kernel_href(kernel, device) in self.kernels else "",
            "cell": replace(cell, marks=marks, href=measurement.href(self.commit.sha, key) if has_rounds else ""),
            "changes": changes,
            "finding": None if shown is None else Cell(text=shown[0].state.value, href=finding_href(shown[0].id)),
        }

    def _marks(self, values: Values) -> Iterator[tuple[int, ...]]:
        """Yield the numbers of the footnotes: of remarks, and where a change is not against the parent."""
        rows = zip(values.outcome.tolist(), values.remarks, values.before.other.tolist(), strict=True)
        for outcome, (reason, warnings), other in rows:
            remarks = text.remarks(OUTCOMES[outcome], reason, warnings)
            if other != NONE and values.others[other] not in self.commit.parents[:1]:
                remarks += (f"against {values.others[other][:SHORT]}: its parent has no time of it",)
            yield self.notes.marks(remarks)

    def compared(self, values: Values) -> str:
        """Return where a platform's values are compared with those before. Html_templates/static/versus.js reads it."""
        key, others = values.series.keys[values.which[0]], values.before.other[values.before.is_known]
        before = f"a={values.others[int(others.max())][:DIGITS]}&" if others.size else ""
        platform = f"am={quote_plus(key.machine, errors='replace')}&ae={quote_plus(key.environment, errors='replace')}"
        return f"compare.html#{before}{platform}&b={self.commit.sha[:DIGITS]}"


def _cell(outcome: int, seconds: float, flop: float, unit: str) -> Cell:
    """Return a time with its rate, or why there is none."""
    if outcome != MEASURED:
        return Cell(text=OUTCOMES[outcome].value, tone=OUTCOMES[outcome].value)
    rate = "" if math.isnan(flop) else units.rate(flop / seconds / 1e9, unit)
    return Cell(text=text.figure(seconds, unit), detail=rate)
