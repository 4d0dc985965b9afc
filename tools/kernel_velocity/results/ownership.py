"""Whose the lines in the spool are: they name no machine, and several machines' results may lie side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from kernel_velocity.harness.telemetry import Round
from kernel_velocity.results.asv_file import Series, StoredFile
from kernel_velocity.results.failures import Failure
from kernel_velocity.results.join import TIME_SLACK, join

Line = TypeVar("Line", Round, Failure)


def by_series(lines: Iterable[Line]) -> dict[Series, list[Line]]:
    """Return lines by the series that they name, order kept."""
    found: dict[Series, list[Line]] = {}
    for item in lines:
        found.setdefault((item.benchmark, item.params), []).append(item)
    return found


def measured_here(stored: Sequence[StoredFile], fresh: Sequence[Round], machine: str | None) -> StoredFile | None:
    """Return the file of the machine that measured `fresh`: that of `machine`, else one that agrees with a round."""
    if machine is not None:
        return next((file for file in stored if file.path.parent.name == machine), None)
    return next((file for file in stored if any(_agreeing(file, fresh))), None)


def _agreeing(file: StoredFile, fresh: Sequence[Round]) -> Iterator[Round]:
    new = by_series(fresh)
    for series, stored in file.series():
        yield from join(new.get(series, ()), stored)


def claimable(file: StoredFile, fresh: Sequence[Round], *, known: bool, last: bool) -> list[Round]:
    """Return the rounds that a file may rest on; dropped values cannot be compared, so that the machine decides.

    All of them where the machine is `known` to be the file's; else those that agree with a value, and in the file that
    was measured `last` those that began while it was.
    """
    if known:
        return list(fresh)
    agreeing = set(_agreeing(file, fresh))
    began = {series: stored.started_at for series, stored in file.series()} if last else {}
    for item in fresh:
        start = began.get((item.benchmark, item.params))
        if start is not None and start - TIME_SLACK <= item.time <= file.measured_at + TIME_SLACK:
            agreeing.add(item)
    return [item for item in fresh if item in agreeing]
