"""Every kernel against float64, by the same checks on every device: sizes, alignment, special values, memory beside.

On the CPU with the code of every instruction set.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import kernels
from tests.kernels import references
from tests.kernels.guarded import GUARD_VALUE, GuardedOutput, Prepared, run
from tests.kernels.instruction_sets import on_every_device
from tests.kernels.numbers import FORMATS, worst_exp_error
from tests.kernels.references import FLOAT32
from tests.kernels.stand_in import float32_values

torch = pytest.importorskip("torch", reason="tensors on a device are PyTorch's")
pytestmark = on_every_device()

# Other work on the machine must not fail a property: no deadline per example, pytest's timeout holds.
properties = settings(deadline=None, max_examples=60)
SEEDS = st.integers(0, 2**32 - 2)
# Elements behind an aligned address at which a tensor begins. Half of them at 0: vectors need it of every tensor.
OFFSET = st.one_of(st.just(0), st.integers(0, 7))
TWO, THREE = st.tuples(OFFSET, OFFSET), st.tuples(OFFSET, OFFSET, OFFSET)  # the inputs, then the output
ZERO_POINTS = st.integers(-128, 127)
# Nothing, one, around vectors of 4 to 16, around blocks of 256 threads with one and with four elements each, primes.
SIZES = st.one_of(
    st.sampled_from([0, 1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 4099, 65537]),
    st.integers(0, 3000),
)
# Around CUDA's tiles of 64 and 128, their depths of 8 and 16, and the CPU's of 6, 12, 16 and 32.
EXTENTS = st.one_of(st.sampled_from([0, 1, 2, 63, 64, 65, 127, 128, 129, 131]), st.integers(0, 70))
ANY_FLOATS = arrays.arrays(
    np.float32, st.integers(0, 80), elements=st.floats(width=32, allow_nan=True, allow_infinity=True)
)
SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, FLOAT32.tiny, -FLOAT32.tiny, 1e-45, -1e-45, FLOAT32.max, -FLOAT32.max],
    np.float32,
)


@pytest.mark.parametrize("kernel", references.KERNELS)
def test_what_a_faulty_kernel_would_do_is_seen(device, kernel):
    prepared = Prepared(references.random_case(kernel, 1), device)
    assert prepared.out.is_poison(prepared.out.host())
    with pytest.raises(AssertionError):
        prepared.check()  # nothing written
    prepared.call()
    prepared.check()
    assert not prepared.out.is_poison(prepared.out.host())
    for index in (prepared.out.begin - 1, prepared.out.end):
        prepared.out.memory[index] = 0
        with pytest.raises(AssertionError, match="1 elements beside the output written"):
            prepared.check()
        prepared.out.memory[index] = GUARD_VALUE
    for tensor, seen in ((prepared.inputs[0], "an input was written"), (prepared.out.tensor, "wrong|worst error")):
        before = tensor.flatten()[-1].clone()
        tensor.view(-1)[-1] = 100
        with pytest.raises(AssertionError, match=seen):
            prepared.check()
        tensor.view(-1)[-1] = before
    prepared.check()


@pytest.mark.parametrize("offset", [1, 2, 3])
@pytest.mark.parametrize("case", references.even_cases(), ids=lambda case: case.kernel)
def test_one_tensor_alone_that_is_not_aligned(device, case, offset):
    tensors = len(case.arrays) + 1
    for which in range(tensors):
        run(case, device, [offset if tensor == which else 0 for tensor in range(tensors)])


@properties
@given(SIZES, SEEDS, THREE)
def test_add_mul_exp_of_any_size_and_alignment(device, n, seed, offsets):
    case = references.add_mul_exp(float32_values(seed, (n,), 5), float32_values(seed + 1, (n,), 5))
    run(case, device, offsets)


@properties
@given(ANY_FLOATS)
def test_add_mul_exp_of_any_bits(device, x):
    run(references.add_mul_exp(x, np.zeros_like(x)), device)


@pytest.mark.parametrize(("low", "high"), [(-105, -87), (-87, 0), (0, 89)])
def test_add_mul_exp_over_the_whole_range_subnormal_results_too(device, low, high):
    x = (np.linspace(low, high, 300_007) / 2).astype(np.float32)
    run(references.add_mul_exp(x, np.zeros_like(x)), device)


def test_add_mul_exp_of_every_pair_of_special_values(device):
    x, y = (grid.ravel().copy() for grid in np.meshgrid(SPECIAL, SPECIAL))
    output = run(references.add_mul_exp(x, y), device)
    assert np.isposinf(output[(x == np.inf) & (y == np.inf)]).all()
    assert (output[np.isneginf(x) & (y == 0)] == 0).all()
    assert np.isnan(output[np.isposinf(x) & np.isneginf(y)]).all()


@properties
@given(SIZES, SEEDS, st.sampled_from([0, 1, 4]))
def test_add_mul_exp_in_place(device, n, seed, offset):
    case = references.add_mul_exp(float32_values(seed, (n,)), float32_values(seed + 1, (n,)))
    apart = run(case, device, (offset,) * 3)
    for which in (0, 1):
        out = GuardedOutput((n,), "float32", device, offset)
        inputs = list(Prepared(case, device, (offset,) * 3).inputs)
        inputs[which] = out.tensor.copy_(inputs[which])
        kernels.add_mul_exp(*inputs, out=out.tensor)
        assert out.read(out.host()).tobytes() == apart.tobytes()


@properties
@given(SIZES, SEEDS, TWO, st.tuples(st.floats(2**-7, 10, width=32), ZERO_POINTS))
def test_quantize_int8_of_any_size_and_alignment(device, n, seed, offsets, step):
    case = references.quantize_int8(float32_values(seed, (n,), 60 * step[0]), *step)
    run(case, device, offsets)


@properties
@given(ANY_FLOATS, st.floats(2**-149, float(FLOAT32.max), width=32), ZERO_POINTS)
def test_quantize_int8_of_any_bits_and_scale(device, x, scale, zero_point):
    run(references.quantize_int8(x, scale, zero_point), device)


@properties
@given(st.floats(2**-20, 2**20, width=32), ZERO_POINTS)
def test_quantize_int8_at_ties_beside_them_and_where_it_saturates(device, scale, zero_point):
    ties = (np.arange(-300, 300) + np.float32(0.5)).astype(np.float32) * np.float32(scale)
    beside = [np.nextafter(ties, np.float32(side * np.inf)) for side in (1, -1)]
    run(references.quantize_int8(np.concatenate([ties, *beside]), scale, zero_point), device)


def test_quantize_int8_of_named_values(device):
    x = np.array([np.nan, np.inf, -np.inf, 0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.5, -128.5, 3e38, 1e-45], np.float32)
    output = run(references.quantize_int8(x, 1.0, 0), device)
    assert output.tolist() == [0, 127, -128, 0, 2, 2, 0, -2, 126, 127, -128, 127, 0]


def test_quantize_int8_divides(device):
    # Where x is a tie of x / scale, the product with the reciprocal often is not.
    differences = 0
    for scale in (3, 41, 55, 83, 187):
        x = (np.arange(-100, 100, dtype=np.float32) + np.float32(0.5)) * np.float32(scale)
        output = run(references.quantize_int8(x, scale, 0), device)
        differences += np.sum(np.rint(x * (np.float32(1) / np.float32(scale))) != output)
    assert differences > 5  # else the inputs would not tell the two apart


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_all_numbers_of_two_bytes(device, name, offset):
    if not hasattr(torch, name):
        pytest.skip(f"torch {torch.__version__} has no {name}: a rehearsal's stand-in")
    form = FORMATS[name]
    bits = np.arange(2**16, dtype=np.uint16)
    x = torch.from_numpy(np.append(bits, bits[:3]).view(np.int16)).view(getattr(torch, name)).to(device)[offset:-3]
    y = torch.full_like(x, -3.5)
    arrays = [value.cpu().view(torch.int16).numpy().view(form.stored) for value in (x, y)]
    sums = kernels.add_mul_exp(x, y).cpu().view(torch.int16).numpy().view(form.stored)
    # Half a unit by rounding, and what exp may err in float32.
    assert worst_exp_error(form, sums, *arrays) <= 0.5 + references.EXP_ULP[device] * 2.0 ** (form.digits - 24)
    quantized = kernels.quantize_int8(x, 0.05, 3).cpu().numpy()
    assert np.array_equal(quantized, references.quantize_int8_values(form.decode(arrays[0]), 0.05, 3))


@properties
@given(st.tuples(EXTENTS, EXTENTS, EXTENTS), SEEDS, THREE)
def test_matmul_of_any_shape_and_alignment(device, shape, seed, offsets):
    m, n, k = shape
    case = references.matmul(float32_values(seed, (m, k)), float32_values(seed + 1, (k, n)))
    run(case, device, offsets)


@pytest.mark.parametrize(
    "shape",
    [
        (257, 300, 513),
        (1, 1000, 1025),
        (1000, 1, 70),
        (3, 5, 100_003),  # long sums
    ],
)
@pytest.mark.parametrize("offset", [0, 1])
def test_matmul_of_named_shapes(device, shape, offset):
    m, n, k = shape
    run(references.matmul(float32_values(1, (m, k)), float32_values(2, (k, n))), device, (offset,) * 3)


def test_matmul_without_an_inner_axis_writes_zeros(device):
    output = run(references.matmul(float32_values(1, (3, 0)), float32_values(1, (0, 5))), device)
    assert output.tobytes() == np.zeros((3, 5), np.float32).tobytes()


def test_matmul_of_small_integers_is_exact(device):
    a = np.random.default_rng(1).integers(-4, 5, (170, 90)).astype(np.float32)
    b = np.random.default_rng(2).integers(-4, 5, (90, 150)).astype(np.float32)
    assert np.array_equal(run(references.matmul(a, b), device), a @ b)


def test_matmul_takes_nan_and_infinity_to_exactly_their_row_and_column(device):
    a, b = float32_values(1, (140, 131)), float32_values(2, (131, 150))
    clean = run(references.matmul(a, b), device)
    a[7, 3], b[5, 11] = np.nan, np.inf
    dirty = Prepared(references.matmul(a, b), device)
    dirty.call()
    output = dirty.out.read(dirty.out.host())
    assert np.isnan(output[7]).all()
    assert not np.isfinite(output[:, 11]).any()
    untouched = np.delete(np.delete(output, 7, 0), 11, 1)
    assert np.array_equal(untouched, np.delete(np.delete(clean, 7, 0), 11, 1))


@pytest.mark.parametrize("kernel", references.KERNELS)
def test_an_output_that_is_not_given_is_allocated_beside_the_input(device, kernel):
    case = references.random_case(kernel, 5)
    prepared = Prepared(case, device)
    made = getattr(kernels, kernel)(*prepared.inputs, *case.scalars)
    assert (made.device, tuple(made.shape), made.dtype) == (
        prepared.inputs[0].device,
        case.shape,
        getattr(torch, case.dtype),
    )
    case.check(made.cpu().numpy(), device)
