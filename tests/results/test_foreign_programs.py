"""Files that other programs wrote, read by us.

Those programs are fetched from the Python registry: Google Benchmark's bindings, with which a suite of Python writes a
file as one of C++ does, and cuda-bench, which has a file of nvbench's.
"""

import os
import subprocess
import sys

import pytest

from kernel_velocity.results import foreign
from kernel_velocity.results.lines import Failure

pytestmark = pytest.mark.slow
BINDINGS = ("google-benchmark==1.9.5", "absl-py")
SUITE = """
import google_benchmark as benchmark

@benchmark.register(name="BM_Sum")
@benchmark.option.arg(8)
@benchmark.option.arg(64)
def total(state):
    while state:
        sum(range(state.range(0)))

@benchmark.register
def broken(state):
    state.skip_with_error("no GPU")

benchmark.main()
"""
NVBENCH = "cuda-bench==0.3.0"


def fetched(command, folder):
    """Run what fetches a package into a folder. Where that cannot be done, CI fails and others skip the test."""
    try:
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        problem = result.stderr.strip()[-300:] if result.returncode else ""
    except FileNotFoundError as error:
        problem = str(error)
    if problem:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"cannot fetch a program: {problem}")


def installed(folder, *packages):
    fetched([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", ".", *packages], folder)
    return folder


def ran(*command, **more):
    result = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, **more)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_file_of_google_benchmark_is_read(tmp_path):
    environ = {**os.environ, "PYTHONPATH": str(installed(tmp_path, *BINDINGS))}
    options = ("--benchmark_out=out.json", "--benchmark_repetitions=3", "--benchmark_min_time=0.01s")
    (tmp_path / "suite.py").write_text(SUITE, encoding="utf-8")
    ran("suite.py", *options, env=environ, cwd=tmp_path)
    series = foreign.read("google-benchmark", [tmp_path / "out.json"]).series
    counts = {key: part.error if isinstance(part, Failure) else len(part) for key, part in series.items()}
    assert counts == {
        ("BM_Sum.Cpu.time_hot", "native", "8"): 3,
        ("BM_Sum.Cpu.time_hot", "native", "64"): 3,
        ("broken.Cpu.time_hot", "native", "default"): "no GPU",
    }


def test_file_of_nvbench_is_read(tmp_path):
    file = (
        installed(tmp_path, NVBENCH) / "cuda" / "bench" / "scripts" / "test_ref.json"
    )  # of two GPUs, for its own tests
    series = foreign.read("nvbench", [file]).series
    cases = {benchmark: case for benchmark, _, case in series}
    assert cases["simple.Cuda.time_hot"] == cases["simple.Cuda.time_cold"] == "Device=1"
    assert cases["copy_type_sweep.Cuda.time_hot"] == "T=F64,Device=1"
    assert any(isinstance(part, Failure) and part.skipped for part in series.values())  # a conversion
