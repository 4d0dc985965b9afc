"""Check recorded numbers: a value outside these bounds was not measured, and no page can show it. Pure.

JSON's numbers have no bounds: `10**400` is read as an integer that no float holds. It compares with floats, but cannot
be added to one.
"""

from __future__ import annotations

from typing import TypeGuard

LEAST, MOST = 1e-12, 1e11  # of a time, s, and of a ratio
MOST_WORK = 1e24  # FLOP or bytes of a call: the largest machines of today take days for it
LAST_MOMENT = 253_402_300_799.0  # Unix time, s, of the last second of 9999, the last that `datetime` supports
_FINITE = 1e300  # leaves room for computing with it


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number and no boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -_FINITE <= value <= _FINITE


def is_time(value: object) -> TypeGuard[float]:
    """Return whether a value is a measurable duration, s."""
    return is_number(value) and LEAST <= value <= MOST


def is_work(value: object) -> TypeGuard[float]:
    """Return whether a value is a possible amount of work of a call, FLOP or bytes."""
    return is_number(value) and 0 < value <= MOST_WORK


def is_moment(value: object) -> TypeGuard[float]:
    """Return whether a value is a Unix time, s, that `datetime` supports, from 1970 on."""
    return is_number(value) and 0 <= value <= LAST_MOMENT
