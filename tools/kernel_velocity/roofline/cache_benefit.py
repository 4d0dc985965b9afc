"""What caches gave a call: how many times faster it was than memory alone could have been. Pure; base units."""

from __future__ import annotations


def dram_seconds(bytes_moved: float, bandwidth: float) -> float:
    """Return the s that a call takes at least whose every byte comes from memory.

    Args:
        bytes_moved: least memory traffic of one call, B. bandwidth: of memory, B/s.

    Raises:
        ValueError: a negative amount, or a bandwidth that is not positive.
    """
    if not bytes_moved >= 0 or not bandwidth > 0:
        raise ValueError(f"memory's time of {bytes_moved!r} B at {bandwidth!r} B/s: wanted >= 0 B and > 0 B/s")
    return bytes_moved / bandwidth


def cache_benefit(bytes_moved: float, seconds: float, bandwidth: float) -> float:
    """Return the DRAM-bound prediction over the measured time, at least 1: 1 where caches gave nothing.

    Arithmetic is left out of the prediction on purpose: caches make no arithmetic faster.

    Args:
        bytes_moved: least memory traffic of one call, B. seconds: of one call. bandwidth: of memory, B/s.

    Raises:
        ValueError: an amount or a time that makes no sense.
    """
    if not seconds > 0:
        raise ValueError(f"a call of {seconds!r} s: wanted a positive time")
    return max(1.0, dram_seconds(bytes_moved, bandwidth) / seconds)
