"""The trends as data files: the commits, an index of the series, and each series in two files.

- `data/commits`: the commits of the first-parent line that have a result, oldest first, and where they were measured.
- `data/series-index`: machines with their environments, and every series with a trend, by the name of its file.
- `data/series-index`'s series of another suite have `unit`, of their values in place of the times, and `page`.
- `data/series-<16 hex>`: a series as columns, one entry per commit that has a result of it, oldest first, without the
  newest commits: `newest` names the file that continues it.
- `data/newest-<16 hex>`: the newest entries, in the same columns, of all series of a benchmark at a platform, and the
  `levels` of these series.

So one more commit writes a file for each benchmark, not for each series. A series' own file is written again when STEP
more commits were measured, and when its adjusted times are fitted anew (at every eighth more of history). `before`
says in both files how many of `data/commits` the series' own file covers.

The columns are written for few bytes:

- `commit` is pairs of the number of a commit in `data/commits` and how many follow one another. `last` is the number of
  the last of them and the beginning of its hash: with another `data/commits` the numbers mean nothing.
- `outcome`, `rounds`, `method` and `remarks` are pairs of a value and how many entries have it.
- `seconds` is whole numbers: divided by `per` they are s per call. `low` and `high` are how far the ends of the
  interval are below and above. `adjusted` is how far the adjusted time is above `seconds`, `adjusted_low` and
  `adjusted_high` how far its interval's ends are below and above it. A column that is unknown throughout is left out.

The levels of a series are what verdicts follow from (verdict/verdicts.py): `steps` between them, oldest first, each
with its entry, its ratio of times (new / old), the ends of its interval, and whether a commit can have caused it. A
step from 0 or to 0 has null in their place. All steps of its series have both their levels behind them. `causes` has
for each step the measured commits before and after it, and those that can have caused it, oldest first. `doubt` is the
entry of a newest step that may be chance. `within` has for each level the least changes that would have been seen, with
1, 2, ... values on the shorter side. `visits` are entries whose value is further off, each with the least change that
its commit alone cannot have. `better` says which values are the better ones, "higher" or "neither". A series of one
undisturbed level has no `steps` and `causes`, without a doubt no `doubt`, and where lower values are better, no
`better`.

Unknown is null. FLOP and bytes are per call.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from kernel_velocity.direction import Better
from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.names import operation
from kernel_velocity.past.columns import TIMES, Columns
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.measurement import OUTCOMES, IntArray, Outcome, SeriesKey
from kernel_velocity.results.records import name_parts
from kernel_velocity.site import text
from kernel_velocity.site.model import Site
from kernel_velocity.site.writer import DataFile, json_bytes, series_name
from kernel_velocity.stats.changepoints.values import ChangePoint
from kernel_velocity.verdict.verdicts import Levels

FORMAT = 3  # of these files; raised when a reader of the old ones would go wrong
DIGITS = 6  # of a time, the shortest of a series: no series repeats to one part in 100,000, and pages show three
_MOST_COLUMNS = 64  # encoded columns held at a time; of 10,000 commits each can have a MB
_OUTCOMES = tuple(outcome.value for outcome in OUTCOMES)
_NOT_APPLICABLE = OUTCOMES.index(Outcome.NOT_APPLICABLE)
_MOST = 2**53  # a whole number that JSON's readers hold exactly
_UNKNOWN = -_MOST  # in a column of whole numbers
_POWERS = np.array([float(f"1e{exponent}") for exponent in range(23)])  # of ten; a double holds each of them exactly


def build(site: Site) -> Iterator[DataFile]:
    """Yield the data files. That of a series is made only if the series changed."""
    yield DataFile(name="commits", value=commits(site))
    yield DataFile(name="series-index", value=index(site))
    encoder, before = Encoder(site), site.edge.commits
    newest: dict[str, list[SeriesKey]] = {}
    for key in site.keys:
        newest.setdefault(newest_name(key), []).append(key)
        inputs = f"{before} {site.digest(key, site.older(key))}"
        yield DataFile(name=series_name(key), value=partial(series, site, key, encoder), inputs=inputs)
    for name, keys in newest.items():
        levels = {series_name(key): levels_of(site.levels[key]) for key in keys}
        value = partial(_newest, site, keys, encoder, levels)
        yield DataFile(name=name, value=value, inputs=repr((before, [*map(site.digest, keys)], levels)))


@cache
def newest_name(key: SeriesKey) -> str:
    """Return the name of the file with the newest entries of a series."""
    benchmark = replace(key, implementation="", case="", version="")
    return series_name(benchmark).replace("series-", "newest-", 1)


def _newest(
    site: Site, keys: Sequence[SeriesKey], encoder: Encoder, levels: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    columns = {series_name(key): site.series(key).between(site.older(key)) for key in keys}
    series = {name: encoder.columns(part) for name, part in columns.items() if len(part)}
    return {"format": FORMAT, "before": site.edge.commits, "series": series, "levels": levels}


def levels_of(levels: Levels) -> dict[str, Any]:
    """Return the levels of a series as data, to four digits."""
    causes = [[commits.good, commits.bad, commits.commits] for commits in levels.ranges]
    has_zero = any(point.has_zero for point in levels.points)
    ends = [[[_value(point.before), _value(point.after)]] if has_zero else [] for point in levels.points]
    steps = [[*_step(point), *both] for point, both in zip(levels.points, ends, strict=True)]
    return {
        **({"steps": steps, "causes": causes} if steps else {}),
        **({} if levels.doubt is None else {"doubt": levels.doubt.index}),
        **({} if levels.better is Better.LOWER else {"better": levels.better}),
        **({"visits": [[entry, _shortened(most)] for entry, most in levels.visits.items()]} if levels.visits else {}),
        "within": [[*map(_shortened, sizes)] for sizes in levels.within],
    }


def _shortened(share: float) -> float:
    return float(f"{share:.3g}")


def _step(point: ChangePoint) -> list[object]:
    """Return a step. One from 0 or to 0 has no ratio."""
    ratios = [None] * 3 if point.has_zero else [float(f"{of:.4g}") for of in (point.ratio, point.low, point.high)]
    return [point.index, *ratios, point.is_blamed]


def _value(level: float) -> float:
    return float(f"{math.exp(level):.{DIGITS}g}")


def commits(site: Site) -> dict[str, Any]:
    """Return the commits of the first-parent line that have a result, oldest first."""
    # For each of the site's platforms, which commits of the line have more than n/a
    has_value = {
        (platform.machine, platform.environment): np.zeros(len(site.line), np.bool_) for platform in site.platforms
    }
    for key in site.keys:
        columns = site.series(key)
        has_value[key.machine, key.environment][columns.position[columns.outcome != _NOT_APPLICABLE]] = True
    listed = [
        {
            "sha": sha,
            "subject": commit.subject,
            "author": commit.author,
            "date": commit.date.isoformat(),
            "tags": list(site.tags.get(sha, ())),
            "places": [number for number, at in enumerate(has_value.values()) if at[site.order[sha]]],
            "page": text.commit_href(commit),
        }
        for sha in site.along
        for commit in [site.commits[sha]]
    ]
    return {"format": FORMAT, "branch": "HEAD", "commits": listed}


def index(site: Site) -> dict[str, Any]:
    """Return the platforms and the series with the names of their files."""
    platforms = [
        {"machine": platform.machine, "environment": platform.environment, "anchor": platform.anchor}
        for platform in site.platforms
    ]
    numbers = {(platform.machine, platform.environment): number for number, platform in enumerate(site.platforms)}
    series = [_entry(site, key, numbers[key.machine, key.environment]) for key in site.keys]
    return {"format": FORMAT, "places": platforms, "series": series}


def _entry(site: Site, key: SeriesKey, platform: int) -> dict[str, Any]:
    kernel, device, state = name_parts(key.benchmark)
    benchmark = site.past.benchmarks.get(key.benchmark)
    return {
        "name": series_name(key),
        "newest": newest_name(key),
        "place": platform,
        "benchmark": key.benchmark,
        "kernel": kernel,
        "device": device,
        "state": state,
        "implementation": key.implementation,
        "case": key.case,
        "version": key.version,
        "flop": None if benchmark is None else benchmark.flop.get(key.case),
        "operation": operation(key.dtype),
        "bytes": None if benchmark is None else benchmark.bytes_moved.get(key.case),
        **({} if device else {"unit": site.series(key).unit, "page": f"{text.kernel_page(kernel, device)}.html"}),
    }


def series(site: Site, key: SeriesKey, encoder: Encoder) -> dict[str, Any]:
    """Return the file of a series: its entries before the site's edge."""
    columns = site.series(key).between(0, site.older(key))
    return {
        "format": FORMAT,
        "machine": key.machine,
        "environment": key.environment,
        "benchmark": key.benchmark,
        "implementation": key.implementation,
        "case": key.case,
        "version": key.version,
        "flop": columns.flop,
        "operation": operation(key.dtype),
        "bytes": columns.bytes_moved,
        **({} if name_parts(key.benchmark).device else {"unit": columns.unit}),
        "before": site.edge.commits,
        "newest": newest_name(key),
        **encoder.columns(columns),
    }


class Encoder:
    """Turns columns into JSON. Most series share their commits, outcomes and methods: those are encoded once."""

    def __init__(self, site: Site) -> None:
        """Take the site whose commits are numbered."""
        self._commits = site.along
        self._numbers = np.full(len(site.line), -1)
        self._numbers[[site.order[sha] for sha in self._commits]] = np.arange(len(self._commits))
        self._encoded: dict[tuple[object, ...], orjson.Fragment] = {}

    def columns(self, part: Columns) -> dict[str, Any]:
        """Return the columns of a series, as orjson takes them."""
        numbers, methods = self._numbers[part.position], (*part.methods, None)  # -1, unknown, is the last
        outcome, rounds, method = part.outcome, part.rounds, part.method
        columns = {
            "commit": (numbers.tobytes(), lambda: commit_runs(numbers)),
            "outcome": (outcome.tobytes(), lambda: _runs(outcome, lambda at: _OUTCOMES[outcome[at]])),
            "rounds": (
                rounds.tobytes(),
                lambda: _runs(rounds, lambda at: int(rounds[at]) if rounds[at] >= 0 else None),
            ),
            "method": ((methods, method.tobytes()), lambda: _runs(method, lambda at: methods[method[at]])),
            "remarks": (None if part.remarks is None else part.remarks.tobytes(), lambda: _remarks(part)),
        }
        return {
            "last": last_commit(numbers, self._commits),
            **{name: self._once(name, *column) for name, column in columns.items()},
            **_times(part),
        }

    def _once(self, name: str, same: object, make: Callable[[], object]) -> orjson.Fragment:
        """Return a column, made by `make` unless one of this name and of the `same` was made (None: never was)."""
        encoded = None if same is None else self._encoded.get((name, same))
        if encoded is None:
            if len(self._encoded) >= _MOST_COLUMNS:
                self._encoded.clear()
            encoded = self._encoded[name, same] = orjson.Fragment(json_bytes(make()))
        return encoded


def commit_runs(numbers: IntArray) -> list[tuple[object, int]]:
    """Return the column `commit` of ascending numbers of commits."""
    following = numbers - np.arange(len(numbers))  # the same along commits that follow one another
    return _runs(following, lambda at: int(numbers[at]))


def last_commit(numbers: IntArray, commits: Sequence[str]) -> tuple[int, str] | None:
    """Return `last` of the numbers of some commits. None: there is none."""
    return (int(numbers[-1]), commits[numbers[-1]][:SHORT]) if len(numbers) else None


def _runs(numbers: NDArray[np.signedinteger[Any]], value: Callable[[int], object]) -> list[tuple[object, int]]:
    """Return (value, how many entries) of each run of equal numbers. `value` takes the run's first entry."""
    edges = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1, append=numbers[-1:] - 1)).tolist()
    return [(value(first), stop - first) for first, stop in itertools.pairwise(edges)]


def _remarks(columns: Columns) -> list[tuple[tuple[str, ...] | None, int]]:
    remarks = dict(columns.warnings.items())
    for entry, reason in columns.reasons.items():
        remarks[entry] = (reason, *remarks.get(entry, ()))
    runs = itertools.groupby(map(remarks.get, range(len(columns))))
    return [(texts, len([*run])) for texts, run in runs]


def _times(columns: Columns) -> dict[str, Any]:
    """Return the columns of times, and what divides their numbers."""
    shortest = float(np.fmin.reduce(columns.seconds, initial=np.inf))
    scale = 10.0 ** (DIGITS - 1 - math.floor(math.log10(shortest))) if 0 < shortest < math.inf else 0.0
    longest = max(float(np.fmax.reduce(np.abs(getattr(columns, name)), initial=0)) for name in TIMES)
    # Values of another suite may be 0, negative, or far apart: they are written as they are
    is_whole = 1 <= scale < math.inf and longest * scale < _MOST
    per = scale if is_whole else 1
    values = {name: np.rint(getattr(columns, name) * per) if is_whole else getattr(columns, name) for name in TIMES}
    distances = {
        "seconds": values["seconds"],
        "low": values["seconds"] - values["low"],
        "high": values["high"] - values["seconds"],
        "adjusted": values["adjusted"] - values["seconds"],
        "adjusted_low": values["adjusted"] - values["adjusted_low"],
        "adjusted_high": values["adjusted_high"] - values["adjusted"],
    }
    present = {name: column for name, column in distances.items() if not np.isnan(column).all()}
    return {"per": per, **{name: whole_numbers(column) if is_whole else column for name, column in present.items()}}


def whole_numbers(values: FloatArray) -> orjson.Fragment:
    """Return whole numbers as JSON, NaN as null."""
    numbers = np.where(np.isnan(values), _UNKNOWN, values).astype(np.int64)
    return orjson.Fragment(orjson.dumps(numbers, option=orjson.OPT_SERIALIZE_NUMPY).replace(b"%d" % _UNKNOWN, b"null"))


def significant(values: FloatArray) -> FloatArray:
    """Return positive values rounded to DIGITS digits. What is not finite stays as it is (orjson makes it null).

    An integer divided by a power of ten, both exact, is the double nearest to that decimal, so it is written with
    these digits and no more.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = DIGITS - 1 - np.floor(np.log10(values))
    is_known = (exponent >= 0) & (exponent < len(_POWERS))  # False for NaN
    scale = _POWERS[np.where(is_known, exponent, 0).astype(np.intp)]
    return np.where(is_known, np.round(values * scale) / scale, values)
