"""Links: unbiased, and as sure as they claim."""

import math

import numpy as np
import pytest

from kernel_velocity.stats.link import link, median_error


@pytest.mark.parametrize("anchors", [1, 2, 4])
def test_claimed_error_is_that_of_simulated_links(anchors):
    rng = np.random.default_rng(1)
    step, error = 0.03, 0.01
    links = [link(list(step + rng.normal(0, error, anchors)), [error] * anchors) for _ in range(4000)]
    steps = np.array([result.step for result in links])
    assert steps.mean() == pytest.approx(step, abs=4e-4)
    assert steps.std() == pytest.approx(error / math.sqrt(anchors), rel=0.05)
    outside = np.mean([abs(result.step - step) > 2.576 * result.error for result in links])
    assert outside < 0.0125


def test_surer_anchor_counts_more():
    assert link([0.0, 0.1], [0.01, 0.1]).step == pytest.approx(0.1 / 101)
    assert link([0.0, 0.5], [0.01, 0.01]).error == pytest.approx(0.25)


def test_link_without_an_anchor_is_refused():
    with pytest.raises(ValueError, match="needs an anchor"):
        link([], [])


def test_error_of_a_median_is_that_of_simulated_rounds():
    rng = np.random.default_rng(2)
    rounds = rng.normal(0, 0.02, (4000, 15))
    assert np.mean([median_error(row) for row in rounds]) == pytest.approx(np.median(rounds, axis=1).std(), rel=0.1)
