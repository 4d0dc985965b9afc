"""commit-<8 digits>.html: a commit against the one measured before it, compared as on compare.html, with its own facts.

The tables are compare.html's: the same script fills them. The page itself, readable without a script, has what became
slower, faster or lost its time, by the verdicts that home shows, how the commit changed the code, and how and where it
was built. A commit beside the first-parent line is compared with nothing: its page leads to the rounds of its values.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kernel_velocity import units
from kernel_velocity.errors import HistoryError
from kernel_velocity.findings.finding import Finding
from kernel_velocity.past.columns import comparable
from kernel_velocity.results import git, identity
from kernel_velocity.results import sessions as session_facts
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.measurement import OUTCOMES, Measurement, Outcome, SeriesKey
from kernel_velocity.results.records import name_parts
from kernel_velocity.results.sessions import COMPILERS, SessionFacts
from kernel_velocity.site import text
from kernel_velocity.site.model import Site
from kernel_velocity.site.pages import home, machine_code
from kernel_velocity.site.text import Cell, CommitLine, PageTable, Platform
from kernel_velocity.site.writer import Page
from kernel_velocity.verdict.ranges import CommitRange, Value, is_other_code, is_same_code
from kernel_velocity.verdict.verdicts import Verdict

CODE_DIGITS = 12  # of a code hash: enough to tell the builds of a repository apart
NOT_RECORDED = "not recorded"
# Columns of a table: head -> CSS class
KERNEL = {
    "kernel": "",
    "code hash": "sha",
    "against before": "",
    "CUDA code: registers and spills, maximum over functions": "",
}
FIGURE = {"figure": "of", "before": "value", "now": "value", "more or fewer": "value", "measured before": "sha"}
MOST_ROWS = 100  # of what changed
MOST_CAUSES = 50  # listed of a range
MOST_LINES = 400  # of a difference
MOST_FILES = 20  # named on a page
FILES_AT_ONCE = 64  # commits that git is asked about in one call


class Moved(NamedTuple):
    """A series that a commit made slower or faster, or that lost its time there."""

    key: SeriesKey
    entry: int  # of its columns
    outcome: Outcome
    verdict: Verdict | None  # None: it lost its time
    commits: CommitRange  # that can have caused it
    event: str = ""  # how long the change lasted, or which one it takes back


def build(site: Site) -> Iterator[Page]:
    """Yield the page of every commit that has a measurement and that the repository has."""
    facts = CommitFacts(site)
    for sha in site.measured:
        recorded = facts.recorded(sha)
        yield Page(
            name=text.commit_href(site.commits[sha]),
            template="commit.html",
            context=partial(facts.context, sha, recorded),
            inputs=facts.inputs(sha, recorded),
        )
        if recorded["code_href"]:
            yield Page(
                name=recorded["code_href"],
                template="machine_code.html",
                context=partial(facts.code_context, recorded),
                inputs=repr((recorded["line"], recorded["sections"])),
            )


class CommitFacts:
    """What is known of the commits of a site."""

    def __init__(self, site: Site) -> None:
        """Take a site."""
        self.site = site
        self._lines = {sha: text.commit_line(site.commits[sha]) for sha in site.measured}
        self._moved: dict[str, list[Moved]] = {}  # by commit
        for key in site.keys:
            for moved in _moved(site, key):
                self._moved.setdefault(site.line[site.series(key).position[moved.entry]], []).append(moved)
        self._measured = {
            platform: [site.order[sha] for sha in site.along if site.path(platform, sha) in site.past.paths[sha]]
            for platform in site.platforms
        }
        self._builds = {platform: _builds(site, platform) for platform in site.platforms}
        self._steps = {platform: _machine_steps(site, platform) for platform in site.platforms}
        self._figures = _changed_figures(site)
        self._findings: dict[str, list[Finding]] = {}  # by commit that they name
        for finding in site.findings:
            for sha in finding.commits:
                self._findings.setdefault(sha, []).append(finding)
        self._kernels: dict[str, list[str]] = {}  # whose sources a commit changed
        for kernel, shas in site.source_changes.items():
            for sha in shas:
                self._kernels.setdefault(sha, []).append(kernel)
        self._files: dict[str, tuple[tuple[str, str, str], ...]] = {}  # of the commits that git was asked about

    def context(self, sha: str, recorded: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the template of a commit's page is filled with: what is `recorded`, its rows, and its code."""
        rows, summary = self._rows(sha)
        causes = list(self._causes(sha))
        code = self._code(recorded, MOST_LINES)
        source = {"causes": causes, "sources": self._sources(sha), "files": self._changed_files(sha)}
        return {"page": {**recorded, "rows": rows, "summary": summary, "code": code, **source}}

    def code_context(self, recorded: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the template of the page of its machine code is filled with."""
        return {"page": {**recorded, "code": self._code(recorded, machine_code.MOST_ROWS)}}

    def _code(self, recorded: Mapping[str, Any], most: int) -> list[tuple[Platform, str, list[dict[str, Any]]]]:
        """Return the machine code that differs, by platform, with the commit that it is compared with."""
        builds = [(section["place"], section["build"]) for section in recorded["sections"] if section["build"]]
        return [
            (
                platform,
                build["against"],
                machine_code.differences(build["code"], _code_folder(self.site, platform), most),
            )
            for platform, build in builds
            if build["code"]
        ]

    def inputs(self, sha: str, recorded: Mapping[str, Any]) -> str:
        """Return a text that changes whenever a commit's page would. What git says of it follows from its hash.

        A verdict is in it as the page shows it: each new value moves the last digits of many.
        """
        past = self.site.past
        changes_here = [
            (
                *vars(moved.key).values(),
                past.flop(moved.key),
                moved.outcome.value,
                text.verdict_cell(moved.verdict, self.site.series(moved.key).unit),
                moved.event,
                moved.commits,
            )
            for moved in self._ordered(sha)
        ]
        files = [past.inputs(path) for path in past.paths[sha]]
        return repr((str(self.site.project), recorded, self._findings.get(sha), changes_here, files))

    def recorded(self, sha: str) -> dict[str, Any]:
        """Return what history, findings and sessions say of a commit."""
        site, commit, on_line = self.site, self.site.commits[sha], sha in self.site.order
        number = bisect_left(site.along, site.order[sha], key=site.order.__getitem__) if on_line else len(site.along)
        older = site.along[number - 1] if on_line and number else None
        newer = site.along[number + 1] if on_line and number + 1 < len(site.along) else None
        findings = self._findings.get(sha, ())
        files = site.past.paths[sha]
        here = next((platform for platform in site.platforms if site.path(platform, sha) in files), None)
        builds = [(p, self._builds[p].get(sha)) for p in site.platforms if site.path(p, sha) in files]
        has_code = any(build and build["code"] for _, build in builds)
        return {
            "code_href": f"code-{site.commits[sha].short}.html" if has_code else "",
            "sha": sha,
            "line": self._lines[sha],
            "body": commit.message.strip().partition("\n")[2].strip("\n"),  # the rest of the message
            "date": f"{commit.date:%Y-%m-%d %H:%M %z}",
            "tags": site.tags_of(sha),
            "parents": [
                (parent[:SHORT], text.commit_href(self.site.commits[parent]) if parent in site.past.paths else "")
                for parent in commit.parents
            ],
            "older": older and self._lines[older],
            "newer": newer and self._lines[newer],
            "on_line": on_line,
            "against": self._against(sha, here) if on_line and here else ("", ""),
            "has_rounds": any(site.has_rounds(platform, sha) for platform in site.platforms),
            "findings": [home.finding_line(site, finding) for finding in findings],
            "figures": PageTable("figures of code that differ", FIGURE, self._figures.get(sha, ())),
            "kernels": self._kernels.get(sha, ()),
            "url": site.commit_url(sha),
            "several": len(site.platforms) > 1,
            "sections": [
                {"place": platform, "machine": self._steps[platform].get(sha, ()), "build": build}
                for platform, build in builds
            ],
        }

    def _against(self, sha: str, platform: Platform) -> tuple[str, str]:
        """Return which commit its values are compared with, and how far before it that is. "": none."""
        positions, at = self._measured[platform], self.site.order[sha]
        number = bisect_left(positions, at)
        if not number:
            return "", ""
        between = at - positions[number - 1] - 1
        which = f"{units.count(between, 'commit')} between not measured" if between else "the commit before"
        return self.site.line[positions[number - 1]][:SHORT], which

    def _causes(self, sha: str) -> Iterator[dict[str, Any]]:
        """Yield the ranges that can have caused what a commit shows first, but itself alone, each with its commits."""
        site = self.site
        largest = self._ordered(sha)
        for commits, moved in {moved.commits: moved for moved in reversed(largest)}.items():
            if commits.commits in ((), (sha,)):
                continue
            earlier = len(commits.commits) - MOST_CAUSES
            yield {
                "words": f"{commits} alone" if commits.culprit else str(commits),
                "ends": [
                    text.named_commit(end, site.commit(end), site.past.paths) for end in (commits.good, commits.bad)
                ],
                "url": site.compare_url(commits),
                "narrow": site.narrowing(moved.key, commits, rises=moved.verdict is None or moved.verdict.ratio > 1),
                "commits": [self._cause(cause) for cause in commits.commits[-MOST_CAUSES:]],
                "further": f"and {units.count(earlier, 'earlier commit')}" if earlier > 0 else "",
            }

    def _cause(self, sha: str) -> CommitLine:
        """Return a commit that may be measured or not, with a link to its page, or else to the code's host."""
        line = text.named_commit(sha, self.site.commit(sha), self.site.past.paths)
        return line if line.href else replace(line, href=self.site.commit_url(sha))

    def _ordered(self, sha: str) -> list[Moved]:
        """Return what changed at a commit: what lost its time first, then the largest change."""
        return sorted(self._moved.get(sha, ()), key=_smallness)

    def _rows(self, sha: str) -> tuple[list[dict[str, Any]], str]:
        """Return the rows of what changed at a commit, MOST_ROWS at most, and how many changed in which way.

        First those that a finding names, then those that lost their time, then the largest change.
        """
        findings = {
            affected.identity.slot: finding for finding in self._findings.get(sha, ()) for affected in finding.affected
        }

        def cause(commits: CommitRange) -> CommitLine | None:
            is_alone = commits.commits == (sha,)
            return None if is_alone else self.site.cause(commits, text.causes_href(self.site.commits[sha]))

        ordered = sorted(self._ordered(sha), key=lambda moved: identity.of(moved.key, None).slot not in findings)
        rows = [
            _row(self.site.series(moved.key).measurement(moved.entry, self.site.line), moved)
            | {"finding": findings.get(identity.of(moved.key, None).slot), "cause": cause(moved.commits)}
            for moved in ordered[:MOST_ROWS]
        ]
        further = f"; the {MOST_ROWS} largest" if len(ordered) > MOST_ROWS else ""
        words = Counter(moved.outcome.value if moved.verdict is None else moved.verdict.word for moved in ordered)
        return rows, ", ".join(f"{number:,} {word}" for word, number in words.most_common()) + further

    def _sources(self, sha: str) -> list[dict[str, str]]:
        """Return the kernels whose sources a commit changed, with the difference, its first MOST_LINES lines."""
        sources = []
        for kernel in self._kernels.get(sha, ()):
            lines = git.difference(self.site.repository, sha, self.site.project.sources_of(kernel)).splitlines()
            changed = (line.startswith(("+", "-")) and not line.startswith(("+++ ", "--- ")) for line in lines)
            more = len(lines) - MOST_LINES
            sources.append(
                {
                    "kernel": kernel,
                    "changed": units.count(sum(changed), "changed line"),
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
            "summary": f"{units.count(len(files), 'file')}, {units.count(added, 'line')} added, {removed:,} removed",
            "rows": [
                (name, *("" if count == "-" else count for count in counts)) for name, *counts in files[:MOST_FILES]
            ],
            "further": f"and {units.count(more, 'more file')}" if more > 0 else "",
            "unknown": "",
        }


def _moved(site: Site, key: SeriesKey) -> Iterator[Moved]:
    """Yield where a series became slower or faster, and where it lost its time: a failure, or n/a with a reason."""
    columns, levels = site.series(key), site.levels[key]
    words = text.at_ends(levels.changes, columns, site.line) if levels.points else {}
    for point, commits in zip(levels.points, levels.ranges, strict=True):
        alike = np.flatnonzero(comparable(columns, int(columns.method[point.index]))[: point.index])
        verdict = levels.between(int(alike[-1]), point.index) if alike.size else None
        if verdict is not None and verdict.is_change:
            yield Moved(key, point.index, Outcome.MEASURED, verdict, commits, words.get(point.index, ""))
    lost = np.flatnonzero(columns.is_measured[:-1] & ~columns.is_measured[1:]) + 1
    for entry in lost.tolist():
        outcome = OUTCOMES[columns.outcome[entry]]
        if outcome is Outcome.FAILED or entry in columns.reasons:
            before, after = (Value(position, None) for position in columns.position[entry - 1 : entry + 1].tolist())
            yield Moved(key, entry, outcome, None, site.levels.line.between((before, after)))


def _changed_figures(site: Site) -> dict[str, list[tuple[str | Cell, ...]]]:
    """Return the figures of code that differ from those at the commit measured before, by commit, as rows."""
    rows: dict[str, list[tuple[str | Cell, ...]]] = {}
    for series in site.tracked.values():
        key, parts = series.key, name_parts(series.key.benchmark)
        if parts.state not in identity.FIGURE_METHODS:
            continue
        for entry in (np.flatnonzero(np.diff(series.value)) + 1).tolist():
            earlier, sha = (site.line[position] for position in series.position[entry - 1 : entry + 1].tolist())
            before, now = series.value[entry - 1 : entry + 1].tolist()
            machine = f", {key.machine}" if len(site.platforms) > 1 else ""
            of = f"{parts.kernel}: {text.FIGURES[parts.state]}, {key.case}{machine}"
            share = f" ({units.significant(100 * abs(now / before - 1))}%)" if before else ""
            row = of, f"{before:,.0f}", f"{now:,.0f}", f"{now - before:+,.0f}{share}", earlier[:SHORT]
            rows.setdefault(sha, []).append(row)
    return rows


def _smallness(moved: Moved) -> float:
    """Return a sort key: what lost its time first, then the largest change."""
    return -math.inf if moved.verdict is None else -abs(moved.verdict.effect)


def _row(now: Measurement, moved: Moved) -> dict[str, Any]:
    """Return the row of a value: names, verdict, time. Without a time, why it has none."""
    outcome = now.outcome.value
    value = Cell(text=outcome, detail=now.reason or "", tone=outcome)
    if now.seconds is not None:
        value = Cell(text=units.value(now.seconds, now.unit))
    change = text.verdict_cell(moved.verdict, now.unit)
    change = replace(change, detail=", ".join(filter(None, (change.detail, moved.event))))
    return text.names_of(now.key) | {"href": text.trend_href(now.key), "change": change, "value": value}


def _machine_steps(site: Site, platform: Platform) -> dict[str, list[str]]:
    """Return the steps that a platform's controls share, in words, by the commit that was measured first after it."""
    steps: dict[str, list[str]] = {}
    devices = {name_parts(key.benchmark).device: key for key in site.keys_at(platform)}
    for device, key in sorted(devices.items()):
        for step in site.levels.shared[key].steps:
            steps.setdefault(site.line[step.position], []).append(f"{device}: {step.text}")
    return steps


def _builds(site: Site, platform: Platform) -> dict[str, dict[str, Any]]:
    """Return how each commit was built on a platform, what that machine was, and what of it is new.

    New since the newest commit of the line before it of which a session is known.
    """
    sessions: dict[str, list[SessionFacts]] = {}
    for sha, session in site.sessions(platform):
        sessions.setdefault(sha, []).append(session)
    builds: dict[str, dict[str, Any]] = {}
    before: tuple[str, SessionFacts] | None = None
    for sha in site.measured:
        now = session_facts.at(sessions.get(sha, ()), None)
        if now is not None:
            on_line = sha in site.order
            builds[sha] = _build(platform, now, before if on_line else None, _code_folder(site, platform))
            before = (sha, now) if on_line else before
    return builds


def _code_folder(site: Site, platform: Platform) -> Path:
    return site.results / platform.machine / session_facts.CODE


def _build(
    platform: Platform, now: SessionFacts, before: tuple[str, SessionFacts] | None, folder: Path
) -> dict[str, Any]:
    """Return how a commit was built on a machine, and what that machine was, against an earlier commit's session."""
    against, then = before or ("", None)

    def code(kernel: str) -> str:
        old = None if then is None else then.code.get(kernel)
        is_other = is_other_code(old, now.code[kernel])
        return "same code" if is_same_code(old, now.code[kernel]) else "other code" if is_other else NOT_RECORDED

    def identity_of(kernel: str) -> str | Cell:
        digest = now.code[kernel].removeprefix(session_facts.scheme(now.code[kernel]))[:CODE_DIGITS]
        why = now.whole.get(kernel)
        return digest if why is None else Cell(text=f"{digest}, of the whole build: {why}")

    kernels: Sequence[tuple[str | Cell, ...]] = [
        (kernel, identity_of(kernel), code(kernel), now.ptxas.get(kernel, NOT_RECORDED)) for kernel in sorted(now.code)
    ]
    changed = {} if then is None else session_facts.changes(then.facts, now.facts)
    return {
        "compilers": [(name, now.facts.get(name, NOT_RECORDED)) for name in sorted(COMPILERS)],
        "code": () if then is None else machine_code.pairs(then, now, folder),
        "kernels": PageTable(f"build of the kernels: {platform.machine}, {platform.environment}", KERNEL, kernels),
        "changed": [(name, old, new) for name, (old, new) in changed.items()],
        "against": against[:SHORT],
        "facts": [(name, value) for name, value in sorted(now.facts.items()) if name not in COMPILERS],
    }
