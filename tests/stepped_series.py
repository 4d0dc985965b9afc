"""Series with planted steps, as log values."""

import numpy as np


def stepped(*levels, size=40, sigma=0.01, seed=0):
    """Return a series of `size` points at each of the levels (log units), with normal noise."""
    rng = np.random.default_rng(seed)
    return np.concatenate([level + sigma * rng.standard_normal(size) for level in levels])


def with_holes(values, places):
    """Return the values as a list with a missing point inserted before each of the places, NaN and None in turn."""
    found = []
    for place, value in enumerate(values):
        found += [(None, float("nan"))[number % 2] for number, hole in enumerate(places) if hole == place]
        found.append(float(value))
    return found
