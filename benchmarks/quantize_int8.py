"""quantize_int8: out = clamp(round_half_even(x / scale) + zero_point, -128, 127) as int8.

float16 and bfloat16 are made float32 first, by every implementation: then the result is exact.
"""

from __future__ import annotations

import kernel_velocity as kv
from kernel_velocity.names import ITEM_BYTES
from kernel_velocity.problem.accuracy import compare

CASES = ("float32-500k", "float32-1M", "float32-5M", "float32-10M", "float32-50M")
# 127 steps of .05 are 6.3 standard deviations of the normal inputs: nothing saturates, so the output does not compress.
SCALE = 0.05
ZERO_POINT = 3
# Five IEEE operations with one right answer each.
EXACT = kv.Tolerance(rtol=0.0, atol=0.0, source="quantize_int8: exact")


@kv.benchmark(
    cases={
        "cpu": (*CASES, "float16-5M", "bfloat16-5M"),
        "cuda": (*CASES, "float16-50M", "bfloat16-50M"),  # beyond any GPU's caches
    },
    core={"cpu": ("float32-1M", "float32-10M"), "cuda": ("float32-1M", "float32-50M")},
    cold={"cpu": ("float32-500k", "float32-1M"), "cuda": ("float32-500k", "float32-1M", "float32-5M")},
    # Division, rounding, addition and the two comparisons of the clamp, as published fused-kernel benchmarks count. The
    # conversion to int8 is not counted.
    flops=lambda n: 5 * n,
    bytes=lambda n, dtype: (ITEM_BYTES[dtype] + 1) * n,
    # Four operations read and write float32, the conversion writes int8. Of 16 bits a cast moves 6 bytes.
    unfused_bytes=lambda n, dtype: (37 if dtype == "float32" else 43) * n,
    rows=("x",),
    signature="void solution(const float* x, float scale, int zero_point, int8_t* out, size_t n)",
    compiled=True,
    counts=("float32-100k",),
)
class QuantizeInt8:
    """x: (n,) float32, float16 or bfloat16, scale, zero_point -> out: (n,) int8."""

    def inputs(n, dtype, device):
        """Return x (normal values), scale and zero_point. On CUDA scale is a 0-dim tensor.

        PyTorch's CUDA division by a Python number multiplies by its reciprocal, which is not the division that
        `quantize_int8` promises. By a tensor of the device it divides.
        """
        import torch

        scale = SCALE if device == "cpu" else torch.tensor(SCALE, dtype=torch.float32)
        return kv.normal(n, "quantize_int8/x").to(getattr(torch, dtype)), scale, ZERO_POINT

    def reference(x, scale, zero_point):
        """Return the quantised values by five eager operations.

        Not `quantize_per_tensor`, which multiplies by 1 / scale and so differs in some elements of a million. float16
        and bfloat16 are cast before: their own division rounds the quotient to 11 or 8 digits, and its integer differs.
        """
        import torch

        if x.dtype != torch.float32:
            x = x.float()
        return torch.clamp(torch.round(x / scale) + zero_point, -128, 127).to(torch.int8)

    def verify(expected, actual):
        """Return whether every integer is equal, and how many are not (and of those how many by one)."""
        details = compare(expected, actual, EXACT, dtype="int8")
        return details["right"], details

    def empty(x, scale, zero_point):
        """Return an uninitialised int8 tensor of x's shape."""
        import torch

        return torch.empty_like(x, dtype=torch.int8)

    native = kv.module("kernels.quantize_int8")
    triton = kv.module("kernels.quantize_int8.triton", device="cuda")
