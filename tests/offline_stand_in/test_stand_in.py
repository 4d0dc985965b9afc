"""The suite's CPU half on the stand-in for PyTorch: it runs, and what it computes is what PyTorch computes."""

import base64
import csv
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from kernel_velocity.harness import implementations
from kernel_velocity.harness.telemetry import decode
from tests.offline_stand_in import VERSION, plant
from tests.offline_stand_in.rehearse import KERNELS as REHEARSED
from tests.offline_stand_in.rehearse import describe, problems, tensors
from tests.suite import SUITE

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "kernels" / "_native" / "libkernel_velocity.so"
COMMIT = "c" * 40
KERNELS = {problem.name: problem for problem in SUITE.problems() if problem.name in REHEARSED}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder of packages that holds the stand-in and nothing else."""
    folder = tmp_path_factory.mktemp("planted") / "site-packages"
    plant(folder)
    return folder


def python(path, *arguments, **variables):
    """Run this interpreter on the checkout with `path` before its own packages. Return what it printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ASV_", "KV_", "PYTHON"))}
    environment |= {"PYTHONPATH": os.pathsep.join(map(str, path)), "KV_T_MIN": ".002", "KV_T_SOFT": ".004"}
    environment |= {"KV_T_MAX": ".004", "KV_PATIENCE": "0"}
    command = [sys.executable, "-W", "error", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rehearse(path, *arguments, **variables):
    return json.loads(python(path, "-m", "tests.offline_stand_in.rehearse", *arguments, **variables))


@pytest.fixture(scope="module")
def planted(site, tmp_path_factory):
    """What the stand-in's tensors say of themselves, and the file that holds their numbers."""
    path = tmp_path_factory.mktemp("planted-inputs") / "planted.npz"
    return rehearse([site], "inputs", str(path)), path


@pytest.mark.parametrize("implementation", ["eager", "native"])
def test_every_kernel_is_measured(site, tmp_path, implementation):
    if implementation == "native" and not LIBRARY.exists():
        pytest.skip("the kernels are not built in place (make build)")
    recorded = {"ASV_CONF_DIR": str(tmp_path), "ASV_ENV_NAME": "env", "ASV_COMMIT": COMMIT}
    found = rehearse([site], "round", implementation, **recorded)
    lines = (tmp_path / ".asv" / "spool" / "env" / f"{COMMIT}.jsonl").read_text().splitlines()
    rounds = [decode(line) for line in lines]
    assert {record.benchmark: record.estimate for record in rounds} == {
        f"{name}.Cpu.time_hot": estimate for name, estimate in found.items()
    }
    assert set(found) == set(KERNELS)
    assert all(record.params[0] == implementation and record.estimate > 1e-6 for record in rounds)
    assert len(list((tmp_path / ".asv" / "cache" / "checked").rglob(f"*-{implementation}-*"))) == len(KERNELS)


def test_compiled_packages_are_not_applicable(site, tmp_path):
    found = rehearse([site], "round", "compile", ASV_CONF_DIR=str(tmp_path))
    assert set(found) == set(KERNELS)
    assert set(found.values()) == {f"this torch has no AOTInductor: {VERSION} cannot run compiled packages"}


def test_wrong_result_is_caught(site, tmp_path):
    # Else "is checked" above would say nothing: the comparison is made of the stand-in's own operations.
    script = (
        "import torch; right = torch.exp\n"
        "torch.exp = lambda x: right(x) * 2 if x.dtype is torch.float32 else right(x)\n"
        "from benchmarks.add_mul_exp import Cpu\n"
        "from kernel_velocity.harness.benchmark import WrongResultError\n"
        "try: Cpu().setup('eager', 'float32-500k')\n"
        "except WrongResultError as error: print(error)"
    )
    said = python([site], "-c", script, ASV_CONF_DIR=str(tmp_path))
    assert "add_mul_exp eager float32-500k is wrong: 500000 of 500000 elements wrong, the first at (0,):" in said


def test_metadata_of_an_installed_package(site):
    question = "import importlib.metadata as m, torch; print(m.version('torch'), torch.__version__, torch.__file__)"
    assert python([site], "-c", question).split() == [VERSION, VERSION, str(site / "torch" / "__init__.py")]
    (found,) = importlib.metadata.distributions(path=[str(site)])
    assert (found.name, found.version) == ("torch", VERSION)
    listed = {str(path) for path in found.files}
    assert listed == {
        str(path.relative_to(site)) for path in site.rglob("*") if path.is_file() and path.suffix != ".pyc"
    }
    with (site / f"torch-{VERSION}.dist-info" / "RECORD").open(newline="") as lines:
        *files, itself = csv.reader(lines)
    assert [[f"sha256={digest(site / name)}", str((site / name).stat().st_size)] for name, _, _ in files] == [
        line[1:] for line in files
    ]
    assert itself == [f"torch-{VERSION}.dist-info/RECORD", "", ""]


def digest(path):
    return base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ("torch.set_grad_enabled(True)", "NotImplementedError: the stand-in for PyTorch has no gradients"),
        ("torch.set_num_threads(0)", "RuntimeError: set_num_threads expects a positive integer, got 0"),
        ("torch.rand(2).to('cuda')", "NotImplementedError: the stand-in for PyTorch has no device cuda"),
        ("torch.empty(2, device='cuda')", "NotImplementedError: the stand-in for PyTorch has no device cuda"),
        ("torch.rand(4)[::2].view(2)", "RuntimeError: view: the stand-in for PyTorch views contiguous tensors only"),
        ("torch.rand(2) == torch.rand(2) or 1", "ValueError: can only convert an array of size 1"),
    ],
)
def test_unsupported_is_refused(site, asked, error):
    script = f"import torch\ntry: {asked}\nexcept Exception as error: print(f'{{type(error).__name__}}: {{error}}')"
    assert python([site], "-c", script).startswith(error)


def test_another_torch_is_kept(site):
    with pytest.raises(FileExistsError):
        plant(site)


def test_tensors_look_like_pytorchs(planted):
    require_pytorch()
    real = {name: describe(tensor) for problem, case in problems() for name, tensor in tensors(problem, case)}
    assert planted[0] == real
    assert len(real) >= 6 * len(KERNELS)


@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_results_are_pytorchs(planted, kernel):
    torch = require_pytorch()
    with np.load(planted[1]) as stored:
        arrays = {name: torch.from_numpy(stored[name]) for name in stored.files if name.startswith(f"{kernel}-")}
    problem = KERNELS[kernel]
    problem.device = "cpu"
    scalars = problem.generate_sample()["create_inputs"]()
    inputs = [arrays.get(f"{kernel}-input-{index}", scalar) for index, scalar in enumerate(scalars)]
    expected = problem.expected(*inputs)
    right, details = problem.verify_result(expected, arrays[f"{kernel}-output-0"])
    assert right, details
    torch.testing.assert_close(arrays[f"{kernel}-expected-0"], expected, rtol=1e-12, atol=1e-12)
    assert abs(float(inputs[0].mean())) < 0.02
    assert abs(float(inputs[0].std()) - 1) < 0.02
    assert not bool((arrays[f"{kernel}-output-0"] == arrays[f"{kernel}-output-0"].flatten()[0]).all())


def test_rounding_and_nan(site):
    rounded = "print(torch.round(torch.tensor([.5, 1.5, 2.5, -1.5])).numpy().tolist())"
    cast = "print(torch.tensor([float('nan'), -128., 127.]).to(torch.int8).numpy().tolist())"
    assert python([site], "-c", f"import torch; {rounded}; {cast}") == "[0.0, 2.0, 2.0, -2.0]\n[0, -128, 127]\n"


def require_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if torch.__version__ == VERSION:
        pytest.skip("this torch is the stand-in itself")
    return torch


@pytest.mark.parametrize("old", [False, True], ids=["without the module", "without the class"])
def test_torch_without_packages_is_explained(monkeypatch, tmp_path, old):
    require_pytorch()
    monkeypatch.setitem(sys.modules, "torch._C._aoti", types.ModuleType("torch._C._aoti") if old else None)
    with pytest.raises(NotImplementedError, match=r"this torch has no AOTInductor: .* cannot run compiled packages"):
        implementations.bind("compile", KERNELS["matmul"], "float32-128x128x128", (), tmp_path)


def test_other_missing_module_is_an_error(monkeypatch, tmp_path):
    def missing(name):
        raise ModuleNotFoundError("No module named 'numbers'", name="numbers")

    monkeypatch.setattr(implementations.importlib, "import_module", missing)
    with pytest.raises(ModuleNotFoundError, match="numbers"):
        implementations.bind("compile", KERNELS["matmul"], "float32-128x128x128", (), tmp_path)
