"""matmul and matmul_bias_relu on every device: float32 everywhere, on CUDA also float16, bfloat16 and int8."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels._native.errors import ArgumentTypeError, ArgumentValueError
from tests import fake_cuda
from tests.kernels import references
from tests.kernels.guarded import Prepared, run
from tests.kernels.instruction_sets import on_every_device
from tests.kernels.references import Case
from tests.kernels.stand_in import OFFSET, SEEDS, float32_values

torch = pytest.importorskip("torch", reason="tensors on a device are PyTorch's")
pytestmark = on_every_device()

# Around CUDA's tiles of 64 and 128, their depths of 8 and 16, and the CPU's of 6, 12, 16 and 32.
EXTENTS = st.one_of(st.sampled_from([0, 1, 2, 47, 48, 49, 63, 64, 65, 97, 127, 128, 129, 131]), st.integers(0, 70))
# One item, odd ones, whole tiles, whole chunks of 16 bytes only, many passes of k, more rows of tiles than a band has.
SHAPES = [(1, 1, 1), (17, 19, 23), (129, 65, 33), (64, 64, 64), (128, 128, 64), (136, 80, 80), (131, 127, 9)]
SHAPES += [(16, 8, 304), (577, 16, 16)]
# More tiles of 128 than a device has processors. On Hopper by TMA: whole and ragged tiles, few, halved along k.
LARGE = [(2051, 2049, 67), (2048, 2176, 256), (1032, 1040, 1040), (64, 144, 4096), (3000, 2992, 1040)]
LARGE = LARGE if not fake_cuda.planted else []  # which is the CPU, and has no tiles


@pytest.fixture(scope="module", params=references.PRODUCTS)
def dtype(request, device):
    """A dtype that the device multiplies."""
    if request.param != "float32" and device == "cpu":
        pytest.skip("the CPU multiplies float32 alone")
    return request.param


@given(st.tuples(EXTENTS, EXTENTS, EXTENTS), SEEDS, st.tuples(OFFSET, OFFSET, OFFSET), st.integers(2, 5))
def test_any_shape_and_alignment(device, shape, seed, offsets, threads):
    m, n, k = shape
    case = references.matmul(float32_values(seed, (m, k)), float32_values(seed + 1, (k, n)))
    output = run(case, device, offsets)
    if device == "cpu":
        prepared = Prepared(case, device, offsets)
        prepared.call(threads=threads)
        assert prepared.check().tobytes() == output.tobytes()


# Longer sums, and sizes beyond the CPU's blocks.
@pytest.mark.parametrize("shape", [(257, 300, 513), (1, 1000, 1025), (1000, 1, 70), (130, 2049, 3), (3, 5, 100_003)])
@pytest.mark.parametrize("offset", [0, 1])
def test_named_shapes(device, shape, offset):
    run(references.normal_product("float32", *shape), device, (offset,) * 3)


@pytest.mark.parametrize("offset", [0, 1])
def test_integers_and_normal_numbers(device, dtype, offset):
    for shape in [*SHAPES, *LARGE] if device == "cuda" else SHAPES:
        run(references.integer_product(dtype, *shape), device, (offset,) * 3)
        if dtype != "int8":
            run(references.normal_product(dtype, *shape), device, (offset,) * 3)


def test_no_inner_axis_gives_zeros(device, dtype):
    output = run(references.integer_product(dtype, 3, 5, 0), device)
    assert not np.any(output) and not np.any(np.signbit(output))


def test_nan_and_infinity_reach_their_row_and_column_alone(device, dtype):
    if dtype == "int8":
        pytest.skip("int8 has neither")
    a, b = references.integers(dtype, 1, (140, 131)), references.integers(dtype, 2, (131, 150))
    clean = run(references.exact_matmul(a, b, dtype), device)
    a[7, 3], b[5, 11] = np.nan, np.inf
    dirty = Prepared(references.exact_matmul(a, b, dtype), device)
    dirty.call()
    output = dirty.out.read(dirty.out.host())
    assert np.isnan(output[7]).all()
    assert not np.isfinite(output[:, 11]).any()
    untouched = np.delete(np.delete(output, 7, 0), 11, 1)
    assert np.array_equal(untouched, np.delete(np.delete(clean, 7, 0), 11, 1))


def test_sums_of_int8_wrap_around(device):
    if device == "cpu":
        pytest.skip("the CPU multiplies float32 alone")
    k = 131072 + 16
    a, b = np.full((1, k), -128, np.int8), np.full((k, 16), -128, np.int8)
    case = Case("matmul", (a, b), (), (1, 16), "int32", lambda *_: None, inputs="int8")
    assert np.all(run(case, device) == k * 2**14 - 2**32)


def test_float8_where_there_is_a_hopper(device):
    if device == "cpu" or torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("compute capability 9.0 alone multiplies float8_e4m3fn")
    run(references.every_float8(1), device)
    for m, n, k in LARGE[1:]:
        run(references.integer_product(references.FLOAT8, m, n, k), device)


def test_float8_of_other_shapes_is_refused(device):
    if device == "cpu":
        with pytest.raises(ArgumentTypeError, match=r"a: got dtype float8_e4m3fn, wanted float32$"):
            Prepared(references.every_float8(1), device).call()
        return
    prepared = Prepared(references.integer_product(references.FLOAT8, 64, 80, 120), device)
    with pytest.raises(ArgumentValueError, match=r"got m = 64, n = 80, k = 120, wanted .* pad the matrices"):
        prepared.call()
    prepared = Prepared(references.integer_product(references.FLOAT8, 64, 80, 128), device, (0, 1, 0))
    with pytest.raises(ArgumentValueError, match=r"b: got address .*, wanted a multiple of 16"):
        prepared.call()


BIAS_SHAPES = [(1, 1, 1), (17, 19, 23), (129, 65, 33), (64, 64, 16), (130, 132, 12), (3, 5, 0), (131, 127, 300)]
BIAS_SHAPES += [(13, 1030, 257), (400, 33, 513), (2, 0, 3), (0, 2, 3)]


@pytest.mark.parametrize("offset", [0, 1])
def test_bias_relu(device, dtype, offset):
    if dtype == "int8":
        pytest.skip("it takes no int8")
    for shape in [*BIAS_SHAPES, *LARGE[:4]] if device == "cuda" else BIAS_SHAPES:
        case = references.random_bias_relu(*shape, dtype)
        output = run(case, device, (offset,) * 4)
        if device == "cpu":
            prepared = Prepared(case, device)
            prepared.call(threads=3)
            assert np.array_equal(prepared.check(), output)
            product = run(references.matmul(*case.arrays[:2]), device)
            assert np.array_equal(output, np.maximum(product + case.arrays[2], 0))  # the same sums


def test_bias_relu_of_special_values(device):
    a = np.array([[np.nan], [1], [-1], [0]], np.float32)
    b, bias = np.ones((1, 3), np.float32), np.array([0, np.inf, -1], np.float32)
    output = run(Case("matmul_bias_relu", (a, b, bias), (), (4, 3), "float32", lambda *_: None), device)
    wanted = [[np.nan] * 3, [1, np.inf, 0], [0, np.inf, 0], [0, np.inf, 0]]
    assert np.array_equal(output, wanted, equal_nan=True)
