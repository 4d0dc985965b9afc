"""The bytes that operations of PyTorch move one by one, by hand and against what our kernels' definitions state."""

import pytest

from kernel_velocity.problem.problem import TestCase
from kernel_velocity.problem.traffic import traffic
from tests.small_suite import SUITE

torch = pytest.importorskip("torch", reason="the operations are PyTorch's")
N = 1000


@pytest.mark.parametrize(
    ("call", "floats"),
    [
        (lambda x: torch.exp((x + x) * 2), 3 + 2 + 2),
        (lambda x: x.clone().add_(x), 2 + 3),
        (lambda x: x.view(10, -1).t()[1:], 0),
        (lambda x: torch.empty_like(x).copy_(x), 2),
        (lambda x: x.view(10, -1) + x[:1], 2),  # a broadcast element is read once
        (lambda x: x + x[:1].expand(N), 2),
        (lambda x: torch.nn.functional.softmax(x, 0), 2),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_each_operation_reads_and_writes_once(call, floats, device):
    x = torch.ones(N, device=device)
    assert traffic(call, lambda: (x,)) // N == 4 * floats


def test_what_cannot_run_without_values_is_unknown():
    assert traffic(torch.nonzero, lambda: (torch.ones(3, device="meta"),)) is None


@pytest.mark.parametrize(
    ("name", "case"),
    [
        *(("add_mul_exp", f"{dtype}-1k") for dtype in ("float32", "float64", "float16", "bfloat16")),
        *(("quantize_int8", f"{dtype}-1k") for dtype in ("float32", "float16", "bfloat16")),
        *(("quantize_int8_rows", f"{dtype}-64x128") for dtype in ("float32", "float16")),
        ("matmul_bias_relu", "float32-128x128x128"),
        ("matmul", "float32-128x128x128"),
    ],
)
def test_what_our_kernels_state_is_what_pytorch_moves(name, case):
    problem = next(problem for problem in SUITE.problems() if problem.name == name)
    problem.device = "cpu"
    inputs = problem.inputs_of(case)
    test = TestCase(name=case, dims=(), create_inputs=lambda: inputs)
    stated = problem.get_unfused_bytes(test)
    assert stated == traffic(problem.reference_solution, lambda: inputs)
    assert stated >= problem.get_bytes(test)
