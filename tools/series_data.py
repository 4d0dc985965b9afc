"""The data of the trends as files, for the pages and for other tools: the commits, a list of the series, each series.

- `data/commits`: the commits of the first-parent line that have a result, oldest first, and where they were measured;
- `data/series-index`: the machines with their environments, and every series with a trend, by the name of its file;
- `data/series-<16 hex>`: a series as columns, one entry for each commit that has a result of it, oldest first.

Unknown is null. Times are in seconds per call, to `DIGITS` digits; FLOP and bytes are per call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import orjson

from benchmarks.harness.statistics import FloatArray
from tools import pages
from tools.changes_along import Truth
from tools.columns import OUTCOMES, Columns, IntArray
from tools.measurements import Outcome, SeriesKey
from tools.site import Site
from tools.site_files import DataFile, series_name
from tools.site_writing import json_bytes

FORMAT = 1  # of these files; it changes when a reader of the old ones would go wrong
DIGITS = 7  # of a time: no series repeats to one part in a million; all 17 would double the files
_NOT_APPLICABLE = OUTCOMES.index(Outcome.NOT_APPLICABLE)
_OUTCOMES = tuple(outcome.value for outcome in OUTCOMES)
_MOST_KEPT = 64  # columns kept as JSON; of 10,000 commits each can have a MB
TIMES = ("seconds", "low", "high", "adjusted", "adjusted_low", "adjusted_high")
_POWERS = np.array([float(f"1e{exponent}") for exponent in range(23)])  # of ten; a double holds each of them exactly


def build(found: Site) -> Iterator[DataFile]:
    """Yield the data files of a site; that of a series is made only when the series changed."""
    yield DataFile(name="commits", value=commits(found))
    yield DataFile(name="series-index", value=index(found))
    texts = Texts(found.line)
    for key in found.keys:
        yield DataFile(name=series_name(key), value=partial(_read, found, key, texts), inputs=found.digest(key))


def _read(found: Site, key: SeriesKey, texts: Texts) -> dict[str, Any]:
    return series(found.series(key), texts)


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
        columns = found.series(key)
        asked[key.machine, key.environment][columns.place[columns.outcome != _NOT_APPLICABLE]] = True
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
        "page": pages.commit_href(sha),
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
    kernel, device, state = pages.parts(key.benchmark)
    known = found.benchmarks.get(key.benchmark)
    return {
        "name": series_name(key),
        "place": place,
        "benchmark": key.benchmark,
        "kernel": kernel,
        "device": device,
        "state": state,
        "implementation": key.implementation,
        "case": key.case,
        "version": key.version,
        "flop": None if known is None else known.flop.get(key.case),
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


def series(columns: Columns, texts: Texts) -> dict[str, Any]:
    """Return a series, as orjson takes it."""
    key, methods = columns.key, (*columns.methods, None)  # -1, unknown, is the last
    place, outcome, rounds, method = columns.place, columns.outcome, columns.rounds, columns.method
    return {
        "format": FORMAT,
        "machine": key.machine,
        "environment": key.environment,
        "benchmark": key.benchmark,
        "implementation": key.implementation,
        "case": key.case,
        "version": key.version,
        "flop": columns.flop,
        "bytes": columns.bytes_moved,
        "commit": texts.once("commit", place.tobytes(), lambda: texts.commits(place)),
        "outcome": texts.once("outcome", outcome.tobytes(), lambda: [_OUTCOMES[one] for one in outcome.tolist()]),
        **{name: significant(getattr(columns, name)) for name in TIMES},
        "rounds": texts.once("rounds", rounds.tobytes(), lambda: [_count(one) for one in rounds.tolist()]),
        "method": texts.once("method", (methods, method.tobytes()), lambda: [methods[one] for one in method.tolist()]),
        "remarks": texts.once("remarks", columns.remarks, lambda: _remarks(columns)),
    }


def _remarks(columns: Columns) -> dict[str, tuple[str, ...]]:
    found = dict(columns.warnings.items())
    for entry, reason in columns.reasons.items():
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
