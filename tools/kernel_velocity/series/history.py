"""From what is recorded to histories of series, which verdicts are made from: adjusted log values by commit. Pure."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kernel_velocity.results import identity as series_identity
from kernel_velocity.results import sessions
from kernel_velocity.results.identity import Identity, Slot, environment_of
from kernel_velocity.results.measurement import Measurement, Outcome
from kernel_velocity.results.records import Recorded, ResultsFile
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.stats import two_samples

LEAST_ERROR = 2.0**-149  # the smallest float32: an error of 0 needs a logarithm, too
LEAST_FIGURE = 1.0  # bytes, registers: so do no spills
# Sessions of identical code that a floor is made from. Of three, the t quantile alone is 9.9: a floor that hides all.
FEWEST_SESSIONS = 5
SLACK = 60.0  # s by which a clock may be set back in the night whose values it dates: what NTP steps by is far less
LEAST = math.log1p(two_samples.LEAST)  # of log values: a smaller move is worth no word, whatever the floor


@dataclass(frozen=True, kw_only=True)
class Observation:
    """A series at one commit."""

    commit: str
    place: int  # on the first-parent line, older first
    value: float  # logarithm, of the adjusted value where there is one
    measured: float | None = None  # Unix time, s
    facts: Mapping[str, str] | None = None  # what the machine was; None: not recorded
    code: str | None = None  # hash of the kernel as built; None: not recorded, or not the kernel's business


@dataclass(frozen=True, kw_only=True)
class SeriesHistory:
    """A series over the commits that have a value of it, oldest commit first."""

    identity: Identity
    observations: tuple[Observation, ...]
    floor: float | None = None  # of log values: what identical code differs by between sessions; None: not looked at

    @property
    def newest(self) -> Observation:
        """The observation of the newest commit."""
        return self.observations[-1]

    @property
    def last_measured(self) -> float | None:
        """Unix time at which any of it was last measured, s; None: nothing says."""
        return max((item.measured for item in self.observations if item.measured is not None), default=None)


def build(
    recorded: Recorded, items: Iterable[Measurement], order: Mapping[str, int]
) -> tuple[tuple[SeriesHistory, ...], dict[Slot, tuple[str, ...]]]:
    """Return the histories, and by slot of a series the commits at which it said that it does not apply.

    Args:
        recorded: of a results directory. items: its measurements (`recorded.measurements`).
        order: commit -> place on the first-parent line, older first; what was measured beside it is left out.
    """
    files = {(file.machine, file.environment, file.commit): file for file in reversed(recorded.files)}
    grouped: dict[Identity, list[Observation]] = defaultdict(list)
    absent: dict[Slot, list[str]] = defaultdict(list)
    times = _times(recorded)
    for item in items:
        if item.commit not in order:
            continue
        file = files[item.key.machine, item.key.environment, item.commit]
        if item.outcome is Outcome.NOT_APPLICABLE and item.reason is not None:  # else it was not asked for
            absent[_identity(item).slot].append(item.commit)
        elif item.seconds is not None:
            value = item.adjusted.seconds if item.adjusted else item.seconds
            place = (file, item.key.benchmark, item.key.implementation, item.key.case)
            found = _observation(file, _identity(item), value, times[_key(*place)], order)
            grouped[_identity(item)].append(found)
    for identity, found in _tracked(recorded, order):
        grouped[identity].append(found)
    histories = tuple(_history(identity, found) for identity, found in sorted(grouped.items()))
    return histories, {slot: tuple(commits) for slot, commits in absent.items()}


def undated(items: Iterable[SeriesHistory], now: float) -> tuple[SeriesHistory, ...]:
    """Return series in which no value says that it was measured after `now` (Unix time, s): nothing then says when.

    A clock was set back by more than SLACK, or is wrong. The values count, as of before; none may pass for what a night
    has just measured.
    """
    return tuple(
        replace(history, observations=tuple(_undated(item, now + SLACK) for item in history.observations))
        for history in items
    )


def _undated(item: Observation, latest: float) -> Observation:
    return replace(item, measured=None) if item.measured is not None and item.measured > latest else item


Key = tuple[str, str, str, str, str, str]  # machine, environment, commit, benchmark, implementation, case


def _key(file: ResultsFile, benchmark: str, implementation: str, case: str) -> Key:
    return file.machine, file.environment, file.commit, benchmark, implementation, case


def _times(recorded: Recorded) -> dict[Key, float | None]:
    """Return when each stored time was measured: when its last round began, else what asv says of it."""
    found: dict[Key, float | None] = {}
    for file in recorded.files:
        for value in file.values:
            rounds = file.rounds.get((value.benchmark, value.implementation, value.case), ())
            began = max((item.time for item in rounds), default=value.began)
            found.setdefault(_key(file, value.benchmark, value.implementation, value.case), began)
    return found


def _identity(item: Measurement) -> Identity:
    return series_identity.of(item.key, item.method)


def _tracked(recorded: Recorded, order: Mapping[str, int]) -> Iterator[tuple[Identity, Observation]]:
    for file in recorded.files:
        for item in file.tracked if file.commit in order else ():
            if item.value is None or item.value < 0:
                continue
            identity = Identity(
                machine=file.machine,
                environment=environment_of(file.environment, item.implementation),
                benchmark=item.benchmark,
                implementation=item.implementation,
                case=item.case,
                version=item.version or "",
                method="",
            )
            least = LEAST_FIGURE if identity.is_figure else LEAST_ERROR
            yield identity, _observation(file, identity, max(item.value, least), item.began, order)


def _observation(
    file: ResultsFile, identity: Identity, value: float, measured: float | None, order: Mapping[str, int]
) -> Observation:
    session: SessionFacts | None = sessions.at(file.sessions, measured)
    return Observation(
        commit=file.commit,
        place=order[file.commit],
        value=math.log(value),
        measured=measured,
        facts=None if session is None else session.facts,
        code=None if session is None or identity.is_control else session.code.get(identity.kernel),
    )


def _history(identity: Identity, found: Sequence[Observation]) -> SeriesHistory:
    """Return a series; of a commit measured in two environments that are one identity, its newest value."""
    newest = {item.commit: item for item in sorted(found, key=lambda item: item.measured or 0.0)}
    ordered = tuple(sorted(newest.values(), key=lambda item: item.place))
    return SeriesHistory(identity=identity, observations=ordered)


def floor_of(identity: Identity, observations: Sequence[Observation]) -> float | None:
    """Return what sessions of identical code differ by; None where too few are known to be identical.

    Those that are judged must not be among them: a move would raise the floor that it is held against.
    """
    alike: dict[object, list[float]] = defaultdict(list)
    for item in observations:
        if item.code is not None or identity.is_control:
            alike[item.code, tuple(sorted((item.facts or {}).items()))].append(item.value)
    most = max(alike.values(), key=len, default=[])
    return two_samples.floor_of(most) if len(most) >= FEWEST_SESSIONS and statistics.pvariance(most) > 0 else None


def threshold(history: SeriesHistory) -> float:
    """Return the least move of log values that counts: what identical code differs by, and never under LEAST."""
    return max(LEAST, history.floor or 0.0)
