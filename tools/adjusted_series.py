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

from benchmarks.harness.cases import CONTROLS
from benchmarks.harness.telemetry import GAUGES, Round
from tools.adjustment import NOT_KNOWN, Code, Logs, RoundKey, adjust, deviations, usable
from tools.measurements import CONTROLS_TOGETHER, Fit, SeriesKey, Signal

Place = tuple[SeriesKey, str]  # a series and the method that timed it
Rounds = Mapping[str, Sequence[Round]]  # by commit


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
        signals = _signals(place, rounds, recorded)
        if signals:
            logs = [signal for signal, _ in signals.values()]
            fit = adjust(_logs(rounds, lambda item: item.estimate), logs, code=code.get(place, NOT_KNOWN))
            by_commit: dict[str, list[float]] = {}
            for (commit, _), value in fit.values.items():
                by_commit.setdefault(commit, []).append(math.exp(value))
            whole = {commit: values for commit, values in by_commit.items() if len(values) == len(rounds[commit])}
            if any(fit.betas) and whole:
                named = zip(signals.items(), fit.betas, strict=True)
                used = tuple(Signal(name=name, slope=beta, centre=centre) for (name, (_, centre)), beta in named)
                found[place] = Fitted(estimates=whole, fit=Fit(method=place[1], signals=used, explained=fit.explained))
    return found


def _signals(place: Place, rounds: Rounds, recorded: Mapping[Place, Rounds]) -> dict[str, tuple[Logs, float | None]]:
    """Return, by name, the signals of a series: their deviations, and what they read as a rule, s."""
    gauges = {name: _logs(rounds, attrgetter(name)) for name in GAUGES}
    if any(gauges.values()):
        series = _logs(rounds, lambda item: item.estimate)
        used = {name: signals[0] for name, gauge in gauges.items() if (signals := usable([gauge], series))}
        return {name: (signal, math.exp(statistics.median(gauges[name].values()))) for name, signal in used.items()}
    if place[0].implementation in CONTROLS:
        return {}
    controls = [
        _logs(other, lambda item: item.estimate) for witness, other in recorded.items() if _is_control(witness, place)
    ]
    return {CONTROLS_TOGETHER: (deviations(controls), None)} if controls else {}


def _is_control(witness: Place, place: Place) -> bool:
    """Return whether a series tells of the seconds and the machine that another was measured in."""
    (one, method), (other, wanted) = witness, place
    state, wanted_state = (key.benchmark.partition(".")[2] for key in (one, other))  # device and cache state
    return one.implementation in CONTROLS and (method, state, one.machine, one.environment) == (
        wanted,
        wanted_state,
        other.machine,
        other.environment,
    )


def _logs(rounds: Rounds, value: Callable[[Round], float | None]) -> dict[RoundKey, float]:
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
