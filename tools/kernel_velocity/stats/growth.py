"""Choose how many first entries of a growing history an estimate uses, so that it stays stable as it grows. Pure.

The number is the largest term up to n of a sequence that grows by an eighth. So the estimate depends on the history
alone, stays the same until the next term, and its recomputation is spread over the n/8 entries before it.
"""

GROWTH = 8  # an estimate is recomputed after 1/8 more entries
ALWAYS_ANEW = 16  # with up to so many entries it is recomputed every time


def grown(size: int) -> int:
    """Return the largest term up to `size` of the sequence 16, 18, 20, 22, ... that grows by 1/8. Below it `size`."""
    term = min(size, ALWAYS_ANEW)
    while term >= ALWAYS_ANEW and term + term // GROWTH <= size:
        term += term // GROWTH
    return term
