"""Reads a results directory and its repository: everything that pages, tables and verdicts are made from.

Apart from `report`, because a machine that only measures has no Bokeh to draw with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from tools import asv_results, history, recorded, trends
from tools.pages import SHORT, SiteData
from tools.recorded import History

_LISTED = 5  # commits named in a note before it only counts them


def site_data(results: Path, repository: Path) -> SiteData:
    """Read everything, and return what the pages are made from."""
    stored = asv_results.read(results)
    items, notes = recorded.measurements(stored)
    past = history.read(repository, (file.commit for file in stored.files))
    order = {sha: place for place, sha in enumerate(past.line)}
    return SiteData(
        machines=stored.machines,
        benchmarks=stored.benchmarks or {},
        history=past,
        order=order,
        trends=trends.applicable(trends.build(items, order)),
        measurements=tuple(item for item in items if item.commit in past.commits),
        notes=(
            *stored.notes,
            *notes,
            *history_notes(past, (file.commit for file in stored.files), (item.commit for item in items)),
        ),
    )


def history_notes(past: History, recorded_: Iterable[str], measured: Iterable[str]) -> Iterator[str]:
    """Yield what has to be known of commits that have no place in the history.

    Args:
        past: the history. recorded_: the commits of the results files, in their order. measured: those of measurements.
    """
    line = frozenset(past.line)
    gone = [sha for sha in dict.fromkeys(recorded_) if sha not in past.commits]
    beside = [sha for sha in dict.fromkeys(measured) if sha in past.commits and sha not in line]
    if gone:
        yield f"results of commits that the repository does not have are kept, not shown: {_names(gone)}"
    if beside:
        yield f"commits beside the first-parent line of HEAD have a page, but no place on a trend: {_names(beside)}"
    if past.shallow:
        yield "the clone is shallow, so trends may begin too late: run `git fetch --unshallow`"


def _names(shas: list[str]) -> str:
    more = len(shas) - _LISTED
    return ", ".join(sha[:SHORT] for sha in shas[:_LISTED]) + (f" and {more} more" if more > 0 else "")
