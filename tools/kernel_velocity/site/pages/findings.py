"""findings.html: the list of findings, open ones first, with filters in the address, and the findings as data.

- `data/findings`: every finding, as `kv findings list --all --json` prints it, with the name of its page.
- `data/finding-<id>`: one of them, with its re-runs and bisections by machine, as `results/findings/evidence` has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kernel_velocity.findings import evidence, text
from kernel_velocity.findings.finding import OPEN, Finding, Kind, State, finding_href
from kernel_velocity.results.git import SHORT
from kernel_velocity.site.model import Site
from kernel_velocity.site.pages import finding as finding_page
from kernel_velocity.site.text import names
from kernel_velocity.site.writer import DataFile, Page

FORMAT = 1  # of the data files
URGENCY = (Kind.REGRESSION, Kind.VANISHED, Kind.ENVIRONMENT, Kind.IMPROVEMENT)  # of open findings
MOST_MACHINES = 3  # named in a row


def build(site: Site) -> Iterator[Page | DataFile]:
    """Yield the list, also without any finding, and the data files of all findings."""
    rows = [_row(site, finding) for finding in sorted(site.findings, key=_rank)]
    values = {
        "state": {finding.state.value for finding in site.findings},
        "kind": {finding.kind.value for finding in site.findings},
        "machine": {name for row in rows for name in row["machines"]},
    }
    choices = [
        (
            name,
            name,
            ({"open": "open"} if name == "state" else {}) | {"": "all"} | {value: value for value in sorted(of)},
        )
        for name, of in values.items()
        if len(of) > 1 or name == "state"
    ]
    yield Page(
        name="findings.html",
        template="findings.html",
        context={
            "rows": rows,
            "folder": site.findings_folder,
            "open": sum(row["is_open"] for row in rows),
            "choices": choices,
        },
    )
    listed = {finding.id: text.as_data(finding) | {"page": finding_href(finding.id)} for finding in site.findings}
    yield DataFile(name="findings", value={"format": FORMAT, "findings": list(listed.values())})
    for id_, data in listed.items():
        by_machine = {
            name: {"format": FORMAT, **evidence.as_data(stored)} for name, stored in site.evidence(id_)[0].items()
        }
        yield DataFile(name=f"finding-{id_}", value={"format": FORMAT, **data, "evidence": by_machine})


def _rank(finding: Finding) -> tuple[bool, int, bool, float, str]:
    """Return a sort key: open ones first, the worse before the better, confirmed before suspected. Then the newest."""
    is_open = finding.state in OPEN
    urgency = URGENCY.index(finding.kind) if is_open else 0
    return (
        not is_open,
        urgency,
        is_open and finding.state is not State.CONFIRMED,
        -finding.found.timestamp(),
        finding.id,
    )


def _row(site: Site, finding: Finding) -> dict[str, Any]:
    """Return a finding as a row. `searched` is the text that the filter by text looks at, in lower case."""
    machines = finding.machines or ((finding.subject,) if not finding.commits else ())
    subjects = [(sha[:SHORT], site.commits[sha].subject) for sha in finding.commits[:2] if sha in site.commits]
    blamed, headline = text.blamed(finding), finding_page.headline(finding)
    words = (
        finding.id,
        finding.subject,
        headline,
        blamed,
        *finding.commits,
        *machines,
        *(subject for _, subject in subjects),
    )
    return {
        "finding": finding,
        "href": finding_href(finding.id),
        "state": finding_page.state(finding),
        "chip": finding_page.chip(finding),
        "is_open": finding.state in OPEN,
        "headline": headline,
        "blamed": blamed,
        "commit": subjects[0] if len(subjects) == 1 else None,  # of those that the site has
        "machines": machines,
        "shown_machines": names(machines, MOST_MACHINES),
        "found": f"{finding.found:%Y-%m-%d}",
        "searched": " ".join(words).lower(),
    }
