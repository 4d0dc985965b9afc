"""The adjusted times of a layout: computed for the series whose rounds changed, taken from the cache for the others."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.cases import CONTROLS
from benchmarks.harness.statistics import FloatArray
from benchmarks.harness.telemetry import GAUGES
from tools import adjusted_series, recorded
from tools.adjusted_series import Fitted
from tools.adjustment import Logs
from tools.entries import NOTHING, Entries
from tools.measurements import Fit, SeriesKey, Signal
from tools.report_cache import Cache
from tools.series_layout import ADJUSTED, Layout

_BLOCK = 2_000_000  # rounds held at a time: 80 MB
_NEVER = float("nan")


class _Seen(NamedTuple):
    """A round, as adjusting asks for it."""

    launch: str
    time: float  # its place in the order of the commit's rounds
    estimate: float
    core_gauge: float | None
    memory_gauge: float | None
    control_gauge: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class _Rounds:
    """The rounds of one series."""

    slots: NDArray[np.int32]  # where the value of each lies in the columns, ascending
    rounds: Entries


@dataclass
class _Work:
    """What is known while the series of a layout are adjusted."""

    cache: Cache
    layout: Layout
    paths: tuple[str, ...]  # of the results files that have rounds
    controls: dict[tuple[str, ...], list[int]]
    witnesses: dict[tuple[int, ...], tuple[list[Logs], bytes]] = field(default_factory=dict)
    fits: dict[SeriesKey, Fit] = field(default_factory=dict)
    computed: int = 0
    made: list[bytes] = field(default_factory=list)  # names of the series that have some, and those


@dataclass(frozen=True, kw_only=True)
class Filled:
    """What was done."""

    computed: int  # series whose adjusted times were computed
    fits: Mapping[SeriesKey, Fit]  # how the newest value of each series was adjusted
    digest: str  # of all adjusted times


def fill(cache: Cache, layout: Layout) -> Filled:
    """Fill in the adjusted times. `cache.save` makes them last."""
    for name in ADJUSTED:
        for number in range(len(layout.keys)):
            layout.columns[name][layout.part(number, on_line=False)] = _NEVER
    timed = cache.with_rounds()
    work = _Work(cache, layout, tuple(path for path in layout.files if path in timed), _controls(layout))
    for block in _blocks(layout) if work.paths else ():
        for number, found in _gathered(work, block):
            _fill(work, number, found)
    digest = hashlib.sha256(b"".join(work.made)).hexdigest()
    return Filled(computed=work.computed, fits=work.fits, digest=digest)


def _controls(layout: Layout) -> dict[tuple[str, ...], list[int]]:
    """Return the series of controls, by the seconds that they tell of."""
    found: dict[tuple[str, ...], list[int]] = {}
    for number, key in enumerate(layout.keys):
        if key.implementation in CONTROLS:
            found.setdefault(adjusted_series.seconds_of(key), []).append(number)
    return found


def _blocks(layout: Layout) -> Iterator[list[int]]:
    """Yield the series that have rounds, as many at a time as may be held in memory."""
    block: list[int] = []
    held = 0
    for number in range(len(layout.keys)):
        counts = layout.columns["rounds"][layout.part(number, on_line=False)]
        count = int(counts[counts > 0].sum())
        if block and held + count > _BLOCK:
            yield block
            block, held = [], 0
        if count:
            block.append(number)
            held += count
    if block:
        yield block


def _gathered(work: _Work, numbers: Sequence[int]) -> Iterator[tuple[int, _Rounds]]:
    """Yield the rounds of some series."""
    wanted = np.zeros(len(work.layout.keys) + 1, np.bool_)
    wanted[list(numbers)] = True
    slots, rounds = [], []
    for path in work.paths:
        found = work.cache.rounds(path)
        lie = work.layout.files[path][found["entry"]]
        kept = (lie >= 0) & wanted[work.layout.owners(lie)]
        slots.append(lie[kept])
        rounds.append(found[kept])
    all_slots, all_rounds = np.concatenate(slots), np.concatenate(rounds)
    order = np.argsort(all_slots, kind="stable")
    all_slots, all_rounds = all_slots[order], all_rounds[order]
    for number in numbers:
        part = slice(
            *np.searchsorted(all_slots, [work.layout.start[number], work.layout.stop[number]]).astype(int).tolist()
        )
        yield number, _Rounds(slots=all_slots[part], rounds=all_rounds[part])


def _fill(work: _Work, number: int, found: _Rounds) -> None:
    layout, key = work.layout, work.layout.keys[number]
    part = layout.part(number, on_line=False)
    methods = layout.columns["method"][found.slots]
    witnesses = {
        method: _witnesses(work, key, method)
        for method in sorted(set(methods.tolist()))
        if not _has_gauges(found.rounds[methods == method])
    }
    digest = _digest(layout, number, found, [digest for _, digest in witnesses.values()])
    name = json.dumps(astuple(key))
    kept = work.cache.adjusted(name)
    if kept is None or kept[0] != digest:
        work.computed += 1
        values, fit = _adjusted(work, part, found, {method: logs for method, (logs, _) in witnesses.items()})
        kept = digest, values.tobytes(), "" if fit is None else json.dumps(asdict(fit))
        work.cache.put_adjusted(name, *kept)
    if kept[2]:
        work.fits[key] = _fit(json.loads(kept[2]))
    rows = np.frombuffer(kept[1], np.float64).reshape(len(ADJUSTED), part.stop - part.start)
    if not np.isnan(rows).all():
        work.made += [name.encode(), kept[1]]
    for column, row in zip(ADJUSTED, rows, strict=True):
        layout.columns[column][part] = row


def _adjusted(
    work: _Work, part: slice, found: _Rounds, witnesses: Mapping[int, Sequence[Logs]]
) -> tuple[FloatArray, Fit | None]:
    """Return the columns ADJUSTED of a series, and how its newest adjusted value was made; None where none was."""
    values = np.full((len(ADJUSTED), part.stop - part.start), _NEVER)
    newest: tuple[int, Fit | None] = (-1, None)
    for method in sorted(set(work.layout.columns["method"][found.slots].tolist())):
        made = _computed(work, found, method, witnesses.get(method, ()))
        if made is None:
            continue
        for slot, times in _times(work, found, made):
            values[:, slot - part.start] = times
            newest = max(newest, (slot, made.fit), key=lambda pair: pair[0])
    return values, newest[1]


def _fit(kept: Mapping[str, Any]) -> Fit:
    return Fit(**{**kept, "signals": tuple(Signal(**each) for each in kept["signals"])})


def _has_gauges(rounds: Entries) -> bool:
    return any(not np.isnan(rounds[name]).all() for name in GAUGES)


def _digest(layout: Layout, number: int, found: _Rounds, witnesses: Sequence[bytes]) -> bytes:
    """Return what tells whether a series' adjusted times are still those of its rounds."""
    part = layout.part(number, on_line=False)
    made = hashlib.sha256(repr((part.stop - part.start, len(found.rounds))).encode())
    made.update((found.slots - part.start).tobytes() + found.rounds.tobytes())
    for name in ("method", "code"):
        made.update(layout.columns[name][part].tobytes())
    made.update("".join(layout.commits[one] for one in layout.commit[part]).encode())
    return made.digest() + b"".join(witnesses)


def _computed(work: _Work, found: _Rounds, method: int, controls: Sequence[Logs]) -> Fitted | None:
    """Return the rounds of a series that a method timed, adjusted, by commit (its number in the layout, as text)."""
    rounds = _by_commit(work, found, method)
    signals = adjusted_series.own_signals(rounds)
    if signals is None:
        signals = adjusted_series.witnessed(controls)
    texts, codes = work.cache.names.texts, work.layout.columns["code"]
    slots = dict(zip(work.layout.commit[found.slots].tolist(), found.slots.tolist(), strict=True))
    known = {str(commit): texts[int(codes[slot])] for commit, slot in slots.items() if codes[slot] != NOTHING}
    return adjusted_series.free(rounds, signals, known, texts[method])


def _times(work: _Work, found: _Rounds, made: Fitted) -> Iterator[tuple[int, tuple[float, float, float]]]:
    """Yield (place in the columns, (adjusted time, lower bound, upper bound)), s."""
    slots = dict(zip(work.layout.commit[found.slots].tolist(), found.slots.tolist(), strict=True))
    for commit, estimates in made.estimates.items():
        fair = recorded.fair(estimates)
        bounds = fair.interval
        yield slots[int(commit)], (fair.seconds, *((_NEVER, _NEVER) if bounds is None else (bounds.low, bounds.high)))


def _by_commit(work: _Work, found: _Rounds, method: int) -> dict[str, list[_Seen]]:
    """Return the rounds that a method timed, by commit (its number in the layout, as text)."""
    ours = work.layout.columns["method"][found.slots] == method
    columns = [found.rounds[name][ours].tolist() for name in ("launch", "estimate", *GAUGES)]
    by_commit: dict[str, list[_Seen]] = {}
    for commit, launch, estimate, *gauges in zip(work.layout.commit[found.slots[ours]].tolist(), *columns, strict=True):
        known = (None if math.isnan(gauge) else gauge for gauge in gauges)
        rounds = by_commit.setdefault(str(commit), [])
        rounds.append(_Seen(str(launch), len(rounds), estimate, *known))
    return by_commit


def _witnesses(work: _Work, key: SeriesKey, method: int) -> tuple[list[Logs], bytes]:
    """Return the logarithms of the controls of a series without gauges, and what tells whether they are the same."""
    numbers = [
        number
        for number in work.controls.get(adjusted_series.seconds_of(key), ())
        if adjusted_series.is_control((work.layout.keys[number], str(method)), (key, str(method)))
    ]
    kept = work.witnesses.get((*numbers, method))
    if kept is None:
        found = [(number, each) for number, each in _gathered(work, numbers) if len(each.rounds)]
        logs = [adjusted_series.logs(_by_commit(work, each, method)) for _, each in found]
        digest = hashlib.sha256(b"".join(_digest(work.layout, number, each, []) for number, each in found)).digest()
        kept = work.witnesses[*numbers, method] = [log for log in logs if log], digest
    return kept
