"""Find the change points of series, and store them in the cache for the next report.

Many series are looked at together, which is faster (stats/changepoints/search.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson
import scipy
from scipy import special

from kernel_velocity import forking, progress
from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.past import cache
from kernel_velocity.past.cache import Answers
from kernel_velocity.past.columns import Columns
from kernel_velocity.results.measurement import IntArray, SeriesKey
from kernel_velocity.stats.changepoints import search
from kernel_velocity.stats.changepoints.search import Detected
from kernel_velocity.stats.changepoints.values import INTERVAL, ChangePoint

SERIES_AT_ONCE = 512  # at most: 20 MB of arrays, where there are 500 values of each


class Settled(NamedTuple):
    """What the detector sees in a series. Indices are entries."""

    points: tuple[ChangePoint, ...]
    cuts: tuple[int, ...] = ()  # where levels begin at the least cost: steps of any age may be there


class Logs(NamedTuple):
    """The input of change-point detection for a series. Both arrays have shape (commits,)."""

    values: FloatArray  # `Columns.logs`
    method: IntArray  # index of the timing method


def logs(columns: Columns) -> Logs:
    """Return the input of change-point detection for a series.

    Values of two timing methods are two series, without a step between them.
    """
    return Logs(values=columns.logs, method=columns.method)


def errors(columns: Columns) -> FloatArray:
    """Return the standard errors that their rounds leave to the log times of a series. NaN: unknown."""
    is_adjusted = ~np.isnan(columns.adjusted_low)
    low = np.where(is_adjusted, columns.adjusted_low, columns.low)
    high = np.where(is_adjusted, columns.adjusted_high, columns.high)
    is_usable = (columns.rounds > 1) & (low > 0) & np.isfinite(high)
    result = np.full(low.size, np.nan)
    if is_usable.any():
        quantiles = _quantiles(int(columns.rounds.max()))[columns.rounds[is_usable]]
        result[is_usable] = np.log(high[is_usable] / low[is_usable]) / 2 / quantiles
    return result


@functools.cache
def _quantiles(most: int) -> FloatArray:
    """Return the quantile of Student's t of an interval from 0, 1, ... `most` rounds. NaN where there is none."""
    return np.asarray(special.stdtrit(np.arange(most + 1) - 1.0, INTERVAL))


def by_method(series: Logs) -> dict[int, FloatArray]:
    """Return the values of each timing method, NaN where there is one of another method."""
    values, method = series
    used = method[~np.isnan(values)]
    if used.size and (used == used[0]).all():
        return {int(used[0]): values}
    return {number: np.where(method == number, values, np.nan) for number in np.unique(used).tolist()}


def joined(parts: Sequence[Detected]) -> Settled:
    """Return what the detector sees of all timing methods together."""
    points = (point for part in parts for point in part.points)
    cuts = (cut for part in parts for cut in part.cuts)
    return Settled(tuple(sorted(points, key=lambda point: point.index)), tuple(sorted(cuts)))


def of_all(
    keys: Sequence[SeriesKey], columns: Callable[[SeriesKey], Columns], folder: Path | None = None
) -> Mapping[SeriesKey, Settled]:
    """Return the change points of series. Only series that changed since the last call are looked at.

    Args:
        keys: of all series of a past. columns: returns the columns of one.
        folder: of the cache, which afterwards has these series alone. None: nothing is stored.
    """
    maker = f"{cache.code('engine', 'stats', 'verdict')} {np.__version__} {scipy.__version__}"
    answers = Answers(folder, maker)
    result, new = dict[SeriesKey, Settled](), dict[str, bytes]()
    for points, newer in forking.in_halves(lambda some: _of_some(some, columns, answers), keys):
        result |= points
        new |= newer
    if new:
        stems = {_stem(key) for key in keys}
        answers.put(new, keep=lambda name: name[: name.index(_END) + len(_END)] in stems)
    return result


def _of_some(
    keys: Sequence[SeriesKey], columns: Callable[[SeriesKey], Columns], answers: Answers
) -> tuple[dict[SeriesKey, Settled], dict[str, bytes]]:
    """Return the change points of series, and the answers that are new."""
    new: dict[str, bytes] = {}
    result: dict[SeriesKey, Settled] = {}
    for start in progress.counted("looking for changes", range(0, len(keys), SERIES_AT_ONCE)):
        some = keys[start : start + SERIES_AT_ONCE]
        series = [columns(key) for key in some]
        parts = [by_method(logs(entries)) for entries in series]
        names = [
            f"{_stem(key)}{None if method < 0 else entries.methods[method]!r}"
            for key, entries, part in zip(some, series, parts, strict=True)
            for method in part
        ]
        stored = answers.get(names)
        before = [_unpacked(stored[name]) if name in stored else None for name in names]
        detected = search.detect_many([values for part in parts for values in part.values()], before)
        new |= {
            name: orjson.dumps(now) for name, now, then in zip(names, detected, before, strict=True) if now is not then
        }
        answers_of = iter(detected)
        result |= {key: joined([next(answers_of) for _ in part]) for key, part in zip(some, parts, strict=True)}
    return result, new


_END = "\n"


def _stem(key: SeriesKey) -> str:
    """Return what the keys of a series' answers begin with."""
    return f"{key!r}{_END}"


def _unpacked(record: bytes) -> Detected:
    """Return what `orjson.dumps` was given. JSON keeps every float exactly."""
    document = orjson.loads(record)
    for name in ("settled", "points"):
        points = (ChangePoint(**{**point, "warnings": tuple(point["warnings"])}) for point in document[name])
        document[name] = tuple(points)
    for name in ("settled_cuts", "cuts"):
        document[name] = tuple(document[name])
    return Detected(**document)
