"""Tensors of "cuda:N" for PyTorch's CPU build. Their memory is the host's.

They are no stand-ins: PyTorch's own tensors, labelled by DLPack. What PyTorch does with them arrives at the dispatch
key CUDA, for which its CPU build has no code. There `_compute` has the CPU do it, on tensors of the same memory.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from tests.fake_cuda import device as fake

MEMORY = 2 << 30  # bytes of each device
CPU, CUDA = 1, 2  # as DLPack numbers them
VIEWS = ("as_strided", "view", "_reshape_alias", "unfold", "set_.source_Storage_storage_offset")
# What takes tensors of the CPU beside those of the device. An index may lie anywhere.
MIXED = ("index", "index_put", "_index_put_impl", "copy", "_copy_from", "_to_copy")
OVERWRITES = ("aten::zero_", "aten::fill_")  # what was there does not matter
MOST_REUSED = 1 << 26  # bytes of a result at most that is kept when it is freed
PRODUCTS = {"mm": 0, "_int_mm": 0, "bmm": 0, "addmm": 1}  # which argument is the first factor


class Allocator:
    """What is allocated on a device, in bytes."""

    def __init__(self) -> None:
        self.allocated = self.peak = self.times = 0

    def add(self, size: int) -> None:
        if self.allocated + size > MEMORY:
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} bytes.")
        self.allocated += size
        self.peak = max(self.peak, self.allocated)
        self.times += size > 0


ALLOCATORS = [Allocator() for _ in range(fake.DEVICES)]


class _Block:
    """Memory of a device, which a tensor of the CPU holds. Counted until it is forgotten.

    With a key it is the result of a computation, which the same computation gets again.
    """

    def __init__(self, tensor: torch.Tensor, size: int, index: int, key: object) -> None:
        self._tensor, self._size, self._allocator, self._key = tensor, size, ALLOCATORS[index], key
        self._allocator.add(size)
        if key is None:
            fake.DONE.forget([(tensor.data_ptr(), size)])
        where = (tensor.untyped_storage().data_ptr(), False)
        fake.LIVE[where[0]] = size
        self.__array_interface__: dict[str, Any] = {"data": where, "shape": (size,), "typestr": "|u1", "version": 3}

    def __del__(self) -> None:
        self._allocator.allocated -= self._size
        fake.LIVE.pop(self.__array_interface__["data"][0])
        fake.DONE.give_back(self._key, self._tensor)


class _DLTensor(ctypes.Structure):
    """The beginning of DLPack's structure."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int), ("device_id", ctypes.c_int)]


_POINTER = ctypes.pythonapi.PyCapsule_GetPointer
_POINTER.restype, _POINTER.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _labelled(tensor: torch.Tensor, kind: int, index: int) -> torch.Tensor:
    """Return a tensor of the same memory on another device."""
    capsule = torch._C._to_dlpack(tensor.detach())
    described = _DLTensor.from_address(_POINTER(capsule, b"dltensor"))
    described.device_type, described.device_id = kind, index
    result: torch.Tensor = torch._C._from_dlpack(capsule)
    return result if result.stride() == tensor.stride() else result.as_strided(tensor.size(), tensor.stride())


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """Return a CPU tensor of the memory of one of a device."""
    return _labelled(tensor, CPU, 0)


def on_device(tensor: torch.Tensor, index: int, key: object = None) -> torch.Tensor:
    """Return a device's tensor of the memory of a new tensor of the CPU, or of one that a computation has again."""
    size = tensor.untyped_storage().nbytes()
    if size == 0:
        return _labelled(tensor, CUDA, index)
    whole = torch.as_strided(tensor, (size // tensor.itemsize,), (1,), 0)
    memory = torch.from_numpy(np.asarray(_Block(tensor if key else whole, size, index, key)))
    typed = memory.view(tensor.dtype).as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
    return _labelled(typed, CUDA, index)


def _is_on_device(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_cuda


def _device_of(op: Any, flat: list[Any]) -> int:
    """Return the device of an operation's tensors, or else the one that it asks for.

    Raises:
        RuntimeError: they lie on several.
    """
    tensors = [value for value in flat if isinstance(value, torch.Tensor)]
    name = op._schema.name.removeprefix("aten::").rstrip("_")
    devices = {t.device for t in tensors if t.is_cuda or (t.ndim > 0 and name not in MIXED)}
    if len(devices) > 1 and name not in MIXED:
        names = " and ".join(sorted(map(str, devices)))
        raise RuntimeError(f"Expected all tensors to be on the same device, but found at least two devices, {names}!")
    wanted = [value for value in flat if isinstance(value, torch.device) and value.type == "cuda"]
    cuda = [device for device in devices if device.type == "cuda"] or wanted
    return fake.index_of(cuda[0].index)


def _arrays(tensors: Iterable[torch.Tensor]) -> list[fake.Array]:
    return [(t.data_ptr(), t.numel() * t.itemsize) for t in tensors]


def _flops(op: Any, args: Any) -> float:
    """Return the operations of a product of matrices."""
    first = PRODUCTS.get(op._schema.name.removeprefix("aten::"))
    return 0.0 if first is None else 2.0 * math.prod(args[first].shape) * args[first + 1].shape[-1]


def _compute(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Compute an operation of a device's tensors on the CPU, as a launch on the current stream."""
    flat = [*_leaves(args), *_leaves(tuple(kwargs.values()))]
    index = _device_of(op, flat)
    queue = fake.CURRENT[index]
    if op._schema.name == "aten::_local_scalar_dense":
        queue.synchronize()
    hosts = {id(value): _as_argument(value) for value in flat if _is_on_device(value)}
    call = _call(op, _on_host(args, hosts), {name: _on_host(value, hosts) for name, value in kwargs.items()})
    arrays = _arrays(hosts.values())
    seconds = fake.seconds_of(index, arrays, _flops(op, args))
    written = [kwargs[name] if name in kwargs else args[position] for position, name in _written(op)]
    is_random = torch.Tag.nondeterministic_seeded in op.tags
    key = None if is_random else (op, *(_key(v) if isinstance(v, torch.Tensor) else str(v) for v in flat))
    if written and all(_is_on_device(tensor) and tensor.numel() for tensor in written):
        writes = _arrays(written)
        is_input = "out" not in kwargs and op._schema.name not in OVERWRITES
        reads = arrays if is_input else [array for array in arrays if array not in writes]
        queue.launch(lambda: fake.DONE.run(key, reads, writes, call), seconds, fake.LAUNCH_EAGER)
        return written[0] if len(op._schema.returns) == 1 else tuple(written)
    queue.finish()
    if (again := fake.DONE.take(key)) is None:
        result = call()
        of_host = {id(hosts[id(value)]): value for value in flat if _is_on_device(value)}
        for host in hosts.values():
            if of_host[id(host)].shape != host.shape:  # an output, resized
                _become(of_host[id(host)], on_device(host, index))
        memory = {host.untyped_storage().data_ptr() for host in hosts.values()}
        if not (key and _is_new(result, memory)):
            queue.launch(lambda: _repeat(call, result) if queue.is_replayed else None, seconds, fake.LAUNCH_EAGER)
            return _mapped(result, lambda tensor: _returned(tensor, of_host, memory, index))
        fake.DONE.forget(_arrays([result]))
        again = result
    outputs = _arrays([again])
    if "empty" in op._schema.name:
        fake.DONE.remember(key, [])
        return on_device(again, index, key)
    fake.DONE.remember(key, [*arrays, *outputs])
    replay = functools.partial(fake.DONE.run, (key, *outputs), arrays, outputs, lambda: _repeat(call, again))
    queue.launch(lambda: replay() if queue.is_replayed else None, seconds, fake.LAUNCH_EAGER)
    return on_device(again, index, key)


def _is_new(result: Any, memory: set[int]) -> bool:
    """Return whether a result is a new tensor, all of its memory and not much of it, which can be kept."""
    if not isinstance(result, torch.Tensor) or not result.is_contiguous():
        return False
    storage = result.untyped_storage()
    return storage.data_ptr() not in memory and 0 < storage.nbytes() == result.nbytes <= MOST_REUSED


def _leaves(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _leaves(value)
        else:
            yield value


def _mapped(value: Any, function: Callable[[torch.Tensor], Any]) -> Any:
    """Return a value, or a list or tuple of such, with a function's results in place of tensors."""
    if isinstance(value, torch.Tensor):
        return function(value)
    return type(value)(_mapped(inner, function) for inner in value) if isinstance(value, (list, tuple)) else value


def _on_host(value: Any, hosts: Mapping[int, torch.Tensor]) -> Any:
    """Return an argument for the CPU."""
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return _mapped(value, lambda tensor: hosts.get(id(tensor), tensor))


def _call(op: Any, args: Any, kwargs: Any) -> Any:
    """Return a call of an operation on the CPU.

    A number in place of a tensor arrives as a number, which only another overload takes. Products of two bytes are
    computed in float32: the CPU takes 50 times as long for its own.
    """
    if op in (torch.ops.aten.mm.default, torch.ops.aten.mm.out) and args[0].itemsize == 2:
        out = kwargs.get("out", torch.empty(args[0].shape[0], args[1].shape[1], dtype=args[0].dtype))
        return lambda: out.copy_(args[0].float() @ args[1].float())
    is_number = any(isinstance(args[at], (bool, int, float)) for at in _tensors(op) if at < len(args))
    return functools.partial(op._overloadpacket if is_number else op, *args, **kwargs)


@functools.cache
def _tensors(op: Any) -> list[int]:
    """Return which arguments of an operation are tensors."""
    return [position for position, argument in enumerate(op._schema.arguments) if str(argument.type) == "Tensor"]


@functools.cache
def _written(op: Any) -> list[tuple[int, str]]:
    """Return positions and names of the arguments that an operation writes to."""
    return [
        (position, argument.name)
        for position, argument in enumerate(op._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]


def _key(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.data_ptr(), tensor.dtype, tensor.device, *tensor.shape, *tensor.stride()


def _as_argument(tensor: torch.Tensor) -> torch.Tensor:
    """Return a CPU tensor in place of a device's. One that can be resized where there is nothing: an output may be."""
    return on_host(tensor) if tensor.numel() else torch.empty(tensor.shape, dtype=tensor.dtype)


def _become(tensor: torch.Tensor, other: torch.Tensor) -> None:
    """Give a tensor the memory and shape of another."""
    tensor.set_(other.untyped_storage(), other.storage_offset(), other.size(), other.stride())


def _resize(tensor: torch.Tensor, size: Any, memory_format: Any = None) -> torch.Tensor:
    """Resize as PyTorch does: what was there stays at the beginning."""
    if tuple(tensor.shape) != tuple(size):
        assert memory_format in (None, torch.contiguous_format)
        index, count = fake.index_of(tensor.device), math.prod(size)
        fresh = torch.empty(size, dtype=tensor.dtype)
        before = on_host(tensor).reshape(-1)[:count] if tensor.numel() else fresh[:0]
        fresh.view(-1)[: len(before)] = before
        _become(tensor, on_device(fresh, index))
    return tensor


def _repeat(call: Callable[[], Any], outputs: Any) -> None:
    """Compute again, into the memory of the outputs of a first time."""
    for output, value in zip(_leaves((outputs,)), _leaves((call(),)), strict=True):
        if isinstance(output, torch.Tensor):
            output.copy_(value)


def _returned(tensor: torch.Tensor, of_host: dict[int, torch.Tensor], memory: set[int], index: int) -> torch.Tensor:
    """Return a result of the CPU as the device's: an argument itself, a view of one, or a new tensor."""
    if id(tensor) in of_host:
        return of_host[id(tensor)]
    if tensor.untyped_storage().data_ptr() in memory:
        return _labelled(tensor, CUDA, index)
    return on_device(tensor, index)


def _copy(target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """Copy between devices or on one. The host waits for what it reads, and reads none while a graph is captured."""
    index = (target if target.is_cuda else source).device.index
    queue = fake.CURRENT[index]
    across = not (target.is_cuda and source.is_cuda)
    if across and queue.capture is not None:
        raise fake.StreamError(fake.CAPTURING)
    to, of = (on_host(t) if t.is_cuda else t for t in (target, source))
    key = None if across else ("copy", _key(to), _key(of))
    reads, writes = _arrays([of]), _arrays([to])
    queue.launch(
        lambda: fake.DONE.run(key, reads, writes, lambda: to.copy_(of)), fake.seconds_of(index, reads + writes)
    )
    if across:
        queue.synchronize()
    return target


def _view(op: Any) -> Any:
    """Return the CPU's code of an operation that computes nothing: it does for every device."""
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    return lambda *args, **kwargs: op.redispatch(keys, *args, **kwargs)


_LIBRARIES: list[Any] = []  # what they register lives as long as they


def plant() -> None:
    """Give PyTorch's CPU build the dispatch key CUDA, in this process, for ever."""
    every, aten = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    every.fallback(_compute, "CUDA")
    aten.impl("copy_", _copy, "CUDA")
    aten.impl("resize_", _resize, "CUDA")
    for name in VIEWS:
        packet, _, overload = name.partition(".")
        aten.impl(name, _view(getattr(getattr(torch.ops.aten, packet), overload or "default")), "CUDA")
    _LIBRARIES.extend((every, aten))
