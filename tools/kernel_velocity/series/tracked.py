"""What is tracked of a kernel over the commits and is no time, as columns. Pure.

The largest errors of results, `<kernel>.<Device>.track_max_error`, and the compilers' figures of its code (FIGURES).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.results.identity import FIGURES
from kernel_velocity.results.measurement import IntArray, SeriesKey
from kernel_velocity.results.records import ResultsFile

ERROR = "track_max_error"
METHODS = frozenset({ERROR, *FIGURES})


@dataclass(frozen=True, kw_only=True, eq=False)
class Tracked:
    """The values of one series, one for each commit that has one; arrays of shape (commits,)."""

    key: SeriesKey
    place: IntArray  # of the commit on the first-parent line, ascending
    value: FloatArray  # an error, absolute or relative, whichever is smaller (of integers absolute); or a figure


def build(files: Iterable[ResultsFile], order: Mapping[str, int]) -> dict[SeriesKey, Tracked]:
    """Return the values of every series; of a commit that stands in two files, those of the first.

    Args:
        files: of a results directory. order: commit -> its place on the first-parent line; others are left out.
    """
    found: dict[SeriesKey, dict[int, float]] = {}
    for file in files:
        for item in file.tracked if file.commit in order else ():
            if item.benchmark.rpartition(".")[2] not in METHODS or item.value is None or item.value < 0:
                continue
            key = SeriesKey(
                machine=file.machine,
                environment=file.environment,
                benchmark=item.benchmark,
                implementation=item.implementation,
                case=item.case,
                version=item.version or "",
            )
            found.setdefault(key, {}).setdefault(order[file.commit], item.value)
    return {key: _columns(key, values) for key, values in sorted(found.items())}


def _columns(key: SeriesKey, values: Mapping[int, float]) -> Tracked:
    places = sorted(values)
    return Tracked(
        key=key,
        place=np.array(places, dtype=np.int32),
        value=np.array([values[place] for place in places], dtype=np.float64),
    )
