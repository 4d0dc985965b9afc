"""matmul_bias_relu: C = relu(A B + bias), row-major float32: a product, a bias for each column, no negative numbers."""

from __future__ import annotations

import kernel_velocity as kv
from benchmarks.matmul import cubes, factors, within_tolerance
from kernel_velocity.problem.problem import Problem


@kv.benchmark(
    cases={"cpu": cubes(128, 512, 1024), "cuda": cubes(1024, 2048, 4096)},
    core={"cpu": cubes(128, 512), "cuda": cubes(1024, 4096)},
    cold={"cpu": cubes(128), "cuda": cubes(1024, 2048)},
    flops=lambda m, n, k: 2 * m * n * k + 2 * m * n,  # the product, an addition and a comparison for each element
    bytes=lambda m, n, k: 4 * (m * k + k * n + n + m * n),  # each array moved once
    unfused_bytes=lambda m, n, k: 4 * (m * k + k * n + n + 3 * m * n),  # relu reads and writes the biased product
    rows=("a",),
    signature=(
        "void solution(const float* a, const float* b, const float* bias, float* out, size_t m, size_t n, size_t k)"
    ),
    compiled=True,
    counts=("float32-128x128x128",),
    devices=("cuda",),  # as quantize_int8_rows: three kernels take what tier core has for a commit on a CPU
)
class MatmulBiasRelu:
    """a: (m, k), b: (k, n), bias: (n,) -> out: (m, n), all float32 and row-major."""

    def inputs(m, n, k, dtype, device):
        """Return a, b and bias: seeded normal values, bias as wide as the products."""
        import torch

        generator = torch.Generator("cpu").manual_seed(Problem.get_seed("matmul_bias_relu/bias"))
        bias = torch.randn(n, generator=generator, dtype=torch.float32, device="cpu") * float(k) ** 0.5
        return *factors("matmul_bias_relu", m, n, k, dtype=dtype, device=device), bias.to(device)

    def reference(a, b, bias):
        """Return relu(bias + a @ b) by two eager operations, in full float32 (TF32 is off by default)."""
        import torch

        return torch.relu(torch.addmm(bias, a, b))

    def expected(a, b, bias):
        """Return it in float64."""
        import torch

        return torch.relu(torch.addmm(bias.double(), a.double(), b.double()))

    verify = within_tolerance

    def empty(a, b, bias):
        """Return an uninitialised float32 (m, n) tensor."""
        return a.new_empty((a.shape[0], b.shape[1]))

    native = kv.module("kernels.matmul_bias_relu")
    triton = kv.module("kernels.matmul_bias_relu.triton", device="cuda")
