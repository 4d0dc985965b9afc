"""The model of what measuring costs: its figures in the documents, and how a run corrects it."""

import dataclasses

import pytest

from kernel_velocity.runner.forecast import TERMS, Forecast

NAMES = ("eager", "compile", "native", "triton")
CORE = [("k.Cuda.time_hot", (NAMES[n % 4], f"{n}M")) for n in range(35)]
GPU = Forecast(terms=TERMS["cuda"], is_shared=True, cores=16)


def test_commit_of_the_document():
    """docs/explanation/measuring.md has these."""
    shared, apart = (dataclasses.replace(GPU, is_shared=choice).commit(CORE, 8, 0.0) for choice in (True, False))
    assert (round(shared.measuring), round(apart.measuring)) == (183, 509)


def test_parts_add_up():
    cost = GPU.commit(CORE, 8)
    assert cost.build == 180 / 16
    assert cost.rest == pytest.approx(8 * (1.9 + 0.25 + 35 * 0.11))


def test_measured_replaces_the_model():
    built = GPU.learn_build(20.0)
    assert built.commit(CORE, 8).build == 20
    warm = {"k('native', '1M')": (1.0, 0.3), "k('native', '2M')": (2.0, 0.5), "k('compile', '1M')": (9.0, 9.0)}
    rows = [{"series": name, "setup": {"isolated": a, "shared": b}} for name, (a, b) in warm.items()]
    terms = GPU.learn_sharing(rows).terms
    assert (terms.process, terms.setup) == pytest.approx((1.1, 0.34))
    assert GPU.learn_sharing([]) == GPU
    before = GPU.commit(CORE, 8, 0.0).measuring
    assert GPU.learn_commits(30.0, 20.0).commit(CORE, 8, 0.0).measuring == pytest.approx(1.5 * before)


@pytest.mark.parametrize("name", ["sharing", "timers", "traces"])
def test_more_series_take_longer(name):
    few, many = (GPU.stage(name, series=n, compiled=0, files=3, passes=3, trace=1.0) for n in (4, 40))
    assert 5 * few < many < 10 * few + 1
