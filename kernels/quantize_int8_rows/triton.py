"""Each row of a matrix quantised to int8 with a scale of its own: max |x| of the row / 127. Triton.

The same numbers as quantize_int8_rows.cpp: `div_rn` is the IEEE division (`/` is an approximation on the GPU).
Cost: 6 FLOP per element; an item read and a byte written per element, 4 bytes per row.
Versions:
  1  one program per row, which reads it once where it has no more than MOST elements, else twice. Unmeasured
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl

from kernels._native import triton_launch
from kernels._native.arguments import TensorLike
from kernels.quantize_int8.triton import as_int8, rounded_quotient
from kernels.quantize_int8_rows import new_outputs, read_arguments

__all__ = ["SUPPORTS", "bind", "quantize_int8_rows"]


@triton.jit
def _sizes(numbers: tl.tensor) -> tl.tensor:
    """Return bits of |x|, which are ordered as numbers are: infinity above them all, and NaN above it."""
    return numbers.to(tl.int32, bitcast=True) & 0x7FFFFFFF


@triton.jit
def _quantize(numbers: tl.tensor, scale: tl.tensor) -> tl.tensor:
    return as_int8(rounded_quotient(numbers, scale, -127.0, 127.0))


@triton.jit
def quantize_int8_rows_kernel(
    x: tl.tensor, out: tl.tensor, scales: tl.tensor, columns: tl.tensor, block: tl.constexpr, whole: tl.constexpr
) -> None:
    """Quantize a row, `block` elements at a time; `whole`: it has no more than that, and is read once."""
    row = tl.program_id(0).to(tl.int64)  # 64 bits: there may be more than 2^31 elements
    from_x, to = x + row * columns, out + row * columns
    places = tl.arange(0, block)
    if whole:
        numbers = tl.load(from_x + places, mask=places < columns, other=0).to(tl.float32)
        scale = tl.div_rn(tl.max(_sizes(numbers), 0).to(tl.float32, bitcast=True), 127.0)
        tl.store(to + places, _quantize(numbers, scale), mask=places < columns)
    else:
        most = tl.zeros((block,), dtype=tl.int32)
        for done in range(0, columns, block):
            numbers = tl.load(from_x + done + places, mask=places < columns - done, other=0).to(tl.float32)
            most = tl.maximum(most, _sizes(numbers))
        scale = tl.div_rn(tl.max(most, 0).to(tl.float32, bitcast=True), 127.0)
        for done in range(0, columns, block):
            numbers = tl.load(from_x + done + places, mask=places < columns - done, other=0).to(tl.float32)
            tl.store(to + done + places, _quantize(numbers, scale), mask=places < columns - done)
    tl.store(scales + row, scale)


# What a benchmark of any later commit asks this commit before it calls it.
SUPPORTS: dict[str, tuple[str, ...]] = {
    "devices": triton_launch.devices_of(quantize_int8_rows_kernel),
    "dtypes": ("float32", "float16", "bfloat16"),
    "keywords": ("out", "stream", "threads"),
}

MOST = 8192  # elements of a row that a program keeps: of 8 warps, 32 a thread


def configuration(columns: int) -> dict[str, int]:
    """Return the kernel's options for rows of so many columns. Fixed by shape: matmul/triton.py says why."""
    block = min(triton.next_power_of_2(max(columns, 32)), MOST)
    return {"block": block, "whole": columns <= block, "num_warps": min(max(block // 512, 1), 8)}


def bind(
    x: TensorLike, scales: TensorLike, *, out: TensorLike, stream: Any = None, threads: int | None = None
) -> Callable[[], None]:
    """Check the arguments once; return a call without arguments that computes out and scales.

    The arguments and errors are those of `quantize_int8_rows`. The call keeps the tensors alive, and uses the stream
    that was current when it was bound. Nothing of no rows is launched.
    """
    x_, scales_, out_ = read_arguments(x, scales, out)
    rows, columns = x_.shape
    return triton_launch.bind(
        "quantize_int8_rows",
        quantize_int8_rows_kernel,
        rows,
        tensors=(x_, out_, scales_),
        values=(columns,),
        options=configuration(columns),
        stream=stream,
        threads=threads,
    )


def quantize_int8_rows(
    x: TensorLike, scales: Any = None, *, out: Any = None, stream: Any = None, threads: int | None = None
) -> tuple[Any, Any]:
    """Quantize each row of x with Triton: numbers, arguments and errors of `kernels.quantize_int8_rows`, but for these.

    Args:
        x: float32, float16 or bfloat16, two axes, contiguous, on a CUDA device; where Triton interprets, on the CPU.
        threads: None for tensors on a CUDA device.

    Raises:
        kernels._native.errors.LaunchError: Triton cannot compile the kernel, or the driver refuses to launch it.
    """
    out, scales = new_outputs(x, scales, out)
    bind(x, scales, out=out, stream=stream, threads=threads)()
    return out, scales
