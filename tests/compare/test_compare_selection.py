"""Which cases and implementations are compared, and how much memory a case takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.add_mul_exp import AddMulExp
from benchmarks.matmul import Matmul
from kernel_velocity.compare.selection import (
    cases,
    cases_of,
    check_fits,
    dtype_of,
    implementations,
    matching,
    needed,
    said_dtype,
)
from kernel_velocity.errors import UsageError
from tests.compare.live_comparisons import Doubling, DoublingBytes

NAMES = ["float32-1M", "float32-10M", "int8-1M"]


def names(pattern):
    return matching("--sizes", pattern, NAMES, "here")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (None, NAMES),
        ("float32-1M", ["float32-1M"]),  # a name is itself, though others begin with it
        ("int8-1M,float32-1M", ["float32-1M", "int8-1M"]),  # in the order of the problem
        ("1M", ["float32-1M", "int8-1M"]),
        ("^float", ["float32-1M", "float32-10M"]),
        ("10{0,1}M$", NAMES),  # this comma is the expression's own
    ],
)
def test_names_and_expressions(pattern, found):
    assert names(pattern) == found


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("2M", "--sizes '2M': nothing of here matches; there are float32-1M, float32-10M, int8-1M"),
        ("1M,2M", "--sizes '2M'"),
        ("(", r"--sizes '\(': neither a name nor a regular expression"),
        ("", "--sizes '': nothing"),
    ],
)
def test_what_matches_nothing_is_an_error(pattern, said):
    with pytest.raises(UsageError, match=said):
        names(pattern)


@given(st.sets(st.sampled_from(NAMES), min_size=1))
def test_names_select_themselves(chosen):
    assert set(names(",".join(chosen))) == chosen


def test_cases_by_dtype():
    problem = Doubling()
    assert len(cases(problem, None, "float32")) == 2
    assert [test["name"] for test in cases(problem, "large", "float32")] == ["float32-large"]
    with pytest.raises(UsageError, match="--dtype float16: doubling on cpu: no case of that dtype; of float32"):
        cases(problem, None, "float16")


def test_what_matches_in_one_problem_need_not_in_another():
    problems = [Doubling(), DoublingBytes()]
    found = cases_of(problems, "int8,float32-small", None)
    assert [[test["name"] for test in of] for of in found] == [["float32-small"], ["int8-small", "int8-large"]]
    assert [len(of) for of in cases_of(problems, None, "int8")] == [0, 2]
    with pytest.raises(UsageError, match="--sizes 'huge': nothing of doubling and doubling on cpu matches"):
        cases_of(problems, "small,huge", None)


def test_names_may_hold_commas():
    assert matching("--sizes", "m = 1, n = 2", ["m = 1, n = 2", "n = 2"], "here") == ["m = 1, n = 2"]
    assert matching("--sizes", ["m = 1, n = 2", "k"], ["m = 1, n = 2", "k", "l"], "here") == ["m = 1, n = 2", "k"]


@pytest.mark.parametrize(
    ("case", "dtype"),
    [("float32-5M", "float32"), ("bfloat16-1M", "bfloat16"), ("tf32-1M", "tf32"), ("n = 64", "int8")],
)
def test_a_dtype_is_in_the_name_or_in_the_parameters(case, dtype):
    assert dtype_of(DoublingBytes(), case) == dtype
    assert said_dtype(case) == (dtype if "-" in case else None)


def test_implementations_by_name():
    found = implementations({"eager": 1, "native": 2}, "native", "matmul")
    assert found == {"native": 2}
    with pytest.raises(UsageError, match="--implementations 'triton': nothing of matmul matches"):
        implementations({"eager": 1}, "triton", "matmul")


def test_memory_grows_with_implementations():
    problem = AddMulExp()
    test = problem.test_case("float32-50M")
    assert needed(problem, test, 3) == 5 * 600_000_000
    check_fits(problem, test, 3, None)  # where nobody says, nothing is refused
    check_fits(problem, test, 3, 4_000_000_000)
    with pytest.raises(UsageError, match=r"add_mul_exp float32-50M: needs about 2\.79 GiB for 3 implementations"):
        check_fits(problem, test, 3, 3_000_000_000)


def test_of_a_problem_that_does_not_say_only_its_largest_dimension_is_sure():
    class Foreign(Matmul):
        def get_bytes(self, test_case):
            return None

    problem = Foreign()
    assert needed(problem, problem.test_case("float32-512x512x512"), 3) == 4 * 512
