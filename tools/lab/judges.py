"""``python -m lab judges``: which right and wrong solutions do the judges of public problem sets accept, and do we.

Each case is written in three published forms, with a right and a wrong solution. Each set's own judge runs on the CPU,
unchanged but for `torch.cuda.synchronize`, which does nothing. `kv compare` reads the same files.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import sys
import tempfile
import time
import types
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import torch

from kernel_velocity.__main__ import main as kv
from kernel_velocity.errors import UsageError

SOURCES = ("KernelBench/src", "reference-kernels/problems/pmpp_v2", "flashinfer-bench", "packages")


class Case(NamedTuple):
    """A problem: what it computes of float32 inputs, and what a right and a wrong solution compute, as expressions."""

    fault: str  # of the wrong solution
    shapes: Mapping[str, tuple[int, ...]]
    expected: str
    right: str
    wrong: str

    def result(self) -> tuple[int, ...]:
        """Return the shape of what is expected."""
        inputs = {name: torch.rand(shape) for name, shape in self.shapes.items()}
        return tuple(eval(self.expected, {"torch": torch, **inputs}).shape)


ROWS = {"x": (16, 4096)}
CASES = {
    "softmax": Case(
        "zeros",
        {"x": (16, 65536)},
        "torch.softmax(x, 1)",
        "(lambda e: e / e.sum(1, keepdim=True))(torch.exp(x - x.amax(1, keepdim=True)))",
        "torch.zeros_like(x)",
    ),
    "l2_normalize": Case(
        "a constant",
        ROWS,
        "x / x.norm(dim=1, keepdim=True)",
        "x * (x * x).sum(1, keepdim=True).rsqrt()",
        "torch.full_like(x, 1e-3)",
    ),
    "tiny_scale": Case("zeros", ROWS, "x * 1e-6", "x / 1e6", "torch.zeros_like(x)"),
    "tail_probability": Case(
        "zeros", ROWS, "torch.sigmoid(x - 20)", "1 / (1 + torch.exp(20 - x))", "torch.zeros_like(x)"
    ),
    "mean": Case("zeros", ROWS, "x.mean(1)", "x.sum(1) / 4096", "torch.zeros(16)"),
    "squared_error": Case(
        "a constant",
        {"x": (512, 512), "y": (512, 512)},
        "torch.nn.functional.mse_loss(x, y)",
        "((x - y) ** 2).mean()",
        "torch.tensor(2.0)",
    ),
    "rms_norm": Case(
        "the last row is missing",
        ROWS,
        "x / torch.sqrt((x * x).mean(1, keepdim=True) + 1e-6)",
        "x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-6)",
        "torch.cat([(x / torch.sqrt((x * x).mean(1, keepdim=True) + 1e-6))[:-1], torch.zeros(1, 4096)])",
    ),
    "gated": Case(
        "a tile of 64 is missing",
        {"x": (256, 256), "y": (256, 256)},
        "torch.nn.functional.silu(x) * y",
        "x * torch.sigmoid(x) * y",
        "(lambda out: out.reshape(-1).index_fill_(0, torch.arange(64), 0).view_as(x))(x * torch.sigmoid(x) * y)",
    ),
    "layer_norm": Case(
        "2% too large",
        ROWS,
        "torch.nn.functional.layer_norm(x, (4096,))",
        "(x - x.mean(1, keepdim=True)) * torch.rsqrt(x.var(1, unbiased=False, keepdim=True) + 1e-5)",
        "torch.nn.functional.layer_norm(x, (4096,)) * 1.02",
    ),
    "variance": Case(
        "divided by n, .1% too small",
        {"x": (256, 1024)},
        "x.var(1)",
        "((x - x.mean(1, keepdim=True)) ** 2).sum(1) / 1023",
        "((x - x.mean(1, keepdim=True)) ** 2).sum(1) / 1024",
    ),
    "matmul": Case(
        "in bfloat16",
        {"x": (256, 512), "y": (512, 256)},
        "x @ y",
        "(y.t() @ x.t()).t().contiguous()",
        "(x.bfloat16() @ y.bfloat16()).float()",
    ),
    "gelu": Case(
        "the tanh form",
        ROWS,
        "torch.nn.functional.gelu(x)",
        "x * .5 * (1 + torch.erf(x * 2 ** -.5))",
        "torch.nn.functional.gelu(x, approximate='tanh')",
    ),
    "logsumexp": Case(
        "the maximum alone",
        ROWS,
        "torch.logsumexp(x, 1)",
        "torch.exp(x).sum(1).log()",
        "x.amax(1)",
    ),
    "running_sum": Case(
        "the last block lacks its carry",
        ROWS,
        "x.cumsum(1)",
        "(lambda c: torch.cat([c, c[:, -1:] + x[:, 2048:].cumsum(1)], 1))(x[:, :2048].cumsum(1))",
        "torch.cat([x[:, :3072].cumsum(1), x[:, 3072:].cumsum(1)], 1)",
    ),
    "pooling": Case(
        "half of each window",
        ROWS,
        "x.view(16, 512, 8).amax(2)",
        "torch.nn.functional.max_pool1d(x, 8)",
        "x.view(16, 512, 8)[:, :, :4].amax(2)",
    ),
    "logarithm": Case(
        "0 where NaN is right",
        ROWS,
        "torch.log(x)",
        "torch.log2(x) * 0.6931471805599453",
        "torch.where(x > 0, torch.log(x), torch.zeros(()))",
    ),
    "transpose": Case(
        "a view for a copy",
        {"x": (256, 512)},
        "x.t().contiguous()",
        "torch.empty(512, 256).copy_(x.t())",
        "x.t()",
    ),
    "sum_of_two": Case(
        "writes into its input",
        {"x": (256, 512), "y": (256, 512)},
        "x + y",
        "torch.add(y, x)",
        "x.add_(y)",
    ),
    "sums": Case("another shape", ROWS, "x.sum(1)", "x @ torch.ones(4096)", "x.sum(1, keepdim=True)"),
    "square": Case("another dtype", ROWS, "x * x", "x ** 2", "x.double() ** 2"),
}


def write_kernelbench(folder: Path, name: str, case: Case) -> tuple[Path, Path, Path]:
    """Write a problem and its two solutions, and return their paths."""
    model = (
        "import torch\nfrom torch import nn\n\n\nclass {name}(nn.Module):\n"
        "    def forward(self, {arguments}):\n        return {expression}\n"
    )
    arguments = ", ".join(case.shapes)
    inputs = ", ".join(f"torch.randn{shape}" for shape in case.shapes.values())
    problem = folder / f"1_{name}.py"
    problem.write_text(
        model.format(name="Model", arguments=arguments, expression=case.expected)
        + f"\n\ndef get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return []\n"
    )
    solutions = folder / "right.py", folder / "wrong.py"
    for path, expression in zip(solutions, (case.right, case.wrong), strict=True):
        path.write_text(model.format(name="ModelNew", arguments=arguments, expression=expression))
    return problem, *solutions


def write_gpu_mode(folder: Path, name: str, case: Case) -> tuple[Path, Path, Path]:
    """Write a task with tolerances of 1e-3, as most of those that state some have, and its two solutions."""
    arguments = ", ".join(case.shapes)
    inputs = ", ".join(f"torch.randn({', '.join(map(str, shape))}, generator=g)" for shape in case.shapes.values())
    unpack = f"{arguments}, = data"
    problem = folder / "reference.py"
    problem.write_text(
        "import torch\nfrom utils import make_match_reference\n\n\n"
        f"def generate_input(n, seed):\n    g = torch.Generator().manual_seed(seed)\n    return {inputs},\n\n\n"
        f"def ref_kernel(data):\n    {unpack}\n    return {case.expected}\n\n\n"
        "check_implementation = make_match_reference(ref_kernel, rtol=1e-3, atol=1e-3)\n"
    )
    (folder / "task.yml").write_text(
        'lang: py\nfiles:\n  - {"name": "utils.py", "source": "../utils.py"}\ntests: [{n: 4, seed: 1}]\n'
    )
    solutions = folder / "right.py", folder / "wrong.py"
    for path, expression in zip(solutions, (case.right, case.wrong), strict=True):
        path.write_text(f"import torch\n\n\ndef custom_kernel(data):\n    {unpack}\n    return {expression}\n")
    return problem, *solutions


def write_flashinfer(folder: Path, name: str, case: Case) -> tuple[Path, Path, Path]:
    """Write a definition and its two solutions, and return their paths."""
    sizes = sorted({size for shape in [*case.shapes.values(), case.result()] for size in shape})
    tensors = {key: {"shape": [f"n{size}" for size in shape], "dtype": "float32"} for key, shape in case.shapes.items()}
    code = f"import torch\n\n\ndef run({', '.join(case.shapes)}):\n    return "
    shape = [f"n{size}" for size in case.result()] or None
    problem = folder / f"{name}.json"
    problem.write_text(
        json.dumps(
            {
                "name": name,
                "op_type": "op",
                "axes": {f"n{size}": {"type": "const", "value": size} for size in sizes},
                "inputs": tensors,
                "outputs": {"out": {"shape": shape, "dtype": "float32"}},
                "reference": f"{code}{case.expected}\n",
            }
        )
    )
    solutions = folder / "right.py", folder / "wrong.py"
    for path, expression in zip(solutions, (case.right, case.wrong), strict=True):
        path.write_text(f"{code}{expression}\n")
    return problem, *solutions


def kernelbench(problem: Path, solution: Path) -> bool:
    """Return whether KernelBench accepts a solution."""
    theirs: Any = importlib.import_module("kernelbench.eval")
    made, its = _executed(problem), _executed(solution)
    return bool(
        theirs.run_and_check_correctness(
            made["Model"](), its["ModelNew"](), made["get_inputs"], {}, num_correct_trials=5, device=torch.device("cpu")
        ).correctness
    )


def gpu_mode(problem: Path, solution: Path) -> bool:
    """Return whether GPU MODE's evaluation accepts a solution."""
    solution.with_name("submission.py").write_text(solution.read_text())
    sys.path.insert(0, str(problem.parent))
    try:
        theirs: Any = importlib.import_module("eval")
        (accepted, _) = theirs._run_single_test(theirs.TestCase(args={"n": 4, "seed": 1}, spec=""))
    finally:
        sys.path.remove(str(problem.parent))
        for module in ("eval", "reference", "submission"):
            sys.modules.pop(module, None)
    return bool(accepted)


def flashinfer(problem: Path, solution: Path) -> bool:
    """Return whether FlashInfer-Bench's default evaluator accepts a solution."""
    data: Any = importlib.import_module("flashinfer_bench.data")
    evaluator: Any = importlib.import_module("flashinfer_bench.bench.evaluators.default").DefaultEvaluator
    settings: Any = importlib.import_module("flashinfer_bench.bench.config").ResolvedEvalConfig(profile_baseline=False)
    registry: Any = importlib.import_module("flashinfer_bench.compile").BuilderRegistry.get_instance()
    definition = data.Definition.model_validate_json(problem.read_text())
    inputs = {name: {"type": "random"} for name in definition.inputs}
    workload = data.Workload(axes={}, inputs=inputs, uuid="1")
    baseline = evaluator.build_baseline(definition, workload, settings, "cpu")
    source = {"path": "main.py", "content": solution.read_text()}
    spec = {
        "language": "python",
        "target_hardware": ["cpu"],
        "entry_point": "main.py::run",
        "destination_passing_style": False,
    }
    built = registry.build(
        definition,
        data.Solution(
            name=f"{problem.stem}-{solution.stem}", definition=definition.name, author="a", spec=spec, sources=[source]
        ),
    )
    correctness, refused = evaluator.check_correctness(
        definition, built, baseline.inputs, baseline.outputs, settings, "", "cpu"
    )
    return refused is None and correctness is not None


def ours(problem: Path, right: Path, wrong: Path) -> tuple[str, str]:
    """Return what `kv compare` says of two solutions."""
    report = problem.with_name("compared.json")
    flags = ["--implementations=eager,right,wrong", "--rounds=1", "--iters=1", "--no-roofline", "--quiet"]
    printed = io.StringIO()
    kv(
        ["compare", str(problem), f"--solution={right}", f"--solution={wrong}", *flags, f"--json={report}"],
        printed,
        printed,
    )
    if not report.exists():
        return (printed.getvalue().strip().splitlines()[-1],) * 2
    statuses = {row["implementation"]: row["status"] for row in json.loads(report.read_text())["results"]}
    return statuses["right"], statuses["wrong"]


def _executed(path: Path) -> dict[str, Any]:
    values: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), values)
    return values


class Form(NamedTuple):
    """A published form: how its files are written, and its judge."""

    write: Callable[[Path, str, Case], tuple[Path, Path, Path]]
    accepts: Callable[[Path, Path], bool]


FORMS = {
    "KernelBench": Form(write_kernelbench, kernelbench),
    "GPU MODE": Form(write_gpu_mode, gpu_mode),
    "FlashInfer-Bench": Form(write_flashinfer, flashinfer),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder of the judges."""
    parser.add_argument(
        "folder",
        type=Path,
        help="has checkouts of KernelBench, reference-kernels and flashinfer-bench, and in `packages` what they use: "
        "pydantic, safetensors, pyyaml, requests, docstring-parser, apache-tvm-ffi",
    )


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Print a table: case, fault, and for each form who accepts the right and the wrong solution."""
    for source in SOURCES:
        if not (args.folder / source).is_dir():
            raise UsageError(f"{args.folder}: got no folder {source}, wanted the judges (see --help)")
        sys.path.append(str(args.folder / source))
    _stand_in(args.folder)
    table = []
    for name, case in CASES.items():
        cells = [name, case.fault]
        for form in FORMS.values():
            with tempfile.TemporaryDirectory() as folder:
                utils = (args.folder / SOURCES[1] / "utils.py").read_text()
                (Path(folder) / "utils.py").write_text(utils)
                at = Path(folder) / "problem"
                at.mkdir()
                files = form.write(at, name, case)
                with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                    theirs = [_answer(form.accepts, files[0], solution) for solution in files[1:]]
                    mine = ours(*files)
            cells += [*theirs, *mine]
        table.append(cells)
        print(f"{time.strftime('%H:%M:%S')} {name}: {' '.join(cells[2:])}", file=err)
    head = ["case", "the wrong solution"]
    for title in FORMS:
        head += [f"{title}: right", "wrong", "ours: right", "wrong"]
    for row in [head, ["---"] * len(head), *table]:
        print(f"| {' | '.join(row)} |", file=out)
    return 0


def _stand_in(folder: Path) -> None:
    """Replace what the judges import or call, and what judges no result on a CPU."""
    torch.cuda.synchronize = lambda *_, **__: None
    package = types.ModuleType("kernelbench")  # its own imports clients of language models
    package.__path__ = [str(folder / SOURCES[0] / "kernelbench")]
    timers: Any = types.ModuleType("flashinfer.testing")
    timers.bench_gpu_time_with_cupti = None
    absent = {"kernelbench": package, "flashinfer": types.ModuleType("flashinfer"), "flashinfer.testing": timers}
    sys.modules.update(absent)


def _answer(judge: Callable[[Path, Path], bool], problem: Path, solution: Path) -> str:
    try:
        return "yes" if judge(problem, solution) else "no"
    except Exception as error:  # noqa: BLE001 - theirs to raise: the cell tells it
        return type(error).__name__
