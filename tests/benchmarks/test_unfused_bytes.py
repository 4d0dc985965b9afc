"""The traffic of PyTorch's sequence of operations, against the operations that PyTorch really runs."""

import pytest

from kernel_velocity.harness.cases import dims_of
from tests.suite import SUITE

torch = pytest.importorskip("torch", reason="the operations are PyTorch's")


def traffic(run):
    """Return the bytes that the operations within `run` read and write, scalars left out."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    moved = []

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            result = operation(*args, **(kwargs or {}))
            tensors = [value for value in tree_leaves((args, kwargs, result)) if isinstance(value, torch.Tensor)]
            moved.append(sum(value.nbytes for value in tensors if value.ndim))
            return result

    with Count():
        run()
    return sum(moved)


@pytest.mark.parametrize(
    ("name", "case"),
    [
        *(("add_mul_exp", f"{dtype}-1k") for dtype in ("float32", "float64", "float16", "bfloat16")),
        *(("quantize_int8", f"{dtype}-1k") for dtype in ("float32", "float16", "bfloat16")),
        ("matmul_bias_relu", "float32-128x128x128"),
    ],
)
def test_unfused_bytes_are_those_that_pytorch_moves(name, case):
    pytest.importorskip("torch.profiler", reason="a whole PyTorch is wanted, not a part that stands in for it")
    problem = next(problem for problem in SUITE.problems() if problem.name == name)
    problem.device = "cpu"
    inputs = problem.inputs_of(case)
    test = {"name": case, "dims": dims_of(case), "create_inputs": lambda: inputs}
    assert problem.get_unfused_bytes(test) == traffic(lambda: problem.reference_solution(*inputs))
    assert problem.get_unfused_bytes(test) > problem.get_bytes(test)


def test_single_operation_has_no_unfused_bytes():
    problem = next(problem for problem in SUITE.problems() if problem.name == "matmul")
    problem.device = "cpu"
    assert problem.get_unfused_bytes(problem.generate_sample()) is None
