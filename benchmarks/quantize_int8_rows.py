"""quantize_int8_rows: out = round_half_even(x / scale) as int8, where scale = max |x| of the row / 127, and the scales.

float16 and bfloat16 are made float32 first, by every implementation: then the result is exact.
"""

from __future__ import annotations

import kernel_velocity as kv
from kernel_velocity.names import ITEM_BYTES

# Rows of 4096 numbers, as activations of language models have them. On a CPU the first two are in the caches.
SHAPES = ("128x4096", "512x4096", "2048x4096", "8192x4096")
CASES = tuple(f"float32-{shape}" for shape in SHAPES)
PERIOD = 1_048_576  # random values drawn: 256 rows; larger inputs repeat them


@kv.benchmark(
    cases={
        "cpu": (*CASES, "float16-2048x4096", "bfloat16-2048x4096"),
        "cuda": (*CASES, "float16-8192x4096", "bfloat16-8192x4096"),
    },
    core={"cpu": (CASES[0], CASES[2]), "cuda": (CASES[1], CASES[3])},
    cold={"cpu": CASES[:2], "cuda": CASES[:3]},
    # Size, maximum, division, rounding and the two comparisons of the clamp, as `quantize_int8` counts. The conversion
    # to int8 is not counted, nor the division of a row's maximum.
    flops=lambda rows, columns: 6 * rows * columns,
    bytes=lambda rows, columns, dtype: (ITEM_BYTES[dtype] + 1) * rows * columns + 4 * rows,
    # Size, division, rounding and clamp move 8 bytes each, the maximum 4, the conversion 5, a cast of 16 bits 6. A
    # row's maximum and its scale are written and read.
    unfused_bytes=lambda rows, columns, dtype: (41 if dtype == "float32" else 47) * rows * columns + 16 * rows,
    tolerance=kv.Tolerance(rtol=0.0, atol=0.0, source="quantize_int8_rows: exact"),  # IEEE operations
    rows=("x",),
    signature="void solution(const float* x, int8_t* out, float* scales, size_t rows, size_t columns)",
    compiled=True,
    counts=("float32-64x1024",),
    # Timed on CUDA alone, which it is made for: tier core has 150 s a commit on a CPU, and three kernels take them.
    # What `kv compare` runs on the CPU are the same test cases.
    devices=("cuda",),
)
class QuantizeInt8Rows:
    """x: (rows, columns) float32, float16 or bfloat16 -> out: (rows, columns) int8, scales: (rows,) float32."""

    def inputs(rows, columns, dtype, device):
        """Return x (normal values) and 127. On CUDA that is a 0-dim tensor, by which PyTorch divides.

        By a Python number PyTorch's CUDA division multiplies with the reciprocal, which is another scale.
        """
        import torch

        x = kv.normal(rows * columns, "quantize_int8_rows/x", PERIOD).reshape(rows, columns)
        steps = 127.0 if device == "cpu" else torch.tensor(127.0, dtype=torch.float32)
        return x.to(getattr(torch, dtype)), steps

    def reference(x, steps):
        """Return the quantised rows and their scales by seven eager operations. Float16 and bfloat16 are cast first."""
        import torch

        if x.dtype != torch.float32:
            x = x.float()
        scales = torch.amax(torch.abs(x), 1, keepdim=True) / steps
        return torch.clamp(torch.round(x / scales), -127, 127).to(torch.int8), scales.squeeze(1)

    def empty(x, steps):
        """Return an uninitialised int8 tensor of x's shape, and a float32 one with a number for each row."""
        import torch

        return torch.empty_like(x, dtype=torch.int8), x.new_empty(x.shape[0], dtype=torch.float32)

    native = kv.module("kernels.quantize_int8_rows")
    triton = kv.module("kernels.quantize_int8_rows.triton", device="cuda")
