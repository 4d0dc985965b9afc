"""Files of real series that detectors are scored on: plain ones, and ones that people annotated. JSON, gzipped or not.

An object: name -> list of values (None for a missing one), or name -> {"values": list, "annotations": {annotator ->
list of indices of the first point of a new level}}. Values are times or rates: positive; others count as missing.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernel_velocity.errors import ResultsError
from kernel_velocity.harness.statistics import FloatArray

GZIP = b"\x1f\x8b"
SHOWN = 60  # characters of what was found instead


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
