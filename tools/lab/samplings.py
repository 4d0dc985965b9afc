"""``python -m lab samplings``: false alarms and power of three tests at several sample sizes, on recorded sessions.

The tests are asv's, that of pages (intervals apart) and ours. A sample size says how many rounds a side has, and how
many values of each count: 1 is the round's estimate, more are means of its blocks of samples. The sessions in
results/sessions have them ("blocks" in their lines). Newer sessions have none, and are judged by estimates alone.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from itertools import permutations, product
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np
from asv import _stats
from asv_runner.statistics import compute_stats

from kernel_velocity.ab import false_alarms
from kernel_velocity.ab.false_alarms import HEADS, Judge, Judged, Matrix, cells, in_direction
from kernel_velocity.engine import telemetry
from kernel_velocity.engine.statistics import FloatArray, t_975
from kernel_velocity.errors import ResultsError
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.ingest import by_series
from kernel_velocity.stats.adjust import RoundKey
from kernel_velocity.tables import Table, aligned


class SampleSize(NamedTuple):
    """How many rounds a side of a comparison has, and how many samples of each."""

    rounds: int
    samples: int

    def __str__(self) -> str:
        return f"{self.rounds} x {self.samples}"


SAMPLE_SIZES = (
    SampleSize(2, 5),  # asv's own default
    SampleSize(4, 16),
    SampleSize(4, 1),
    SampleSize(8, 1),  # ours
    SampleSize(16, 1),  # ours, when a change is to be confirmed
)
Blocks = Mapping[Series, Mapping[RoundKey, list[float]]]  # means of consecutive samples of each round, s


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("folder", type=Path, help="of recorded sessions, such as results/sessions/2-shared-cores")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Read the sessions, print the table."""
    sessions = false_alarms.read(args.folder)
    print(aligned(table(judge(sessions, blocks_of(args.folder)), len(sessions))), file=out)
    return 0


def blocks_of(folder: Path) -> Blocks:
    """Return the block means of the sessions in a folder that `false_alarms.read` has read."""
    blocks: dict[Series, dict[RoundKey, list[float]]] = {}
    for path in (*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz")):
        for document in map(telemetry.parse, false_alarms.texts(path)):
            series = document["b"], tuple(document["p"])
            blocks.setdefault(series, {})[path.name.partition(".")[0], document["l"]] = document.get("blocks", [])
    return blocks


def judge(sessions: false_alarms.IdenticalSessions, blocks: Blocks) -> dict[tuple[SampleSize, str, str], Judged]:
    """Return the judgement of every test at every sample size on raw and adjusted values.

    Raises:
        ResultsError: too few sessions, or no series that has enough rounds in all of them.
    """
    kinds = false_alarms.kinds_of(sessions)
    judged: dict[tuple[SampleSize, str, str], Judged] = {}
    for size, (kind, logs) in product(SAMPLE_SIZES, kinds.items()):
        arrays = {series: array(size, series, logs[series], sessions, blocks.get(series, {})) for series in logs}
        whole = {series: values for series, values in arrays.items() if values is not None}
        judged |= {(size, name, kind): false_alarms.judged_by(test, whole) for name, test in TESTS.items() if whole}
    if not judged:
        raise ResultsError(f"no series has {SAMPLE_SIZES[0].rounds} rounds in every one of {len(sessions)} sessions")
    return judged


def array(
    size: SampleSize,
    series: Series,
    values: Mapping[RoundKey, float],
    sessions: false_alarms.IdenticalSessions,
    blocks: Mapping[RoundKey, list[float]],
) -> FloatArray | None:
    """Return (sessions, rounds, samples) log seconds of a series. None if a session has less than that.

    Several samples of a round are means of its blocks, adjusted as its estimate was.
    """
    if size.samples == 1:
        estimates = false_alarms.array(series, values, sessions, size.rounds)
        return None if estimates is None else estimates[:, :, None]
    rows = []
    for name, rounds in sessions.items():
        of_series = [round_ for round_ in by_series(rounds).get(series, ()) if (name, round_.launch) in values]
        first = sorted(of_series, key=lambda round_: round_.time)[: size.rounds]
        means = [blocks.get((name, round_.launch), []) for round_ in first]
        if len(first) < size.rounds or min(map(len, means)) < size.samples:
            return None
        row = []
        for round_, of_round in zip(first, means, strict=True):
            moved = values[name, round_.launch] - math.log(round_.estimate)
            parts = np.array_split(np.array(of_round), size.samples)
            row.append([float(np.log(part.mean()) + moved) for part in parts])
        rows.append(row)
    return np.array(rows)


def table(judged: Mapping[tuple[SampleSize, str, str], Judged], sessions: int) -> Table:
    """Return every test at every sample size: false alarms over all series, power as the median over them."""
    heads = ["rounds x samples", "test", "values", *HEADS]
    rows = [[*map(str, key), *cells(result)] for key, result in judged.items()]
    return Table("samplings", f"{sessions} sessions of identical code", heads, rows)


def by_asv(values: FloatArray, change: float) -> Matrix:
    """Judge all pairs of sessions by asv's own test and threshold. All samples of a session are one set."""
    flat = np.exp(values.reshape(values.shape[0], -1))
    called = np.zeros((len(flat), len(flat)))
    for i, j in permutations(range(len(flat)), 2):
        if change or i < j:
            a, b = flat[i].tolist(), (flat[j] * (1 + change)).tolist()
            called[i, j] = _stats.is_different(a, b, *(compute_stats(samples, 1)[1] for samples in (a, b)))
    return in_direction(called, np.median(flat, axis=1), change) if change else called + called.T


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
    return in_direction(called, np.exp(middle), change) if change else called


def by_ours(values: FloatArray, change: float) -> Matrix:
    """Judge all pairs by ours. All samples of a session are one set."""
    return false_alarms.differing(values.reshape(values.shape[0], -1), change)


TESTS: Mapping[str, Judge] = {"asv's": by_asv, "intervals": by_intervals, "ours": by_ours}
