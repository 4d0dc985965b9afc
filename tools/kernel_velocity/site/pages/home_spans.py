"""What the home page's changes are over: 1, 7 and 30 days, and since the last tag.

A series' newest value is compared with the newest one that is at least that old, counted from when commits were
committed, not written: 40 days of a branch are none of the history's. No clock is read, so that pages made twice from
the same results are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kernel_velocity import units
from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.results.records import Commit
from kernel_velocity.series import changes as changes_along
from kernel_velocity.series import series_blocks
from kernel_velocity.series.changes import NONE, Entries
from kernel_velocity.series.columns import Columns
from kernel_velocity.series.series_blocks import Block
from kernel_velocity.series.silence import DAY
from kernel_velocity.series.trends import Change
from kernel_velocity.site.model import Site
from kernel_velocity.site.text import commit_line

DAYS = (1, 7, 30)
NO_TAG = -1


@dataclass(frozen=True, kw_only=True)
class Span:
    """A stretch of history that changes are told over, and the commit that most series are compared with."""

    name: str  # "7 days", "since v1.2"
    days: int | None  # None: since a tag
    tag: int  # place of the tag on the first-parent line; NO_TAG for days, and where there is no tag
    base: str  # full SHA; "" where nothing that old was measured
    short: str
    href: str
    date: str


def dates(found: Site) -> FloatArray:
    """Return when the commits of the first-parent line got there, Unix time, s; NaN for those without a result."""
    known = (found.commits.get(sha) for sha in found.line)
    return np.array([np.nan if commit is None else commit.committed.timestamp() for commit in known])


def spans(found: Site, when: FloatArray, newest: int, every: Sequence[Columns]) -> tuple[Span, ...]:
    """Return the spans of a machine.

    Args:
        when: of `dates`. newest: place of the machine's newest commit on the line. every: all its series (>= 1).
    """
    is_measured = np.zeros(len(found.line), np.bool_)
    for series in every:
        is_measured[series.place[series.is_measured]] = True
    earlier = np.flatnonzero(is_measured[:newest])
    tag = _last_tag(found, newest)
    since = "since a tag" if tag == NO_TAG else f"since {', '.join(found.tags[found.line[tag]])}"
    asked = (*((units.count(days, "day"), days, NO_TAG) for days in DAYS), (since, None, tag))
    made = []
    for name, days, at in asked:
        fits = earlier[_fits(when, newest, earlier, days, at)]
        made.append(_span(name, days, at, found.commits[found.line[int(fits[-1])]] if len(fits) else None))
    return tuple(made)


def _span(name: str, days: int | None, tag: int, base: Commit | None) -> Span:
    if base is None:
        return Span(name=name, days=days, tag=tag, base="", short="", href="", date="")
    line = commit_line(base)
    return Span(
        name=name,
        days=days,
        tag=tag,
        base=base.sha,
        short=line.short,
        href=line.href,
        date=f"{base.committed:%Y-%m-%d}",
    )


def _last_tag(found: Site, newest: int) -> int:
    """Return the place of the newest tag before a place; a tag of the newest commit itself tells nothing."""
    return max((place for sha in found.tags if (place := found.order[sha]) < newest), default=NO_TAG)


def _fits(when: FloatArray, newest: int, earlier: Entries, days: int | None, tag: int) -> np.ndarray:
    """Return which places of the line, all before `newest`, are old enough; an unknown date is not."""
    if days is None:
        return np.asarray(earlier <= tag)
    return np.asarray(when[earlier] <= when[newest] - days * DAY)


def too_young(every: Sequence[Span]) -> str:
    """Return which spans have nothing to compare with, in a sentence; empty for none."""
    names = [span.name for span in every if not span.base]
    return f"Nothing measured is old enough for: {', '.join(names)}." if names else ""


def changes(
    found: Site, when: FloatArray, spans: Sequence[Span], values: Sequence[tuple[SeriesKey, int]]
) -> list[tuple[Change | None, ...]]:
    """Return the changes of values over spans; None where nothing comparable is that old.

    Nor has a value of before a tag, or of the tagged commit, changed since: a series can have ended there.

    Args:
        when: of `dates`. values: times, each of another of the site's series, and its entry there.
    """
    layout = found.store.layout
    numbers = np.array([layout.numbers[key] for key, _ in values], np.int64)
    slots = layout.start[numbers] + np.array([entry for _, entry in values], np.int64)
    old = np.full((len(values), len(spans)), NONE, np.int64)
    for block in series_blocks.blocks(layout, numbers):
        old[block.rows] = _old(block, slots[block.rows], when, spans)
    new = np.repeat(slots[:, np.newaxis], len(spans), axis=1)
    made = changes_along.compared(series_blocks.timed(layout, new), series_blocks.timed(layout, old))
    known = made.both & (old != NONE)
    against = layout.place[old]
    columns = [column.tolist() for column in (known, made.ratio, against, made.unknown, made.overlapping)]
    return [tuple(_told(found.line, zip(*row, strict=True))) for row in zip(*columns, strict=True)]


def _told(line: Sequence[str], row: Iterable[tuple[bool, float, int, bool, bool]]) -> Iterator[Change | None]:
    for known, ratio, against, unknown, overlapping in row:
        if known:
            yield Change(ratio=ratio, against=line[against], overlapping=None if unknown else overlapping)
        else:
            yield None


def _old(block: Block, slots: Entries, when: FloatArray, spans: Sequence[Span]) -> Entries:
    """Return where in the layout the values lie that a block's are compared with, (series, spans); NONE for none.

    Args:
        slots: where those lie that are compared, one a series.
    """
    found = np.full((len(slots), len(spans)), NONE, np.int64)
    places, methods = block.layout.place[slots], block.layout.columns["method"][slots]
    for place, method in sorted({*zip(places.tolist(), methods.tolist(), strict=True)}):
        rows = np.flatnonzero((places == place) & (methods == method))
        earlier = block.places[: np.searchsorted(block.places, place)]
        alike = block.alike(method)[rows]
        for at, span in enumerate(spans):
            fits = np.flatnonzero(_fits(when, place, earlier, span.days, span.tag))
            if len(fits) and (span.days is not None or place > span.tag):
                own = alike[:, fits[::-1]]  # the newest first
                last = fits[::-1][own.argmax(axis=1)]
                found[rows, at] = np.where(own.any(axis=1), block.slots[rows, last], NONE)
    return found
