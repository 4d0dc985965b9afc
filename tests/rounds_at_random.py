"""Rounds of identical code as machines give them: log seconds at random, of several families of noise. Seeded."""

import numpy as np


def normal(rng, shape):
    return rng.normal(0, 0.02, shape)


def heavy_tailed(rng, shape):
    """Student's t with three degrees of freedom: now and then a round is off by 10%."""
    return 0.012 * rng.standard_t(3, shape)


def bimodal(rng, shape):
    """Two states of the machine, 4% apart, that a process falls into by chance."""
    return rng.normal(0, 0.005, shape) + 0.04 * (rng.random(shape) < 0.3)


def drifting(rng, shape):
    """The machine becomes 10% slower over the session, both sides alike."""
    return rng.normal(0, 0.01, shape) + np.linspace(0, 0.1, shape[1])[None, :, None]


def autocorrelated(rng, shape):
    """A mood that lasts for some rounds (AR(1), .8 from one process to the next, in the order A B B A)."""
    sequences, rounds, _ = shape
    steps = rng.normal(0, 0.015, (sequences, 2 * rounds))
    for index in range(1, 2 * rounds):
        steps[:, index] += 0.8 * steps[:, index - 1]
    in_order = steps.reshape(sequences, rounds, 2)
    in_order[:, 1::2] = in_order[:, 1::2, ::-1]
    return in_order


FAMILIES = (normal, heavy_tailed, bimodal, drifting, autocorrelated)


def sequences(family, number, rounds, seed):
    """Return (before, after), each (number, rounds), log seconds."""
    values = family(np.random.default_rng(seed), (number, rounds, 2))
    return values[:, :, 0], values[:, :, 1]
