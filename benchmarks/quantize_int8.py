"""quantize_int8: out = clamp(round_half_even(x / scale) + zero_point, -128, 127) as int8.

float16 and bfloat16 are made float32 first, by every implementation: then the result is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from kernel_velocity.harness.accuracy import Tolerance, compare
from kernel_velocity.harness.benchmark import _KernelBenchmark
from kernel_velocity.harness.cases import ELEMENTWISE, ITEM_BYTES, dtype_of
from kernel_velocity.harness.problem import ElementwiseProblem, Inputs, TestCase, Verdict, c_parameters

if TYPE_CHECKING:
    import torch

# 127 steps of .05 are 6.3 standard deviations of the normal inputs: nothing saturates, so the output does not compress.
SCALE = 0.05
ZERO_POINT = 3


class QuantizeInt8(ElementwiseProblem):
    """x: (n,) float32, float16 or bfloat16, scale, zero_point -> out: (n,) int8."""

    kernel = "quantize_int8"
    is_exact = True  # five IEEE operations with one right answer each: no tolerance
    tolerance = Tolerance(rtol=0.0, atol=0.0, source="quantize_int8: exact")
    parameters = c_parameters("const float* x, float scale, int zero_point, int8_t* out, size_t n")
    cases: ClassVar[Mapping[str, Sequence[str]]] = {
        "cpu": (*ELEMENTWISE, "float16-5M", "bfloat16-5M"),
        "cuda": (*ELEMENTWISE, "float16-50M", "bfloat16-50M"),  # beyond any GPU's caches
    }

    def create_inputs(self, count: int, dtype: str = "float32") -> Inputs:
        """Return x (normal values), scale and zero_point. On CUDA scale is a 0-dim tensor.

        PyTorch's CUDA division by a Python number multiplies by its reciprocal, which is not the division that
        `quantize_int8` promises. By a tensor of the device it divides.
        """
        import torch  # noqa: PLC0415 - discovery must work without torch

        scale = SCALE if self.device == "cpu" else torch.tensor(SCALE, device=self.device)
        return self.random(count, "x").to(getattr(torch, dtype)), scale, ZERO_POINT

    def native_arguments(self, inputs: Inputs) -> Inputs:
        """Return x, scale as a number, zero_point."""
        x, scale, zero_point = inputs
        return x, float(scale), zero_point

    def reference_solution(self, *inputs: Any) -> torch.Tensor:
        """Return the quantised values by five eager operations.

        Not `quantize_per_tensor`, which multiplies by 1 / scale and so differs in some elements of a million. float16
        and bfloat16 are cast before: their own division rounds the quotient to 11 or 8 digits, and its integer differs.
        """
        import torch  # noqa: PLC0415

        x, scale, zero_point = inputs
        if x.dtype != torch.float32:
            x = x.float()
        return torch.clamp(torch.round(x / scale) + zero_point, -128, 127).to(torch.int8)

    def verify_result(self, expected: torch.Tensor, actual: torch.Tensor) -> Verdict:
        """Return whether every integer is equal, and how many are not (and of those how many by one)."""
        details = compare(expected, actual, self.tolerance, dtype="int8")
        return details["right"], details

    def get_flops(self, test_case: TestCase) -> int:
        """Return 5 per element: division, rounding, addition and the two comparisons of the clamp.

        The convention of published fused-kernel benchmarks. The conversion to int8 is not counted.
        """
        return 5 * test_case["dims"][0]

    def get_bytes(self, test_case: TestCase) -> int:
        """Return 5 per element of float32: one item read, one int8 written."""
        return (ITEM_BYTES[dtype_of(test_case["name"])] + 1) * test_case["dims"][0]

    def empty_output(self, inputs: Inputs) -> torch.Tensor:
        """Return an uninitialised int8 tensor of x's shape."""
        import torch  # noqa: PLC0415

        return torch.empty_like(inputs[0], dtype=torch.int8)


class Cpu(_KernelBenchmark):
    """quantize_int8 on the CPU."""

    problem = QuantizeInt8()
    device = "cpu"


class Cuda(_KernelBenchmark):
    """quantize_int8 on the current CUDA device."""

    problem = QuantizeInt8()
    device = "cuda"
