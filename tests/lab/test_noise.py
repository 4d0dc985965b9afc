"""Synthetic noise: paths that settle where the stationary draws do, known truths, seeds that repeat."""

import numpy as np
import pytest

from lab import noise
from lab.noise import HELD_OUT, TUNING, repetition

STEP = 1e-3


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("name", noise.FAMILIES)
def test_path_settles_where_the_stationary_draws_are(name):
    family = noise.FAMILIES[name](rng(4))
    path = family.path(rng(1), 400_000, STEP)[100_000:]  # 300 s: hundreds of the slowest drift's memories
    drawn = family.stationary(rng(2), 400_000)
    assert path.shape == (300_000,) and (path > 0).all()
    spread = max(drawn.std(), 1e-9)
    if name == "pareto":  # with a tail index below 2 no moment settles
        assert np.quantile(path, [0.1, 0.5, 0.9]) == pytest.approx(np.quantile(drawn, [0.1, 0.5, 0.9]), rel=1e-3)
    else:
        assert abs(path.mean() - drawn.mean()) < 0.15 * spread
        assert path.std() == pytest.approx(spread, rel=0.15, abs=1e-8)


def test_mixtures_are_seeded_and_larger_sets_begin_with_the_same():
    few, many = list(noise.mixtures(TUNING, 3, 4)), list(noise.mixtures(TUNING, 3, 6))
    assert few == many[:4]
    assert len({mixture.truth for mixture in many}) == 6
    held_out = list(noise.mixtures(HELD_OUT, 3, 6))
    assert not {mixture.base for mixture in many} & {mixture.base for mixture in held_out}
    draws = [repetition(*args).random() for args in ((TUNING, 0, "0", 0), (HELD_OUT, 0, "0", 0), (TUNING, 0, "0", 1))]
    assert len(set(draws)) == 3
    assert repetition(TUNING, 0, "0", 0).random() == draws[0]
