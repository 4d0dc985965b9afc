"""One measuring run at a time in a clone, and on a machine."""

import argparse
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_velocity import lock, processes
from kernel_velocity.__main__ import main
from kernel_velocity.errors import UsageError

ROOT = Path(__file__).parents[1]
CURE = "wait for it (KV_WAIT=1 does)"
WAITS = """\
import pathlib, sys
from kernel_velocity import lock
with lock.held(pathlib.Path(sys.argv[1]), wait=True if len(sys.argv) > 2 else None):
    print("measures", flush=True)
"""


def other(root, holder=None, measures=True):
    """Take the lock in another process. Return its output."""
    environ = {key: value for key, value in os.environ.items() if key != lock.HOLDER}
    script = (
        "import sys, pathlib\nfrom kernel_velocity import lock\n"
        "try: print(lock.take(pathlib.Path(sys.argv[1]), measures=bool(sys.argv[2])) is not None)\n"
        "except Exception as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(root), "measures" if measures else ""],
        cwd=ROOT,
        env=environ | ({} if holder is None else {lock.HOLDER: holder}),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    monkeypatch.setenv(lock.HOLDER, "")


@pytest.fixture
def two(tmp_path, monkeypatch):
    """Two clones on a machine of their own, for this process and those that it starts."""
    monkeypatch.setenv(lock.LOCK_FOLDER, str(tmp_path / "machine"))
    return tmp_path / "a", tmp_path / "b"


def test_other_run_is_refused_but_no_child_of_the_holder(tmp_path):
    with lock.held(tmp_path):
        wanted = f"another run is measuring in this clone (pid {os.getpid()}); {CURE}"
        assert other(tmp_path) == wanted
        assert other(tmp_path, holder="1") == wanted  # an earlier holder
        assert other(tmp_path, holder=os.environ[lock.HOLDER]) == "False"  # our own asv takes no second lock
    assert other(tmp_path) == "True"


def test_run_in_another_clone_is_refused(two):
    first, another = two
    with lock.held(first):
        wanted = f"another run is measuring on this machine (pid {os.getpid()}, {first}); {CURE}"
        assert other(another) == wanted
        assert other(first, measures=False).startswith("another run is measuring in this clone")
        assert other(another, measures=False) == "True"  # it measures nothing
    assert other(another) == "True"


def test_clone_lock_is_released_where_the_machine_is_taken(two, monkeypatch):
    first, another = two
    with lock.held(first):
        monkeypatch.setenv(lock.HOLDER, "")
        with pytest.raises(UsageError, match="on this machine"):
            lock.take(another)
        assert os.environ[lock.HOLDER] == ""
        assert other(another, measures=False) == "True"


def test_child_of_the_holder_may_measure_in_another_clone(two):
    first, another = two
    with lock.held(first):
        assert other(another, holder=os.environ[lock.HOLDER]) == "True"


def test_lock_does_not_follow_a_link(two, tmp_path):
    (tmp_path / "machine").mkdir()
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "machine" / f"kernel-velocity-{os.getuid()}.lock").symlink_to(tmp_path / "mine")
    with pytest.raises(UsageError, match=r"the lock cannot be opened .*; KV_LOCK_FOLDER names another folder"):
        lock.take(two[0])
    assert (tmp_path / "mine").read_text() == "mine"


def test_lock_is_reentrant(tmp_path):
    with lock.held(tmp_path), lock.held(tmp_path):
        os.environ[lock.HOLDER] = "1"
        with pytest.raises(UsageError, match="another run is measuring"):
            lock.take(tmp_path)


def waiting(root, *, variable="0"):
    """Start a process that waits for the locks of a clone. Return it when it waits, and its line.

    It is none that the holder started: those end with the holder.
    """
    environ = {key: value for key, value in os.environ.items() if key not in (lock.HOLDER, processes.RUN)}
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS, str(root), *(["--wait"] if variable == "0" else [])],
        cwd=ROOT,
        env=environ | {lock.WAIT: variable},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return process, process.stderr.readline()


@pytest.mark.parametrize("clone", [0, 1], ids=["in the clone", "in another clone"])
def test_waiting_run_names_the_holder_once_and_measures_after_it(two, clone):
    first, where = two[0], ["in this clone ({})", "on this machine ({}, {})"][clone]
    with lock.held(first):
        process, line = waiting(two[clone])
        run = where.format(f"pid {os.getpid()}", first)
        assert line == f"waiting: another run is measuring {run}; Ctrl-C ends this\n"
        assert process.poll() is None
        # What waits for the machine holds nothing: its clone may be used for what does not measure
        assert clone == 0 or other(two[clone], measures=False) == "True"
    assert process.communicate() == ("measures\n", "")
    assert process.returncode == 0
    assert other(first) == "True"


def test_interrupted_waiting_ends_while_the_lock_is_held(two):
    with lock.held(two[0]):
        process, _ = waiting(two[1], variable="1")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (out, process.returncode) == ("", -signal.SIGINT) and err.endswith("KeyboardInterrupt\n")


@pytest.mark.parametrize(("text", "waits"), [(None, False), ("", False), ("0", False), ("1", True)])
def test_option_defaults_to_the_variable(monkeypatch, text, waits):
    monkeypatch.delenv(lock.WAIT, raising=False)
    if text is not None:
        monkeypatch.setenv(lock.WAIT, text)
    parser = argparse.ArgumentParser()
    lock.add_wait(parser)
    assert parser.parse_args([]).wait is waits
    assert parser.parse_args(["--wait"]).wait is True


class Acquired(BaseException):
    """The locks were asked for, as the test wants them."""


@pytest.mark.parametrize(
    "command",
    [
        ["track"],
        ["nightly"],
        ["gate", "HEAD~1", "HEAD"],
        ["bisect", "matmul.Cpu.time_hot", "HEAD~1", "HEAD"],
        ["compare", "add_mul_exp", "--sizes", "1M", "--quiet"],
    ],
    ids=lambda command: command[0],
)
def test_commands_wait_where_they_are_asked_to(monkeypatch, command):
    pytest.importorskip("torch", reason="most of the commands need it before they take a lock")
    monkeypatch.chdir(ROOT)
    calls = []

    def take(root, *, measures=True, wait=False):
        calls.append(wait)
        raise Acquired

    monkeypatch.setattr(lock, "take", take)
    for options in ([], ["--wait"]):
        with pytest.raises(Acquired):
            main([*command, *options], io.StringIO(), io.StringIO())
    assert calls == [False, True]
