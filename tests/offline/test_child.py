"""A stage's process: its output is kept, and it ends in time, with all that it started."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernel_velocity.offline import child
from kernel_velocity.offline.child import Clock, TerminatedError

SAYS_WHEN_INTERRUPTED = """
import signal, sys, time
def end(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGINT, end)
print("ready", flush=True)
time.sleep(60)
"""
IGNORES = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
"""
LEAVES_A_GROUP = """
import subprocess, sys
command = [sys.executable, "-c", "import time; time.sleep(600)"]
quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}  # nobody waits for the end of its output
print(subprocess.Popen(command, start_new_session=True, **quiet).pid, flush=True)
"""
LEAVES_A_CHILD = """
import subprocess, sys
process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(process.pid, flush=True)
"""


def run(tmp_path, program, seconds=None, echo=None):
    lines = []
    status = child.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        environ=os.environ,
        log=tmp_path / "logs" / "x.log",
        echo=echo or lines.append,
        seconds=seconds,
    )
    return status, lines


def test_output_is_passed_on_and_kept(tmp_path):
    program = "import sys; print('one'); print('two', file=sys.stderr); sys.exit(7)"
    status, lines = run(tmp_path, program)
    assert (status, sorted(lines)) == (7, ["one", "two"])
    assert sorted((tmp_path / "logs" / "x.log").read_text().split()) == ["one", "two"]
    run(tmp_path, "print('three')")
    assert (tmp_path / "logs" / "x.log").read_text().endswith("three\n")  # a later slice adds to it


def test_what_is_cut_off_may_save_what_it_has(tmp_path):
    status, lines = run(tmp_path, SAYS_WHEN_INTERRUPTED, seconds=2)
    assert (status, lines) == (None, ["ready", "saved"])


def test_what_does_not_end_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(child, "PATIENCE", 0.5)
    began = time.monotonic()
    assert run(tmp_path, IGNORES, seconds=2)[0] is None
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("program", [LEAVES_A_CHILD, LEAVES_A_GROUP])
def test_nothing_of_it_is_left_behind(tmp_path, program):
    """asv's forking server has a process group of its own."""
    status, (pid,) = run(tmp_path, program)
    assert status == 0
    for _ in range(100):
        if not alive(int(pid)):
            return
        time.sleep(0.05)
    pytest.fail(f"process {pid} is still there")


def test_what_a_killed_run_left_is_ended_by_the_next(tmp_path):
    """Else two would measure at once."""
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    processes = []
    for folder in (here, elsewhere):
        environ = {**os.environ, child._MARK: str(folder)}
        processes.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env=environ))
    try:
        child.end_leftovers(here)
        assert processes[0].wait(30) == -signal.SIGKILL
        assert processes[1].poll() is None  # another clone's is none of ours
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_signal_while_the_child_ends_leaves_nothing_either(tmp_path, monkeypatch):
    def terminate(*_):
        raise TerminatedError

    before = signal.signal(signal.SIGALRM, terminate)
    signal.setitimer(signal.ITIMER_REAL, 2.5)
    began = time.monotonic()
    try:
        with pytest.raises(TerminatedError):
            run(tmp_path, IGNORES, seconds=2)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - began < 15  # and not what the child would have taken


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


def test_a_signal_to_us_ends_the_child_too(tmp_path):
    def terminate(*_):
        raise TerminatedError

    before = signal.signal(signal.SIGTERM, terminate)
    lines = []

    def echo(line):
        lines.append(line)
        if line == "ready":
            os.kill(os.getpid(), signal.SIGTERM)

    try:
        with pytest.raises(TerminatedError):
            run(tmp_path, SAYS_WHEN_INTERRUPTED, echo=echo)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert lines == ["ready", "saved"]


def test_a_log_that_cannot_be_written_does_not_stop_the_stage(tmp_path):
    lines = []
    status = child.run(
        [sys.executable, "-c", "print('x' * 100_000); print('end')"],
        cwd=tmp_path,
        environ=os.environ,
        log=Path("/dev/full"),
        echo=lines.append,
        seconds=None,
    )
    assert status == 0 and lines[-1] == "end"
    assert any("No space left" in line for line in lines)


def test_a_clock():
    assert Clock(None).has(1e9) and Clock(None).left is None
    clock = Clock(time.monotonic() + 100)
    assert clock.has(90) and not clock.has(110)
    assert not Clock(time.monotonic() - 1).has(0)
