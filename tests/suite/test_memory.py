"""Sums find every change of an input, and a view or another dtype does not pass for what the reference returns."""

import numpy
import pytest

from kernel_velocity.problem.problem import Problem, outputs_of
from kernel_velocity.suite.memory import GLANCES, WHOLE, Glance, checksums, unlike_reference

torch = pytest.importorskip("torch", reason="what lies in memory are torch's tensors")

KEY = 5


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(100_001),
        lambda: torch.randn(100_001)[1:],  # neither aligned to 8 bytes nor a multiple of them
        lambda: torch.randn(300, 400).T,
        lambda: torch.randn(100_003).half()[3:],
        lambda: torch.randint(0, 100, (100_001,), dtype=torch.int8),
        lambda: torch.randn(1000, dtype=torch.complex128),
        lambda: torch.randn(1000, dtype=torch.complex64).conj(),
        lambda: torch.randn(1000) > 0,
        lambda: numpy.random.default_rng().random(1001),
        lambda: torch.randn(3),
    ],
)
def test_one_changed_element_changes_the_sums(make):
    values = make()
    before = checksums([values, 3], KEY)
    assert checksums([values, 3], KEY) == before
    flat = torch.as_tensor(values).flatten()[-2:]
    values[tuple(size - 1 for size in values.shape)] = not flat[1] if values.dtype == torch.bool else flat[1] + 1
    assert checksums([values, 3], KEY) != before


def test_elements_that_cancel_out_are_found():
    values = torch.arange(1, 1 + (1 << 18), dtype=torch.int64)
    before = [checksums([values], key) for key in range(20)]
    values[::2] += values[1::2]  # half of the input is zero, and its sum is what it was
    values[1::2] = 0
    assert sum(checksums([values], key) == sums for key, sums in enumerate(before)) == 0


def test_no_tensor_has_no_sums():
    assert checksums([3, "text"], KEY) == [] and checksums([torch.empty(0, 3)], KEY)[:1] == [0]


def test_glances_are_drawn_anew_and_copy_small_outputs():
    small, large = torch.arange(5), torch.arange(2 * WHOLE)
    looks = [Glance([2 * WHOLE]).at([small, large]) for _ in range(2)]
    assert torch.equal(looks[0][0], small) and looks[0][1].shape == (GLANCES,)
    assert not torch.equal(looks[0][1], looks[1][1])
    small[0] = 9
    assert looks[0][0][0] == 0
    glance = Glance([])
    assert torch.equal(glance.at([large])[0], glance.at([large])[0])  # of a size that nobody expected


class Stated(Problem):
    """A problem with a reference, and what results are compared with in float64."""

    def __init__(self, reference, precise):
        super().__init__("stated")
        self._reference, self._is_precise = reference, precise

    def reference_solution(self, *inputs):
        return self._reference(*inputs)

    def expected(self, *inputs):
        result = outputs_of(self._reference(*inputs))
        return tuple(value.double() for value in result) if self._is_precise else result

    def generate_test_cases(self):
        return []

    def verify_result(self, expected, actual):
        return True, {}


def unlike(reference, ours, x=None, *, precise=False):
    problem, x = Stated(reference, precise), torch.randn(6, 6) if x is None else x
    return unlike_reference(problem, (x,), ours(x), (x,), problem.expected(x))


@pytest.mark.parametrize(
    ("reference", "ours", "why"),
    [
        (lambda x: x.t().contiguous(), lambda x: x.t(), "lies in the memory of an input"),
        (lambda x: x.clone(), lambda x: x, "lies in the memory of an input"),
        (lambda x: x.repeat(2, 1), lambda x: torch.as_strided(x, (12, 6), (0, 1)), "lies in the memory of an input"),
        (lambda x: x[:1].repeat(9, 1), lambda x: x[:1].clone().expand(9, 6), "has elements that share their memory"),
        (lambda x: x.t().contiguous(), lambda x: x.clone().t(), "is not contiguous"),
        (lambda x: (x + 1, x + 1), lambda x: (x + 1,) * 2, "lies in the memory of another output"),
        (lambda x: x[1:].clone(), lambda x: x[1:].numpy(), "lies in the memory of an input"),
    ],
)
def test_view_that_passes_for_a_copy_is_named(reference, ours, why):
    assert unlike(reference, ours) == f"out {why}, unlike the reference's: return a contiguous copy"


@pytest.mark.parametrize(
    ("reference", "ours"),
    [
        (lambda x: x.t(), lambda x: x.t()),
        (lambda x: x.t(), lambda x: x.t().contiguous()),
        (lambda x: x, lambda x: x),
        (lambda x: x[:1].expand(9, 6), lambda x: x[:1].expand(9, 6)),
        (lambda x: (x + 1,) * 2, lambda x: (x + 1,) * 2),
        (lambda x: torch.exp(x.t()), lambda x: torch.exp(x).t()),
        (lambda x: x.unsqueeze(1) + 1, lambda x: (x + 1).t().contiguous().t().unsqueeze(1).contiguous()),
    ],
)
def test_view_is_right_where_the_reference_returns_one(reference, ours):
    assert unlike(reference, ours) == ""


def test_dtype_is_that_of_the_reference_not_of_what_is_expected():
    float64 = torch.randn(6, 6, dtype=torch.float64)
    bfloat16 = "out has dtype bfloat16, wanted float64 as the reference's"
    assert unlike(torch.sin, lambda x: torch.sin(x).bfloat16(), float64) == bfloat16
    assert unlike(torch.sin, torch.sin, precise=True) == ""
    wanted = "out has dtype float16, wanted float32 as the reference's"
    assert unlike(torch.sin, lambda x: torch.sin(x).half(), precise=True) == wanted
