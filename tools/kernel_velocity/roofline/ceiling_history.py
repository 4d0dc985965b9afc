"""How the ceilings of a device moved from session to session. Pure; base units."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from kernel_velocity.harness.device_figures import ID, UNITS
from kernel_velocity.roofline.roofs import LOWER_IS_BETTER, SESSIONS, CeilingSession, is_rate, of_newest, roof

MOVED = 0.05  # relative: a ceiling repeats to about 2% on a quiet machine, and a roof's error is allowed as much
COUNTED = ("threads", ID)  # figures that say what was measured, and are no ceilings


def names(device: str) -> tuple[str, ...]:
    """Return the ceilings of "cpu" or "cuda" in the order in which they are shown."""
    return tuple(name for name in UNITS[device] if name not in COUNTED)


def ratios(sessions: Sequence[CeilingSession], name: str) -> list[float | None]:
    """Return each session's figure over the median of those of up to SESSIONS sessions before it (oldest first).

    None where it, or all before it, could not be measured.
    """
    found: list[float | None] = []
    before: list[float] = []
    for session in sessions:
        value = session.figures.get(name)
        usual = statistics.median(before[-SESSIONS:]) if before else None
        found.append(None if value is None or not usual else value / usual)
        before += [] if value is None else [value]
    return found


def has_moved(ratio: float | None) -> bool:
    """Return whether a ceiling is away from where it was by more than MOVED, up or down."""
    return ratio is not None and not 1 / (1 + MOVED) <= ratio <= 1 + MOVED


def why(name: str, count: int) -> str:
    """Return how a roof is made of so many sessions that could measure it."""
    if not count:
        return ""
    if count == 1:
        return "the only session"
    of_rates = "upper quartile" if is_rate(name) else "median"
    kind = "lower quartile" if name in LOWER_IS_BETTER else of_rates
    return f"{kind} of {'the last ' if count == SESSIONS else ''}{count} sessions"


def columns(sessions: Sequence[CeilingSession], device: str) -> dict[str, Any]:
    """Return sessions of "cpu" or "cuda", oldest first, as columns in base units, with the roofs; {} for none."""
    if not sessions:
        return {}
    used = of_newest(sessions)
    return {
        "units": dict(UNITS[device]),
        "began": [session.began for session in sessions],
        "commit": [session.commit or None for session in sessions],
        "figures": {name: [session.figures.get(name) for session in sessions] for name in UNITS[device]},
        "roof": {name: roof(used, name) for name in names(device)},
    }
