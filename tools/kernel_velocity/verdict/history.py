"""Histories of series, from which verdicts are made: the logarithm of the adjusted value at each commit."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kernel_velocity.direction import Better
from kernel_velocity.past.past import Past
from kernel_velocity.results import identity as series_identity
from kernel_velocity.results import sessions
from kernel_velocity.results.identity import Identity, Slot
from kernel_velocity.results.measurement import OUTCOMES, Outcome, SeriesKey
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.stats import two_samples
from kernel_velocity.stats.changepoints.values import MIN_EFFECT
from kernel_velocity.verdict import change_points, controls

LEAST_ERROR = 2.0**-149  # the smallest float32: an error of 0 needs a logarithm, too
LEAST_FIGURE = 1.0  # bytes, registers: so do no spills
# Sessions of identical code that a floor needs. Of three, the t quantile alone is 9.9: such a floor hides everything.
FEWEST_SESSIONS = 5
SLACK = 60.0  # s by which a clock may be set back during a night; NTP steps by far less
_NOT_APPLICABLE = OUTCOMES.index(Outcome.NOT_APPLICABLE)


@dataclass(frozen=True, kw_only=True)
class Observation:
    """A series at one commit."""

    commit: str
    position: int  # on the first-parent line, older first
    value: float  # logarithm, of the adjusted value where there is one
    measured: float | None = None  # Unix time, s
    facts: Mapping[str, str] | None = None  # of the machine; None: not recorded
    code: str | None = None  # hash of the kernel as built; None: not recorded, or a control
    error: float = math.nan  # standard error that its rounds leave to the logarithm; NaN: unknown
    figure: float = math.nan  # an error or a figure of the code as it is recorded, 0 too; NaN: a time
    machine: float = math.nan  # what the controls of its platform share of it, log units; NaN: unknown


@dataclass(frozen=True, kw_only=True)
class SeriesHistory:
    """A series over the commits that have a value of it, oldest commit first."""

    identity: Identity
    better: Better  # which of its values are
    observations: tuple[Observation, ...]
    floor: float | None = None  # noise floor: log difference between sessions of identical code; None: not computed

    @property
    def newest(self) -> Observation:
        """The observation of the newest commit."""
        return self.observations[-1]

    @property
    def last_measured(self) -> float | None:
        """Unix time of its last measurement, s. None: unknown."""
        return max(
            (observation.measured for observation in self.observations if observation.measured is not None),
            default=None,
        )


@dataclass(frozen=True, kw_only=True)
class Histories:
    """The histories of all series."""

    series: tuple[SeriesHistory, ...]  # by identity
    absent: Mapping[Slot, tuple[str, ...]]  # the commits at which a slot did not apply, with a reason


def build(past: Past) -> Histories:
    """Return the history of every series along the first-parent line.

    Of a commit measured in two environments of one identity, the newer value counts.
    """
    observed: dict[Identity, list[Observation]] = defaultdict(list)
    absent: dict[Slot, list[str]] = defaultdict(list)
    observe, shared = _Observer(past), controls.SharedParts(past)
    columns, texts, remarks = past.layout.columns, past.names.texts, past.names.remarks
    for number, key in enumerate(past.layout.keys):
        part, entries = past.layout.part(number), past.columns(key)
        seconds = np.where(np.isnan(columns["adjusted"][part]), columns["seconds"][part], columns["adjusted"][part])
        rounds_and_machine = change_points.errors(entries), controls.left_in(entries, shared[key])
        rows = zip(
            *(columns[name][part].tolist() for name in ("position", "outcome", "method", "remark", "began")),
            *(values.tolist() for values in (seconds, *rounds_and_machine)),
            strict=True,
        )
        for position, outcome, method, remark, began, value, error, machine in rows:
            identity = series_identity.of(key, texts[method] if method else None)
            if value > 0:  # False for NaN; no time is 0 or less, and another value has no logarithm there
                observation = observe(key, identity, position, value, began)
                observed[identity].append(replace(observation, error=error, machine=machine))
            elif outcome == _NOT_APPLICABLE and remark and remarks[remark][0] is not None:  # else it was not asked for
                absent[identity.slot].append(past.line[position])
    for key, tracked in past.tracked.items():
        identity = series_identity.of(key, None)
        least = LEAST_FIGURE if identity.is_figure else LEAST_ERROR
        for position, value, began in zip(
            tracked.position.tolist(), tracked.value.tolist(), tracked.began.tolist(), strict=True
        ):
            observation = observe(key, identity, position, max(value, least), began)
            observed[identity].append(replace(observation, figure=value))
    series = tuple(
        _history(identity, past.better(identity.benchmark), several) for identity, several in sorted(observed.items())
    )
    return Histories(series=series, absent={slot: tuple(commits) for slot, commits in absent.items()})


class _Observer:
    """Makes observations, with the session in which each value was measured."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self._sessions: dict[tuple[str, str, int, float | None], SessionFacts | None] = {}

    def __call__(self, key: SeriesKey, identity: Identity, position: int, value: float, began: float) -> Observation:
        """Return the observation of a value, in its unit, at a position on the line. `began` is NaN where unknown."""
        measured = None if math.isnan(began) else began
        session = self._session(key, position, measured)
        return Observation(
            commit=self._past.line[position],
            position=position,
            value=math.log(value),
            measured=measured,
            facts=None if session is None else session.facts,
            code=None if session is None or identity.is_control else session.code.get(identity.kernel),
        )

    def _session(self, key: SeriesKey, position: int, measured: float | None) -> SessionFacts | None:
        which = key.machine, key.environment, position, measured
        if which not in self._sessions:
            path = self._past.path(key.machine, key.environment, self._past.line[position])
            self._sessions[which] = sessions.at(self._past.sessions_of(path), measured)
        return self._sessions[which]


def undated(histories: Iterable[SeriesHistory], now: float) -> tuple[SeriesHistory, ...]:
    """Return series without the measuring times that lie after `now` (Unix time, s) by more than SLACK.

    Such a time comes from a clock that was set back, or is wrong. Its value stays, but no night counts it as measured
    just now.
    """
    return tuple(
        replace(history, observations=tuple(_undated(observation, now + SLACK) for observation in history.observations))
        for history in histories
    )


def _undated(observation: Observation, latest: float) -> Observation:
    return (
        replace(observation, measured=None)
        if observation.measured is not None and observation.measured > latest
        else observation
    )


def _history(identity: Identity, better: Better, observations: Sequence[Observation]) -> SeriesHistory:
    """Return a history. Of a commit measured in two environments of one identity, the newest value counts."""
    newest = {
        observation.commit: observation
        for observation in sorted(observations, key=lambda observation: observation.measured or 0.0)
    }
    ordered = tuple(sorted(newest.values(), key=lambda observation: observation.position))
    return SeriesHistory(identity=identity, better=better, observations=ordered)


def floor_of(identity: Identity, observations: Sequence[Observation]) -> float | None:
    """Return the noise floor from sessions of identical code. None where there are fewer than FEWEST_SESSIONS.

    Leave out the observations to be judged: a move would raise the floor that it is compared with.
    """
    alike: dict[object, list[float]] = defaultdict(list)
    for observation in observations:
        if observation.code is not None or identity.is_control:
            alike[observation.code, tuple(sorted((observation.facts or {}).items()))].append(observation.value)
    most = max(alike.values(), key=len, default=[])
    return two_samples.floor_of(most) if len(most) >= FEWEST_SESSIONS and statistics.pvariance(most) > 0 else None


def threshold(history: SeriesHistory) -> float:
    """Return the least move of log values that counts: the noise floor, at least MIN_EFFECT."""
    return max(MIN_EFFECT, history.floor or 0.0)
