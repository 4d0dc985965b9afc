"""Adjust recorded series: estimate what a commit's rounds would have read had the machine kept its usual pace. Pure.

A series is adjusted by its gauges. A series without gauges (a GPU's) is adjusted by the controls of the same machine,
environment, method and cache state. All its rounds share an environment, so no adjustment crosses a change of torch.

Slopes and centres are fitted on the commits that were measured first (`basis`), so that adjusted times of old commits
stay the same until the history has grown by an eighth (`adjust.grown`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from kernel_velocity.engine.telemetry import GAUGES, Round
from kernel_velocity.names import CONTROLS
from kernel_velocity.results.measurement import CONTROLS_TOGETHER, Fit, SeriesKey, Signal
from kernel_velocity.stats import adjust
from kernel_velocity.stats.adjust import NO_CODE, Code, Logs, RoundKey, centre, deviations, grown, is_usable, slopes


class RoundTimes(NamedTuple):
    """The part of a round that adjusting reads. Times and gauges in s, None for a gauge that was not read."""

    launch: str  # identity of the launch that forked it
    time: float  # when it began, or its index: only the order of a launch's rounds counts
    estimate: float  # seconds per call
    core_gauge: float | None
    memory_gauge: float | None
    control_gauge: float | None


TimedSeries = tuple[SeriesKey, str]  # a series, and the method that timed it
Rounds = Mapping[str, Sequence[Round | RoundTimes]]  # by commit
Centres = Mapping[SeriesKey, float]  # usual reading of each control, log s


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """An adjusted series: the estimates of its rounds by commit, s, and the fit behind them."""

    estimates: Mapping[str, list[float]]
    fit: Fit


def adjusted(
    recorded: Mapping[TimedSeries, Rounds], code: Mapping[TimedSeries, Code] = MappingProxyType({})
) -> dict[TimedSeries, Mapping[str, list[float]]]:
    """Return, for each series and commit, the adjusted estimates of its rounds, s. See `fitted`."""
    return {key: series.estimates for key, series in fitted(recorded, code).items()}


def fitted(
    recorded: Mapping[TimedSeries, Rounds], code: Mapping[TimedSeries, Code] = MappingProxyType({})
) -> dict[TimedSeries, Fitted]:
    """Return every series that moves with its gauges or controls, adjusted.

    Commits with a round that cannot be adjusted are left out: half of their rounds say less than all of them raw.

    Args:
        recorded: rounds.
        code: what each series ran at its commits, where that is known.
    """
    result = {}
    for subject, rounds in recorded.items():
        first = _of(rounds, basis(rounds))
        controls: Logs = {}
        if not any(
            getattr(round_, name) is not None for group in first.values() for round_ in group for name in GAUGES
        ):
            beside = {witness[0]: other for witness, other in recorded.items() if is_control(witness, subject)}
            controls = witnessed(beside, centres({key: _of(other, first) for key, other in beside.items()}))
        how = fit(first, controls, code.get(subject, NO_CODE), subject[1])
        if how is not None and (estimates := freed(how, rounds, controls)):
            result[subject] = Fitted(estimates=estimates, fit=how)
    return result


def basis(rounds: Rounds) -> list[str]:
    """Return the commits that slopes and centres are fitted on, in the order in which they were measured.

    The time of a commit's last round counts: a commit that is measured late moves no value, wherever it stands.
    """
    when = {commit: max(round_.time for round_ in group) for commit, group in rounds.items() if group}
    return sorted(when, key=lambda commit: (when[commit], commit))[: grown(len(when))]


def _of(rounds: Rounds, commits: Iterable[str]) -> Rounds:
    return {commit: rounds[commit] for commit in commits if commit in rounds}


def fit(rounds: Rounds, controls: Logs, code: Code, method: str) -> Fit | None:
    """Return how a series is adjusted. None where it moves with no signal.

    Args:
        rounds: those of its basis.
        controls: deviations of its controls in the same rounds (`witnessed`). Used only where no gauge was read.
        code: what it ran at its commits, where that is known.
        method: hash of the method that timed it.
    """
    read = _logs(rounds, "estimate", *GAUGES)
    series = read.pop("estimate")
    signals: dict[str, tuple[Logs, float | None]] = {CONTROLS_TOGETHER: (controls, None)} if controls else {}
    if any(read.values()):
        middles = {name: centre(gauge) for name, gauge in read.items() if is_usable(gauge, series)}
        signals = {name: (deviations([read[name]], [middle]), math.exp(middle)) for name, middle in middles.items()}
    betas, explained = slopes(series, [signal for signal, _ in signals.values()], code)
    if not any(betas):
        return None
    named = zip(signals.items(), betas, strict=True)
    used = tuple(Signal(name=name, slope=beta, centre=middle) for (name, (_, middle)), beta in named)
    return Fit(method=method, signals=used, explained=explained)


def centres(controls: Mapping[SeriesKey, Rounds]) -> Centres:
    """Return the usual readings of the controls that have rounds in a series' basis."""
    return {
        key: centre(values) for key, rounds in controls.items() if (values := _logs(rounds, "estimate")["estimate"])
    }


def witnessed(controls: Mapping[SeriesKey, Rounds], usual: Centres) -> Logs:
    """Return the mean deviation of the controls that have a centre, by round."""
    keys = [key for key in controls if key in usual]
    return deviations([_logs(controls[key], "estimate")["estimate"] for key in keys], [usual[key] for key in keys])


def freed(how: Fit, rounds: Rounds, controls: Logs) -> dict[str, list[float]]:
    """Return the adjusted estimates, s, of the commits all of whose rounds have a signal.

    Args:
        how: the fit of the series.
        rounds: of any of its commits.
        controls: deviations of its controls in them.
    """
    middles = {signal.name: math.log(signal.centre) for signal in how.signals if signal.centre is not None}
    read = _logs(rounds, "estimate", *middles)
    by_name = {CONTROLS_TOGETHER: controls} | {name: deviations([read[name]], [middles[name]]) for name in middles}
    signals = [by_name[signal.name] for signal in how.signals]
    values = adjust.adjusted(read["estimate"], signals, [signal.slope for signal in how.signals])
    whole: dict[str, list[float]] = {}
    for key in read["estimate"]:
        whole.setdefault(key[0], []).append(math.exp(values[key]) if key in values else math.nan)
    return {commit: estimates for commit, estimates in whole.items() if not any(map(math.isnan, estimates))}


def is_control(witness: TimedSeries, subject: TimedSeries) -> bool:
    """Return whether `witness` is a control measured in the same seconds and on the same machine as `subject`."""
    (control, method), (series, wanted) = witness, subject
    if control.implementation not in CONTROLS or series.implementation in CONTROLS:
        return False
    return (method, *shared_conditions(control)) == (wanted, *shared_conditions(series))


def shared_conditions(key: SeriesKey) -> tuple[str, ...]:
    """Return what series measured in the same seconds share: device and cache state, machine, environment."""
    return key.benchmark.partition(".")[2], key.machine, key.environment


def _logs(rounds: Rounds, *names: str) -> dict[str, dict[RoundKey, float]]:
    """Return the logarithms of some fields of the rounds, in s. Rounds of one launch are numbered by their time."""
    values: dict[str, dict[RoundKey, float]] = {name: {} for name in names}
    for commit, group in rounds.items():
        counts: dict[str, int] = {}
        for round_ in sorted(group, key=lambda round_: round_.time):
            number = counts[round_.launch] = counts.get(round_.launch, 0) + 1
            for name in names:
                seconds = getattr(round_, name)
                if seconds is not None:
                    values[name][commit, f"{round_.launch} {number}"] = math.log(seconds)
    return values
