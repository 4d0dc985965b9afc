"""`kv compare` on public problems: every form, solutions of its own form, its sample, and huge cases."""

import io
import json
import os
import subprocess
import sys

import pytest

from kernel_velocity.__main__ import main
from kernel_velocity.compare.api import compare
from kernel_velocity.compare.implementations import load
from kernel_velocity.engine import reported
from kernel_velocity.problem.user_file import import_file
from tests.compare.doubling import QUICK
from tests.public_problems import KERNELBENCH_SOLUTION, PUBLIC, REFERENCE_OF_ONE, RUN, SUBMISSION, TENSARA, write

pytest.importorskip("torch", reason="problems make torch tensors")
pytestmark = pytest.mark.usefixtures("lock_of_its_own")
ADD = """
#include <stddef.h>
extern "C" void solution(const float* x, float* out, size_t n, size_t m) {
    for (size_t i = 0; i < n; ++i) {
        float sum = 0;
        for (size_t j = 0; j < m; ++j) sum += x[i * m + j];
        out[i] = sum;
    }
}
"""


def run(path, *options):
    """Compare once in this process, and return status, rows by case and implementation, and what was printed."""
    out, err = io.StringIO(), io.StringIO()
    result = path.parent / "result.json"
    argv = ["compare", str(path), "--device=cpu", "--rounds=1", "--iters=2", "--no-roofline", f"--json={result}"]
    status = main([*argv, *map(str, options)], out, err)
    cases = {}
    for row in json.loads(result.read_text())["results"] if result.is_file() else []:
        cases.setdefault(row["name"], {})[row["implementation"]] = row["status"]
    return status, cases, out.getvalue() + err.getvalue()


# Solutions in Python: form, name, a right one, and what makes it wrong.
RUN_RETURNS = (
    RUN.replace(", output)", ")").replace("output.copy_(", "return (").replace("float())", "float()).bfloat16()")
)
CUMULATIVE = "def solution(x, out, rows, columns):\n    out.copy_(x.cumsum(1))\n"
BEST = """
def solution(probs, offset, best, index, B):
    index.copy_(probs.argmax(1) + offset)
    best.copy_(probs.amax(1))
"""
ALONE = SUBMISSION.replace("from task", "# ").replace(": input_t) -> output_t", ")")
SOLUTIONS = [
    ("KernelBench", "weights", KERNELBENCH_SOLUTION, ("mul_(self.scale)", "mul_(2)")),
    ("GPU MODE", "writes_its_data", ALONE, (", 1, out", ", 3, out")),
    (
        "GPU MODE",
        "tensor_alone",
        REFERENCE_OF_ONE.replace("ref_kernel", "custom_kernel"),
        ("data.cumsum(1)", "data + 1"),
    ),
    ("GPU MODE", "tensor_alone", CUMULATIVE, ("x.cumsum(1)", "x")),
    ("FlashInfer", "workloads", RUN, ("+ eps", "+ 1")),
    ("FlashInfer", "workloads", RUN_RETURNS, ("+ eps", "+ 1")),
    ("FlashInfer", "two_outputs", BEST, ("amax", "amin")),
]


@pytest.mark.parametrize(("form", "name", "text", "mistake"), SOLUTIONS)
def test_solution_in_python(tmp_path, form, name, text, mistake):
    path, mine = write(tmp_path, PUBLIC[form, name]), tmp_path / "mine.py"
    mine.write_text(text)
    status, cases, printed = run(path, f"--solution={mine}", "--implementations=eager,mine")
    assert status == 0 and all(row["mine"] == "right" for row in cases.values()), printed
    assert mistake[0] in text
    mine.write_text(text.replace(*mistake))
    assert run(path, f"--solution={mine}", "--implementations=mine")[0] == 1


def test_sample_is_the_only_case(tmp_path):
    path = write(tmp_path, {"def.py": TENSARA["dims_of_other_kinds"].replace("64, device", "10**13, device")})
    status, cases, text = run(path, "--sample", "--implementations=eager")
    assert (status, list(cases)) == (0, ["sample"]), text
    status, _, text = run(path, "--implementations=eager")  # the real one is too large
    assert status == 2 and text.count("\n") == 1, text
    assert "error: negate n=64: out of memory" in text and "--sample" in text


def test_huge_case_is_left_out_and_named(tmp_path):
    path = write(tmp_path, {"def.py": TENSARA["no_dims"].replace("for n in (8, 24)", "for n in (8, 10**12)")})
    status, cases, text = run(path, "--implementations=eager")
    assert (status, list(cases)) == (0, ["rows=8"])
    assert "note: row-sums rows=1000000000000: out of memory (" in text


def test_solution_has_the_time_of_its_whole_function(tmp_path):
    source = tmp_path / "mine.cpp"
    source.write_text(ADD)
    subprocess.run(["c++", "-O1", "-shared", "-fPIC", str(source), "-o", str(tmp_path / "mine.so")], check=True)
    problem, binders = load(str(write(tmp_path, PUBLIC["Tensara", "no_dims"])), "cpu", [tmp_path / "mine.so"])
    comparison = compare(problem, {"mine": binders["mine"]}, settings=QUICK)
    (row, *_) = comparison.rows()
    assert row.timed.failed is None and row.timed.function > 0 and row.overhead is not None
    assert reported.free_memory("cpu")


def test_solution_edited_within_a_second_is_its_new_self(tmp_path, monkeypatch):
    """Python would take the bytecode of a file of equal size and second. A neighbour's, too."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    mine, neighbour = tmp_path / "mine.py", tmp_path / "beside_mine.py"
    for number in (1, 2):
        neighbour.write_text(f"VALUE = {number}\n")
        mine.write_text(f"from beside_mine import VALUE\nOWN = {number}\n")
        for path in (mine, neighbour):
            os.utime(path, (1e9, 1e9))
        module = import_file(mine)
        assert (number, number) == (module.OWN, module.VALUE)
