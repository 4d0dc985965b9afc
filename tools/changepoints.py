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
from tools.changepoints_values import ChangePoint, Detection, Detector, Values, found_in

NAMES = (changepoints_pelt.NAME, changepoints_edivisive.NAME, changepoints_windows.NAME)
VOTES = 2
MARGIN = 5  # points: the margin within which TCPD takes two indices for the same change


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
        """Return what two of three find in all points so far, the levels being those between what is returned."""
        found = [detector.detection() for detector in self._detectors]
        warnings = tuple(warning for each in found for warning in each.warnings)
        return Detection(points=joined([each.points for each in found]), warnings=warnings)


def joined(found: Sequence[Sequence[ChangePoint]]) -> tuple[ChangePoint, ...]:
    """Return the change points that VOTES detectors agree on: within MARGIN points, and in direction."""
    pools = [list(points) for points in found]
    agreed = []
    for rank, pool in enumerate(pools):
        for candidate in pool:
            partners = [_partner(candidate, other) for other in pools[rank + 1 :]]
            if 1 + sum(partner is not None for partner in partners) < VOTES:
                continue
            for other, partner in zip(pools[rank + 1 :], partners, strict=True):
                if partner is not None:
                    other.remove(partner)
            agreed.append((candidate, [each.detectors[0] for each in (candidate, *partners) if each is not None]))
    return tuple(sorted((replace(c, detectors=tuple(d)) for c, d in agreed), key=lambda c: c.index))


def _partner(candidate: ChangePoint, others: Sequence[ChangePoint]) -> ChangePoint | None:
    near = [each for each in others if abs(each.index - candidate.index) <= MARGIN and each.rises == candidate.rises]
    return min(near, key=lambda each: abs(each.index - candidate.index), default=None)
