"""The histories that detectors of change points are scored on: synthetic noise, and files of real series.

A file is a JSON object, gzipped or not: name -> list of values (None for a missing one), or name -> {"values": list,
"annotations": {annotator -> list of indices of the first point of a new level}}. Values are times or rates: positive.
Others count as missing.

A family of noise draws the log values of a benchmark that never changes. The synthetic ones scatter by about 1%, as
sessions of one machine do after adjustment. Their names say how they differ from the normal one. Seeded.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kernel_velocity.errors import ResultsError
from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats.changepoints.noise import running_median

GZIP = b"\x1f\x8b"
SHOWN = 60  # characters of a wrong value in a message

SIGMA = 0.01
AROUND = 5  # points to both sides: the running median over them is taken for the level of a real series
BLOCK = 5  # points that are resampled together, so that a state that lasts for some commits still does
FEWEST_REAL = 30  # points of a real series that is worth resampling
CREEP = 0.03 / 60  # log units a commit, of the series whose level creeps

Generator = np.random.Generator
Family = Callable[[Generator, int], FloatArray]


class RealSeries(NamedTuple):
    """One series of a file."""

    name: str
    logs: tuple[float | None, ...]  # oldest first
    annotations: tuple[frozenset[int], ...] | None  # by annotator; None: nobody looked at it


def read(paths: Iterable[Path]) -> dict[str, tuple[RealSeries, ...]]:
    """Return the series of files, by the file's name without its endings.

    Raises:
        ResultsError: a file cannot be read, two have one name, or one has another format. Says where.
    """
    sets: dict[str, tuple[RealSeries, ...]] = {}
    for path in paths:
        if (name := path.name.split(".")[0]) in sets:
            raise ResultsError(f"two files named {name}: their rows could not be told apart")
        sets[name] = _read(path)
    return sets


def _read(path: Path) -> tuple[RealSeries, ...]:
    try:
        content = path.read_bytes()
        document = json.loads(gzip.decompress(content) if content.startswith(GZIP) else content)
    except (OSError, EOFError, ValueError, zlib.error, RecursionError) as error:
        raise ResultsError(f"{path}: no file of series ({error}); wanted JSON, gzipped or not") from None
    if not isinstance(document, dict) or not document:
        raise ResultsError(f"{path}: wanted an object of series by name, got {_shown(document)}")
    return tuple(_series(f"{path}: {name}", name, value) for name, value in document.items())


def _series(where: str, name: str, value: Any) -> RealSeries:
    document = {"values": value} if isinstance(value, list) else value
    if not isinstance(document, dict) or not isinstance(values := document.get("values"), list):
        raise ResultsError(f"{where}: wanted a list of values, or an object with `values`, got {_shown(value)}")
    if not values:
        raise ResultsError(f"{where}: no values")
    for index, entry in enumerate(values):
        if entry is not None and (isinstance(entry, bool) or not isinstance(entry, int | float)):
            raise ResultsError(f"{where}: value {index} is {_shown(entry)}; wanted a number or null")
    # An integer may be too long for a float: Python's own logarithm takes it nevertheless
    logs = tuple(math.log(entry) if entry is not None and 0 < entry < math.inf else None for entry in values)
    annotations = document.get("annotations")
    return RealSeries(name, logs, None if annotations is None else _annotations(where, annotations, len(logs)))


def _annotations(where: str, value: Any, size: int) -> tuple[frozenset[int], ...]:
    if not isinstance(value, Mapping) or not value:
        raise ResultsError(f"{where}: annotations: wanted an object of lists by annotator, got {_shown(value)}")
    for annotator, indices in value.items():
        if not isinstance(indices, list) or not all(type(index) is int and 0 <= index < size for index in indices):
            wanted = f"wanted a list of indices from 0 to {size - 1}, got {_shown(indices)}"
            raise ResultsError(f"{where}: annotations of {annotator}: {wanted}")
    return tuple(frozenset(indices) for indices in value.values())


def _shown(value: Any) -> str:
    text = repr(value)
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
    """Draw two speeds 2.4% apart, each for 3 commits on average, and a jitter of .3%."""
    switches = rng.random(size) < 1 / 3
    mode = (np.cumsum(switches) + rng.integers(2)) % 2
    return np.asarray(0.024 * mode + 0.003 * rng.standard_normal(size))


def quantised(rng: Generator, size: int) -> FloatArray:
    """Draw normal noise read by a timer whose tick is 2% of the value: most values repeat."""
    return np.asarray(np.log(np.round(np.exp(normal(rng, size)) / 0.02 + rng.random()) * 0.02))


def spikes(rng: Generator, size: int) -> FloatArray:
    """Draw normal noise and, at one commit of 20, a spike of 20% on average."""
    return np.asarray(normal(rng, size) + np.log1p(rng.exponential(0.2, size)) * (rng.random(size) < 0.05))


def bursts(rng: Generator, size: int) -> FloatArray:
    """Draw normal noise. Every 50 commits on average a neighbour slows two successive ones by 5%."""
    starts = rng.random(size) < 1 / 50
    slowed = starts | np.concatenate([[False], starts[:-1]])
    return np.asarray(normal(rng, size) + 0.05 * slowed)


def creeping(rng: Generator, size: int) -> FloatArray:
    """Draw normal noise on a level that creeps upwards by CREEP a commit: a change without a step."""
    return np.asarray(normal(rng, size) + CREEP * np.arange(size))


SYNTHETIC: Mapping[str, Family] = {
    "normal": normal,
    "heavy tails": heavy,
    "AR(1)": correlated,
    "bimodal": bimodal,
    "quantised": quantised,
    "spikes": spikes,
    "bursts": bursts,
}


def redrawn(residuals: Sequence[FloatArray], rng: Generator, size: int) -> FloatArray:
    """Draw blocks of the residuals of one series, with replacement."""
    source = residuals[int(rng.integers(len(residuals)))]
    starts = rng.integers(0, source.size - BLOCK + 1, size=-(-size // BLOCK))
    return np.concatenate([source[start : start + BLOCK] for start in starts])[:size]


def resampled(series: Sequence[RealSeries]) -> Family | None:
    """Return the noise of real series, `redrawn`. None if none of them is usable.

    Short ones are left out, and those most of whose values repeat the one before: counters, not times. The residuals
    from a running median of 11 points keep tails, ticks and states of a few commits, and no slow change of the level.
    """
    present = [np.array([value for value in one.logs if value is not None], dtype=np.float64) for one in series]
    usable = [logs for logs in present if logs.size >= FEWEST_REAL and np.median(np.abs(np.diff(logs))) > 0]
    return partial(redrawn, [logs - running_median(logs, AROUND) for logs in usable]) if usable else None
