"""How much of a growing history an estimate rests on, so that it stays as it is while the history grows. Pure.

The first m entries, m being the largest term up to n of a series that grows by an eighth: what is estimated from them
is a function of the history alone, stays the same until the next term, and each new estimate is paid for by the n/8
entries that came before it.
"""

GROWTH = 8  # an estimate is made anew when there is 1/8 more
ALWAYS_ANEW = 16  # of up to so many entries it always is


def grown(size: int) -> int:
    """Return the largest term up to `size` of the series 16, 18, 20, 22, ... that grows by 1/8; below it `size`."""
    term = min(size, ALWAYS_ANEW)
    while term >= ALWAYS_ANEW and term + term // GROWTH <= size:
        term += term // GROWTH
    return term
