"""Runs that meet, that are interrupted, and that change their settings: nothing recorded is lost or misnamed."""

import signal

import pytest

from kernel_velocity.runner.session import PROVISIONAL
from tests.faults.tiny import FASTER, GOOD, end, lines_with, recorded, until
from tests.waiting import wait_until

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
SINGLE = {"KV_RANGE": "HEAD", "KV_BENCH": "native.*1k", "KV_MACHINE": "box"}


def test_second_run_in_a_clone_is_refused_or_waits(tiny):
    tiny.commit("Stuck", kernel=STUCK)
    processes = tiny.root.parent / "processes"
    processes.mkdir()
    for name in ("one", "two"):  # so that the first round does not end
        (processes / name).touch()
    # However long the others take on a busy machine: a round that runs past asv's timeout would end the first run
    first = tiny.begin("track", **SINGLE, KV_ROUNDS="2", TINY_PROCESSES=str(processes), TINY_TIMEOUT="1000")
    try:
        until(first, "round 1/2")
        second = tiny.track()
        (line,) = lines_with(second.stdout, "error:")
        assert second.returncode == 2
        cure = "wait for it (KV_WAIT=1 does)"
        assert line == f"error: another run is measuring in this clone (pid {first.pid}); {cure}"
        plain = tiny.asv("run", "-m", "box", "HEAD^!")
        assert plain.returncode == 1 and lines_with(plain.stdout, "another run is measuring", str(first.pid))
        third = tiny.begin("track", "--wait", **SINGLE, KV_ROUNDS="2")
        until(third, f"waiting: another run is measuring in this clone (pid {first.pid}); Ctrl-C ends this")
    finally:
        rest = end(first, signal.SIGINT)
    assert first.returncode == 130 and rest.splitlines()[-1] == "interrupted: what was measured so far is kept", rest
    rest = third.communicate()[0]
    assert third.returncode == 0 and lines_with(rest, "scale.Cpu native float32-1k"), rest


@pytest.mark.slow
def test_interrupted_run_ends_its_provisional_page(tiny):
    run = tiny.begin("track", **SINGLE, KV_ROUNDS="8", TINY_PAUSE="2")
    until(run, "First look: ")
    page = tiny.root / ".asv" / "html" / "kernel-velocity" / "index.html"
    assert PROVISIONAL in page.read_text() and "1 of 8 rounds of 1 commit measured, the others" in page.read_text()
    rest = end(run, signal.SIGINT)
    assert run.returncode == 130 and lines_with(rest, "Dashboard of what was measured: ", page.as_uri()), rest
    assert PROVISIONAL not in page.read_text()


@pytest.mark.slow
def test_killed_repetition_leaves_what_was_recorded(tiny):
    commit = tiny.commit("Stuck", kernel=STUCK)
    assert tiny.track(KV_ROUNDS="3", **SINGLE).returncode == 0
    value = recorded(tiny, commit)
    processes = tiny.root.parent / "processes"  # of the second run: one a round, and the third never ends
    processes.mkdir()
    process = tiny.begin("track", **SINGLE, KV_ROUNDS="8", KV_AGAIN="1", TINY_PROCESSES=str(processes))
    wait_until(lambda: len(list(processes.iterdir())) > 2)  # so asv has stored a round, and cannot store three
    end(process, signal.SIGKILL)
    done = tiny.track(KV_ROUNDS="3", **SINGLE)
    assert lines_with(done.stdout, "restored from 3 rounds"), done.stdout
    assert lines_with(done.stdout, "1 commit measured already")
    assert (recorded(tiny, commit), recorded(tiny, commit, column="stats_repeat")) == (value, 3)
    telemetry = (tiny.results / "telemetry" / f"{commit[:8]}-{tiny.environment}.jsonl").read_text()
    assert len(telemetry.splitlines()) == 3


@pytest.mark.slow
def test_bad_file_of_another_machine_leaves_our_pages(tiny):
    broken = tiny.root / "results" / "other" / "machine.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{")
    done = tiny.track(site=True, KV_BENCH="native.*1k")
    assert lines_with(done.stdout, "asv's own page could not be made")
    assert done.stdout.splitlines()[-1].startswith("Dashboard: ")
    assert (tiny.root / ".asv/html/kernel-velocity/index.html").exists()


@pytest.mark.slow
def test_commit_that_cannot_be_checked_out_is_one_line(tiny):
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
def test_environment_survives_a_missing_interpreter(tiny):
    assert tiny.track(KV_BENCH="native.*1k").returncode == 0
    (environment,) = (tiny.root / ".asv" / "env").iterdir()
    (environment / "bin" / "python").unlink()
    done = tiny.track(KV_AGAIN="1", KV_BENCH="native.*1k")
    assert done.returncode == 0, done.stdout
    assert not [line for line in done.stdout.splitlines() if line.startswith("built ")]
