"""The model of what measuring costs: its figures in the documents, and how a run corrects it."""

from pathlib import Path

import pytest

from kernel_velocity.harness.suite import Suite
from kernel_velocity.runner.forecast import here

CORE = [
    (f"{problem.kernel}.Cuda.time_hot", (implementation, case))
    for problem in Suite(Path(__file__).parents[2] / "benchmarks").problems("cuda")
    for implementation in problem.implementations_on("cuda")
    for case in problem.core["cuda"]
]
GPU = here("cuda", {})


@pytest.mark.parametrize(("environ", "seconds"), [({}, 148), ({"KV_ISOLATE": "1"}, 470)])
def test_commit_of_the_document(environ, seconds):
    """docs/explanation/measuring.md has these. By default a commit takes at most 150 s."""
    assert len(CORE) == 40
    assert round(here("cuda", environ).commit(CORE, 8, 0.0).measuring) == seconds


def test_measured_replaces_the_model():
    assert GPU.learn_build(20.0).commit(CORE, 8).build == pytest.approx(20)
    before = GPU.commit(CORE, 8, 0.0).measuring
    assert GPU.learn_commits(30.0, 20.0).commit(CORE, 8, 0.0).measuring == pytest.approx(1.5 * before)


@pytest.mark.parametrize("name", ["sharing", "timers", "traces"])
def test_more_series_take_longer(name):
    few, many = (GPU.stage(name, series=n, compiled=0, files=3, passes=3, trace=1.0) for n in (4, 40))
    assert 5 * few < many < 10 * few + 1
