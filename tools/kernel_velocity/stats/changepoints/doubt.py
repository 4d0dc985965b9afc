"""Which change points the links of sessions do not explain.

What a link leaves is a step between sessions, of the size of its error. So a change point counts where it is larger
than that, or where the values of one session show it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats.changepoints.detector import FEWEST_A_SIDE, REACH
from kernel_velocity.stats.changepoints.noise import yuen
from kernel_velocity.stats.changepoints.values import ChangePoint

CHANCE = 1e-4  # of a step that the values of one session make by chance
DOUBTS = 5.0  # standard errors of a link, which are estimates themselves: 3.9 let 3 times as many false steps through


def beyond_doubt(logs: FloatArray, errors: FloatArray, points: Sequence[ChangePoint]) -> list[ChangePoint]:
    """Return the change points that the errors of links do not explain.

    The levels of a step are means over sessions, and the error of a session's link moves each by the session's share
    of it. What remains of both is the doubt. A step also counts where the values of a single session show it. Commits
    of the same error are of one session.

    Args:
        logs: values, shape (commits,). NaN: not measured. errors: standard errors of the links, shape (commits,), 0 in
            the first session. points: ascending.
    """
    measured = np.flatnonzero(~np.isnan(logs))
    logs, errors = logs[measured], errors[measured]
    cuts = [int(np.searchsorted(measured, point.index)) for point in points]
    beyond = []
    for point, start, cut, end in zip(points, [0, *cuts], cuts, [*cuts[1:], logs.size], strict=False):
        before, after = errors[max(start, cut - REACH) : cut], errors[cut : min(end, cut + REACH)]
        shares = {error: np.mean(after == error) - np.mean(before == error) for error in np.unique(errors)}
        doubt = math.hypot(*(error * share for error, share in shares.items()))
        session = errors == errors[cut]
        sides = logs[:cut][session[:cut]], logs[cut:][session[cut:]]
        is_inside = min(map(len, sides)) >= FEWEST_A_SIDE and yuen(*sides).p < CHANCE
        if is_inside or abs(point.after - point.before) > DOUBTS * doubt:
            beyond.append(point)
    return beyond
