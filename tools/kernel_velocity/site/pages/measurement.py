"""The page of a measurement: how a number came to be, from its rounds to its value.

The page itself holds words; its script loads the rounds of the commit that its reader names in the address,
`measurement.html#commit=<SHA>&series=<name of the series' data file>`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kernel_velocity.harness.stopping import Reason
from kernel_velocity.results.measurement import MEANINGS, SeriesKey
from kernel_velocity.site import rounds_data
from kernel_velocity.site.model import Site
from kernel_velocity.site.outputs import DataFile, Page, series_name

NAME = "measurement"
INDEX = "rounds-index"
FORMAT = 1  # of the index
STOPS: Mapping[str, str] = {
    Reason.CONVERGED: "the estimate was as sure as was asked for",
    Reason.PLATEAU: "the noise no longer changed: more samples would not have helped",
    Reason.NOISE_FLOOR: "the samples scatter too much for the time there was: the rest of it was given back",
    Reason.BUDGET: "the time was up before the estimate was as sure as was asked for",
    Reason.BUDGET_DRIFT: "the time was up, and the samples were still getting slower or faster",
    Reason.CONTENDED: "the core was busy for longer than a round waits: what it took in quiet moments stands",
    Reason.TIMEOUT: "the process would have been stopped for its time",
    Reason.COMPLETE: "a fixed number of samples, and no question of how sure they make",
}
FLAGS: Mapping[str, str] = {
    "contended": "another process took the core, the hypervisor took time, or the core was never quiet",
    "faulting": "page faults while timing: fresh memory was part of what was measured",
    **MEANINGS,
}


@dataclass(frozen=True, kw_only=True)
class Words:
    """What the page explains where it occurs."""

    stops: Mapping[str, str]
    flags: Mapping[str, str]


def href(commit: str, key: SeriesKey) -> str:
    """Return the address of a series' measurement at a commit."""
    return f"{NAME}.html#commit={commit}&series={series_name(key)}"


def build(found: Site) -> Iterator[Page | DataFile]:
    """Yield the page, the rounds of every commit, what they are adjusted by, and the traces that are kept."""
    measured: dict[int, list[str]] = {}
    for number, sha, file in rounds_data.files(found):
        measured.setdefault(number, []).append(sha)
        yield file
    yield from rounds_data.fits(found)
    traces = rounds_data.read(found.repository)
    yield from traces.files
    yield DataFile(name=INDEX, value=_index(found, measured, traces))
    words = Words(stops=dict(STOPS), flags=dict(FLAGS))
    context = {"words": words, "has_rounds": bool(measured), "problems": traces.problems}
    yield Page(name=f"{NAME}.html", template=f"{NAME}.html", context=context)


def _index(found: Site, measured: Mapping[int, list[str]], traces: rounds_data.Traces) -> dict[str, Any]:
    """Return which commits have rounds where (newest first, those beside the line last), and what has traces."""
    return {
        "format": FORMAT,
        "places": [
            {
                "machine": place.machine,
                "environment": place.environment,
                "commits": sorted(measured.get(number, ()), key=lambda sha: -found.order.get(sha, -1)),
            }
            for number, place in enumerate(found.places)
        ],
        "traces": [[*named, name] for named, name in traces.names.items()],
    }
