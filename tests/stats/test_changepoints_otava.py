"""E-divisive against the recorded answers of Apache Otava, another implementation of the same two papers.

Otava itself pins NumPy 2.2.0 and brings clients of BigQuery, PostgreSQL and Slack. Its mathematics needs none of them.
To check or renew its answers: `pip install --no-deps apache-otava==0.8.0`.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from kernel_velocity.stats.changepoints import edivisive
from kernel_velocity.stats.changepoints.edivisive import FEWEST_A_SIDE, WINDOW, P
from kernel_velocity.stats.changepoints.values import MIN_EFFECT
from tests.golden import check_golden
from tests.stepped_series import stepped

GOLDEN = Path(__file__).parent / "golden" / "otava.json"
LEVELS = ((0.0,), (0.0, 0.05), (0.0, -0.05), (0.0, 0.08, 0.0), (0.0, 0.03, 0.08, -0.02), (0.0, 0.04))
SERIES = {
    f"{'; '.join(map(str, levels))} ({seed})": np.round(stepped(*levels, seed=seed), 4).tolist()
    for levels in LEVELS
    for seed in range(2)
}  # log values


@pytest.mark.parametrize("name", SERIES)
def test_cuts_are_those_of_otava(name):
    answer = json.loads(GOLDEN.read_text(encoding="utf-8"))[name]
    assert edivisive.best_cut(np.array(answer["values"][:WINDOW])) == answer["best"]
    assert [point.index for point in edivisive.detect(answer["values"])] == answer["cuts"]


def test_golden_file_is_otavas(accept):
    pytest.importorskip("otava", reason="the reference is not installed: pip install --no-deps apache-otava==0.8.0")
    from otava.analysis import compute_change_points
    from otava.change_point_divisive.calculator import PairDistanceCalculator

    def best(window):
        """Return where Otava's statistic of the whole window is largest, among the places that we look at."""
        energy = PairDistanceCalculator(window)._get_Q_vals(0, window.size)[:, -1]  # the first is of place 1
        return int(np.argmax(energy[FEWEST_A_SIDE - 1 : window.size - FEWEST_A_SIDE])) + FEWEST_A_SIDE

    def cuts(values):
        times = np.exp(values).tolist()  # of an array it returns other places than of a list
        found, _ = compute_change_points(times, window_len=WINDOW, max_pvalue=P, min_magnitude=math.expm1(MIN_EFFECT))
        return [int(point.index) for point in found]

    recorded = json.loads(GOLDEN.read_text(encoding="utf-8"))
    values = SERIES if accept else {name: answer["values"] for name, answer in recorded.items()}
    answers = {
        name: {"best": best(np.array(logs[:WINDOW])), "cuts": cuts(logs), "values": logs}
        for name, logs in values.items()
    }
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(answer)}" for name, answer in answers.items())
    check_golden(GOLDEN, f"{{\n{lines}\n}}\n", accept=accept)
