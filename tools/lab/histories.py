"""Make the histories on which detectors of change points are scored: synthetic noise, and files of real series.

A file is a JSON object, gzipped or not: name -> list of values (None for a missing one), or name -> {"values": list,
"annotations": {annotator -> list of indices of the first point of a new level}}. Values are times or rates: positive.
Others count as missing.

A family of noise draws the log values of a benchmark whose code never changes. The steady ones scatter by about 1%
around one level, as sessions of one machine do after adjustment. The unsteady ones wander. Seeded.
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

from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.errors import ResultsError
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
Factors = Callable[[Generator, int], FloatArray]  # of a value without noise


class RealSeries(NamedTuple):
    """One series of a file."""

    name: str
    logs: tuple[float | None, ...]  # oldest first
    annotations: tuple[frozenset[int], ...] | None  # by annotator; None: not annotated


def read(paths: Iterable[Path]) -> dict[str, tuple[RealSeries, ...]]:
    """Return the series of files, by the file's name without its endings.

    Raises:
        ResultsError: a file cannot be read, two have one name, or one has another format. Says where.
    """
    sets: dict[str, tuple[RealSeries, ...]] = {}
    for path in paths:
        if (name := path.name.split(".")[0]) in sets:
            raise ResultsError(f"two files named {name}: rename one, so that their rows differ")
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


def sums(*kinds: Factors) -> Family:
    """Return the family whose log values are sums of several kinds of noise."""
    return partial(_sum, kinds)


def _sum(kinds: Sequence[Factors], rng: Generator, size: int) -> FloatArray:
    return np.asarray(np.log(np.prod([kind(rng, size) for kind in kinds], axis=0)))


def _jitter(sigma: float, phi: float, rng: Generator, size: int) -> FloatArray:
    values = rng.standard_normal(size) * math.sqrt(1 - phi * phi)
    values[0] /= math.sqrt(1 - phi * phi)
    # Doubling the reach in every pass: x[i] = e[i] + phi e[i-1] + ..., without a loop over values
    reach = 1
    while reach < size and phi**reach > 1e-12:
        values[reach:] = values[reach:] + phi**reach * values[:-reach]
        reach *= 2
    return np.asarray(np.exp(sigma * values))


def jitter(sigma: float, phi: float = 0.0) -> Factors:
    """Return log-normal noise: a stationary first-order autoregression, x[i] = phi x[i-1] + noise."""
    return partial(_jitter, sigma, phi)


def spikes(rng: Generator, size: int) -> FloatArray:
    """Draw factors of which one of 20 is longer by a Pareto-distributed part: interrupts and page faults."""
    hit = rng.random(size) < 0.05
    return np.asarray(1 + hit * 0.1 * (1 + rng.pareto(2.0, size)))


def wave(rng: Generator, size: int) -> FloatArray:
    """Draw a sine of 2% and 40 values with a random phase: fans, power control, a neighbour's timer."""
    phase = rng.uniform(0, 2 * math.pi)
    return np.asarray(1 + 2 * SIGMA * np.sin(phase + 2 * math.pi / 40.0 * np.arange(size)))


def _two_speeds(gap: float, fast: float, slow: float, rng: Generator, size: int) -> FloatArray:
    state, cycles = int(rng.random() < slow / (fast + slow)), size / (fast + slow)
    pairs = int(4 + 2 * cycles + 8 * math.sqrt(cycles))
    means = np.resize(np.asarray([slow, fast] if state else [fast, slow]), 2 * pairs)
    ends = np.cumsum(rng.exponential(1.0, 2 * pairs) * means)
    changes = np.searchsorted(ends, np.arange(size), side="right")
    return np.asarray(1 + gap * ((changes + state) % 2))


def two_speeds(gap: float, fast: float, slow: float) -> Factors:
    """Return two speeds, `gap` apart, that last for `fast` and `slow` values on average, exponentially distributed."""
    return partial(_two_speeds, gap, fast, slow)


def heavy(rng: Generator, size: int) -> FloatArray:
    """Draw Student's t with 3 degrees of freedom and, at one commit of 20, a Pareto part upwards: a shared CPU."""
    upwards = 0.02 * rng.pareto(1.5, size) * (rng.random(size) < 0.05)
    return np.asarray(SIGMA * rng.standard_t(3, size) / math.sqrt(3) + np.log1p(upwards))


def quantised(rng: Generator, size: int) -> FloatArray:
    """Draw normal noise read by a timer whose tick is 2% of the value: most values repeat."""
    return np.asarray(np.log(np.round(np.exp(normal(rng, size)) / 0.02 + rng.random()) * 0.02))


def bursts(rng: Generator, size: int) -> FloatArray:
    """Draw normal noise. Every 50 commits on average a neighbour slows two successive ones by 5%."""
    starts = rng.random(size) < 1 / 50
    slowed = starts | np.concatenate([[False], starts[:-1]])
    return np.asarray(normal(rng, size) + 0.05 * slowed)


def pink(rng: Generator, size: int) -> FloatArray:
    """Draw 1/f noise: as much of it in every octave."""
    frequencies = np.arange(1, size // 2 + 1)
    waves = rng.standard_normal((2, frequencies.size)) / np.sqrt(frequencies)
    values = np.fft.irfft([0, *(waves[0] + 1j * waves[1])], size)
    return np.asarray(SIGMA * values * size / 2 / math.sqrt(np.sum(1 / frequencies)))


def levels(rng: Generator, size: int) -> FloatArray:
    """Draw levels that scatter by 2% and last for 30 commits on average, under normal noise of half the width."""
    level = np.cumsum(rng.random(size) < 1 / 30)
    return np.asarray(0.02 * rng.standard_normal(size)[level] + normal(rng, size) / 2)


def visits(rng: Generator, size: int) -> FloatArray:
    """Draw normal noise of half the width, and visits of 3 to 12 commits to a level 4% higher, 30 commits apart."""
    lengths = np.stack([rng.geometric(1 / 30, size), rng.integers(3, 13, size)], axis=1).ravel()
    is_there = np.repeat(np.arange(lengths.size) % 2, lengths)[:size]
    return np.asarray(0.04 * is_there + normal(rng, size) / 2)


def creep(rng: Generator, size: int) -> FloatArray:
    """Draw normal noise on a level that creeps upwards by CREEP a commit: a change without a step."""
    return np.asarray(normal(rng, size) + CREEP * np.arange(size))


normal = sums(jitter(SIGMA))
STEADY: Mapping[str, Family] = {
    "normal": normal,
    "heavy tails": heavy,
    "AR(1) .6": sums(jitter(SIGMA, 0.6)),
    "bimodal": sums(two_speeds(0.024, 1.8, 1.8), jitter(0.003)),  # each for 3 commits on average
    "quantised": quantised,
    "spikes": sums(jitter(SIGMA), spikes),
    "bursts": bursts,
}
UNSTEADY: Mapping[str, Family] = {  # what looks like a change there may be none: only a re-run can tell
    "AR(1) .8": sums(jitter(SIGMA, 0.8)),
    "AR(1) .95": sums(jitter(SIGMA, 0.95)),
    "pink": pink,
    "sticky levels": levels,
    "visits": visits,
    "sine": sums(wave, jitter(SIGMA)),
    "creep": creep,
}


def redrawn(residuals: Sequence[FloatArray], rng: Generator, size: int) -> FloatArray:
    """Draw blocks of the residuals of one series, with replacement."""
    source = residuals[int(rng.integers(len(residuals)))]
    starts = rng.integers(0, source.size - BLOCK + 1, size=-(-size // BLOCK))
    return np.concatenate([source[start : start + BLOCK] for start in starts])[:size]


def families(sets: Mapping[str, Sequence[RealSeries]]) -> dict[str, Family]:
    """Return the steady families by name: the synthetic ones, and one for every set that has usable series."""
    real = {f"real: {name}": resampled(series) for name, series in sets.items()}
    return {**STEADY, **{name: family for name, family in real.items() if family is not None}}


def resampled(series: Sequence[RealSeries]) -> Family | None:
    """Return the noise of real series, `redrawn`. None if none of them is usable.

    Short ones are left out, and those most of whose values repeat the one before: counters, not times. The residuals
    from a running median of 11 points keep tails, ticks and states of a few commits, and no slow change of the level.
    """
    present = [np.array([value for value in member.logs if value is not None], dtype=np.float64) for member in series]
    usable = [logs for logs in present if logs.size >= FEWEST_REAL and np.median(np.abs(np.diff(logs))) > 0]
    return partial(redrawn, [logs - running_median(logs, AROUND) for logs in usable]) if usable else None
