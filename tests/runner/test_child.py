"""A child process: its lines are passed on, and it ends with all that it started."""

import os
import signal
import sys
import threading
from pathlib import Path
from threading import Timer

import pytest

from kernel_velocity.runner import asv
from tests.waiting import wait_until

SAVES_WHEN_INTERRUPTED = """
import signal, time
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # inherited, where our main thread blocks it
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
    wait_until(lambda: not is_alive(pid), f"process {pid} is still there")


def interrupted():
    os.kill(os.getpid(), signal.SIGINT)


def failed():
    raise OSError


def interrupted_here():
    """Send us a signal that only this thread gets, as any thread may get it."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    interrupted()


@pytest.fixture
def main_thread_is_not_woken():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    yield
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def test_folders_of_a_killed_process_are_removed(run):
    program = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(asv.__file__).parents[2])!r})
from kernel_velocity.files import lasting_folder
print(lasting_folder("kv-test-"), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    status, (folder,) = run(program)
    assert status == -signal.SIGKILL and "kv-test-" in folder and not Path(folder).exists()


def test_second_interruption_ends_all_at_once(run, monkeypatch):
    """What the child started holds its output open, and neither of them hears the first one."""
    monkeypatch.setattr(asv, "SAVING", 600.0)
    command = f"[sys.executable, '-c', {IGNORES_INTERRUPTS!r}]"
    leaves = f"import subprocess, sys\nsubprocess.Popen({command}, start_new_session=True)\n"
    began = []

    def on_line(line):
        began.append(line)
        if len(began) == 2:  # both are deaf
            for seconds in (0.0, 0.5):
                Timer(seconds, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()

    with pytest.raises(KeyboardInterrupt):
        run(leaves + IGNORES_INTERRUPTS, on_line=on_line)
    assert began == ["ready", "ready"]


@pytest.mark.parametrize(
    ("act", "error", "lines"),
    [(interrupted, KeyboardInterrupt, 2), (interrupted_here, KeyboardInterrupt, 2), (failed, OSError, 1)],
)
def test_signal_to_us_and_an_error_of_a_receiver_end_the_child(run, request, act, error, lines):
    if act is interrupted_here:  # and not after a minute, when the child has ended
        request.getfixturevalue("main_thread_is_not_woken")
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
