"""The Triton kernels where there is a GPU: values, more than 2^31 elements. Streams and devices: test_streams.py."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from tests.kernels import references
from tests.kernels.numbers import FORMATS
from tests.kernels.references import KERNELS, random_case
from tests.kernels.stand_in import float32_values
from tests.kernels.test_large import require_memory
from tests.kernels.test_quantize_int8_rows import assert_right, rows_of_every_kind
from tests.kernels.triton_calls import module, run

torch = pytest.importorskip("torch", reason="tensors on a device are PyTorch's")
pytestmark = pytest.mark.cuda


@pytest.fixture(autouse=True)
def triton_is_there():
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed: PyTorch's wheels with CUDA bring it")


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("kernel", KERNELS)
def test_random_call(kernel, offset):
    case = random_case(kernel, 1)
    run(case, (offset,) * (len(case.arrays) + 1), "cuda")


@pytest.mark.parametrize("case", references.even_cases(), ids=lambda case: case.kernel)
def test_even_sizes(case):
    run(case, (), "cuda")


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 0), (1, 300, 7), (1408, 1408, 33), (1409, 1411, 100)])
def test_products_of_any_shape(shape):
    m, n, k = shape
    run(references.matmul(float32_values(1, (m, k)), float32_values(2, (k, n))), (), "cuda")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
@pytest.mark.parametrize("offset", [0, 1])
def test_products_on_tensor_cores(dtype, offset):
    for shape in [(1, 1, 1), (17, 19, 23), (128, 144, 64), (131, 127, 9), (16, 8, 304)]:
        run(references.integer_product(dtype, *shape), (offset,) * 3, "cuda")
    if dtype != "int8":
        run(references.normal_product(dtype, 1536, 1408, 80), (offset,) * 3, "cuda")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("offset", [0, 1])
def test_bias_relu(dtype, offset):
    for shape in [(1, 1, 1), (3, 5, 0), (128, 144, 64), (131, 127, 9), (1536, 1408, 80)]:
        run(references.random_bias_relu(*shape, dtype), (offset,) * 4, "cuda")


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_rows_of_every_kind(name):
    for columns in (1, 100, 4096, 9000):
        x = FORMATS[name].decode(rows_of_every_kind(FORMATS[name], columns))
        tensor = torch.from_numpy(x).to(device="cuda", dtype=getattr(torch, name))
        out, scales = module("quantize_int8_rows").quantize_int8_rows(tensor)
        assert_right(FORMATS["float32"], x, out.cpu().numpy(), scales.cpu().numpy())


def test_special_values():
    special = [np.nan, np.inf, -np.inf, 0.5, 1.5, 2.5, -0.5, 126.5, 127.5, -128.5, 3e38, 1e-45, 44.3, -51.9]
    x = np.array(special, np.float32)
    run(references.quantize_int8(x, 1.0, 0), (), "cuda")
    run(references.add_mul_exp(x, np.zeros_like(x)), (), "cuda")
    whole = (np.linspace(-105, 89, 300_007) / 2).astype(np.float32)
    run(references.add_mul_exp(whole, np.zeros_like(whole)), (), "cuda")


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_all_numbers_of_two_bytes(name):
    form = FORMATS[name]
    x = form.decode(np.arange(2**16, dtype=np.uint16).view(form.stored))
    run(references.add_mul_exp(x, x, name), (), "cuda")
    run(references.quantize_int8(x, 0.05, 3, name), (), "cuda")


def test_more_than_32_bits_of_elements():
    count = 2**31 + 5
    require_memory("cuda", 6 * count + (4 << 30))
    x = torch.zeros(count, dtype=torch.float16, device="cuda")
    x[-5:] = torch.arange(5) / 4
    out = module("add_mul_exp").add_mul_exp(x, x)
    assert torch.allclose(out[-5:].float(), torch.exp(torch.arange(5.0, device="cuda")), rtol=2**-10)
    assert bool((out[:-5] == 1).all())
    quantized = module("quantize_int8").quantize_int8(x, 0.25, 1)
    assert quantized[-5:].tolist() == [1, 2, 3, 4, 5]
    assert bool((quantized[:-5] == 1).all())
