"""The implementation `triton` of the suite: n/a where it cannot be, never timed where it would be interpreted."""

from __future__ import annotations

import sys
import types

import pytest

from kernel_velocity.names import CONTROLS
from tests.small_suite import SUITE

torch = pytest.importorskip("torch", reason="problems make torch tensors")

from benchmarks.add_mul_exp import AddMulExp, Cpu, Cuda  # noqa: E402 - after the skip
from kernel_velocity.problem.implementations import Module  # noqa: E402

SUPPORTS = {"devices": ("cuda",), "dtypes": ("float32", "float16"), "keywords": ("out", "stream", "threads")}
X = torch.linspace(-1, 1, 100)


def bound(case="float32-5M", name="kernels.add_mul_exp.triton"):
    """Bind `triton` to tensors of the CPU, as if that were a CUDA device."""
    problem = AddMulExp()
    problem.device = "cuda"
    return Module(name, "cuda")(problem, case, (X, X))


@pytest.fixture
def module(monkeypatch):
    """A module in the place of kernels.add_mul_exp.triton, whose kernel notes its calls."""
    result = types.ModuleType("kernels.add_mul_exp.triton")
    result.SUPPORTS, result.calls = dict(SUPPORTS), []

    def right(x, y, *, out):
        def call():
            result.calls.append(1)
            out.copy_(torch.exp((x + y) * 2))

        return call

    result.bind = right
    monkeypatch.setitem(sys.modules, result.__name__, result)
    return result


def test_bound_kernel_is_compiled(module):
    result = bound()
    assert len(module.calls) == 1  # compiling is no part of a round
    result.poison()
    assert torch.isnan(result.output()).all()
    result.call()
    assert torch.equal(result.output(), torch.exp(X * 4))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"devices": ("cpu",)}, "TRITON_INTERPRET is set: interpreted, a kernel's time says nothing"),
        ({"dtypes": ("float16",)}, "at this commit add_mul_exp takes float16 on cuda, not float32"),
    ],
)
def test_unsupported_case_or_interpreter_is_na(module, change, why):
    module.SUPPORTS |= change
    with pytest.raises(NotImplementedError, match=why):
        bound()
    assert module.calls == []


def test_kernel_without_triton_is_na():
    with pytest.raises(NotImplementedError, match=r"this commit has no kernels\._native\.triton$"):
        bound(name="kernels._native.triton")
    with pytest.raises(NotImplementedError, match=r"this commit has no kernels\.absent\.triton$"):
        bound(name="kernels.absent.triton")


def test_missing_triton_is_na(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)  # importing it fails as where it is not installed
    with pytest.raises(NotImplementedError, match="Triton is not installed"):
        bound()
    monkeypatch.setitem(sys.modules, "kernels._native.triton_launch", None)
    monkeypatch.setitem(sys.modules, "triton", types.ModuleType("triton"))
    with pytest.raises(ModuleNotFoundError):
        bound()


@pytest.mark.parametrize("interpret", ["0", "1"])
def test_na_on_the_cpu_before_inputs(monkeypatch, interpret):
    monkeypatch.setenv("TRITON_INTERPRET", interpret)
    monkeypatch.setattr(AddMulExp, "inputs_of", lambda *_: pytest.fail("inputs were made"))
    with pytest.raises(NotImplementedError, match="Triton needs a CUDA device"):
        Cpu().setup("triton", "float32-50M")


def test_live_series_on_cuda_only():
    for owner in (Cpu, Cuda):
        assert [params[0][-1] for params in (owner.params, owner.cold_params, owner.error_params)] == ["triton"] * 3
    live = {
        device: {name for problem in SUITE.problems(device) for name in problem.implementations_on(device)}
        for device in ("cpu", "cuda")
    }
    assert live == {"cpu": {"eager", "compile", "native"}, "cuda": {"eager", "compile", "native", "triton"}}
    assert "triton" not in CONTROLS
