"""`kv compare` on public problems: every form, solutions of its own form, its sample, and huge cases."""

import json
import os
import subprocess
import sys
from textwrap import indent

import pytest

from kernel_velocity.compare.api import compare
from kernel_velocity.compare.implementations import load
from kernel_velocity.compare.solutions import _written
from kernel_velocity.engine import reported
from kernel_velocity.files import SCRATCH
from kernel_velocity.problem.user_file import import_file
from tests.commands import kv
from tests.compare.doubling import QUICK
from tests.public_problems import (
    KERNELBENCH_SOLUTION,
    NESTED_MODEL,
    NESTED_SUBMISSION,
    PUBLIC,
    REFERENCE_OF_ONE,
    RUN,
    SUBMISSION,
    TENSARA,
    write,
)

torch = pytest.importorskip("torch", reason="problems make torch tensors")
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
    result = path.parent / "result.json"
    argv = ["--device=cpu", "--rounds=1", "--iters=2", "--no-roofline", f"--json={result}"]
    status, out, err = kv("compare", path, *options, *argv)
    cases = {}
    for row in json.loads(result.read_text())["results"] if result.is_file() else []:
        cases.setdefault(row["name"], {})[row["implementation"]] = row["status"]
    return status, cases, out + err


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
NESTED_SOLUTION = """
def solution(x, shift, power, scale, half, whole, n):
    half.copy_(x**power)
    whole.copy_(x * scale + shift)
"""
ALONE = SUBMISSION.replace("from task", "# ").replace(": input_t) -> output_t", ")")
SOLUTIONS = [
    ("KernelBench", "weights", KERNELBENCH_SOLUTION, ("mul_(self.scale)", "mul_(2)")),
    ("KernelBench", "nested", NESTED_MODEL.replace("class Model(", "class ModelNew("), ("hidden - x", "hidden + x")),
    ("GPU MODE", "nested", NESTED_SUBMISSION, ("x * x", "x + x")),
    ("GPU MODE", "nested", NESTED_SOLUTION, ("x * scale", "x / scale")),
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


def in_json(folder, text, **spec):
    """Write a solution of the first definition, two files in FlashInfer's form, and return its path."""
    path = folder / "mine.json"
    spec = {"language": "python", "target_hardware": ["cpu"], "entry_point": "src/main.py::run", **spec}
    sources = [{"path": spec["entry_point"].split("::")[0], "content": text}]
    sources += [{"path": "src/scaling.py", "content": "import torch\n\nscale = torch.rsqrt\n"}]
    solution = {"name": "mine", "definition": "rmsnorm_d64", "author": "me", "spec": spec, "sources": sources}
    path.write_text(json.dumps(solution))
    return path


IN_CPP = """
#include <ATen/ATen.h>
#include <torch/csrc/utils/pybind.h>
void run(at::Tensor input, at::Tensor weight, double eps, at::Tensor output) {
    auto x = input.to(at::kFloat);
    output.copy_(x * at::rsqrt((x * x).mean(-1, true) + eps) * weight.to(at::kFloat));
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
"""
SCALED = "from scaling import scale\n" + RUN.replace("torch.rsqrt(", "scale(")
IN_JSON = [
    pytest.param(SCALED, {}, ("+ eps", "+ 1"), id="writes"),
    pytest.param(RUN_RETURNS, {"destination_passing_style": False}, ("+ eps", "+ 1"), id="returns"),
    pytest.param(
        IN_CPP,
        {"language": "cpp", "entry_point": "main.cpp::run", "binding": "torch"},
        None,  # compiling it takes a minute
        id="cpp",
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.parametrize(("text", "spec", "mistake"), IN_JSON)
def test_solution_in_json(tmp_path, text, spec, mistake):
    path = write(tmp_path, PUBLIC["FlashInfer", "workloads"])
    status, cases, printed = run(path, f"--solution={in_json(tmp_path, text, **spec)}", "--implementations=eager,mine")
    assert status == 0 and all(row["mine"] == "right" for row in cases.values()), printed
    if mistake is not None:
        wrong = in_json(tmp_path, text.replace(*mistake), **spec)
        assert run(path, f"--solution={wrong}", "--implementations=mine")[0] == 1


CUDA = {"language": "cuda", "entry_point": "main.cu::run"}
NO_JSON = [
    ({"language": "fortran"}, None, "language is 'fortran', entry_point 'src/main.py::run'; wanted one of python, tri"),
    ({"entry_point": "src/main.py::walk"}, None, "src/main.py has no function 'walk'"),
    ({}, ('"rmsnorm_d64"', '"rope"'), "solves the definition 'rope', the problem is 'rmsnorm_d64'"),
    ({}, ("src/scaling.py", "../scaling.py"), "no solution of FlashInfer; wanted"),
    ({}, ("{", "{{"), "no JSON"),
]


@pytest.mark.parametrize(("spec", "change", "words"), NO_JSON)
def test_json_that_is_no_solution_is_one_line(tmp_path, spec, change, words):
    path, mine = write(tmp_path, PUBLIC["FlashInfer", "workloads"]), in_json(tmp_path, RUN, **spec)
    mine.write_text(mine.read_text().replace(*change or ("", "")))
    status, cases, printed = run(path, f"--solution={mine}", "--implementations=eager,mine")
    assert (status, cases, printed.count("\n")) == (2, {}, 1) and f"error: {mine}:" in printed and words in printed


def test_solution_in_cuda_is_not_applicable_on_the_cpu(tmp_path):
    path, mine = write(tmp_path, PUBLIC["FlashInfer", "workloads"]), in_json(tmp_path, IN_CPP, **CUDA)
    status, cases, printed = run(path, "--sample", f"--solution={mine}", "--implementations=eager,mine")
    assert status == 22 and cases["batch_size=7"] == {"eager": "right", "mine": "n/a"}
    assert "needs CUDA: the solution is in CUDA" in printed


NOT_HERE = [  # what a public problem says, and what is said of it
    ("import no_such_package\n", "needs the module no_such_package, which is not installed"),
    ("raise RuntimeError('Torch not compiled with CUDA enabled')\n", "needs CUDA: RuntimeError: Torch not compiled"),
    ("raise OSError('libcuda.so.1: cannot open')\n", "needs CUDA: OSError: libcuda.so.1: cannot open"),
    ("try:\n    import no_such\nexcept ImportError:\n    raise RuntimeError('no such')\n", "needs the module no_such,"),
]


@pytest.mark.parametrize(("text", "reason"), NOT_HERE)
def test_problem_that_needs_what_is_not_here(tmp_path, text, reason):
    """It is n/a when it is imported or first called, and the other problems are compared."""
    public = TENSARA["no_dims"]
    late = public.replace("            return x.sum(1)", indent(text, " " * 12))
    here = write(tmp_path / "here", {"def.py": public})
    for name, changed in (("early", f"{text}{public}"), ("late", late)):
        path = write(tmp_path / name, {"def.py": changed})
        status, cases, printed = run(path, "--implementations=eager")
        assert (status, cases, printed.count("\n")) == (22, {}, 1 if name == "early" else 2), printed
        assert printed.startswith(f"n/a: {path}:") and reason in printed
        _, cases, printed = run(here, path, "--implementations=eager")
        assert len(cases) == 2 and f"note: n/a: {path}:" in printed and reason in printed, printed


@pytest.mark.parametrize("where", ["", "def run(*_):\n    "])
def test_solution_that_needs_what_is_not_here(tmp_path, where):
    mine = tmp_path / "mine.py"
    mine.write_text(f"{where}import no_such\n")
    path = write(tmp_path, PUBLIC["FlashInfer", "two_outputs"])
    status, cases, printed = run(path, f"--solution={mine}", "--implementations=eager,mine")
    assert (status, cases) == (22, {"B=64": {"eager": "right", "mine": "n/a"}})
    assert "needs the module no_such, which is not installed" in printed


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


def test_solution_has_the_time_of_its_whole_function(tmp_path, monkeypatch):
    source = tmp_path / "mine.cpp"
    source.write_text(ADD)
    subprocess.run(["c++", "-O1", "-shared", "-fPIC", str(source), "-o", str(tmp_path / "mine.so")], check=True)
    problem, binders = load(str(write(tmp_path, PUBLIC["Tensara", "no_dims"])), "cpu", [tmp_path / "mine.so"])
    case = problem.generate_test_cases()[0]
    inputs = case["create_inputs"]()
    bound = binders["mine"](problem, case["name"], inputs)
    with monkeypatch.context() as patch:  # the definition's methods cost milliseconds
        for method in ("test_case", "get_extra_params", "generate_test_cases", "get_function_signature"):
            patch.setattr(problem, method, None)
        bound.poison()
        bound.function()
        assert bound.output().isnan().all()  # it writes outputs of its own
        bound.call()
    assert torch.allclose(bound.output(), problem.expected(*inputs))
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


def test_processes_of_a_comparison_share_what_is_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv(SCRATCH, str(tmp_path))
    folder = _written(tmp_path / "a.json", {"a/b.cpp": "1"})
    os.utime(folder / "a/b.cpp", (0, 0))
    assert _written(tmp_path / "a.json", {"a/b.cpp": "1"}) == folder
    assert (folder / "a/b.cpp").stat().st_mtime == 0  # as old as it was: nothing is compiled again
    other = _written(tmp_path / "a.json", {"a/b.cpp": "2"})
    assert other != folder and (other / "a/b.cpp").read_text() == "2"
