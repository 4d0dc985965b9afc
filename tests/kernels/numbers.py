"""Numbers of every dtype as arrays of numpy, which has no bfloat16 and no float8: those as their bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.kernels.stand_in import HostTensor


def _float8() -> np.ndarray:
    """Return the numbers of all bytes: E4M3 of Micikevicius et al., FP8 Formats for Deep Learning, 2022."""
    codes = np.arange(128)
    exponent, fraction = codes // 8, codes % 8
    sizes = np.where(exponent > 0, np.ldexp(8.0 + fraction, exponent - 10), np.ldexp(fraction * 1.0, -9))
    sizes[127] = np.nan
    return np.concatenate([sizes, -sizes]).astype(np.float32)


FLOAT8 = _float8()


@dataclass(frozen=True)
class Format:
    """A floating-point format: its name, and what it stores."""

    name: str
    stored: type  # dtype of an array that holds its bits
    digits: int  # bits of the significand, the hidden one included
    smallest: int  # exponent of the smallest normal number, a power of two
    largest: int  # the numbers end below this power of two

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Return float64 values rounded to the format, half to even. Of bfloat16 the bits, by way of float32.

        Of float8 too, whose numbers must be among those that it has.
        """
        if self.name == "float8_e4m3fn":
            codes = np.searchsorted(FLOAT8[:127], np.abs(values))
            assert np.array_equal(FLOAT8[codes], np.abs(values))
            return (codes + 128 * np.signbit(values)).astype(np.uint8)
        with np.errstate(over="ignore"):
            if self.name != "bfloat16":
                return values.astype(self.stored)
            bits = values.astype(np.float32).view(np.uint32)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)

    def decode(self, array: np.ndarray) -> np.ndarray:
        """Return the numbers of an array in a type that holds them exactly: float32, or float64."""
        if self.name == "bfloat16":
            return (array.astype(np.uint32) << 16).view(np.float32)
        if self.name == "float8_e4m3fn":
            return FLOAT8[array]
        with np.errstate(invalid="ignore"):  # aarch64 reports a signalling NaN of float16
            return array.astype(np.float64 if self.name == "float64" else np.float32)

    def ulp(self, values: np.ndarray) -> np.ndarray:
        """Return the distance between neighbours of the format at these values (long double), as long double."""
        exponent = np.frexp(np.maximum(np.abs(values), np.ldexp(np.longdouble(1), self.smallest)))[1]
        return np.ldexp(np.longdouble(1), np.minimum(exponent, self.largest) - self.digits)

    def tensor(self, array: np.ndarray) -> HostTensor:
        """Return a tensor of this dtype over the memory of an array."""
        return Typed(array, self.name)


FORMATS = {
    "float64": Format("float64", np.float64, 53, -1022, 1024),
    "float32": Format("float32", np.float32, 24, -126, 128),
    "float16": Format("float16", np.float16, 11, -14, 16),
    "bfloat16": Format("bfloat16", np.uint16, 8, -126, 128),
    "float8_e4m3fn": Format("float8_e4m3fn", np.uint8, 4, -6, 9),
}


def worst_exp_error(form: Format, out: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """Return the worst distance of `out` from exp((x + y) * 2) in ulp. Infinity counts as what would come next.

    All three hold numbers of the format. The sum is that of float32 (float64). numpy's exp of long double errs by less
    than one unit of 64 digits.

    Raises:
        AssertionError: a NaN where there should be none or none where one should be, a negative number, or anything but
            zero for minus infinity.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        argument = (x + y) * x.dtype.type(2)
        end = np.ldexp(np.longdouble(1), form.largest)
        true = np.minimum(np.exp(argument.astype(np.longdouble)), end)
    actual = out.astype(np.longdouble)
    assert np.array_equal(np.isnan(actual), np.isnan(argument))
    assert not np.any(np.signbit(actual[~np.isnan(actual)]))
    assert not np.any(actual[np.isneginf(argument)])
    actual = np.where(np.isposinf(actual), end, actual)
    error = np.abs(actual - true) / form.ulp(true)
    return float(np.max(error, initial=0, where=~np.isnan(argument)))


class Typed(HostTensor):
    """A tensor that says its dtype, whatever the array's is."""

    def __init__(self, array: np.ndarray, dtype: str, device: str = "cpu") -> None:
        super().__init__(array, device)
        self.named = dtype

    @property
    def dtype(self) -> str:
        return self.named

    def new_empty(self, shape: tuple[int, ...], dtype: str) -> HostTensor:
        stored = FORMATS[dtype].stored if dtype in FORMATS else dtype
        return Typed(np.full(shape, 77, stored), dtype, self.device)
