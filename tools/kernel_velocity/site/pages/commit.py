"""A commit's page: everything it changed, the surest and largest first, how it was built, and on what machine.

A commit's page as data, for other tools: `data/commit-<first 12 digits of its hash>`.

- `commit`, `page`, `parents`, `tags`; `last_tag`: the full SHA of the newest tagged commit before it, null for none;
- `findings`: the ids of those that name it;
- `places`: for each machine and environment with a value of it, `values`: how many there are, `compared`: of how many
  there is one before, and how many are `changed`: `faster`, `slower`, `without a time now`;
- `changed`: the page's first table, in its order, as columns of equal length: what the value is of (`series` is its
  data file), `outcome`, times in s per call, `finding`; and `before`, `tag`, `best`, each with the `commit` that it is
  compared with, the `ratio` of speeds, new over old, and whether the two intervals are `overlapping`.

What did not change is counted here, and held by the series' own files. null: unknown, or there is none.

A commit page's build and environment: what the sessions that measured it found, and what of it is new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from kernel_velocity.findings.finding import Affected, Finding
from kernel_velocity.results import sessions as session_facts
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.identity import Slot
from kernel_velocity.results.measurement import OUTCOMES
from kernel_velocity.results.records import Commit
from kernel_velocity.results.sessions import COMPILERS, SessionFacts
from kernel_velocity.series.changes import NONE
from kernel_velocity.site import text as pages
from kernel_velocity.site.model import Site
from kernel_velocity.site.outputs import DataFile, Page, series_name
from kernel_velocity.site.pages import commit_values, home
from kernel_velocity.site.pages.commit_changes import Digests, Line
from kernel_velocity.site.pages.commit_tables import Fold, Row, RowMaker
from kernel_velocity.site.pages.commit_values import APART, FAILED, FIGURES, NO_TAG, OVERLAPPING, Against, Values
from kernel_velocity.site.pages.home import FindingLine
from kernel_velocity.site.series_data import significant
from kernel_velocity.site.text import Place

FORMAT = 1
DIGITS = 12  # of the commit's hash in the file's name
_KEY = ("machine", "environment", "benchmark", "implementation", "case")
_OVERLAPPING = {OVERLAPPING: True, APART: False}  # None of the third state

CODE_DIGITS = 12  # of a code hash: enough to tell the builds of a repository apart
NOT_RECORDED = "not recorded"


@dataclass(frozen=True, kw_only=True)
class Section:
    """One machine and environment."""

    place: Place
    lead: str  # how much changed there
    build: Build
    folds: tuple[Fold, ...]
    left_out: tuple[str, ...]  # test cases without a value of any implementation, a line a benchmark


@dataclass(frozen=True, kw_only=True)
class CommitPage:
    """The page of a commit."""

    name: str  # file name
    sha: str
    short: str
    subject: str
    body: str  # the rest of the message
    author: str
    date: str
    tags: tuple[str, ...]
    parents: tuple[tuple[str, str], ...]  # short hash, and its page, empty where it has none
    older: tuple[str, str] | None  # short hash and page of the neighbours that were measured
    newer: tuple[str, str] | None
    findings: tuple[FindingLine, ...]  # that name it
    lead: str  # what its changes are against
    heads: tuple[str, ...]  # of the columns of speed and changes
    quiet_heads: tuple[str, ...]  # of the changes of what did not change
    tag: str  # name of the last tag before it; empty for none
    changed: tuple[Row, ...]  # of all machines
    has_adjusted: bool
    several: bool  # whether it was measured on several machines or environments
    sections: tuple[Section, ...]
    footnotes: tuple[str, ...]


def build(found: Site) -> Iterator[Page | DataFile]:
    """Yield the page of every commit that has a measurement and that the repository has, and its data."""
    maker = Maker.of(found)
    for sha in maker.measured:
        yield Page(
            name=pages.commit_href(sha),
            template="commit.html",
            context=partial(maker.context, sha),
            inputs=maker.inputs(sha),
        )
        yield DataFile(name=name(sha), value=partial(maker.data, sha), inputs=maker.inputs(sha, neighbours=False))
    maker.digests.save()


@dataclass(frozen=True, kw_only=True)
class Maker:
    """What the pages of all commits are made with."""

    found: Site
    measured: Mapping[str, tuple[str | None, str | None]]  # commits with a page -> their neighbours on the line
    line: Line
    digests: Digests  # of what `line` says
    sessions: Mapping[str, Sessions]  # by the place's anchor
    findings: Mapping[str, Sequence[Finding]]  # by commit that they name
    known: frozenset[str]  # the kernels' pages

    @classmethod
    def of(cls, found: Site) -> Maker:
        """Return what the pages of a site's commits are made with."""
        findings: dict[str, list[Finding]] = {}
        for item in found.findings:
            for sha in item.commits:
                findings.setdefault(sha, []).append(item)
        line, along = [sha for sha in found.measured if sha in found.order], Line.of(found)
        neighbours = {
            sha: (older, newer) for sha, older, newer in zip(line, [None, *line], [*line[1:], None], strict=False)
        }
        return cls(
            found=found,
            measured={sha: neighbours.get(sha, (None, None)) for sha in found.measured},
            line=along,
            digests=Digests(found, along),
            sessions={place.anchor: Sessions.of(found.sessions(place), line) for place in found.places},
            findings=findings,
            known=frozenset(pages.kernel_href(*pages.parts(key.benchmark)[:2]) for key in found.keys),
        )

    def context(self, sha: str) -> Mapping[str, object]:
        """Return what the template of a commit's page is filled with."""
        return {"page": self.page(sha)}

    def inputs(self, sha: str, *, neighbours: bool = True) -> str | None:
        """Return what the page of a commit is made from: equal texts, equal pages. None beside the line.

        Args:
            neighbours: whether it links to the commits measured before and after it; its data do not.
        """
        found, place = self.found, self.found.order.get(sha)
        if place is None:
            return None
        commit, findings = found.commits[sha], self.findings.get(sha, ())
        builds = [self.sessions[each.anchor].build(sha) for each in found.places]
        named = [one for item in findings for one in item.commits]
        said = (sha, found.tags.get(sha), self._tag(sha), self.measured[sha] if neighbours else None, findings, builds)
        # a commit is its hash; whether it is here, and has a page, is not
        there = [(found.commit(one) is not None, self._href(one)) for one in (*commit.parents, *named)]
        return repr((said, there, self._everywhere, self.digests.of(place)))

    @cached_property
    def _everywhere(self) -> str:
        """A digest of what all pages are made from."""
        cases = sorted((name, item.cases) for name, item in self.found.benchmarks.items())
        said = repr((self.found.places, cases, sorted(self.known)))
        return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()

    def page(self, sha: str) -> CommitPage:
        """Return the page of a commit."""
        commit, found = self.found.commits[sha], self.found
        shown, rows = self._values(sha).asked(), self._rows(sha)
        is_first = rows.is_first(shown)
        changed = rows.rows(shown[is_first])
        here = [(place, shown.at(place.machine, place.environment)) for place in found.places]
        quiet = shown[~is_first]
        sections = [
            self._section(sha, place, own, quiet.at(place.machine, place.environment), rows)
            for place, own in here
            if len(own)
        ]
        older, newer = self.measured[sha]
        line, tag = pages.commit_line(commit), self._tag(sha)
        against = "parent" if _is_against(shown, commit.parents[:1]) else "the one before"
        heads = (*([f"against {tag}"] if tag else []), "against the best before")
        return CommitPage(
            name=line.href,
            sha=sha,
            short=line.short,
            subject=line.subject,
            body=commit.message.strip().partition("\n")[2].strip("\n"),
            author=commit.author,
            date=f"{commit.date:%Y-%m-%d %H:%M %z}",
            tags=found.tags_of(sha),
            parents=tuple((one[:SHORT], self._href(one)) for one in commit.parents),
            older=_link(older),
            newer=_link(newer),
            findings=tuple(home.line(item, found, self.pages) for item in self.findings.get(sha, ())),
            lead=self._lead(commit, shown),
            heads=(f"speed, against {against}", *heads),
            quiet_heads=(f"against {against}", *heads),
            tag=tag,
            changed=changed,
            has_adjusted=any(row.adjusted for row in changed),
            several=len(sections) > 1,
            sections=tuple(sections),
            footnotes=tuple(rows.notes.texts),
        )

    def data(self, sha: str) -> Mapping[str, object]:
        """Return the same as numbers."""
        place = self.found.order.get(sha)
        tag = NO_TAG if place is None else int(self.line.tags[place])
        return as_data(
            self.found.commits[sha],
            self._values(sha).asked(),
            self._rows(sha),
            places=self.found.places,
            findings=self.findings.get(sha, ()),
            tags=self.found.tags_of(sha),
            last_tag=None if tag == NO_TAG else self.found.line[tag],
        )

    def _rows(self, sha: str) -> RowMaker:
        affected = _affected(self.findings.get(sha, ()))
        return RowMaker(commit=self.found.commits[sha], findings=affected, known=self.known)

    @cached_property
    def pages(self) -> frozenset[str]:
        """The commits that have a page."""
        return frozenset(self.measured)

    def _href(self, sha: str) -> str:
        return pages.commit_href(sha) if sha in self.measured else ""

    def _values(self, sha: str) -> Values:
        place = self.found.order.get(sha)
        return self.line.beside(sha) if place is None else self.line.at(place)

    def _tag(self, sha: str) -> str:
        """Return the name of the last tag before a commit; "" where there is none, or it is beside the line."""
        place = self.found.order.get(sha)
        at = NO_TAG if place is None else int(self.line.tags[place])
        return "" if at == NO_TAG else ", ".join(self.found.tags[self.found.line[at]])

    def _lead(self, commit: Commit, values: Values) -> str:
        """Return what the changes of a commit are against, or why there are none."""
        on_line = commit.sha in self.found.order
        beside = "" if on_line else "It is not on the first-parent line of HEAD, so no trend shows it. "
        if not len(values):
            return beside + "Every value recorded for it is n/a: there was nothing to measure."
        if (values.outcome == FAILED).all():
            return beside + "Nothing could be measured: the commit did not build, or every benchmark failed."
        if not values.before.is_known.any():
            return beside + "Nothing was measured before it that it could be compared with."
        if _is_against(values, commit.parents[:1]):
            return beside + f"Changes are against its parent {commit.parents[0][:SHORT]}."
        return beside + "Changes are against the commit measured before it, which is not always its parent (footnotes)."

    def _section(self, sha: str, place: Place, values: Values, quiet: Values, rows: RowMaker) -> Section:
        """Return what was measured of a commit on a machine; `quiet` are the values that did not change."""
        return Section(
            place=place,
            lead=commit_values.summary(values),
            build=self.sessions[place.anchor].build(sha),
            folds=rows.folds(quiet, on_line=sha in self.found.order),
            left_out=tuple(commit_values.left_out(values, self.found.benchmarks)),
        )


def _link(sha: str | None) -> tuple[str, str] | None:
    return None if sha is None else (sha[:SHORT], pages.commit_href(sha))


def _is_against(values: Values, parents: Sequence[str]) -> bool:
    """Return whether every change against the commit before is one against the parent."""
    against = values.against()
    return bool(against) and against == set(parents)


def _affected(findings: Sequence[Finding]) -> dict[Slot, tuple[Finding, Affected]]:
    """Return, by slot of a series, the finding that it shows and how much."""
    return {item.identity.slot: (finding, item) for finding in findings for item in finding.affected}


def name(sha: str) -> str:
    """Return the name of a commit's data file."""
    return f"commit-{sha[:DIGITS]}"


def as_data(
    commit: Commit,
    shown: Values,
    rows: RowMaker,
    *,
    places: Sequence[Place],
    findings: Sequence[Finding],
    tags: Sequence[str],
    last_tag: str | None,
) -> dict[str, Any]:
    """Return what a commit's page says, as numbers.

    Args:
        shown: what was measured of it. rows: of its page. places: of the site. findings: that name it.
        tags: its own. last_tag: full SHA.
    """
    own = [(place, shown.at(place.machine, place.environment)) for place in places]
    return {
        "format": FORMAT,
        "commit": commit.sha,
        "page": pages.commit_href(commit.sha),
        "parents": list(commit.parents),
        "tags": list(tags),
        "last_tag": last_tag,
        "findings": [item.id for item in findings],
        "places": [_counted(place, values) for place, values in own if len(values)],
        "changed": _changed(rows.ordered(shown[rows.is_first(shown)]), rows),
    }


def _counted(place: Place, values: Values) -> dict[str, Any]:
    changed, compared = commit_values.counts(values)
    ways = commit_values.ways(values)
    said = {"machine": place.machine, "environment": place.environment, "values": len(values)}
    return {**said, "compared": compared, "changed": changed, **ways}


def _changed(values: Values, rows: RowMaker) -> dict[str, Any]:
    keys = values.keys
    return {
        "series": list(map(series_name, keys)),
        **{part: [getattr(key, part) for key in keys] for part in _KEY},
        "outcome": [OUTCOMES[outcome].value for outcome in values.outcome.tolist()],
        **{figure: significant(values.figure(figure)) for figure in FIGURES},
        "before": _against(values.before, values.others),
        "tag": _against(values.tag, values.others),
        "best": _against(values.best, values.others),
        "finding": [rows.finding_of(key) for key in keys],
    }


def _against(against: Against, others: Sequence[str]) -> Mapping[str, Any]:
    return {
        "commit": [None if other == NONE else others[other] for other in against.other.tolist()],
        "ratio": significant(against.ratio),
        "overlapping": [_OVERLAPPING.get(state) for state in against.state.tolist()],
    }


@dataclass(frozen=True, kw_only=True)
class KernelBuild:
    """One kernel of the commit's wheel."""

    kernel: str
    code: str  # hash of its machine code and Python files
    ptxas: str  # registers and spills
    against: str  # whether the commit before had the same code


@dataclass(frozen=True, kw_only=True)
class Build:
    """How the commit was built on a machine, and what that machine was."""

    missing: str  # why nothing else here says anything; empty where something does
    compilers: tuple[tuple[str, str], ...]
    kernels: tuple[KernelBuild, ...]
    changed: tuple[tuple[str, str, str], ...]  # fact, what it was, what it is
    against: str  # the commit whose environment that is compared with; empty for none
    facts: tuple[tuple[str, str], ...]


def build_of(sessions: Sequence[SessionFacts], before: tuple[str, Sequence[SessionFacts]] | None) -> Build:
    """Return the build and the environment of a commit on a machine.

    Args:
        sessions: that measured the commit. before: the newest commit before it of which a session is known, with them.
    """
    now = session_facts.at(sessions, None)
    if now is None:
        missing = "Neither build nor environment is recorded: it was measured before sessions noted them, or elsewhere."
        return Build(missing=missing, compilers=(), kernels=(), changed=(), against="", facts=())
    then = None if before is None else session_facts.at(before[1], None)
    known = {name: text for name, text in now.facts.items() if name not in COMPILERS}
    changes = {} if then is None else session_facts.changes(then.facts, now.facts)
    return Build(
        missing="",
        compilers=tuple((name, now.facts.get(name, NOT_RECORDED)) for name in sorted(COMPILERS)),
        kernels=tuple(_kernel(name, now, then) for name in sorted(now.code)),
        changed=tuple((name, old, new) for name, (old, new) in changes.items()),
        against="" if before is None or then is None else before[0][:SHORT],
        facts=tuple(sorted(known.items())),
    )


def _kernel(name: str, now: SessionFacts, then: SessionFacts | None) -> KernelBuild:
    old = None if then is None else then.code.get(name)
    same = NOT_RECORDED if old is None else "same code" if old == now.code[name] else "other code"
    return KernelBuild(
        kernel=name, code=now.code[name][:CODE_DIGITS], ptxas=now.ptxas.get(name, NOT_RECORDED), against=same
    )


@dataclass(frozen=True, kw_only=True)
class Sessions:
    """The sessions of a machine and environment, by the commit that they measured."""

    by_commit: Mapping[str, Sequence[SessionFacts]]  # oldest first
    before: Mapping[str, str]  # measured commit of the line -> the newest one before it that has sessions

    @classmethod
    def of(cls, sessions: Iterable[tuple[str, SessionFacts]], line: Sequence[str]) -> Sessions:
        """Return (commit, session) pairs, oldest first, in order; `line` are the measured commits, oldest first."""
        found: dict[str, list[SessionFacts]] = {}
        for sha, session in sessions:
            found.setdefault(sha, []).append(session)
        before, newest = {}, None
        for sha in line:
            if newest is not None:
                before[sha] = newest
            newest = sha if sha in found else newest
        return cls(by_commit=found, before=before)

    def build(self, sha: str) -> Build:
        """Return the build and the environment of a commit, and what of them is new."""
        earlier = self.before.get(sha)
        return build_of(self.by_commit.get(sha, ()), None if earlier is None else (earlier, self.by_commit[earlier]))
