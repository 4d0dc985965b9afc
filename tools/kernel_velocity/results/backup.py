"""Back up recorded values before measuring them again, and restore any series that ends with fewer rounds.

asv replaces the stored values in the first round. A run that is interrupted or killed, or whose rounds die, would leave
less than was there: the files are copied to `.asv/track-before/<machine>/` first, and the values of every series that
ends with fewer rounds are restored, at the latest when the next run starts.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable
from pathlib import Path

from kernel_velocity.errors import ResultsError
from kernel_velocity.files import replace_bytes
from kernel_velocity.results import failures, lines
from kernel_velocity.results.asv_file import Series, StoredFile
from kernel_velocity.results.join import StoredSeries
from kernel_velocity.results.reader import parameter

FOLDER = Path(".asv", "track-before")
_DAMAGED = ".damaged"


def keep(root: Path, paths: Iterable[Path]) -> None:
    """Copy the results files, whole or not at all. An empty copy says that there was none."""
    for path in paths:
        contents = path.read_bytes() if path.exists() else b""
        replace_bytes(root / FOLDER / path.parent.name / path.name, contents)


def put_back(root: Path, results: Path, rounds: float = math.inf) -> list[str]:
    """Restore the series that a run left with fewer rounds, and remove the backup. Return a line for each changed file.

    A series that now has the `rounds` that were asked for keeps them, even where it had more. So does one that raised:
    an implementation found wrong has no time. A copy that cannot be read is set aside.
    """
    notes = []
    for copy in sorted((root / FOLDER).glob("*/*.json")):
        path = results / copy.parent.name / copy.name
        try:
            before = StoredFile(copy) if copy.stat().st_size else None
        except (OSError, ResultsError) as error:
            copy.rename(copy.with_name(f"{copy.name}{_DAMAGED}"))
            notes.append(f"{error}; the earlier values are not restored, and are kept in {copy.name}{_DAMAGED}")
            continue
        if before is None:
            notes += _without_broken(path)
        elif count := _put_back(before, path, rounds, _raised(root, before)):
            notes.append(f"{path.name}: the earlier values of {count} series are restored: this run has fewer rounds")
        copy.unlink()
    return notes


def _without_broken(path: Path) -> list[str]:
    """Remove a file that a run began and asv was killed while writing: nothing could be added to it any more."""
    try:
        if path.exists():
            StoredFile(path)
    except ResultsError:
        path.unlink()
        return [f"{path.name}: half written by a run that was cut off, removed; it is measured again"]
    return []


def _raised(root: Path, before: StoredFile) -> set[Series]:
    """Return the series that raised since the copy was made."""
    spool = failures.spool_path(root, before.path.stem.partition("-")[2], before.commit)
    began = before.path.stat().st_mtime
    waiting = lines.read(spool, failures.decode, [])  # ingest, which comes next, reports what is malformed
    return {(failure.benchmark, failure.params) for failure in waiting if failure.time >= began and failure.raised}


def _put_back(before: StoredFile, path: Path, rounds: float, raised: Container[Series]) -> int:
    had = {series: recorded for series, recorded in before.series() if recorded.value is not None}
    try:
        after = StoredFile(path) if path.exists() else None
    except ResultsError:
        after = None  # half written: asv was killed while it wrote
    if after is None:
        replace_bytes(path, before.path.read_bytes())
        return len(had)
    lost = {
        series
        for series, now in after.series()
        if series in had
        and series not in raised
        and before.version(series[0]) == after.version(series[0])
        and _is_less(now, had[series], rounds)
    }
    for name in {name for name, _ in lost}:
        params = [params for params in after.values(name) if (name, tuple(map(parameter, params))) in lost]
        after.take_series(name, params, before)
    if lost:
        after.save()
    return len(lost)


def _is_less(now: StoredSeries, before: StoredSeries, rounds: float) -> bool:
    if now.value is None:
        return True
    return (now.count or 0) < min(before.count or 0, rounds)
