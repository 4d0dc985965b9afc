"""What only CUDA has: streams, graphs, several devices. For the native kernels and for Triton's."""

from __future__ import annotations

import importlib.util

import pytest

import kernels
from kernels._native.errors import LaunchError
from tests.kernels.guarded import Prepared
from tests.kernels.references import KERNELS, random_case
from tests.kernels.triton_calls import TritonCall

torch = pytest.importorskip("torch", reason="streams are PyTorch's")
pytestmark = [pytest.mark.cuda, pytest.mark.parametrize("kernel", KERNELS)]

# Clock cycles that keep a stream busy: a third of a second at least, for no device clocks above 3 GHz. What is done
# meanwhile takes a few milliseconds.
BUSY = 1_000_000_000


@pytest.fixture(params=[Prepared, TritonCall], ids=["native", "triton"])
def caller(request) -> type[Prepared]:
    """How a kernel is called: as ours, or as Triton's."""
    if request.param is TritonCall and importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed: PyTorch's wheels with CUDA bring it")
    return request.param


def ready(caller: type[Prepared], kernel: str, seed: int, device: str = "cuda") -> Prepared:
    """Return a call whose code is on the device already (loading it may wait for every stream), its output poisoned."""
    prepared = caller(random_case(kernel, seed), device)
    prepared.call()
    prepared.check()
    prepared.out.poison()
    torch.cuda.synchronize(device)
    return prepared


def stream_object(prepared, stream):
    prepared.call(stream=stream)


def stream_handle(prepared, stream):
    prepared.call(stream=stream.cuda_stream)


def current_stream(prepared, stream):
    with torch.cuda.stream(stream):
        prepared.call()


@pytest.mark.parametrize("enqueue", [stream_object, stream_handle, current_stream])
def test_busy_stream_holds_back_its_own_calls(caller, kernel, enqueue):
    held, free = ready(caller, kernel, 1), ready(caller, kernel, 2)
    busy, idle = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda._sleep(1)  # its code, too, is to be loaded
    torch.cuda.synchronize()
    with torch.cuda.stream(busy):
        torch.cuda._sleep(BUSY)
    enqueue(held, busy)
    done = torch.cuda.Event()
    done.record(busy)
    enqueue(free, idle)
    idle.synchronize()
    with torch.cuda.stream(idle):
        of_held, of_free = held.out.host(), free.out.host()
    assert not done.query(), "the busy stream was done before the outputs were read: this run shows nothing"
    free.check(of_free)
    assert held.out.is_poison(of_held)
    done.synchronize()
    held.check()


def test_bound_call_uses_the_stream_that_was_current(caller, kernel):
    held, busy = ready(caller, kernel, 1), torch.cuda.Stream()
    torch.cuda._sleep(1)
    torch.cuda.synchronize()
    with torch.cuda.stream(busy):
        bound = held.bind()
        torch.cuda._sleep(BUSY)
    assert bound() in (0, None)
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    with torch.cuda.stream(torch.cuda.Stream()):
        assert held.out.is_poison(held.out.host())
    busy.synchronize()
    held.check()


def test_handle_0_is_the_default_stream(caller, kernel):
    held = ready(caller, kernel, 1)
    torch.cuda._sleep(BUSY)
    with torch.cuda.stream(torch.cuda.Stream()):
        held.call(stream=0)
        assert held.out.is_poison(held.out.host())
    torch.cuda.synchronize()
    held.check()


def test_neighbours_on_the_device_change_no_bit(kernel):
    prepared = ready(Prepared, kernel, 3)
    prepared.call()
    alone = prepared.check().tobytes()
    noise = torch.randn(4096, 4096, device="cuda")
    product = kernels.matmul(noise, noise)
    busy, second = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    for _ in range(200):  # 140 GFLOP each: more than a millisecond on any device of these years
        kernels.matmul(noise, noise, out=product, stream=busy)
    done = torch.cuda.Event()
    done.record(busy)
    result = []
    with torch.cuda.stream(second):
        for _ in range(10):
            prepared.out.poison()
            prepared.call()
            result.append(prepared.out.host())
    assert not done.query(), "the neighbour was done first: this run shows nothing"
    assert all(prepared.check(host).tobytes() == alone for host in result)
    torch.cuda.synchronize()


def test_call_is_captured_in_a_graph(caller, kernel):
    prepared = ready(caller, kernel, 4)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        prepared.call()
    torch.cuda.synchronize()
    assert prepared.out.is_poison(prepared.out.host())
    for _ in range(2):
        prepared.out.poison()
        graph.replay()
        torch.cuda.synchronize()
        prepared.check()


@pytest.mark.parametrize(("current", "home"), [(0, 1), (1, 0)])
def test_tensors_say_which_device_runs(caller, kernel, current, home):
    require_two_devices()
    with torch.cuda.device(current):
        prepared = ready(caller, kernel, 6, f"cuda:{home}")
        for keywords in ({}, {"stream": torch.cuda.Stream(home)}):
            prepared.out.poison()
            torch.cuda.synchronize(home)
            prepared.call(**keywords)
            torch.cuda.synchronize(home)
            assert torch.cuda.current_device() == current
            prepared.check()


def test_stream_of_another_device_is_refused(kernel):
    require_two_devices()
    prepared = ready(Prepared, kernel, 7, "cuda:1")
    with pytest.raises(LaunchError, match=kernel):
        prepared.call(stream=torch.cuda.Stream(0))
    assert torch.cuda.current_device() == 0
    torch.cuda.synchronize(1)
    assert prepared.out.is_poison(prepared.out.host())
    prepared.call()
    prepared.check()


def require_two_devices():
    if torch.cuda.device_count() < 2:
        pytest.skip(f"needs two CUDA devices, here is {torch.cuda.device_count()}")
