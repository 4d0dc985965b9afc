"""Every output against its reference: who decides, what is said."""

from typing import ClassVar

import pytest

from kernel_velocity.compare.subject import verify_outputs, wrong_outputs
from kernel_velocity.problem.accuracy import compare_outputs, parse_tolerance, verdict
from tests.compare.doubling import Doubling

torch = pytest.importorskip("torch", reason="outputs are torch tensors")


class Two(Doubling):
    """x -> (double, half), with a check of both."""

    parameters: ClassVar = tuple(
        {"name": name, "type": "float", "pointer": True, "const": name == "x"} for name in ("x", "double", "half")
    )

    def verify_result(self, expected, actual):
        return all(torch.equal(want, have) for want, have in zip(expected, actual, strict=True)), {}


def pair(double=2.0, half=0.5):
    return torch.full((4,), double), torch.full((4,), half)


def verified(problem, actual, expected=None, tolerance=None):
    return verify_outputs(problem, expected or pair(), actual, tolerance)


def test_outputs_have_figures_under_their_names():
    double, half = verified(Two(), pair(half=0.75))
    assert (double.output, double.right, half.output, half.right) == ("double", True, "half", False)
    assert half.details["max_absolute_error"] == 0.25
    assert wrong_outputs((double, half)).startswith("half is wrong: ")
    assert [(output.output, output.right) for output in verified(Two(), pair()[:1])] == [
        ("double", True),
        ("half", False),
    ]


def test_outputs_are_all_wrong_where_nothing_says_which():
    problem = Two()
    problem.verify_result = lambda expected, actual: (False, {"sum": 3.0})
    refused = verified(problem, pair())
    assert [output.right for output in refused] == [False, False]
    assert "the problem's own check rejects it: sum 3" in wrong_outputs(refused)


def test_problem_that_says_which_output_is_wrong_is_believed():
    class Exact(Two):
        def verify_result(self, expected, actual):
            return verdict(compare_outputs(expected, actual, parse_tolerance("0"), self.output_names()))

    double, half = verified(Exact(), pair(half=0.5 + 2.0**-24))  # right by the default of float32
    assert (double.right, half.right) == (True, False)
    why = "4 of 4 elements wrong, the first at (0,): got 0.50000006, wanted 0.5"
    assert half.details["why"] == f"{why}; right by the norm rule"  # both verdicts, where they differ


def test_problem_that_allows_more_than_the_default_is_believed():
    problem = Doubling()
    problem.verify_result = lambda expected, actual: (True, {"allowed": 1})
    values = torch.tensor([1.0]), torch.tensor([1.5])
    (lax,) = verify_outputs(problem, *values, None)
    assert lax.right and lax.details["max_absolute_error"] == 0.5 and lax.details["allowed"] == 1
    assert lax.details["why"] is None and "rtol" not in lax.details  # the default's verdict is not carried over
    (strict,) = verify_outputs(problem, *values, parse_tolerance("1e-3"))
    assert not strict.right


def test_tolerance_that_did_not_decide_is_not_printed():
    problem = Doubling()
    problem.verify_result = lambda expected, actual: (False, {})
    values = torch.tensor([1.0]), torch.tensor([1.5])
    refused = verify_outputs(problem, *values, None)
    assert "1 of 1 elements wrong" in wrong_outputs(refused) and "tol" not in wrong_outputs(refused)
    assert "rtol 0.001" in wrong_outputs(verify_outputs(problem, *values, parse_tolerance("1e-3")))
    allowed = parse_tolerance("1e-2")
    problem.verify_result = lambda expected, actual: verdict(compare_outputs(expected, actual, allowed, ["out"]))
    assert "rtol 0.01" in wrong_outputs(verify_outputs(problem, *values, None))  # it says which it has


def test_problem_judges_dtypes_that_the_harness_cannot_compare():
    values, problem = torch.tensor([1 + 2j]), Doubling()
    problem.verify_result = lambda expected, actual: (torch.equal(expected, actual), {"norm": 0.0})
    (right,) = verify_outputs(problem, values, values, None)
    assert right.right and right.details["norm"] == 0.0
    assert not verify_outputs(problem, values, values * 2, None)[0].right
    with pytest.raises(ValueError, match="complex"):
        verify_outputs(problem, values, values, parse_tolerance("1e-3"))
