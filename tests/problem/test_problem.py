"""Code with `device="cuda"` written in runs on the CPU while it is redirected, and means CUDA again afterwards."""

import pytest

from kernel_velocity.problem.problem import redirected

torch = pytest.importorskip("torch", reason="what is redirected is torch")


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.rand(3, device="cuda"),
        lambda: torch.zeros((2, 3), device="cuda:1"),
        lambda: torch.empty(3, device=torch.device("cuda", 0)),
        lambda: torch.tensor([1.0], device="cuda"),
        lambda: torch.ones(3).cuda(),
        lambda: torch.ones(3).to("cuda"),
        lambda: torch.ones(3).to(torch.device("cuda:0"), torch.float64),
        lambda: torch.arange(3).to(device="cuda"),
        lambda: torch.randn(3, generator=torch.Generator(device="cuda").manual_seed(1), device="cuda"),
        lambda: torch.randn(3, generator=torch.Generator("cuda"), device="cuda"),
        lambda: torch.ones(3).new_zeros(3, device="cuda"),
        lambda: torch.nn.functional.relu(torch.full((3,), -1.0, device="cuda")),
    ],
)
def test_redirected_cuda_means_cpu(make):
    with redirected("cpu"):
        assert make().device.type == "cpu"
    if not torch.cuda.is_available():
        with pytest.raises((AssertionError, RuntimeError)):
            make()


def test_redirected_leaves_the_rest():
    with redirected("cpu"):
        assert torch.rand(3, device="meta").device.type == "meta"
        assert torch.ones(3).to(torch.int8).dtype == torch.int8
        assert torch.equal(torch.einsum("i,i->", torch.ones(3), torch.ones(3)), torch.tensor(3.0))
    before = torch.Generator
    with redirected("cuda"):
        assert torch.Generator is before


def test_redirected_is_undone():
    before = torch.Generator
    with pytest.raises(ZeroDivisionError), redirected("cpu"):
        raise ZeroDivisionError
    assert torch.Generator is before
    if not torch.cuda.is_available():
        with pytest.raises((AssertionError, RuntimeError)):
            torch.rand(3, device="cuda")
