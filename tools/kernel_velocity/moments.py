"""Moments as text, in UTC: machines and readers are in several time zones. Pure but for the calendar."""

from __future__ import annotations

from datetime import UTC, datetime


def utc(when: float) -> str:
    """Return a Unix time, s, as "2026-03-05 12:00 UTC"; "at no known time" for one that no calendar has."""
    try:
        return f"{datetime.fromtimestamp(when, UTC):%Y-%m-%d %H:%M} UTC"
    except (OverflowError, ValueError, OSError):
        return "at no known time"
