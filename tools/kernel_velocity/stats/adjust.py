"""Adjusting: freeing a series of what the machine did to it, by what it did to something that no commit can change.

Such witnesses are the gauges, fixed work timed beside the very samples of a round (harness/gauges.py), and
the controls, PyTorch's implementations measured in the same session. Of each the deviation from its median is a signal,

    adjusted = log t - sum over signals of beta * deviation in that round

with the betas fitted per series, and shrunk to 0 where the series does not move with the signal. Pure.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernel_velocity.harness.statistics import FloatArray

RoundKey = tuple[str, str]  # session, launch: what was measured under one key shared a process and its seconds

Logs = Mapping[RoundKey, float]  # log of seconds, by round

Code = Mapping[str, str]  # what ran in a session or commit; those that it does not name ran something of their own
NOT_KNOWN: Code = {}

IntArray = np.ndarray[tuple[int], np.dtype[np.intp]]

HUBER = 1.345  # residuals beyond so many standard deviations count less: 95% efficient where the noise is normal
NORMAL_MAD = 1.4826  # standard deviations of a normal distribution in its median absolute deviation
ITERATIONS = 20  # of reweighting; it has settled to .1% after ten
WHOLE = 0.9  # share of the rounds that a gauge must have been read in; those without it are not adjusted
MIN_ROUNDS = 8  # per signal: a slope of fewer points is noise; with fewer rounds the last signals are not used


@dataclass(frozen=True)
class Adjusted:
    """A series freed of what its signals tell."""

    betas: tuple[float, ...]  # one per signal; 0: not adjusted by it
    explained: float | None  # share of the variance of the rounds (R^2); None where nothing was fitted
    values: Logs
    warnings: tuple[str, ...] = ()


def usable(gauges: Sequence[Logs], series: Logs) -> list[Logs]:
    """Return, as signals, the gauges that `is_usable`."""
    return [deviations([gauge]) for gauge in gauges if is_usable(gauge, series)]


def is_usable(gauge: Logs, series: Logs) -> bool:
    """Return whether a gauge was read in nearly all rounds of the series.

    One that was now and then read in time, because it takes long, would leave out most of the rounds.
    """
    return bool(gauge) and len(gauge) >= WHOLE * len(series)


def centre(values: Logs) -> float:
    """Return what a control or a gauge reads as a rule: its median over some rounds (>= 1)."""
    return statistics.median(values.values())


def deviations(controls: Sequence[Logs], centres: Sequence[float] | None = None) -> dict[RoundKey, float]:
    """Return, per round, the mean over the controls of log t minus that control's centre.

    Args:
        controls: log seconds.
        centres: of each control; by default those of the rounds at hand.
    """
    found: dict[RoundKey, list[float]] = {}
    for control, middle in zip(controls, map(centre, controls) if centres is None else centres, strict=True):
        for key, value in control.items():
            found.setdefault(key, []).append(value - middle)
    return {key: statistics.fmean(values) for key, values in found.items()}


def slopes(series: Logs, signals: Sequence[Logs], code: Code = NOT_KNOWN) -> tuple[tuple[float, ...], float | None]:
    """Return (shrunk slopes of the series on the signals, share of the rounds' variance that they explain).

    Fitted on how rounds of the same code differ, never on how codes do. Where sessions are known to have run the same,
    how these differ tells most: a signal's own noise, which flattens slopes, is averaged out in their means. Huber's
    M-estimate, because a round that went wrong (page faults, a crash of a neighbour) differs by factors.

    A slope b with standard error s is multiplied by b^2 / (b^2 + s^2), the empirical Bayes estimate under a normal
    prior about 0 whose variance is estimated by b^2: near 1 where the signal explains the series, near 0 where not.
    """
    keys = list(series)
    for signal in signals:
        keys = [key for key in keys if key in signal]
    shrunk = np.zeros(len(signals))
    used = signals[: len(keys) // MIN_ROUNDS]  # too few rounds for all are enough for the first ones
    if not used:
        return tuple(map(float, shrunk)), None
    codes = np.unique([code.get(key[0], key[0]) for key in keys], return_inverse=True)[1]
    y = _centred(np.array([[series[key]] for key in keys]), codes)[:, 0]
    x = _centred(np.array([[signal[key] for signal in used] for key in keys]), codes)
    moves = x.any(axis=0)  # a gauge that never moved tells nothing, and keeps none of the others from telling
    found = _shrunk(x[:, moves], y, len(keys) - int(moves.sum()) - int(codes.max()) - 1)
    if found is None:
        return tuple(map(float, shrunk)), None
    shrunk[: len(used)][moves], explained = found
    return tuple(map(float, shrunk)), explained


def _shrunk(x: FloatArray, y: FloatArray, freedom: int) -> tuple[FloatArray, float] | None:
    """Return (shrunk slopes, share explained); None where the columns of x cannot be told apart, or y never moves."""
    fitted, weights = _huber_positive(x, y)
    gram = (x * weights[:, None]).T @ x
    if not x.size or np.linalg.matrix_rank(gram) < x.shape[1] or not y.any() or freedom < 1:
        return None
    residual = (y - x @ fitted) * weights
    variances = float(residual @ residual) / freedom * np.diag(np.linalg.inv(gram))
    scale = np.where(fitted == 0, 0.0, fitted**2 / np.where(fitted == 0, 1.0, fitted**2 + variances))
    explained = 1 - float(weights @ (y - x @ fitted) ** 2) / float(weights @ y**2)
    return np.asarray(fitted * scale), explained


def _centred(values: FloatArray, codes: IntArray) -> FloatArray:
    """Return (rounds, columns) less the median of their code."""
    ends = np.cumsum(np.bincount(codes))
    starts = np.concatenate([[0], ends[:-1]])
    medians = []
    for column in values.T:
        ordered = column[np.lexsort((column, codes))]
        medians.append((ordered[(starts + ends - 1) // 2] + ordered[(starts + ends) // 2]) / 2)
    return np.asarray(values - np.array(medians).T[codes])


def _huber_positive(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return `_huber`'s answer with the slopes below 0 left out: what slows a gauge down makes no kernel faster."""
    kept = np.arange(x.shape[1])
    while True:
        slopes_, weights = _huber(x[:, kept], y)
        if not (slopes_ < 0).any():
            break
        kept = np.delete(kept, int(np.argmin(slopes_)))
    fitted = np.zeros(x.shape[1])
    fitted[kept] = slopes_
    return fitted, weights


def _huber(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the slopes of y on x without intercept, and the weights of the rounds, by reweighted least squares."""
    weights, fitted = np.ones(len(y)), np.zeros(x.shape[1])
    for _ in range(ITERATIONS if x.shape[1] else 0):
        root = np.sqrt(weights)
        fitted = np.asarray(np.linalg.lstsq(x * root[:, None], y * root, rcond=None)[0], dtype=np.float64)
        size = np.abs(y - x @ fitted)
        scale = NORMAL_MAD * float(np.median(size))
        if scale == 0:
            break
        weights = np.asarray(np.minimum(1.0, HUBER * scale / np.maximum(size, scale * 1e-9)))
    return fitted, weights


def adjust(series: Logs, signals: Sequence[Logs], fitted_on: Logs | None = None, code: Code = NOT_KNOWN) -> Adjusted:
    """Return the series adjusted by the signals of the same rounds.

    A round without one of several signals is adjusted by the others; rounds without any are left out.

    Args:
        series: log seconds per call of the series to adjust.
        signals: deviations of the witnesses.
        fitted_on: rounds that the betas are fitted on; all of `series` by default. For an honest figure of how well
            adjusting works, fit on other sessions than those judged.
        code: what ran in the sessions or commits, where that is known.
    """
    betas, explained = slopes(series if fitted_on is None else fitted_on, signals, code)
    found = {key: value for key, value in series.items() if not signals or any(key in signal for signal in signals)}
    lacking = sum(not all(key in signal for signal in signals) for key in found)
    left_out = len(series) - len(found)
    warnings = [f"{left_out} of {len(series)} rounds have no control"] * bool(left_out)
    warnings += [f"{lacking} of {len(series)} rounds lack one of {len(signals)} controls"] * bool(lacking)
    return Adjusted(
        betas,
        explained,
        {
            key: value - sum(beta * signal.get(key, 0.0) for beta, signal in zip(betas, signals, strict=True))
            for key, value in found.items()
        },
        tuple(warnings),
    )
