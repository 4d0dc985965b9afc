"""``kv lab false-alarms``: how often identical code is called different from one session to another.

Measures sessions of one commit (or reads recorded ones), compares each with each, and prints how often a test said
"different": asv's, the pages' (intervals apart) and ours, on raw and on adjusted values, in several layouts of rounds
and samples; and how often it found a change that was planted. A session is adjusted with betas of the others; a pair's
floor is that of the others.

How often sessions of identical code are called different, and how often a planted change is. Pure, seeded.

Every pair of sessions of a series is compared, by a test, in a layout of rounds and samples. Resampling within one
session would be a permutation test, which cannot fail: what is resampled here, for the bounds, are whole sessions.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TextIO

import numpy as np
from asv import _stats
from asv_runner import statistics as asv_statistics

from kernel_velocity.errors import ResultsError
from kernel_velocity.harness.cases import CONTROLS
from kernel_velocity.harness.statistics import FloatArray, t_975
from kernel_velocity.lab import sessions as identical_sessions
from kernel_velocity.lab.sessions import Measured, Sessions
from kernel_velocity.lab.spread import out_of_sample
from kernel_velocity.results.asv_file import Series
from kernel_velocity.stats import two_samples
from kernel_velocity.stats.adjust import Logs
from kernel_velocity.tables import Table, aligned, percent

DEFAULT_SESSIONS = 25
MIN_SESSIONS = 5  # the floor of a pair comes from the other sessions: three at least
CHANGES = (0.01, 0.02, 0.03, 0.05)
RAW, ADJUSTED = "raw", "adjusted"

RESAMPLES = 10_000
BOUND = 0.95  # of the one-sided upper bound
SEED = 20

Judge = Callable[[FloatArray, float], "Matrix"]  # of (sessions, rounds, samples) log seconds and a relative change
Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]  # [i, j]: session j, slowed, called different from session i


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What one test made of one layout of one kind of values."""

    layout: Layout
    test: str
    values: str  # raw or adjusted
    series: tuple[Series, ...]
    alarms: Rate
    by_series: tuple[Rate, ...]
    powers: Mapping[float, Sequence[float]]  # change -> share found, per series


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    identical_sessions.add_arguments(parser, DEFAULT_SESSIONS)


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Measure or read the sessions, print the tables."""
    sessions = identical_sessions.obtain(args, MIN_SESSIONS, out, err)
    found = judge(sessions)
    layouts = [layout for layout in (OURS, CONFIRMING) if any(item.layout == layout for item in found)]
    tables = [summary(found, len(sessions)), *(by_series(found, layout) for layout in layouts)]
    print("\n\n".join(map(aligned, tables)), file=out)
    return 0


def judge(sessions: Sessions) -> list[Judged]:
    """Return what every test makes of every layout of raw and adjusted values.

    Raises:
        ResultsError: too few sessions, or no series that has all its rounds in all of them.
    """
    if len(sessions) < MIN_SESSIONS:
        raise ResultsError(f"{len(sessions)} sessions: at least {MIN_SESSIONS} say how often identical code differs")
    logs, signals = identical_sessions.logs(sessions), identical_sessions.signals(sessions)
    found = []
    for kind in (RAW, ADJUSTED):
        values = {
            series: logs[series] if kind == RAW else out_of_sample(logs[series], signals[series])[0]
            for series in sorted(logs)
            if series[1][0] not in CONTROLS and (kind == RAW or signals[series])
        }
        for layout in LAYOUTS:
            arrays = {series: _array(layout, series, value, sessions) for series, value in values.items()}
            whole = {series: array for series, array in arrays.items() if array is not None}
            found += [_judged(layout, kind, test, whole) for test in TESTS if whole]
    if not any(item.layout == OURS for item in found):
        raise ResultsError(f"no series has {OURS.rounds} rounds in every one of {len(sessions)} sessions")
    return found


def _judged(layout: Layout, kind: str, test: str, arrays: Mapping[Series, FloatArray]) -> Judged:
    judge = TESTS[test]
    same = [judge(array, 0.0) for array in arrays.values()]
    return Judged(
        layout=layout,
        test=test,
        values=kind,
        series=tuple(arrays),
        alarms=rate(same),
        by_series=tuple(rate([matrix]) for matrix in same),
        powers={change: power([judge(array, change) for array in arrays.values()]) for change in CHANGES},
    )


def _array(layout: Layout, series: Series, values: Logs, sessions: Sessions) -> FloatArray | None:
    """Return (sessions, rounds, samples) log seconds of a series; None where a session has less than the layout."""
    found = []
    for name, rounds in sessions.items():
        items = sorted(
            (item for item in rounds if item.series == series and (name, item.round.launch) in values),
            key=lambda item: item.round.time,
        )[: layout.rounds]
        if len(items) < layout.rounds or (layout.samples > 1 and any(len(i.blocks) < layout.samples for i in items)):
            return None
        found.append([_samples(item, values[name, item.round.launch], layout.samples) for item in items])
    return np.array(found)


def _samples(item: Measured, value: float, count: int) -> list[float]:
    """Return log seconds of a round whose estimate is `value`: it alone, or means of blocks, moved as it was."""
    if count == 1:
        return [value]
    moved = value - np.log(item.round.estimate)
    return [float(np.log(part.mean()) + moved) for part in np.array_split(np.array(item.blocks), count)]


def summary(found: Sequence[Judged], sessions: int) -> Table:
    """Return what every test made of every layout: false alarms over all series, power in the median over them."""
    ours = next(item for item in found if item.layout == OURS)
    note = (
        f"{sessions} sessions of identical code, {ours.alarms.pairs} pairs; bound: 95%, bootstrap over sessions, where "
        "none differed (<) from disjoint pairs; found: planted changes, median over the series"
    )
    heads = ["rounds x samples", "test", "values", "series", "called different", "bound"]
    heads += [f"+{change:.0%} found" for change in CHANGES]
    rows = [
        [
            str(item.layout),
            item.test,
            item.values,
            str(len(item.series)),
            percent(item.alarms.share),
            _bound(item.alarms),
            *(percent(statistics.median(item.powers[change])) for change in CHANGES),
        ]
        for item in sorted(found, key=lambda item: (LAYOUTS.index(item.layout), item.test, item.values == ADJUSTED))
    ]
    return Table("false alarms", note, heads, rows)


def by_series(found: Sequence[Judged], layout: Layout) -> Table:
    """Return, for our test in a layout, every series by itself."""
    ours = {item.values: item for item in found if (item.layout, item.test) == (layout, "ours")}
    heads = ["series", "raw", "bound", "adjusted", "bound"]
    heads += [f"+{change:.0%} {kind}" for change in CHANGES[1:] for kind in (RAW, ADJUSTED)]
    rows = []
    for series in ours[RAW].series:
        raw, adjusted = (_figures(ours.get(kind), series) for kind in (RAW, ADJUSTED))
        powers = [power for both in zip(raw[2:], adjusted[2:], strict=True) for power in both]
        rows.append([f"{series[0]} {' '.join(series[1])}", *raw[:2], *adjusted[:2], *powers])
    return Table("by series", f"{layout}, our test: called different, and found when planted", heads, rows)


def _figures(judged: Judged | None, series: Series) -> list[str]:
    """Return share and bound of a series and its powers; unknown where rounds of it were left out."""
    if judged is None or series not in judged.series:
        return [percent(None)] * (2 + len(CHANGES[1:]))
    index = judged.series.index(series)
    found = judged.by_series[index]
    return [percent(found.share), _bound(found), *(percent(judged.powers[change][index]) for change in CHANGES[1:])]


def _bound(found: Rate) -> str:
    return percent(found.bound) if found.different else f"<{percent(found.unseen)}"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How many rounds a comparison has, and how many samples of each."""

    rounds: int
    samples: int

    def __str__(self) -> str:
        return f"{self.rounds} x {self.samples}"


LAYOUTS = (
    Layout(rounds=2, samples=5),  # asv's own default
    Layout(rounds=4, samples=16),
    Layout(rounds=4, samples=1),
    Layout(rounds=8, samples=1),  # ours
    Layout(rounds=16, samples=1),  # ours, when a change is to be confirmed
)
OURS, CONFIRMING = LAYOUTS[-2:]


@dataclass(frozen=True, kw_only=True)
class Rate:
    """How often a test called pairs different."""

    different: int
    pairs: int
    bound: float  # 95% upper bound, bootstrap over sessions; 0 where nothing was called different
    unseen: float  # 95% upper bound where nothing was, from pairs that share no session

    @property
    def share(self) -> float:
        """Return the share of the pairs."""
        return self.different / self.pairs


def asv_differs(a: Sequence[float], b: Sequence[float]) -> bool:
    """Return what asv says of two sets of samples, s: its own function, with its own threshold."""
    both = [asv_statistics.compute_stats(list(samples), 1)[1] for samples in (a, b)]
    return bool(_stats.is_different(list(a), list(b), *both))


def by_asv(values: FloatArray, change: float) -> Matrix:
    """Judge all pairs of sessions by asv's own test; all samples of a session are one set."""
    flat = np.exp(values.reshape(values.shape[0], -1))
    found = np.zeros((len(flat), len(flat)))
    for i, j in permutations(range(len(flat)), 2):
        if change or i < j:
            found[i, j] = asv_differs(flat[i].tolist(), (flat[j] * (1 + change)).tolist())
    medians = np.median(flat, axis=1)
    return _in_direction(found, medians, change) if change else found + found.T


def _in_direction(found: Matrix, medians: FloatArray, change: float) -> Matrix:
    """Return what was found without what was found to be a change for the other side, which is no success."""
    return np.asarray(found * ((medians[None, :] * (1 + change) - medians[:, None]) * change > 0))


def by_intervals(values: FloatArray, change: float) -> Matrix:
    """Judge all pairs as the pages do: their intervals over rounds lie apart. It knows of no other session."""
    rounds = values.mean(axis=2)
    number = rounds.shape[1]
    middle, centre = np.median(rounds, axis=1), rounds.mean(axis=1)
    half = t_975(number - 1) * rounds.std(axis=1, ddof=1) / math.sqrt(number)
    low, high = np.minimum(centre - half, middle), np.maximum(centre + half, middle)
    moved = math.log1p(change)
    found = ((low[None, :] + moved > high[:, None]) | (high[None, :] + moved < low[:, None])).astype(float)
    np.fill_diagonal(found, 0.0)
    return _in_direction(found, np.exp(middle), change) if change else found


def by_ours(values: FloatArray, change: float) -> Matrix:
    """Judge all pairs by ours; the floor of a pair is that of the other sessions."""
    flat = values.reshape(values.shape[0], -1)
    medians = np.median(flat, axis=1)
    pairs = list(permutations(range(len(flat)), 2))
    floors = np.array([two_samples.floor_of(np.delete(medians, pair)) for pair in pairs])
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    found = np.zeros((len(flat), len(flat)))
    found[first, second] = two_samples.differs(flat[first], flat[second] + math.log1p(change), floors)
    return _in_direction(found, np.exp(medians), change) if change else found


TESTS: Mapping[str, Judge] = {"asv's": by_asv, "intervals": by_intervals, "ours": by_ours}


def rate(matrices: Sequence[Matrix], seed: int = SEED) -> Rate:
    """Return how often the pairs of all series were called different, bound by resampling sessions.

    A resample draws as many sessions as there are, the same for all series, and compares all its pairs of different
    ones: a session that is unlike the others is in none, in some or in many of them. Of what never happened no
    bootstrap knows; there the n pairs that share no session, none of which differed, give 1 - .05^(1/n), the series
    taken as independent. Of rare events the bound is too narrow: simulated with 25 sessions, it held the true rate in
    63% (normal noise) to 85% (heavy tails) of cases.
    """
    total = np.sum(matrices, axis=0)
    number = len(total)
    counts = np.random.default_rng(seed).multinomial(number, np.full(number, 1 / number), size=RESAMPLES)
    found = np.einsum("ki,ij,kj->k", counts, total, counts, optimize=True)
    pairs = (number**2 - (counts**2).sum(axis=1)) * len(matrices)
    usable = pairs > 0
    return Rate(
        different=int(total.sum()) // 2,
        pairs=len(matrices) * number * (number - 1) // 2,
        bound=float(np.quantile(found[usable] / pairs[usable], BOUND)),
        unseen=1 - (1 - BOUND) ** (1 / (len(matrices) * (number // 2))),
    )


def power(matrices: Sequence[Matrix]) -> list[float]:
    """Return, per series, in what share of the pairs a planted change was found."""
    return [float(matrix.sum() / (len(matrix) * (len(matrix) - 1))) for matrix in matrices]
