"""add_mul_exp: out = exp((x + y) * 2), element by element; float32 in, float32 out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from benchmarks.harness.accuracy import compare
from benchmarks.harness.benchmark import _KernelBenchmark
from benchmarks.harness.elementwise import ElementwiseProblem
from benchmarks.harness.problem import Inputs, TestCase, Verdict
from benchmarks.harness.tolerance import Tolerance

if TYPE_CHECKING:
    import torch


class AddMulExp(ElementwiseProblem):
    """x, y: (n,) float32 -> out: (n,) float32."""

    kernel = "add_mul_exp"
    parameters: ClassVar[Sequence[Mapping[str, Any]]] = (
        {"name": "x", "type": "float", "pointer": True, "const": True},
        {"name": "y", "type": "float", "pointer": True, "const": True},
        {"name": "out", "type": "float", "pointer": True, "const": False},
        {"name": "n", "type": "size_t", "pointer": False, "const": False},
    )

    # All implementations round x + y alike, and * 2 is exact; what differs is exp, a few units in the last place
    # (2^-23 = 1.2e-7 each) wherever the result is a normal number. 1e-5 is also what published suites allow.
    # Below the smallest normal float32 an implementation may flush to zero.
    tolerance = Tolerance(rtol=1e-5, atol=2.0**-126, source="add_mul_exp: a few units in the last place of exp")

    def __init__(self) -> None:
        super().__init__(name="add_mul_exp")

    def create_inputs(self, count: int) -> Inputs:
        """Return x, y: normal values, so that exp's argument stays within +-25 and nothing overflows."""
        return self.random(count, "x"), self.random(count, "y")

    def reference_solution(self, *inputs: Any) -> torch.Tensor:
        """Return exp((x + y) * 2) by three eager operations."""
        import torch  # noqa: PLC0415 - discovery must work without torch

        x, y = inputs
        return torch.exp((x + y) * 2)

    def expected(self, *inputs: Any) -> torch.Tensor:
        """Return the exponential in float64 of the sum in float32: what float32 could at best give."""
        import torch  # noqa: PLC0415

        x, y = inputs
        return torch.exp(((x + y) * 2).double())

    def verify_result(self, expected: torch.Tensor, actual: torch.Tensor) -> Verdict:
        """Return whether every element is within the tolerance, and the error figures."""
        details = compare(expected, actual, self.tolerance, dtype="float32")
        return details["right"], details

    def get_flops(self, test_case: TestCase) -> int:
        """Return 3 per element: one addition, one multiplication, one exponential counted as one.

        The convention of published fused-kernel benchmarks: an exp is one operation, whatever it costs.
        """
        return 3 * test_case["dims"][0]

    def get_bytes(self, test_case: TestCase) -> int:
        """Return 12 per element: two float32 read, one written."""
        return 12 * test_case["dims"][0]

    def get_unfused_bytes(self, test_case: TestCase) -> int:
        """Return 28 per element: the addition moves 3 float32, the multiplication and the exponential 2 each."""
        return 28 * test_case["dims"][0]

    def empty_output(self, inputs: Inputs) -> torch.Tensor:
        """Return an uninitialised float32 tensor like x."""
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
