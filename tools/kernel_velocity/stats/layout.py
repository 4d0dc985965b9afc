"""Test whether one commit is slower than another beyond the layout of their code. Pure.

Where the linker puts functions moves a time by some per cent, though no instruction changes (Mytkowicz et al.,
"Producing wrong data without doing anything obviously wrong", ASPLOS 2009). So both commits are linked in several
orders drawn at random, and measured in turns under each. An order gives one difference of the commits. The differences
scatter by layout and by noise about the change of the code, and Student's t test over the orders holds the change
against both (setup randomization, section 7 of that paper). The rounds of an order share its layout. Hence they count
as one value, however many they are.

A layout is often one of two: a loop lies across a line, or it does not. All differences may then be the same by chance,
in 2 / 4^LEAST of cases at worst: .8% with four orders. Simulated (tests/stats/test_layout.py, floor aside): identical
code is called different in 1.1% of series at most, whether layouts are two or many. Under four orders 5% are found in
.999 of series where layouts scatter by .5%, in .75 at 1%. Under eight orders it is 1.0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import special

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats import two_samples
from kernel_velocity.stats.sequential import CONFIDENCE, FLOOR, Answer, Comparison, answer_of

LEAST = 4  # link orders from which alike differences are no chance
P = two_samples.P_WELCH
EFFICIENCY = 3 / math.pi  # of Hodges and Lehmann's estimate against the mean, normal noise


def beyond(
    orders: Sequence[tuple[FloatArray, FloatArray]], *, floor: float = FLOOR, adjusted: bool = False
) -> Comparison:
    """Return the comparison of two commits that were measured under several link orders.

    Args:
        orders: log seconds per call before and after, one of each round, of LEAST link orders or more.
        floor: relative change that counts.
        adjusted: whether the values are adjusted. It becomes a field of the result.
    """
    differences = np.array([two_samples.shift(before, after, CONFIDENCE)[0] for before, after in orders])
    count, moved, variance = differences.size, float(differences.mean()), float(differences.var(ddof=1))
    error = math.sqrt(variance / count)
    p = 2 * float(special.stdtr(count - 1, -abs(moved) / error)) if error else float(moved == 0)
    reach = float(special.stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * error
    noise = np.mean([(before.var(ddof=1) + after.var(ddof=1)) / (EFFICIENCY * before.size) for before, after in orders])
    layout = math.expm1(math.sqrt(max(0.0, variance - float(noise))))
    answer, reason = answer_of(moved, moved - reach, moved + reach, p, floor, threshold=P)
    unshown = "no change beyond layout is shown: " if answer is Answer.UNKNOWN and abs(moved) < reach else ""
    return Comparison(
        answer=answer,
        reason=f"{unshown}{reason}; over {count} link orders, which alone move it by {100 * layout:.2g}%",
        rounds=sum(before.size for before, _ in orders),
        ratio=math.exp(moved),
        low=math.exp(moved - reach),
        high=math.exp(moved + reach),
        p=p,
        floor=floor,
        adjusted=adjusted,
    )
