"""Users' files: problems run here unchanged, solutions get the right arguments, a mistake is one line and status 2."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.compare import implementations, solutions
from kernel_velocity.compare.api import compare
from kernel_velocity.compare.implementations import load
from kernel_velocity.compare.solutions import GUARD, Guarded
from kernel_velocity.errors import UsageError
from kernel_velocity.problem.problem import ProblemError
from kernel_velocity.runner.checks import LIBRARY, check_build
from tests.challenge_files import CHALLENGE, OLDER, TWO_OUTPUTS
from tests.commands import kv
from tests.compare.doubling import QUICK, Doubling

torch = pytest.importorskip("torch", reason="problems make torch tensors")

LEAKY = """
extern "C" void solution(const float* input, float alpha, float* output, size_t n, size_t m) {
    for (size_t i = 0; i < n * m; ++i) output[i] = input[i] > 0 ? input[i] : alpha * input[i];
}
"""


def written(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


def compiled(folder, name, text):
    source, library = written(folder, f"{name}.cpp", f"#include <stddef.h>\n{text}"), folder / f"{name}.so"
    subprocess.run(["c++", "-O1", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return library


def right(loaded, name, case=None):
    """Bind an implementation to a case, call it on a poisoned output, and return whether it is right."""
    problem, binders = loaded
    case = case or problem.generate_test_cases()[-1]
    inputs = case["create_inputs"]()
    bound = binders[name](problem, case["name"], inputs)
    verdicts = []
    for _ in range(2):
        bound.poison()
        bound.call()
        verdicts.append(problem.verify_result(problem.expected(*inputs), bound.output())[0])
    return verdicts == [True, True]


def refused(what, *words, solutions=()):
    """Load and bind everything, and return the line that refuses it."""
    with pytest.raises((UsageError, ProblemError)) as caught:
        problem, binders = load(str(what), "cpu", solutions)
        case = problem.generate_test_cases()[0]
        inputs = case["create_inputs"]()
        problem.expected(*inputs)
        for name in binders:
            if name != "compile":
                binders[name](problem, case["name"], inputs)
    text = str(caught.value)
    assert "\n" not in text
    assert all(word in text for word in words), text


ALONG = """
import torch
from problem import Problem

class Along(Problem):
    parameters = [{"name": "x", "type": "float", "pointer": True, "const": True}, {"name": "dim", "type": "int"},
                  {"name": "out", "type": "float", "pointer": True}, {"name": "n", "type": "size_t"}]

    def __init__(self):
        super().__init__(name="along")

    def reference_solution(self, x, dim):
        return x.cumsum(dim)

    def generate_test_cases(self):
        return [{"name": f"n={n}", "dim": 0, "n": n, "create_inputs": lambda n=n: (torch.ones(n), 0)} for n in (0, 8)]

    def get_extra_params(self, case):
        return [case["n"], case["dim"]]

    def verify_result(self, expected, actual):
        return torch.equal(expected, actual), {}
"""


def test_number_that_is_also_an_input_is_passed_once(tmp_path):
    mine = written(tmp_path, "mine.py", "def solution(x, dim, out, n):\n    out.copy_(x[:n].cumsum(dim))\n")
    loaded = load(str(written(tmp_path, "def.py", ALONG)), "cpu", [mine])
    assert right(loaded, "mine")
    more = written(tmp_path, "more.py", ALONG.replace('case["dim"]]', "3]"))  # 3 is no input
    refused(more, "does not take the 5 arguments", solutions=[mine])


# Problems ------------------------------------------------------------------------------------------------------------


def test_public_definition_runs_as_it_is(tmp_path):
    problem, binders = load(str(written(tmp_path, "def.py", CHALLENGE)), "cpu")
    assert (problem.name, problem.device, list(binders)) == ("leaky-relu", "cpu", ["eager", "compile"])
    assert [case["name"] for case in problem.generate_test_cases()] == ["64x64, alpha=0.05", "100x37, alpha=0.05"]
    x, alpha = problem.test_case("100x37, alpha=0.05")["create_inputs"]()
    assert (x.device.type, tuple(x.shape), alpha) == ("cpu", (100, 37), 0.05)
    assert torch.equal(x, problem.test_case("100x37, alpha=0.05")["create_inputs"]()[0])
    assert right((problem, binders), "eager")
    case = problem.test_case("64x64, alpha=0.05")
    assert (problem.get_flops(case), problem.get_bytes(case)) == (4096, None)
    with pytest.raises(ModuleNotFoundError):  # the alias is gone
        __import__("problem")


def test_older_definition_gets_a_dtype(tmp_path):
    path = str(written(tmp_path, "def.py", OLDER))
    add = 'extern "C" void solution(const float* a, const float* b, float* c, size_t n)'
    library = compiled(tmp_path, "add", f"{add} {{ for (size_t i = 0; i < n; ++i) c[i] = a[i] + b[i]; }}")
    loaded = load(path, "cpu", [library])
    a, b = loaded[0].generate_test_cases()[1]["create_inputs"]()
    assert a.dtype == b.dtype == torch.float32
    assert right(loaded, "eager") and right(loaded, "add")  # outputs lie between inputs and sizes
    assert load(path, "cpu", dtype="float64")[0].generate_test_cases()[1]["create_inputs"]()[0].dtype == torch.float64


def test_file_may_import_its_own_neighbours(tmp_path):
    for folder, size in (("a", 100), ("b", 200)):
        (tmp_path / folder).mkdir()
        written(tmp_path / folder, "kv_neighbour.py", f"SIZE = {size}\n")
        text = TWO_OUTPUTS.replace("import torch\n", "import torch\nfrom kv_neighbour import SIZE\n", 1)
        path = written(tmp_path / folder, "p.py", text.replace("(100,)", "(SIZE,)"))
        (case, *_) = load(str(path), "cpu")[0].generate_test_cases()
        assert case["dims"] == (size,)


@pytest.mark.slow  # torch.compile takes 14 s
def test_compile_of_a_users_problem(tmp_path):
    loaded = load(str(written(tmp_path, "def.py", CHALLENGE)), "cpu")
    assert right(loaded, "compile")


def test_one_of_several_problems_is_named(tmp_path):
    path = written(tmp_path, "two.py", TWO_OUTPUTS + "\n\nclass Other(Problem):\n    pass\n")
    assert load(f"{path}:MinMax", "cpu")[0].name == "min_max"
    refused(path, "several Problems, MinMax, Other; name one", f"{path}:MinMax")
    refused(f"{path}:Nobody", "no Problem called 'Nobody'; there are MinMax, Other")
    family = '\n\nclass Narrow(MinMax):\n    def generate_test_cases(self):\n        self.name = "narrow"\n'
    family += "        return super().generate_test_cases()\n"
    assert load(str(written(tmp_path, "p.py", TWO_OUTPUTS + family)), "cpu")[0].name == "narrow"  # the last of a family


def test_reference_of_cuda_verifies_but_is_not_timed_on_cpus(tmp_path):
    text = TWO_OUTPUTS.replace("x.clamp(max=0), x.clamp(min=0)", 'x.to("cuda").clamp(max=0), x.cuda().clamp(min=0)')
    problem, binders = load(str(written(tmp_path, "p.py", text)), "cpu")
    case = problem.generate_test_cases()[0]
    inputs = case["create_inputs"]()
    assert torch.equal(problem.expected(*inputs)[0], inputs[0].clamp(max=0))
    if not torch.cuda.is_available():
        with pytest.raises(NotImplementedError, match="the reference names a CUDA device in its code"):
            binders["eager"](problem, case["name"], inputs)


def test_file_or_kernel_that_is_not_there(tmp_path):
    refused(tmp_path / "none.py", "none.py: no such file")
    refused("softmax", "softmax: must be a kernel (add_mul_exp, matmul, matmul_bias_relu, quantize_int8")


NEEDS = "\n    def verify_result(self, expected, actual):\n        return True, {}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import torch\nx = (\n", "p.py:2: does not import: SyntaxError"),
        ("import torch\n\nimport no_such_thing\n", "p.py:3: needs the module no_such_thing, which is not installed"),
        ("from problem import Problem\n", "no class that derives from Problem"),
        (f"from problem import Problem\nclass P(Problem):{NEEDS}", "P lacks generate_test_cases, reference_solution"),
        (TWO_OUTPUTS.replace("return [", "return 2 * [", 1), "two test cases are called 'float32-100'"),
        (TWO_OUTPUTS.replace("return [", "return 0 * [", 1), "returns no case"),
        (OLDER.replace("ones(n, d", "ones(n + 1, d"), "reference_solution fails on tensors of shapes [16], [17]: Runt"),
    ],
)
def test_file_that_is_no_problem(tmp_path, text, words):
    refused(written(tmp_path, "p.py", text), words)


LINSPACE = "torch.linspace(-1, 1, 100)"
CASES = '[{"name": "float32-100", "dims": (100,), "create_inputs": lambda: (torch.linspace(-1, 1, 100),)}]'
VERDICT = "all(torch.equal(one, other) for one, other in zip(expected, actual, strict=True)), {}"
COUNTS = (
    "    def get_flops(self, test_case):\n        return {}\n\n    def get_bytes(self, test_case):\n        return {}\n"
)
# What is replaced in TWO_OUTPUTS, by what, and what is said
ODD = [
    ('super().__init__("min_max")', "pass", "MinMax has no name; wanted an __init__ without arguments"),
    ('super().__init__("min_max")', "raise ValueError('no')", r"p\.py:15: MinMax\(\) fails: ValueError: no; wanted"),
    ("def __init__(self):", "def __init__(self, n):", r"MinMax\(\) fails: TypeError: .*'n'; wanted an __init__"),
    (', "create_inputs": lambda', ', "inputs": lambda', "a test case lacks create_inputs"),
    ('"name": "float32-100"', '"name": 8', "the name of a test case is 8, wanted text"),
    (f"lambda: ({LINSPACE},)", "3", "create_inputs is 3, wanted a function"),
    (CASES, "{}", "generate_test_cases returned {}, wanted a list"),
    (CASES, "exit(0)", "generate_test_cases fails: SystemExit"),
    (LINSPACE, f"{LINSPACE}.double()", r"input `x` is float64, `parameters` says float\* \(float32\)"),
    (LINSPACE, "torch.zeros(10, 10).t()[1:]", "input `x` is not contiguous"),
    (LINSPACE, "torch.zeros(4, device='meta')", "input 0 is on meta, wanted all tensors on cpu"),
    (f"{LINSPACE},", "3.0,", r"input `x` is float, `parameters` says float\*"),
    (f"{LINSPACE},", "torch.ones(3), torch.ones(2),", r"input `n` has the shape \[2\], `parameters` says size_t"),
    (f"{LINSPACE},", "torch.ones(3), 100, 7", "3 inputs, but `parameters` has 2 beside outputs: x, n"),
    ("x.clamp(max=0), x.", "x + torch.ones(7), x.", r"reference_solution fails on tensors of shapes \[100\]"),
    ("return x.clamp(max=0), x.clamp(min=0)", "return None", "reference_solution returned None, wanted a tensor"),
    (VERDICT, "True, 3", r"verify_result returned \(True, 3\), wanted"),
    (VERDICT, "expected[0] == actual[0], {}", r"verify_result returned \(tensor\(\[True, "),
    ('"type": "float", "pointer": True, "const": True}', '"pointer": True}', "in parameters, wanted a list of"),
    (
        "    def __init__",
        f"{COUNTS.format('chr(8)', 64)}\n    def __init__",
        r"get_flops of 'float32-100' returned '\\x08'",
    ),
    ("    def __init__", "    get_flops = 8\n\n    def __init__", "get_flops is 8, wanted a method"),
    (
        "    def __init__",
        "    def get_extra_params(self, case):\n        return 3\n\n    def __init__",
        "returned 3, wanted a list",
    ),
]


@pytest.mark.usefixtures("lock_of_its_own")
@pytest.mark.parametrize(("old", "new", "words"), ODD, ids=[str(number) for number in range(len(ODD))])
def test_problem_that_answers_oddly_is_one_line(tmp_path, old, new, words):
    assert old in TWO_OUTPUTS
    path = written(tmp_path, "p.py", TWO_OUTPUTS.replace(old, new, 1))
    mine = written(tmp_path, "mine.py", "def solution(x, low, high, n):\n    low.copy_(x.clamp(max=0))\n")
    argv = ["compare", path, f"--solution={mine}", "--rounds=1", "--iters=1", "--device=cpu", "--no-roofline"]
    status, out, err = kv(*argv, "--implementations=eager,mine")
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith(f"error: {path}") and re.search(words, err), err


# Solutions -----------------------------------------------------------------------------------------------------------


def test_solutions_in_a_library_and_a_python_file(tmp_path):
    python = (
        "def solution(x, alpha, out, n, m):\n    assert n * m == x.numel()\n    out.copy_(x.where(x > 0, alpha * x))\n"
    )
    solutions = [compiled(tmp_path, "fast", LEAKY), written(tmp_path, "plain.py", python)]
    loaded = load(str(written(tmp_path, "def.py", CHALLENGE)), "cpu", solutions)
    assert list(loaded[1]) == ["eager", "compile", "fast", "plain"]
    assert right(loaded, "fast") and right(loaded, "plain")


def test_solutions_with_several_outputs(tmp_path):
    library = """
    extern "C" void solution(const float* x, float* low, float* high, size_t n) {
        for (size_t i = 0; i < n; ++i) low[i] = x[i] < 0 ? x[i] : 0, high[i] = x[i] > 0 ? x[i] : 0;
    }"""
    bodies = {
        "good": "low.copy_(x.clamp(max=0))\n    high.copy_(x.clamp(min=0))",
        "wrong": "low.copy_(x)",
        "idle": "pass",
    }
    solutions = [
        written(tmp_path, f"{name}.py", f"def solution(x, low, high, n):\n    {body}\n")
        for name, body in bodies.items()
    ]
    loaded = load(str(written(tmp_path, "two.py", TWO_OUTPUTS)), "cpu", [compiled(tmp_path, "c", library), *solutions])
    assert [name for name in loaded[1] if name != "compile" and right(loaded, name)] == ["eager", "c", "good"]


TAKES_TWO = "def solution(x, y):\n    pass\n"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("s.py", "x = 3\n", ["no function `solution`; wanted def solution(*inputs, *outputs, *scalars)"]),
        ("s.py", TAKES_TWO, ["solution does not take the 4 arguments of min_max", "x, low, high, n"]),
        ("s.py", "def solution(:\n", ["s.py:1: does not import: SyntaxError"]),
        ("s.so", "not a library", ["s.so: the library does not load"]),
        ("s.cpp", "", ["must be a shared library (.so), a Python file (.py)", "c++ -O3 -shared -fPIC s.cpp -o s.so"]),
        ("eager.py", "def solution(*all):\n    pass\n", ["another implementation is called 'eager'"]),
        (None, "", ["none.so: no such file"]),
    ],
)
def test_solution_that_is_none(tmp_path, name, text, words):
    path = written(tmp_path, "two.py", TWO_OUTPUTS)
    refused(path, *words, solutions=[written(tmp_path, name, text) if name else Path("none.so")])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"dims": (100,)', '"dims": (100, 1)', ["has 3 arguments in case 'float32-100'", "but its signature 4"]),
        ('"dims": (100,)', '"dims": (1.5,)', ["argument `n` is float, the signature says c_ulong"]),
        ('"size_t"', '"quadruple"', ["`n` is of C type 'quadruple', which is not known"]),
        ("x.clamp(max=0), x.", "x.", ["the reference has 1 outputs, `parameters` 2: low, high"]),
        ("x.clamp(max=0), x.", "x.clamp(max=0).double(), x.", ["output `low` is float64, `parameters` says float*"]),
    ],
)
def test_library_that_cannot_be_given_its_arguments(tmp_path, old, new, words):
    library = compiled(tmp_path, "s", 'extern "C" void solution() {}\n')
    refused(written(tmp_path, "p.py", TWO_OUTPUTS.replace(old, new, 1)), *words, solutions=[library])


def test_library_without_a_solution(tmp_path):
    library = compiled(tmp_path, "other", 'extern "C" void solve() {}\n')
    declaration = 'wanted extern "C" void solution(const float* x, float* low, float* high, size_t n)'
    refused(written(tmp_path, "two.py", TWO_OUTPUTS), "no function `solution`", declaration, solutions=[library])


def test_solution_of_another_dtype_is_not_applicable(tmp_path):
    from benchmarks.quantize_int8 import QuantizeInt8

    problem = QuantizeInt8()
    bind = solutions.binder(written(tmp_path, "mine.py", "def solution(x, scale, zero_point, out, n): pass\n"), problem)
    with pytest.raises(
        NotImplementedError, match=r"case float16-1k has `x` of float16; a solution takes float\*: void"
    ):
        bind(problem, "float16-1k", problem.inputs_of("float16-1k"))


# Guards --------------------------------------------------------------------------------------------------------------


@given(st.integers(1, 9), st.sets(st.integers(-GUARD, -1)), st.sets(st.integers(0, GUARD - 1)))
def test_guards_count_every_byte_written_outside(elements, before, after):
    guarded = Guarded.like(torch.empty(elements))
    memory = torch.tensor([], dtype=torch.uint8).set_(guarded.output.untyped_storage())
    end = GUARD + guarded.output.numel() * guarded.output.element_size()
    memory[[*(GUARD + offset for offset in before), *(end + offset for offset in after)]] = 0
    counts = {"before": len(before), "after": len(after)}
    assert guarded.overwritten() == ", ".join(f"{count} bytes {side} it" for side, count in counts.items() if count)


@pytest.mark.parametrize(
    ("statement", "failed"),
    [
        ("out[n] = out[n + 1] = 3;", "it wrote outside its outputs: out: 8 bytes after it (before timing)"),
        ("out[-1] = 3;", "it wrote outside its outputs: out: 4 bytes before it (before timing)"),
        ("if (calls > 1) out[n] = 3;", "it wrote outside its outputs: out: 4 bytes after it (after timing)"),
        ("", None),
    ],
)
def test_solution_that_writes_beside_its_output_is_named(tmp_path, statement, failed):
    body = f"static int calls = 0; ++calls; for (size_t i = 0; i < n; ++i) out[i] = 2 * x[i]; {statement}"
    library = compiled(tmp_path, "mine", f'extern "C" void solution(const float* x, float* out, size_t n) {{ {body} }}')
    problem = Doubling()
    binder = {"mine": solutions.binder(library, problem)}
    assert compare(problem, binder, cases="small", settings=QUICK).compared[0].timed[0].failed == failed


# A library that is older than its sources ----------------------------------------------------------------------------

BUILT = 1_000_000_000_000_000_000  # ns since the epoch


def touched(path, when):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    os.utime(path, ns=(when, when))


@pytest.mark.parametrize(
    ("name", "is_checked"),
    [
        *dict.fromkeys(("mine/mine.cu", "_native/kv.h", "_native/threads.cpp", "other/blocks.h"), True).items(),
        *dict.fromkeys(("mine/__init__.py", "other/other.cpp"), False).items(),
    ],
)
def test_build_older_than_a_source_is_refused(tmp_path, name, is_checked):
    kernels = tmp_path / "kernels"
    touched(kernels / LIBRARY, BUILT)
    touched(kernels / name, BUILT)
    check_build(kernels, "mine")
    touched(kernels / name, BUILT + 1)
    if is_checked:
        with pytest.raises(UsageError, match=f"^kernels/{name} was changed after .*: run `make build`"):
            check_build(kernels, "mine")
        (kernels / LIBRARY).unlink()
    check_build(kernels, "mine")  # what is missing says so itself


def test_build_is_checked_before_native_is_bound(monkeypatch):
    checked = []
    monkeypatch.setattr(implementations, "check_build", lambda kernels, kernel: checked.append((kernels.name, kernel)))
    problem, binders = load("quantize_int8", "cpu")
    case = problem.generate_test_cases()[0]
    binders["native"](problem, case["name"], case["create_inputs"]())
    assert checked == [("kernels", "quantize_int8")]
