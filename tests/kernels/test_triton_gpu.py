"""The Triton kernels where there is a GPU: values, streams, graphs, devices, more than 2^31 elements."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from tests.kernels import references
from tests.kernels.numbers import FORMATS
from tests.kernels.references import KERNELS, random_case
from tests.kernels.stand_in import float32_values
from tests.kernels.test_large import require_memory
from tests.kernels.test_streams import BUSY, require_two_devices
from tests.kernels.triton_calls import TritonCall, module, numbers, run, tensor

torch = pytest.importorskip("torch", reason="tensors on a device are PyTorch's")
pytestmark = pytest.mark.cuda


@pytest.fixture(autouse=True)
def triton_is_there():
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed: PyTorch's wheels with CUDA bring it")


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_random_call(kernel, offset):
    case = random_case(kernel, 1)
    run(case, (offset,) * (len(case.arrays) + 1), "cuda")


@pytest.mark.parametrize("case", references.even_cases(), ids=lambda case: case.kernel)
def test_sizes_and_addresses_that_vectors_divide(case):
    run(case, (), "cuda")


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 0), (1, 300, 7), (1408, 1408, 33), (1409, 1411, 100)])
def test_products_of_any_shape(shape):
    m, n, k = shape
    run(references.matmul(float32_values(1, (m, k)), float32_values(2, (k, n))), (), "cuda")


def test_special_values():
    special = [np.nan, np.inf, -np.inf, 0.5, 1.5, 2.5, -0.5, 126.5, 127.5, -128.5, 3e38, 1e-45, 44.3, -51.9]
    x = np.array(special, np.float32)
    run(references.quantize_int8(x, 1.0, 0), (), "cuda")
    run(references.add_mul_exp(x, np.zeros_like(x)), (), "cuda")
    whole = (np.linspace(-105, 89, 300_007) / 2).astype(np.float32)
    run(references.add_mul_exp(whole, np.zeros_like(whole)), (), "cuda")


@pytest.mark.parametrize(("name", "bound"), [("float16", 0.5002), ("bfloat16", 0.50002)])
def test_all_numbers_of_two_bytes(name, bound):
    form = FORMATS[name]
    x = np.arange(2**16, dtype=np.uint16).view(form.stored)
    on_device = tensor(form, x).cuda()
    quantized = module("quantize_int8").quantize_int8(on_device, 0.05, 3).cpu().numpy()
    assert np.array_equal(quantized, references.quantize_int8_values(form.decode(x), 0.05, 3))
    actual = numbers(form, module("add_mul_exp").add_mul_exp(on_device, on_device).cpu())
    argument = form.decode(x).astype(np.longdouble) * 4
    number, end = ~np.isnan(argument), np.ldexp(np.longdouble(1), form.largest)
    with np.errstate(over="ignore"):
        true = np.minimum(np.exp(argument[number]), end)
    assert np.array_equal(np.isnan(actual), ~number)
    finite = np.where(np.isposinf(actual[number]), end, actual[number].astype(np.longdouble))
    assert np.max(np.abs(finite - true) / form.ulp(true)) <= bound


def ready(kernel: str, seed: int, device: str = "cuda") -> TritonCall:
    """Return a call that is compiled and on the device already, its output poisoned."""
    prepared = TritonCall(random_case(kernel, seed), device)
    prepared.call()
    prepared.check()
    prepared.out.poison()
    torch.cuda.synchronize(device)
    return prepared


def stream_object(prepared, stream):
    prepared.call(stream=stream)


def stream_handle(prepared, stream):
    prepared.call(stream=stream.cuda_stream)


def test_the_handle_0_is_the_default_stream():
    held = ready("matmul", 1)
    torch.cuda._sleep(BUSY)
    with torch.cuda.stream(torch.cuda.Stream()):
        held.call(stream=0)
        assert held.out.is_poison(held.out.host())
    torch.cuda.synchronize()
    held.check()


def current_stream(prepared, stream):
    with torch.cuda.stream(stream):
        prepared.call()


@pytest.mark.parametrize("enqueue", [stream_object, stream_handle, current_stream])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_busy_stream_holds_back_its_own_calls(kernel, enqueue):
    held, busy = ready(kernel, 1), torch.cuda.Stream()
    torch.cuda._sleep(1)
    torch.cuda.synchronize()
    with torch.cuda.stream(busy):
        torch.cuda._sleep(BUSY)
    enqueue(held, busy)
    done = torch.cuda.Event()
    done.record(busy)
    with torch.cuda.stream(torch.cuda.Stream()):
        meanwhile = held.out.host()
    assert not done.query(), "the busy stream was done before the output was read: this run shows nothing"
    assert held.out.is_poison(meanwhile)
    done.synchronize()
    held.check()


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_bound_call_uses_the_stream_that_was_current_then(kernel):
    held, busy = ready(kernel, 1), torch.cuda.Stream()
    with torch.cuda.stream(busy):
        bound = held.bind()
        torch.cuda._sleep(BUSY)
    bound()
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    with torch.cuda.stream(torch.cuda.Stream()):
        assert held.out.is_poison(held.out.host())
    busy.synchronize()
    held.check()


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_call_is_captured_in_a_graph(kernel):
    prepared = ready(kernel, 4)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        prepared.call()
    torch.cuda.synchronize()
    assert prepared.out.is_poison(prepared.out.host())
    graph.replay()
    torch.cuda.synchronize()
    prepared.check()


@pytest.mark.parametrize(("current", "home"), [(0, 1), (1, 0)])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_tensors_say_which_device_runs(kernel, current, home):
    require_two_devices()
    with torch.cuda.device(current):
        prepared = ready(kernel, 6, f"cuda:{home}")
        for keywords in ({}, {"stream": torch.cuda.Stream(home)}):
            prepared.out.poison()
            torch.cuda.synchronize(home)
            prepared.call(**keywords)
            torch.cuda.synchronize(home)
            assert torch.cuda.current_device() == current
            prepared.check()


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
