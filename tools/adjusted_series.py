"""Adjusting recorded series: what a commit's rounds would have read had the machine kept its usual pace.

A series is adjusted by its gauges; one without (a GPU's) by the controls of the same machine, environment, method and
cache state. All of its rounds share an environment, so no adjustment crosses a change of torch.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Protocol

from benchmarks.harness.cases import CONTROLS
from benchmarks.harness.telemetry import GAUGES
from tools.adjustment import NOT_KNOWN, Code, Logs, RoundKey, adjust, deviations, usable
from tools.measurements import CONTROLS_TOGETHER, Fit, SeriesKey, Signal


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
        signals = own_signals(rounds)
        if signals is None:
            signals = witnessed([logs(other) for witness, other in recorded.items() if is_control(witness, place)])
        whole = free(rounds, signals, code.get(place, NOT_KNOWN), place[1])
        if whole is not None:
            found[place] = whole
    return found


def own_signals(rounds: Rounds) -> Signals | None:
    """Return the signals of a series' gauges that can be used; None where it has no gauges."""
    gauges = {name: _logs(rounds, attrgetter(name)) for name in GAUGES}
    if not any(gauges.values()):
        return None
    series = logs(rounds)
    used = {name: signals[0] for name, gauge in gauges.items() if (signals := usable([gauge], series))}
    return {name: (signal, math.exp(statistics.median(gauges[name].values()))) for name, signal in used.items()}


def witnessed(controls: Sequence[Logs]) -> Signals:
    """Return the signal of a series' controls."""
    return {CONTROLS_TOGETHER: (deviations(controls), None)} if controls else {}


def free(rounds: Rounds, signals: Signals, code: Code, method: str) -> Fitted | None:
    """Return a series adjusted, of commits all of whose rounds have the signals; None where they tell nothing."""
    if not signals:
        return None
    fit = adjust(logs(rounds), [signal for signal, _ in signals.values()], code=code)
    by_commit: dict[str, list[float]] = {}
    for (commit, _), value in fit.values.items():
        by_commit.setdefault(commit, []).append(math.exp(value))
    whole = {commit: values for commit, values in by_commit.items() if len(values) == len(rounds[commit])}
    if not any(fit.betas) or not whole:
        return None
    named = zip(signals.items(), fit.betas, strict=True)
    used = tuple(Signal(name=name, slope=beta, centre=centre) for (name, (_, centre)), beta in named)
    return Fitted(estimates=whole, fit=Fit(method=method, signals=used, explained=fit.explained))


def is_control(witness: Place, place: Place) -> bool:
    """Return whether a series tells of the seconds and the machine that another, which is none, was measured in."""
    (one, method), (other, wanted) = witness, place
    if one.implementation not in CONTROLS or other.implementation in CONTROLS:
        return False
    return (method, *seconds_of(one)) == (wanted, *seconds_of(other))


def seconds_of(key: SeriesKey) -> tuple[str, ...]:
    """Return what two series share that are measured in the same seconds: device and cache state, and where."""
    return key.benchmark.partition(".")[2], key.machine, key.environment


def logs(rounds: Rounds) -> dict[RoundKey, float]:
    """Return the logarithms of the estimates of rounds, in s."""
    return _logs(rounds, attrgetter("estimate"))


def _logs(rounds: Rounds, value: Callable[[Timed], float | None]) -> dict[RoundKey, float]:
    """Return the logarithm of what rounds have of a value, in s; rounds of one launch are told apart by their order."""
    found: dict[RoundKey, float] = {}
    for commit, items in rounds.items():
        counts: dict[str, int] = {}
        for item in sorted(items, key=lambda item: item.time):
            number = counts[item.launch] = counts.get(item.launch, 0) + 1
            seconds = value(item)
            if seconds is not None:
                found[commit, f"{item.launch} {number}"] = math.log(seconds)
    return found
