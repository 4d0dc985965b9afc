"""What the home page's changes are over: 1, 7 and 30 days, and since the last tag.

A series' newest value is compared with the newest one that is at least that old, counted from when commits were
committed, not written: 40 days of a branch are none of the history's. No clock is read, so that pages made twice from
the same results are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.harness.statistics import FloatArray
from tools import changes_along, trends, units
from tools.absences import DAY
from tools.columns import Columns, IntArray
from tools.pages import commit_line
from tools.recorded import Commit
from tools.site import Site
from tools.trends import Change

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
    places = np.unique(np.concatenate([series.place[series.is_measured] for series in every]))
    earlier = places[places < newest]
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


def _fits(when: FloatArray, newest: int, earlier: IntArray, days: int | None, tag: int) -> np.ndarray:
    """Return which places of the line, all before `newest`, are old enough; an unknown date is not."""
    if days is None:
        return np.asarray(earlier <= tag)
    return np.asarray(when[earlier] <= when[newest] - days * DAY)


def too_young(every: Sequence[Span]) -> str:
    """Return which spans have nothing to compare with, in a sentence; empty for none."""
    names = [span.name for span in every if not span.base]
    return f"Nothing measured is old enough for: {', '.join(names)}." if names else ""


def change(found: Site, when: FloatArray, series: Columns, entry: int, span: Span) -> Change | None:
    """Return the change of an entry of a series over a span; None where nothing comparable is that old.

    Nor has an entry of before a tag, or of the tagged commit, changed since: a series can have ended there.
    """
    if span.days is None and series.place[entry] <= span.tag:
        return None
    earlier = np.flatnonzero(changes_along.alike(series, int(series.method[entry]))[:entry])
    fits = earlier[_fits(when, int(series.place[entry]), series.place[earlier], span.days, span.tag)]
    if not len(fits):
        return None
    new, old = (series.measurement(int(at), found.line) for at in (entry, fits[-1]))
    return trends.compare(new, old)
