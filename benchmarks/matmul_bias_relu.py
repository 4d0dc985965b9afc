"""matmul_bias_relu: C = relu(A B + bias), row-major float32: a product, a bias for each column, no negative numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from benchmarks.matmul import Matmul, _cubes
from kernel_velocity.harness.benchmark import _KernelBenchmark
from kernel_velocity.harness.problem import Inputs, TestCase, c_parameters

if TYPE_CHECKING:
    import torch


class MatmulBiasRelu(Matmul):
    """a: (m, k), b: (k, n), bias: (n,) -> out: (m, n), all float32 and row-major. `dims` is (m, n, k)."""

    kernel = "matmul_bias_relu"
    parameters = c_parameters(
        "const float* a, const float* b, const float* bias, float* out, size_t m, size_t n, size_t k"
    )
    cases: ClassVar[Mapping[str, Sequence[str]]] = {
        "cpu": _cubes(128, 512, 1024),
        "cuda": _cubes(1024, 2048, 4096),
    }
    core: ClassVar[Mapping[str, Sequence[str]]] = {"cpu": _cubes(128, 512), "cuda": _cubes(1024, 4096)}
    cold: ClassVar[Mapping[str, Sequence[str]]] = {"cpu": _cubes(128), "cuda": _cubes(1024, 2048)}

    def create_inputs(self, m: int, n: int, k: int, dtype: str = "float32") -> Inputs:
        """Return a (m, k), b (k, n) and bias (n,) on `device`: seeded normal values, bias as wide as the products."""
        import torch  # noqa: PLC0415 - discovery must work without torch

        generator = torch.Generator().manual_seed(self.get_seed(f"{self.name}/bias"))
        bias = torch.randn(n, generator=generator, dtype=torch.float32) * float(k) ** 0.5
        return *super().create_inputs(m, n, k, dtype), bias.to(self.device)

    def reference_solution(self, *inputs: Any) -> torch.Tensor:
        """Return relu(bias + a @ b) by two eager operations, in full float32 (TF32 is off by default)."""
        import torch  # noqa: PLC0415

        a, b, bias = inputs
        return torch.relu(torch.addmm(bias, a, b))

    def expected(self, *inputs: Any) -> torch.Tensor:
        """Return it in float64."""
        a, b, bias = inputs
        return self.reference_solution(a.double(), b.double(), bias.double())

    def subset(self, inputs: Inputs, output: torch.Tensor, step: int) -> tuple[Inputs, torch.Tensor]:
        """Return every `step`-th row of a and of the output, counted back from the last, and all of b and bias."""
        *factors, bias = inputs
        picked, rows = super().subset(tuple(factors), output, step)
        return (*picked, bias), rows

    def get_flops(self, test_case: TestCase) -> int:
        """Return 2 m n k + 2 m n: the product, an addition and a comparison for each element."""
        m, n, _ = test_case["dims"]
        return super().get_flops(test_case) + 2 * m * n

    def get_bytes(self, test_case: TestCase) -> int:
        """Return 4 (m k + k n + n + m n): each array moved once."""
        return super().get_bytes(test_case) + 4 * test_case["dims"][1]

    def empty_output(self, inputs: Inputs) -> torch.Tensor:
        """Return an uninitialised float32 (m, n) tensor."""
        return super().empty_output(inputs[:2])


# Timed on CUDA alone, as quantize_int8_rows: three kernels take what tier core has for a commit on a CPU.
class Cuda(_KernelBenchmark):
    """matmul_bias_relu on the current CUDA device."""

    problem = MatmulBiasRelu()
    device = "cuda"
