"""What a recorded number can be. Beyond these bounds nothing was measured, and no page or calendar can show it. Pure.

JSON's numbers have no bounds: `10**400` is read as an integer that no float holds, which compares and does not add.
"""

from __future__ import annotations

from typing import TypeGuard

LEAST, MOST = 1e-12, 1e11  # of a time, s, and of a ratio
MOST_WORK = 1e24  # FLOP or bytes of a call: the largest machines of today take days for it
LAST_MOMENT = 253_402_300_799.0  # Unix time, s, of the last second of 9999, which is the last that `datetime` knows
_FINITE = 1e300  # room for what is computed from it


def is_number(value: object) -> TypeGuard[float]:
    """Return whether this is a finite number, and no truth."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -_FINITE <= value <= _FINITE


def is_time(value: object) -> TypeGuard[float]:
    """Return whether this is a duration that can have been measured, s."""
    return is_number(value) and LEAST <= value <= MOST


def is_work(value: object) -> TypeGuard[float]:
    """Return whether this is what a call can compute or move, FLOP or bytes."""
    return is_number(value) and 0 < value <= MOST_WORK


def is_moment(value: object) -> TypeGuard[float]:
    """Return whether this is a Unix time, s, from 1970 on, that a calendar has."""
    return is_number(value) and 0 <= value <= LAST_MOMENT
