"""feed.xml: the changes of the overview's cards and the findings as an Atom feed (RFC 4287), newest first."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kernel_velocity.findings.finding import Finding
from kernel_velocity.findings.text import plain
from kernel_velocity.site.model import Site
from kernel_velocity.site.writer import Page
from kernel_velocity.suite import config

NAME = "feed.xml"
MOST = 100  # entries


@dataclass(frozen=True, kw_only=True)
class FeedEntry:
    """A change or a finding, in letters that XML can hold."""

    id: str  # an IRI, the same in every feed of the repository
    title: str
    href: str
    when: datetime
    summary: str

    @property
    def updated(self) -> str:
        """The time as Atom wants it."""
        return self.when.isoformat(timespec="seconds")


def page(site: Site, cards: Sequence[Mapping[str, Any]], findings: Sequence[tuple[Finding, Mapping[str, Any]]]) -> Page:
    """Return the feed of the overview's cards, and of findings with their lines. A card tells its finding, too."""
    root = uuid.uuid5(uuid.NAMESPACE_OID, site.line[0])
    shown = {card["data"]["finding"] for card in cards}
    entries = [
        *(_of_card(site, root, card) for card in cards),
        *(_of_finding(root, finding, line) for finding, line in findings if finding.id not in shown),
    ]
    entries.sort(key=lambda entry: (entry.when, entry.id), reverse=True)
    times = [site.commits[sha].committed for sha in site.measured]
    times += [entry.when for entry in entries] + [night.when for night in site.verdicts]
    project = config.asv_settings(site.repository).get("project") or "kernel-velocity"
    feed = {
        "id": root.urn,
        "title": plain(f"{project}: changes in performance"),
        "updated": max(times).isoformat(timespec="seconds"),
        "entries": entries[:MOST],
    }
    return Page(name=NAME, template=NAME, context={"feed": feed})


def _of_card(site: Site, root: uuid.UUID, card: Mapping[str, Any]) -> FeedEntry:
    about, line = card["data"], card["commit"]
    names = ("commit", "machine", "environment", "kernel", "device", "state", "implementation")
    state = [card["finding"][1]] if card["finding"] else []
    over = ["over: gone again since"] if card["is_over"] else []
    others = [f"also {', '.join(card['others'])}"] if card["others"] else []
    what = " ".join(filter(None, (card["kernel"], card["case"])))
    change = " ".join(filter(None, (card["change"], card["margin"])))
    commit = f"{line.short} {line.subject} ({line.author})"
    return FeedEntry(
        id=uuid.uuid5(root, "\0".join([*(about[name] for name in names), card["tone"]])).urn,
        title=plain(f"{what}: {', '.join([change, *state, *over])}"),
        href=card["href"],
        when=site.commits[about["commit"]].committed,
        summary=plain(" · ".join([commit, card["times"], card["where"], *others])),
    )


def _of_finding(root: uuid.UUID, finding: Finding, line: Mapping[str, Any]) -> FeedEntry:
    commits = [f"{commit.short} {commit.subject}" for commit in line["commits"]]
    words = [line["state"], line["interval"], line["where"], *commits, line["further"]]
    return FeedEntry(
        id=uuid.uuid5(root, finding.id).urn,
        title=plain(f"{line['subject']}: {line['change']}"),
        href=line["href"],
        when=finding.found,
        summary=plain(" · ".join(filter(None, words))),
    )
