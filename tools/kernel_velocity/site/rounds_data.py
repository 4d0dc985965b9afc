"""The rounds of a commit as data for the page of measurements: one file for each commit and place, as columns.

Everything in it follows from the commit's own telemetry, so that a newer commit changes no older file; what a series is
adjusted by follows from several commits, and stands in a file of its own for each place (`fits`).

- `rounds-<first 8 digits of the commit>-<number of the place>`: `series` by name, each with what it is of, its value (s
  per call), and its rounds in the order of time, as columns; a column that no round has anything in is left out;
- `fits-<number of the place>`: `series` by name, each with the method of timing whose rounds are adjusted, and by
  signal its slope and what it reads as a rule, s.

Raw samples that `kv lab record` kept, as data for the page of measurements: one file for each series.

A trace names no commit and no machine: it is shown beside a series of the same name, and says when it was taken.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kernel_velocity import bounds
from kernel_velocity.errors import ResultsError
from kernel_velocity.harness import statistics
from kernel_velocity.harness.cases import DEVICES, operation
from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.harness.telemetry import Round
from kernel_velocity.results import traces as trace_files
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.measurement import Measurement
from kernel_velocity.results.traces import TRACES
from kernel_velocity.site import text
from kernel_velocity.site.model import Rounds, Site
from kernel_velocity.site.outputs import DataFile, series_name
from kernel_velocity.site.text import Place
from kernel_velocity.stats.sample_shape import correlogram

FORMAT = 1
DIGITS = 7  # of an estimate
FEWEST_PAIRS = 3  # that an autocorrelation is made of
# Fields of a round that are shown as they are; `waited` is the s that it waited for a quiet core.
FIELDS = {
    **{
        name: name for name in ("n", "batch", "spent", "setup", "warmup", "stop", "half_width", "cv", "autocorrelation")
    },
    **{name: name for name in ("drift", "tick", "overhead", "waiting", "core_gauge", "memory_gauge", "control_gauge")},
    **{"waited": "lost", "load": "load", "switches": "switches", "steal": "steal"},
}
GPU = ("sm_before", "sm_after", "memory_before", "memory_after", "power", "temperature", "reasons")

TRACES_FORMAT = 1
POINTS = 400  # drawn of a trace at most, evenly spaced: of a chart that wide no more can be told apart
BINS = 40
BEYOND = 99.5  # percentile where the histogram ends: one outlier would squeeze all others into a bin
SAMPLE_DIGITS = 5  # of a sample
Named = tuple[str, str, str]  # benchmark, implementation, case


def name(commit: str, place: int) -> str:
    """Return the name of the data file of a commit's rounds at a place, by its number among `Site.places`."""
    return f"rounds-{commit[:SHORT]}-{place}"


def files(found: Site) -> Iterator[tuple[int, str, DataFile]]:
    """Yield (number of the place, commit, data file) for every commit and place that has telemetry.

    A file is made again only where the commit's own files, or what its benchmarks count, changed.
    """
    counted = repr([(name, sorted(one.flop.items())) for name, one in sorted(found.benchmarks.items())])
    for sha in found.measured:
        for number, place in enumerate(found.places):
            if found.has_rounds(place, sha):
                inputs = repr((sha, place.machine, place.environment, found.signature(place, sha), counted))
                yield number, sha, DataFile(name=name(sha, number), value=partial(of, found, place, sha), inputs=inputs)


def of(found: Site, place: Place, commit: str) -> dict[str, Any]:
    """Return the rounds of a commit at a place."""
    return {
        "format": FORMAT,
        "commit": commit,
        "machine": place.machine,
        "environment": place.environment,
        "series": _series_of(found, place, commit, found.rounds_at(place, commit)),
    }


def _series_of(found: Site, place: Place, commit: str, rounds: Rounds) -> dict[str, Any]:
    """Return what a commit's rounds at a place are of, by the name of the series."""
    here = (place.machine, place.environment)
    series = {}
    for item in found.at(commit):
        own = rounds.get((item.key.benchmark, item.key.implementation, item.key.case), ())
        if own and (item.key.machine, item.key.environment) == here:
            series[series_name(item.key)] = _series(item, sorted(own, key=lambda each: each.time))
    return series


def _series(item: Measurement, rounds: Sequence[Round]) -> dict[str, Any]:
    counted = [each for each in rounds if item.method is not None and each.method == item.method]
    interval = item.interval
    return {
        "benchmark": item.key.benchmark,
        "implementation": item.key.implementation,
        "case": item.key.case,
        "outcome": item.outcome.value,
        "value": item.seconds,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "interval": "" if interval is None else interval.method,
        "flop": item.flop,
        "operation": operation(item.key.dtype),
        "method": item.method,
        "remarks": list(text.remarks(item.outcome, item.reason, item.warnings)),
        "correlogram": round_correlogram([each.estimate for each in counted]),
        "rounds": _columns(item, rounds),
    }


def round_correlogram(estimates: Sequence[float]) -> list[float]:
    """Return the autocorrelation of round estimates at lags from 1 on, as far as FEWEST_PAIRS pairs make it."""
    values = [statistics.autocorrelation(estimates, lag) for lag in range(1, len(estimates) - FEWEST_PAIRS + 1)]
    return [round(value, 3) for value in values if value is not None]


def _columns(item: Measurement, rounds: Sequence[Round]) -> dict[str, list[Any]]:
    launches = list(dict.fromkeys(each.launch for each in rounds))
    found: dict[str, list[Any]] = {
        "began": [each.time for each in rounds],
        "estimate": [float(f"{each.estimate:.{DIGITS - 1}e}") for each in rounds],
        "counts": [item.method is not None and each.method == item.method for each in rounds],
        "launch": [launches.index(each.launch) + 1 for each in rounds],
        "flags": [" ".join(each.flags) or None for each in rounds],
        "effective": [None if each.effective_n is None else round(each.effective_n, 1) for each in rounds],
        **{column: [getattr(each, field) for each in rounds] for column, field in FIELDS.items()},
        **{column: [each.gpu and getattr(each.gpu, column) for each in rounds] for column in GPU},
    }
    return {column: values for column, values in found.items() if any(value is not None for value in values)}


def fits(found: Site) -> Iterator[DataFile]:
    """Yield, for each place, what its series are adjusted by."""
    for number, place in enumerate(found.places):
        series = {}
        for key in found.keys_at(place):
            fit = found.fit(key)
            if fit is not None:
                signals = {each.name: [_short(each.slope), _short(each.centre)] for each in fit.signals}
                explained = None if fit.explained is None else round(fit.explained, 3)
                series[series_name(key)] = {"method": fit.method, "signals": signals, "explained": explained}
        yield DataFile(name=f"fits-{number}", value={"format": FORMAT, "series": series})


def _short(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.{DIGITS - 1}e}")


@dataclass(frozen=True, kw_only=True)
class Traces:
    """What is there: by series the name of its data file; the files; what could not be read, as sentences."""

    names: dict[Named, str]
    files: tuple[DataFile, ...]
    problems: tuple[str, ...]


def read(repository: Path) -> Traces:
    """Return the traces that a clone keeps."""
    found: dict[Named, list[dict[str, Any]]] = {}
    problems = []
    for path in trace_files.inside(repository / TRACES):
        try:
            document = trace_files.document(path)
            found.setdefault(_named(document), []).append(_trace(path.parent.name, document))
        except (ResultsError, LookupError, TypeError) as error:
            problems.append(f"{path.relative_to(repository)}: no trace that can be shown ({error})")
    files = {named: _file(named, traces) for named, traces in found.items()}
    return Traces(
        names={named: file.name for named, file in files.items()},
        files=tuple(files.values()),
        problems=tuple(problems),
    )


def _named(document: dict[str, Any]) -> Named:
    device, state = DEVICES[document["device"]], document["state"]
    return f"{document['kernel']}.{device}.time_{state}", str(document["implementation"]), str(document["case"])


def _file(named: Named, traces: Sequence[dict[str, Any]]) -> DataFile:
    digest = hashlib.sha256("\0".join(named).encode("utf-8", "surrogatepass")).hexdigest()
    return DataFile(name=f"traces-{digest[:16]}", value={"format": TRACES_FORMAT, "traces": list(traces)})


def _trace(process: str, document: dict[str, Any]) -> dict[str, Any]:
    if not bounds.is_moment(document["began"]):
        raise ResultsError(f"began {str(document['began'])[:60]!r}; wanted a Unix time in seconds")
    values = np.asarray(document["seconds"], dtype=np.float64)
    lags, correlations = correlogram([values])
    shown = values[values <= np.percentile(values, BEYOND)]
    counts, edges = np.histogram(shown, bins=BINS)
    chosen = np.arange(0, values.size, max(1, -(-values.size // POINTS)))
    before = chosen[chosen < values.size - 1]
    return {
        "process": process,
        "began": float(document["began"]),
        "timer": str(document["timer"]),
        "batch": document["batch"],
        "samples": int(values.size),
        "median": _short_sample(float(np.median(values))),
        "trimmed_mean": _short_sample(statistics.trimmed_mean(values)),
        "longest": _short_sample(float(values.max())),
        "beyond": int(values.size - shown.size),
        "number": (chosen + 1).tolist(),
        "seconds": list(_all(values[chosen])),
        "lag": [list(_all(values[before])), list(_all(values[before + 1]))],
        "correlogram": [round(value, 3) for value in correlations],
        "lags": lags,
        "edges": list(_all(edges)),
        "counts": counts.tolist(),
    }


def _all(values: FloatArray) -> Iterator[float]:
    return (_short_sample(float(value)) for value in values)


def _short_sample(value: float) -> float:
    return float(f"{value:.{SAMPLE_DIGITS - 1}e}")
