"""matmul: C = A B, row-major float32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from benchmarks.harness.accuracy import compare
from benchmarks.harness.benchmark import _KernelBenchmark
from benchmarks.harness.cases import dims_of
from benchmarks.harness.problem import Inputs, Problem, TestCase, Verdict
from benchmarks.harness.tolerance import Tolerance

if TYPE_CHECKING:
    import torch


def _cubes(*sizes: int) -> tuple[str, ...]:
    return tuple(f"float32-{n}x{n}x{n}" for n in sizes)


class Matmul(Problem):
    """a: (m, k), b: (k, n) -> out: (m, n), all float32 and row-major; `dims` is (m, n, k)."""

    kernel = "matmul"
    parameters: ClassVar[Sequence[Mapping[str, Any]]] = (
        {"name": "a", "type": "float", "pointer": True, "const": True},
        {"name": "b", "type": "float", "pointer": True, "const": True},
        {"name": "out", "type": "float", "pointer": True, "const": False},
        {"name": "m", "type": "size_t", "pointer": False, "const": False},
        {"name": "n", "type": "size_t", "pointer": False, "const": False},
        {"name": "k", "type": "size_t", "pointer": False, "const": False},
    )
    cases: ClassVar[Mapping[str, Sequence[str]]] = {
        "cpu": _cubes(128, 256, 512, 768, 1024),
        "cuda": _cubes(512, 1024, 2048, 4096, 8192),
    }
    core: ClassVar[Mapping[str, Sequence[str]]] = {"cpu": _cubes(256, 512), "cuda": _cubes(1024, 4096)}
    cold: ClassVar[Mapping[str, Sequence[str]]] = {"cpu": _cubes(128, 256), "cuda": _cubes(512, 1024, 2048)}

    def __init__(self) -> None:
        super().__init__(name="matmul")

    def generate_test_cases(self) -> list[TestCase]:
        """Return one case per cube."""
        return [
            TestCase(name=name, dims=dims_of(name), create_inputs=partial(self.create_inputs, *dims_of(name)))
            for name in self.cases[self.device]
        ]

    def create_inputs(self, m: int, n: int, k: int) -> Inputs:
        """Return a (m, k) and b (k, n): seeded normal values, float32, on `device`."""
        import torch  # noqa: PLC0415 - discovery must work without torch

        generator = torch.Generator().manual_seed(self.get_seed(f"{self.name}/{m}x{n}x{k}"))
        a = torch.randn(m, k, generator=generator, dtype=torch.float32)
        b = torch.randn(k, n, generator=generator, dtype=torch.float32)
        return a.to(self.device), b.to(self.device)

    def reference_solution(self, *inputs: Any) -> torch.Tensor:
        """Return a @ b as PyTorch computes it, in full float32 (TF32 is off by default)."""
        import torch  # noqa: PLC0415

        a, b = inputs
        return torch.matmul(a, b)

    def expected(self, *inputs: Any) -> torch.Tensor:
        """Return the product in float64."""
        a, b = inputs
        return self.reference_solution(a.double(), b.double())

    @staticmethod
    def atol(k: int) -> float:
        """Return the absolute error allowed for inner products of length k of normal values.

        A float32 inner product errs by at most about sqrt(k) u sum|a_i b_i| with high probability (Higham and Mary,
        A New Approach to Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41(5), 2019), u = 2^-24; for
        normal values the sum is about (2/pi) k. Four times that: .01 at k = 1024, where a dropped term errs by 1.
        """
        return float(4 * k**0.5 * 2.0**-24 * 0.64 * k)

    def verify_result(self, expected: torch.Tensor, actual: torch.Tensor) -> Verdict:
        """Return whether every element is within `atol` of its inner product's length, and the error figures."""
        k = expected.shape[-1]  # the cases are cubes: a row of the result is as long as an inner product
        allowed = Tolerance(rtol=1e-5, atol=self.atol(k), source=f"matmul: rounding of inner products of length {k}")
        details = compare(expected, actual, allowed, dtype="float32")
        return details["right"], details

    def subset(self, inputs: Inputs, output: torch.Tensor, step: int) -> tuple[Inputs, torch.Tensor]:
        """Return every `step`-th row of a and of the output, counted back from the last, and all of b."""
        a, b = inputs
        start = (a.shape[0] - 1) % step
        return (a[start::step].contiguous(), b), output[start::step].contiguous()

    def get_flops(self, test_case: TestCase) -> int:
        """Return 2 m n k: a multiplication and an addition per term, as BLAS counts."""
        m, n, k = test_case["dims"]
        return 2 * m * n * k

    def get_bytes(self, test_case: TestCase) -> int:
        """Return 4 (m k + k n + m n): each matrix moved once."""
        m, n, k = test_case["dims"]
        return 4 * (m * k + k * n + m * n)

    def empty_output(self, inputs: Inputs) -> torch.Tensor:
        """Return an uninitialised float32 (m, n) tensor."""
        a, b = inputs
        output: torch.Tensor = a.new_empty(a.shape[0], b.shape[1])
        return output


class Cpu(_KernelBenchmark):
    """matmul on the CPU."""

    problem = Matmul()
    device = "cpu"


class Cuda(_KernelBenchmark):
    """matmul on the current CUDA device."""

    problem = Matmul()
    device = "cuda"
