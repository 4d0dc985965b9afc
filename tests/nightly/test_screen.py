"""The screen of a night: what leaves a history, or the few values that there are."""

import numpy as np
import pytest

from kernel_velocity.nightly.moves import BETWEEN_SESSIONS, shift


def values(number, seed=0, sigma=0.01):
    return list(np.random.default_rng(seed).normal(0, sigma, number))


HISTORY = values(40)
FEW = values(6, sigma=0.003)
THREE = [0.028 + value for value in values(3, seed=1, sigma=1e-4)]


@pytest.mark.parametrize(
    ("series", "effect", "count"),
    [
        ([*HISTORY, 0.1], 0.1, 1),
        ([*HISTORY, -0.1], -0.1, 1),
        ([*HISTORY, *THREE], 0.028, 3),  # a small step that lasts
        ([*HISTORY, 0.0], None, 0),
        ([*HISTORY, 0.1, 0.0], None, 0),  # an outlier that is over
        ([-7.0, -7.0 + 1.1 * BETWEEN_SESSIONS], 1.1 * BETWEEN_SESSIONS, 1),
        ([-7.0, -7.0 - 1.1 * BETWEEN_SESSIONS], -1.1 * BETWEEN_SESSIONS, 1),
        ([-7.0, -7.0 + 0.9 * BETWEEN_SESSIONS], None, 0),
        ([*FEW, 0.03], 0.03, 1),
        ([*FEW, 0.001], None, 0),
        ([0.0, 0.001, -0.001, 0.03], 0.03, 1),
        ([0.0, 1e-5, -1e-5, 0.009], None, 0),  # less than is worth a word, however quiet
        ([0.0, 0.03, -0.03, 0.03], None, 0),
        ([-7.0], None, 0),  # a first value cannot have moved
        ([0.0] * 50 + [0.0031], 0.003, 1),  # three times the least sigma
        ([0.0] * 50 + [0.0029], None, 0),
        ([0.0, 0.02] * 25, None, 0),  # two modes
        ([0.0, 0.02] * 24 + [0.0], None, 0),
    ],
)
def test_shift_is_of_the_newest_values(series, effect, count):
    change = shift(series)
    if effect is None:
        assert change is None
    else:
        assert change.effect == pytest.approx(effect, abs=0.01)
        assert change.good < len(series) - count <= change.bad
        assert change.bad - change.good <= 5


def test_quiet_noise_seldom_calls_for_a_re_run():
    assert sum(shift(values(50, seed)) is not None for seed in range(60)) <= 4


@pytest.mark.parametrize(("newest", "effect"), [([0.0145, 0.0145], 0.0158), ([0.02, -0.01, 0.02], 0.0213)])
def test_values_that_are_off_together_are_a_shift(newest, effect):
    assert shift([*HISTORY, *newest]).effect == pytest.approx(effect, abs=0.0005)
