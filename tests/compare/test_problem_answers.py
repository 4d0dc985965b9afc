"""What a user's Problem returns that makes no sense is one line, and the command ends with status 2."""

import io
import re

import pytest

from kernel_velocity.__main__ import main
from kernel_velocity.compare.problems import file
from kernel_velocity.errors import UsageError

torch = pytest.importorskip("torch", reason="problems make torch tensors")
pytestmark = pytest.mark.usefixtures("lock_of_its_own")

PROBLEM = """
import torch
from problem import Problem


class P(Problem):
    parameters = [
        {"name": "x", "type": "float", "pointer": True, "const": True},
        {"name": "out", "type": "float", "pointer": True, "const": False},
    ]

    def __init__(self):
        super().__init__("p")

    def reference_solution(self, x):
        return x * 2

    def generate_test_cases(self):
        return [{"name": "n8", "dims": (8,), "create_inputs": lambda: (torch.ones(8),)}]

    def verify_result(self, expected, actual):
        return bool(torch.equal(expected, actual)), {}

    def get_flops(self, test_case):
        return 8

    def get_bytes(self, test_case):
        return 64
"""


def run(folder, text):
    (folder / "p.py").write_text(text)
    out, err = io.StringIO(), io.StringIO()
    quick = ["--rounds=1", "--iters=1", "--device=cpu", "--no-roofline", "--implementations=eager"]
    return main(["compare", str(folder / "p.py"), *quick], out, err), out.getvalue(), err.getvalue()


def test_the_problem_itself_is_right(tmp_path):
    status, out, err = run(tmp_path, PROBLEM)
    assert (status, err) == (0, "") and "accuracy: 1 of 1 output right" in out


CASES = '[{"name": "n8", "dims": (8,), "create_inputs": lambda: (torch.ones(8),)}]'
ODD = [
    # (what is replaced, by what, what is said)
    ('"dims": (8,)', '"dims": 8', r"case 'n8': dims is 8, wanted a tuple of numbers"),
    ('"dims": (8,)', '"dims": "8"', r"dims is '8'"),
    ('"dims": (8,)', '"dims": (None,)', r"dims is \(None,\)"),
    ('"name": "n8"', '"name": 8', "the name of a test case is 8, wanted text"),
    ('"name": "n8"', '"name": " "', "the name of a test case is ' ', wanted text"),
    ('"create_inputs": lambda: (torch.ones(8),)', '"create_inputs": torch.ones(8)', "create_inputs is Tensor"),
    (CASES, "{}", "generate_test_cases returned dict, wanted a list"),
    (CASES, f"iter({CASES})", "generate_test_cases returned list_iterator, wanted a list"),
    (CASES, "None", "generate_test_cases returned None"),
    (CASES, "exit(0)", "generate_test_cases fails: SystemExit"),
    ("return 8", 'return "8"', r"get_flops of 'n8' returned '8', wanted a number >= 0"),
    ("return 8", "return -1", "get_flops of 'n8' returned -1"),
    ("return 8", 'return float("nan")', "get_flops of 'n8' returned nan"),
    ("return 8", "return True", "get_flops of 'n8' returned True"),
    ("return 64", "return [64]", r"get_bytes of 'n8' returned \[64\]"),
    ("return x * 2", "return None", "reference_solution returned None, wanted a tensor"),
    ("return x * 2", "return [x * 2, 3]", "reference_solution returned int among its outputs"),
    ("return x * 2", "return ()", "reference_solution returned tuple, wanted a tensor"),
    ("return bool(torch.equal(expected, actual)), {}", "return True", "verify_result returned True, wanted"),
    ("return bool(torch.equal(expected, actual)), {}", "return True, 3", "verify_result returned int for details"),
    ("return bool(torch.equal(expected, actual)), {}", "return expected == actual, {}", "Tensor of several elements"),
    ('"const": True}', '"constant": True}', "in parameters lacks const"),
    ('"name": "out"', '"name": 3', "the name of .* in parameters is int"),
    ("    def get_flops(self, test_case):\n        return 8", "    get_flops = 8", "get_flops is int, wanted a method"),
    ('super().__init__("p")', "super().__init__(3)", "P has no name"),
    ('super().__init__("p")', "raise SystemExit(0)", "P\\(\\) fails: SystemExit"),
]


@pytest.mark.parametrize(("what", "by", "said"), ODD, ids=[str(number) for number in range(len(ODD))])
def test_odd_answers_are_one_line(tmp_path, what, by, said):
    text = PROBLEM.replace(what, by, 1)
    assert text != PROBLEM
    status, out, err = run(tmp_path, text)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {tmp_path / 'p.py'}") and err.count("\n") == 1, err
    assert re.search(said, err), err


@pytest.mark.parametrize("found", [3, "ab", [1], None])
def test_parameters_that_are_none(tmp_path, found):
    with pytest.raises(UsageError, match="parameters"):
        file.parameters(tmp_path, found)


def test_what_makes_sense_is_as_we_need_it(tmp_path):
    inputs = {"create_inputs": list}
    (case,) = file.cases(tmp_path, ({"name": "a", "dims": [2, 0.5], "more": 1, **inputs},))
    assert (case["dims"], case["more"]) == ((2, 0.5), 1)
    assert [file.amount("f", each) for each in (None, 0, 3, 2.5e9)] == [None, 0, 3, 2_500_000_000]
    assert file.verdict("v", [torch.tensor(True), {1: 2}]) == (True, {"1": 2})
    assert file.listed("l", (1, 2)) == [1, 2]
    with pytest.raises(UsageError, match="returned int, wanted a list"):
        file.listed("l", 3)
    with pytest.raises(UsageError, match="argtypes"):
        file.signature("s", {"restype": None})
