"""Change points of a series: the vote of three detectors, each weak where another is strong. Pure, no commits known.

PELT localises well and needs three points, but is fooled by what lasts three points; E-divisive sees the whole
distribution, but knows nothing of correlation; the two windows are hard to fool and slow. Two of three must find the
same step. Beside the vote stand the screen (tools/changepoints_screen.py), which is cheap and sensitive and only asks
for a second look, and the check for slow drift (tools/changepoints_drift.py), which no detector of steps sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tools import changepoints_edivisive, changepoints_pelt, changepoints_windows
from tools.changepoints_values import LEAST, ChangePoint, Detection, Detector, Values, found_in

VOTES = 2
# Points: within it annotators of the Turing Change Point Dataset are taken to mean the same change, and it is what
# detectors may differ by on one step. Levels closer together have too few points for those that vote beside PELT.
MARGIN = 5


def detect(values: Values) -> Detection:
    """Return the change points of a whole series of log values."""
    return found_in(Vote(), values)


class Vote:
    """The three detectors and their vote, fed and asked."""

    def __init__(self) -> None:
        self._detectors: tuple[Detector, ...] = (
            changepoints_pelt.Pelt(),
            changepoints_edivisive.EDivisive(),
            changepoints_windows.TwoWindow(),
        )

    def extend(self, values: Values) -> None:
        """Take further log values."""
        taken = list(values)
        for detector in self._detectors:
            detector.extend(taken)

    def detection(self) -> Detection:
        """Return what two of three find in all points so far."""
        found = [detector.detection() for detector in self._detectors]
        warnings = tuple(warning for each in found for warning in each.warnings)
        return Detection(points=joined([each.points for each in found]), warnings=warnings)


def joined(found: Sequence[Sequence[ChangePoint]]) -> tuple[ChangePoint, ...]:
    """Return the change points that VOTES detectors agree on: within MARGIN points, and in direction.

    Changes of less than LEAST have no vote. Place, levels and p are those of the detector named first.

    Args:
        found: change points by detector, the one that localises best first.
    """
    pools = [[point for point in points if abs(point.after - point.before) >= LEAST] for points in found]
    agreed = []
    for rank, pool in enumerate(pools):
        others = pools[rank + 1 :]
        for candidate in pool:
            partners = [_partner(candidate, other) for other in others]
            voters = [candidate, *(partner for partner in partners if partner is not None)]
            if len(voters) < VOTES:
                continue
            for other, partner in zip(others, partners, strict=True):
                if partner is not None:
                    other.remove(partner)  # it has voted
            agreed.append(replace(candidate, detectors=tuple(name for each in voters for name in each.detectors)))
    return tuple(sorted(agreed, key=lambda point: point.index))


def _partner(candidate: ChangePoint, others: Sequence[ChangePoint]) -> ChangePoint | None:
    """Return the nearest of another detector's change points that may be the same one."""
    near = [each for each in others if abs(each.index - candidate.index) <= MARGIN and each.rises == candidate.rises]
    return min(near, key=lambda each: abs(each.index - candidate.index), default=None)
