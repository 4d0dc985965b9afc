"""What was recorded before a run measures it again, kept until the run has something at least as good.

asv replaces the stored values in the first round. A run that is interrupted or killed, or whose rounds die, would leave
less than was there: the files are copied to `.asv/track-before/<machine>/` first, and the values of every series that
ends with fewer rounds are put back, at the latest when the next run starts.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any

from asv.results import Results

from kernel_velocity.errors import ResultsError
from kernel_velocity.files import replace_text
from kernel_velocity.results import failures, lines
from kernel_velocity.results.asv_file import Series, StoredFile
from kernel_velocity.results.join import StoredSeries

FOLDER = Path(".asv", "track-before")


def keep(root: Path, paths: Iterable[Path]) -> None:
    """Copy the results files, whole or not at all; an empty copy says that there was none."""
    for path in paths:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        replace_text(root / FOLDER / path.parent.name / path.name, text)


def put_back(root: Path, results: Path, rounds: float = math.inf) -> list[str]:
    """Put back what a run left with less than before, and forget the copies; return a line for each file changed.

    A series that now has the `rounds` that were asked for keeps them, even where it had more. So does one that raised:
    an implementation found wrong has no time.
    """
    told = []
    for copy in sorted((root / FOLDER).glob("*/*.json")):
        path = results / copy.parent.name / copy.name
        if copy.stat().st_size == 0:
            told += _without_broken(path)
        elif count := _put_back(copy, path, rounds, _raised(root, copy)):
            told.append(f"{path.name}: what was recorded before of {count} series is put back, this run got less")
        copy.unlink()
    return told


def _without_broken(path: Path) -> list[str]:
    """Remove a file that a run began and asv was killed while writing: nothing could be added to it any more."""
    try:
        if path.exists():
            StoredFile(path)
    except ResultsError:
        path.unlink()
        return [f"{path.name}: half written by a run that was cut off, removed; it is measured again"]
    return []


def _raised(root: Path, copy: Path) -> set[Series]:
    """Return the series that raised since the copy was made."""
    spool = failures.spool_path(root, copy.stem.partition("-")[2], StoredFile(copy).commit)
    began = copy.stat().st_mtime
    waiting = lines.read(spool, failures.decode, [])  # ingest, which comes next, reports what is malformed
    return {(item.benchmark, item.params) for item in waiting if item.time >= began and item.raised}


def _put_back(copy: Path, path: Path, rounds: float, raised: Container[Series]) -> int:
    before = StoredFile(copy)
    had = {series: item for series, item in before.series() if item.value is not None}
    try:
        after = StoredFile(path) if path.exists() else None
    except ResultsError:
        after = None  # half written: asv was killed while it wrote
    if after is None:
        replace_text(path, copy.read_text(encoding="utf-8"))
        return len(had)
    lost = {
        series
        for series, now in after.series()
        if series in had
        and series not in raised
        and before.version(series[0]) == after.version(series[0])
        and _is_less(now, had[series], rounds)
    }
    if lost:
        _take_over(copy, path, [series for series, _ in after.series()], lost)
    return len(lost)


def _is_less(now: StoredSeries, before: StoredSeries, rounds: float) -> bool:
    if now.value is None:
        return True
    return (now.count or 0) < min(before.count or 0, rounds)


def _take_over(copy: Path, path: Path, order: list[Series], lost: Container[Series]) -> None:
    """Write the lost series of `copy` into `path`; `order` is how `path` stores its series."""
    old: Any = Results.load(str(copy))
    new: Any = Results.load(str(path))
    for name in dict.fromkeys(name for name, _ in order):
        mine = [series in lost for series in order if series[0] == name]
        if not any(mine):
            continue
        params = new.get_result_params(name)
        for get, store in (
            (Results.get_result_value, new._results),
            (Results.get_result_stats, new._stats),
            (Results.get_result_samples, new._samples),
        ):
            pairs = zip(get(old, name, params), get(new, name, params), mine, strict=True)
            values = [was if is_lost else now for was, now, is_lost in pairs]
            store[name] = None if all(value is None for value in values) else values
    with tempfile.TemporaryDirectory() as folder:
        new.save(folder)
        (saved,) = Path(folder).glob("*/*.json")
        replace_text(path, saved.read_text(encoding="utf-8"))
