"""Calls of the kernels, with a check of their outputs against float64 in numpy: the same for every device and dtype.

Arrays hold the numbers of a call in a type of numpy's: those of bfloat16, which numpy lacks, as float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.kernels.numbers import FORMATS, worst_exp_error
from tests.kernels.stand_in import float32_values

UNIT_ROUNDOFF = 2.0**-24  # of float32
FLOAT32 = np.finfo(np.float32)
# How far exp may be from its true value, in units in the last place of the result. CPU: add_mul_exp.cpp. CUDA's table
# of expf says 2 (1 in later releases) from the correctly rounded result, which is half a unit from the true one.
EXP_ULP = {"cpu": 1.1, "cuda": 2.5}

# Kernels with a random case here, for the checks that they share. A new kernel has a test of its own, and needs none.
KERNELS = ("add_mul_exp", "matmul", "quantize_int8")
PRODUCTS = {"float32": "float32", "float16": "float16", "bfloat16": "bfloat16", "int8": "int32"}  # to its output's
FLOAT8 = "float8_e4m3fn"  # of Hopper's tensor cores alone, to float32


@dataclass(frozen=True)
class Case:
    """One call of a kernel. `check(output, device)` raises AssertionError unless the output is right."""

    kernel: str
    arrays: tuple[np.ndarray, ...]
    scalars: tuple[float, ...]
    shape: tuple[int, ...]  # of the output
    dtype: str  # of the output
    check: Callable[[np.ndarray, str], None]
    inputs: str = "float32"  # their dtype


def values(dtype: str, seed: int, shape: tuple[int, ...], spread: float = 1.0) -> np.ndarray:
    """Return random normal numbers of a dtype."""
    return rounded(dtype, float32_values(seed, shape, spread))


def rounded(dtype: str, numbers: np.ndarray) -> np.ndarray:
    """Return numbers rounded to a dtype, in a type that holds them exactly."""
    if dtype not in FORMATS:
        return numbers.astype(dtype)
    return FORMATS[dtype].decode(FORMATS[dtype].encode(numbers.astype(np.float64)))


def add_mul_exp(x: np.ndarray, y: np.ndarray, dtype: str = "float32") -> Case:
    """float16 and bfloat16 are computed in float32, and rounded once: half a unit, and what exp errs in float32."""
    form = FORMATS[dtype]

    def check(output: np.ndarray, device: str) -> None:
        bound = EXP_ULP[device]
        if form.digits < 24:
            bound = 0.5 + bound * 2.0 ** (form.digits - 24)
        worst = worst_exp_error(form, output, x, y)
        assert worst <= bound, f"worst error {worst:.5f} ulp"

    return Case("add_mul_exp", (x, y), (), x.shape, dtype, check, inputs=dtype)


def quantize_int8(x: np.ndarray, scale: float, zero_point: int, dtype: str = "float32") -> Case:
    def check(output: np.ndarray, _device: str) -> None:
        wanted = quantize_int8_values(x, scale, zero_point)
        wrong = np.flatnonzero(output != wanted)
        assert wrong.size == 0, f"{wrong.size} wrong: {x.flat[wrong[0]]!r} gave {output.flat[wrong[0]]}"

    return Case("quantize_int8", (x,), (scale, zero_point), x.shape, "int8", check, inputs=dtype)


def quantize_int8_values(x: np.ndarray, scale: float, zero_point: int) -> np.ndarray:
    """The definition in float64, rounded to float32 after each of its operations.

    Rounding a quotient to float64 and then to float32 is rounding it to float32 once: 53 bits are more than 2 x 24 + 1
    (Figueroa, When is double rounding innocuous?, 1995). A subnormal quotient rounds to 0 in either case.
    """
    with np.errstate(all="ignore"):
        quotient = (x.astype(np.float64) / np.float64(np.float32(scale))).astype(np.float32)
        value = (np.rint(quotient.astype(np.float64)) + zero_point).astype(np.float32)
    return np.where(np.isnan(value), 0, np.clip(value, -128, 127)).astype(np.int8)


def matmul(a: np.ndarray, b: np.ndarray, dtype: str = "float32") -> Case:
    """A product of floating-point numbers."""
    return _bounded("matmul", (a, b), lambda product: product, 0, dtype)


def matmul_bias_relu(a: np.ndarray, b: np.ndarray, bias: np.ndarray, dtype: str = "float32") -> Case:
    """A product, the addition of bias, and what is negative made 0."""
    return _bounded(
        "matmul_bias_relu", (a, b, bias), lambda product: np.maximum(product + bias, 0), np.abs(bias), dtype
    )


def _bounded(
    kernel: str,
    arrays: tuple[np.ndarray, ...],
    finish: Callable[[np.ndarray], np.ndarray],
    added: np.ndarray | int,
    dtype: str,
) -> Case:
    """Return a case of what `finish` makes of the product of the first two arrays, adding something of size `added`.

    float32: any order of k additions stays within k u |A||B| (Higham, Accuracy and Stability, section 3.5). One more
    adds its own u.

    float16, bfloat16: a tensor core multiplies exactly, brings a few products and the sum so far to the largest one's
    exponent, and cuts off what is below its 24 bits (Fasi, Higham, Mikaitis and Pranesh, Numerical behavior of NVIDIA
    tensor cores, PeerJ Computer Science 7, 2021): k products and fewer than k sums err by 2^-23 |a||b| at most each. At
    the end a result is rounded once.
    """
    a, b = (array.astype(np.float64) for array in arrays[:2])
    form, k, last = FORMATS[dtype], a.shape[1], int(isinstance(added, np.ndarray))

    def check(output: np.ndarray, _device: str) -> None:
        true, size = finish(a @ b), np.abs(a) @ np.abs(b) + added
        if dtype == "float32":
            bound = (k + 1 + last) * UNIT_ROUNDOFF * size
        else:
            error = (2 * k + last) * 2.0**-23 * size
            # and where the result is subnormal
            bound = error + 2.0**-form.digits * (np.abs(true) + error) + 2.0 ** (form.smallest - form.digits)
        wrong = np.argwhere(~(np.abs(output - true) <= bound))
        assert wrong.size == 0, f"{len(wrong)} of {true.size} wrong, first at {wrong[0]}"

    return Case(kernel, arrays, (), (a.shape[0], b.shape[1]), dtype, check, inputs=dtype)


def exact_matmul(a: np.ndarray, b: np.ndarray, dtype: str) -> Case:
    """A product that is exact before it is rounded to the output's dtype, and so has one right answer."""
    to = (PRODUCTS | {FLOAT8: "float32"})[dtype]

    def check(output: np.ndarray, _device: str) -> None:
        wanted = rounded(to, a.astype(np.float64) @ b.astype(np.float64))
        wrong = np.argwhere(output != wanted)
        assert wrong.size == 0, f"{len(wrong)} of {wanted.size} wrong, first at {wrong[0]}"

    return Case("matmul", (a, b), (), (a.shape[0], b.shape[1]), to, check, inputs=dtype)


def integers(dtype: str, seed: int, shape: tuple[int, int]) -> np.ndarray:
    """Return all numbers of int8. Of the others small integers, whose products sum up exactly in float32."""
    low, high = (-128, 128) if dtype == "int8" else (-8, 9)
    return rounded(dtype, np.random.default_rng(seed).integers(low, high, shape))


def integer_product(dtype: str, m: int, n: int, k: int) -> Case:
    return exact_matmul(integers(dtype, m + 1, (m, k)), integers(dtype, n + 2, (k, n)), dtype)


def every_float8(seed: int) -> Case:
    """Every number of float8_e4m3fn by 1 and by 0: exact, whatever of a sum a tensor core keeps."""
    numbers = np.random.default_rng(seed).permutation(np.delete(np.arange(256), [127, 255]).repeat(128))
    a = FORMATS[FLOAT8].decode(numbers.astype(np.uint8)).reshape(-1, 128)
    return exact_matmul(a, np.eye(128, 144, dtype=np.float32), FLOAT8)


def normal_product(dtype: str, m: int, n: int, k: int) -> Case:
    return matmul(values(dtype, m + 1, (m, k)), values(dtype, n + 2, (k, n)), dtype)


def random_bias_relu(m: int, n: int, k: int, dtype: str = "float32") -> Case:
    shapes = ((m, (m, k), 1.0), (n, (k, n), 1.0), (k, (n,), 3.0))
    return matmul_bias_relu(*(values(dtype, *shape) for shape in shapes), dtype)


def elementwise(kernel: str, n: int, dtype: str = "float32", seed: int | None = None) -> Case:
    """A call of an element-wise kernel with n random numbers."""
    seed = n if seed is None else seed
    x = values(dtype, seed, (n,), 5)
    if kernel == "quantize_int8":
        return quantize_int8(x, 0.05, 3, dtype)
    return add_mul_exp(x, values(dtype, seed + 1, (n,), 5), dtype)


def random_case(kernel: str, seed: int) -> Case:
    """A call with random inputs, of a size that no vector, block or tile divides."""
    if kernel == "matmul":
        return matmul(float32_values(seed, (127, 65)), float32_values(seed + 1, (65, 131)))
    return elementwise(kernel, 10_007, seed=seed)


def even_cases() -> list[Case]:
    """A call of every kernel, of a size that vectors, blocks and tiles divide: only addresses can prevent them."""
    return [
        elementwise("add_mul_exp", 4096),
        elementwise("quantize_int8", 4096),
        normal_product("float32", 128, 128, 64),
    ]
