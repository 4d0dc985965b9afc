"""The whole way, rehearsed as it will be: pack here, run on a bare node, interrupt it, run again, unpack here.

The node is this machine without a network, an environment, a HOME and a terminal, with torch in a foreign environment
below /opt (tests/fleet/bare_node.py). Its GPU is a fake H100 (tests/fake_cuda), which computes what a CPU can: so few
series of small cases.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_velocity.fleet import archive, pack
from tests.fake_cuda.test_cuda_tests import cuda_tests
from tests.fleet import bare_node
from tests.waiting import PATIENCE, wait_until

ROOT = Path(__file__).parents[2]
# The fake's kernels are the CPU's, so nobody compiles CUDA.
NODE = ("KV_CUDA=OFF", "KV_CXX_ARCHITECTURE=native", "KV_ISOLATE=0")
BENCH = r"add_mul_exp\.Cuda.time_hot.*(eager|native).*1M"
SERIES = 2
pytestmark = pytest.mark.slow


def require(condition, reason):
    """Skip where a machine cannot do this. CI must be able to."""
    if not condition:
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)


@pytest.fixture
def clone(tmp_path):
    """A clone of what is committed here: a pack is made of commits."""
    why = bare_node.why_not()
    require(why is None, why)
    git(tmp_path, "clone", "-q", str(ROOT), "clone")
    clone = tmp_path / "clone"
    # One file of the tests marked cuda shows that the node runs them. All of them take minutes.
    tests = (path for path in cuda_tests() if path.name != "test_quantize_int8_rows.py")
    git(clone, "rm", "-q", "--", *map(str, tests))
    git(clone, "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "Leave out what takes long")
    return clone


def git(folder, *args):
    done = subprocess.run(["git", *args], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def ours(clone, *arguments):
    """Run a command of ours in a clone."""
    done = subprocess.run(
        [sys.executable, "-m", "kernel_velocity", *arguments], cwd=clone, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def started(opt, folder, out, *arguments, processes=0):
    """Start the script on the node, in a process group of its own."""
    with (out.parent / "log").open("a") as log:
        command = bare_node.command(opt, folder / "run", str(out), *arguments, variables=NODE, processes=processes)
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def log_of(out):
    return (out.parent / "log").read_text()


def wait_for(text, out, process):
    """Wait until the node's log says something."""
    wait_until(lambda: re.search(text, log_of(out)) or process.poll() is not None, f"{text!r} never came")
    assert process.poll() is None, log_of(out)


def test_pack_run_kill_run_unpack(clone, tmp_path):
    require(bare_node.has_torch(), "torch is not installed: nothing can be measured")
    newest = git(clone, "log", "--first-parent", "-1", "--format=%H", "--", "kernels", "CMakeLists.txt")  # is on trends
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    text = ours(clone, "offline", "pack", str(tmp_path / "pack"), "--range", newest, "--pythons", version)
    assert sum(path.stat().st_size for path in (tmp_path / "pack").rglob("*") if path.is_file()) <= pack.LIMIT, text
    opt, out = tmp_path / "opt", tmp_path / "out"
    bare_node.add_fake_gpu(bare_node.torch_environment(opt / "torch" / ".venv"))
    options = ["30", "--rounds", "2", "--bench", BENCH]

    first = started(opt, tmp_path / "pack", out, *options)
    wait_for(r"\[ 50%\] round 2/2", out, first)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert not (out / archive.TAR_NAME).exists()
    killed_after = len(log_of(out))
    assert f"PyTorch of {Path('/opt/torch/.venv/bin/python3')}" in log_of(out)
    assert re.search(r"[1-9]\d* passed", (out / "run" / "tests.txt").read_text())

    second = started(opt, tmp_path / "pack", out, *options, processes=20)
    assert second.wait(PATIENCE) == 0, log_of(out)
    text = log_of(out)[killed_after:]
    assert re.search(r"resuming \w+ after 1 of 2 rounds", text)
    assert " passed" not in text, "the tests were run again"

    ours(clone, "offline", "unpack", str(out / archive.TAR_NAME), "--machine", "rehearsed")
    ours(clone, "report", "--out", str(tmp_path / "site"))
    page = (tmp_path / "site" / "index.html").read_text()
    assert "rehearsed" in page and newest[:8] in page
    (run,) = (clone / "results" / "rehearsed" / "runs").iterdir()
    assert {"manifest.jsonl", "doctor.txt", "tests.txt", "peaks.txt", "track.txt"} <= {
        path.name for path in run.iterdir()
    }
    telemetry = list((clone / "results" / "rehearsed" / "telemetry").glob("*.jsonl"))
    rounds = [path for path in telemetry if not path.name.endswith((".failures.jsonl", ".sessions.jsonl"))]
    assert sum(len(path.read_text().splitlines()) for path in rounds) == 2 * SERIES
