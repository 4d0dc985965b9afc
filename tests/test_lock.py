"""One measuring run at a time in a clone, and on a machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_velocity import lock
from kernel_velocity.errors import UsageError

ROOT = Path(__file__).parents[1]


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
    monkeypatch.setenv(lock.FOLDER, str(tmp_path / "machine"))
    return tmp_path / "a", tmp_path / "b"


def test_other_run_is_refused_but_no_child_of_the_holder(tmp_path):
    with lock.held(tmp_path):
        wanted = f"another run is measuring in this clone (pid {os.getpid()}); wait for it"
        assert other(tmp_path) == wanted
        assert other(tmp_path, holder="1") == wanted  # an earlier holder
        assert other(tmp_path, holder=os.environ[lock.HOLDER]) == "False"  # our own asv takes no second lock
    assert other(tmp_path) == "True"


def test_run_in_another_clone_is_refused(two):
    one, another = two
    with lock.held(one):
        wanted = f"another run is measuring on this machine (pid {os.getpid()}, {one}); wait for it"
        assert other(another) == wanted
        assert other(one, measures=False).startswith("another run is measuring in this clone")
        assert other(another, measures=False) == "True"  # it measures nothing
    assert other(another) == "True"


def test_clone_lock_is_released_where_the_machine_is_taken(two, monkeypatch):
    one, another = two
    with lock.held(one):
        monkeypatch.setenv(lock.HOLDER, "")
        with pytest.raises(UsageError, match="on this machine"):
            lock.take(another)
        assert os.environ[lock.HOLDER] == ""
        assert other(another, measures=False) == "True"


def test_child_of_the_holder_may_measure_in_another_clone(two):
    one, another = two
    with lock.held(one):
        assert other(another, holder=os.environ[lock.HOLDER]) == "True"


def test_clone_lock_leaves_the_machine_free(two):
    one, another = two
    with lock.held(one, measures=False):
        assert other(another) == "True"


def test_lock_does_not_follow_a_link(two, tmp_path):
    (tmp_path / "machine").mkdir()
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "machine" / f"kernel-velocity-{os.getuid()}.lock").symlink_to(tmp_path / "mine")
    with pytest.raises(UsageError, match=r"no lock can be there .*; KV_LOCK_FOLDER names another folder"):
        lock.take(two[0])
    assert (tmp_path / "mine").read_text() == "mine"


def test_lock_is_reentrant(tmp_path):
    with lock.held(tmp_path), lock.held(tmp_path):
        os.environ[lock.HOLDER] = "1"
        with pytest.raises(UsageError, match="another run is measuring"):
            lock.take(tmp_path)
