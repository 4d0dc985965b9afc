"""What a process starts ends with it, also where it is killed and whatever process group it has."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from kernel_velocity import lock, processes
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc")

# Starts a child and a grandchild, each in a session of its own. A forked one has its parent's environment.
STARTS = r"""
import os, subprocess, sys, time
from pathlib import Path
from kernel_velocity import lock
from kernel_velocity.processes import contained
CHILD = "import os, time; os.fork(); os.write(1, b'%d\\n' % os.getpid()); time.sleep(600)"
with {context}, contained():
    {first}
    subprocess.Popen([sys.executable, "-c", CHILD], start_new_session=True)
    sys.stdin.readline()
"""


def started(context, first="pass"):
    """Start a process that ends by a line of input. Return it and the numbers of its child and grandchild."""
    command = [sys.executable, "-c", STARTS.format(context=context, first=first)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process, [int(process.stdout.readline()) for _ in range(2)]


def wait_for_the_end(*pids):
    wait_until(lambda: not any(map(is_alive, pids)), f"{pids} are still there")


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def watchers(process):
    """Return the numbers of the watchers of a process."""
    numbers = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            words = path.read_text().split("\0")
            if processes.__file__ in words and any(word.startswith(f"{process.pid}-") for word in words):
                numbers.append(int(path.parent.name))
    return numbers


def test_child_and_grandchild_end_with_a_killed_parent():
    process, pids = started("contained()")
    assert all(map(is_alive, pids))
    process.kill()
    process.communicate()  # ends when nobody holds the pipe any more
    wait_for_the_end(*pids)


FORKS = r"""
import os, sys, time
from kernel_velocity.processes import contained
with contained():
    if os.fork() == 0:
        is_orphan = os.fork() == 0
        os.write(1, b"%d\n" % os.getpid())
        time.sleep(600 if is_orphan or {stays} else 0)
        os._exit(0)
    sys.stdin.readline()
print("ended", flush=True)
"""


@pytest.mark.parametrize("stays", [True, False])
def test_forks_end_with_the_body_though_they_hold_its_pipes(stays):
    command = [sys.executable, "-c", FORKS.format(stays=stays)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        pids = [int(process.stdout.readline()) for _ in range(2)]
        process.stdin.write("end\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ended\n"
        wait_for_the_end(*pids)


def test_fork_that_holds_the_pipe_does_not_hide_the_death():
    """The watcher sees that the process is gone, though the pipe stays open."""
    process, pids = started("contained()", "os.fork() or time.sleep(600)")
    process.kill()
    wait_for_the_end(*pids)
    process.communicate()


def test_body_ends_with_all_that_it_started_and_no_watcher():
    process, pids = started("contained()")
    process.communicate("end\n", timeout=PATIENCE)
    assert process.returncode == 0 and not any(map(is_alive, pids))
    assert not watchers(process)


def test_inner_body_ends_what_it_started_alone(monkeypatch):
    monkeypatch.delenv(processes.RUN, raising=False)
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    with processes.contained() as outer:
        before = subprocess.Popen(sleep)
        with processes.contained():
            within = subprocess.Popen(sleep)
            assert os.environ[processes.RUN] != outer[processes.RUN]
        assert within.wait(PATIENCE) == -signal.SIGKILL
        assert before.poll() is None and os.environ[processes.RUN] == outer[processes.RUN]
    assert before.wait(PATIENCE) == -signal.SIGKILL
    assert processes.RUN not in os.environ


def test_next_holder_of_a_lock_ends_what_the_last_left(tmp_path, monkeypatch):
    """Where somebody killed the watcher too, nothing may measure beside the next run."""
    monkeypatch.setenv(lock.LOCK_FOLDER, str(tmp_path))
    monkeypatch.delenv(lock.HOLDER, raising=False)
    process, pids = started(f"lock.held(Path({str(tmp_path)!r}))")
    for watcher in watchers(process):
        os.kill(watcher, signal.SIGKILL)
    process.kill()
    process.wait()
    assert all(map(is_alive, pids))
    with lock.held(tmp_path):
        assert not any(map(is_alive, pids))
    process.communicate()


def test_nothing_is_started_without_proc(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "_PROCESSES", tmp_path)
    with processes.contained() as variables:
        assert variables == {}
