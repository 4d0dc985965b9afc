"""A child process: its lines are passed on, and it ends with all that it started."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from kernel_velocity.runner import asv

SAVES_WHEN_INTERRUPTED = """
import time
try:
    print("ready", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("saved", flush=True)
"""
IGNORES_INTERRUPTS = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""
LEAVES_A_PROCESS = """
import subprocess, sys
command = [sys.executable, "-c", "import time; time.sleep(600)"]
print(subprocess.Popen(command{}).pid, flush=True)
"""
OF_ITS_GROUP = LEAVES_A_PROCESS.format("")  # it holds the pipe open
OF_ANOTHER_GROUP = LEAVES_A_PROCESS.format(", start_new_session=True, stdout=subprocess.DEVNULL")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs a program. It returns its status and its output."""
    monkeypatch.chdir(tmp_path)

    def run(program, on_line=lambda _: None):
        lines = []

        def receive(line):
            lines.append(line)
            on_line(line)

        return asv.run_child([sys.executable, "-c", program], receive, environ=os.environ), lines

    return run


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


def test_lines_are_passed_on(run):
    program = "import sys; print('one'); print('USDT: noise'); print('two', file=sys.stderr); sys.exit(7)"
    status, lines = run(program)
    assert (status, sorted(lines)) == (7, ["one", "two"])


@pytest.mark.parametrize("program", [OF_ITS_GROUP, OF_ANOTHER_GROUP])  # as asv's forking server has one of its own
def test_nothing_is_left_behind(run, program):
    status, (pid,) = run(program)
    assert status == 0
    until = time.monotonic() + 30
    while is_alive(pid):
        assert time.monotonic() < until, f"process {pid} is still there"
        time.sleep(0.05)


def interrupted():
    os.kill(os.getpid(), signal.SIGINT)


def failed():
    raise OSError


@pytest.mark.parametrize(("act", "error", "lines"), [(interrupted, KeyboardInterrupt, 2), (failed, OSError, 1)])
def test_signal_to_us_and_an_error_of_a_receiver_end_the_child(run, act, error, lines):
    received = []

    def on_line(line):
        received.append(line)
        if line == "ready":
            act()

    with pytest.raises(error):
        run(SAVES_WHEN_INTERRUPTED, on_line=on_line)
    assert received == ["ready", "saved"][:lines]


def test_child_that_does_not_end_is_killed(run, monkeypatch):
    monkeypatch.setattr(asv, "SAVING", 0.5)
    with pytest.raises(OSError):
        run(IGNORES_INTERRUPTS, on_line=lambda _: failed())


def test_signal_to_us_while_the_child_ends_kills_it(run, monkeypatch):
    send = asv._signal

    def interrupted_again(process, number):
        send(process, number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt

    monkeypatch.setattr(asv, "_signal", interrupted_again)
    with pytest.raises(KeyboardInterrupt):  # and not after ten minutes
        run(IGNORES_INTERRUPTS, on_line=lambda _: interrupted())
