"""Workloads that measure ceilings: streams through memory, products of matrices, multiply-adds. Inputs are random.

Those that PyTorch has not are native loops of a suite's package, which it names (`device.LOOPS`): modules `streams`,
with `bind_copy(source, out)` and `bind_triad(b, c, out)`, and `multiply_adds`, with `bind(numbers, a, b, steps)`. Each
returns a call that returns a status, 0 for success.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernel_velocity.engine.reported import threads
from kernel_velocity.engine.timers import Call
from kernel_velocity.problem.problem import tiled

if TYPE_CHECKING:
    import torch

Stream = Callable[[str, int], tuple[Call, float]]  # device, working set in bytes -> a call, and the bytes it moves
BEYOND = 4  # times the last-level cache: it holds a quarter of such a working set at most
MEMORY_SHARE = 4  # at most one part in four of the free memory: others may be using the machine


def undisturbed(samples: Sequence[float]) -> float:
    """Return the time that one sample in ten undercuts: what the machine can do undisturbed.

    A mean is what it did: beside other work a third of the bandwidth and FLOP/s, which made every honest timing
    look impossible. The very fastest sample may be an error of the clock.
    """
    return sorted(samples)[len(samples) // 10]


def _random(count: int, device: str) -> torch.Tensor:
    """Return `count` float32 normal values on the device. 1M different ones, repeated."""
    import torch  # noqa: PLC0415

    values = torch.randn(min(count, 1_000_000), generator=torch.Generator().manual_seed(1), dtype=torch.float32)
    return tiled(values.to(device), (count,))


def _copy(device: str, size: int) -> tuple[Call, float]:
    """Return a copy and the bytes that it reads and writes (a write that first fetches its line counts once)."""
    source = _random(size // 8, device)
    target = source.clone()
    return lambda: target.copy_(source), 8 * source.numel()


def _read(device: str, size: int) -> tuple[Call, float]:
    """Return a sum over all, and the bytes that it reads."""
    import torch  # noqa: PLC0415

    source = _random(size // 4, device)
    total = torch.empty((), dtype=torch.float32, device=device)
    return lambda: torch.sum(source, dim=0, out=total), 4 * source.numel()


def _triad(device: str, size: int) -> tuple[Call, float]:
    """Return a = b + 1.5 c, and the bytes that it reads and writes."""
    import torch  # noqa: PLC0415

    b = _random(size // 12, device)
    c, a = b.clone(), b.clone()
    return lambda: torch.add(b, c, alpha=1.5, out=a), 12 * b.numel()


def _copy_around(loops: str | None, size: int) -> tuple[Call, float]:
    """Return what `_copy` does on the CPU, written around the caches."""
    source = _random(size // 8, "cpu")
    return _succeeding(_native(loops, "streams").bind_copy(source, source.clone())), 8 * source.numel()


def _triad_around(loops: str | None, size: int) -> tuple[Call, float]:
    """Return what `_triad` does on the CPU, written around the caches."""
    b = _random(size // 12, "cpu")
    return _succeeding(_native(loops, "streams").bind_triad(b, b.clone(), b.clone())), 12 * b.numel()


def _native(loops: str | None, name: str) -> Any:
    """Return a module of a suite's loops. One of LACKING where there is none."""
    if loops is None:
        raise ImportError("the suite has no native loops")
    return importlib.import_module(f"{loops}.{name}")


def _succeeding(call: Callable[[], int]) -> Call:
    """Return a native call once it has succeeded: the time of one that fails is no bandwidth."""
    if status := call():
        raise RuntimeError(f"a native loop returned status {status}")
    return call


def reread(device: str, largest: int, per_call: int) -> Callable[[int], tuple[Call, float]]:
    """Return what makes, of a working set in bytes up to `largest`, a call that reads it again and again.

    One call reads `per_call` bytes at least, and the whole set at least once: the sums over the rows of a matrix
    whose rows are all the same memory. All sets are parts of one buffer, so that none of them costs an allocation.
    """
    import torch  # noqa: PLC0415

    buffer = _random(largest // 4, device)

    def of_size(size: int) -> tuple[Call, float]:
        count, rows = size // 4, max(1, per_call // size)
        matrix = buffer[:count].expand(rows, count)
        sums = torch.empty(rows, dtype=torch.float32, device=device)
        return lambda: torch.sum(matrix, dim=1, out=sums), 4.0 * rows * count

    return of_size


STREAMS: Mapping[str, Stream] = {"copy": _copy, "read": _read, "triad": _triad}
# The CPU's, native: torch's stores fetch each line that they fill, bytes that nobody counts.
AROUND: Mapping[str, Callable[[str | None, int], tuple[Call, float]]] = {
    "copy around the caches": _copy_around,
    "triad around the caches": _triad_around,
}
# What those raise where the loops cannot be loaded, or are from before there were some.
LACKING = (ImportError, AttributeError)


# Of the CPU's arithmetic, likewise: a product takes what torch's library makes of a CPU, MKL half of one with AVX-512.
MULTIPLY_ADDS = "multiply-adds"
MULTIPLIED = ("float64", "float32")  # dtypes in which there are some
_NUMBERS, _STEPS = 768, 20_000  # of a thread, and multiply-adds of each number: 60 µs where one thread does 500 GFLOP/s


def multiply_adds(loops: str | None, dtype: str) -> tuple[Call, float]:
    """Return multiply-adds in registers of a suite's loops, and the operations that they are: two each."""
    import torch  # noqa: PLC0415

    numbers = _random(_NUMBERS * threads(), "cpu").to(getattr(torch, dtype))
    bind = _native(loops, "multiply_adds").bind
    call = bind(numbers, 0.99, 1.0, _STEPS)  # such that they neither grow nor vanish
    return _succeeding(call), 2.0 * _STEPS * numbers.numel()


def product(device: str, dtype: str, n: int) -> Call:
    """Return a product of two random n x n matrices, normal values or whole numbers from -127 to 127."""
    import torch  # noqa: PLC0415

    if dtype == "int8":
        generator = torch.Generator().manual_seed(1)
        left, right = (torch.randint(-127, 128, (n, n), generator=generator, dtype=torch.int8) for _ in range(2))
        a, b = left.to(device), right.to(device).t()  # the second by columns, as cuBLASLt wants it for 8 bits
        return lambda: torch._int_mm(a, b)
    kind = torch.float32 if dtype == "tf32" else getattr(torch, dtype)
    a, b = (_random(n * n, device).reshape(n, n).to(kind) for _ in range(2))
    out = torch.empty_like(a)
    return lambda: torch.matmul(a, b, out=out)


def convolution() -> tuple[Call, float]:
    """Return a 3 x 3 convolution of float32 on the CPU, and its operations.

    Its library takes AVX-512 where it is. That of the product takes half of it on a CPU of another vendor: on one core
    of an EPYC 238 against 110 GFLOPS, of 269 that multiply-adds in registers reached.
    """
    import torch  # noqa: PLC0415

    channels, side = 128, 28
    pictures = _random(channels * side**2, "cpu").reshape(1, channels, side, side)
    weights = _random(channels**2 * 9, "cpu").reshape(channels, channels, 3, 3)
    call = lambda: torch.nn.functional.conv2d(pictures, weights, padding=1)  # noqa: E731
    return call, 2.0 * 9 * channels**2 * side**2
