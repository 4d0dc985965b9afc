"""C = A B, row-major: A is m x k, B is k x n, C is m x n. Triton. float32, float16, bfloat16, and int8 to int32.

Cost: 2 m n k FLOP; each matrix crosses memory at least once: of float32 4 (m k + k n + m n) bytes.
Versions (what is said of code is read from ptxas for sm_80 and sm_90):
  1  one program per tile of C, tiles of A and B through shared memory; tiles of 64 x 64 where larger ones would leave
     most of the GPU idle. The larger take 169 registers for sm_80, 182 for sm_90; of sizes that 16 does not divide all
     255, and spill up to 100 bytes
  2  one address for each tile, and the places of its elements in it: nothing is spilled (but 12 bytes where a size has
     more than 32 bits). Tiles of 64 x 64 by twice the threads, 4 x 4 sums for each: registers 124 to 80, and 192 to
     128. On an H200 4096^3 takes 4.09 ms, matmul.cu 3.14, cuBLAS 2.67
  3  float16, bfloat16 and int8 on tensor cores: mma.sync for sm_80, wgmma for sm_90. Unmeasured

Products of float32 are IEEE's (`input_precision="ieee"`: Triton's default is TF32, with 10 bits of each factor), summed
along k in float32 by fused multiply-adds on the CUDA cores. The others are multiplied exactly, and summed in float32 or
int32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl

from kernels._native import triton_launch
from kernels._native.arguments import Argument, TensorLike
from kernels.matmul import new_output, read_matrices

__all__ = ["SUPPORTS", "bind", "matmul"]


@triton.jit
def matmul_kernel(
    a: tl.tensor,
    b: tl.tensor,
    c: tl.tensor,
    m: tl.tensor,
    n: tl.tensor,
    k: tl.tensor,
    bias: tl.tensor | None,
    tile: tl.constexpr,
    depth: tl.constexpr,
    group: tl.constexpr,
) -> None:
    """Compute one tile of C, `tile` x `tile`, `depth` steps of k at a time. With bias: relu(A B + bias)."""
    # Programs that run together work on `group` rows of tiles, column by column: they share what they read in L2.
    high, wide = tl.cdiv(m, tile), tl.cdiv(n, tile)
    program = tl.program_id(0)
    first = program // (group * wide) * group
    rows_of_group = tl.minimum(high - first, group)
    inside = program % (group * wide)
    # 64 bits: there may be more than 2^31 elements.
    top = (first + inside % rows_of_group).to(tl.int64) * tile
    left = (inside // rows_of_group).to(tl.int64) * tile
    places, steps = tl.arange(0, tile).to(tl.int64), tl.arange(0, depth).to(tl.int64)
    rows_inside, columns_inside = (places < m - top)[:, None], (places < n - left)[None, :]
    within_a = places[:, None] * k + steps[None, :]
    within_b = steps[:, None] * n + places[None, :]
    from_a, from_b = a + top * k, b + left
    stride = tl.cast(n, tl.int64) * depth  # of B, elements from one pass to the next
    sums = tl.zeros((tile, tile), dtype=tl.int32 if a.dtype.element_ty == tl.int8 else tl.float32)
    for done in range(0, k, depth):
        ahead = steps < k - done
        tile_a = tl.load(from_a + within_a, mask=rows_inside & ahead[None, :], other=0)
        tile_b = tl.load(from_b + within_b, mask=ahead[:, None] & columns_inside, other=0)
        sums = tl.dot(tile_a, tile_b, sums, input_precision="ieee", out_dtype=sums.dtype)
        from_a += depth
        from_b += stride
    if bias is not None:  # known when the kernel is compiled
        sums += tl.load(bias + left + places, mask=places < n - left, other=0).to(tl.float32)[None, :]
        sums = tl.where(sums < 0, 0.0, sums)  # a comparison: NaN stays NaN
    to = c + top * n + left
    tl.store(to + places[:, None] * n + places[None, :], sums, mask=rows_inside & columns_inside)


# What a benchmark of any later commit asks this commit before it calls it.
SUPPORTS: dict[str, tuple[str, ...]] = {
    "devices": triton_launch.devices_of(matmul_kernel),
    "dtypes": ("float32", "float16", "bfloat16", "int8"),
    "keywords": ("out", "stream", "threads"),
}

# Fixed by shape, not autotuned: `triton.autotune` times its candidates and may choose another one in the next process,
# so that the history of the kernel would show the choices of its rounds.
LARGE = {"tile": 128, "depth": 16, "group": 8, "num_warps": 8, "num_stages": 2}
SMALL = {"tile": 64, "depth": 32, "group": 8, "num_warps": 8, "num_stages": 2}
LARGE_TENSOR = {"tile": 128, "depth": 64, "group": 8, "num_warps": 8, "num_stages": 3}  # of tensor cores
SMALL_TENSOR = {"tile": 64, "depth": 64, "group": 8, "num_warps": 4, "num_stages": 3}
# Where 16 does not divide all sizes and addresses: an item at a time, with an address each. The larger ones spill.
RAGGED_TENSOR = {"tile": 64, "depth": 32, "group": 8, "num_warps": 4, "num_stages": 2}
PROCESSORS = 108  # of an A100; an H100 has 132. Fewer large tiles than that leave some of them idle.


def configuration(m: int, n: int, dtype: str, aligned: bool) -> tuple[int, dict[str, int]]:
    """Return how many programs to launch, and the options of the kernel.

    Args:
        m, n: rows and columns of the product. dtype: of its factors.
        aligned: whether 16 divides all sizes and addresses.
    """
    large, small = (LARGE, SMALL) if dtype == "float32" else (LARGE_TENSOR, SMALL_TENSOR)
    if dtype != "float32" and not aligned:
        large = small = RAGGED_TENSOR

    def tiles(tile: int) -> int:
        count: int = triton.cdiv(m, tile) * triton.cdiv(n, tile)
        return count

    options = large if tiles(large["tile"]) >= PROCESSORS else small
    return tiles(options["tile"]), options


def bind(
    a: TensorLike, b: TensorLike, *, out: TensorLike, stream: Any = None, threads: int | None = None
) -> Callable[[], None]:
    """Check the arguments once; return a call without arguments that computes out.

    The arguments and errors are those of `matmul`. The call keeps the tensors alive, and uses the stream that was
    current when it was bound. Nothing is launched for an output without elements.
    """
    return bind_product("matmul", read_matrices(a, b, out, SUPPORTS), None, stream, threads)


def bind_product(
    name: str, matrices: tuple[Argument, ...], bias: Argument | None, stream: Any, threads: int | None
) -> Callable[[], None]:
    """Return a call that computes the last of three checked matrices, with a checked bias relu of the sum of both."""
    a, b, out = matrices
    (m, k), n = a.shape, b.shape[1]
    aligned = all(value % 16 == 0 for value in (m, n, k, a.pointer, b.pointer, out.pointer))
    blocks, options = configuration(m, n, a.dtype, aligned)
    return triton_launch.bind(
        name,
        matmul_kernel,
        blocks,
        tensors=matrices,
        values=(m, n, k),
        options={"bias": bias and bias.tensor, **options},
        stream=stream,
        threads=threads,
    )


def matmul(a: TensorLike, b: TensorLike, *, out: Any = None, stream: Any = None, threads: int | None = None) -> Any:
    """Compute the matrix product of a and b with Triton and return it: arguments and errors of `kernels.matmul`.

    Args:
        a: float32, float16, bfloat16 or int8, shape (m, k), contiguous, on a CUDA device; where Triton interprets, on
            the CPU.
        threads: None for tensors on a CUDA device.

    Raises:
        kernels._native.errors.LaunchError: Triton cannot compile the kernel, or the driver refuses to launch it.
    """
    if out is None:
        out = new_output(a, b, SUPPORTS)
    bind(a, b, out=out, stream=stream, threads=threads)()
    return out
