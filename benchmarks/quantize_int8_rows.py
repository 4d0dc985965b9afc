"""quantize_int8_rows: out = round_half_even(x / scale) as int8, where scale = max |x| of the row / 127, and the scales.

float16 and bfloat16 are made float32 first, by every implementation: then the result is exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from kernel_velocity.harness.accuracy import Tolerance, compare_outputs, verdict
from kernel_velocity.harness.benchmark import _KernelBenchmark
from kernel_velocity.harness.cases import ITEM_BYTES, dtype_of
from kernel_velocity.harness.problem import Inputs, Outputs, SuiteProblem, TestCase, Verdict, c_parameters, every

if TYPE_CHECKING:
    import torch

# Rows of 4096 numbers, as activations of language models have them. On a CPU the first two are in the caches.
SHAPES = ("128x4096", "512x4096", "2048x4096", "8192x4096")
CASES = tuple(f"float32-{shape}" for shape in SHAPES)
PERIOD = 1_048_576  # random values drawn: 256 rows; larger inputs repeat them


class QuantizeInt8Rows(SuiteProblem):
    """x: (rows, columns) float32, float16 or bfloat16 -> out: (rows, columns) int8, scales: (rows,) float32.

    `dims` is (rows, columns).
    """

    kernel = "quantize_int8_rows"
    is_exact = True  # IEEE operations with one right answer each: no tolerance
    tolerance = Tolerance(rtol=0.0, atol=0.0, source="quantize_int8_rows: exact")
    parameters = c_parameters("const float* x, int8_t* out, float* scales, size_t rows, size_t columns")
    cases: ClassVar[Mapping[str, Sequence[str]]] = {
        "cpu": (*CASES, "float16-2048x4096", "bfloat16-2048x4096"),
        "cuda": (*CASES, "float16-8192x4096", "bfloat16-8192x4096"),
    }
    core: ClassVar[Mapping[str, Sequence[str]]] = {"cpu": (CASES[0], CASES[2]), "cuda": (CASES[1], CASES[3])}
    cold: ClassVar[Mapping[str, Sequence[str]]] = {"cpu": CASES[:2], "cuda": CASES[:3]}

    def create_inputs(self, rows: int, columns: int, dtype: str = "float32") -> Inputs:
        """Return x (normal values) and 127. On CUDA that is a 0-dim tensor, by which PyTorch divides.

        By a Python number PyTorch's CUDA division multiplies with the reciprocal, which is another scale.
        """
        import torch  # noqa: PLC0415 - discovery must work without torch

        x = self.random(rows * columns, "x", PERIOD).reshape(rows, columns).to(getattr(torch, dtype))
        return x, 127.0 if self.device == "cpu" else torch.tensor(127.0, device=self.device)

    def native_arguments(self, inputs: Inputs) -> Inputs:
        """Return x."""
        return inputs[:1]

    def reference_solution(self, *inputs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the quantised rows and their scales by seven eager operations. Float16 and bfloat16 are cast first."""
        import torch  # noqa: PLC0415

        x, steps = inputs
        if x.dtype != torch.float32:
            x = x.float()
        scales = torch.amax(torch.abs(x), 1, keepdim=True) / steps
        return torch.clamp(torch.round(x / scales), -127, 127).to(torch.int8), scales.squeeze(1)

    def verify_result(self, expected: Outputs, actual: Outputs) -> Verdict:
        """Return whether every integer and every scale is equal, and the figures of both."""
        return verdict(compare_outputs(expected, actual, self.tolerance, self.output_names()))

    def subset(self, inputs: Inputs, output: Outputs, step: int) -> tuple[Inputs, Outputs]:
        """Return every `step`-th row and its scale, counted back from the last."""
        x, steps = inputs
        return (every(x, step), steps), tuple(every(values, step) for values in output)

    def get_flops(self, test_case: TestCase) -> int:
        """Return 6 per element: size, maximum, division, rounding and the two comparisons of the clamp.

        As `quantize_int8` counts. The conversion to int8 is not counted, nor the division of a row's maximum.
        """
        return 6 * math.prod(test_case["dims"])

    def get_bytes(self, test_case: TestCase) -> int:
        """Return 5 per element of float32, 3 of the others: one item read, one int8 written, and 4 per row."""
        rows, columns = test_case["dims"]
        return (ITEM_BYTES[dtype_of(test_case["name"])] + 1) * rows * columns + 4 * rows

    def empty_output(self, inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
        """Return an uninitialised int8 tensor of x's shape, and a float32 one with a number for each row."""
        import torch  # noqa: PLC0415

        x = inputs[0]
        return torch.empty_like(x, dtype=torch.int8), x.new_empty(x.shape[0], dtype=torch.float32)


# Timed on CUDA alone, which it is made for: tier core has 150 s a commit on a CPU, and three kernels take them. What
# `tools compare` runs on the CPU are the same test cases.
class Cuda(_KernelBenchmark):
    """quantize_int8_rows on the current CUDA device."""

    problem = QuantizeInt8Rows()
    device = "cuda"
