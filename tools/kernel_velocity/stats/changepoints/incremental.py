"""What is kept of a series between reports, so that its change points need not be found from nothing each time. Pure.

Kept is how far each detector came, and every test that the last vote made. Detectors that begin from it come to the
same as detectors that were fed the series from its first point, to the last bit: that is what a report relies on.
What one more point leaves as it was, stats/changepoints/many.py finds for many series at once.

What is kept of a series' change points as bytes, and back: to the last bit the same. Pure.

JSON, whose floats are the shortest text that is read as the same number, and behind it PELT's costs as they are.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats.changepoints import edivisive as changepoints_edivisive
from kernel_velocity.stats.changepoints import pelt as changepoints_pelt
from kernel_velocity.stats.changepoints import visits as changepoints_visits
from kernel_velocity.stats.changepoints.edivisive import REACH, EDivisive, Stretch
from kernel_velocity.stats.changepoints.pelt import Pelt
from kernel_velocity.stats.changepoints.values import ChangePoint, Detection, Detector, Observed, Step, Values
from kernel_velocity.stats.changepoints.visits import visits_before
from kernel_velocity.stats.changepoints.vote import LOUD, P_LOUD, Vote
from kernel_velocity.stats.changepoints.windows import TwoWindow

Points = tuple[ChangePoint, ...]
Tests = Mapping[Stretch, Step]

_LENGTH = struct.Struct("<I")  # of the JSON, bytes
_NULL = b"null"  # what orjson makes of numbers that JSON does not have


@dataclass(frozen=True, kw_only=True, eq=False)
class Kept:
    """A series as it was when its change points were found."""

    values: int  # of the input, also those that are missing
    said: bytes  # a digest of them
    size: int  # points that are there
    found: Points
    windows: Points | None  # of the two windows; None: to be found from nothing
    edivisive: changepoints_edivisive.Reached
    pelt: changepoints_pelt.Reached | None  # None: not asked, or to be found from nothing
    restless: Mapping[int, float | None]
    is_settled: bool  # see `_is_settled`


class Settled:
    """A detector whose answer is known."""

    def __init__(self, points: Points) -> None:
        """Take the answer."""
        self._points = points

    def extend(self, values: Values) -> None:
        """Take no more points: what was known is of those before."""
        raise NotImplementedError

    def detection(self) -> Detection:
        """Return the answer."""
        return Detection(points=self._points)


def found(values: FloatArray, known: Kept | None = None) -> Kept:
    """Return a whole series of log values with its change points.

    Args:
        values: NaN where there is none.
        known: how far each detector comes in them, of what `changepoints_along.extended` returned; None: nothing.
    """
    observed = Observed()
    observed.extend(values)
    if known is not None and known.is_settled and (same := _the_same(values, known, observed)):
        return same
    pelt = Pelt(observed, None if known is None else known.pelt)
    edivisive = EDivisive(observed, None if known is None else known.edivisive)
    vote = Vote(observed, (pelt, edivisive, _windows(values, known)), {} if known is None else known.restless)
    points = vote.detection().points
    return Kept(
        values=len(values),
        said=digest(values),
        size=observed.size,
        found=points,
        windows=vote.found[-1].points,
        edivisive=edivisive.reached(),
        pelt=pelt.reached,
        restless=vote.restless,
        is_settled=_is_settled(vote, edivisive, pelt.reached, observed),
    )


def _is_settled(vote: Vote, edivisive: EDivisive, pelt: changepoints_pelt.Reached | None, observed: Observed) -> bool:
    """Return whether further points can only matter by a detector's new cut, or to E-divisive's last step.

    No test but that one reaches them, the answer does not show that step, and no visit lasts to the end.
    """
    places = [observed.place(point.index) for each in vote.found for point in each.points]
    places += () if pelt is None else pelt.cuts
    if not edivisive.all_stand or max(places, default=-REACH) + REACH > observed.size:
        return False
    if not vote.agreed:
        return True
    cut = max((point.index for point in vote.found[-2].points), default=None)
    if any(point.detectors[0] == changepoints_edivisive.NAME and point.index == cut for point in vote.agreed):
        return False
    first = observed.place(vote.agreed[-2].index) if len(vote.agreed) > 1 else 0
    last = vote.agreed[-1]
    visits = visits_before(observed.logs[first : observed.place(last.index)], last)
    return len(visits) < changepoints_visits.FEWEST


def _the_same(values: FloatArray, known: Kept, observed: Observed) -> Kept | None:
    """Return a settled series with its further points; None where E-divisive's last step has another voice now."""
    edivisive = known.edivisive
    for stretch, step in edivisive.tests.items():
        if stretch[2] != known.size:
            continue
        longer = (*stretch[:2], observed.size)
        now = EDivisive(observed, edivisive).test(longer)
        scatter = known.restless.get(observed.index(stretch[1]))
        if _voice(now, scatter) != _voice(step, scatter):
            return None
        tests = {each: known for each, known in edivisive.tests.items() if each != stretch} | {longer: now}
        edivisive = replace(edivisive, tests=tests)
        break
    return replace(known, values=len(values), said=digest(values), size=observed.size, edivisive=edivisive)


def _voice(step: Step, scatter: float | None) -> tuple[bool, ...]:
    """Return all that a vote asks of a step that it does not show."""
    loudness = 0.0 if scatter is None else abs(step.after - step.before) / scatter
    is_loud = step.p < P_LOUD and loudness >= LOUD
    return changepoints_edivisive.stands(step), step.after > step.before, loudness >= 1, is_loud


def _windows(values: FloatArray, known: Kept | None) -> Detector:
    if known is not None and known.windows is not None:
        return Settled(known.windows)
    windows = TwoWindow()
    windows.extend(values)
    return windows


def digest(values: FloatArray) -> bytes:
    """Return what tells values from all others that a series may have had."""
    return hashlib.blake2b(values.data, digest_size=16).digest()


def packed(kept: Kept) -> bytes | None:
    """Return what is kept of a series as bytes; None where JSON has no number for one of it."""
    edivisive, pelt = kept.edivisive, kept.pelt
    document = [
        [kept.values, kept.said.hex(), kept.size, kept.is_settled],
        kept.found,
        kept.windows,
        [edivisive.start, edivisive.cuts, _tests(edivisive.tests)],
        [] if pelt is None else [pelt.basis, pelt.sigma, pelt.cuts, _tests(pelt.tests)],
        [[index, False if scatter is None else scatter] for index, scatter in kept.restless.items()],
    ]
    text = orjson.dumps(document)
    costs = b"" if pelt is None else pelt.costs.tobytes()
    return None if _NULL in text else _LENGTH.pack(len(text)) + text + costs


def unpacked(record: bytes) -> Kept:
    """Return what `packed` was given.

    Raises:
        ValueError, TypeError, LookupError, struct.error: it is no such record.
    """
    (length,) = _LENGTH.unpack_from(record)
    begin = _LENGTH.size
    about, found, windows, edivisive, pelt, restless = orjson.loads(record[begin : begin + length])
    values, said, size, is_settled = about
    start, cuts, tests = edivisive
    return Kept(
        values=values,
        said=bytes.fromhex(said),
        size=size,
        is_settled=is_settled,
        found=_points(found),
        windows=_points(windows),
        edivisive=changepoints_edivisive.Reached(start=start, cuts=tuple(cuts), tests=_steps(tests)),
        pelt=_pelt(pelt, record[begin + length :]) if pelt else None,
        restless={index: None if scatter is False else scatter for index, scatter in restless},
    )


def _tests(tests: Mapping[Stretch, Step]) -> list[tuple[Stretch, Step]]:
    return list(tests.items())


def _steps(tests: Sequence[Any]) -> dict[Stretch, Step]:
    return {tuple(stretch): Step(**{**step, "sizes": tuple(step["sizes"])}) for stretch, step in tests}


def _points(points: Sequence[Any]) -> Points:
    return tuple(
        ChangePoint(**{**each, "detectors": tuple(each["detectors"]), "warnings": tuple(each["warnings"])})
        for each in points
    )


def _pelt(said: Sequence[Any], costs: bytes) -> changepoints_pelt.Reached:
    basis, sigma, cuts, tests = said
    return changepoints_pelt.Reached(
        basis=basis, sigma=sigma, cuts=tuple(cuts), tests=_steps(tests), costs=np.frombuffer(costs)
    )
