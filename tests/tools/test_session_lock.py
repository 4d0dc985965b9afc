"""One run at a time in a clone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import lock
from tools.errors import UsageError

ROOT = Path(__file__).parents[2]


def other(root, holder=None):
    """Take the lock in another process; return what it printed."""
    environ = {key: value for key, value in os.environ.items() if key != lock.HOLDER}
    script = (
        "import sys, pathlib\nfrom tools import lock\n"
        "try: print(lock.take(pathlib.Path(sys.argv[1])) is not None)\n"
        "except Exception as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(root)],
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


def test_another_run_is_refused_and_a_child_of_the_holder_is_not(tmp_path):
    with lock.held(tmp_path):
        wanted = f"another run is measuring in this clone (pid {os.getpid()}); wait for it, or use another clone"
        assert other(tmp_path) == wanted
        assert other(tmp_path, holder="1") == wanted  # a holder of before
        assert other(tmp_path, holder=os.environ[lock.HOLDER]) == "False"  # our own asv takes no second lock
    assert other(tmp_path) == "True"


def test_a_run_does_not_lock_itself_out(tmp_path):
    with lock.held(tmp_path), lock.held(tmp_path):
        os.environ[lock.HOLDER] = "1"
        with pytest.raises(UsageError, match="another run is measuring"):
            lock.take(tmp_path)
