"""The F-measure of change points against several annotators. Pure.

As the Turing Change Point Dataset has it (van den Burg and Williams, arXiv:2003.06222): precision against the
annotations of all taken together, recall as the mean over annotators; the series' first point counts as found by
everybody, so that "nothing" is an answer that can be right.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

MARGIN = 5  # points that a change may be off


def matched(wanted: Iterable[int], found: Iterable[int], margin: int = MARGIN) -> int:
    """Return how many of the wanted points have one found within the margin; every found one serves once."""
    left, count = set(found), 0
    for point in sorted(set(wanted)):
        near = [(abs(point - other), other) for other in left if abs(point - other) <= margin]
        if near:
            left.remove(min(near)[1])
            count += 1
    return count


def f_measure(annotations: Sequence[AbstractSet[int]], found: Iterable[int], margin: int = MARGIN) -> float:
    """Return the F1 of the found change points of a series.

    Args:
        annotations: indices of the first points of new levels, by annotator; at least one annotator.
        found: those that a detector reports.
        margin: points.
    """
    by_annotator = [{0, *points} for points in annotations]
    reported = {0, *found}
    precision = matched(set[int]().union(*by_annotator), reported, margin) / len(reported)
    recall = statistics.fmean(matched(points, reported, margin) / len(points) for points in by_annotator)
    return 2 * precision * recall / (precision + recall)
