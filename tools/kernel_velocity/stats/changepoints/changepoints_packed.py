"""What is kept of a series' change points as bytes, and back: to the last bit the same. Pure.

JSON, whose floats are the shortest text that is read as the same number, and behind it PELT's costs as they are.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from kernel_velocity.stats.changepoints import edivisive as changepoints_edivisive
from kernel_velocity.stats.changepoints import pelt as changepoints_pelt
from kernel_velocity.stats.changepoints.changepoints_elimination import Stretch
from kernel_velocity.stats.changepoints.incremental import Kept, Points
from kernel_velocity.stats.changepoints.values import ChangePoint, Step

_LENGTH = struct.Struct("<I")  # of the JSON, bytes
_NULL = b"null"  # what orjson makes of numbers that JSON does not have


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
