"""Synthetic noise: paths that settle where the stationary draws do."""

import numpy as np
import pytest

from lab import noise

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
