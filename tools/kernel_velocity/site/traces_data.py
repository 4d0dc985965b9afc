"""Raw samples that `kv lab record` kept, as data for the page of measurements: one file for each series.

A trace names no commit and no machine: it is shown beside a series of the same name, and says when it was taken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernel_velocity import bounds
from kernel_velocity.errors import ResultsError
from kernel_velocity.harness import statistics
from kernel_velocity.harness.cases import DEVICES
from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.results import traces as trace_files
from kernel_velocity.results.traces import TRACES
from kernel_velocity.site.outputs import DataFile
from kernel_velocity.stats.sample_shape import correlogram

FORMAT = 1
POINTS = 400  # drawn of a trace at most, evenly spaced: of a chart that wide no more can be told apart
BINS = 40
BEYOND = 99.5  # percentile where the histogram ends: one outlier would squeeze all others into a bin
DIGITS = 5  # of a sample
Named = tuple[str, str, str]  # benchmark, implementation, case


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
    return DataFile(name=f"traces-{digest[:16]}", value={"format": FORMAT, "traces": list(traces)})


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
        "median": _short(float(np.median(values))),
        "trimmed_mean": _short(statistics.trimmed_mean(values)),
        "longest": _short(float(values.max())),
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
    return (_short(float(value)) for value in values)


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS - 1}e}")
