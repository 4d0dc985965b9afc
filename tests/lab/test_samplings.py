"""Tests and sample sizes on recorded sessions of identical code."""

import math
import shutil
from pathlib import Path

import numpy as np

from kernel_velocity.results.measurement import round_interval
from lab.__main__ import main
from lab.samplings import by_intervals
from tests.ab.identical_sessions import sessions, write
from tests.commands import kv
from tests.golden import check_golden

RECORDED = Path(__file__).parents[2] / "results" / "sessions" / "2-shared-cores"


def run(folder):
    return kv("samplings", folder, main=main)


def test_recorded_sessions_are_judged_at_every_size(tmp_path, accept):
    for number in range(1, 7):
        shutil.copy(RECORDED / f"{number:02}.jsonl.gz", tmp_path)
    status, out, err = run(tmp_path)
    assert (status, err) == (0, "")
    check_golden(Path(__file__).parent / "golden" / "samplings.txt", out, accept=accept)


def test_sessions_without_blocks_are_judged_by_estimates(tmp_path):
    status, out, _ = run(write(sessions(5), tmp_path))
    assert status == 0
    assert {line.partition("  ")[0] for line in out.splitlines()[2:]} == {"4 x 1", "8 x 1"}


def test_intervals_are_those_of_the_pages():
    centres = np.array([0.0, 0.002, 0.004, 0.0015, 0.0])
    sample = math.log(1e-3) + centres[:, None, None] + np.random.default_rng(3).normal(0, 0.001, (5, 8, 1))
    shown = [round_interval(np.exp(row[:, 0]).tolist()) for row in sample]
    wanted = [[interval.high < other.low or other.high < interval.low for other in shown] for interval in shown]
    assert by_intervals(sample, 0.0).astype(bool).tolist() == wanted
    assert 0 < sum(map(sum, wanted)) < 20
