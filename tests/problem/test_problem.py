"""Code with `device="cuda"` written in runs on the CPU while it is redirected, and means CUDA again afterwards."""

import pytest

from kernel_velocity.problem.problem import FEWEST_ROWS, MOST_ROWS, drawn_rows, redirected

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


def test_generator_stays_a_class_while_redirected():
    outside = torch.Generator()
    with redirected("cpu"), redirected("cpu"):
        annotation = torch.Generator | None

        class Seeded(torch.Generator):
            pass

        made, derived = torch.Generator("cuda"), Seeded(device="cuda:0")
        assert all(isinstance(value, torch.Generator) for value in (outside, made, derived))
        assert not isinstance(made, Seeded)
        assert not isinstance(3, torch.Generator)
    assert isinstance(made, annotation)
    assert type(made) is torch.Generator
    assert torch.rand(3, generator=derived).device.type == "cpu"


def test_redirected_is_undone():
    before = torch.Generator
    with pytest.raises(ZeroDivisionError), redirected("cpu"):
        raise ZeroDivisionError
    assert torch.Generator is before
    if not torch.cuda.is_available():
        with pytest.raises((AssertionError, RuntimeError)):
            torch.rand(3, device="cuda")


def test_rows_are_drawn_anew_and_pass_no_tile_over():
    draws = [drawn_rows(10_000, 97) for _ in range(3)]
    assert not torch.equal(draws[0], draws[1]) and not torch.equal(draws[1], draws[2])
    for rows in draws:
        assert len(rows) == 104 and int(rows[0]) >= 0 and int(rows[-1]) < 10_000
        assert int(rows.diff().min()) > 0 and int(rows.diff().max()) < 2 * 97
    assert len(drawn_rows(128, 97)) == FEWEST_ROWS and drawn_rows(3, 97).tolist() == [0, 1, 2]
    assert len(drawn_rows(0, 97)) == 0
    most = drawn_rows(10_000_000, 97)
    assert len(most) == MOST_ROWS and int(most.diff().max()) < 2 * 10_000_000 / MOST_ROWS + 1


def test_rows_depend_on_no_seed_of_torch():
    torch.manual_seed(3)
    first = drawn_rows(10_000, 97)
    torch.manual_seed(3)
    assert not torch.equal(first, drawn_rows(10_000, 97))
