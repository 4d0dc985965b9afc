"""Numbers as text: base units in, units people read out; rounded so that the text cannot lie.

Two rules hold everywhere: what is not zero is never printed as zero, and what is not the whole (100%, or
"unchanged") is never printed as the whole. Values have three significant digits: one more than the noise
between sessions (about 1%) deserves, so that rounding never hides a change that the measurement can show.

Moments as text, in UTC: machines and readers are in several time zones. Pure but for the calendar.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from kernel_velocity.errors import UsageError
from kernel_velocity.harness.cases import operation

DIGITS = 3  # significant digits of a printed value

_TIMES = (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0))
# The values that pages are full of, up to where rounding may carry into a further digit: their decimals
_PLAIN = ((1.0, 9.99, 2), (10.0, 99.9, 1), (100.0, 999.0, 0))
_RATES = ("GFLOPS", "GOPS", "GB/s")
_MULTIPLE_FROM = 2.0  # a change from here on reads better as a multiple than as a percentage


def significant(value: float) -> str:
    """Return `value` with DIGITS significant digits, without exponent, thousands separated by commas.

    Digits before the decimal point are never dropped: 1234.5 is "1,234", not "1,230".
    """
    for least, below, decimals in _PLAIN:
        if least <= value < below:
            return f"{value:.{decimals}f}"
    return "0" if value == 0 else f"{value:,.{max(DIGITS - 1 - _exponent(value), 0)}f}"


def _exponent(value: float) -> int:
    """Return the power of ten of the first of DIGITS digits: rounding may carry into a further one, 9.999 -> 10.0."""
    return int(f"{value:.{DIGITS - 1}e}".partition("e")[2])


def seconds(value: float) -> str:
    """Return a time, s, with the prefix that leaves 1 to 999 before the decimal point: "1.23 ms"."""
    for unit, scale in _TIMES[:-1]:
        scaled = value / scale
        if scaled < 999 or _exponent(scaled) < DIGITS:
            return f"{significant(scaled)} {unit}"
    return f"{significant(value)} {_TIMES[-1][0]}"


def rate_unit(*dtypes: str) -> str:
    """Return the unit of rates in a dtype, 10^9 operations per second: "GFLOPS"; of integers "GOPS".

    Of several dtypes, for their mean, "GFLOPS" only where none is of integers: GOPS is true of both.
    """
    return "GOPS" if any(operation(dtype) == "OP" for dtype in dtypes) else "GFLOPS"


def rate_units(dtypes: Iterable[str]) -> str:
    """Return the words over rates in some dtypes, true of each: "GFLOPS", "GOPS", "GFLOPS (GOPS for int8)"."""
    return _of_each("GFLOPS", "GOPS", dtypes)


def intensity_units(dtypes: Iterable[str]) -> str:
    """Return the words over arithmetic intensities in some dtypes: "FLOP per byte (OP per byte for int8)"."""
    return _of_each("FLOP per byte", "OP per byte", dtypes)


def _of_each(of_floats: str, of_integers: str, dtypes: Iterable[str]) -> str:
    known = sorted(set(dtypes))
    integers = [dtype for dtype in known if operation(dtype) == "OP"]
    if len(integers) in (0, len(known)):
        return of_integers if integers else of_floats
    return f"{of_floats} ({of_integers} for {', '.join(integers)})"


def rate(value: float, unit: str) -> str:
    """Return a rate given in a unit that `rate_unit` returned: "12.3 GFLOPS"."""
    return f"{significant(value)} {unit}"


def intensity(value: float, dtype: str) -> str:
    """Return the arithmetic intensity of what computes in a dtype, operations per byte: "0.250 FLOP/B"."""
    return f"{significant(value)} {operation(dtype)}/B"


def gigabytes(value: float) -> str:
    """Return a rate given in GB/s (10^9 bytes per second): "12.3 GB/s"."""
    return f"{significant(value)} GB/s"


def parse(text: str) -> float:
    """Return what a printed value says, in base units of its kind: s, GFLOPS, GOPS or GB/s.

    Raises:
        UsageError: no number, or a unit that this module does not print.
    """
    number, _, unit = text.partition(" ")
    scales = dict(_TIMES) | dict.fromkeys(_RATES, 1.0)
    try:
        return float(number.replace(",", "")) * scales[unit]
    except (ValueError, KeyError):
        wanted = ", ".join(scales)
        raise UsageError(f"{text!r} is not a value with a unit: a number and one of {wanted} is wanted") from None


def memory(size: int) -> str:
    """Return a memory's size, bytes, in GiB (2^30 bytes), as memory is sold: "23.5 GiB"."""
    return f"{significant(size / 2**30)} GiB"


def share(fraction: float) -> str:
    """Return a fraction in percent with one decimal: never 0% unless it is 0, never 100% unless it is 1."""
    percent = 100 * fraction
    if 0 < percent < 0.05:
        return "<0.1%"
    if 99.95 <= percent < 100:
        return ">99.9%"
    if 100 < percent < 100.05:
        return ">100.0%"
    return f"{percent:.1f}%"


def change(ratio: float) -> str:
    """Return a speed ratio (new rate / old rate, > 0) in words: "3.2% faster", "2.10x slower", "unchanged".

    Only a ratio of exactly 1 is "unchanged". From a factor of two on it is given as a multiple.
    Percentages are of speed: half as fast is "2.00x slower" (it takes twice the time), 5% slower means
    0.95 of the rate.
    """
    if ratio == 1:
        return "unchanged"
    word = "faster" if ratio > 1 else "slower"
    if ratio >= _MULTIPLE_FROM or 1 / ratio >= _MULTIPLE_FROM:
        return f"{significant(max(ratio, 1 / ratio))}x {word}"
    return f"{share(abs(ratio - 1))} {word}"


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where it must be: "1 round", "8 rounds"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def utc(when: float) -> str:
    """Return a Unix time, s, as "2026-03-05 12:00 UTC"; "at no known time" for one that no calendar has."""
    try:
        return f"{datetime.fromtimestamp(when, UTC):%Y-%m-%d %H:%M} UTC"
    except (OverflowError, ValueError, OSError):
        return "at no known time"
