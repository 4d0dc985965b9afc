"""add_mul_exp: out = exp((x + y) * 2), element by element. The output is of the inputs' dtype.

float16 and bfloat16 are computed in float32 and rounded once, at the end, by every implementation.
"""

from __future__ import annotations

import kernel_velocity as kv
from kernel_velocity.names import ITEM_BYTES
from kernel_velocity.problem.accuracy import compare

CASES = ("float32-500k", "float32-1M", "float32-5M", "float32-10M", "float32-50M")
# All implementations round x + y alike, and * 2 is exact; what differs is exp, a few units in the last place
# (2^-23 = 1.2e-7 each) wherever the result is a normal number. 1e-5 is also what published suites allow.
# Below the smallest normal float32 an implementation may flush to zero.
# The rest by dtype. float64: ours errs by 1.1 units (2^-52), PyTorch's vectorised exp by 1 (the bound that SLEEF
# states), the reference, which has no higher precision, by as much; the rest of the 8 is reserve. Inputs of float16
# and bfloat16 are such that nothing is subnormal: half a unit in the last place by rounding, and room for what exp errs
# in float32: 2^-8 of that half is 32 half units of float32 for float16, and 256 for bfloat16.
_ROUNDED_ONCE = 1 + 2.0**-8
TOLERANCES = {
    "float32": kv.Tolerance(rtol=1e-5, atol=2.0**-126, source="add_mul_exp: a few units in the last place of exp"),
    "float64": kv.Tolerance(rtol=8 * 2.0**-52, atol=2.0**-1022, source="add_mul_exp: 8 units in the last place of exp"),
    **{
        dtype: kv.Tolerance(rtol=half * _ROUNDED_ONCE, atol=0.0, source=f"add_mul_exp: float32, rounded to {dtype}")
        for dtype, half in (("float16", 2.0**-11), ("bfloat16", 2.0**-8))
    },
}


@kv.benchmark(
    cases={
        "cpu": (*CASES, "float64-5M", "float16-5M", "bfloat16-5M"),
        "cuda": (*CASES, "float16-50M", "bfloat16-50M"),  # beyond any GPU's caches
    },
    # One that a last-level cache of tens of MB holds, one that only a GPU's does.
    core={"cpu": ("float32-1M", "float32-10M"), "cuda": ("float32-1M", "float32-50M")},
    # A last-level cache of tens of MB holds 6 and 12 MB, and an L2 of 50 MB a part of 60 MB.
    cold={"cpu": ("float32-500k", "float32-1M"), "cuda": ("float32-500k", "float32-1M", "float32-5M")},
    # An addition, a multiplication, and an exponential counted as one, whatever it costs, as published fused-kernel
    # benchmarks do.
    flops=lambda n: 3 * n,
    bytes=lambda n, dtype: 3 * ITEM_BYTES[dtype] * n,
    # The addition moves 3 items, the multiplication and the exponential 2 each. Of 16 bits 3 casts move 6 bytes each.
    unfused_bytes=lambda n, dtype: (7 * ITEM_BYTES[dtype] if ITEM_BYTES[dtype] > 2 else 46) * n,
    rows=("x", "y"),
    signature="void solution(const float* x, const float* y, float* out, size_t n)",
    compiled=True,
    counts=("float32-100k",),
)
class AddMulExp:
    """x, y: (n,) -> out: (n,), all of one dtype."""

    def inputs(n, dtype):
        """Return normal values, so that exp's argument stays within +-25 and nothing overflows.

        Of float16 and bfloat16 half of them: float16 ends at exp(11.09), and below exp(-9.7) it is subnormal.
        """
        import torch

        x, y = kv.normal(n, "add_mul_exp/x"), kv.normal(n, "add_mul_exp/y")
        if ITEM_BYTES[dtype] == 2:
            x, y = x / 2, y / 2
        return x.to(getattr(torch, dtype)), y.to(getattr(torch, dtype))

    def reference(x, y):
        """Return the result of three eager operations, of float16 and bfloat16 between casts.

        Without casts PyTorch rounds the sum to the type, and the result errs by |argument| times as much as by its own
        rounding.
        """
        import torch

        if x.dtype in (torch.float32, torch.float64):
            return torch.exp((x + y) * 2)
        return torch.exp((x.float() + y.float()) * 2).to(x.dtype)

    def expected(x, y):
        """Return the exponential in float64 of the sum in float32 (float64): what the dtype could at best give."""
        import torch

        x, y = (value if value.dtype == torch.float64 else value.float() for value in (x, y))
        return torch.exp(((x + y) * 2).double())

    def verify(expected, actual):
        """Return whether every element is within the tolerance of the output's dtype, and the error figures."""
        dtype = str(actual.dtype).removeprefix("torch.")
        compared_as = dtype if dtype in TOLERANCES else "float32"
        details = compare(expected, actual, TOLERANCES[compared_as], dtype=compared_as)
        return details["right"], details

    def empty(x, y):
        """Return an uninitialised tensor like x."""
        import torch

        return torch.empty_like(x)

    native = kv.module("kernels.add_mul_exp")
    triton = kv.module("kernels.add_mul_exp.triton", device="cuda")
