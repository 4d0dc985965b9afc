"""Reads a results directory and its repository: everything that pages, tables and verdicts are made from.

Apart from `report`, because a machine that only measures has no Bokeh to draw with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from tools import asv_results, history, recorded, trends
from tools.measurements import Measurement, SeriesKey
from tools.pages import SHORT, SiteData
from tools.recorded import History, Recorded

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
        notes=(*stored.notes, *notes, *_history_notes(stored, past, items)),
        last_measured=_last_measured(stored, items),
    )


def _last_measured(stored: Recorded, items: Iterable[Measurement]) -> dict[SeriesKey, float]:
    """Return when each series was measured last, Unix time, s: its newest round, else what asv says of its value."""
    times: dict[tuple[str, ...], float] = {}
    for file in stored.files:
        for value in file.values:
            rounds = file.rounds.get((value.benchmark, value.implementation, value.case), ())
            began = max((item.time for item in rounds), default=value.began)
            if value.seconds is not None and began is not None:
                place = (file.machine, file.environment, value.benchmark, value.implementation, value.case)
                times[place] = max(began, times.get(place, began))
    keys = {item.key for item in items}
    places = {key: (key.machine, key.environment, key.benchmark, key.implementation, key.case) for key in keys}
    return {key: times[place] for key, place in places.items() if place in times}


def _history_notes(stored: Recorded, past: History, items: tuple[Measurement, ...]) -> Iterator[str]:
    measured = dict.fromkeys(file.commit for file in stored.files)
    gone = [sha for sha in measured if sha not in past.commits]
    shown = dict.fromkeys(item.commit for item in items if item.commit in past.commits)
    beside = [sha for sha in shown if sha not in past.line]
    if gone:
        yield f"results of commits that the repository does not have are kept, not shown: {_names(gone)}"
    if beside:
        yield f"commits beside the first-parent line of HEAD have a page, but no place on a trend: {_names(beside)}"
    if past.shallow:
        yield "the clone is shallow, so trends may begin too late: run `git fetch --unshallow`"


def _names(shas: list[str]) -> str:
    more = len(shas) - _LISTED
    return ", ".join(sha[:SHORT] for sha in shas[:_LISTED]) + (f" and {more} more" if more > 0 else "")
