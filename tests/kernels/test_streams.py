"""What only CUDA has: streams, graphs, several devices. That the results are right is tested in test_devices.py."""

from __future__ import annotations

import pytest

import kernels
from kernels._native.errors import ArgumentValueError, LaunchError
from tests.kernels.guarded import Prepared
from tests.kernels.references import KERNELS, random_case

torch = pytest.importorskip("torch", reason="streams are PyTorch's")
pytestmark = [pytest.mark.cuda, pytest.mark.parametrize("kernel", KERNELS)]

# Clock cycles that keep a stream busy: a third of a second at least, for no device clocks above 3 GHz. What is done
# meanwhile takes a few milliseconds.
BUSY = 1_000_000_000


def ready(kernel: str, seed: int, device: str = "cuda") -> Prepared:
    """Return a call whose code is on the device already (loading it may wait for every stream), its output poisoned."""
    prepared = Prepared(random_case(kernel, seed), device)
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


def stream_when_bound(prepared, stream):
    with torch.cuda.stream(stream):
        bound = prepared.bind()
    assert bound() == 0  # another stream is current by now


@pytest.mark.parametrize("enqueue", [stream_object, stream_handle, current_stream, stream_when_bound])
def test_a_busy_stream_holds_back_its_own_calls_and_no_others(kernel, enqueue):
    held, free = ready(kernel, 1), ready(kernel, 2)
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


def test_neighbours_on_the_device_do_not_change_a_bit(kernel):
    prepared = ready(kernel, 3)
    prepared.call()
    alone = prepared.check().tobytes()
    noise = torch.randn(4096, 4096, device="cuda")
    product = kernels.matmul(noise, noise)
    busy, own = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    for _ in range(200):  # 140 GFLOP each: more than a millisecond on any device of these years
        kernels.matmul(noise, noise, out=product, stream=busy)
    done = torch.cuda.Event()
    done.record(busy)
    found = []
    with torch.cuda.stream(own):
        for _ in range(10):
            prepared.out.poison()
            prepared.call()
            found.append(prepared.out.host())
    assert not done.query(), "the neighbour was done first: this run shows nothing"
    assert all(prepared.check(host).tobytes() == alone for host in found)
    torch.cuda.synchronize()


def test_a_call_bound_while_a_graph_is_captured_runs_when_it_is_replayed(kernel):
    prepared = ready(kernel, 4)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        bound = prepared.bind()
        status = bound()
    assert status == 0
    torch.cuda.synchronize()
    assert prepared.out.is_poison(prepared.out.host())
    for _ in range(2):
        prepared.out.poison()
        graph.replay()
        torch.cuda.synchronize()
        prepared.check()


def test_tensors_of_the_cpu_and_of_cuda_do_not_mix(kernel):
    prepared = ready(kernel, 5)
    prepared.inputs[0] = prepared.inputs[0].cpu()
    with pytest.raises(ArgumentValueError, match="cuda:0, wanted cpu"):
        prepared.call()


@pytest.mark.parametrize(("current", "home"), [(0, 1), (1, 0)])
def test_the_tensors_say_which_device_runs_whichever_is_current(kernel, current, home):
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


def test_a_stream_of_another_device_is_refused_and_the_next_call_is_fine(kernel):
    require_two_devices()
    prepared = ready(kernel, 7, "cuda:1")
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
