"""The findings as files, for other tools: a list of them, and each with its evidence.

- `data/findings`: every finding, as `kv findings list --all --json` prints it, with the name of its page;
- `data/finding-<id>`: one of them, with its re-runs and bisections by machine, as `results/findings/evidence` has them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kernel_velocity.findings import evidence_store, finding
from kernel_velocity.findings import text as finding_text
from kernel_velocity.findings.finding import Finding
from kernel_velocity.site.model import Site
from kernel_velocity.site.outputs import DataFile

FORMAT = 1  # of these files


def build(found: Site) -> Iterator[DataFile]:
    """Yield the data files of a site's findings; the list is there without one, too."""
    yield DataFile(name="findings", value={"format": FORMAT, "findings": [_listed(item) for item in found.findings]})
    for item in found.findings:
        kept, _ = found.evidence(item.id)
        evidence = {machine: json.loads(evidence_store.as_text(own)) for machine, own in kept.items()}
        yield DataFile(name=f"finding-{item.id}", value={"format": FORMAT, **_listed(item), "evidence": evidence})


def _listed(item: Finding) -> dict[str, Any]:
    return {**finding_text.as_data(item), "page": finding.finding_href(item.id)}
