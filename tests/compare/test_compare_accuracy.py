"""Every output against its reference: who decides, what is said."""

from typing import ClassVar

import pytest

from kernel_velocity.compare.accuracy import in_words, verify
from kernel_velocity.harness.accuracy import compare_outputs, parse_tolerance, verdict
from kernel_velocity.harness.problem import outputs_of
from tests.compare.live_comparisons import Doubling

torch = pytest.importorskip("torch", reason="outputs are torch tensors")


class Two(Doubling):
    """x -> (double, half); its own check looks at both."""

    parameters: ClassVar = (
        {"name": "x", "type": "float", "pointer": True, "const": True},
        {"name": "double", "type": "float", "pointer": True, "const": False},
        {"name": "half", "type": "float", "pointer": True, "const": False},
    )

    def verify_result(self, expected, actual):
        return all(torch.equal(want, have) for want, have in zip(expected, actual, strict=True)), {}


def pair(double=2.0, half=0.5):
    return torch.full((4,), double), torch.full((4,), half)


def test_every_output_has_figures_under_its_name():
    double, half = verify(Two(), pair(), pair(half=0.75), None)
    assert (double.output, double.right, half.output, half.right) == ("double", True, "half", False)
    assert half.details["max_absolute_error"] == 0.25
    assert in_words((double, half)).startswith("half is wrong: ")
    assert all(each.right for each in verify(Two(), pair(), pair(), None))


def test_an_output_that_is_missing_is_wrong():
    found = verify(Two(), pair(), pair()[:1], None)
    assert [(each.output, each.right) for each in found] == [("double", True), ("half", False)]


def test_where_the_problem_refuses_and_no_figure_says_which_all_are_wrong():
    class Refusing(Two):
        def verify_result(self, expected, actual):
            return False, {"sum": 3.0}

    found = verify(Refusing(), pair(), pair(), None)
    assert [each.right for each in found] == [False, False]
    assert "the problem's own check refuses it: sum 3" in in_words(found)


def test_a_problem_that_says_which_output_is_wrong_is_believed():
    class Exact(Two):
        def verify_result(self, expected, actual):
            return verdict(compare_outputs(expected, actual, parse_tolerance("0"), self.output_names()))

    double, half = verify(Exact(), pair(), pair(half=0.5 + 2.0**-24), None)  # right by the default of float32
    assert (double.right, half.right) == (True, False)
    assert half.details["why"] == "4 of 4 elements wrong, the first at (0,): got 0.50000006, wanted 0.5"
    assert all(each.right for each in verify(Exact(), pair(), pair(), None))


def test_a_problem_that_allows_more_than_the_default_is_believed():
    class Lax(Doubling):
        def verify_result(self, expected, actual):
            return True, {"allowed": 1}

    (found,) = verify(Lax(), torch.tensor([1.0]), torch.tensor([1.5]), None)
    assert found.right and found.details["max_absolute_error"] == 0.5 and found.details["allowed"] == 1
    assert found.details["why"] is None and "rtol" not in found.details  # the default's verdict is not carried over
    (strict,) = verify(Lax(), torch.tensor([1.0]), torch.tensor([1.5]), parse_tolerance("1e-3"))
    assert not strict.right


def test_what_the_harness_does_not_compare_is_the_problems_to_judge():
    values = torch.tensor([1 + 2j])
    problem = Two()
    problem.verify_result = lambda expected, actual: (torch.equal(expected, actual), {"norm": 0.0})
    (found,) = verify(problem, values, values, None)
    assert found.right and found.details["norm"] == 0.0
    (found,) = verify(problem, values, values * 2, None)
    assert not found.right
    with pytest.raises(ValueError, match="complex"):
        verify(problem, values, values, parse_tolerance("1e-3"))


def test_outputs_and_names():
    assert outputs_of(None) == () and outputs_of([1, 2]) == (1, 2) and outputs_of(3) == (3,)
    assert Two().output_names() == ("double", "half")
