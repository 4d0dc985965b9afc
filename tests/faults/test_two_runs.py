"""Runs that meet, that are interrupted, and that change their settings: nothing recorded is lost or misnamed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.faults.test_faults import lines_with, recorded
from tests.faults.tiny import FASTER, GOOD

SLOW = "import time\ndef scale(x):\n    time.sleep(.3)\n    return 2 * x\n"
STUCK = """\
import os, pathlib, time

def scale(x):
    folder = os.environ.get("TINY_PROCESSES")
    if folder:
        pathlib.Path(folder, str(os.getpid())).touch()
        while len(os.listdir(folder)) > 2:
            time.sleep(.1)
            if not os.path.exists(folder):
                os._exit(0)
    return 2 * x
"""


def begin(tiny, **more):
    """Start what `make track` runs; return the process."""
    return subprocess.Popen(
        [sys.executable, "-m", "kernel_velocity", "track"],
        cwd=tiny.root,
        env=tiny.variables(**{"KV_ROUNDS": "8", "KV_MACHINE": "box", **more}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def until(process, word):
    """Read a process's output up to a line with a word."""
    for line in process.stdout:
        if word in line:
            return
    raise AssertionError(f"{word!r} was not printed")


def end(process, number):
    os.killpg(process.pid, number)
    return process.communicate(timeout=60)[0]


def wait_for(condition, seconds=60):
    """Wait for a condition, so long at most."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, f"it did not come about within {seconds} s"
        time.sleep(0.05)


def count(tiny, commit, case="float32-1k"):
    data = json.loads((tiny.results / f"{commit[:8]}-{tiny.environment}.json").read_text())
    row = dict(zip(data["result_columns"], data["results"]["scale.Cpu.time_hot"], strict=False))
    place = len(row["params"][1]) * row["params"][0].index("'native'") + row["params"][1].index(repr(case))
    return row["stats_repeat"][place]


def test_a_second_run_in_the_same_clone_is_refused(tiny):
    tiny.commit("Slow", kernel=SLOW)
    first = begin(tiny, KV_BENCH="native.*1k", KV_RANGE="HEAD", KV_ROUNDS="2")
    try:
        until(first, "round 1/2")
        second = tiny.track()
        (line,) = lines_with(second.stdout, "error:")
        assert second.returncode == 2
        assert line == (f"error: another run is measuring in this clone (pid {first.pid}); wait for it")
        plain = tiny.asv("run", "-m", "box", "HEAD^!")
        assert plain.returncode == 1 and lines_with(plain.stdout, "another run is measuring", str(first.pid))
    finally:
        rest = first.communicate(timeout=60)[0]
    assert first.returncode == 0, rest


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_what_was_recorded_survives_an_interrupted_repetition(tiny, number):
    commit = tiny.commit("Stuck", kernel=STUCK)
    settings = {"KV_RANGE": "HEAD", "KV_BENCH": "native.*1k"}
    assert tiny.track(KV_ROUNDS="5", **settings).returncode == 0
    value = recorded(tiny, commit)
    processes = tiny.root.parent / "processes"  # of the second run: one a round, and the third never ends
    processes.mkdir()
    process = begin(tiny, KV_AGAIN="1", TINY_PROCESSES=str(processes), **settings)
    wait_for(lambda: len(list(processes.iterdir())) > 2)  # so asv has stored a round, and cannot store five
    rest = end(process, number)
    shutil.rmtree(processes)  # which ends the third, where a killed asv has left it
    done = tiny.track(KV_ROUNDS="5", **settings)
    assert lines_with(rest if number is signal.SIGINT else done.stdout, "is put back"), rest + done.stdout
    assert lines_with(done.stdout, "1 commits are measured already")
    assert (recorded(tiny, commit), count(tiny, commit)) == (value, 5)
    kept = (tiny.results / "telemetry" / f"{commit[:8]}-{tiny.environment}.jsonl").read_text()
    assert len(kept.splitlines()) == 5


@pytest.mark.slow
def test_another_number_of_threads_is_measured_again(tiny):
    assert tiny.track(KV_BENCH="native").returncode == 0
    assert lines_with(tiny.track(KV_BENCH="native").stdout, "0 commits measured")
    assert lines_with(tiny.track(KV_BENCH="native", KV_THREADS="2").stdout, "1 commits measured")


@pytest.mark.slow
def test_what_was_not_asked_for_is_measured_later(tiny):
    commit = tiny.git("rev-parse", "HEAD")
    assert tiny.track(KV_BENCH="native").returncode == 0
    assert lines_with(tiny.track().stdout, "1 commits measured")
    assert recorded(tiny, commit, "eager") > 0
    assert lines_with(tiny.track().stdout, "0 commits measured")


@pytest.mark.slow
def test_one_bad_file_of_another_machine_leaves_our_pages(tiny):
    broken = tiny.root / "results" / "other" / "machine.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{")
    done = tiny.track()
    assert lines_with(done.stdout, "asv's own page could not be made")
    assert done.stdout.splitlines()[-1].startswith("Dashboard: ")
    assert (tiny.root / ".asv/html/kernel-velocity/index.html").exists()


@pytest.mark.slow
def test_a_commit_that_cannot_be_checked_out_costs_one_line(tiny):
    first = tiny.git("rev-parse", "HEAD")
    assert tiny.track(KV_BENCH="native.*1k").returncode == 0
    (tiny.root / ".gitmodules").write_text('[submodule "x"]\n\tpath = x\n\turl = /no/such/repository\n')
    (tiny.root / "kernels" / "__init__.py").write_text(FASTER)
    tiny.git("update-index", "--add", "--cacheinfo", f"160000,{first},x")
    tiny.git("add", ".gitmodules", "kernels")
    tiny.git("commit", "-q", "-m", "Submodule")
    bad = tiny.git("rev-parse", "HEAD")
    tiny.git("rm", "-q", "--cached", "x", ".gitmodules")
    good = tiny.commit("Mend", kernel=GOOD)
    done = tiny.track(KV_BENCH="native.*1k")
    assert done.returncode == 21, done.stdout
    (line,) = lines_with(done.stdout, "build failed", bad[:8])
    assert "cannot be checked out" in line
    assert recorded(tiny, good) > 0


@pytest.mark.slow
def test_another_compiler_is_said_and_again_builds_with_it(tiny):
    tiny.commit("Compile", kernel=GOOD, source="int f() { return 0; }")
    assert tiny.track(KV_RANGE="HEAD").returncode == 0
    done = tiny.track(KV_RANGE="HEAD", KV_CUDA_ARCHITECTURES="sm_90")
    assert lines_with(done.stdout, "note:", "was built with", "`make track AGAIN=1`") and not lines_with(
        done.stdout, "] round"
    )
    began = time.time()
    again = tiny.track(KV_RANGE="HEAD", KV_CUDA_ARCHITECTURES="sm_90", KV_AGAIN="1")
    assert lines_with(again.stdout, "built ", " in ")
    (stamp,) = tiny.root.glob(".asv/env/*/asv-build-cache/*/toolchain.txt")
    assert stamp.stat().st_mtime >= began and "sm_90" in stamp.read_text()
