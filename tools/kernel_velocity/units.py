"""Format numbers in base units as text with readable units, rounded so that the text cannot mislead.

A non-zero value is never printed as zero. A value that is not the whole (100%, "unchanged") is never printed as the
whole. Values have three significant digits, one more than the noise between sessions (about 1%) deserves, so that
rounding never hides a change that the measurement can show.

Times of day are in UTC, because machines and readers are in several time zones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from kernel_velocity import bounds
from kernel_velocity.names import operation

SECONDS, BYTES = "seconds", "bytes"  # units of values, as asv writes them
SIGNIFICANT_DIGITS = 3  # significant digits of a printed value

TIME_UNITS = (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0))
BYTE_UNITS = (("bytes", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12))
_LEAST_PLAIN, _MOST_PLAIN = 1e-6, 1e15  # beyond them a number is written with an exponent
# (from, below, decimals) of the most frequent values; above each range rounding may carry into another digit
_PLAIN = ((1.0, 9.99, 2), (10.0, 99.9, 1), (100.0, 999.0, 0))
RATES = ("GFLOPS", "GOPS", "GB/s")  # recorded units of rates, 10^9 a second
# and how many 10^9 each prefix is. No data sheet says POPS: it has 1,979 TOPS
_PREFIXES = (("k", 1e-6), ("M", 1e-3), ("G", 1.0), ("T", 1e3))
_WORDS = {SECONDS: ("faster", "slower"), BYTES: ("smaller", "larger")}  # of a change to less, to more
MULTIPLE = "×"  # after a number of times
MULTIPLE_FROM = 2.0  # a change from here on reads better as a multiple than as a percentage


def significant(value: float) -> str:
    """Return `value` with SIGNIFICANT_DIGITS digits, without exponent, thousands separated by commas.

    Digits before the decimal point are never dropped: 1234.5 is "1,234", not "1,230".
    """
    for least, below, decimals in _PLAIN:
        if least <= value < below:
            return f"{value:.{decimals}f}"
    return "0" if value == 0 else f"{value:,.{max(SIGNIFICANT_DIGITS - 1 - _exponent(value), 0)}f}"


def _exponent(value: float) -> int:
    """Return the power of ten of the first of SIGNIFICANT_DIGITS after rounding: 0 for 9.99, 1 for 9.999 (10.0)."""
    return int(f"{value:.{SIGNIFICANT_DIGITS - 1}e}".partition("e")[2])


def seconds(value: float) -> str:
    """Return a time, s, in the unit that has 1 to 999 before the decimal point: "1.23 ms"."""
    for unit, scale in TIME_UNITS[:-1]:
        scaled = value / scale
        if scaled < 999 or (scaled < 1000 and _exponent(scaled) < SIGNIFICANT_DIGITS):
            return f"{significant(scaled)} {unit}"
    return f"{significant(value)} {TIME_UNITS[-1][0]}"


def value(number: float, unit: str) -> str:
    """Return a value in a unit as asv writes it: "1.23 ms" of "seconds", "12.3 MB" of "bytes", "0.97 accuracy"."""
    if unit == SECONDS and bounds.is_time(number):
        return seconds(number)
    if unit == BYTES and number > 0:
        return size(number)
    return f"{plain(number)} {unit}".rstrip()


def plain(number: float) -> str:
    """Return a number of any size and sign with SIGNIFICANT_DIGITS digits, with an exponent where it is long."""
    if number == 0 or _LEAST_PLAIN <= abs(number) < _MOST_PLAIN:
        return significant(number)
    digits, _, exponent = f"{number:.{SIGNIFICANT_DIGITS - 1}e}".partition("e")
    return f"{digits}e{int(exponent):+d}"


def size(number: float) -> str:
    """Return bytes in the unit that has 1 to 999 before the decimal point, kB being 1,000 bytes: "12.3 MB"."""
    for unit, scale in reversed(BYTE_UNITS[1:]):
        if number >= scale * 0.9995:
            return f"{plain(number / scale)} {unit}"
    return f"{plain(number)} {BYTE_UNITS[0][0]}"


def rate_unit(*dtypes: str) -> str:
    """Return the unit of rates, 10^9 operations per second: "GFLOPS", or "GOPS" if one of the dtypes is of integers."""
    return "GOPS" if any(operation(dtype) == "OP" for dtype in dtypes) else "GFLOPS"


def rate_units(dtypes: Iterable[str]) -> str:
    """Return the heading of rates in some dtypes: "FLOPS", "OPS", "FLOPS (OPS for int8)"."""
    return _units("FLOPS", "OPS", dtypes)


def intensity_units(dtypes: Iterable[str]) -> str:
    """Return the heading of arithmetic intensities in some dtypes: "FLOP per byte (OP per byte for int8)"."""
    return _units("FLOP per byte", "OP per byte", dtypes)


def _units(floats: str, integers: str, dtypes: Iterable[str]) -> str:
    names = sorted(set(dtypes))
    integer_names = [dtype for dtype in names if operation(dtype) == "OP"]
    if len(integer_names) in (0, len(names)):
        return integers if integer_names else floats
    return f"{floats} ({integers} for {', '.join(integer_names)})"


def prefix(value: float) -> tuple[str, float]:
    """Return the SI prefix that leaves 1 to 999 before the point of a rate, 10^9 a second, and how many 10^9 it is."""
    for name, scale in _PREFIXES[:-1]:
        scaled = value / scale
        if scaled < 999 or (scaled < 1000 and _exponent(scaled) < SIGNIFICANT_DIGITS):
            return name, scale
    return _PREFIXES[-1]


def rate(value: float, unit: str) -> str:
    """Return a rate in a unit of RATES with the prefix of its size: "12.3 GFLOPS", "733 TFLOPS", "4.33 TB/s"."""
    name, scale = prefix(value)
    return f"{significant(value / scale)} {name}{unit[1:]}"


def rates(low: float, high: float, unit: str) -> str:
    """Return an interval of rates with one prefix, that of its upper end: "11.9 to 12.4 GFLOPS"."""
    return f"{significant(low / prefix(high)[1])} to {rate(high, unit)}"


def intensity(value: float, dtype: str) -> str:
    """Return an arithmetic intensity in a dtype, operations per byte: "0.250 FLOP/B"."""
    return f"{significant(value)} {operation(dtype)}/B"


def bandwidth(value: float) -> str:
    """Return a rate in GB/s (10^9 bytes per second): "12.3 GB/s", "4.33 TB/s"."""
    return rate(value, "GB/s")


def memory(size: int) -> str:
    """Return a memory's size, bytes, in GiB (2^30 bytes): "23.5 GiB"."""
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


def change(ratio: float, unit: str = SECONDS) -> str:
    """Return a ratio of values, old / new (> 0), in words: "3.2% faster", "2.10× slower", "5.0% larger", "unchanged".

    Only a ratio of exactly 1 is "unchanged". From a factor of two on it is a multiple (`is_multiple`). Percentages are
    of the value: "5.0% slower" is 1.05 times the time, "50.0% lower" half of a rate.
    """
    if ratio == 1:
        return "unchanged"
    smaller, larger = _WORDS.get(unit, ("lower", "higher"))
    word = smaller if ratio > 1 else larger
    if is_multiple(ratio, unit):
        return f"{significant(max(ratio, 1 / ratio))}{MULTIPLE} {word}"
    return f"{share(abs(1 / ratio - 1))} {word}"


def is_multiple(ratio: float, unit: str) -> bool:
    """Return whether a ratio of values, old / new, reads best as a multiple: not that of a rate that fell."""
    return 1 / ratio >= MULTIPLE_FROM or (ratio >= MULTIPLE_FROM and unit in _WORDS)


def count(number: int, noun: str) -> str:
    """Return a number with its noun: "1 round", "8 rounds"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(texts: Sequence[str], most: int = 1) -> str:
    """Return the first `most` texts as a list in a sentence, and how many others there are: "a, b and 3 more"."""
    others = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {others:,} more" if others > 0 else "")


def utc(when: float) -> str:
    """Return a Unix time, s, as "2026-03-05 12:00 UTC". "at no known time" where `datetime` does not support it."""
    try:
        return f"{datetime.fromtimestamp(when, UTC):%Y-%m-%d %H:%M} UTC"
    except (OverflowError, ValueError, OSError):
        return "at no known time"
