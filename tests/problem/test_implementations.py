"""`compile` where this torch runs no packages: n/a, and any other missing module is an error."""

import sys
import types

import pytest

from kernel_velocity.problem import implementations
from kernel_velocity.problem.problem import outputs_of
from kernel_velocity.problem.problem_file import load_file
from tests.public_problems import NESTED_MODEL, write
from tests.small_suite import SUITE

CASE = "float32-128x128x128"
MATMUL = next(problem for problem in SUITE.problems() if problem.kernel == "matmul")


@pytest.mark.parametrize("module", [None, types.ModuleType("torch._C._aoti")], ids=["no module", "no class"])
def test_torch_without_packages_is_explained(monkeypatch, tmp_path, module):
    pytest.importorskip("torch", reason="the module is PyTorch's")
    monkeypatch.setitem(sys.modules, "torch._C._aoti", module)
    with pytest.raises(NotImplementedError, match=r"this torch has no AOTInductor: .* cannot run compiled packages"):
        implementations.bind("compile", MATMUL, CASE, (), tmp_path)


def test_other_missing_module_is_an_error(monkeypatch, tmp_path):
    def missing(name):
        raise ModuleNotFoundError("No module named 'numbers'", name="numbers")

    monkeypatch.setattr(implementations.importlib, "import_module", missing)
    with pytest.raises(ModuleNotFoundError, match="numbers"):
        implementations.bind("compile", MATMUL, CASE, (), tmp_path)


@pytest.mark.parametrize(("device", "alive"), [("cpu", 1), ("cuda", 0)])
def test_last_output_is_given_back_on_cuda(device, alive):
    """Before the next is made, so that the allocator takes the same memory."""

    class Output:
        count = 0

        def __init__(self):
            Output.count += 1

        def __del__(self):
            Output.count -= 1

    before = []
    bound = implementations.fresh(lambda: before.append(Output.count) or Output(), device)
    bound.call()
    bound.call()
    assert before == [0, alive]
    assert bound.output() is not None


@pytest.mark.slow
def test_package_returns_every_output_and_draws_as_eager_does(tmp_path):
    torch = pytest.importorskip("torch", reason="packages are PyTorch's")
    text = NESTED_MODEL.replace("return x +", "return torch.nn.functional.dropout(x, 0.5) +")
    problem = load_file(write(tmp_path, {"7_Dropout.py": text}), None, "cpu")
    inputs = problem.generate_sample()["create_inputs"]()
    bound = implementations.bind("compile", problem, "get_inputs", inputs, tmp_path)
    for seed in (1, 2):
        torch.manual_seed(seed)
        expected = outputs_of(problem.expected(*inputs))
        torch.manual_seed(seed)
        bound.call()
        assert all(torch.allclose(*pair) for pair in zip(expected, outputs_of(bound.output()), strict=True))
