"""CUDA entry points of our library that the CPU computes: by its own, and products that it lacks by PyTorch."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from typing import Any

import torch

from kernels._native import library
from kernels._native.launch import NativeFunction
from kernels.matmul import output_dtype
from tests.fake_cuda import device as fake

KERNELS = ("add_mul_exp", "matmul", "matmul_bias_relu", "quantize_int8", "quantize_int8_rows")
INVALID_DEVICE, INVALID_HANDLE = 1101, 1400  # 1000, and CUDA's number
BYTES = {"float16": 2, "bfloat16": 2, "int8": 1, "float8_e4m3fn": 1}  # of an item, else 4


class EntryPoint:
    """A function `kv_<name>_cuda`: what it is given, then the device and the stream."""

    def __init__(self, kernel: str, dtype: str, compute: Callable[..., int]) -> None:
        self._kernel, self._dtype, self._compute = kernel, dtype, compute

    def __call__(self, *arguments: Any) -> int:
        *values, device, stream = arguments
        index, handle = device.value, stream.value or 0
        if not 0 <= index < fake.DEVICES:
            return INVALID_DEVICE
        if handle and (handle not in fake.QUEUES or fake.QUEUES[handle].device != index):
            return INVALID_HANDLE
        reads, writes, flops = self._work(values)
        statuses: list[int] = []
        key = (self._kernel, self._dtype, *(value.value for value in values))

        def compute() -> None:
            fake.check_live([*reads, *writes])
            statuses.append(self._compute(*values))

        def work() -> None:
            fake.DONE.run(key, reads, writes, compute)

        seconds = fake.seconds_of(index, [*reads, *writes], flops)
        fake.queue_of(index, handle).launch(work, seconds, fake.LAUNCH_NATIVE)
        return statuses[0] if statuses else 0

    def _work(self, values: list[Any]) -> tuple[list[fake.Array], list[fake.Array], float]:
        """Return the arrays that a call reads, those that it writes, and the operations of a product."""
        pointers = [value.value or 0 for value in values if isinstance(value, ctypes.c_void_p)]
        sizes = [value.value for value in values if isinstance(value, ctypes.c_int64)]
        width = BYTES.get(self._dtype, 4)
        if self._kernel.startswith("matmul"):
            m, n, k = sizes
            counts = [m * k * width, k * n * width, n * width, m * n * BYTES.get(output_dtype(self._dtype), 4)]
            counts = counts if len(pointers) == 4 else [*counts[:2], counts[3]]
            *reads, written = zip(pointers, counts, strict=True)
            return reads, [written], 2.0 * m * n * k
        count = sizes[0] * (sizes[1] if len(sizes) == 2 else 1)
        if self._kernel == "add_mul_exp":
            *reads, written = [(pointer, count * width) for pointer in pointers]
            return reads, [written], 0.0
        read, *writes = zip(pointers, [count * width, count, 4 * sizes[0]], strict=False)
        return [read], writes, 0.0


def _on_cpu(name: str) -> Callable[..., int]:
    function = library.LIBRARY[f"kv_{name}_cpu"]
    function.restype = ctypes.c_int
    return lambda *values: int(function(*values, ctypes.c_int(1)))


def _array(pointer: Any, shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    kind: torch.dtype = getattr(torch, dtype)
    size = torch.Size(shape).numel()
    if size == 0:
        return torch.empty(shape, dtype=kind)
    memory = (ctypes.c_uint8 * (size * kind.itemsize)).from_address(pointer.value)
    return torch.frombuffer(memory, dtype=kind).view(shape)


def _product(dtype: str) -> Callable[..., int]:
    """Return what computes a product, and with a fourth pointer adds a bias and makes what is negative 0."""
    is_int = dtype == "int8"
    inside = torch.float64 if is_int else torch.float32

    def compute(*values: Any) -> int:
        *pointers, m, n, k = values
        m, n, k = m.value, n.value, k.value
        a, b = _array(pointers[0], (m, k), dtype).to(inside), _array(pointers[1], (k, n), dtype).to(inside)
        output = _array(pointers[-1], (m, n), output_dtype(dtype))
        result = a @ b
        if len(pointers) == 4:
            result = torch.relu(result + _array(pointers[2], (n,), dtype).to(inside))
        output.copy_(result.to(torch.int64) if is_int else result)  # int64 to int32 wraps around
        return 0

    return compute


def compute(kernel: str, tensors: list[Any], values: tuple[Any, ...]) -> None:
    """Do on the CPU what a kernel does with tensors of a device and what follows them. Further values are ignored."""
    dtype = str(tensors[0].dtype).removeprefix("torch.")
    native = importlib.import_module(f"kernels.{kernel}")._NATIVE[dtype]
    arguments = [*(tensor.data_ptr() for tensor in tensors), *values]
    kinds = zip(native._cpu_types[:-1], arguments, strict=False)
    converted = [kind(value if kind is ctypes.c_float else int(value)) for kind, value in kinds]
    assert native._cuda._compute(*converted) == 0


def plant() -> None:
    """Replace every CUDA entry point of our kernels, and what the library says of CUDA, for ever."""
    for kernel in KERNELS:
        natives: dict[str, NativeFunction] = importlib.import_module(f"kernels.{kernel}")._NATIVE
        for dtype, native in natives.items():
            if dtype in _on_cuda(kernel):
                compute = _on_cpu(native.name) if native._cpu is not None else _product(dtype)
                native._cuda = EntryPoint(kernel, dtype, compute)
    library.HAS_CUDA = True
    vars(library.LIBRARY)["kv_cuda_runtime"] = _runtime


def _on_cuda(kernel: str) -> tuple[str, ...]:
    supports = importlib.import_module(f"kernels.{kernel}").SUPPORTS
    dtypes: tuple[str, ...] = supports.get("dtypes_cuda", supports["dtypes"])
    return dtypes


def _runtime(driver: ctypes.c_int, runtime: ctypes.c_int, devices: ctypes.c_int) -> int:
    driver.value, runtime.value, devices.value = 13000, 13000, fake.DEVICES
    return 0
