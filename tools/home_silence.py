"""What the home page says of series that are silent: machines that went quiet, series that no longer apply.

The same policy as a night's (`absences`), on what the pages know of a series: its newest value is enough.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from tools import absences, series_identity, verdict_text
from tools.absences import Vanished
from tools.columns import OUTCOMES
from tools.finding import Kind
from tools.histories import Observation, SeriesHistory
from tools.measurements import Outcome, SeriesKey
from tools.pages import SHORT
from tools.series_identity import Identity, Slot
from tools.site import Site

NAMED = 3  # series of a line that are named; all are counted
_NOT_APPLICABLE = OUTCOMES.index(Outcome.NOT_APPLICABLE)


@dataclass(frozen=True, kw_only=True)
class LastMeasured:
    """When a machine was measured last."""

    machine: str
    when: str  # "2026-11-22 03:00 UTC"
    iso: str  # the same, for scripts
    seconds: float  # Unix time


@dataclass(frozen=True, kw_only=True)
class Silence:
    """What is silent, a line each."""

    stale: tuple[str, ...]
    vanished: tuple[str, ...]


def build(found: Site) -> Silence:
    """Return what is silent, counted from the newest value or verdict of any machine: no clock is read."""
    known = [(key, when) for key in found.keys if (when := found.last_measured(key)) is not None]
    now = max([when for _, when in known] + [item.when.timestamp() for item in found.verdicts], default=0.0)
    histories, absent = _histories(found)
    told = {one.identity for item in found.findings if item.kind is Kind.VANISHED for one in item.affected}
    return Silence(
        stale=tuple(verdict_text.stale(item) for item in absences.stale(histories, now)),
        vanished=tuple(
            _gone(item for item in absences.vanished(histories, absent, found.order) if item.identity not in told)
        ),
    )


def last_measured(found: Site) -> tuple[LastMeasured, ...]:
    """Return when each machine was measured last, the newest first; machines that nobody knows it of are left out."""
    newest: dict[str, float] = {}
    for key in found.keys:
        when = found.last_measured(key)
        if when is not None:
            newest[key.machine] = max(when, newest.get(key.machine, when))
    return tuple(
        LastMeasured(machine=machine, when=f"{at:%Y-%m-%d %H:%M} UTC", iso=at.isoformat(), seconds=seconds)
        for machine, seconds in sorted(newest.items(), key=lambda pair: (-pair[1], pair[0]))
        for at in [datetime.fromtimestamp(seconds, UTC)]
    )


def _histories(found: Site) -> tuple[tuple[SeriesHistory, ...], dict[Slot, list[str]]]:
    """Return the series, each with its newest value alone, and the commits at which a slot did not apply."""
    newest: dict[Identity, Observation] = {}
    absent: dict[Slot, list[str]] = defaultdict(list)
    for key in found.keys:
        identity, observation, without = _looked_at(found, key)
        absent[identity.slot] += without
        known = newest.get(identity)
        if observation is not None and (known is None or known.place < observation.place):
            newest[identity] = observation
    made = (SeriesHistory(identity=identity, observations=(item,)) for identity, item in sorted(newest.items()))
    return tuple(made), absent


def _looked_at(found: Site, key: SeriesKey) -> tuple[Identity, Observation | None, list[str]]:
    """Return a series' identity, its newest value, and the commits that said that it does not apply."""
    series = found.series(key)
    without = [
        found.line[series.place[entry]] for entry in series.reasons if series.outcome[entry] == _NOT_APPLICABLE
    ]  # without a reason it was not asked for
    measured = series.is_measured.nonzero()[0]
    if not len(measured):
        return series_identity.of(key, None), None, without
    last = int(measured[-1])
    method = series.methods[series.method[last]] if series.method[last] >= 0 else None
    place = int(series.place[last])
    observation = Observation(
        commit=found.line[place],
        place=place,
        value=math.log(series.seconds[last]),
        measured=found.last_measured(key),
    )
    return series_identity.of(key, method), observation, without


def _gone(items: Iterable[Vanished]) -> list[str]:
    """Return a line for each kernel, machine and commit at which series no longer apply."""
    causes: dict[tuple[str, str, str], list[Vanished]] = defaultdict(list)
    for item in items:
        causes[item.identity.machine, item.identity.kernel, item.commit].append(item)
    return [
        f"{machine}: {kernel} has had no value of {_named([str(item.identity) for item in group])} "
        f"since {commit[:SHORT]}, the last at {group[0].last[:SHORT]}"
        for (machine, kernel, commit), group in causes.items()
    ]


def _named(names: list[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more:,} more" if more > 0 else "")
