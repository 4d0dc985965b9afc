"""The list of the findings: what waits for somebody first; filters by state, kind, machine and text live in the URL.

The findings as files, for other tools: a list of them, and each with its evidence.

- `data/findings`: every finding, as `kv findings list --all --json` prints it, with the name of its page;
- `data/finding-<id>`: one of them, with its re-runs and bisections by machine, as `results/findings/evidence` has them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kernel_velocity.findings import evidence_store, finding
from kernel_velocity.findings import text as finding_text
from kernel_velocity.findings.finding import OPEN, Finding, Kind, State
from kernel_velocity.results.git import SHORT
from kernel_velocity.site.model import Site
from kernel_velocity.site.outputs import DataFile, Page
from kernel_velocity.site.pages import finding_words

NAME = "findings.html"
KINDS = (
    Kind.REGRESSION,
    Kind.VANISHED,
    Kind.ENVIRONMENT,
    Kind.IMPROVEMENT,
)  # of those that are open, most pressing first
MOST_MACHINES = 3  # named in a row

FORMAT = 1  # of these files


@dataclass(frozen=True, kw_only=True)
class Row:
    """A finding."""

    id: str
    href: str
    kind: str
    state: str
    shown_state: str
    chip: str
    is_open: bool
    headline: str
    blamed: str
    subjects: tuple[tuple[str, str], ...]  # of the commits that the site has: short hash, subject
    machines: tuple[str, ...]
    shown_machines: str
    series: str
    found: str
    searched: str  # what the filter by text looks at, in lower case


@dataclass(frozen=True, kw_only=True)
class FindingsPage:
    """The list."""

    rows: tuple[Row, ...]
    open: int
    kinds: tuple[str, ...]
    states: tuple[str, ...]
    machines: tuple[str, ...]


def build(found: Site) -> Iterator[Page | DataFile]:
    """Yield the list, which is there without a finding too, and the data files of all findings."""
    yield Page(name=NAME, template="findings.html", context={"page": of(found)})
    yield DataFile(name="findings", value={"format": FORMAT, "findings": [_listed(item) for item in found.findings]})
    for item in found.findings:
        kept, _ = found.evidence(item.id)
        evidence = {machine: json.loads(evidence_store.as_text(own)) for machine, own in kept.items()}
        yield DataFile(name=f"finding-{item.id}", value={"format": FORMAT, **_listed(item), "evidence": evidence})


def of(found: Site) -> FindingsPage:
    """Return the list: open ones first, the worse before the better, confirmed before suspected; then the newest."""
    ordered = sorted(found.findings, key=_rank)
    return FindingsPage(
        rows=tuple(_row(found, item) for item in ordered),
        open=sum(item.state in OPEN for item in ordered),
        kinds=_each(item.kind.value for item in ordered),
        states=_each(item.state.value for item in ordered),
        machines=_each(name for item in ordered for name in _machines(item)),
    )


def _rank(item: Finding) -> tuple[bool, int, bool, float, str]:
    is_open = item.state in OPEN
    pressing = KINDS.index(item.kind) if is_open else 0
    return not is_open, pressing, is_open and item.state is not State.CONFIRMED, -item.found.timestamp(), item.id


def _each(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


def _machines(item: Finding) -> tuple[str, ...]:
    return item.machines or ((item.subject,) if not item.commits else ())


def _row(found: Site, item: Finding) -> Row:
    machines = _machines(item)
    subjects = tuple((sha[:SHORT], found.commits[sha].subject) for sha in item.commits[:2] if sha in found.commits)
    left = len(machines) - MOST_MACHINES
    blamed = finding_text.blamed(item)
    words = (item.id, item.subject, finding_words.headline(item), blamed, *item.commits, *machines)
    return Row(
        id=item.id,
        href=finding.finding_href(item.id),
        kind=item.kind.value,
        state=item.state.value,
        shown_state=finding_words.state(item),
        chip=finding_words.chip(item),
        is_open=item.state in OPEN,
        headline=finding_words.headline(item),
        blamed=blamed,
        subjects=subjects,
        machines=machines,
        shown_machines=", ".join(machines[:MOST_MACHINES]) + (f" and {left} more" if left > 0 else ""),
        series=str(len(item.affected)),
        found=f"{item.found:%Y-%m-%d}",
        searched=" ".join((*words, *(text for _, text in subjects))).lower(),
    )


def _listed(item: Finding) -> dict[str, Any]:
    return {**finding_text.as_data(item), "page": finding.finding_href(item.id)}
