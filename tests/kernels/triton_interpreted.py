"""Checks of the Triton kernels under Triton's interpreter, on the CPU. Run by triton_calls.py.

The interpreter computes in numpy, one operation after the other, and divides by IEEE. To bfloat16 it cuts float32 off
where a GPU rounds, and gets subnormal numbers wrong. triton_compiled.py looks at what a GPU is told.
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from kernels._native.errors import ArgumentTypeError, ArgumentValueError, LaunchError
from tests.kernels import references
from tests.kernels.guarded import GuardedOutput
from tests.kernels.numbers import FORMATS, worst_exp_error
from tests.kernels.references import FLOAT32
from tests.kernels.stand_in import OFFSET, SEEDS, ZERO_POINTS, float32_values
from tests.kernels.test_quantize_int8_rows import assert_right, rows_of_every_kind
from tests.kernels.triton_calls import TritonCall, module, run

# The interpreter takes a millisecond for a block; examples are few.
properties = settings(deadline=None, max_examples=7, database=None)
SIZES = st.one_of(
    st.sampled_from([0, 1, 2, 15, 16, 17, 1023, 1024, 1025, 2047, 2048, 2049, 4099]), st.integers(0, 3000)
)
EXTENTS = st.one_of(st.sampled_from([0, 1, 2, 16, 32, 63, 64, 65, 127, 128, 129, 131]), st.integers(0, 70))
ANY_FLOATS = arrays.arrays(
    np.float32, st.integers(0, 80), elements=st.floats(width=32, allow_nan=True, allow_infinity=True)
)
# Of the result's last place; float16: add_mul_exp.cpp. bfloat16 the interpreter cuts off.
HALF_ULP = {"float16": 0.5002, "bfloat16": 1.0}


@properties
@given(SIZES, SEEDS, st.tuples(OFFSET, OFFSET, OFFSET))
def check_add_mul_exp_of_any_size_and_alignment(n, seed, offsets):
    run(references.elementwise("add_mul_exp", n, seed=seed), offsets)


@properties
@given(ANY_FLOATS)
def check_add_mul_exp_of_any_bits(x):
    run(references.add_mul_exp(x, np.zeros_like(x)))


def check_add_mul_exp_whole_range():
    x = (np.linspace(-105, 89, 12_007) / 2).astype(np.float32)
    run(references.add_mul_exp(x, np.zeros_like(x)))


def check_add_mul_exp_pairs_of_special_values():
    tiny, most = float(FLOAT32.tiny), float(FLOAT32.max)
    special = np.array([np.nan, np.inf, -np.inf, 0, -0.0, tiny, -tiny, 1e-45, -1e-45, most, -most, 1, 44], np.float32)
    x, y = (grid.ravel().copy() for grid in np.meshgrid(special, special))
    output = run(references.add_mul_exp(x, y))
    assert np.isposinf(output[(x == np.inf) & (y == np.inf)]).all()
    assert (output[np.isneginf(x) & (y == 0)] == 0).all()


def check_add_mul_exp_in_place():
    case = references.add_mul_exp(float32_values(1, (1500,)), float32_values(2, (1500,)))
    apart = run(case)
    for which in (0, 1):
        out = GuardedOutput((1500,), "float32", "cpu")
        inputs = list(TritonCall(case, "cpu").inputs)
        inputs[which] = out.tensor.copy_(inputs[which])
        module("add_mul_exp").add_mul_exp(*inputs, out=out.tensor)
        assert out.read(out.host()).tobytes() == apart.tobytes()


def check_add_mul_exp_of_numbers_of_two_bytes():
    for dtype, bound in HALF_ULP.items():
        form = FORMATS[dtype]
        x = form.decode(np.arange(0, 2**16, 3, dtype=np.uint16).view(form.stored))  # NaNs and infinities among them
        x = x[~(x < -43)] if dtype == "bfloat16" else x  # no subnormal results
        y = np.full_like(x, 0.5)

        def check(output, _device, form=form, x=x, y=y, bound=bound):
            assert worst_exp_error(form, output, x, y) <= bound

        run(dataclasses.replace(references.add_mul_exp(x, y, dtype), check=check))


@properties
@given(SIZES, SEEDS, st.tuples(OFFSET, OFFSET), st.floats(2**-7, 10, width=32), ZERO_POINTS)
def check_quantize_int8_of_any_size_and_alignment(n, seed, offsets, scale, zero_point):
    run(references.quantize_int8(float32_values(seed, (n,), 60 * scale), scale, zero_point), offsets)


@properties
@given(ANY_FLOATS, st.floats(2**-149, float(FLOAT32.max), width=32), ZERO_POINTS)
def check_quantize_int8_of_any_bits_and_scale(x, scale, zero_point):
    run(references.quantize_int8(x, scale, zero_point))


@properties
@given(st.floats(2**-20, 2**20, width=32), ZERO_POINTS)
def check_quantize_int8_ties_and_saturation(scale, zero_point):
    ties = (np.arange(-300, 300) + np.float32(0.5)).astype(np.float32) * np.float32(scale)
    beside = [np.nextafter(ties, np.float32(side * np.inf)) for side in (1, -1)]
    run(references.quantize_int8(np.concatenate([ties, *beside]), scale, zero_point))


def check_quantize_int8_of_numbers_of_two_bytes():
    for dtype in HALF_ULP:
        x = FORMATS[dtype].decode(np.arange(0, 2**16, 3, dtype=np.uint16).view(FORMATS[dtype].stored))
        for scale, zero_point in ((1.0, 0), (1 / 3, -128)):
            run(references.quantize_int8(x, scale, zero_point, dtype))


@properties
@given(EXTENTS, EXTENTS, EXTENTS, SEEDS, st.tuples(OFFSET, OFFSET, OFFSET))
def check_matmul_of_any_shape_and_alignment(m, n, k, seed, offsets):
    run(references.matmul(float32_values(seed, (m, k)), float32_values(seed + 1, (k, n))), offsets)


def check_matmul_of_two_bytes_and_int8():
    for dtype, shape in itertools.product(("float16", "int8"), ((64, 80, 96), (70, 131, 33), (1, 5, 0))):
        for offset in (0, 1):
            run(references.integer_product(dtype, *shape), (offset,) * 3)
    run(references.normal_product("float16", 70, 131, 133))


def check_matmul_nan_and_infinity():
    a, b = float32_values(1, (70, 30)), float32_values(2, (30, 40))
    clean = run(references.matmul(a, b))
    a[7, 3], b[5, 11] = np.nan, np.inf
    prepared = TritonCall(references.matmul(a, b), "cpu")
    prepared.call()
    actual = prepared.out.tensor.numpy()
    assert np.isnan(actual[7]).all() and not np.isfinite(actual[:, 11]).any()
    rest = [np.delete(np.delete(array, 7, 0), 11, 1) for array in (actual, clean)]
    assert np.array_equal(*rest)


@properties
@given(EXTENTS, EXTENTS, EXTENTS, st.tuples(*[OFFSET] * 4))
def check_matmul_bias_relu_of_any_shape_and_alignment(m, n, k, offsets):
    run(references.random_bias_relu(m, n, k), offsets)


def check_matmul_bias_relu_of_two_bytes_and_nan():
    run(references.random_bias_relu(70, 131, 133, "float16"))
    case = references.random_bias_relu(3, 5, 2)
    case.arrays[2][1] = np.nan
    prepared = TritonCall(case, "cpu")
    prepared.call()
    output = prepared.out.tensor.numpy()
    assert np.isnan(output[:, 1]).all() and not np.isnan(np.delete(output, 1, 1)).any()


def check_quantize_int8_rows_of_every_kind():
    import torch

    rows = module("quantize_int8_rows")
    for dtype, columns in itertools.product(("float32", "float16", "bfloat16"), (0, 100, rows.MOST, rows.MOST + 5)):
        x = float32_values(columns, (3, columns))
        if columns == 100:
            x = FORMATS[dtype].decode(rows_of_every_kind(FORMATS[dtype], columns))
            x[np.abs(x) < 2.0**-126] = 0  # see above
        tensor = torch.from_numpy(x).to(getattr(torch, dtype))
        out, scales = rows.quantize_int8_rows(tensor)
        assert_right(FORMATS["float32"], tensor.float().numpy(), out.numpy(), scales.numpy())


def check_nothing_is_launched_for_nothing():
    import torch

    class Refusing:
        def __getitem__(self, _grid):
            raise AssertionError("launched")

    nothing, out = torch.empty(0), torch.empty(0, dtype=torch.int8)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("kernels._native.triton_launch.devices_of", lambda _kernel: ("cpu",))
        for kernel in references.KERNELS:
            patched.setattr(module(kernel), f"{kernel}_kernel", Refusing())
        assert module("add_mul_exp").add_mul_exp(nothing, nothing).shape == (0,)
        assert module("quantize_int8").quantize_int8(nothing, 1.0, 0, out=out) is out
        assert module("matmul").matmul(torch.empty(3, 2), torch.empty(2, 0)).shape == (3, 0)
        with pytest.raises(AssertionError, match="launched"):
            module("matmul").matmul(torch.empty(3, 0), torch.empty(0, 2))


def check_outputs_and_bound_calls():
    import torch

    x = torch.zeros(2, 3)
    quantized = module("quantize_int8").quantize_int8(x, 1.0, 5)
    assert (quantized.dtype, quantized.tolist()) == (torch.int8, [[5] * 3] * 2)
    out = torch.empty(2, 3)
    bound = module("add_mul_exp").bind(x, x, out=out)
    for argument in (0.0, 0.25):
        x.fill_(argument)
        bound()
        assert torch.allclose(out, torch.exp(4 * x))


def check_wrong_arguments_are_refused():
    """By the checks of every kernel (test_arguments.py)."""
    import torch

    x = torch.zeros(4)
    exp, quantize = module("add_mul_exp").add_mul_exp, module("quantize_int8").quantize_int8
    with pytest.raises(ArgumentTypeError, match=r"x: got dtype float64, wanted float32 or float16 or bfloat16$"):
        exp(x.double(), x.double())
    with pytest.raises(ArgumentTypeError, match=r"a: got dtype float64, wanted float32 or .* or int8$"):
        module("matmul").matmul(x.double().view(2, 2), x.view(2, 2))
    with pytest.raises(ArgumentValueError, match=r"scale: got 0\.0, wanted a finite float32 above 0"):
        quantize(x, 0.0, 0)
    with pytest.raises(ArgumentValueError, match="stream: got one for tensors on the CPU"):
        exp(x, x, stream=0)


def check_errors_are_launch_errors():
    import torch
    from triton.errors import TritonError

    from kernels._native import triton_launch
    from kernels._native.arguments import read

    for error in (TritonError("no"), RuntimeError("no")):

        class Failing:
            def __getitem__(self, _grid, error=error):
                def launch(*_arguments):
                    raise error

                return launch

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(triton_launch, "devices_of", lambda _kernel: ("cpu",))
            x = read("x", torch.zeros(4), "float32")
            call = triton_launch.bind(
                "doubling", Failing(), 1, tensors=(x,), values=(), options={}, stream=None, threads=None
            )
            with pytest.raises(LaunchError, match=r"^doubling: no$"):
                call()
