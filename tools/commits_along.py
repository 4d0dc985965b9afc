"""Every commit of the first-parent line against three others, all at once.

Against the commit measured before it, the last tag before it, and the fastest value of the series before it
(`changes_along`), kept by commit: what the commits' pages are made from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools import changes_along, trends
from tools.changes_along import NONE, Changes, Truth
from tools.columns import OUTCOMES, Columns, IntArray
from tools.commit_values import APART, OVERLAPPING, UNKNOWN, Against, Beside, OnLine, Value
from tools.measurements import Measurement, Outcome, SeriesKey
from tools.site import Site
from tools.site_files import series_name
from tools.trends import Change

NO_TAG = -1
FIGURES = ("seconds", "low", "high", "adjusted")  # columns that a page shows
_MEASURED, _FAILED = (OUTCOMES.index(outcome) for outcome in (Outcome.MEASURED, Outcome.FAILED))


def tags_before(found: Site) -> IntArray:
    """Return, for every place of the first-parent line, the place of the newest tag before it; NO_TAG where none is."""
    tagged = sorted(found.order[sha] for sha in found.tags)
    indices = np.searchsorted(tagged, np.arange(len(found.line)), side="left") - 1
    return np.where(indices < 0, NO_TAG, np.array([*tagged, NO_TAG])[indices]).astype(np.int32)


@dataclass(frozen=True, kw_only=True, eq=False)
class Compared:
    """Every entry of some series against others; all arrays have shape (entries,)."""

    place: IntArray  # on the first-parent line, of the other commit; NONE where nothing can be compared
    ratio: NDArray[np.float64]  # new rate / old rate
    state: NDArray[np.uint8]  # of the intervals: OVERLAPPING, APART, UNKNOWN

    @classmethod
    def of(cls, series: Columns, changes: Changes) -> Compared:
        """Return the changes of one series."""
        place = np.where(changes.base == NONE, NONE, series.place[changes.base])
        state = np.where(changes.unknown, UNKNOWN, np.where(changes.overlapping, OVERLAPPING, APART))
        return cls(place=place.astype(np.int32), ratio=changes.ratio, state=state.astype(np.uint8))

    @classmethod
    def joined(cls, parts: Sequence[Compared], order: NDArray[np.int64]) -> Compared:
        """Return the changes of all series one after the other, then in an order."""
        return cls(
            place=_joined([part.place for part in parts], order),
            ratio=_joined([part.ratio for part in parts], order),
            state=_joined([part.state for part in parts], order),
        )

    def rows(self, chosen: slice) -> Iterator[Against]:
        """Yield some entries as plain numbers: numpy's own are slow one by one."""
        return zip(self.place[chosen].tolist(), self.ratio[chosen].tolist(), self.state[chosen].tolist(), strict=True)


def _joined(parts: Sequence[np.ndarray], order: NDArray[np.int64]) -> np.ndarray:
    return np.concatenate(parts)[order] if parts else np.empty(0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """Every result on the first-parent line with its changes, those of a commit together, as the series are ordered."""

    found: Site
    tags: IntArray  # of `tags_before`
    series: tuple[Columns, ...]
    names: tuple[str, ...]  # of the series' data files
    first: NDArray[np.int64]  # of each place's results, and their number
    which: NDArray[np.int64]  # index into `series`, shape (results,) as all below
    entry: NDArray[np.int64]
    outcome: IntArray
    figures: NDArray[np.float64]  # (results, len(FIGURES))
    changed: Truth
    said: NDArray[np.int64]  # (results, 2), digests of reason and warnings
    identities: NDArray[np.uint8]  # (series, 32), of the series' names and work
    before: Compared
    tag: Compared
    best: Compared

    @classmethod
    def of(cls, found: Site) -> Line:
        """Return the line of a site."""
        tags, series = tags_before(found), tuple(found.series(key) for key in found.keys)
        lengths = [len(each) for each in series]
        places = np.concatenate([*(each.place for each in series), np.empty(0, dtype=np.int32)])
        order = np.argsort(places, kind="stable")
        before = [changes_along.against(each, changes_along.before(each)) for each in series]
        tagged = [changes_along.against(each, changes_along.at_or_before(each, tags[each.place])) for each in series]
        best = [changes_along.against(each, changes_along.best_before(each)) for each in series]
        changed = [changes.distinct | _lost(each) for each, changes in zip(series, before, strict=True)]
        return cls(
            found=found,
            tags=tags,
            series=series,
            names=tuple(map(series_name, found.keys)),
            first=np.searchsorted(places[order], np.arange(len(found.line) + 1)),
            which=np.repeat(np.arange(len(lengths)), lengths)[order],
            entry=_joined([np.arange(length) for length in lengths], order),
            outcome=_joined([each.outcome for each in series], order),
            figures=_joined([np.column_stack([getattr(each, name) for name in FIGURES]) for each in series], order),
            changed=_joined(changed, order),
            said=_joined([_said(each) for each in series], order),
            identities=_identities(found.keys, series),
            before=Compared.joined(list(map(Compared.of, series, before)), order),
            tag=Compared.joined(list(map(Compared.of, series, tagged)), order),
            best=Compared.joined(list(map(Compared.of, series, best)), order),
        )

    def at(self, place: int) -> list[Value]:
        """Return what was measured of the commit at a place, in the order of the site's series."""
        chosen = slice(self.first[place], self.first[place + 1])
        columns = (self.which, self.entry, self.outcome, self.changed)
        plain = zip(*(column[chosen].tolist() for column in columns), strict=True)
        against = zip(self.before.rows(chosen), self.tag.rows(chosen), self.best.rows(chosen), strict=True)
        keys, series, names, line = self.found.keys, self.series, self.names, self.found.line
        return [
            OnLine(keys[which], series[which], names[which], entry, OUTCOMES[outcome], changed, line, *changes)
            for (which, entry, outcome, changed), changes in zip(plain, against, strict=True)
        ]

    def digest(self, place: int) -> str:
        """Return what changes whenever `at` would say something else of the commit at a place."""
        chosen = slice(self.first[place], self.first[place + 1])
        found = hashlib.sha256()
        for compared in (self.before, self.tag, self.best):
            for column in (compared.place, compared.ratio, compared.state):
                found.update(column[chosen].tobytes())
        for values in (self.outcome, self.figures, self.changed, self.said):
            found.update(values[chosen].tobytes())
        found.update(self.identities[self.which[chosen]].tobytes())
        return found.hexdigest()

    def beside(self, sha: str) -> list[Value]:
        """Return what was measured of a commit beside the line; tag and best value are those up to its parent."""
        parents = self.found.commits[sha].parents[:1]
        parent = {item.key: item for one in parents for item in self.found.at(one)}
        place = self.found.order.get(parents[0], NO_TAG) if parents else NO_TAG
        tag = place if place == NO_TAG or self.found.line[place] in self.found.tags else int(self.tags[place])
        ranks = {key: rank for rank, key in enumerate(self.found.keys)}
        made: list[Value] = []
        for item in sorted(self.found.at(sha), key=lambda item: ranks.get(item.key, len(ranks))):
            before = parent.get(item.key)
            made.append(
                Beside(
                    measurement=item,
                    name=series_name(item.key),
                    before=None if before is None else trends.compare(item, before),
                    tag=next(self._upto(item, tag), None),
                    best=min(self._upto(item, place), key=lambda change: change.ratio, default=None),
                    had_time=before is not None and before.outcome is Outcome.MEASURED,
                )
            )
        return made

    def _upto(self, item: Measurement, place: int) -> Iterator[Change]:
        """Yield the changes of a measurement against its series' values up to a place, the newest first."""
        if item.key not in self.found.keys:
            return
        series = self.found.series(item.key)
        for entry in np.flatnonzero(series.is_measured & (series.place <= place))[::-1]:
            change = trends.compare(item, series.measurement(int(entry), self.found.line))
            if change is not None:
                yield change


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
    told = series.outcome == _FAILED
    told[[entry for entry in series.reasons if series.outcome[entry] != _MEASURED]] = True
    return np.asarray(had & told)
