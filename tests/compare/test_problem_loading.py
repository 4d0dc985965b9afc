"""Problems of users' files run here unchanged; solutions are called with the right arguments; what is wrong is said."""

import re
import subprocess

import pytest

torch = pytest.importorskip("torch", reason="problems make torch tensors")

from kernel_velocity.compare.problems.load import load  # noqa: E402
from kernel_velocity.errors import UsageError  # noqa: E402
from tests.challenge_files import CHALLENGE, OLDER, TWO_OUTPUTS  # noqa: E402 - after the skip

LEAKY = """
#include <stddef.h>
extern "C" void solution(const float* input, float alpha, float* output, size_t n, size_t m) {
    for (size_t i = 0; i < n * m; ++i) output[i] = input[i] > 0 ? input[i] : alpha * input[i];
}
"""
NEEDS = "\n    def verify_result(self, expected, actual):\n        return True, {}\n"


def written(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


def compiled(folder, name, text):
    source = written(folder, f"{name}.cpp", text)
    library = folder / f"{name}.so"
    subprocess.run(["c++", "-O1", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return library


def right(loaded, name, case=None):
    """Bind an implementation to a case, call it on a poisoned output, and return whether it is right."""
    problem = loaded.problem
    case = case or problem.generate_test_cases()[-1]
    inputs = case["create_inputs"]()
    bound = loaded.implementations[name](problem, case["name"], inputs)
    verdicts = []
    for _ in range(2):
        bound.poison()
        bound.call()
        verdicts.append(problem.verify_result(problem.expected(*inputs), bound.output())[0])
    return verdicts == [True, True]


def refused(what, *words, solutions=(), device="cpu"):
    """Load and bind everything; return the one line that refuses it."""
    with pytest.raises(UsageError) as caught:
        loaded = load(str(what), device, solutions)
        case = loaded.problem.generate_test_cases()[0]
        inputs = case["create_inputs"]()
        loaded.problem.expected(*inputs)
        for name in loaded.implementations:
            if name != "compile":
                loaded.implementations[name](loaded.problem, case["name"], inputs)
    text = str(caught.value)
    assert "\n" not in text
    assert all(word in text for word in words), text
    return text


def test_ours_by_name():
    loaded = load("quantize_int8", "cpu")
    assert list(loaded.implementations) == ["eager", "compile", "native"]
    case = loaded.problem.test_case("float32-500k")
    assert right(loaded, "eager", case)
    assert right(loaded, "native", case)


def test_triton_is_an_implementation_of_ours_on_cuda_alone(monkeypatch):
    monkeypatch.setattr("kernel_velocity.harness.benchmark.prepare_torch", lambda device: None)
    assert list(load("matmul", "cuda").implementations) == ["eager", "compile", "native", "triton"]
    assert "triton" not in load("matmul", "cpu").implementations


def test_each_load_is_a_problem_of_its_own():
    assert load("matmul", "cpu").problem is not load("matmul", "cpu").problem


def test_a_public_definition_runs_as_it_is(tmp_path):
    loaded = load(str(written(tmp_path, "def.py", CHALLENGE)), "cpu")
    problem = loaded.problem
    assert (problem.name, problem.device, list(loaded.implementations)) == ("leaky-relu", "cpu", ["eager", "compile"])
    assert [case["name"] for case in problem.generate_test_cases()] == ["64x64, alpha=0.05", "100x37, alpha=0.05"]
    x, alpha = problem.test_case("100x37, alpha=0.05")["create_inputs"]()
    assert (x.device.type, tuple(x.shape), alpha) == ("cpu", (100, 37), 0.05)
    again, _ = problem.test_case("100x37, alpha=0.05")["create_inputs"]()
    assert torch.equal(x, again)
    assert right(loaded, "eager")
    case = problem.test_case("64x64, alpha=0.05")
    assert (problem.get_flops(case), problem.get_bytes(case)) == (4096, None)


def test_the_older_form_with_a_dtype_runs_too(tmp_path):
    path = str(written(tmp_path, "def.py", OLDER))
    loaded = load(path, "cpu")
    a, b = loaded.problem.generate_test_cases()[1]["create_inputs"]()
    assert a.dtype == b.dtype == torch.float32
    assert right(loaded, "eager")
    a, _ = load(path, "cpu", dtype="float64").problem.generate_test_cases()[1]["create_inputs"]()
    assert a.dtype == torch.float64


def test_the_alias_is_gone_after_the_import(tmp_path):
    load(str(written(tmp_path, "def.py", CHALLENGE)), "cpu")
    with pytest.raises(ModuleNotFoundError):
        __import__("problem")


def test_a_file_may_import_its_neighbours(tmp_path):
    written(tmp_path, "kv_neighbour.py", "SIZE = 100\n")
    text = TWO_OUTPUTS.replace("import torch\n", "import torch\nfrom kv_neighbour import SIZE\n", 1)
    assert right(load(str(written(tmp_path, "p.py", text.replace("(100,)", "(SIZE,)"))), "cpu"), "eager")


def test_neighbours_of_one_name_are_not_mixed_up(tmp_path):
    for folder, size in (("a", 100), ("b", 200)):
        (tmp_path / folder).mkdir()
        written(tmp_path / folder, "kv_neighbour.py", f"SIZE = {size}\n")
        text = TWO_OUTPUTS.replace("import torch\n", "import torch\nfrom kv_neighbour import SIZE\n", 1)
        written(tmp_path / folder, "p.py", text.replace("(100,)", "(SIZE,)"))
    for folder, size in (("a", 100), ("b", 200)):
        (case, *_) = load(str(tmp_path / folder / "p.py"), "cpu").problem.generate_test_cases()
        assert case["dims"] == (size,)


@pytest.mark.slow
def test_a_users_own_compile(tmp_path):
    loaded = load(str(written(tmp_path, "def.py", CHALLENGE)), "cpu")
    for case in loaded.problem.generate_test_cases():
        assert right(loaded, "compile", case)


def test_a_library_and_a_python_file_solve_it(tmp_path):
    python = (
        "def solution(x, alpha, out, n, m):\n    assert n * m == x.numel()\n    out.copy_(x.where(x > 0, alpha * x))\n"
    )
    solutions = [compiled(tmp_path, "fast", LEAKY), written(tmp_path, "plain.py", python)]
    loaded = load(str(written(tmp_path, "def.py", CHALLENGE)), "cpu", solutions)
    assert list(loaded.implementations) == ["eager", "compile", "fast", "plain"]
    assert right(loaded, "fast")
    assert right(loaded, "plain")


def test_a_solution_of_a_kernel_of_ours(tmp_path):
    text = """
    #include <stddef.h>
    extern "C" void solution(const float* a, const float* b, float* out, size_t m, size_t n, size_t k) {
        for (size_t i = 0; i < m; ++i)
            for (size_t j = 0; j < n; ++j) {
                float sum = 0;
                for (size_t l = 0; l < k; ++l) sum += a[i * k + l] * b[l * n + j];
                out[i * n + j] = sum;
            }
    }"""
    loaded = load("matmul", "cpu", [compiled(tmp_path, "naive", text)])
    assert right(loaded, "naive", loaded.problem.test_case("float32-128x128x128"))


def test_the_older_form_gets_its_outputs_between_inputs_and_sizes(tmp_path):
    text = """
    #include <stddef.h>
    extern "C" void solution(const float* a, const float* b, float* c, size_t n) {
        for (size_t i = 0; i < n; ++i) c[i] = a[i] + b[i];
    }"""
    path = str(written(tmp_path, "def.py", OLDER))
    assert right(load(path, "cpu", [compiled(tmp_path, "add", text)]), "add")


def test_several_outputs(tmp_path):
    text = """
    #include <stddef.h>
    extern "C" void solution(const float* x, float* low, float* high, size_t n) {
        for (size_t i = 0; i < n; ++i) low[i] = x[i] < 0 ? x[i] : 0, high[i] = x[i] > 0 ? x[i] : 0;
    }"""
    python = "def solution(x, low, high, n):\n    low.copy_(x.clamp(max=0))\n    high.copy_(x.clamp(min=0))\n"
    solutions = [compiled(tmp_path, "c", text), written(tmp_path, "py.py", python)]
    loaded = load(str(written(tmp_path, "two.py", TWO_OUTPUTS)), "cpu", solutions)
    assert right(loaded, "c")
    assert right(loaded, "py")


def test_a_wrong_solution_is_wrong_and_an_idle_one_too(tmp_path):
    wrong = "def solution(x, low, high, n):\n    low.copy_(x)\n    high.copy_(x)\n"
    idle = "def solution(x, low, high, n):\n    pass\n"
    solutions = [written(tmp_path, "wrong.py", wrong), written(tmp_path, "idle.py", idle)]
    loaded = load(str(written(tmp_path, "two.py", TWO_OUTPUTS)), "cpu", solutions)
    assert not right(loaded, "wrong")
    assert not right(loaded, "idle")


def test_one_of_several_problems_is_named(tmp_path):
    path = written(tmp_path, "two.py", TWO_OUTPUTS + "\n\nclass Other(Problem):\n    pass\n")
    assert load(f"{path}:MinMax", "cpu").problem.name == "min_max"
    refused(path, "several Problems, MinMax, Other; name one", f"{path}:MinMax")
    refused(f"{path}:Nobody", "no Problem called 'Nobody'; there are MinMax, Other")


def test_the_last_of_a_family_is_meant(tmp_path):
    text = TWO_OUTPUTS + '\n\nclass Narrow(MinMax):\n    def generate_sample(self):\n        self.name = "narrow"\n'
    text += "        return self.generate_test_cases()[0]\n"
    assert load(str(written(tmp_path, "p.py", text)), "cpu").problem.name == "narrow"


def test_a_reference_with_cuda_written_in_is_verified_against_but_not_timed_on_the_cpu(tmp_path):
    text = TWO_OUTPUTS.replace("x.clamp(max=0), x.clamp(min=0)", 'x.to("cuda").clamp(max=0), x.cuda().clamp(min=0)')
    loaded = load(str(written(tmp_path, "p.py", text)), "cpu")
    case = loaded.problem.generate_test_cases()[0]
    inputs = case["create_inputs"]()
    assert torch.equal(loaded.problem.expected(*inputs)[0], inputs[0].clamp(max=0))
    if not torch.cuda.is_available():
        with pytest.raises(NotImplementedError, match="the reference has a CUDA device written in"):
            loaded.implementations["eager"](loaded.problem, case["name"], inputs)


def test_a_file_or_kernel_that_is_not_there(tmp_path):
    refused(tmp_path / "none.py", "none.py: no such file")
    refused("softmax", "softmax: no such kernel; there are add_mul_exp, matmul, matmul_bias_relu, quantize_int8")
    refused("matmul", "device 'tpu': there are cpu and cuda", device="tpu")
    if not torch.cuda.is_available():
        refused("matmul", "device cuda: PyTorch sees no CUDA device", device="cuda")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import torch\nx = (\n", ["p.py:2: does not import: SyntaxError"]),
        ("import torch\n\nimport no_such_thing\n", ["p.py:3: does not import: ModuleNotFoundError: No module named"]),
        ("raise SystemExit\n", ["p.py:1: does not import: SystemExit"]),
        ("class Problem:\n    pass\n", ["no class that derives from Problem; wanted from problem import Problem"]),
        ("from problem import Problem\n", ["no class that derives from Problem"]),
        (
            f"from problem import Problem\nclass P(Problem):{NEEDS}",
            ["class P lacks generate_test_cases, reference_solution"],
        ),
    ],
    ids=["syntax", "import", "exit", "another base", "no class", "lacks"],
)
def test_a_file_that_is_no_problem(tmp_path, text, words):
    refused(written(tmp_path, "p.py", text), *words)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('super().__init__("min_max")', "pass", ['has no name: its __init__ must call super().__init__(name="...")']),
        ("def __init__(self):", "def __init__(self, n):", ["MinMax.__init__ wants n"]),
        ('super().__init__("min_max")', "raise ValueError('no')", ["p.py:15: MinMax() fails: ValueError: no"]),
        ('"dims": (100,), ', "", ["a test case lacks dims"]),
        ("return [{", "return {} and [{", ["generate_test_cases returned dict, wanted a list"]),
        ("torch.linspace(-1, 1, 100)", "torch.linspace(-1, 1, 100).double()", ["input `x` is float64", "float*"]),
        ("torch.linspace(-1, 1, 100)", "torch.zeros(10, 10).t()[1:]", ["input `x` is not contiguous"]),
        ("torch.linspace(-1, 1, 100)", "torch.zeros(4, device='meta')", ["input 0 is on meta, wanted all", "cpu"]),
        ("torch.linspace(-1, 1, 100),", "3.0,", ["input `x` is float, `parameters` says float*"]),
        ("torch.linspace(-1, 1, 100),", "torch.ones(3), 100, 7", ["3 inputs, but `parameters` has 2", "x, n"]),
        ("torch.linspace(-1, 1, 100),", "torch.ones(-3),", ["case 'float32-100': create_inputs fails: RuntimeError"]),
        ("x.clamp(max=0), x.", "x + torch.ones(7), x.", ["reference_solution fails on tensors of shapes [100]"]),
    ],
)  # fmt: skip
def test_a_problem_that_does_not_fit_together(tmp_path, old, new, words):
    assert old in TWO_OUTPUTS
    path = written(tmp_path, "p.py", TWO_OUTPUTS.replace(old, new, 1))
    refused(path, str(path), *words)


def test_two_cases_of_one_name_and_none_at_all(tmp_path):
    twice = TWO_OUTPUTS.replace("return [", "return 2 * [", 1)
    refused(written(tmp_path, "p.py", twice), "two test cases are called 'float32-100'")
    refused(written(tmp_path, "q.py", TWO_OUTPUTS.replace("return [", "return 0 * [", 1)), "returns no case")


def test_shapes_that_disagree_are_named_when_the_file_is_loaded(tmp_path):
    text = OLDER.replace("torch.ones(n, dtype", "torch.ones(n + 1, dtype")
    words = ("reference_solution fails on tensors of shapes [16], [17]: RuntimeError:",)
    with pytest.raises(UsageError, match=re.escape(words[0])):
        load(str(written(tmp_path, "def.py", text)), "cpu")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("s.py", "x = 3\n", ["no function `solution`; wanted def solution(*inputs, *outputs, *scalars)"]),
        (
            "s.py",
            "def solution(x, y):\n    pass\n",
            ["solution does not take the 4 arguments of min_max", "x, low, high, n"],
        ),
        ("s.py", "def solution(:\n", ["s.py:1: does not import: SyntaxError"]),
        ("s.so", "not a library", ["s.so: the library does not load"]),
        ("s.cpp", "", ["wanted a shared library (.so) or a Python file (.py)", "c++ -O3 -shared -fPIC s.cpp -o s.so"]),
        ("eager.py", "def solution(*all):\n    pass\n", ["there is an implementation 'eager' already"]),
    ],
)
def test_a_solution_that_is_none(tmp_path, name, text, words):
    path = written(tmp_path, "two.py", TWO_OUTPUTS)
    refused(path, str(tmp_path / name), *words, solutions=[written(tmp_path, name, text)])


def test_a_library_without_solution_and_a_file_that_is_not_there(tmp_path):
    path = written(tmp_path, "two.py", TWO_OUTPUTS)
    library = compiled(tmp_path, "other", 'extern "C" void solve() {}\n')
    wanted = (
        'no function `solution`; wanted extern "C" void solution(const float* x, float* low, float* high, size_t n)'
    )
    refused(path, wanted, solutions=[library])
    refused(path, "none.so: no such file", solutions=[tmp_path / "none.so"])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"dims": (100,)', '"dims": (100, 1)', ["has 5 arguments in case 'float32-100'", "but its signature 4"]),
        ('"dims": (100,)', '"dims": (1.5,)', ["argument `n` is float, the signature says c_ulong"]),
        ('"size_t"', '"quadruple"', ["get_function_signature", "quadruple"]),
        ("x.clamp(max=0), x.", "x.", ["the reference has 1 outputs, `parameters` 2: low, high"]),
        ("x.clamp(max=0), x.", "x.clamp(max=0).double(), x.", ["output `low` is float64, `parameters` says float*"]),
    ],
)
def test_arguments_that_a_library_cannot_be_given(tmp_path, old, new, words):
    library = compiled(tmp_path, "s", 'extern "C" void solution() {}\n')
    assert old in TWO_OUTPUTS
    refused(written(tmp_path, "p.py", TWO_OUTPUTS.replace(old, new, 1)), *words, solutions=[library])


def test_a_case_of_another_dtype_than_a_solution_takes_is_not_applicable(tmp_path):
    from benchmarks.quantize_int8 import QuantizeInt8
    from kernel_velocity.compare.problems import solutions

    problem = QuantizeInt8()
    inputs = problem.inputs_of("float16-1k")
    solutions.check_dtypes(problem, "float32-1k", problem.inputs_of("float32-1k"))
    with pytest.raises(
        NotImplementedError, match=r"case float16-1k has `x` of float16; a solution takes float\*: void"
    ):
        solutions.check_dtypes(problem, "float16-1k", inputs)
    (tmp_path / "mine.py").write_text("def solution(x, scale, zero_point, out, n): pass\n")
    with pytest.raises(NotImplementedError, match="has `x` of float16"):
        solutions.binder(tmp_path / "mine.py", problem)(problem, "float16-1k", inputs)
