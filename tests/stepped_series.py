"""Series with planted steps, as log values."""

import numpy as np


def stepped(*levels, size=40, sigma=0.01, seed=0):
    """Return a series of `size` points at each of the levels (log units), with normal noise."""
    rng = np.random.default_rng(seed)
    return np.concatenate([level + sigma * rng.standard_normal(size) for level in levels])


def with_holes(values, indices):
    """Return the values as a list with a missing point inserted before each of the places, NaN and None in turn."""
    result = []
    for index, value in enumerate(values):
        result += [(None, float("nan"))[number % 2] for number, hole in enumerate(indices) if hole == index]
        result.append(float(value))
    return result
