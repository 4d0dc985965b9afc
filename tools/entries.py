"""A results file as arrays: what the site's cache keeps of it, an entry for every value and one for every round.

Texts (remarks, methods, code, names of launches) and series are numbers in them; `Numbers` gives them out. Pure.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.telemetry import Round
from tools import recorded
from tools.columns import OUTCOMES
from tools.measurements import Measurement
from tools.recorded import ResultsFile, StoredValue

NOTHING = 0  # the number of no text
# of one value; times in s per call, `began` the Unix time of its last round, s; NaN: unknown, -1 rounds: unknown
ENTRY = np.dtype(
    [
        *((name, "<i4") for name in ("series", "outcome", "rounds", "method", "interval_method", "remark", "code")),
        *((name, "<f8") for name in ("seconds", "low", "high", "began")),
    ]
)
# of one round of the entry with this place in the file; gauges in s, NaN where they were not read
ROUND = np.dtype(
    [
        *((name, "<i4") for name in ("entry", "launch")),
        *((name, "<f8") for name in ("estimate", "core_gauge", "memory_gauge", "control_gauge")),
    ]
)
Entries = NDArray[np.void]  # of ENTRY or of ROUND
Remark = tuple[str | None, tuple[str, ...]]  # why there is no time, and what to know about it
Series = tuple[str, str, str, str, str, str | None]  # machine, environment, benchmark, implementation, case, version
Thing = TypeVar("Thing", bound=Hashable)


@dataclass
class Numbers(Generic[Thing]):
    """Numbers for things, from 1 on, in the order in which they are first seen; a thing keeps its number."""

    things: list[Thing] = field(default_factory=list)
    _numbers: dict[Thing, int] = field(init=False)

    def __post_init__(self) -> None:
        self._numbers = {thing: number for number, thing in enumerate(self.things, start=1)}

    def of(self, thing: Thing | None) -> int:
        """Return a thing's number, NOTHING for None."""
        if thing is None:
            return NOTHING
        known = self._numbers.get(thing)
        if known is None:
            self.things.append(thing)
            known = self._numbers[thing] = len(self.things)
        return known

    def __getitem__(self, number: int) -> Thing:
        """Return the thing of a number (>= 1)."""
        return self.things[number - 1]


@dataclass(frozen=True, kw_only=True)
class Packed:
    """A results file as arrays, in the order in which it has its values."""

    entries: Entries  # of ENTRY
    rounds: Entries  # of ROUND, by entry, each entry's by time


@dataclass(frozen=True, kw_only=True)
class Names:
    """What the numbers in the arrays stand for."""

    series: Numbers[Series] = field(default_factory=Numbers)
    texts: Numbers[str] = field(default_factory=Numbers)
    remarks: Numbers[Remark] = field(default_factory=Numbers)


def pack(file: ResultsFile, names: Names) -> Packed:
    """Return a results file's values as arrays; what is new in it gets a number."""
    rows: list[tuple[float, ...]] = []
    rounds: list[tuple[float, ...]] = []
    for value in file.values:
        item = recorded.measurement(file, value, {})
        kept = [] if item.method is None else recorded.kept_rounds(file, value, item.method)
        code = recorded.code_of(file, value, kept) if kept else None
        place = (file.machine, file.environment, value.benchmark, value.implementation, value.case, value.version)
        rows.append((*_entry(item, names.series.of(place), names.texts.of(code), names), _began(value, file)))
        rounds += _rounds(len(rows) - 1, kept, names.texts)
    return Packed(entries=np.array(rows, dtype=ENTRY), rounds=np.array(rounds, dtype=ROUND))


def _entry(item: Measurement, series: int, code: int, names: Names) -> tuple[float, ...]:
    interval = item.interval
    remark = (item.reason, item.warnings) if item.reason is not None or item.warnings else None
    return (
        series,
        OUTCOMES.index(item.outcome),
        -1 if item.rounds is None else item.rounds,
        names.texts.of(item.method),
        names.texts.of(None if interval is None else interval.method),
        names.remarks.of(remark),
        code,
        np.nan if item.seconds is None else item.seconds,
        np.nan if interval is None else interval.low,
        np.nan if interval is None else interval.high,
    )


def _began(value: StoredValue, file: ResultsFile) -> float:
    if value.seconds is None:
        return np.nan
    rounds = file.rounds.get((value.benchmark, value.implementation, value.case))
    last = max(item.time for item in rounds) if rounds else value.began
    return np.nan if last is None else last


def _rounds(entry: int, kept: Sequence[Round], texts: Numbers[str]) -> Iterator[tuple[float, ...]]:
    for item in sorted(kept, key=lambda item: item.time):
        gauges = (item.core_gauge, item.memory_gauge, item.control_gauge)
        yield (
            entry,
            texts.of(item.launch),
            item.estimate,
            *(np.nan if gauge is None else gauge for gauge in gauges),
        )


def unpack(entries: bytes, rounds: bytes) -> Packed:
    """Return what was packed, from its bytes."""
    return Packed(entries=np.frombuffer(entries, dtype=ENTRY), rounds=np.frombuffer(rounds, dtype=ROUND))
