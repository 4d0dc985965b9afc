"""Correct a series for machine noise, using signals that no commit can change. Pure.

A signal is a gauge (fixed work timed beside the samples of a round, engine/quiet.py) or the controls (PyTorch's
implementations, measured in the same session), as the deviation of its log seconds from its median:

    adjusted = log t - sum over signals of slope * deviation in that round

Slopes are fitted per series, and shrunk to 0 where the series does not move with the signal.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from kernel_velocity.engine.statistics import FloatArray

RoundKey = tuple[str, str]  # session (or commit) and launch: one key is one process
Logs = Mapping[RoundKey, float]  # log seconds, by round
Code = Mapping[
    str, str
]  # session (or commit) -> identity of the code that ran; a session not in it ran code of its own
NO_CODE: Code = {}

IntArray = np.ndarray[tuple[int], np.dtype[np.intp]]

HUBER = 1.345  # residuals beyond so many standard deviations count less: 95% efficient where the noise is normal
NORMAL_MAD = 1.4826  # standard deviations of a normal distribution in its median absolute deviation
ITERATIONS = 20  # of reweighting; it has settled to .1% after ten
MIN_COVERAGE = 0.9  # share of the rounds in which a gauge must have been read; rounds without it are not adjusted
MIN_ROUNDS = 8  # per signal: a slope of fewer points is noise; with fewer rounds the last signals are not used

GROWTH = 8  # an estimate is recomputed after 1/8 more entries
ALWAYS_ANEW = 16  # with up to so many entries it is recomputed every time


def is_usable(gauge: Logs, series: Logs) -> bool:
    """Return whether a gauge was read in nearly all rounds of the series, so that few rounds go unadjusted."""
    return bool(gauge) and len(gauge) >= MIN_COVERAGE * len(series)


def centre(values: Logs) -> float:
    """Return the usual reading of a control or a gauge: the median over some rounds (>= 1)."""
    return statistics.median(values.values())


def deviations(controls: Sequence[Logs], centres: Sequence[float] | None = None) -> dict[RoundKey, float]:
    """Return, per round, the mean over the controls of log t minus that control's centre.

    Args:
        controls: log seconds.
        centres: one per control. By default the medians of the given rounds.
    """
    by_round: dict[RoundKey, list[float]] = {}
    for control, middle in zip(controls, map(centre, controls) if centres is None else centres, strict=True):
        for key, value in control.items():
            by_round.setdefault(key, []).append(value - middle)
    return {key: statistics.fmean(values) for key, values in by_round.items()}


def adjusted(series: Logs, signals: Sequence[Logs], slopes: Sequence[float]) -> dict[RoundKey, float]:
    """Return adjusted log seconds. A round that lacks some signals is adjusted by the others, one without any left out.

    Args:
        series: log seconds.
        signals: deviations.
        slopes: one per signal.
    """
    result = {}
    for key, value in series.items():
        moves = [slope * signal[key] for slope, signal in zip(slopes, signals, strict=True) if key in signal]
        if moves:
            result[key] = value - sum(moves)
    return result


def slopes(series: Logs, signals: Sequence[Logs], code: Code = NO_CODE) -> tuple[tuple[float, ...], float | None]:
    """Return the shrunk slopes of the series on the signals, and the share of the rounds' variance they explain.

    The fit compares rounds of the same code, so a change of the code moves no slope. Where several sessions are known
    to have run the same code, their differences tell most: the signal's own noise, which flattens slopes, is averaged
    out in their means. Huber's M-estimate keeps rounds that went wrong by factors (page faults, a neighbour's crash)
    from deciding.

    A slope b with standard error s is multiplied by b^2 / (b^2 + s^2): the empirical Bayes estimate under a normal
    prior about 0 whose variance is estimated by b^2. It is near 1 where the signal explains the series, else near 0.

    Returns:
        one slope per signal, 0 where it is not used. None where nothing was fitted.
    """
    keys = [key for key in series if all(key in signal for signal in signals)]
    shrunk = np.zeros(len(signals))
    used = signals[: len(keys) // MIN_ROUNDS]
    explained = None
    if used:
        codes = np.unique([code.get(session, session) for session, _ in keys], return_inverse=True)[1]
        y = _centred(np.array([[series[key]] for key in keys]), codes)[:, 0]
        x = _centred(np.array([[signal[key] for signal in used] for key in keys]), codes)
        moves = x.any(axis=0)  # a gauge that never moved is left out, and the others are still used
        fit = _shrunk(x[:, moves], y, len(keys) - int(moves.sum()) - int(codes.max()) - 1)
        if fit is not None:
            shrunk[: len(used)][moves], explained = fit
    return tuple(map(float, shrunk)), explained


def _shrunk(x: FloatArray, y: FloatArray, freedom: int) -> tuple[FloatArray, float] | None:
    """Return (shrunk slopes, share explained). None where the columns of x are collinear, or y is constant."""
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
    """Return `_huber` without the negative slopes: what slows a gauge down makes no kernel faster."""
    columns = np.arange(x.shape[1])
    while True:
        partial, weights = _huber(x[:, columns], y)
        if not (partial < 0).any():
            break
        columns = np.delete(columns, int(np.argmin(partial)))
    fitted = np.zeros(x.shape[1])
    fitted[columns] = partial
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


def grown(size: int) -> int:
    """Return how many first entries of a growing history of `size` an estimate uses, so that it stays stable.

    The number is the largest term up to `size` of the sequence 16, 18, 20, 22, ... that grows by an eighth. Below it
    `size`. So the estimate depends on the history alone, stays the same until the next term, and its recomputation is
    spread over the n/8 entries before it.
    """
    term = min(size, ALWAYS_ANEW)
    while term >= ALWAYS_ANEW and term + term // GROWTH <= size:
        term += term // GROWTH
    return term
