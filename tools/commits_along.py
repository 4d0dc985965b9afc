"""Every commit of the first-parent line against three others, all at once.

Against the commit measured before it, the last tag before it, and the fastest value of the series before it
(`changes_along`), kept by commit: what the commits' pages are made from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools import changes_along, trends
from tools.changes_along import NONE, Changes, Truth
from tools.columns import OUTCOMES, Columns, IntArray
from tools.commit_values import APART, FAILED, FIGURES, MEASURED, OVERLAPPING, UNKNOWN, Against, Series, Values
from tools.measurements import Measurement, Outcome, SeriesKey
from tools.site import Site
from tools.site_files import series_name
from tools.trends import Change

NO_TAG = -1


def tags_before(found: Site) -> IntArray:
    """Return, for every place of the first-parent line, the place of the newest tag before it; NO_TAG where none is."""
    tagged = sorted(found.order[sha] for sha in found.tags)
    indices = np.searchsorted(tagged, np.arange(len(found.line)), side="left") - 1
    return np.where(indices < 0, NO_TAG, np.array([*tagged, NO_TAG])[indices]).astype(np.int32)


def _against(series: Columns, changes: Changes) -> Against:
    """Return the changes of one series; the other commit is a place on the first-parent line."""
    nothing = changes.base == NONE
    other = np.where(nothing, NONE, series.place[changes.base])
    state = np.where(nothing | changes.unknown, UNKNOWN, np.where(changes.overlapping, OVERLAPPING, APART))
    return Against(other=other.astype(np.int32), ratio=changes.ratio, state=state.astype(np.uint8))


def _joined(parts: Sequence[np.ndarray], order: NDArray[np.int64]) -> np.ndarray:
    """Return what all series have one after the other, then in an order."""
    return np.concatenate(parts)[order] if parts else np.empty(0)


def _joined_against(parts: Sequence[Against], order: NDArray[np.int64]) -> Against:
    return Against(
        other=_joined([part.other for part in parts], order),
        ratio=_joined([part.ratio for part in parts], order),
        state=_joined([part.state for part in parts], order),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """Every result on the first-parent line with its changes, those of a commit together, as the series are ordered."""

    found: Site
    tags: IntArray  # of `tags_before`
    first: NDArray[np.int64]  # of each place's results, and their number
    values: Values  # of all commits
    said: NDArray[np.int64]  # (results, 2), digests of reason and warnings
    identities: NDArray[np.uint8]  # (series, 32), of the series' names and work

    @classmethod
    def of(cls, found: Site) -> Line:
        """Return the line of a site."""
        tags, series = tags_before(found), tuple(found.series(key) for key in found.keys)
        places = np.concatenate([*(each.place for each in series), np.empty(0, dtype=np.int32)])
        order = np.argsort(places, kind="stable")
        return cls(
            found=found,
            tags=tags,
            first=np.searchsorted(places[order], np.arange(len(found.line) + 1)),
            values=_values(found, tags, series, order),
            said=_joined([_said(each) for each in series], order),
            identities=_identities(found.keys, series),
        )

    def at(self, place: int) -> Values:
        """Return what was measured of the commit at a place."""
        return self.values[self._chosen(place)]

    def _chosen(self, place: int) -> slice:
        return slice(self.first[place], self.first[place + 1])

    def digest(self, place: int) -> str:
        """Return what changes whenever `at` would say something else of the commit at a place."""
        chosen = self._chosen(place)
        values, found = self.values[chosen], hashlib.sha256()
        columns: list[NDArray[Any]] = [values.outcome, values.figures, values.changed, self.said[chosen]]
        for against in (values.before, values.tag, values.best):
            columns += [against.other, against.ratio, against.state]
        for column in columns:
            found.update(column.tobytes())
        found.update(self.identities[values.which].tobytes())
        return found.hexdigest()

    def beside(self, sha: str) -> Values:
        """Return what was measured of a commit beside the line; tag and best value are those up to its parent."""
        parents = self.found.commits[sha].parents[:1]
        parent = {item.key: item for one in parents for item in self.found.at(one)}
        place = self.found.order.get(parents[0], NO_TAG) if parents else NO_TAG
        tag = place if place == NO_TAG or self.found.line[place] in self.found.tags else int(self.tags[place])
        ranks = {key: rank for rank, key in enumerate(self.found.keys)}
        items = sorted(self.found.at(sha), key=lambda item: ranks.get(item.key, len(ranks)))
        return of_measurements(
            items,
            before=[_change(item, parent.get(item.key)) for item in items],
            tag=[next(self._upto(item, tag), None) for item in items],
            best=[min(self._upto(item, place), key=lambda change: change.ratio, default=None) for item in items],
            had_time=[item.key in parent and parent[item.key].outcome is Outcome.MEASURED for item in items],
        )

    def _upto(self, item: Measurement, place: int) -> Iterator[Change]:
        """Yield the changes of a measurement against its series' values up to a place, the newest first."""
        if item.key not in self.found.keys:
            return
        series = self.found.series(item.key)
        for entry in np.flatnonzero(series.is_measured & (series.place <= place))[::-1]:
            change = trends.compare(item, series.measurement(int(entry), self.found.line))
            if change is not None:
                yield change


def _values(found: Site, tags: IntArray, series: Sequence[Columns], order: NDArray[np.int64]) -> Values:
    """Return every result on the line; `order` puts those of a commit together."""
    lengths = [len(each) for each in series]
    before = [changes_along.against(each, changes_along.before(each)) for each in series]
    tagged = [changes_along.against(each, changes_along.at_or_before(each, tags[each.place])) for each in series]
    best = [changes_along.against(each, changes_along.best_before(each)) for each in series]
    changed = [changes.distinct | _lost(each) for each, changes in zip(series, before, strict=True)]
    flop = np.array([np.nan if each.flop is None else each.flop for each in series], np.float64)
    return Values(
        series=Series(keys=found.keys, names=tuple(map(series_name, found.keys)), flop=flop),
        others=found.line,
        remark=lambda which, entry: (series[which].reasons.get(entry), series[which].warnings.get(entry, ())),
        which=np.repeat(np.arange(len(lengths)), lengths)[order],
        entry=_joined([np.arange(length) for length in lengths], order),
        outcome=_joined([each.outcome for each in series], order),
        figures=_joined([np.column_stack([getattr(each, name) for name in FIGURES]) for each in series], order),
        changed=_joined(changed, order),
        before=_joined_against(list(map(_against, series, before)), order),
        tag=_joined_against(list(map(_against, series, tagged)), order),
        best=_joined_against(list(map(_against, series, best)), order),
    )


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
        series=Series(keys=keys, names=tuple(map(series_name, keys)), flop=flop),
        others=others,
        remark=lambda which, _: (items[which].reason, items[which].warnings),
        which=np.arange(len(items)),
        entry=np.arange(len(items)),
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


def _said(series: Columns) -> NDArray[np.int64]:
    """Return digests of the entries' reasons and warnings, shape (commits, 2); 0 where there are none."""
    found = np.zeros((len(series), 2), np.int64)
    for column, told in enumerate((series.reasons, series.warnings)):
        texts = dict(told.items())
        digests = {text: _digest(text) for text in set(texts.values())}
        found[list(texts), column] = [digests[text] for text in texts.values()]
    return found


def _digest(text: Sequence[str]) -> int:
    made = hashlib.sha256(repr(text).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(made[:8], "big", signed=True)


def _identities(keys: Sequence[SeriesKey], series: Sequence[Columns]) -> NDArray[np.uint8]:
    """Return a digest of each series' name and work, shape (series, 32)."""
    said = (repr((series_name(key), each.flop)).encode() for key, each in zip(keys, series, strict=True))
    digests = b"".join(hashlib.sha256(each).digest() for each in said)
    return np.frombuffer(digests, np.uint8).reshape(-1, hashlib.sha256().digest_size)


def _lost(series: Columns) -> Truth:
    """Return which entries have no time although the one before has; without a reason, n/a was not asked for."""
    had = np.concatenate(([False], series.is_measured[:-1]))
    told = series.outcome == FAILED
    told[[entry for entry in series.reasons if series.outcome[entry] != MEASURED]] = True
    return np.asarray(had & told)
