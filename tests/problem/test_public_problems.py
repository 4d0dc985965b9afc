"""Public problems in four forms load unchanged, verify themselves and refuse wrong outputs. A mistake is one line."""

import json
import sys

import pytest

from kernel_velocity.problem.implementations import poison
from kernel_velocity.problem.problem import NotHereError, ProblemError, outputs_of
from kernel_velocity.problem.problem_file import load_file, parameters_of, sizes
from tests.public_problems import DEFINITION, KERNELBENCH, PUBLIC, REFERENCE, TASK, TENSARA, TWO_RESULTS, UTILS, write

torch = pytest.importorskip("torch", reason="problems make torch tensors")
IDS = [f"{form}-{name}" for form, name in PUBLIC]


def load(folder, files, **options):
    return load_file(write(folder, files), None, "cpu", **options)


@pytest.mark.parametrize("files", PUBLIC.values(), ids=IDS)
def test_reference_verifies_against_itself_and_poison_is_refused(tmp_path, files):
    problem = load(tmp_path, files)
    for test in (*problem.generate_test_cases(), problem.generate_sample()):
        inputs = test["create_inputs"]()
        expected = problem.expected(*inputs)
        assert problem.verify_result(expected, problem.expected(*inputs))[0], test["name"]
        wrong = tuple(output.clone() for output in outputs_of(expected))
        poison(wrong)
        assert not problem.verify_result(expected, wrong[0] if len(wrong) == 1 else wrong)[0], test["name"]
        again = problem.test_case(test["name"])["create_inputs"]()
        sized = [sum(value.nbytes for value in values if hasattr(value, "nbytes")) for values in (again, wrong)]
        assert sizes(problem, test) == tuple(sized)
        assert isinstance(problem.get_extra_params(test), list)
    assert "torch" in sys.modules and sys.modules["torch"] is torch


def test_inputs_of_the_seeded_forms_are_the_same_every_time(tmp_path):
    for form in ("KernelBench", "GPU MODE", "FlashInfer"):
        files = next(files for (name, _), files in PUBLIC.items() if name == form)
        once, again = (load(tmp_path / form, files).generate_sample()["create_inputs"]()[0] for _ in range(2))
        assert torch.equal(once, again), form


def test_cases_and_arguments_of_every_form(tmp_path):
    """Names of the cases, of the sample, and the C arguments."""
    wanted = {
        ("Tensara", "signature_alone"): (
            ["shape=(4, 6, 5), dim=1", "shape=(3, 7), dim=0"],
            "shape=(4, 6, 5), dim=1",
            "input_tensor:float dim:int output:int extra1:int extra2:int",
        ),
        ("Tensara", "dims_of_other_kinds"): (["n=64"], "sample", "x:float out:float n:size_t"),
        ("Tensara", "dtype_argument"): (["n=50"], "n=50", "a:float b:float output:float extra1:size_t"),
        ("KernelBench", "no_weights"): (["get_inputs"], "get_inputs", "input1:float input2:int64_t output:float"),
        ("GPU MODE", "writes_its_data"): (
            ["rows=64, columns=32, seed=1", "rows=64, columns=32, seed=2", "rows=128, columns=32"],
            "rows=4, columns=8",
            "input1:float input2:float output:float extra1:int64_t extra2:int64_t",
        ),
        ("FlashInfer", "workloads"): (
            ["batch_size=32", "batch_size=7"],
            "batch_size=7",
            "input:bfloat16 weight:bfloat16 eps:float output:bfloat16 batch_size:size_t",
        ),
        ("FlashInfer", "two_outputs"): (
            ["B=64"],
            "B=64",
            "probs:float offset:int best:float index:int64_t B:size_t",
        ),
    }
    for number, (key, expected) in enumerate(wanted.items()):
        problem = load(tmp_path / str(number), PUBLIC[key])
        names = [test["name"] for test in problem.generate_test_cases()]
        arguments = " ".join(f"{entry['name']}:{entry['type']}" for entry in parameters_of(problem))
        assert (names, problem.generate_sample()["name"], arguments) == expected


def test_reference_that_writes_its_inputs_gets_copies(tmp_path):
    problem = load(tmp_path, PUBLIC["Tensara", "in_place"])
    (x,) = problem.generate_sample()["create_inputs"]()
    before = x.clone()
    problem.expected(x)
    assert problem.in_place and torch.equal(x, before)
    assert not load(tmp_path / "b", PUBLIC["Tensara", "no_dims"]).in_place


def test_sizes_of_a_case_that_no_machine_holds_are_known(tmp_path):
    huge = TENSARA["no_dims"].replace("for n in (8, 24)", "for n in (8, 10**12)")
    problem = load(tmp_path, {"def.py": huge})
    assert sizes(problem, problem.generate_test_cases()[1]) == (64 * 10**12, 4 * 10**12)
    unknown = huge.replace("return x.sum(1)", "return x.sum(1) * float(x.amax() > 0)")
    assert sizes(load(tmp_path, {"def.py": unknown}), problem.generate_test_cases()[1]) is None


def test_sizes_of_a_model_with_weights_are_known(tmp_path):
    huge = load(tmp_path, {"9_Linear.py": KERNELBENCH.replace("batch, features = 32,", "batch, features = 10**12,")})
    assert sizes(huge, huge.generate_sample()) == (4 * 48 * 10**12, 4 * 96 * 10**12)


def test_dtype_of_an_argument_is_torchs(tmp_path):
    problem = load(tmp_path, PUBLIC["Tensara", "unsigned"])
    assert (problem.param_dtype("x"), problem.param_dtype(3)) == (torch.int32, torch.int64)
    assert load(tmp_path, PUBLIC["Tensara", "float8"]).param_dtype("q") == torch.float8_e4m3fn
    other = load(tmp_path, {"def.py": TENSARA["no_dims"].replace("'type': 'size_t'", "'type': 'index_t'")})
    assert other.param_dtype("n") == torch.float32


def test_a_users_private_methods_are_not_ours(tmp_path):
    text = TENSARA["no_dims"].replace("return test_case['rows'] * 15", "return self._call(test_case)")
    text += "\n    def _call(self, case):\n        return case['rows']\n"
    problem = load(tmp_path, {"def.py": text})
    assert problem.get_flops(problem.generate_sample()) == 8


TASK_FILES = {
    "task.yml": TASK.replace("../utils", "utils"),
    "reference.py": REFERENCE,
    "utils.py": UTILS,
    "task.py": "input_t = output_t = object\n",
}


def definition(**changes):
    return {"d.json": json.dumps({**DEFINITION, **changes})}


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (
            {"m.py": KERNELBENCH.replace("def get_init_inputs", "def other")},
            "reference_solution fails on tensors of shapes .*: TypeError",
        ),
        ({"m.py": "import torch\n\ndef Model(x:\n"}, r"m\.py:3: does not import: SyntaxError"),
        ({"m.py": KERNELBENCH.replace("torch.relu", "torch.no_such")}, r"m\.py:13: reference_solution fails"),
        ({**TASK_FILES, "task.yml": "tests: [\n"}, "task.yml: no YAML"),
        (
            {**TASK_FILES, "task.yml": "lang: cu\ntests: [{n: 1}]\n"},
            r"task\.yml: no task\.h beside it, and none in `files`",
        ),
        ({**TASK_FILES, "task.yml": f"{TASK}\nmulti_gpu: true\n"}, "needs several GPUs"),
        ({**TASK_FILES, "task.yml": "tests: []\n"}, "benchmarks and tests have no case"),
        ({"task.yml": TASK}, "no reference.py beside it, and none in `files`"),
        ({**TASK_FILES, "reference.py": "x = 3\n"}, "reference.py: lacks ref_kernel, generate_input, check_implement"),
        ({**TASK_FILES, "utils.py": "import no_such\n"}, r"reference\.py:4: needs the module no_such, which"),
        (
            {**TASK_FILES, "reference.py": REFERENCE.replace("seed: int)", "seed: int, k)")},
            "create_inputs fails: TypeErr",
        ),
        ({"d.json": "{"}, r"d\.json:1: no JSON"),
        ({"d.json": "[]"}, "wanted an object in JSON"),
        ({"d.json": json.dumps({"name": "x", "axes": {}})}, "the definition lacks inputs, outputs, reference"),
        (definition(reference="def run(x):\n    return (\n"), "line 2 of its reference fails: SyntaxError"),
        (definition(reference="import no_such\n"), "line 1 of its reference needs the module no_such"),
        (definition(reference="x = 1\n"), "its reference has no function `run`"),
        (definition(inputs={"x": {"shape": ["Z"], "dtype": "float32"}}), "'x' has axis 'Z', which `axes` lacks"),
        (definition(constraints=["batch_size <= 3"]), "break its constraint 'batch_size <= 3'; give it workloads"),
        (definition(constraints=["batch_sise <= 3"]), "'batch_sise <= 3' names 'batch_sise', which is no axis and no"),
        (
            definition(constraints=["batch_size =< 3"]),
            "constraint 'batch_size =< 3' is no expression of axes and inputs",
        ),
        (definition(inputs={"x": {"shape": [], "dtype": "float128"}}), "dtype 'float128': this torch"),
        ({**definition(), "d.jsonl": '{"workload": {"axes": {"M": 3}}}\n'}, "has no axis 'batch_size'"),
        ({**definition(), "d.jsonl": "{}\n"}, r"d\.jsonl:1: a workload without `axes`"),
        ({"readme": ""}, "no Python file; its name must end in .py"),
    ],
)
def test_mistake_in_a_file_is_one_line(tmp_path, files, words):
    with pytest.raises(ProblemError, match=words) as caught:
        problem = load(tmp_path, files)
        problem.expected(*problem.generate_test_cases()[0]["create_inputs"]())
    assert "\n" not in str(caught.value)


def test_gpu_mode_task_that_is_judged_by_itself_is_not_here(tmp_path):
    with pytest.raises(NotHereError, match=r"lacks ref_kernel, .*: an eval\.py of its own judges it"):
        load(tmp_path, {**TASK_FILES, "reference.py": "x = 3\n", "eval.py": ""})
    with pytest.raises(NotHereError, match=r"lang is 'hip'; tasks in Python \(py\) and CUDA \(cu\) load"):
        load(tmp_path, {"task.yml": "lang: hip\n"})


def test_folder_is_its_problem(tmp_path):
    write(tmp_path / "gpu", TASK_FILES)
    write(tmp_path / "tensara", {"def.py": TENSARA["no_dims"]})
    assert load_file(tmp_path / "gpu", None, "cpu").name == "gpu"
    assert load_file(tmp_path / "gpu" / "reference.py", None, "cpu").name == "gpu"
    assert load_file(tmp_path / "tensara", None, "cpu").name == "row-sums"
    with pytest.raises(ProblemError, match=r"a folder without task\.yml and def\.py"):
        load_file(tmp_path, None, "cpu")


def test_flashinfer_axis_may_be_a_number_or_an_expression(tmp_path):
    halves = {"input": {"shape": ["batch_size", 1, "hidden_size / 2"], "dtype": "float32"}}
    about_values = ["hidden_size == 2 * input.shape[-1]"]
    files = definition(
        inputs=halves,
        outputs={"out": halves["input"]},
        reference="def run(x):\n    return -x\n",
        constraints=about_values,
    )
    problem = load(tmp_path, files)
    (x,) = problem.generate_sample()["create_inputs"]()
    assert tuple(x.shape) == (64, 1, 32) and sizes(problem, problem.generate_sample()) == (x.nbytes, x.nbytes)


ROW = {"x": {"shape": ["batch_size"], "dtype": "float32"}}
PAGED = {
    "name": "paged_sums",
    "axes": {"batch": {"type": "var"}, "ends": {"type": "var"}, "pages": {"type": "var"}, "used": {"type": "var"}}
    | {"page_size": {"type": "const", "value": 4}},
    "inputs": {
        "cache": {"shape": ["pages", "page_size"], "dtype": "float32"},
        "kv_indptr": {"shape": ["ends"], "dtype": "int32"},
        "kv_indices": {"shape": ["used"], "dtype": "int32"},
        "kv_last_page_len": {"shape": ["batch"], "dtype": "int32"},
        "page_size": {"shape": None, "dtype": "int32"},
    },
    "outputs": {"sums": {"shape": ["batch"], "dtype": "float32"}},
    "constraints": ["ends == batch + 1", "used == kv_indptr[-1].item()"],
    "reference": """
import torch

def run(cache, kv_indptr, kv_indices, kv_last_page_len, page_size):
    assert kv_indptr[-1] == len(kv_indices) and page_size == cache.shape[1]
    sums = []
    for last, begin, end in zip(kv_last_page_len, kv_indptr[:-1], kv_indptr[1:], strict=True):
        assert end > begin
        sums.append(cache[kv_indices[begin:end]].flatten()[: last - page_size or None].sum())
    return torch.stack(sums)
""",
}


def test_flashinfer_draws_integers_by_their_meaning(tmp_path):
    problem = load(tmp_path, {"paged_sums.json": json.dumps(PAGED)})
    (test,) = problem.generate_test_cases()
    assert test["name"] == "batch=64, ends=65, pages=64, used=64"
    _, indptr, indices, last, _ = inputs = test["create_inputs"]()
    assert indptr.tolist() == list(range(65)) and set(last.tolist()) == {4}
    assert indices.min() >= 0 and indices.max() < 64
    assert problem.expected(*inputs).shape == (64,)


def test_flashinfer_workload_that_is_not_here_is_not_an_error(tmp_path):
    source = {"type": "safetensors", "path": "./blob/x.safetensors", "tensor_key": "x"}
    lines = json.dumps({"workload": {"axes": {"batch_size": 3}, "inputs": {"input": source}}})
    problem = load(tmp_path, {**definition(), "d.jsonl": lines})
    with pytest.raises(NotHereError, match=r"needs .*x\.safetensors|needs the module safetensors"):
        problem.generate_sample()["create_inputs"]()


def test_flashinfer_outputs_in_a_dictionary_come_in_order(tmp_path):
    problem = load(tmp_path, PUBLIC["FlashInfer", "two_outputs"])
    best, index = problem.expected(*problem.generate_sample()["create_inputs"]())
    assert (best.dtype, index.dtype) == (torch.float32, torch.int64)
    assert list(TWO_RESULTS["outputs"]) == ["best", "index"]


def test_flashinfer_output_without_a_shape_is_one_number(tmp_path):
    number = {"total": {"shape": None, "dtype": "float32"}}
    for text in ("def run(x):\n    return x.sum()\n", "def run(x):\n    return x.sum().item()\n"):
        problem = load(tmp_path, definition(outputs=number, reference=text, inputs=ROW))
        sample = problem.generate_sample()
        (x,) = sample["create_inputs"]()
        total = problem.expected(x)
        assert (total.shape, total.dtype) == ((), torch.float32) and sizes(problem, sample) == (x.nbytes, 4)
        (written,) = problem._outputs((x,))
        assert written.shape == ()


def test_flashinfer_allows_the_larger_of_both_errors(tmp_path):
    problem = load(tmp_path, definition(outputs={"out": ROW["x"]}, reference="def run(x):\n    return x\n", inputs=ROW))
    for size, error, is_right in [(1.0, 0.0098, True), (1.0, 0.015, False), (100.0, 0.98, True), (0.0, 0.0098, True)]:
        expected = torch.full((64,), size)
        assert problem.verify_result(expected, expected + error)[0] == is_right, (size, error)
