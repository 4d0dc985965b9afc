"""Files of real series that detectors are scored on: plain ones, and ones that people annotated. JSON, gzipped or not.

An object: name -> list of values (None for a missing one), or name -> {"values": list, "annotations": {annotator ->
list of indices of the first point of a new level}}. Values are times or rates: positive; others count as missing.

The noise that detectors of change points are judged on: synthetic families, and real series resampled. Pure, seeded.

Every family draws the log values of a benchmark that never changes. The synthetic ones scatter by about 1%, as sessions
of one machine do after adjustment; their names say what is unlike the normal one.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernel_velocity.errors import ResultsError
from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats.changepoints.noise import running_median

GZIP = b"\x1f\x8b"
SHOWN = 60  # characters of what was found instead

SIGMA = 0.01
AROUND = 5  # points to both sides: the running median over them is taken for the level of a real series
BLOCK = 5  # points that are resampled together, so that what sticks for some commits still does
FEWEST_REAL = 30  # points of a real series that is worth resampling
DRIFT = 0.03 / 60  # log units a commit, of the series whose level creeps

Generator = np.random.Generator
Family = Callable[[Generator, int], FloatArray]


@dataclass(frozen=True, kw_only=True)
class RealSeries:
    """One series of a file."""

    name: str
    logs: tuple[float | None, ...]  # log values, oldest first
    annotations: tuple[frozenset[int], ...] | None  # by annotator; None: nobody looked at it

    @property
    def known(self) -> FloatArray:
        """Return the log values that are there."""
        return np.array([value for value in self.logs if value is not None], dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class RealSet:
    """The series of one file."""

    name: str  # of the file, without its endings
    series: tuple[RealSeries, ...]

    @property
    def annotated(self) -> tuple[RealSeries, ...]:
        """Return the series that people looked at."""
        return tuple(each for each in self.series if each.annotations is not None)


def read(paths: Iterable[Path]) -> tuple[RealSet, ...]:
    """Read files of series.

    Raises:
        ResultsError: a file cannot be read, or is not what this module describes; says where.
    """
    return tuple(_read(path) for path in paths)


def _read(path: Path) -> RealSet:
    try:
        content = path.read_bytes()
        document = json.loads(gzip.decompress(content) if content.startswith(GZIP) else content)
    except (OSError, EOFError, ValueError, zlib.error, RecursionError) as error:
        raise ResultsError(f"{path}: no file of series ({error}); wanted JSON, gzipped or not") from None
    if not isinstance(document, dict) or not document:
        raise ResultsError(f"{path}: wanted an object of series by name, got {_shown(document)}")
    series = tuple(_series(f"{path}: {name}", name, found) for name, found in document.items())
    return RealSet(name=path.name.split(".")[0], series=series)


def _series(where: str, name: str, found: Any) -> RealSeries:
    if isinstance(found, list):
        return RealSeries(name=name, logs=_logs(where, found), annotations=None)
    if not isinstance(found, dict) or not isinstance(found.get("values"), list):
        raise ResultsError(f"{where}: wanted a list of values, or an object with `values`, got {_shown(found)}")
    logs = _logs(where, found["values"])
    annotations = found.get("annotations")
    if annotations is None:
        return RealSeries(name=name, logs=logs, annotations=None)
    return RealSeries(name=name, logs=logs, annotations=_annotations(where, annotations, len(logs)))


def _logs(where: str, values: Sequence[Any]) -> tuple[float | None, ...]:
    if not values:
        raise ResultsError(f"{where}: no values")
    for index, value in enumerate(values):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise ResultsError(f"{where}: value {index} is {_shown(value)}; wanted a number or null")
    # An integer may be too long for a float: Python's own logarithm takes it nevertheless.
    return tuple(math.log(value) if value is not None and 0 < value < math.inf else None for value in values)


def _annotations(where: str, found: Any, size: int) -> tuple[frozenset[int], ...]:
    if not isinstance(found, Mapping) or not found:
        raise ResultsError(f"{where}: annotations: wanted an object of lists by annotator, got {_shown(found)}")
    for annotator, places in found.items():
        if not isinstance(places, list) or not all(type(each) is int and 0 <= each < size for each in places):
            raise ResultsError(
                f"{where}: annotations of {annotator}: wanted a list of indices from 0 to {size - 1}, "
                f"got {_shown(places)}"
            )
    return tuple(frozenset(places) for places in found.values())


def _shown(found: Any) -> str:
    text = repr(found)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def normal(rng: Generator, size: int) -> FloatArray:
    """Draw independent normal noise."""
    return SIGMA * rng.standard_normal(size)


def heavy(rng: Generator, size: int) -> FloatArray:
    """Draw Student's t with 3 degrees of freedom and, at one commit of 20, a Pareto part upwards: a shared CPU."""
    upwards = 0.02 * rng.pareto(1.5, size) * (rng.random(size) < 0.05)
    return np.asarray(SIGMA * rng.standard_t(3, size) / math.sqrt(3) + np.log1p(upwards))


def correlated(rng: Generator, size: int) -> FloatArray:
    """Draw AR(1) noise whose neighbours correlate by .6: sessions that share the state of the machine."""
    phi = 0.6
    noise = rng.standard_normal(size)
    noise[1:] *= math.sqrt(1 - phi**2)
    for place in range(1, size):
        noise[place] += phi * noise[place - 1]
    return np.asarray(SIGMA * noise)


def bimodal(rng: Generator, size: int) -> FloatArray:
    """Draw two speeds 2.4% apart, each kept for 3 commits in the mean, and a jitter of .3%."""
    switches = rng.random(size) < 1 / 3
    mode = (np.cumsum(switches) + rng.integers(2)) % 2
    return np.asarray(0.024 * mode + 0.003 * rng.standard_normal(size))


def quantised(rng: Generator, size: int) -> FloatArray:
    """Draw normal noise read by a timer whose tick is 2% of the value: most values repeat."""
    return np.asarray(np.log(np.round(np.exp(normal(rng, size)) / 0.02 + rng.random()) * 0.02))


def spikes(rng: Generator, size: int) -> FloatArray:
    """Draw normal noise and, at one commit of 20, a spike of 20% in the mean."""
    return np.asarray(normal(rng, size) + np.log1p(rng.exponential(0.2, size)) * (rng.random(size) < 0.05))


def bursts(rng: Generator, size: int) -> FloatArray:
    """Draw normal noise; every 50 commits in the mean a neighbour slows two successive ones by 5%."""
    starts = rng.random(size) < 1 / 50
    slowed = starts | np.concatenate([[False], starts[:-1]])
    return np.asarray(normal(rng, size) + 0.05 * slowed)


SYNTHETIC: Mapping[str, Family] = {
    "normal": normal,
    "heavy tails": heavy,
    "AR(1)": correlated,
    "bimodal": bimodal,
    "quantised": quantised,
    "spikes": spikes,
    "bursts": bursts,
}


def drifting(rng: Generator, size: int) -> FloatArray:
    """Draw normal noise on a level that creeps upwards by DRIFT a commit: no step, but a change nevertheless."""
    return np.asarray(normal(rng, size) + DRIFT * np.arange(size))


@dataclass(frozen=True)
class Resampled:
    """The noise of real series: blocks of one's residuals, drawn with replacement."""

    residuals: tuple[FloatArray, ...]

    def __call__(self, rng: Generator, size: int) -> FloatArray:
        """Draw a series."""
        source = self.residuals[rng.integers(len(self.residuals))]
        starts = rng.integers(0, source.size - BLOCK + 1, size=-(-size // BLOCK))
        return np.concatenate([source[start : start + BLOCK] for start in starts])[:size]


def resampled(series: Sequence[FloatArray]) -> Resampled | None:
    """Return the noise of real series of log values; None where none of them is usable.

    Short ones are left out, and those most of whose values repeat the one before: counters, not times. What differs
    from a running median of 11 points keeps tails, ticks and what sticks for a few commits; a level that wanders more
    slowly is not in it.
    """
    usable = [logs for logs in series if logs.size >= FEWEST_REAL and np.median(np.abs(np.diff(logs))) > 0]
    return Resampled(tuple(logs - running_median(logs, AROUND) for logs in usable)) if usable else None
