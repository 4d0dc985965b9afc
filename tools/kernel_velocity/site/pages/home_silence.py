"""What the home page says of series that are silent: machines that went quiet, series that no longer apply.

The same policy as a night's (`absences`), on what the pages know of a series: its newest value is enough.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from kernel_velocity import moments
from kernel_velocity.findings import verdict_text
from kernel_velocity.findings.finding import Kind
from kernel_velocity.results import identity as series_identity
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.identity import Identity, Slot
from kernel_velocity.results.measurement import OUTCOMES, Outcome, SeriesKey
from kernel_velocity.series import silence as absences
from kernel_velocity.series.history import Observation, SeriesHistory
from kernel_velocity.series.silence import Vanished
from kernel_velocity.site.model import Site

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
    doubt: str  # why the first may be wrong; "" where nothing says so


def build(found: Site) -> Silence:
    """Return what is silent, counted from the newest value or verdict of any machine: no clock is read."""
    heard = _heard(found)
    histories, absent = _histories(found)
    stale = tuple(verdict_text.stale(item) for item in absences.stale(histories, max(heard.values(), default=0.0)))
    told = {one.identity for item in found.findings if item.kind is Kind.VANISHED for one in item.affected}
    return Silence(
        stale=stale,
        vanished=tuple(
            _gone(item for item in absences.vanished(histories, absent, found.order) if item.identity not in told)
        ),
        doubt=_doubt(heard) if stale else "",
    )


def _heard(found: Site) -> dict[str, float]:
    """Return when each machine was heard of last, by its own clock: of a value or a night's verdict, Unix time, s."""
    heard = _measured(found)
    for item in found.verdicts:
        heard[item.machine] = max(item.when.timestamp(), heard.get(item.machine, 0.0))
    return heard


def _measured(found: Site) -> dict[str, float]:
    newest: dict[str, float] = {}
    for key in found.keys:
        when = found.last_measured(key)
        if when is not None:
            newest[key.machine] = max(when, newest.get(key.machine, when))
    return newest


def _doubt(heard: Mapping[str, float]) -> str:
    """Return whose clock alone makes all the others silent; "" where one of them is as late.

    Note: a machine of a later time that is trusted only as far as nights' verdicts go was rejected: where nights have
    stopped, silence is what has to be said.
    """
    *others, (last, machine) = sorted((when, machine) for machine, when in heard.items())
    ahead = (last - others[-1][0]) / absences.DAY if others else 0.0
    if ahead < absences.STALE_AFTER:
        return ""
    return (
        f"Days are counted up to {machine}, {moments.utc(last)}: {ahead:.1f} days after any other machine was heard "
        "of. If its clock is wrong, so are they."
    )


def last_measured(found: Site) -> tuple[LastMeasured, ...]:
    """Return when each machine was measured last, the newest first; machines that nobody knows it of are left out."""
    return tuple(
        LastMeasured(machine=machine, when=f"{at:%Y-%m-%d %H:%M} UTC", iso=at.isoformat(), seconds=seconds)
        for machine, seconds in sorted(_measured(found).items(), key=lambda pair: (-pair[1], pair[0]))
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
