"""`kv new --problem`: a public problem in any form is tracked by its own file, with starter code for its solution."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from kernel_velocity.scaffold import new
from tests.commands import kv
from tests.machine.planted_limits import plant_measured_limits
from tests.public_problems import PUBLIC, TENSARA, write
from tests.scaffold.generating import STRICT, check_types, repository, tool

pytest.importorskip("torch", reason="problems make torch tensors")
NAMES = {f"p{number}": key for number, key in enumerate(PUBLIC)}
PLAIN = ("my_op", "x", "a_kernel_of_longest_name")  # of no problem; the last makes lines break everywhere
ALL = [*NAMES, *PLAIN]


def run(root, name, path):
    return kv("new", name, "--problem", path, "--root", root)


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """A tree with a kernel for every public problem, every second one in the tree, and with kernels of no problem."""
    root = repository(tmp_path_factory.mktemp("generated"))
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for number, (name, key) in enumerate(NAMES.items()):
        path = write((root / "public" if number % 2 else elsewhere) / name, PUBLIC[key])
        status, _, err = run(root, name, path)
        assert (status, err) == (0, "")
    for name in PLAIN:
        assert kv("new", name, "--root", root)[0] == 0
    return root


def test_python_code_is_formatted_and_clean(generated):
    pytest.importorskip("ruff", reason="ruff is not installed")
    for command in ("format --diff", "check"):
        tool(generated, sys.executable, "-m", "ruff", *command.split(), "benchmarks", "kernels", "tests/kernels")


@pytest.mark.slow
def test_python_code_is_typed(generated):
    sources = [f"{folder}/{name}{end}" for name in ALL for folder, end in (("benchmarks", ".py"), ("kernels", ""))]
    check_types(generated, sources)


def test_native_code_compiles_without_a_warning(generated):
    (generated / "all.cpp").write_text("".join(f'#include "kernels/{name}/{name}.cpp"\n' for name in ALL))
    tool(generated, *STRICT, "all.cpp")


def test_native_code_is_formatted(generated):
    formatter = Path(sys.executable).with_name("clang-format")
    if not formatter.exists():
        pytest.skip("clang-format is not installed")
    tool(generated, str(formatter), "--dry-run", "-Werror", *map(str, generated.glob("kernels/*/[!_]*.c[pu]*")))


@pytest.mark.slow
def test_cuda_code_compiles(generated):
    if shutil.which("nvcc") is None:
        pytest.skip("there is no nvcc")
    (generated / "all.cu").write_text("".join(f'#include "kernels/{name}/{name}.cu"\n' for name in ALL))
    tool(generated, "nvcc", "-std=c++17", "-c", "all.cu", "-o", "object.o")


SET_UP = """
import json, sys
from pathlib import Path
from kernel_velocity.suite import config
suite = config.suite(Path())
problems = {problem.name: problem for problem in suite.problems()}
assert "torch" not in sys.modules, "discovery imported PyTorch"
flops = {}
for name in problems:
    bench_class = suite.benchmark(name, "cpu")
    flops[name] = bench_class.flops
    for case in bench_class.params[1][:2]:  # not a plain kernel's 50M elements
        bench = bench_class()
        bench.setup("eager", case)  # verifies
        bench.call()
print(json.dumps(flops))
"""


def test_problems_are_discovered_without_torch(generated):
    flops = json.loads(tool(generated, sys.executable, "-c", SET_UP).splitlines()[-1])
    assert set(flops) == set(ALL)
    (name,) = [name for name, key in NAMES.items() if key == ("Tensara", "no_dims")]
    assert flops[name] == {"float32-rows=8": 120, "float32-rows=24": 360}


def test_file_is_copied_with_its_neighbours(tmp_path):
    root = repository(tmp_path / "repository")
    (tmp_path / "task" / "unrelated").mkdir(parents=True)
    path = write(tmp_path / "task", PUBLIC["GPU MODE", "writes_its_data"])
    assert run(root, "scale", path.parent)[0] == 0
    copied = {
        file.relative_to(root / "problems").as_posix() for file in (root / "problems").rglob("*") if file.is_file()
    }
    assert copied == {f"scale/{name}" for name in PUBLIC["GPU MODE", "writes_its_data"]}
    assert (root / "problems/scale/task/task.yml").read_text() == path.read_text()


def test_case_too_large_for_a_cpu_is_tracked_on_cuda(tmp_path):
    root = repository(tmp_path / "repository")
    path = write(tmp_path, {"def.py": TENSARA["no_dims"].replace("for n in (8, 24)", "for n in (8, 10**8)")})
    status, out, _ = run(root, "sums", path)
    assert status == 0
    wanted = "note: 1 of 2 cases only on CUDA, whose inputs and outputs take more than 0.250 GiB: rows=100000000 "
    assert wanted in out
    text = (root / "benchmarks/sums.py").read_text()
    assert '"cpu": ["float32-rows=8"]' in text and '"cuda": ["float32-rows=8", "float32-rows=100000000"]' in text
    assert new.CPU_BYTES == 1 << 28


def test_check_that_proves_nothing_is_told(tmp_path):
    root = repository(tmp_path / "repository")
    blind = "def verify_result(self, expected, actual):\n        return True, {}"
    text = TENSARA["no_dims"]
    assert text.count("def verify_result") == 1
    before, after = text.split("    def verify_result")
    rest = after.split("\n    def ", 1)
    path = write(tmp_path, {"def.py": f"{before}    {blind}\n" + (f"\n    def {rest[1]}" if rest[1:] else "")})
    assert "note: unproven: on rows=8" in run(root, "sums", path)[1]


def test_starter_code_follows_from_a_signature_alone(tmp_path):
    root = repository(tmp_path / "repository")
    assert run(root, "arg_min", write(tmp_path, PUBLIC["Tensara", "signature_alone"]))[0] == 0
    wanted = "const float* input_tensor, int* output, const int* extra1, int dim, int extra2, int "
    for end in ("cpp", "cu"):
        assert wanted in " ".join((root / f"kernels/arg_min/arg_min.{end}").read_text().split())


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("import torch", "import torch\nimport no_such()", "def.py:3: does not import: SyntaxError"),
        ("'type': 'size_t'", "'type': 'quad'", "'n' is of type 'quad'; there are float, double"),
        ("return x.sum(1)", "return x.no_such()", r"def.py:16: reference_solution fails on tensors of shapes"),
    ],
)
def test_untrackable_problem_is_one_line_and_no_file(tmp_path, old, new, words):
    root = repository(tmp_path / "repository")
    before = sorted(root.rglob("*"))
    assert old in TENSARA["no_dims"]
    status, out, err = run(root, "sums", write(tmp_path, {"def.py": TENSARA["no_dims"].replace(old, new)}))
    assert (status, out) == (2, "") and err.count("\n") == 1 and words in err, err
    assert sorted(root.rglob("*")) == before


def test_repository_without_our_package_gets_a_plain_solution(tmp_path):
    root = tmp_path / "other"
    (root / "perf").mkdir(parents=True)
    (root / "asv.conf.json").write_text('{"benchmark_dir": "perf"}')
    status, out, err = run(root, "sums", write(root / "public", PUBLIC["Tensara", "no_dims"]))
    assert (status, err) == (0, "")
    assert out.splitlines()[:3] == ["perf/sums.py", "problems/sums/sums.cpp", "problems/sums/sums.cu"]
    assert "{out}/sums.so" in (root / "kernel-velocity.toml").read_text()
    text = (root / "perf/sums.py").read_text()
    assert 'kv.problem_file(Path(__file__).parents[1] / "public/def.py", NAMES)' in text
    assert 'native = kv.solution("sums.so", device="cpu")' in text and "harness" not in text
    assert "kv.h" not in (root / "problems/sums/sums.cpp").read_text()


SUM_ROWS = """
    for (size_t i = 0; i < n; ++i) {
        out[i] = 0;
        for (size_t j = 0; j < m; ++j) out[i] += x[i * m + j];
    }
"""


@pytest.mark.slow
@pytest.mark.usefixtures("lock_of_its_own")
def test_public_problem_is_tracked_in_any_repository(tmp_path):
    root = tmp_path / "other"
    (root / "benchmarks").mkdir(parents=True)

    def shell(*command):
        return tool(root, *command)

    shell("git", "init", "-q")
    for key in ("user.name", "user.email"):
        shell("git", "config", key, "a@b")
    (root / "Makefile").write_text("all:\n")
    shell("git", "add", "-A")
    shell("git", "commit", "-q", "-m", "Begin")
    (root / "benchmarks").rmdir()
    program = (sys.executable, "-m", "kernel_velocity")
    shell(*program, "init")
    (root / "benchmarks/example.py").unlink()
    assert run(root, "sums", write(tmp_path, PUBLIC["Tensara", "no_dims"]))[0] == 0
    source = root / "problems/sums/sums.cpp"
    source.write_text(source.read_text().replace("    // FILL IN: out\n", SUM_ROWS))
    shell("git", "add", "-A")
    shell("git", "commit", "-q", "-m", "Add sums")
    settings = ("KV_ROUNDS=1", "KV_RANGE=HEAD", "KV_MACHINE=box", "KV_PATIENCE=0")
    plant_measured_limits(root)
    options = ("--no-ceilings", "--no-site", "--bench", "(eager|native).*rows=24")
    printed = shell("env", *settings, *program, "track", *options)
    for implementation in ("eager", "native"):
        (line,) = [line for line in printed.splitlines() if f"sums.Cpu {implementation} float32-rows=24" in line]
        assert re.search(r" \d[\d.]* [kMGT]FLOPS$", line), line
