"""Adjusting recorded series: what a commit's rounds would have read had the machine kept its usual pace.

A series is adjusted by its gauges; one without (a GPU's) by the controls of the same machine, environment, method and
cache state. All of its rounds share an environment, so no adjustment crosses a change of torch.

Slopes and centres are fitted on the commits that were measured first (`basis`), so many more as stats/growth.py says:
what an old commit's time is adjusted to does not move with every new one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from kernel_velocity.harness.cases import CONTROLS
from kernel_velocity.harness.telemetry import GAUGES
from kernel_velocity.results.measurement import CONTROLS_TOGETHER, Fit, SeriesKey, Signal
from kernel_velocity.stats.adjust import NOT_KNOWN, Code, Logs, RoundKey, centre, deviations, is_usable, slopes
from kernel_velocity.stats.growth import grown


class Timed(Protocol):
    """What adjusting asks of a round; times and gauges in s, None where a gauge was not read."""

    @property
    def launch(self) -> str:
        """Identity of the launch that forked it."""

    @property
    def time(self) -> float:
        """When it began; only the order of a launch's rounds counts."""

    @property
    def estimate(self) -> float:
        """Seconds per call."""

    @property
    def core_gauge(self) -> float | None:
        """Of fixed work in the first-level cache."""

    @property
    def memory_gauge(self) -> float | None:
        """Of a fixed copy in memory."""

    @property
    def control_gauge(self) -> float | None:
        """Of a control implementation."""


Place = tuple[SeriesKey, str]  # a series and the method that timed it
Rounds = Mapping[str, Sequence[Timed]]  # by commit
Centres = Mapping[SeriesKey, float]  # log s; what each control reads as a rule
Signals = Mapping[str, tuple[Logs, float | None]]  # by name: its deviations, and what it reads as a rule, s


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A series adjusted: the estimates of its rounds by commit, s, and how they were made."""

    estimates: Mapping[str, list[float]]
    fit: Fit


def adjusted(
    recorded: Mapping[Place, Rounds], code: Mapping[Place, Code] = MappingProxyType({})
) -> dict[Place, Mapping[str, list[float]]]:
    """Return, for each series and commit, the adjusted estimates of its rounds, s; see `fitted`."""
    return {place: found.estimates for place, found in fitted(recorded, code).items()}


def fitted(recorded: Mapping[Place, Rounds], code: Mapping[Place, Code] = MappingProxyType({})) -> dict[Place, Fitted]:
    """Return every series that can be adjusted, adjusted.

    Only of series with something to adjust by that they move with, and of commits all of whose rounds have it: half of
    the rounds, adjusted, would say less than all of them as they are.

    Args:
        recorded: the rounds. code: what each series ran at its commits, where that is known.
    """
    found = {}
    for place, rounds in recorded.items():
        first = _of(rounds, basis(rounds))
        told: Logs = {}
        if not has_gauges(first):
            controls = {witness[0]: other for witness, other in recorded.items() if is_control(witness, place)}
            told = witnessed(controls, centres({key: _of(other, first) for key, other in controls.items()}))
        how = fit(first, told, code.get(place, NOT_KNOWN), place[1])
        if how is not None and (estimates := freed(how, rounds, told)):
            found[place] = Fitted(estimates=estimates, fit=how)
    return found


def basis(rounds: Rounds) -> list[str]:
    """Return the commits that slopes and centres are fitted on, in the order in which they were measured.

    By the time of each one's last round: one that is measured late, wherever it stands in the history, moves no value.
    """
    when = {commit: max(item.time for item in items) for commit, items in rounds.items() if items}
    return sorted(when, key=lambda commit: (when[commit], commit))[: grown(len(when))]


def _of(rounds: Rounds, commits: Iterable[str]) -> Rounds:
    return {commit: rounds[commit] for commit in commits if commit in rounds}


def fit(rounds: Rounds, told: Logs, code: Code, method: str) -> Fit | None:
    """Return how a series is adjusted; None where nothing tells of it.

    Args:
        rounds: those of its basis.
        told: what its controls did in the same rounds (`witnessed`); only asked where the series has no gauges.
        code: what it ran at its commits, where that is known. method: that timed it.
    """
    read = _logs(rounds, "estimate", *GAUGES)
    series = read.pop("estimate")
    signals: Signals = {CONTROLS_TOGETHER: (told, None)} if told else {}
    if any(read.values()):
        signals = _by_gauges(read, series)
    if not signals:
        return None
    betas, explained = slopes(series, [signal for signal, _ in signals.values()], code)
    if not any(betas):
        return None
    named = zip(signals.items(), betas, strict=True)
    used = tuple(Signal(name=name, slope=beta, centre=middle) for (name, (_, middle)), beta in named)
    return Fit(method=method, signals=used, explained=explained)


def has_gauges(rounds: Rounds) -> bool:
    """Return whether any gauge was read in any of the rounds."""
    return any(getattr(item, name) is not None for items in rounds.values() for item in items for name in GAUGES)


def _by_gauges(gauges: Mapping[str, Logs], series: Logs) -> Signals:
    """Return the signals of the gauges of a series that can be used."""
    used = {name: (gauge, centre(gauge)) for name, gauge in gauges.items() if is_usable(gauge, series)}
    return {name: (deviations([gauge], [middle]), math.exp(middle)) for name, (gauge, middle) in used.items()}


def centres(controls: Mapping[SeriesKey, Rounds]) -> Centres:
    """Return what controls read as a rule, from their rounds of a series' basis; of those that have some."""
    return {key: centre(found) for key, rounds in controls.items() if (found := logs(rounds))}


def witnessed(controls: Mapping[SeriesKey, Rounds], usual: Centres) -> Logs:
    """Return what the controls that have a centre did in each round, together."""
    known = [key for key in controls if key in usual]
    return deviations([logs(controls[key]) for key in known], [usual[key] for key in known])


def freed(how: Fit, rounds: Rounds, told: Logs) -> dict[str, list[float]]:
    """Return the adjusted estimates, s, of commits all of whose rounds have something to adjust by.

    A round without one of several signals is adjusted by the others.

    Args:
        how: the series is adjusted. rounds: of any of its commits. told: what its controls did in them.
    """
    gauges = {signal.name: math.log(signal.centre) for signal in how.signals if signal.centre is not None}
    read = _logs(rounds, "estimate", *gauges)
    by_name = {CONTROLS_TOGETHER: told} | {name: deviations([read[name]], [gauges[name]]) for name in gauges}
    signals = [(signal.slope, by_name[signal.name]) for signal in how.signals]
    found: dict[str, list[float]] = {}
    lacking = set()
    for key, value in read["estimate"].items():
        moves = [slope * signal[key] for slope, signal in signals if key in signal]
        found.setdefault(key[0], []).append(math.exp(value - sum(moves)))
        if not moves:
            lacking.add(key[0])
    return {commit: estimates for commit, estimates in found.items() if commit not in lacking}


def is_control(witness: Place, place: Place) -> bool:
    """Return whether a series tells of the seconds and the machine that another, which is none, was measured in."""
    (one, method), (other, wanted) = witness, place
    if one.implementation not in CONTROLS or other.implementation in CONTROLS:
        return False
    return (method, *seconds_of(one)) == (wanted, *seconds_of(other))


def seconds_of(key: SeriesKey) -> tuple[str, ...]:
    """Return what two series share that are measured in the same seconds: device and cache state, and where."""
    return key.benchmark.partition(".")[2], key.machine, key.environment


def logs(rounds: Rounds) -> Logs:
    """Return the logarithms of the estimates of rounds, in s."""
    return _logs(rounds, "estimate")["estimate"]


def _logs(rounds: Rounds, *names: str) -> dict[str, dict[RoundKey, float]]:
    """Return the logarithms of what rounds have of some values, in s; those of one launch are told by their order."""
    found: dict[str, dict[RoundKey, float]] = {name: {} for name in names}
    for commit, items in rounds.items():
        counts: dict[str, int] = {}
        for item in sorted(items, key=lambda item: item.time):
            number = counts[item.launch] = counts.get(item.launch, 0) + 1
            key = commit, f"{item.launch} {number}"
            for name, values in found.items():
                seconds = getattr(item, name)
                if seconds is not None:
                    values[key] = math.log(seconds)
    return found
