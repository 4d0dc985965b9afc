"""out = exp((x + y) * 2), element by element, in float32; float16 and bfloat16 are rounded once, at the end. Triton.

Cost: 3 FLOP per element; two items read, one written: 12 bytes of float32, 6 of the others.
Versions (what is said of code is read from ptxas for sm_80 and sm_90):
  1  one program per block of elements, two accesses of 16 bytes per thread; exp by our own polynomial
  2  the last n % 16 elements apart: Triton accesses element by element what a mask does not cut by groups. Now it
     accesses 16 bytes at once also where 16 does not divide n; registers there 29 to 32, of the others 80 to 34. On an
     H200 50M take 141 us, as long as by add_mul_exp.cu

`tl.exp` is no alternative: it is ex2.approx(x log2 e), and the rounding of that product alone, 2^-18 near 128, errs by
up to 44 units in the last place. libdevice's exp cannot be interpreted, so no test without a GPU would see it.
The polynomial is that of add_mul_exp.cpp, with its accuracy: within 1.1 ulp, subnormal results included. Overflow gives
infinity, underflow 0, NaN stays NaN. float16 and bfloat16: within .5002 and .50002 ulp of theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl

from kernels._native import triton_launch
from kernels._native.arguments import ITEM_SIZES, TensorLike
from kernels.add_mul_exp import new_output, read_tensors

__all__ = ["SUPPORTS", "add_mul_exp", "bind"]

# exp(x) = 2^n exp(r), n the integer nearest to x / ln 2, so |r| <= ln 2 / 2. add_mul_exp.cpp says where the numbers are
# from.
PER_LN2 = tl.constexpr(float.fromhex("0x1.715476p0"))
LN2_HIGH = tl.constexpr(float.fromhex("0x1.63p-1"))
LN2_LOW = tl.constexpr(float.fromhex("-0x1.bd0106p-13"))
P0 = tl.constexpr(float.fromhex("0x1.fffffcp-2"))
P1 = tl.constexpr(float.fromhex("0x1.555492p-3"))
P2 = tl.constexpr(float.fromhex("0x1.5558f2p-5"))
P3 = tl.constexpr(float.fromhex("0x1.123a20p-7"))
P4 = tl.constexpr(float.fromhex("0x1.6a23cep-10"))
LOWEST, HIGHEST = tl.constexpr(-104.0), tl.constexpr(89.0)  # beyond these exp rounds to 0, or is infinity
ROUNDER = tl.constexpr(1.5 * 2**23)  # a float32 plus this has its nearest integer in the lowest bits
ROUNDER_BITS = tl.constexpr(0x4B400000)


@triton.jit
def _power_of_two(n: tl.tensor) -> tl.tensor:
    return ((n + 127) << 23).to(tl.float32, bitcast=True)


@triton.jit
def _exp(x: tl.tensor) -> tl.tensor:
    x = tl.where(x < LOWEST, LOWEST, x)  # comparisons: a minimum would drop the NaN
    x = tl.where(x > HIGHEST, HIGHEST, x)
    total = x * PER_LN2 + ROUNDER
    n = total - ROUNDER
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    p = (((P4 * r + P3) * r + P2) * r + P1) * r + P0
    result = (r * r) * p + r + 1.0
    # In two factors: 2^n alone may overflow where the result does not, and be 0 where the result is subnormal.
    whole = total.to(tl.int32, bitcast=True) - ROUNDER_BITS
    half = whole >> 1
    return result * _power_of_two(half) * _power_of_two(whole - half)


@triton.jit
def _compute(x: tl.tensor, y: tl.tensor, out: tl.tensor, inside: tl.tensor) -> None:
    total = tl.load(x, mask=inside).to(tl.float32) + tl.load(y, mask=inside).to(tl.float32)
    tl.store(out, _exp(total + total).to(out.dtype.element_ty), mask=inside)  # exactly twice


@triton.jit
def add_mul_exp_kernel(
    x: tl.tensor, y: tl.tensor, out: tl.tensor, n: tl.tensor, block: tl.constexpr, ragged: tl.constexpr
) -> None:
    """Compute one block of `block` elements, and the first program the rest; `ragged`: 16 does not divide n."""
    # 64 bits: there may be more than 2^31 elements.
    offsets = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    whole = n // 16 * 16  # a mask of which Triton sees that it is the same for 16 neighbours
    _compute(x + offsets, y + offsets, out + offsets, offsets < whole)
    if ragged and tl.program_id(0) == 0:
        rest = tl.cast(whole, tl.int64) + tl.arange(0, 16)
        _compute(x + rest, y + rest, out + rest, rest < n)


# What a benchmark of any later commit asks this commit before it calls it.
SUPPORTS: dict[str, tuple[str, ...]] = {
    "devices": triton_launch.devices_of(add_mul_exp_kernel),
    "dtypes": ("float32", "float16", "bfloat16"),
    "keywords": ("out", "stream", "threads"),
}

# Two accesses of 16 bytes for each of 128 threads. Fixed, not autotuned: `triton.autotune` times its candidates and may
# choose another one in the next process, so that the history of the kernel would show the choices of its rounds.
WARPS = 4
BLOCK_BYTES = 2 * 16 * 32 * WARPS


def bind(
    x: TensorLike, y: TensorLike, *, out: TensorLike, stream: Any = None, threads: int | None = None
) -> Callable[[], None]:
    """Check the arguments once; return a call without arguments that computes out.

    The arguments and errors are those of `add_mul_exp`. The call keeps the tensors alive, and uses the stream that was
    current when it was bound. Nothing of an empty x is launched.
    """
    x_, y_, out_ = read_tensors(SUPPORTS, x, y, out)
    block = BLOCK_BYTES // ITEM_SIZES[x_.dtype]
    blocks = triton.cdiv(x_.elements, block)
    options = {"block": block, "ragged": x_.elements % 16 > 0, "num_warps": WARPS}
    return triton_launch.bind(
        "add_mul_exp",
        add_mul_exp_kernel,
        blocks,
        tensors=(x_, y_, out_),
        values=(x_.elements,),
        options=options,
        stream=stream,
        threads=threads,
    )


def add_mul_exp(
    x: TensorLike, y: TensorLike, *, out: Any = None, stream: Any = None, threads: int | None = None
) -> Any:
    """Compute exp((x + y) * 2) with Triton and return it: arguments and errors of `kernels.add_mul_exp`, but for these.

    Args:
        x: float32, float16 or bfloat16, any shape, contiguous, on a CUDA device; where Triton interprets, on the CPU.
        threads: None for tensors on a CUDA device.

    Raises:
        kernels._native.errors.LaunchError: Triton cannot compile the kernel, or the driver refuses to launch it.
    """
    if out is None:
        out = new_output(SUPPORTS, x)
    bind(x, y, out=out, stream=stream, threads=threads)()
    return out
