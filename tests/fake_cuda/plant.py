"""Puts the fake device where PyTorch, the kernels and the harness look for one. In this process, for ever."""

from __future__ import annotations

import importlib.util
import math
import sys
import warnings
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests import fake_cuda
from tests.fake_cuda import device as fake

# What the fake cannot run: a part of a test's name, and why.
NEEDS_A_DEVICE = {
    "test_failed_cuda_call_leaves_no_error": "asks CUDA's own runtime what it did last",
    "test_series_that_share_a_process_read_as_in_their_own": "starts processes that measure a GPU",
}
# Elements of an output: Triton's interpreter takes a second for ten times as many. To bfloat16 it does not round.
MOST_INTERPRETED = 1 << 16
PROPERTIES = SimpleNamespace(
    name="Fake H100",
    L2_cache_size=fake.CACHE_SIZE,
    multi_processor_count=132,
    major=9,
    minor=0,
    uuid="1",  # of pretend_nvml's only GPU
)


def plant(folder: Path) -> None:
    """Plant all of it. `folder` takes what is built."""
    plant_in_torch(folder)
    plant_in_kernels()


def plant_in_kernels() -> None:
    """Plant it in the package `kernels`, which is imported."""
    from tests.fake_cuda import natives

    natives.plant()
    if importlib.util.find_spec("triton") is not None:
        launch = {"devices_of": lambda _kernel: ("cuda",), "_launch": _launch_triton}
        _replace("kernels._native.triton_launch", launch)
        _replace("triton.testing", {"runtime": SimpleNamespace(driver=SimpleNamespace(active=_TritonDriver()))})


def plant_in_torch(folder: Path) -> None:
    """Plant it in PyTorch and in the harness."""
    from tests.fake_cuda import tensors

    torch: Any = import_module("torch")
    torch.set_num_threads(1)
    fake_cuda.planted = True
    fake.plant(folder)
    tensors.plant()
    PROPERTIES.total_memory = tensors.MEMORY
    for name, value in _of_torch(torch, tensors).items():
        setattr(torch.cuda, name, value)
    torch.profiler.profile = lambda **_: nullcontext(SimpleNamespace(events=list))  # CUPTI is forbidden
    torch.backends.cuda.is_built = lambda: True
    torch.version.cuda = "13.0"
    torch.compile = lambda function=None, **_: function if function else lambda inner: inner
    _harness()


def _of_torch(torch: Any, tensors: Any) -> dict[str, Any]:
    """Return what replaces names of torch.cuda."""

    def allocator(device: Any = None) -> Any:
        return tensors.ALLOCATORS[fake.index_of(device)]

    def free(device: Any = None) -> tuple[int, int]:
        return tensors.MEMORY - allocator(device).allocated, tensors.MEMORY

    def reset_peak(device: Any = None) -> None:
        allocator(device).peak = allocator(device).allocated

    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "device_count": lambda: fake.DEVICES,
        "current_device": fake.current_device,
        "set_device": lambda device: fake.exchange_device(fake.index_of(device)),
        "_exchange_device": fake.exchange_device,
        "_maybe_exchange_device": fake.exchange_device,
        "get_device_properties": lambda _=None: PROPERTIES,
        "get_device_name": lambda _=None: PROPERTIES.name,
        "get_device_capability": lambda _=None: (PROPERTIES.major, PROPERTIES.minor),
        "Stream": fake.Stream,
        "ExternalStream": fake.external_stream,
        "Event": fake.Event,
        "CUDAGraph": fake.Graph,
        "graph": fake.graph,
        "current_stream": fake.current_stream,
        "default_stream": fake.default_stream,
        "set_stream": fake.set_stream,
        "synchronize": fake.synchronize,
        "_sleep": fake.sleep,
        "mem_get_info": free,
        "memory_allocated": lambda device=None: allocator(device).allocated,
        "max_memory_allocated": lambda device=None: allocator(device).peak,
        "reset_peak_memory_stats": reset_peak,
        "memory_stats": lambda device=None: {"allocation.all.allocated": allocator(device).times},
        "empty_cache": lambda: None,
        "manual_seed": lambda _: None,
        "manual_seed_all": lambda _: None,
        "get_rng_state": lambda _=None: torch.get_rng_state(),
        "default_generators": (),  # numbers are the CPU's
    }


def _harness() -> None:
    """Give the harness the fake's clock and driver, and rounds of a few calls: a CPU works in the GPU's place."""
    replaced: dict[str, dict[str, Any]] = {
        "kernel_velocity.engine.timers": {"perf_counter_ns": fake.HOST.read_ns},
        "kernel_velocity.suite.alone": {"perf_counter": lambda: fake.HOST.read_ns() * 1e-9},
        "kernel_velocity.suite.audit": {"perf_counter": lambda: fake.HOST.read_ns() * 1e-9, "sleep": fake.HOST.sleep},
        "kernel_velocity.engine.sampling": {"WARM_UP": 0.005, "WARM_UP_MOST": 0.01, "SAMPLING_MOST": 0.02},  # s
        "kernel_velocity.machine.ceilings": {
            "PRODUCT_SIZES": {"cuda": (256, 512)},
            "LIMIT_SIZES": {"cuda": (256, 512)},
            "SECONDS": 0.002,
            "ENOUGH": 1 << 25,
            "PER_CALL": {"cuda": 1 << 26},
        },
        "kernel_velocity.problem.implementations": {"check_toolchain": lambda _device: None},
    }
    for name, values in replaced.items():
        _replace(name, values)
    sys.modules["pynvml"] = import_module("tests.engine.pretend_nvml")
    originals: Any = import_module("kernel_velocity.suite.originals").ORIGINALS
    originals.__init__()  # what was replaced here is no kernel's doing
    originals.note()


def _replace(name: str, values: dict[str, Any]) -> None:
    module = import_module(name)
    assert values.keys() <= vars(module).keys(), f"{name} has not all of {', '.join(values)}"
    vars(module).update(values)


class _TritonDriver:
    """What Triton's do_bench asks its driver for."""

    def get_device_interface(self) -> Any:
        return import_module("torch").cuda

    def get_empty_cache_for_benchmark(self) -> Any:
        torch: Any = import_module("torch")
        return torch.empty(2 * fake.CACHE_SIZE, dtype=torch.int8, device="cuda")

    def clear_cache(self, cache: Any) -> None:
        cache.zero_()


def _launch_triton(name: str, on_stream: Any, run: Any) -> None:
    """Launch a kernel that Triton interprets, in place of triton_launch._launch."""
    from tests.fake_cuda import natives, tensors

    pointed = [value for value in run.args if _is_tensor(value)]
    values, options = run.args[len(pointed) :], {k: v for k, v in run.keywords.items() if not _is_tensor(v)}
    pointed[2:2] = [value for value in run.keywords.values() if _is_tensor(value)]  # a bias, where native takes it
    outputs = 2 if name == "quantize_int8_rows" else 1
    arrays = [(tensor.data_ptr(), tensor.nbytes) for tensor in pointed]
    reads, writes = arrays[:-outputs], arrays[-outputs:]

    def compute() -> None:
        size = max(tensor.numel() for tensor in pointed[-outputs:])
        if size > MOST_INTERPRETED or "bfloat16" in str(pointed[0].dtype):
            natives.compute(name, pointed, tuple(pointed[0].shape) if outputs == 2 else values)
            return
        hosts = {id(tensor): tensors.on_host(tensor) for tensor in pointed}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy's, of overflow
            named = {key: hosts.get(id(value), value) for key, value in run.keywords.items()}
            run.func(*(hosts.get(id(value), value) for value in run.args), **named)

    key = (name, *arrays, *values, str(options))
    with on_stream():
        queue = fake.current_stream().queue
        flops = 2.0 * math.prod(values[:3]) if name.startswith("matmul") else 0.0  # of m, n, k
        seconds = fake.seconds_of(queue.device, arrays, flops)
        queue.launch(lambda: fake.DONE.run(key, reads, writes, compute), seconds, fake.LAUNCH_TRITON)


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "data_ptr")
