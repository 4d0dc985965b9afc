"""The Triton kernels without a GPU: interpreted on the CPU, and compiled for GPUs that are not here.

Triton lies in a folder of its own (.ci/run puts it there), which only the processes of these tests see.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the tensors that Triton takes are PyTorch's")
from tests.kernels import triton_calls

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".asv" / "triton"
INSTALL = "pip install --no-deps --target .asv/triton triton==3.7.1, the version that belongs to PyTorch 2.13"


def require_triton() -> None:
    """Skip where there is no Triton. Fail in CI."""
    if not FOLDER.is_dir() and importlib.util.find_spec("triton") is None:
        reason = f"Triton is not installed: {INSTALL}"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)


@functools.cache
def outcomes(name: str, interpret: bool) -> dict[str, str | None]:
    """Run the checks of a module in a process that sees Triton: check -> its traceback, None where it passed."""
    paths = [str(ROOT), *([str(FOLDER)] if FOLDER.is_dir() else [])]
    variables = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    variables |= {"PYTHONPATH": os.pathsep.join(paths)} | ({"TRITON_INTERPRET": "1"} if interpret else {})
    command = [sys.executable, "-W", "ignore", "-m", "tests.kernels.triton_calls", name]
    with tempfile.TemporaryDirectory() as cache:
        variables["TRITON_CACHE_DIR"] = cache
        done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"check"')]
    result: dict[str, str | None] = {line["check"]: line["error"] for line in lines}
    if done.returncode != 0:
        result |= dict.fromkeys(triton_calls.checks(name).keys() - result, f"the process died:\n{done.stderr}")
    return result


@pytest.mark.parametrize("check", triton_calls.checks("triton_interpreted"))
def test_interpreted(check):
    require_triton()
    error = outcomes("triton_interpreted", interpret=True)[check]
    assert error is None, error


@pytest.mark.slow
@pytest.mark.parametrize("check", triton_calls.checks("triton_interpreted_large"))
def test_interpreted_beyond_32_bits(check):
    require_triton()
    error = outcomes("triton_interpreted_large", interpret=True)[check]
    assert error is None, error


@pytest.mark.slow
@pytest.mark.parametrize("check", triton_calls.checks("triton_compiled"))
def test_compiled_for_gpus_that_are_not_here(check):
    require_triton()
    error = outcomes("triton_compiled", interpret=False)[check]
    assert error is None, error
