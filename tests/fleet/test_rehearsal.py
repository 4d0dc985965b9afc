"""The whole way, rehearsed as it will be: pack here, run on a bare node, interrupt it, run again, unpack here.

The node is this machine without a network, an environment, a HOME and a terminal, with torch in a foreign environment
below /opt (tests/fleet/bare_node.py). Its GPU is a fake H100 (tests/fake_cuda), which computes what a CPU can: so the
suite has small cases there.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_velocity.fleet import archive, pack
from tests.fake_cuda.test_cuda_tests import cuda_tests
from tests.fleet import bare_node
from tests.kernels.test_triton import FOLDER, require_triton
from tests.waiting import PATIENCE, wait_until

ROOT = Path(__file__).parents[2]
# The fake's kernels are the CPU's, so nobody compiles CUDA. A step's way is that of two rounds, of two kernels.
NODE = ("KV_CUDA=OFF", "KV_CXX_ARCHITECTURE=native", "TRITON_INTERPRET=1", "PRETEND_NVML=/opt/clocks", "SKIP=")
NODE += ("KV_ROUNDS=2",)
# What the tests marked cuda show, a file of them shows. All of them take minutes.
TESTS = ("test_quantize_int8_rows.py", "test_timers_agree.py")
# Timers of a fake agree at once.
TIMERS = "tests/engine/test_timers_agree.py"
FEWER = {"PASSES = 3": "PASSES = 2", "TURNS, PORTION = 20": "TURNS, PORTION = 2"}
SMALL = """
import re
import kernel_velocity as kv

def of_small_cases(*, cases, core, cold, of_all=kv.benchmark, **others):
    few = tuple(case for case in cases["cuda"] if re.search("-(500k|512x)|(32|int8|8_.*)-1024x", case))
    return of_all(cases={**cases, "cuda": few}, core={**core, "cuda": few[:1]}, cold={**cold, "cuda": ()}, **others)

kv.benchmark = of_small_cases
"""
KERNELS, LEFT_OUT = 2, ("add_mul_exp", "matmul_bias_relu", "quantize_int8")
STEPS = re.findall(r" (\w+):\d+", re.search("(?m)^plan=.*", Path(pack.__file__).with_name("node.sh").read_text())[0])
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
    gone = [str(path) for path in cuda_tests() if path.name not in TESTS]
    gone += [f"benchmarks/{name}.py" for name in LEFT_OUT]
    git(clone, "rm", "-q", "--", *gone)
    (clone / "benchmarks" / "__init__.py").write_text(SMALL)
    timers = clone / TIMERS
    text = timers.read_text()
    for usual, fewer in FEWER.items():
        assert text.count(usual) == 1
        text = text.replace(usual, fewer)
    timers.write_text(text)
    git(clone, "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qam", "Leave out what takes long")
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
    environment = bare_node.torch_environment(opt / "torch" / ".venv")
    bare_node.add_fake_gpu(environment)
    require_triton()
    (site,) = environment.glob("lib/python*/site-packages")
    shutil.copytree(FOLDER, site, copy_function=bare_node.link, dirs_exist_ok=True)

    first = started(opt, tmp_path / "pack", out, "30")
    wait_for(r"== core: .*\n(?:(?!==).*\n)*\[ 50%\] round", out, first)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    (tmp_path / "killed").mkdir()
    archive.read(out / archive.TAR_NAME, tmp_path / "killed")
    assert {path.stem for path in (tmp_path / "killed" / "run").iterdir()} == {"build", "steps", *STEPS[:3]}
    before = len(log_of(out))
    assert f"PyTorch of {Path('/opt/torch/.venv/bin/python3')}" in log_of(out)
    assert re.search(r"[1-9]\d* passed", (out / "run" / "tests.txt").read_text())

    again = ("30", "--bench", "Cuda.time_hot.*eager")
    second = started(opt, tmp_path / "pack", out, *again, processes=20)
    assert second.wait(PATIENCE) == 0, log_of(out)
    text = log_of(out)[before:]
    assert re.search(r"resuming \w+ after 1 of 2 rounds", text)
    done = dict(re.findall(r"(\w+): \d+ s planned, \d+ taken, status (\d+)", log_of(out)))
    assert done == dict.fromkeys(STEPS, "0"), log_of(out)
    assert re.findall(r"== (\w+): done before", text) == STEPS[:3]
    assert "1 commit measured already" in text.partition("== track")[2]
    assert (opt / "clocks").read_text().split()[-1] == "reset"

    shutil.rmtree(out / "run")  # as on another machine, which has the tar alone
    shutil.rmtree(out / "work" / "repository" / "results" / "node")
    before = len(log_of(out))
    third = started(opt, tmp_path / "pack", out, "1", processes=40)
    assert third.wait(PATIENCE) == 0, log_of(out)
    assert re.findall(r"== (\w+): done before", log_of(out)[before:]) == STEPS[:-1]
    assert re.search(r"== track: not begun, it takes 60 s and -?\d+ are left", log_of(out)[before:])

    ours(clone, "offline", "unpack", str(out / archive.TAR_NAME), "--machine", "rehearsed")
    ours(clone, "report", "--out", str(tmp_path / "site"))
    page = (tmp_path / "site" / "index.html").read_text()
    assert "rehearsed" in page and newest[:8] in page
    (run,) = (clone / "results" / "rehearsed" / "runs").iterdir()
    assert {path.stem for path in run.iterdir()} >= {"manifest", "build", "steps", *STEPS}
    telemetry = (clone / "results" / "rehearsed" / "telemetry").glob("*.jsonl")
    rounds = [path for path in telemetry if not path.name.endswith((".failures.jsonl", ".sessions.jsonl"))]
    lines = [json.loads(line) for path in rounds for line in path.read_text().splitlines()]
    assert sum(line["p"][0] == "eager" for line in lines) == 2 * KERNELS
