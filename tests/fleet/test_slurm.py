"""Slurm, rehearsed: the script of dask-jobqueue under stand-ins for sbatch and scancel.

They start and end processes. They know nothing of queues, nodes and limits, which only a real cluster has.
"""

import contextlib
import os
import re
import signal
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from kernel_velocity.fleet import scheduler

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    # importorskip would import it here, and change what Ctrl-C does to the tests of all other files
    pytest.mark.skipif(find_spec("dask_jobqueue") is None, reason="the extra `fleet` is not installed"),
]

PATIENCE = 60.0  # s
# A job is a session of its own, so that scancel ends all that it started.
SBATCH = """#!/bin/sh
number=0
until mkdir "$JOBS/$number" 2> /dev/null; do number=$((number + 1)); done
cp "$1" "$JOBS/$number.sh"
SLURM_JOB_ID=$number setsid sh "$JOBS/$number.sh" > "$JOBS/$number.log" 2>&1 &
echo $! > "$JOBS/$number.pid"
echo "Submitted batch job $number"
"""
SCANCEL = """#!/bin/sh
for number; do kill -KILL -- -$(cat "$JOBS/$number.pid"); touch "$JOBS/$number.cancelled"; done
"""


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    """Put the stand-ins on PATH. Return the folder of the jobs, which are ended with the test."""
    programs, folder = tmp_path / "bin", tmp_path / "jobs"
    programs.mkdir()
    folder.mkdir()
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("JOBS", str(folder))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (Path(scheduler.__file__).parents[2],))))
    monkeypatch.setenv("KV_FLEET_FOLDER", str(tmp_path / "machines"))
    yield folder
    for path in folder.glob("*.pid"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(path.read_text()), signal.SIGKILL)


def wait(condition, what):
    until = time.monotonic() + PATIENCE
    while not (result := condition()):
        assert time.monotonic() < until, what
        time.sleep(0.1)
    return result


def test_preempted_job_of_slurm_is_replaced(jobs):
    wanted = scheduler.parse("slurm:nodes=2,partition=gpu,gpus=1,cpus=8,memory=4GB,time=01:00:00")
    with scheduler.connected(wanted) as client:
        scheduler.wait(client, wanted, print)
        before = scheduler.addresses(client)
        assert len(before) == 2
        script = (jobs / "0.sh").read_text()
        for line in ("-p gpu", "--gres=gpu:1", "--cpus-per-task=8", "-t 01:00:00", "-n 1", "--mem=4G"):
            assert re.search(rf"^#SBATCH {line}$", script, re.MULTILINE), script
        assert f"{sys.executable} -m distributed.cli.dask_worker" in script and "--nthreads 1" in script
        machines = scheduler.machines(client, wanted, before, print)
        assert [machine.device for machine in machines] == ["cpu", "cpu"]
        os.killpg(int((jobs / "0.pid").read_text()), signal.SIGKILL)  # as Slurm ends a job for a better one
        wait(lambda: before - scheduler.addresses(client), "the scheduler does not see that a job ended")
        wait(lambda: len(scheduler.addresses(client)) == 2, "no job in its place")
        assert (jobs / "2.sh").exists()
        assert client.submit(sum, [1, 2]).result(timeout=PATIENCE) == 3
    wait(lambda: len(list(jobs.glob("*.cancelled"))) >= 2, "jobs are left in the queue")
