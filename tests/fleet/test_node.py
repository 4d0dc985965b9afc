"""The script of a node: what it refuses before anything is set up."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kernel_velocity.fleet import pack
from tests.fake_cuda.test_cuda_tests import ROOT, cuda_tests

SCRIPT = Path(pack.__file__).with_name("node.sh")


def test_node_runs_every_file_of_tests_for_a_gpu(monkeypatch):
    monkeypatch.chdir(ROOT)
    (listing,) = re.findall(r"\$\((grep -r.*fake_cuda)\)", SCRIPT.read_text())
    done = subprocess.run(["sh", "-c", listing], capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == sorted(map(str, cuda_tests())) != []


@pytest.fixture
def run(tmp_path):
    """Return a function that starts the script in a small pack. It returns the status, and the last line printed."""
    folder = tmp_path / "pack"
    (folder / "wheels").mkdir(parents=True)
    shutil.copy(SCRIPT, folder / "run")
    (folder / "wheels" / "requirements-3.99.txt").write_text("alpha==1.0\n")
    with (folder / "SHA256SUMS").open("w") as sums:
        subprocess.run(["sha256sum", "run", "wheels/requirements-3.99.txt"], cwd=folder, stdout=sums, check=True)

    def script(*arguments, **variables):
        command = ["sh", str(folder / "run"), *map(str, arguments)]
        environ = {**os.environ, **variables}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, cwd=tmp_path)
        return done.returncode, done.stderr.splitlines()[-1]

    return script


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "name the folder of what is measured"),
        (["out", "an hour"], "an hour: whole minutes are wanted, such as 60"),
    ],
)
def test_arguments_that_make_no_sense_are_one_line(run, arguments, line):
    status, last = run(*arguments)
    assert status == 2 and last.startswith(f"error: {line}")


def test_unknown_step_is_named(run):
    status, last = run("out", SKIP="tests peek")
    steps = "doctor tests peaks core sharing clocks float8 triton timers track"
    assert (status, last) == (2, f"error: SKIP=peek: the steps are {steps}")


def test_plan_fits_into_fourteen_minutes():
    """Of an H200, with 23 s for setting up and building, 10 for the last tar, and what is left over for `track`."""
    plan = re.search("(?m)^plan=.*", SCRIPT.read_text())[0]
    seconds = {name: int(number) for name, number in re.findall(r" (\w+):(\d+)", plan)}
    assert 23 + 10 + sum(number for name, number in seconds.items() if name != "track") <= 14 * 60


def test_copy_that_broke_off_is_refused(run, tmp_path):
    (tmp_path / "pack" / "wheels" / "requirements-3.99.txt").write_text("alph")
    status, last = run("out")
    assert (status, last) == (2, f"error: {tmp_path}/pack: the copy of the pack broke off, copy it again")


def test_python_that_the_pack_has_no_wheels_for_is_not_taken(run):
    status, last = run("out", PYTHON="python3")
    assert status == 2 and last.startswith("error: no Python with PyTorch for which the pack has wheels")


def test_second_run_in_the_same_folder_is_refused(run, tmp_path):
    (tmp_path / "out" / "work").mkdir(parents=True)
    lock = ["flock", str(tmp_path / "out" / "work" / "lock"), "sleep", "60"]
    with subprocess.Popen(lock) as holder:
        try:
            while subprocess.run([*lock[:1], "-n", lock[1], "true"], check=False).returncode == 0:
                pass
            status, last = run("out")
        finally:
            holder.kill()
    assert status == 2 and "another run is at work here" in last
