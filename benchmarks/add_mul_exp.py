"""add_mul_exp: out = exp((x + y) * 2), element by element. The output is of the inputs' dtype.

float16 and bfloat16 are computed in float32 and rounded once, at the end, by every implementation.
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


# Half a unit in the last place by rounding, and room for what exp errs in float32: 2^-8 of that half is 32 half units
# of float32 for float16, and 256 for bfloat16.
_ROUNDED_ONCE = 1 + 2.0**-8


class AddMulExp(ElementwiseProblem):
    """x, y: (n,) -> out: (n,), all of one dtype."""

    kernel = "add_mul_exp"
    parameters = c_parameters("const float* x, const float* y, float* out, size_t n")
    cases: ClassVar[Mapping[str, Sequence[str]]] = {
        "cpu": (*ELEMENTWISE, "float64-5M", "float16-5M", "bfloat16-5M"),
        "cuda": (*ELEMENTWISE, "float16-50M", "bfloat16-50M"),  # beyond any GPU's caches
    }

    # All implementations round x + y alike, and * 2 is exact; what differs is exp, a few units in the last place
    # (2^-23 = 1.2e-7 each) wherever the result is a normal number. 1e-5 is also what published suites allow.
    # Below the smallest normal float32 an implementation may flush to zero.
    tolerance = Tolerance(rtol=1e-5, atol=2.0**-126, source="add_mul_exp: a few units in the last place of exp")
    # The rest by dtype. float64: ours errs by 1.1 units (2^-52), PyTorch's vectorised exp by 1 (the bound that SLEEF
    # states), the reference, which has no higher precision, by as much; the rest of the 8 is reserve. Inputs of float16
    # and bfloat16 are such that nothing is subnormal.
    tolerances: ClassVar[Mapping[str, Tolerance]] = {
        "float32": tolerance,
        "float64": Tolerance(
            rtol=8 * 2.0**-52, atol=2.0**-1022, source="add_mul_exp: 8 units in the last place of exp"
        ),
        **{
            dtype: Tolerance(rtol=half * _ROUNDED_ONCE, atol=0.0, source=f"add_mul_exp: float32, rounded to {dtype}")
            for dtype, half in (("float16", 2.0**-11), ("bfloat16", 2.0**-8))
        },
    }

    def create_inputs(self, count: int, dtype: str = "float32") -> Inputs:
        """Return x, y: normal values, so that exp's argument stays within +-25 and nothing overflows.

        Of float16 and bfloat16 half of them: float16 ends at exp(11.09), and below exp(-9.7) it is subnormal.
        """
        import torch  # noqa: PLC0415 - discovery must work without torch

        x, y = self.random(count, "x"), self.random(count, "y")
        if ITEM_BYTES[dtype] == 2:
            x, y = x / 2, y / 2
        return x.to(getattr(torch, dtype)), y.to(getattr(torch, dtype))

    def reference_solution(self, *inputs: Any) -> torch.Tensor:
        """Return exp((x + y) * 2) by three eager operations, of float16 and bfloat16 between casts.

        Without casts PyTorch rounds the sum to the type, and the result errs by |argument| times as much as by its own
        rounding.
        """
        import torch  # noqa: PLC0415

        x, y = inputs
        if x.dtype in (torch.float32, torch.float64):
            return torch.exp((x + y) * 2)
        return torch.exp((x.float() + y.float()) * 2).to(x.dtype)

    def expected(self, *inputs: Any) -> torch.Tensor:
        """Return the exponential in float64 of the sum in float32 (float64): what the dtype could at best give."""
        import torch  # noqa: PLC0415

        x, y = (value if value.dtype == torch.float64 else value.float() for value in inputs)
        return torch.exp(((x + y) * 2).double())

    def verify_result(self, expected: torch.Tensor, actual: torch.Tensor) -> Verdict:
        """Return whether every element is within the tolerance of the output's dtype, and the error figures."""
        dtype = str(actual.dtype).removeprefix("torch.")
        compared_as = dtype if dtype in self.tolerances else "float32"
        details = compare(expected, actual, self.tolerances[compared_as], dtype=compared_as)
        return details["right"], details

    def get_flops(self, test_case: TestCase) -> int:
        """Return 3 per element: one addition, one multiplication, one exponential counted as one.

        The convention of published fused-kernel benchmarks: an exp is one operation, whatever it costs.
        """
        return 3 * test_case["dims"][0]

    def get_bytes(self, test_case: TestCase) -> int:
        """Return two items read and one written per element: 12 bytes of float32."""
        return 3 * ITEM_BYTES[dtype_of(test_case["name"])] * test_case["dims"][0]

    def empty_output(self, inputs: Inputs) -> torch.Tensor:
        """Return an uninitialised tensor like x."""
        import torch  # noqa: PLC0415

        return torch.empty_like(inputs[0])


class Cpu(_KernelBenchmark):
    """add_mul_exp on the CPU."""

    problem = AddMulExp()
    device = "cpu"


class Cuda(_KernelBenchmark):
    """add_mul_exp on the current CUDA device."""

    problem = AddMulExp()
    device = "cuda"
