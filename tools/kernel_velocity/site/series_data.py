"""The data of the trends as files, for the pages and for other tools: the commits, a list of the series, each series.

- `data/commits`: the commits of the first-parent line that have a result, oldest first, and where they were measured;
- `data/series-index`: the machines with their environments, and every series with a trend, by the name of its file;
- `data/series-<16 hex>`: a series as columns, one entry for each commit that has a result of it, oldest first, but for
  the newest commits: `newest` names the file that continues it;
- `data/newest-<16 hex>`: the newest entries, likewise, of all series of a benchmark at a place.

So one more commit writes a file for each benchmark, not for each series: a series' own file is written again when
STEP commits more were measured (and when its adjusted times are fitted anew, every eighth more). Both say in `before`
how many of `data/commits` the series' own file reaches.

Unknown is null. Times are in seconds per call, to `DIGITS` digits; FLOP and bytes are per call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import orjson

from kernel_velocity.harness.cases import operation
from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.results.measurement import OUTCOMES, IntArray, Outcome, SeriesKey
from kernel_velocity.series.changes import Truth
from kernel_velocity.series.columns import Columns
from kernel_velocity.site import text
from kernel_velocity.site.model import Site
from kernel_velocity.site.outputs import DataFile, series_name
from kernel_velocity.site.writer import json_bytes

FORMAT = 2  # of these files; it changes when a reader of the old ones would go wrong
DIGITS = 7  # of a time: no series repeats to one part in a million; all 17 would double the files
_NOT_APPLICABLE = OUTCOMES.index(Outcome.NOT_APPLICABLE)
_OUTCOMES = tuple(outcome.value for outcome in OUTCOMES)
STEP = 64  # measured commits from one time that all files of series are written to the next
_MOST_KEPT = 64  # columns kept as JSON; of 10,000 commits each can have a MB
TIMES = ("seconds", "low", "high", "adjusted", "adjusted_low", "adjusted_high")
_POWERS = np.array([float(f"1e{exponent}") for exponent in range(23)])  # of ten; a double holds each of them exactly


def build(found: Site) -> Iterator[DataFile]:
    """Yield the data files of a site; that of a series is made only when the series changed."""
    yield DataFile(name="commits", value=commits(found))
    yield DataFile(name="series-index", value=index(found))
    edge, texts = edge_of(found), Texts(found.line)
    together: dict[str, list[tuple[SeriesKey, int]]] = {}
    for key in found.keys:
        entries = int(np.searchsorted(found.series(key).place, edge.place))
        together.setdefault(newest_name(key), []).append((key, entries))
        inputs = f"{edge.commits} {found.digest(key, 0, entries)}"
        yield DataFile(name=series_name(key), value=partial(_older, found, key, entries, edge, texts), inputs=inputs)
    for name, own in together.items():
        inputs = repr((edge.commits, [(key, found.digest(key, entries)) for key, entries in own]))
        yield DataFile(name=name, value=partial(_newest, found, own, edge, texts), inputs=inputs)


@dataclass(frozen=True, kw_only=True)
class Edge:
    """Where the files of the series end."""

    place: int  # the first one on the first-parent line that is not in them
    commits: int  # measured commits before it


def edge_of(found: Site) -> Edge:
    """Return where the files of a site's series end: before the newest commits, fewer than STEP."""
    places = [found.order[sha] for sha in found.measured if sha in found.order]
    commits = len(places) // STEP * STEP
    return Edge(place=places[commits - 1] + 1 if commits else 0, commits=commits)


def newest_name(key: SeriesKey) -> str:
    """Return the name of the file with the newest entries of a series."""
    return _newest_name(key.machine, key.environment, key.benchmark)


@cache
def _newest_name(machine: str, environment: str, benchmark: str) -> str:
    nobody = SeriesKey(
        machine=machine, environment=environment, benchmark=benchmark, implementation="", case="", version=""
    )
    return series_name(nobody).replace("series-", "newest-", 1)


def _older(found: Site, key: SeriesKey, entries: int, edge: Edge, texts: Texts) -> dict[str, Any]:
    return series(found.series(key).between(0, entries), edge.commits, texts)


def _newest(found: Site, own: Sequence[tuple[SeriesKey, int]], edge: Edge, texts: Texts) -> dict[str, Any]:
    every = ((key, found.series(key).between(entries)) for key, entries in own)
    parts = {series_name(key): part for key, part in every if len(part)}
    return {
        "format": FORMAT,
        "before": edge.commits,
        "series": dict(zip(parts, _each(tuple(parts.values()), texts), strict=True)),
    }


def commits(found: Site) -> dict[str, Any]:
    """Return the commits of the first-parent line that have a result, oldest first."""
    asked = _measured(found)
    return {
        "format": FORMAT,
        "branch": "HEAD",
        "commits": [_commit(found, sha, asked) for sha in found.measured if sha in found.order],
    }


def _measured(found: Site) -> list[Truth]:
    """Return, for each of the site's places, of which commits of the line it has more to say than n/a."""
    asked = {(place.machine, place.environment): np.zeros(len(found.line), dtype=np.bool_) for place in found.places}
    for key in found.keys:
        own = found.series(key)
        asked[key.machine, key.environment][own.place[own.outcome != _NOT_APPLICABLE]] = True
    return list(asked.values())


def _commit(found: Site, sha: str, asked: Sequence[Truth]) -> dict[str, Any]:
    commit = found.commits[sha]
    return {
        "sha": sha,
        "subject": commit.subject,
        "author": commit.author,
        "date": commit.date.isoformat(),
        "tags": list(found.tags.get(sha, ())),
        "places": [number for number, own in enumerate(asked) if own[found.order[sha]]],
        "page": text.commit_href(sha),
    }


def index(found: Site) -> dict[str, Any]:
    """Return where there are series, and which."""
    places = {(place.machine, place.environment): number for number, place in enumerate(found.places)}
    return {
        "format": FORMAT,
        "places": [
            {"machine": place.machine, "environment": place.environment, "anchor": place.anchor}
            for place in found.places
        ],
        "series": [_entry(found, key, places[key.machine, key.environment]) for key in found.keys],
    }


def _entry(found: Site, key: SeriesKey, place: int) -> dict[str, Any]:
    kernel, device, state = text.parts(key.benchmark)
    known = found.benchmarks.get(key.benchmark)
    return {
        "name": series_name(key),
        "newest": newest_name(key),
        "place": place,
        "benchmark": key.benchmark,
        "kernel": kernel,
        "device": device,
        "state": state,
        "implementation": key.implementation,
        "case": key.case,
        "version": key.version,
        "flop": None if known is None else known.flop.get(key.case),
        "operation": operation(key.dtype),
        "bytes": None if known is None else known.bytes_moved.get(key.case),
    }


class Texts:
    """Columns as JSON, made once for all series that have the same: most share their commits, outcomes and methods."""

    def __init__(self, line: Sequence[str]) -> None:
        """Take the first-parent line."""
        self._line = line
        self._made: dict[tuple[object, ...], orjson.Fragment] = {}

    def once(self, name: str, same: object, make: Callable[[], object]) -> orjson.Fragment:
        """Return a column, made by `make` unless one of this name was made from the `same` (None: never is)."""
        known = None if same is None else self._made.get((name, same))
        if known is None:
            if len(self._made) >= _MOST_KEPT:
                self._made.clear()
            known = self._made[name, same] = orjson.Fragment(json_bytes(make()))
        return known

    def commits(self, places: IntArray) -> list[str]:
        """Return the full SHAs of places on the line."""
        return [self._line[place] for place in places.tolist()]


def series(older: Columns, before: int, texts: Texts) -> dict[str, Any]:
    """Return the file of a series, as orjson takes it: its entries at the first commits (`before`) of the site."""
    key = older.key
    return {
        "format": FORMAT,
        "machine": key.machine,
        "environment": key.environment,
        "benchmark": key.benchmark,
        "implementation": key.implementation,
        "case": key.case,
        "version": key.version,
        "flop": older.flop,
        "operation": operation(key.dtype),
        "bytes": older.bytes_moved,
        "before": before,
        "newest": newest_name(key),
        **columns(older, {name: significant(getattr(older, name)) for name in TIMES}, texts),
    }


def _each(parts: Sequence[Columns], texts: Texts) -> Iterator[dict[str, Any]]:
    """Yield `columns` of several series; their times are rounded together, as a call for 50 of them costs most."""
    ends = np.cumsum([len(part) for part in parts])[:-1]
    rounded = {
        name: np.split(significant(np.concatenate([getattr(part, name) for part in parts])), ends)
        for name in (TIMES if parts else ())
    }
    for index, part in enumerate(parts):
        yield columns(part, {name: values[index] for name, values in rounded.items()}, texts)


def columns(own: Columns, times: Mapping[str, FloatArray], texts: Texts) -> dict[str, Any]:
    """Return entries as columns, as orjson takes them; `times` are theirs, rounded."""
    methods = (*own.methods, None)  # -1, unknown, is the last
    place, outcome, rounds, method = own.place, own.outcome, own.rounds, own.method
    return {
        "commit": texts.once("commit", place.tobytes(), lambda: texts.commits(place)),
        "outcome": texts.once("outcome", outcome.tobytes(), lambda: [_OUTCOMES[one] for one in outcome.tolist()]),
        **times,
        "rounds": texts.once("rounds", rounds.tobytes(), lambda: [_count(one) for one in rounds.tolist()]),
        "method": texts.once("method", (methods, method.tobytes()), lambda: [methods[one] for one in method.tolist()]),
        "remarks": texts.once("remarks", own.remarks, lambda: _remarks(own)),
    }


def _remarks(own: Columns) -> dict[str, tuple[str, ...]]:
    found = dict(own.warnings.items())
    for entry, reason in own.reasons.items():
        found[entry] = (reason, *found.get(entry, ()))
    return {str(entry): found[entry] for entry in sorted(found)}


def _count(count: int) -> int | None:
    return None if count < 0 else count


def significant(values: FloatArray) -> FloatArray:
    """Return positive values rounded to DIGITS digits; what is not finite stays as it is (orjson makes it null).

    An integer divided by a power of ten, both exact, is the double nearest to that decimal, and so is written with
    these digits and no more.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = DIGITS - 1 - np.floor(np.log10(values))
    known = (exponent >= 0) & (exponent < len(_POWERS))  # False for NaN
    scale = _POWERS[np.where(known, exponent, 0).astype(np.intp)]
    return np.where(known, np.round(values * scale) / scale, values)
