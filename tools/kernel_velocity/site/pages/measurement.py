"""measurement.html: how a number came to be, from its rounds to its value, and the data that its script loads.

The page holds words. Its script loads the rounds of the commit in the address,
`measurement.html#commit=<SHA>&series=<name of the series' data file>`, from these files:

- `rounds-<first 8 digits of the commit>-<number of the platform>`: the values of a commit and their rounds. All of it
  follows from the commit's own telemetry, so a newer commit changes no older file.
- `measured-<16 hex>`: what a file of rounds is of, in its order: the same for most commits, which name it as `series`.
- `fits-<number of the platform>`: by series the timing method whose rounds are adjusted, by signal its slope and usual
  value, s, and sentences on them. These follow from several commits.
- `rounds-index`: which commits have rounds where, the columns of the table of rounds, and what words in it mean.
  Another commit's hash begins with the same digits as that of each commit in `whole`: files name these by all of it.

A file of rounds is written for few bytes. It has, by series, `count`, how many rounds, `base`, the value in s per call
(the first estimate where there is no value), and columns. `rounds` has columns of all series' rounds, each series' by
time. A column is `runs`, pairs of a value and how many have it, or whole numbers, divided by `per`: `steps`, the
differences from the number before, or from the number `from`. Small ones are a text with a letter for each: the space
is null, from "#" on 0, -1, 1, -2, ... Null is unknown, and no step. `low`, `high` and `estimate` are relative to
`base`: .01 is 1% more. A column of rounds that is unknown throughout is left out.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from kernel_velocity import units
from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.engine.stopping import Reason
from kernel_velocity.names import operation
from kernel_velocity.results.measurement import CONTROLS_TOGETHER, MEANINGS, SeriesKey
from kernel_velocity.site import text
from kernel_velocity.site.model import Site
from kernel_velocity.site.series_data import significant, whole_numbers
from kernel_velocity.site.text import Platform
from kernel_velocity.site.writer import DataFile, Page, series_name

FORMAT = 4  # of the data files
DIGITS = 7  # of a usual value of a gauge
# Of 1, to which the ends of intervals, and estimates, are written. A round's own half-width is .1% at best.
FINEST, FINE = 1e5, 1e4
MOMENTS = 100  # of a s
LEAST_DIGITS = 4  # of the smallest number of a column: gauges have four
_MOST_LETTERS = 1000  # a number that has a letter, of two bytes in UTF-8
_MOST_DIGITS, _MOST = 15, 1e15  # of a whole number that a double holds
# Columns of a round's fields; `waited` is the s that it waited for a quiet core
FIELDS = {
    **{name: name for name in ("n", "batch", "spent", "setup", "warmup", "stop", "half_width", "cv")},
    **{name: name for name in ("autocorrelation", "drift", "tick", "overhead", "waiting")},
    **{name: name for name in ("core_gauge", "memory_gauge", "control_gauge")},
    **{"waited": "lost", "load": "load", "switches": "switches", "steal": "steal"},
}
GPU = ("sm_before", "sm_after", "memory_before", "memory_after", "power", "temperature", "reasons")
STOPS: Mapping[str, str] = {
    Reason.CONVERGED: "the estimate reached the wanted precision",
    Reason.PLATEAU: "the noise no longer changed: more samples would not help",
    Reason.NOISE_FLOOR: "the samples scatter too much for the time limit: it stopped early",
    Reason.BUDGET: "the time limit came before the wanted precision",
    Reason.BUDGET_DRIFT: "the time limit came while samples still drifted",
    Reason.CONTENDED: "the core was busy for longer than a round waits: only its quiet samples count",
    Reason.TIMEOUT: "the process was close to its time limit",
    Reason.COMPLETE: "a fixed number of samples",
}
FLAGS: Mapping[str, str] = {
    "contended": "another process had the core or the GPU, the hypervisor took time, or the core was never quiet",
    "faulting": "page faults while timing: the timing includes fresh memory",
    **MEANINGS,
}
GAUGES = {
    "core_gauge": "gauge of the core",
    "memory_gauge": "gauge of the memory",
    "control_gauge": "control beside it",
}
COLUMNS = (  # of the table of rounds: name, heading, and how static/measurement.js writes it
    ("number", "round", "count"),
    ("began", "began", "moment"),
    ("estimate", "estimate", "s"),
    ("adjusted", "adjusted", "s"),
    ("half_width", "within the run", "±%"),
    ("n", "samples", "count"),
    ("effective", "effective samples", "number"),
    ("batch", "calls a sample", "count"),
    ("spent", "timing", "s"),
    ("stop", "stopped because", "text"),
    ("flags", "flags", "text"),
    ("waited", "waited for a quiet core", "s"),
    ("cv", "scatter of samples", "%"),
    ("autocorrelation", "lag-1 autocorrelation", "number"),
    ("drift", "drift", "difference"),
    *((name, heading, "s") for name, heading in GAUGES.items()),
    ("waiting", "caller waits beyond it", "s"),
    ("sm_before", "SM clock before", "MHz"),
    ("sm_after", "after", "MHz"),
    ("memory_before", "memory clock before", "MHz"),
    ("memory_after", "after", "MHz"),
    ("power", "power", "W"),
    ("temperature", "temperature", "°C"),
    ("setup", "set-up", "s"),
    ("warmup", "warm-up", "s"),
    ("overhead", "empty call", "s"),
    ("tick", "clock's tick", "s"),
    ("load", "load", "number"),
    ("switches", "switches", "count"),
    ("steal", "stolen", "s"),
    ("launch", "launch", "count"),
)


def build(site: Site) -> Iterator[Page | DataFile]:
    """Yield the page, the rounds of every commit, and the slopes of adjusting."""
    measured: dict[int, list[str]] = {}
    for number, sha, file in files(site):
        if sha:
            measured.setdefault(number, []).append(sha)
        yield file
    yield from fits(site)
    platforms = [
        {
            "machine": platform.machine,
            "environment": platform.environment,
            # newest first, commits beside the line last
            "commits": sorted(measured.get(number, ()), key=lambda sha: -site.order.get(sha, -1)),
        }
        for number, platform in enumerate(site.platforms)
    ]
    words = {"words": {**STOPS, **FLAGS}, "columns": COLUMNS, "gauges": GAUGES}
    whole = [sha for sha in site.measured if site.commits[sha].short == sha]
    index = {"format": FORMAT, "places": platforms, "whole": whole, **words}
    yield DataFile(name="rounds-index", value=index)
    yield Page(name="measurement.html", template="measurement.html", context={"has_rounds": bool(measured)})


def files(site: Site) -> Iterator[tuple[int, str, DataFile]]:
    """Yield (number of the platform, commit, data file) for every commit and platform that has telemetry.

    A file of rounds is made again only where the commit's own files changed, or what they are of. The files that say
    this come with no commit.
    """
    names: dict[bytes, str] = {}
    for sha in site.measured:
        for number, platform in enumerate(site.platforms):
            if site.has_rounds(platform, sha):
                owners = site.past.series_of(site.path(platform, sha))
                if owners.tobytes() not in names:
                    file = _labels(site, [site.past.layout.keys[owner] for owner in owners.tolist()])
                    names[owners.tobytes()] = file.name
                    yield number, "", file
                labels = names[owners.tobytes()]
                inputs = repr((sha, platform.machine, platform.environment, site.signature(platform, sha), labels))
                value = partial(_rounds_of, site, platform, sha, labels)
                name = f"rounds-{site.commits[sha].short}-{number}"
                yield number, sha, DataFile(name=name, value=value, inputs=inputs)


def _labels(site: Site, keys: Sequence[SeriesKey]) -> DataFile:
    """Return the file that says what the columns of a file of rounds are of."""
    series = [
        {
            "name": series_name(key),
            "benchmark": key.benchmark,
            "implementation": key.implementation,
            "case": key.case,
            "flop": site.past.flop(key),
            "operation": operation(key.dtype),
        }
        for key in keys
    ]
    digest = hashlib.sha256(repr(series).encode("utf-8", "surrogatepass")).hexdigest()
    return DataFile(name=f"measured-{digest[:16]}", value={"format": FORMAT, "series": series})


def _rounds_of(site: Site, platform: Platform, commit: str, labels: str) -> dict[str, Any]:
    """Return the rounds of a commit at a platform."""
    by_series, measurements = site.rounds_at(platform, commit), list(site.past.in_file(site.path(platform, commit)))
    measured = [
        by_series.get((measurement.key.benchmark, measurement.key.implementation, measurement.key.case), ())
        for measurement in measurements
    ]
    groups = [
        (measurement, sorted(rounds, key=lambda round_: round_.time))
        for measurement, rounds in zip(measurements, measured, strict=True)
    ]
    rounds = [round_ for _, several in groups for round_ in several]
    methods = [measurement.method for measurement, several in groups for _ in several]
    counts = [len(several) for _, several in groups]
    base = np.array(
        [(measurement.seconds or several[0].estimate) if several else math.nan for measurement, several in groups]
    )
    intervals = [measurement.interval for measurement in measurements]
    launches = [list(dict.fromkeys(round_.launch for round_ in several)) for _, several in groups]
    columns: dict[str, Sequence[Any]] = {
        "launch": [
            names.index(round_.launch) + 1
            for names, (_, several) in zip(launches, groups, strict=True)
            for round_ in several
        ],
        "flags": [" ".join(round_.flags) or None for round_ in rounds],
        "effective": [round_.effective_n for round_ in rounds],
        **{column: [getattr(round_, field) for round_ in rounds] for column, field in FIELDS.items()},
        **{column: [round_.gpu and getattr(round_.gpu, column) for round_ in rounds] for column in GPU},
    }
    low, high = (
        np.array([interval and getattr(interval, end) for interval in intervals], np.float64) for end in ("low", "high")
    )
    return {
        "format": FORMAT,
        "commit": commit,
        "machine": platform.machine,
        "environment": platform.environment,
        "series": labels,
        "count": counts,
        "base": significant(base),
        "outcome": _column([measurement.outcome.value for measurement in measurements]),
        "method": _column([measurement.method for measurement in measurements]),
        "remarks": _column(
            [
                text.remarks(measurement.outcome, measurement.reason, measurement.warnings)
                for measurement in measurements
            ]
        ),
        "interval": _column([interval and interval.method for interval in intervals]),
        "low": _column((low / base - 1).tolist(), FINEST),
        "high": _column((high / base - 1).tolist(), FINEST),
        "rounds": {
            "estimate": _column(
                (np.array([round_.estimate for round_ in rounds]) / np.repeat(base, counts) - 1).tolist(), FINE
            ),
            "began": _column([round_.time for round_ in rounds], MOMENTS),
            "counts": _column(
                [method is not None and round_.method == method for method, round_ in zip(methods, rounds, strict=True)]
            ),
            **{name: _column(values) for name, values in columns.items() if any(value is not None for value in values)},
        },
    }


def _column(values: Sequence[Any], per: float | None = None) -> dict[str, Any]:
    """Return a column: of numbers that change often as the steps between them, of others as runs of equal ones.

    Args:
        per: what numbers are multiplied by, to be whole. None: by as much as LEAST_DIGITS of the smallest need.
    """
    if not set(map(type, values)) <= {int, float, type(None)}:
        return {"runs": _runs(values)}
    numbers = np.array(values, np.float64)  # None becomes NaN
    numbers[~np.isfinite(numbers)] = np.nan
    per = per or _digits(np.abs(numbers[np.abs(numbers) > 0]))
    whole = np.rint(numbers * per)
    is_known = ~np.isnan(whole)
    is_steady = not is_known.any() or np.count_nonzero(np.diff(numbers)) < len(values) / 4
    if is_steady or (np.abs(whole[is_known]) > _MOST).any():
        return {"runs": _runs(values)}
    steps, middle = np.full(len(whole), np.nan), np.rint(np.median(whole[is_known]))
    steps[is_known] = np.diff(whole[is_known], prepend=0)
    if np.nansum(np.abs(steps[1:])) <= np.nansum(np.abs(whole - middle)):
        return {"per": per, "steps": _letters(steps)}
    return {"per": per, "from": int(middle), "steps": _letters(whole - middle)}


def _letters(numbers: FloatArray) -> object:
    """Return whole numbers as a text if they are small, half of the bytes after gzip. NaN is null."""
    if np.nanmax(np.abs(numbers)) > _MOST_LETTERS:
        return whole_numbers(numbers)
    codes = np.where(numbers < 0, -2 * numbers - 1, 2 * numbers) + ord("#")
    return "".join(map(chr, np.where(np.isnan(codes), ord(" "), codes).astype(int).tolist()))


def _runs(values: Iterable[object]) -> list[tuple[object, int]]:
    return [(value, len(list(run))) for value, run in itertools.groupby(values)]


def _digits(sizes: FloatArray) -> float:
    """Return what some positive numbers are multiplied by to be whole numbers of LEAST_DIGITS and more."""
    if not sizes.size or (sizes == np.rint(sizes)).all():
        return 1
    least, most = (math.floor(math.log10(size)) for size in (sizes.min(), sizes.max()))
    return 10.0 ** max(0, min(LEAST_DIGITS - 1 - least, _MOST_DIGITS - 1 - most))


def fits(site: Site) -> Iterator[DataFile]:
    """Yield, for each platform, the slopes and usual values by which its series are adjusted."""

    def or_none(value: float | None) -> float | None:
        return None if value is None or not math.isfinite(value) else float(f"{value:.{DIGITS}g}")

    for number, platform in enumerate(site.platforms):
        series = {}
        for key in site.keys_at(platform):
            fit = site.past.adjustments.fits.get(key)
            if fit is not None:
                signals = {signal.name: [or_none(signal.slope), or_none(signal.centre)] for signal in fit.signals}
                explained = None if fit.explained is None else round(fit.explained, 3)
                words = _fit_words({name: slope for name, (slope, _) in signals.items()}, explained)
                numbers = {"method": fit.method, "signals": signals, "explained": explained}
                series[series_name(key)] = numbers | {"words": words}
        yield DataFile(name=f"fits-{number}", value={"format": FORMAT, "series": series})


def _fit_words(slopes: Mapping[str, float | None], explained: float | None) -> str:
    """Return the sentences on the slopes by which a series is adjusted."""
    texts = {name: units.significant(slope) for name, slope in slopes.items() if slope is not None}
    if CONTROLS_TOGETHER in texts:
        by = f"PyTorch's implementations in the same rounds, with slope {texts[CONTROLS_TOGETHER]}"
        return f"It is adjusted by {by}; the commit's page has the adjusted value."
    used = ", ".join(f"{GAUGES.get(name, name)} {slope}" for name, slope in texts.items())
    explains = "" if explained is None else f" They explain {units.share(explained)}"
    share = explains and f"{explains} of the scatter between rounds of the same code."
    return f"Verdicts use the adjusted value. Slopes: {used}.{share}"
