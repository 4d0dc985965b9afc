"""out = int8(clamp(round_half_even(x / scale) + zero_point, -128, 127)), float32 -> int8, element by element. Triton.

x may also be float16 or bfloat16, which are made float32 first. The same integers as quantize_int8.cpp: `div_rn` is the
IEEE division (`/` is an approximation on the GPU). NaN gives 0.
Cost: 5 FLOP and 5 bytes per element (one read of 4, one write of 1), 3 bytes of the others.
Versions (what is said of code is read from ptxas for sm_80 and sm_90):
  1  one program per block of elements, several accesses of 16 bytes per thread
  2  the last n % 16 elements apart: Triton accesses element by element what a mask does not cut by groups. Now it
     accesses 16 bytes at once also where 16 does not divide n; registers there 72 to 40, of the others 116 to 56. On an
     H200 50M take 62.2 us, by quantize_int8.cu 59.8
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl

from kernels._native import triton_launch
from kernels._native.arguments import ITEM_SIZES, TensorLike
from kernels.quantize_int8 import new_output, read_arguments

__all__ = ["SUPPORTS", "bind", "quantize_int8"]

ROUNDER = tl.constexpr(1.5 * 2**23)  # adding it rounds a small float32 to an integer, halves to even


@triton.jit
def rounded_quotient(numbers: tl.tensor, scale: tl.tensor, low: tl.tensor, high: tl.tensor) -> tl.tensor:
    """Return numbers / scale rounded to integers, halves to even, and clamped to the integers low and high."""
    quotient = tl.div_rn(numbers, scale)
    # Bounds that are integers may as well be applied before rounding: then the sum below rounds to an integer, which
    # libdevice's rint would, too, but it cannot be interpreted. Comparisons: a minimum would drop the NaN.
    quotient = tl.where(quotient < low, low, quotient)
    quotient = tl.where(quotient > high, high, quotient)
    return (quotient + ROUNDER) - ROUNDER


@triton.jit
def as_int8(value: tl.tensor) -> tl.tensor:
    """Return integers of int8's range as int8, and NaN as 0."""
    return tl.where(value == value, value, 0.0).to(tl.int8)


@triton.jit
def _quantize(x: tl.tensor, out: tl.tensor, scale: tl.tensor, zero_point: tl.tensor, inside: tl.tensor) -> None:
    numbers = tl.load(x, mask=inside).to(tl.float32)
    value = rounded_quotient(numbers, scale, -128.0 - zero_point, 127.0 - zero_point) + zero_point
    tl.store(out, as_int8(value), mask=inside)


@triton.jit
def quantize_int8_kernel(
    x: tl.tensor,
    out: tl.tensor,
    n: tl.tensor,
    scale: tl.tensor,
    zero_point: tl.tensor,
    block: tl.constexpr,
    ragged: tl.constexpr,
) -> None:
    """Quantize one block of `block` elements, and the first program the rest; `ragged`: 16 does not divide n.

    zero_point is a float.
    """
    # 64 bits: there may be more than 2^31 elements.
    offsets = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    whole = n // 16 * 16  # a mask of which Triton sees that it is the same for 16 neighbours
    _quantize(x + offsets, out + offsets, scale, zero_point, offsets < whole)
    if ragged and tl.program_id(0) == 0:
        rest = tl.cast(whole, tl.int64) + tl.arange(0, 16)
        _quantize(x + rest, out + rest, scale, zero_point, rest < n)


# What a benchmark of any later commit asks this commit before it calls it.
SUPPORTS: dict[str, tuple[str, ...]] = {
    "devices": triton_launch.devices_of(quantize_int8_kernel),
    "dtypes": ("float32", "float16", "bfloat16"),
    "keywords": ("out", "stream", "threads"),
}

# Four accesses of 16 bytes for each of 128 threads, so that of float32 each writes 16 bytes. Fixed, not autotuned:
# `triton.autotune` times its candidates and may choose another one in the next process, so that the history of the
# kernel would show the choices of its rounds.
WARPS = 4
BLOCK_BYTES = 4 * 16 * 32 * WARPS


def bind(
    x: TensorLike,
    scale: float,
    zero_point: int,
    *,
    out: TensorLike,
    stream: Any = None,
    threads: int | None = None,
) -> Callable[[], None]:
    """Check the arguments once; return a call without arguments that computes out.

    The arguments and errors are those of `quantize_int8`. The call keeps the tensors alive, and uses the stream that
    was current when it was bound. Nothing of an empty x is launched.
    """
    x_, out_, scale, zero_point = read_arguments(SUPPORTS, x, scale, zero_point, out)
    block = BLOCK_BYTES // ITEM_SIZES[x_.dtype]
    blocks = triton.cdiv(x_.elements, block)
    values = (x_.elements, scale, float(zero_point))
    options = {"block": block, "ragged": x_.elements % 16 > 0, "num_warps": WARPS}
    return triton_launch.bind(
        "quantize_int8",
        quantize_int8_kernel,
        blocks,
        tensors=(x_, out_),
        values=values,
        options=options,
        stream=stream,
        threads=threads,
    )


def quantize_int8(
    x: TensorLike,
    scale: float,
    zero_point: int,
    *,
    out: Any = None,
    stream: Any = None,
    threads: int | None = None,
) -> Any:
    """Quantize to int8 with Triton and return the result: integers, arguments and errors of `kernels.quantize_int8`.

    Args:
        x: float32, float16 or bfloat16, any shape, contiguous, on a CUDA device; where Triton interprets, on the CPU.
        threads: None for tensors on a CUDA device.

    Raises:
        kernels._native.errors.LaunchError: Triton cannot compile the kernel, or the driver refuses to launch it.
    """
    if out is None:
        out = new_output(SUPPORTS, x)
    bind(x, scale, zero_point, out=out, stream=stream, threads=threads)()
    return out
