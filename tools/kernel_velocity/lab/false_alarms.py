"""``kv lab false-alarms``: estimate the false-alarm rate and the power from repeated sessions of one commit.

Measures sessions of one commit (or reads recorded ones), compares every pair, and prints how often a test calls the
two different, in several layouts of rounds and samples, on raw and on adjusted values: asv's test, the pages'
(intervals apart) and ours. It also prints how often each finds a planted change. A session is adjusted with slopes
fitted on the others. The floor of a pair is that of the other sessions.

Resampling within one session would be a permutation test, which cannot fail: the bounds resample whole sessions.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations, product
from typing import NamedTuple, TextIO

import numpy as np
from asv import _stats
from asv_runner.statistics import compute_stats

from kernel_velocity.errors import ResultsError
from kernel_velocity.harness.cases import CONTROLS
from kernel_velocity.harness.statistics import FloatArray, t_975
from kernel_velocity.lab import sessions as identical_sessions
from kernel_velocity.lab.sessions import Sessions, out_of_sample
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

Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]  # [i, j]: session j, slowed, is called different from i
Judge = Callable[[FloatArray, float], Matrix]  # of (sessions, rounds, samples) log seconds and a relative change


class Layout(NamedTuple):
    """How many rounds a comparison has, and how many samples of each."""

    rounds: int
    samples: int

    def __str__(self) -> str:
        return f"{self.rounds} x {self.samples}"


LAYOUTS = (
    Layout(2, 5),  # asv's own default
    Layout(4, 16),
    Layout(4, 1),
    Layout(8, 1),  # ours
    Layout(16, 1),  # ours, when a change is to be confirmed
)
OURS, CONFIRMING = LAYOUTS[-2:]


class Rate(NamedTuple):
    """How often a test called pairs different."""

    different: int
    pairs: int
    bound: float  # 95% upper bound, bootstrap over sessions; 0 if nothing was called different
    unseen: float  # 95% upper bound if nothing was, from pairs that share no session

    def __str__(self) -> str:
        return percent(self.bound) if self.different else f"<{percent(self.unseen)}"

    @property
    def share(self) -> float:
        """Return the share of the pairs."""
        return self.different / self.pairs


class Judged(NamedTuple):
    """One test on one layout of one kind of values."""

    alarms: Rate
    by_series: Mapping[Series, Rate]
    powers: Mapping[float, Mapping[Series, float]]  # change -> share of pairs in which it was found, by series


Judgements = Mapping[tuple[Layout, str, str], Judged]  # by layout, test, and whether values are raw or adjusted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    identical_sessions.add_arguments(parser, DEFAULT_SESSIONS)


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Measure or read the sessions, print the tables."""
    sessions = identical_sessions.obtain(args, MIN_SESSIONS, out, err)
    judged = judge(sessions)
    layouts = [layout for layout in (OURS, CONFIRMING) if (layout, "ours", RAW) in judged]
    tables = [summary(judged, len(sessions)), *(by_series(judged, layout) for layout in layouts)]
    print("\n\n".join(map(aligned, tables)), file=out)
    return 0


def judge(sessions: Sessions) -> Judgements:
    """Return the judgement of every test on every layout of raw and adjusted values.

    Raises:
        ResultsError: too few sessions, or no series that has all its rounds in all of them.
    """
    if len(sessions) < MIN_SESSIONS:
        raise ResultsError(f"{len(sessions)} sessions: wanted at least {MIN_SESSIONS}, to estimate a false-alarm rate")
    logs, signals = identical_sessions.logs(sessions), identical_sessions.signals(sessions)
    ours = [series for series in sorted(logs) if series[1][0] not in CONTROLS]
    kinds: dict[str, dict[Series, Logs]] = {
        RAW: {series: logs[series] for series in ours},
        ADJUSTED: {series: out_of_sample(logs[series], signals[series])[0] for series in ours if signals[series]},
    }
    judged = {}
    for layout, (kind, values) in product(LAYOUTS, kinds.items()):
        arrays = {series: array(layout, series, values[series], sessions) for series in values}
        whole = {series: matrix for series, matrix in arrays.items() if matrix is not None}
        for test in TESTS if whole else ():
            same = {series: TESTS[test](matrix, 0.0) for series, matrix in whole.items()}
            judged[layout, test, kind] = Judged(
                rate([*same.values()]),
                {series: rate([matrix]) for series, matrix in same.items()},
                {
                    change: {series: power(TESTS[test](matrix, change)) for series, matrix in whole.items()}
                    for change in CHANGES
                },
            )
    if (OURS, "ours", RAW) not in judged:
        raise ResultsError(f"no series has {OURS.rounds} rounds in every one of {len(sessions)} sessions")
    return judged


def array(layout: Layout, series: Series, values: Logs, sessions: Sessions) -> FloatArray | None:
    """Return (sessions, rounds, samples) log seconds of a series. None if a session has less than the layout.

    Several samples of a round are means of its blocks, adjusted as its estimate was.
    """
    rows = []
    for name, rounds in sessions.items():
        of_series = [entry for entry in rounds if entry.series == series and (name, entry.round.launch) in values]
        first = sorted(of_series, key=lambda entry: entry.round.time)[: layout.rounds]
        if len(first) < layout.rounds or (layout.samples > 1 and any(len(i.blocks) < layout.samples for i in first)):
            return None
        row = []
        for entry in first:
            value = values[name, entry.round.launch]
            moved = value - np.log(entry.round.estimate)
            parts = np.array_split(np.array(entry.blocks), layout.samples)
            row.append([value] if layout.samples == 1 else [float(np.log(part.mean()) + moved) for part in parts])
        rows.append(row)
    return np.array(rows)


def summary(judged: Judgements, sessions: int) -> Table:
    """Return every test on every layout: false alarms over all series, power as the median over them."""
    note = (
        f"{sessions} sessions of identical code, {judged[OURS, 'ours', RAW].alarms.pairs} pairs; bound: 95%, bootstrap "
        "over sessions, where none differed (<) from disjoint pairs; found: planted changes, median over the series"
    )
    heads = ["rounds x samples", "test", "values", "series", "called different", "bound"]
    heads += [f"+{change:.0%} found" for change in CHANGES]
    rows = [
        [
            *map(str, (*key, len(result.by_series))),
            percent(result.alarms.share),
            str(result.alarms),
            *(percent(statistics.median(result.powers[change].values())) for change in CHANGES),
        ]
        for key in product(LAYOUTS, TESTS, (RAW, ADJUSTED))
        if (result := judged.get(key)) is not None
    ]
    return Table("false alarms", note, heads, rows)


def by_series(judged: Judgements, layout: Layout) -> Table:
    """Return our test in a layout, series by series."""
    heads = ["series", "raw", "bound", "adjusted", "bound"]
    heads += [f"+{change:.0%} {kind}" for change in CHANGES[1:] for kind in (RAW, ADJUSTED)]
    rows = []
    for series in judged[layout, "ours", RAW].by_series:
        shares, powers = [], []
        for kind in (RAW, ADJUSTED):
            result = judged.get((layout, "ours", kind))
            if result is not None and series in result.by_series:
                shares += [percent(result.by_series[series].share), str(result.by_series[series])]
                powers.append([percent(result.powers[change][series]) for change in CHANGES[1:]])
            else:  # rounds of it were left out
                shares += ["-", "-"]
                powers.append(["-"] * len(CHANGES[1:]))
        cells = [cell for both in zip(*powers, strict=True) for cell in both]
        rows.append([f"{series[0]} {' '.join(series[1])}", *shares, *cells])
    return Table("by series", f"{layout}, our test: called different, and found when planted", heads, rows)


def by_asv(values: FloatArray, change: float) -> Matrix:
    """Judge all pairs of sessions by asv's own test and threshold. All samples of a session are one set."""
    flat = np.exp(values.reshape(values.shape[0], -1))
    called = np.zeros((len(flat), len(flat)))
    for i, j in permutations(range(len(flat)), 2):
        if change or i < j:
            a, b = flat[i].tolist(), (flat[j] * (1 + change)).tolist()
            called[i, j] = _stats.is_different(a, b, *(compute_stats(samples, 1)[1] for samples in (a, b)))
    return _in_direction(called, np.median(flat, axis=1), change) if change else called + called.T


def _in_direction(called: Matrix, medians: FloatArray, change: float) -> Matrix:
    """Return the pairs called different for the right side: a change found for the other side is no success."""
    return np.asarray(called * ((medians[None, :] * (1 + change) - medians[:, None]) * change > 0))


def by_intervals(values: FloatArray, change: float) -> Matrix:
    """Judge all pairs as the pages do, without other sessions: their intervals over rounds lie apart."""
    rounds = values.mean(axis=2)
    number = rounds.shape[1]
    middle, centre = np.median(rounds, axis=1), rounds.mean(axis=1)
    half = t_975(number - 1) * rounds.std(axis=1, ddof=1) / math.sqrt(number)
    low, high = np.minimum(centre - half, middle), np.maximum(centre + half, middle)
    moved = math.log1p(change)
    called = ((low[None, :] + moved > high[:, None]) | (high[None, :] + moved < low[:, None])).astype(float)
    np.fill_diagonal(called, 0.0)
    return _in_direction(called, np.exp(middle), change) if change else called


def by_ours(values: FloatArray, change: float) -> Matrix:
    """Judge all pairs by ours. The floor of a pair is that of the other sessions."""
    flat = values.reshape(values.shape[0], -1)
    medians = np.median(flat, axis=1)
    pairs = list(permutations(range(len(flat)), 2))
    floors = np.array([two_samples.floor_of(np.delete(medians, pair)) for pair in pairs])
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    called = np.zeros((len(flat), len(flat)))
    called[first, second] = two_samples.differs(flat[first], flat[second] + math.log1p(change), floors)
    return _in_direction(called, np.exp(medians), change) if change else called


TESTS: Mapping[str, Judge] = {"asv's": by_asv, "intervals": by_intervals, "ours": by_ours}


def rate(matrices: Sequence[Matrix], seed: int = SEED) -> Rate:
    """Return how often the pairs of all series were called different, with bounds by resampling sessions.

    A resample draws as many sessions as there are, the same for all series, and compares all its pairs of different
    ones: a session that is unlike the others is in none, in some or in many of them. If nothing was called different,
    a bootstrap tells nothing. There the n pairs that share no session give 1 - .05^(1/n), the series taken as
    independent. For rare events the bound is too narrow: simulated with 25 sessions, it held the true rate in 63%
    (normal noise) to 85% (heavy tails) of cases.
    """
    total = np.sum(matrices, axis=0)
    number = len(total)
    counts = np.random.default_rng(seed).multinomial(number, np.full(number, 1 / number), size=RESAMPLES)
    rates = np.einsum("ki,ij,kj->k", counts, total, counts, optimize=True)
    pairs = (number**2 - (counts**2).sum(axis=1)) * len(matrices)
    usable = pairs > 0
    return Rate(
        different=int(total.sum()) // 2,
        pairs=len(matrices) * number * (number - 1) // 2,
        bound=float(np.quantile(rates[usable] / pairs[usable], BOUND)),
        unseen=1 - (1 - BOUND) ** (1 / (len(matrices) * (number // 2))),
    )


def power(matrix: Matrix) -> float:
    """Return the share of the ordered pairs in which a planted change was found."""
    return float(matrix.sum() / (len(matrix) * (len(matrix) - 1)))
