"""Every test marked `cuda`, on the fake device: none fails for a reason that needs no GPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kernel_velocity.__main__ import THREADS
from tests.kernels.test_triton import FOLDER, ROOT, require_triton

torch = pytest.importorskip("torch", reason="the fake device is PyTorch's")
pytestmark = pytest.mark.slow  # half a minute

# Why a test is skipped that is not the device's.
REASONS = (
    "a fake device: ",
    r"a product of \d+ GFLOP: a CPU takes too long in a GPU's place$",
    r"needs \d+ GiB of free device memory, here are 2$",
    "float64 is only the CPU's$",
    "int8 has neither$",
    "it takes no int8$",
    "n/a here: at this commit matmul takes .* on cuda, not float8_e4m3fn$",  # in Triton
)
# So many of the first three kinds: what a GPU alone can show.
NEED_A_GPU = 27
BAD = ("failure", "error")
STAGES = Path(__file__).with_name("stages.py")
MARKS = ("mark.cuda", "on_every_device(")  # the latter is of tests/kernels/instruction_sets.py


# What the fake finds. The first was in a test that nobody ran before there was a GPU.
PLANTED = """
import pytest
torch = pytest.importorskip("torch")
from kernel_velocity.engine import timing
pytestmark = pytest.mark.cuda

def test_argument_is_missing():
    timing.wait(lambda: None, "cuda")

def test_tensor_lies_elsewhere():
    torch.ones(3, device="cuda") + torch.ones(3)

def test_host_reads_device_memory():
    torch.ones(3, device="cuda").numpy()

def test_read_from_another_stream_is_too_early():
    x, busy = torch.zeros(3, device="cuda"), torch.cuda.Stream()
    with torch.cuda.stream(busy):
        torch.cuda._sleep(1_000_000_000)
        x.fill_(1)
    assert x.tolist() == [1, 1, 1]

def test_graph_cannot_wait():
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        torch.ones(3, device="cuda").sum().item()

def test_stream_is_of_another_device():
    import kernels
    x = torch.ones(3, device="cuda:1")
    kernels.add_mul_exp(x, x, stream=torch.cuda.Stream(0))
"""

ERRORS = {
    "test_argument_is_missing": "TypeError: wait() missing 1 required positional argument",
    "test_tensor_lies_elsewhere": "RuntimeError: Expected all tensors to be on the same device",
    "test_host_reads_device_memory": "TypeError: can't convert cuda:0 device type tensor to numpy",
    "test_read_from_another_stream_is_too_early": "assert",
    "test_graph_cannot_wait": "tests.fake_cuda.device.StreamError: CUDA error: operation not permitted",
    "test_stream_is_of_another_device": "kernels._native.errors.LaunchError: add_mul_exp: invalid resource handle",
}


def cuda_tests():
    """Return the files that have tests marked `cuda`. A node, which cannot import all others, runs the same."""
    files = (path for path in Path("tests").rglob("test_*.py") if STAGES.parent.name not in path.parts)
    return [path for path in files if any(mark in path.read_text("utf-8") for mark in MARKS)]


def test_all_pass_on_a_fake_device_and_planted_errors_fail(tmp_path, monkeypatch, request):
    """In a process of its own, which sees Triton as an interpreter."""
    if torch.version.cuda is not None:
        pytest.skip("the fake device needs PyTorch's CPU build")
    require_triton()
    monkeypatch.chdir(ROOT)
    files = sorted(map(str, cuda_tests()))
    here = {str(test.path.relative_to(ROOT)) for test in request.session.items if test.get_closest_marker("cuda")}
    assert here <= set(files)  # so a node runs them, too
    planted, report = tmp_path / "test_planted.py", tmp_path / "tests.xml"
    planted.write_text(PLANTED, encoding="utf-8")
    variables = os.environ | dict.fromkeys(THREADS, "1") | {"PYTHONPATH": str(FOLDER), "TRITON_INTERPRET": "1"}
    command = [sys.executable, "-m", "pytest", "--fake-cuda", "-m", "cuda", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "no:xdist", f"--junitxml={report}", "--tb=short", *files, str(STAGES), str(planted)]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert report.exists(), done.stdout + done.stderr
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = {case.get("name", ""): bad.get("message", "") for case in cases for bad in case if bad.tag in BAD}
    assert failed.keys() == ERRORS.keys(), done.stdout[-20_000:]
    assert not [name for name, message in failed.items() if not message.startswith(ERRORS[name])], failed
    skips = [skip.get("message", "") for case in cases for skip in case.iter("skipped")]
    kinds = Counter(next((kind for kind in REASONS if re.match(kind, skip)), skip) for skip in skips)
    assert set(kinds) <= set(REASONS)
    assert sum(kinds[reason] for reason in REASONS[:3]) == NEED_A_GPU
    assert len(cases) - len(skips) - len(failed) > 200
