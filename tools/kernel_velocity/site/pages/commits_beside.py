"""Commits beside the first-parent line against others: few values, one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kernel_velocity.results.measurement import OUTCOMES, Measurement, Outcome
from kernel_velocity.series import trends
from kernel_velocity.series.changes import NONE
from kernel_velocity.series.trends import Change
from kernel_velocity.site.model import Site
from kernel_velocity.site.pages.commit_values import (
    APART,
    FIGURES,
    NO_TAG,
    OVERLAPPING,
    UNKNOWN,
    Against,
    Series,
    Values,
)


def beside(found: Site, sha: str, tags: Sequence[int]) -> Values:
    """Return what was measured of a commit beside the line; tag and best value are those up to its parent.

    Args:
        tags: of `commits_along.tags_before`.
    """
    parents = found.commits[sha].parents[:1]
    parent = {item.key: item for one in parents for item in found.at(one)}
    place = found.order.get(parents[0], NO_TAG) if parents else NO_TAG
    tag = place if place == NO_TAG or found.line[place] in found.tags else int(tags[place])
    ranks = {key: rank for rank, key in enumerate(found.keys)}
    items = sorted(found.at(sha), key=lambda item: ranks.get(item.key, len(ranks)))
    earlier = [[] if item.key not in ranks else list(_upto(found, item, place)) for item in items]
    return of_measurements(
        items,
        before=[_change(item, parent.get(item.key)) for item in items],
        tag=[next((one for at, one in own if at <= tag), None) for own in earlier],
        best=[min((one for _, one in own), key=lambda change: change.ratio, default=None) for own in earlier],
        had_time=[item.key in parent and parent[item.key].outcome is Outcome.MEASURED for item in items],
    )


def _upto(found: Site, item: Measurement, place: int) -> Iterator[tuple[int, Change]]:
    """Yield (place, change) of a measurement against its series' values up to a place of the line, newest first."""
    series = found.series(item.key)
    for entry in np.flatnonzero(series.is_measured & (series.place <= place))[::-1].tolist():
        change = trends.compare(item, series.measurement(entry, found.line))
        if change is not None:
            yield int(series.place[entry]), change


def of_measurements(
    items: Sequence[Measurement],
    *,
    before: Sequence[Change | None],
    tag: Sequence[Change | None],
    best: Sequence[Change | None],
    had_time: Sequence[bool],
) -> Values:
    """Return the measurements of one commit, each of another series, with their changes, as columns.

    Args:
        items: in the order of the site's series.
        before, tag, best: the change of each; None where it cannot be compared.
        had_time: whether the commit before has a time of it.
    """
    others = tuple(dict.fromkeys(change.against for change in (*before, *tag, *best) if change is not None))
    keys = tuple(item.key for item in items)
    flop = np.array([np.nan if item.flop is None else item.flop for item in items], np.float64)
    rows = [_figures(item) for item in items]
    return Values(
        series=Series(keys=keys, flop=flop),
        others=others,
        remark=lambda row: (items[row].reason, items[row].warnings),
        which=np.arange(len(items)),
        slot=np.arange(len(items)),
        outcome=np.array([OUTCOMES.index(item.outcome) for item in items], np.int32),
        figures=np.array(rows, np.float64).reshape(-1, len(FIGURES)),
        changed=np.array(list(map(_is_changed, items, before, had_time)), np.bool_),
        before=_of_changes(before, others),
        tag=_of_changes(tag, others),
        best=_of_changes(best, others),
    )


def _figures(item: Measurement) -> tuple[float, ...]:
    """Return a measurement's FIGURES."""
    interval, adjusted = item.interval, item.adjusted
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    known = (item.seconds, low, high, None if adjusted is None else adjusted.seconds)
    return tuple(np.nan if figure is None else figure for figure in known)


def _change(new: Measurement, old: Measurement | None) -> Change | None:
    return None if old is None else trends.compare(new, old)


def _is_changed(item: Measurement, before: Change | None, had_time: bool) -> bool:
    """Return whether a time is distinct from the one before, or there was one and now is none."""
    if item.outcome is Outcome.MEASURED:
        return before is not None and before.is_distinct
    return had_time and (item.outcome is Outcome.FAILED or item.reason is not None)


def _of_changes(changes: Sequence[Change | None], others: Sequence[str]) -> Against:
    """Return the changes of some results as columns."""
    states = {None: UNKNOWN, True: OVERLAPPING, False: APART}
    known = [
        (NONE, np.nan, UNKNOWN) if one is None else (others.index(one.against), one.ratio, states[one.overlapping])
        for one in changes
    ]
    return Against(
        other=np.array([other for other, _, _ in known], np.int32),
        ratio=np.array([ratio for _, ratio, _ in known], np.float64),
        state=np.array([state for _, _, state in known], np.uint8),
    )
