"""Calls of the kernels with what float64 says of their outputs, in numpy: the same for every device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.kernels.stand_in import float32_values

UNIT_ROUNDOFF = 2.0**-24  # of float32
FLOAT32 = np.finfo(np.float32)
# How far exp may be from its true value, in units in the last place of the result. CPU: add_mul_exp.cpp. CUDA's table
# of expf says 2 (1 in later releases) from the correctly rounded result, which is half a unit from the true one.
EXP_ULP = {"cpu": 1.1, "cuda": 2.5}


# Kernels with a case here, for the checks that they share. A new kernel has a test of its own, and needs none.
KERNELS = ("add_mul_exp", "matmul", "quantize_int8")


@dataclass(frozen=True)
class Case:
    """One call of a kernel. `check(output, device)` raises AssertionError unless the output is right."""

    kernel: str
    arrays: tuple[np.ndarray, ...]
    scalars: tuple[float, ...]
    shape: tuple[int, ...]  # of the output
    dtype: str  # of the output
    check: Callable[[np.ndarray, str], None]
    inputs: str = "float32"  # their dtype; bfloat16's numbers are in arrays of float32


def add_mul_exp(x: np.ndarray, y: np.ndarray) -> Case:
    with np.errstate(over="ignore", invalid="ignore"):
        argument = (x + y) * np.float32(2)

    def check(output: np.ndarray, device: str) -> None:
        assert np.array_equal(np.isnan(output), np.isnan(argument))
        worst = float(np.max(_exp_error(output, argument), initial=0.0))
        assert worst <= EXP_ULP[device], f"worst error {worst:.3f} ulp"

    return Case("add_mul_exp", (x, y), (), x.shape, "float32", check)


def _exp_error(output: np.ndarray, argument: np.ndarray) -> np.ndarray:
    """Distance from exp(argument) in ulp of it; infinity counts as 2^128, the number that would be next."""
    number = ~np.isnan(argument)
    with np.errstate(over="ignore", under="ignore"):
        true = np.minimum(np.exp(argument[number].astype(np.float64)), 2.0**128)
    actual = output[number].astype(np.float64)
    assert not np.any(actual < 0)
    actual[np.isposinf(actual)] = 2.0**128
    exponent = np.frexp(np.clip(true, FLOAT32.tiny, FLOAT32.max))[1]  # of a fraction in [.5, 1) with 24 bits
    return np.abs(actual - true) / np.ldexp(1.0, exponent - 24)


def quantize_int8(x: np.ndarray, scale: float, zero_point: int) -> Case:
    def check(output: np.ndarray, _device: str) -> None:
        wanted = quantize_int8_values(x, scale, zero_point)
        wrong = np.flatnonzero(output != wanted)
        assert wrong.size == 0, f"{wrong.size} wrong: {x.flat[wrong[0]]!r} gave {output.flat[wrong[0]]}"

    return Case("quantize_int8", (x,), (scale, zero_point), x.shape, "int8", check)


def quantize_int8_values(x: np.ndarray, scale: float, zero_point: int) -> np.ndarray:
    """The definition in float64, rounded to float32 after each of its operations.

    Rounding a quotient to float64 and then to float32 is rounding it to float32 once: 53 bits are more than 2 x 24 + 1
    (Figueroa, When is double rounding innocuous?, 1995). A subnormal quotient rounds to 0 in either case.
    """
    with np.errstate(all="ignore"):
        quotient = (x.astype(np.float64) / np.float64(np.float32(scale))).astype(np.float32)
        value = (np.rint(quotient.astype(np.float64)) + zero_point).astype(np.float32)
    return np.where(np.isnan(value), 0, np.clip(value, -128, 127)).astype(np.int8)


def matmul(a: np.ndarray, b: np.ndarray) -> Case:
    """Any order of k float32 additions stays within k u |A||B| (Higham, Accuracy and Stability, section 3.5)."""

    def check(output: np.ndarray, _device: str) -> None:
        exact = a.astype(np.float64) @ b.astype(np.float64)
        bound = (a.shape[1] + 1) * UNIT_ROUNDOFF * (np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)))
        wrong = ~(np.abs(output - exact) <= bound)
        assert not np.any(wrong), f"{np.sum(wrong)} of {wrong.size} wrong, first at {np.argwhere(wrong)[0]}"

    return Case("matmul", (a, b), (), (a.shape[0], b.shape[1]), "float32", check)


def random_case(kernel: str, seed: int) -> Case:
    """A call with random inputs, of a size that no vector, block or tile divides."""
    if kernel == "matmul":
        return matmul(float32_values(seed, (127, 65)), float32_values(seed + 1, (65, 131)))
    x = float32_values(seed, (10_007,), 5)
    return quantize_int8(x, 0.05, 3) if kernel == "quantize_int8" else add_mul_exp(x, float32_values(seed + 1, x.shape))


def even_cases() -> list[Case]:
    """A call of every kernel, of a size that vectors, blocks and tiles divide: only addresses can prevent them."""
    x, y = float32_values(1, (4096,), 5), float32_values(2, (4096,), 5)
    a, b = float32_values(3, (128, 64)), float32_values(4, (64, 128))
    return [add_mul_exp(x, y), quantize_int8(x, 0.05, 3), matmul(a, b)]
