"""Every commit of the first-parent line against three others, some commits at a time.

Against the commit measured before it, the last tag before it, and the fastest value of the series before it, by the
rules of `changes_along`: what the commits' pages are made from.

Digests of the commits' values, kept from one report to the next: what a new commit changes is its own page.

A digest follows from the values of the commit and of those before it on the first-parent line: as long as none of
their results files and adjusted times changed, nor which series are shown, it is what it was. One JSON file beside the
cache, safe to delete.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_velocity.results.measurement import IntArray
from kernel_velocity.series import cache, changes
from kernel_velocity.series import layout as series_blocks
from kernel_velocity.series.cache import Answers
from kernel_velocity.series.changes import NONE, Indices, Timed, Truth
from kernel_velocity.series.layout import Block, Layout
from kernel_velocity.series.packing import NOTHING
from kernel_velocity.site.model import Site
from kernel_velocity.site.outputs import series_name
from kernel_velocity.site.pages import commit_values
from kernel_velocity.site.pages.commit_values import (
    APART,
    FAILED,
    FIGURES,
    MEASURED,
    NO_TAG,
    OVERLAPPING,
    UNKNOWN,
    Against,
    Remark,
    Series,
    Values,
)

FEWEST = 2  # commits that are looked at together: a new one, and the one before it, whose page links to it
MOST_VALUES = 400_000  # that are held at a time: 60 MB

NAME = "commits.json"


def tags_before(found: Site) -> IntArray:
    """Return, for every place of the first-parent line, the place of the newest tag before it; NO_TAG where none is."""
    tagged = sorted(found.order[sha] for sha in found.tags)
    indices = np.searchsorted(tagged, np.arange(len(found.line)), side="left") - 1
    return np.where(indices < 0, NO_TAG, np.array([*tagged, NO_TAG])[indices]).astype(np.int32)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Stretch:
    """Some commits that follow each other among the measured ones, with their values."""

    places: Indices  # of the commits on the line, ascending
    first: Indices  # (commits + 1,) of each one's values, and the number of all
    values: Values  # those of a commit together, as the series are ordered


class Line:
    """Every result on the first-parent line with its changes, those of a commit together, as the series are ordered.

    The changes of a commit are looked for along all series, in one pass for several commits: for twice as many each
    time, up to MOST_VALUES, so that who asks for one gets it soon, and who asks for all in order gets them in few.
    """

    def __init__(self, found: Site) -> None:
        """Take a site."""
        self.found, self.tags = found, tags_before(found)
        self._layout = found.past.layout
        self._numbers = np.array([self._layout.numbers[key] for key in found.keys], np.int64)
        self._next = FEWEST
        self._held: _Stretch | None = None

    @classmethod
    def of(cls, found: Site) -> Line:
        """Return the line of a site."""
        return cls(found)

    @cached_property
    def _series(self) -> Series:
        store, keys = self.found.past, self.found.keys
        flop = [store.flop(key) for key in keys]
        return Series(keys=keys, flop=np.array([np.nan if each is None else each for each in flop], np.float64))

    @cached_property
    def identities(self) -> NDArray[np.uint64]:
        """A digest of each series' name and work, shape (series,)."""
        named = zip(self._series.keys, self._series.flop.tolist(), strict=True)
        said = (repr((series_name(key), flop)).encode() for key, flop in named)
        return np.frombuffer(b"".join(hashlib.sha256(each).digest()[:8] for each in said), np.uint64)

    def at(self, place: int) -> Values:
        """Return what was measured of the commit at a place."""
        stretch = self._stretch(place)
        return stretch.values[self._chosen(stretch, place)]

    def beside(self, sha: str) -> Values:
        """Return what was measured of a commit beside the line."""
        return commit_values.beside(self.found, sha, self.tags.tolist())

    def digest(self, place: int) -> str:
        """Return what changes whenever `at` would say something else of the commit at a place."""
        values, made = self.at(place), hashlib.sha256()
        remark = self.found.past.text_digests["remark"][self._layout.columns["remark"][values.slot]]
        columns: list[NDArray[Any]] = [values.outcome, values.figures, values.changed, remark]
        for against in (values.before, values.tag, values.best):
            columns += [against.other, against.ratio, against.state]
        for column in (*columns, self.identities[values.which]):
            made.update(column.tobytes())
        return made.hexdigest()

    @staticmethod
    def _chosen(stretch: _Stretch, place: int) -> slice:
        at = int(np.searchsorted(stretch.places, place))
        return slice(int(stretch.first[at]), int(stretch.first[at + 1]))

    def _stretch(self, place: int) -> _Stretch:
        if self._held is None or place not in self._held.places:
            self._held = None  # before there is another
            self._held = self._made(self._following(place))
            self._next *= 2
        return self._held

    def _following(self, place: int) -> Indices:
        """Return a place and those that are looked at with it."""
        measured, ends = self._measured
        first = int(np.searchsorted(measured, place, side="right"))
        begun = int(ends[first - 1]) if first else 0
        most = int(np.searchsorted(ends, begun + MOST_VALUES, side="right"))
        return np.concatenate([[place], measured[first : max(first, min(first + self._next - 1, most))]])

    @cached_property
    def _measured(self) -> tuple[Indices, Indices]:
        """Return the places that have values, ascending, and how many values there are up to each of them."""
        held = np.zeros(len(self.found.line), np.int64)
        for path, sha in self.found.past.directory.commits.items():
            if sha in self.found.order:
                held[self.found.order[sha]] += len(self._layout.files[path])
        places = np.flatnonzero(held)
        return places, np.cumsum(held[places])

    def _made(self, places: Indices) -> _Stretch:
        parts = [self._part(block, places) for block in self._blocks(places)]
        place = np.concatenate([part.place for part in parts] or [np.empty(0, np.int32)])
        order = np.argsort(place, kind="stable")
        return _Stretch(
            places=places,
            first=np.searchsorted(place[order], [*places.tolist(), len(self.found.line)]),
            values=self._values(parts, order),
        )

    def _blocks(self, places: Indices) -> Iterator[Block]:
        return series_blocks.blocks(self._layout, self._numbers, upto=int(places[-1]))

    def _values(self, parts: Sequence[_Part], order: Indices) -> Values:
        """Return every result of a stretch; `order` puts those of a commit together."""

        def joined(name: str) -> Any:
            return np.concatenate([getattr(part, name) for part in parts] or [np.empty(0, np.int64)])[order]

        def against(name: str) -> Against:
            columns = [getattr(part, name) for part in parts]
            empty: NDArray[Any] = np.empty(0)
            made = (np.concatenate([getattr(one, each) for one in columns] or [empty]) for each in _AGAINST)
            return Against(**{each: column[order] for each, column in zip(_AGAINST, made, strict=True)})

        slot, layout = joined("slot"), self._layout
        return Values(
            series=self._series,
            others=self.found.line,
            remark=self._remark,
            which=joined("which"),
            slot=slot,
            outcome=layout.columns["outcome"][slot],
            figures=np.column_stack([layout.columns[name][slot] for name in FIGURES]),
            changed=joined("changed"),
            before=against("before"),
            tag=against("tag"),
            best=against("best"),
        )

    def _remark(self, slot: int) -> Remark:
        number = int(self._layout.columns["remark"][slot])
        return (None, ()) if number == NOTHING else self.found.past.names.remarks[number]

    def _part(self, block: Block, places: Indices) -> _Part:
        """Return the values of a block's series at some places."""
        own = np.flatnonzero(np.isin(block.places, places))
        slots = block.slots[:, own]
        held = slots != NONE
        bases = [base[held] for base in _bases(block, own, self.tags)]
        row, at = np.nonzero(held)
        slot = slots[held]
        new = series_blocks.timed(self._layout, slot)
        before, tag, best = (_against(self._layout, new, base) for base in bases)
        return _Part(
            which=(row + block.rows.start).astype(np.int32),
            place=block.places[own][at].astype(np.int32),
            slot=slot,
            changed=before.distinct | self._lost(slot, block.start[row]),
            before=before,
            tag=tag,
            best=best,
        )

    def _lost(self, slot: Indices, start: Indices) -> Truth:
        """Return which values are no times although the one before is; without a reason, n/a was not asked for.

        Args:
            slot: where they lie. start: where the first value of the series of each lies.
        """
        columns, has_reason = self._layout.columns, self.found.past.having[0] != NOTHING
        outcome = columns["outcome"][slot]
        had = (slot > start) & (columns["outcome"][slot - 1] == MEASURED)
        told = (outcome == FAILED) | ((outcome != MEASURED) & has_reason[columns["remark"][slot]])
        return np.asarray(had & told)


_AGAINST = ("other", "ratio", "state")


@dataclass(frozen=True, kw_only=True, eq=False)
class _Part:
    """Some series' values at some commits; all arrays have shape (values,)."""

    which: IntArray  # of the site's series
    place: IntArray  # of the commit on the line
    slot: Indices  # where it lies in the layout
    changed: Truth
    before: Against
    tag: Against
    best: Against


def _bases(block: Block, own: Indices, tags: IntArray) -> tuple[Indices, Indices, Indices]:
    """Return what some commits' values are compared with: the one before, at the last tag, the best; (series, own).

    Args:
        own: the commits' columns in the block. tags: of `tags_before`.
    """
    at_tag = np.searchsorted(block.places, tags[block.places[own]], side="right") - 1  # -1 of NO_TAG, too
    found = [np.full((len(block.slots), len(own)), NONE, np.int64) for _ in range(3)]
    methods = block.methods[:, own]
    for method in np.flatnonzero(np.bincount(methods.ravel())).tolist():
        alike, rows = block.alike(method), methods == method
        last = series_blocks.newest(alike)
        best = series_blocks.best(np.where(alike, block.times, np.inf))
        for into, columns in zip(found, ((last, own - 1), (last, at_tag), (best, own - 1)), strict=True):
            into[rows] = _slots(block, *columns)[rows]
    before, tag, best_before = found
    return before, tag, best_before


def _slots(block: Block, columns: IntArray, upto: Indices) -> Indices:
    """Return where the values lie whose columns are told by one of `columns` each; NONE where that is less than 0."""
    which = np.where(upto < 0, NONE, columns[:, upto])
    return np.where(which == NONE, NONE, np.take_along_axis(block.slots, which.astype(np.int64), axis=1))


def _against(layout: Layout, new: Timed, base: Indices) -> Against:
    """Return the changes of values against those that lie at `base`; the other commit is a place on the line."""
    made = changes.compared(new, series_blocks.timed(layout, base))
    known = made.both & (base != NONE)
    state = np.where(made.unknown, UNKNOWN, np.where(made.overlapping, OVERLAPPING, APART))
    return Against(
        other=np.where(known, layout.place[base], NONE).astype(np.int32),
        ratio=np.where(known, made.ratio, np.nan),
        state=np.where(known, state, UNKNOWN).astype(np.uint8),
    )


class Digests:
    """The digests of a site's commits."""

    def __init__(self, found: Site, line: Line) -> None:
        """Take a site and its line."""
        self._line = line
        self._answers = Answers(found.cache, "commits", cache.code())
        self._followed = _followed(found, line)
        self._known = {key: value.decode() for key, value in self._answers.get(self._followed.values()).items()}
        self._new: dict[str, str] = {}

    def of(self, place: int) -> str:
        """Return the digest of the commit at a place that was measured (`Line.digest`)."""
        followed = self._followed[place]
        known = self._known.get(followed) or self._new.get(followed)
        if known is None:
            known = self._new[followed] = self._line.digest(place)
        return known

    def save(self) -> None:
        """Store the new ones, and remove those that none of the site's commits has any more."""
        if self._new:
            current = set(self._followed.values())
            self._answers.put({key: value.encode() for key, value in self._new.items()}, keep=current.__contains__)


def _followed(found: Site, line: Line) -> dict[int, str]:
    """Return, for each place of the line that has results files, what tells whether its digest is still the same.

    A file's signature tells its contents to whom it was read by: the numbers of series are those of one cache.
    """
    past = found.past
    files: dict[int, list[str]] = {}
    for path, file in sorted(past.directory.files.items()):
        if file.commit in found.order:
            adjusted = past.adjustments.digests.get(path)
            files.setdefault(found.order[file.commit], []).append(f"{path} {file.signature} {adjusted}")
    made = hashlib.sha256(str(found.results.resolve()).encode())
    made.update(past.layout.shown.encode() + line.identities.tobytes())
    told = {}
    for place in sorted(files):
        made.update(repr((place, found.line[place], files[place])).encode("utf-8", "surrogatepass"))
        told[place] = f"{made.hexdigest()} {int(line.tags[place])}"
    return told
