# ruff: noqa: E501, PLR0917 - texts of files, as users write them
"""Problem files in the four public forms, written after the published formats: name -> the files of a folder.

The first file of each is the one that a user names.
"""

import json

HEAD = "import ctypes\nimport torch\nfrom typing import Any, Dict, List, Tuple\n\nfrom problem import Problem\n\n\n"


def _parameters(text):
    """Return the source of `parameters` from "x:float*c,out:float*,n:size_t": c for const."""
    entries = []
    for part in text.split(","):
        name, _, kind = part.partition(":")
        entry = {"name": name, "type": kind.rstrip("c*")}
        entries.append(
            entry | ({"pointer": True} if "*" in kind else {}) | ({"const": True} if kind[-1:] == "c" else {})
        )
    return f"    parameters = {entries!r}\n"


def _tensara(name, parameters, reference, cases, rest="", sample=None, verify=None):
    """Return the text of a definition in Tensara's form.

    Args:
        cases: source of an expression that is a list of test cases. `self` and torch are there.
        rest: further methods. sample: source of the sample, None for the first case.
        verify: source of the method, None for torch.allclose.
    """
    verify = verify or (
        "    def verify_result(self, expected_output, actual_output):\n"
        "        right = torch.allclose(actual_output, expected_output, rtol=1e-4, atol=1e-5)\n"
        "        return right, {} if right else {'max_difference': (actual_output - expected_output).abs().max().item()}\n"
    )
    return (
        f"{HEAD}class {name}(Problem):\n{_parameters(parameters) if parameters else ''}\n"
        f"    def __init__(self):\n        super().__init__(name={name.replace('_', '-')!r})\n\n"
        f"{reference}\n\n    def generate_test_cases(self):\n        return {cases}\n\n"
        f"    def generate_sample(self):\n        return {sample or 'self.generate_test_cases()[0]'}\n\n{verify}\n{rest}\n"
    )


ROWS = """[
            {"name": f"rows={n}", "rows": n, "create_inputs": lambda n=n: (
                torch.rand((n, 16), device="cuda", generator=torch.Generator("cuda").manual_seed(n)),)}
            for n in (8, 24)
        ]"""
SUM = "    def reference_solution(self, x):\n        with torch.autocast('cuda', enabled=False):\n            return x.sum(1)"
ROW_PARAMS = (
    "    def get_extra_params(self, test_case):\n        return [test_case['rows'], 16]\n\n"
    "    def get_flops(self, test_case):\n        return test_case['rows'] * 15\n"
)
SHAPES = """[
            {"name": f"shape={shape}, dim={dim}", "shape": shape, "dim": dim, "create_inputs":
                lambda shape=shape, dim=dim: (torch.rand(shape, device="cuda", dtype=self.param_dtype("input")), dim)}
            for shape, dim in (((4, 6, 5), 1), ((3, 7), 0))
        ]"""
SHAPE_PARAMS = (
    "    def get_extra_params(self, test_case):\n"
    "        shape = torch.tensor(test_case['shape'], dtype=torch.int32, device='cuda')\n"
    "        return [shape, len(test_case['shape'])]\n"
)
EXACT = (
    "    def verify_result(self, expected, actual):\n"
    "        same = torch.all(actual == expected)\n        return same, {} if same else {'different': 1}\n"
)
OLD_EXACT = EXACT.replace("expected, actual", "expected, actual, dtype", 1)
EIGHT = '[{{"name": "n=64", "size": 64, "create_inputs": lambda: {}}}]'
N = "    def get_extra_params(self, test_case):\n        return [test_case['size']]\n"

TENSARA = {
    "no_dims": _tensara("row_sums", "x:float*c,out:float*,n:size_t,m:size_t", SUM, ROWS, ROW_PARAMS),
    "argument_called_shape": _tensara(
        "arg_max",
        "input:float*c,dim:int,output:int*,shape:int*c,ndim:int",
        "    def reference_solution(self, input, dim):\n        return torch.argmax(input, dim).to(torch.int32)",
        SHAPES,
        SHAPE_PARAMS,
        verify=EXACT,
    ),
    "signature_alone": _tensara(
        "arg_min",
        "",
        "    def reference_solution(self, input_tensor, dim):\n"
        "        return torch.argmin(input_tensor, dim).to(torch.int32)",
        SHAPES.replace('self.param_dtype("input")', "torch.float32"),
        SHAPE_PARAMS + "\n    def get_function_signature(self):\n        ints = ctypes.POINTER(ctypes.c_int32)\n"
        "        return {'argtypes': [ctypes.POINTER(ctypes.c_float), ctypes.c_int32, ints, ints, ctypes.c_int32],\n"
        "                'restype': None}\n",
        verify=EXACT,
    ),
    "dtype_argument": _tensara(
        "vector_addition",
        "",
        "    def reference_solution(self, a, b):\n        return a + b",
        "[]",
        "    def get_extra_params(self, test_case):\n        return [test_case['size']]\n\n"
        "    def get_function_signature(self):\n        floats = ctypes.POINTER(ctypes.c_float)\n"
        "        return {'argtypes': [floats, floats, floats, ctypes.c_size_t], 'restype': None}\n",
        verify=OLD_EXACT,
    )
    .replace(
        "def generate_test_cases(self):\n        return []",
        "def generate_test_cases(self, dtype: torch.dtype):\n        return [{'name': 'n=50', 'size': 50, 'create_inputs':\n"
        "            lambda: (torch.ones(50, device='cuda', dtype=dtype), torch.arange(50, dtype=dtype).cuda())}]",
    )
    .replace(
        "def generate_sample(self):\n        return self.generate_test_cases()[0]",
        "def generate_sample(self, dtype: torch.dtype):\n        return self.generate_test_cases(dtype)",
    ),
    "two_outputs": _tensara(
        "row_statistics",
        "x:float*c,mean:float*,spread:float*,n:size_t,m:size_t",
        "    def reference_solution(self, x):\n        return x.mean(1), x.std(1)",
        ROWS,
        ROW_PARAMS,
        verify="    def verify_result(self, expected, actual):\n"
        "        right = all(torch.allclose(a, b, atol=1e-5) for a, b in zip(expected, actual))\n        return right, {}\n",
    ),
    "in_place": _tensara(
        "clamp",
        "x:float*c,out:float*,n:size_t",
        "    def reference_solution(self, x):\n        return x.mul_(2).add_(1)",
        EIGHT.format("(torch.linspace(-1, 1, 64, device='cuda'),)"),
        N,
    ),
    "unsigned": _tensara(
        "xor",
        "x:uint32_t*c,y:uint32_t*c,out:uint32_t*,n:size_t",
        "    def reference_solution(self, x, y):\n        return x ^ y",
        EIGHT.format(
            "tuple(torch.randint(0, 2**31 - 1, (64,), dtype=self.param_dtype(i), device='cuda') for i in (0, 1))"
        ),
        N,
        verify=EXACT,
    ),
    "unsigned_tensors": _tensara(
        "first_bit",
        "x:uint64_t*c,out:uint32_t*,n:size_t",
        "    def reference_solution(self, x):\n        return (x.to(torch.int64) & 1).to(torch.uint32)",
        EIGHT.format("(torch.arange(64, device='cuda').to(torch.uint64),)"),
        N,
        verify=EXACT,
    ),
    "float8": _tensara(
        "to_float8",
        "x:float*c,q:float8*,n:size_t",
        "    def reference_solution(self, x):\n        return x.to(torch.float8_e4m3fn)",
        EIGHT.format("(torch.linspace(-4, 4, 64, device='cuda'),)"),
        N,
        verify=EXACT.replace("actual == expected", "actual.float() == expected.float()"),
    ),
    "names_differ_in_case": _tensara(
        "scale_rows",
        "A:float*c,a:float*c,B:float*,N:size_t,n:size_t",
        "    def reference_solution(self, A, a):\n        return A * a[:, None]",
        '[{"name": "8x16", "dims": [8, 16], "create_inputs": lambda: '
        "(torch.rand(8, 16, device='cuda'), torch.rand(8, device='cuda'))}]",
        "    def get_extra_params(self, test_case):\n        return test_case['dims'] + []\n",
    ),
    "dims_of_other_kinds": _tensara(
        "negate",
        "x:float*c,out:float*,n:size_t",
        "    def reference_solution(self, x):\n        return -x",
        '[{"name": "n=64", "dims": {"n": 64}, "create_inputs": lambda: torch.rand(64, device="cuda")}]',
        "    def get_extra_params(self, test_case):\n        return [test_case['dims']['n']]\n",
        sample='{"name": "sample", "dims": "four", "create_inputs": lambda: [torch.rand(64).cuda()]}',
    ).replace("return [test_case['dims']['n']]", "return [64]"),
    "no_torch_at_import": _tensara(
        "double_it",
        "x:float*c,out:float*,n:size_t",
        "    def reference_solution(self, x):\n        return x + x",
        EIGHT.format("(__import__('torch').ones(64, device='cuda'),)"),
        N,
        verify="    def verify_result(self, expected, actual):\n        return bool((expected == actual).all()), {}\n",
    ).replace("import torch\n", ""),
}

KERNELBENCH = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features, scale):
        super().__init__()
        self.linear = nn.Linear(features, 2 * features)
        self.scale = scale

    def forward(self, x):
        return torch.relu(self.linear(x)) * self.scale


batch, features = 32, 48


def get_inputs():
    return [torch.rand(batch, features)]


def get_init_inputs():
    return [features, 0.5]
"""
KERNELBENCH_SOLUTION = KERNELBENCH.replace("class Model(", "class ModelNew(").replace(
    "torch.relu(self.linear(x)) * self.scale", "self.linear(x).clamp_(min=0).mul_(self.scale)"
)
KERNELBENCH_PLAIN = (
    KERNELBENCH.replace("features, scale):\n", "):\n")
    .replace("        self.linear = nn.Linear(features, 2 * features)\n        self.scale = scale\n", "")
    .replace("forward(self, x)", "forward(self, x, exponent)")
    .replace("torch.relu(self.linear(x)) * self.scale", "x**exponent")
)
KERNELBENCH_PLAIN = KERNELBENCH_PLAIN.replace(
    "[torch.rand(batch, features)]", "[torch.rand(batch, features), 3]"
).replace("[features, 0.5]", "[]")

TASK = """
files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "task.py", "source": "task.py"}
  - {"name": "utils.py", "source": "../utils.py"}
  - {"name": "reference.py", "source": "reference.py"}
  - {"name": "eval.py", "source": "../eval.py"}

lang: "py"

description: |
  Multiply and add.

config:
  main: "eval.py"

tests:
  - {"rows": 4, "columns": 8, "seed": 4242}
benchmarks:
  - {"rows": 64, "columns": 32, "seed": 1}
  - {"rows": 64, "columns": 32, "seed": 2}
  - {"rows": 128, "columns": 32, "seed": 3}
ranking_by: "geom"
"""
TASK_TYPES = """
from typing import TypedDict, TypeVar
import torch

input_t = TypeVar("input_t", bound=tuple[torch.Tensor, torch.Tensor])
output_t = TypeVar("output_t", bound=torch.Tensor)


class TestSpec(TypedDict):
    rows: int
"""
UTILS = """
import torch


def make_check(reference, **kwargs):
    def check(data, output):
        right = torch.allclose(output, reference(data), **kwargs)
        return right, "" if right else "mismatch\\nfound"

    return check
"""
REFERENCE = """
import torch
from task import input_t, output_t
from utils import make_check


def generate_input(rows: int, columns: int, seed: int) -> input_t:
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    x = torch.randn(rows, columns, device="cuda", generator=gen)
    return x, torch.empty_like(x)


def ref_kernel(data: input_t) -> output_t:
    x, out = data
    out[...] = x * 2 + 1
    return out


check_implementation = make_check(ref_kernel, rtol=1e-4, atol=1e-5)
"""
REFERENCE_OF_ONE = """
import torch


def generate_input(rows, columns, seed):
    torch.manual_seed(seed)
    return torch.rand(rows, columns, device="cuda")


def ref_kernel(data):
    return data.cumsum(1)


def check_implementation(data, output):
    return "" if torch.allclose(ref_kernel(data), output, atol=1e-5) else "wrong"
"""
SUBMISSION = """
import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, out = data
    return torch.add(torch.mul(x, 2, out=out), 1, out=out)
"""
NESTED_TASK = """
import torch


def generate_input(n, seed):
    torch.manual_seed(seed)
    return torch.rand(n), {"scale": torch.rand(n), "more": [torch.rand(n), (2.0,)]}


def ref_kernel(data):
    x, rest = data
    shift, (power,) = rest["more"]
    return {"whole": x * rest["scale"] + shift, "half": [x**power]}


def check_implementation(data, output):
    right = ref_kernel(data)
    same = [torch.allclose(right["whole"], output["whole"]), torch.allclose(right["half"][0], output["half"][0])]
    return all(same), f"equal: {same}"
"""
NESTED_SUBMISSION = """
def custom_kernel(data):
    x, rest = data
    return {"half": [x * x], "whole": rest["more"][0] + x * rest["scale"]}
"""
NESTED_MODEL = """
import torch


class Model(torch.nn.Module):
    def forward(self, x, state):
        hidden = state["hidden"]
        return x + hidden, {"hidden": hidden * 2, "cell": hidden - x}


def get_inputs():
    return [torch.rand(3, 4), {"hidden": torch.rand(3, 4)}]


def get_init_inputs():
    return []
"""

DEFINITION = {
    "name": "rmsnorm_d64",
    "op_type": "rmsnorm",
    "description": "x / sqrt(mean(x^2) + eps) * weight",
    "axes": {"batch_size": {"type": "var"}, "hidden_size": {"type": "const", "value": 64}},
    "inputs": {
        "input": {"shape": ["batch_size", "hidden_size"], "dtype": "bfloat16"},
        "weight": {"shape": ["hidden_size"], "dtype": "bfloat16"},
        "eps": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"output": {"shape": ["batch_size", "hidden_size"], "dtype": "bfloat16"}},
    "constraints": ["batch_size <= 4096"],
    "reference": "import torch\n\ndef run(input, weight, eps):\n    x = input.float()\n"
    "    scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)\n"
    "    return (x * scale * weight.float()).to(torch.bfloat16)\n",
}
WORKLOADS = "\n".join(
    json.dumps(
        {
            "definition": "rmsnorm_d64",
            "workload": {
                "uuid": f"0000-{size}",
                "axes": {"batch_size": size},
                "inputs": {
                    "input": {"type": "random"},
                    "weight": {"type": "random"},
                    "eps": {"type": "scalar", "value": 1e-6},
                },
            },
            "solution": None,
            "evaluation": None,
        }
    )
    for size in (32, 7)
)
RUN = """
import torch


def run(input, weight, eps, output):
    x = input.float()
    output.copy_(x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * weight.float())
"""
TWO_RESULTS = {
    "name": "top1_v32",
    "op_type": "sampling",
    "axes": {"B": {"type": "var"}, "V": {"type": "const", "value": 32}},
    "inputs": {"probs": {"shape": ["B", "V"], "dtype": "float32"}, "offset": {"shape": ["B"], "dtype": "int32"}},
    "outputs": {"best": {"shape": ["B"], "dtype": "float32"}, "index": {"shape": ["B"], "dtype": "int64"}},
    "reference": "def run(probs, offset):\n    best, index = probs.max(-1)\n"
    "    return {'index': index + offset, 'best': best}\n",
}

# A task in CUDA: inputs of two kinds, one of them nested
CUDA_TASK = {
    "scale/task.yml": """
lang: cu
files:
  - {name: submission.cu, source: "@SUBMISSION@"}
  - {name: task.h, source: task.h}
  - {name: utils.h, source: ../utils.h}
  - {name: reference.cuh, source: reference.cuh}
config:
  sources: [eval.cu, submission.cu]
  defines: {LARGEST: 1000000}
tests:
  - {size: 6, seed: 1}
benchmarks:
  - {size: 300, seed: 2}
  - {size: 1000, seed: 3}
""",
    "scale/task.h": """
#pragma once
#include <array>
#include <tuple>
#include <vector>
using input_t = std::tuple<std::array<std::vector<float>, 2>, double>;
using output_t = std::vector<float>;
constexpr std::array<const char*, 2> ArgumentNames = {"size", "seed"};
""",
    "scale/reference.cuh": """
#pragma once
#include <cmath>
#include <random>
#include "task.h"
static input_t generate_input(int size, int seed) {
    if (size > LARGEST) throw std::runtime_error("too large");
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> values(-1, 1);
    std::array<std::vector<float>, 2> both;
    for (auto& numbers : both) {
        numbers.resize(size);
        for (auto& number : numbers) number = values(random);
    }
    return {both, 3.0};
}
static output_t ref_kernel(input_t data) {
    auto& [both, factor] = data;
    output_t out(both[0].size());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = both[0][i] * float(factor) + both[1][i];
    return out;
}
static void check_implementation(TestReporter& reporter, input_t data, output_t out, float epsilon = 1e-5) {
    const output_t wanted = ref_kernel(data);
    if (!reporter.check_equal("size", out.size(), wanted.size())) return;
    for (std::size_t i = 0; i < out.size(); ++i)
        if (!(std::fabs(out[i] - wanted[i]) <= epsilon)) {
            reporter.fail() << "error at " << i;
            return;
        }
    reporter.pass();
}
""",
    "utils.h": """
#pragma once
#include <sstream>
#include <string>
class TestReporter {
  public:
    void pass() { passed_ = true; }
    std::stringstream& fail() { return message_; }
    bool has_passed() const { return passed_; }
    std::string message() const { return message_.str(); }
    template <class T>
    bool check_equal(const char* what, const T& value, const T& expected) {
        if (value != expected) fail() << what << ": got " << value;
        return value == expected;
    }
  private:
    bool passed_ = false;
    std::stringstream message_;
};
""",
}

# Form, name -> the files of a folder. The first is what a user names.
PUBLIC = {
    **{("Tensara", name): {"def.py": text} for name, text in TENSARA.items()},
    ("Tensara", "torch.py_beside_it"): {
        "def.py": TENSARA["no_dims"],
        "torch.py": "raise AssertionError('no PyTorch')\n",
    },
    ("KernelBench", "weights"): {"12_Linear_ReLU_.py": KERNELBENCH},
    ("KernelBench", "no_weights"): {"3_Power.py": KERNELBENCH_PLAIN},
    ("KernelBench", "nested"): {"5_State.py": NESTED_MODEL},
    ("GPU MODE", "nested"): {
        "nested/task.yml": "tests:\n  - {n: 6, seed: 1}\n",
        "nested/reference.py": NESTED_TASK,
    },
    ("GPU MODE", "writes_its_data"): {
        "task/task.yml": TASK,
        "task/reference.py": REFERENCE,
        "task/task.py": TASK_TYPES,
        "utils.py": UTILS,
    },
    ("GPU MODE", "tensor_alone"): {
        "one/task.yml": "tests:\n  - {rows: 5, columns: 6, seed: 1}\n",
        "one/reference.py": REFERENCE_OF_ONE,
    },
    ("FlashInfer", "workloads"): {
        "definitions/rmsnorm/rmsnorm_d64.json": json.dumps(DEFINITION),
        "workloads/rmsnorm/rmsnorm_d64.jsonl": WORKLOADS,
    },
    ("FlashInfer", "two_outputs"): {"top1_v32.json": json.dumps(TWO_RESULTS)},
}


def write(folder, files):
    """Write the files of a problem, and return the path of the first."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / next(iter(files))
