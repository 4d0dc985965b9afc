"""Products of matrices of the dtypes that only CUDA multiplies, with what they must be: the same for a GPU and without.

Matrices hold the numbers as float32 (bfloat16 is no type of numpy's) or int8; each is a number of its dtype.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.kernels.numbers import FORMATS
from tests.kernels.references import Case
from tests.kernels.stand_in import float32_values

DTYPES = ("float16", "bfloat16", "int8")
OUTPUTS = {"float16": "float16", "bfloat16": "bfloat16", "int8": "int32"}
# One item, odd ones, whole tiles, whole chunks of 16 bytes only, many passes of k, more rows of tiles than a band has.
SHAPES = (
    (1, 1, 1),
    (17, 19, 23),
    (129, 65, 33),
    (64, 64, 64),
    (128, 128, 64),
    (136, 80, 80),
    (131, 127, 9),
    (16, 8, 304),
    (577, 16, 16),
)


def integers(dtype: str, seed: int, shape: tuple[int, int]) -> np.ndarray:
    """Return all numbers of int8; of the others small integers, whose products sum up exactly in float32."""
    random = np.random.default_rng(seed)
    if dtype == "int8":
        return random.integers(-128, 128, shape).astype(np.int8)
    return random.integers(-8, 9, shape).astype(np.float32)


def normals(dtype: str, seed: int, shape: tuple[int, int]) -> np.ndarray:
    """Return normal values, rounded to a dtype of floating-point numbers."""
    form = FORMATS[dtype]
    return form.decode(form.encode(float32_values(seed, shape).astype(np.float64))).astype(np.float32)


def exact(dtype: str, a: np.ndarray, b: np.ndarray) -> Case:
    """A product that is exact before it is rounded to the output's dtype, and so has one right answer."""

    def check(output: np.ndarray, _device: str) -> None:
        wanted = rounded(dtype, a.astype(np.float64) @ b.astype(np.float64))
        wrong = np.argwhere(output != wanted)
        assert wrong.size == 0, f"{len(wrong)} of {wanted.size} wrong, first at {wrong[0]}"

    return _case(dtype, a, b, check)


def rounded(dtype: str, values: np.ndarray) -> np.ndarray:
    """Return float64 values as the output of a product of a dtype."""
    if dtype == "int8":
        return values.astype(np.int32)
    return FORMATS[dtype].decode(FORMATS[dtype].encode(values))


def inexact(dtype: str, a: np.ndarray, b: np.ndarray) -> Case:
    """A product of floating-point numbers.

    A tensor core multiplies exactly, brings a few products and the sum so far to the largest one's exponent, and cuts
    off what is below its 24 bits (Fasi, Higham, Mikaitis and Pranesh, Numerical behavior of NVIDIA tensor cores, PeerJ
    Computer Science 7, 2021): k products and fewer than k sums err by 2^-23 |a||b| at most each. At the end a result
    is rounded once.
    """
    form = FORMATS[dtype]
    unit = 2.0**-form.digits

    def check(output: np.ndarray, _device: str) -> None:
        true = a.astype(np.float64) @ b.astype(np.float64)
        size = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
        error = 2 * a.shape[1] * 2.0**-23 * size
        bound = error + unit * (np.abs(true) + error) + 2.0 ** (form.smallest - form.digits)  # of a subnormal result
        wrong = np.argwhere(~(np.abs(output - true) <= bound))
        assert wrong.size == 0, f"{len(wrong)} of {true.size} wrong, first at {wrong[0]}"

    return _case(dtype, a, b, check)


def _case(dtype: str, a: np.ndarray, b: np.ndarray, check: Callable[[np.ndarray, str], None]) -> Case:
    return Case("matmul", (a, b), (), (a.shape[0], b.shape[1]), OUTPUTS[dtype], check, inputs=dtype)


def integer_case(dtype: str, m: int, n: int, k: int) -> Case:
    return exact(dtype, integers(dtype, m + 1, (m, k)), integers(dtype, n + 2, (k, n)))


def normal_case(dtype: str, m: int, n: int, k: int) -> Case:
    return inexact(dtype, normals(dtype, m + 1, (m, k)), normals(dtype, n + 2, (k, n)))
