"""Files of measuring processes: whole lines whoever writes beside them, block means, marks of running rounds."""

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kernel_velocity.engine import spool
from kernel_velocity.engine.spool import EarlierRoundDiedError, SpoolError, append, append_failure, spool_path
from kernel_velocity.engine.telemetry import decode, encode
from tests.engine.test_telemetry import FULL


@pytest.fixture
def full(monkeypatch):
    """A disk with room for half of the next write."""
    write, rooms = os.write, [0.5, 0]

    def half(descriptor, contents):
        if room := rooms.pop(0):
            return write(descriptor, contents[: int(len(contents) * room)])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(spool.os, "write", half)


def test_full_disk_leaves_no_half_line(tmp_path, full):
    path = tmp_path / "a.jsonl"
    path.write_text("before\n")
    with pytest.raises(SpoolError, match=r"No space left on device: .*a.jsonl"):
        append(path, FULL)
    assert path.read_text() == "before\n"


def test_mark_that_cannot_be_written_is_no_failure_of_the_series(tmp_path):
    (tmp_path / ".asv").write_text("no folder")
    with pytest.raises(SpoolError, match=r"Not a directory|File exists"):
        spool.begin(spool.mark_path(tmp_path, {"ASV_ENV_NAME": "env", "ASV_COMMIT": "c"}, "b", ("i", "c")), "1")


def test_concurrent_lines_do_not_mix(tmp_path):
    path = spool_path(tmp_path, "env", "0" * 40)
    threads = [threading.Thread(target=lambda: [append(path, FULL) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [decode(line) for line in path.read_text().splitlines()] == [decode(encode(FULL))] * 200


def test_failure_is_one_short_line(tmp_path):
    path = tmp_path / "a" / "b.failures.jsonl"
    error = ValueError("\x1b[91ma\x1b[0m\nb" + "x" * 9999)
    append_failure(path, benchmark="matmul.Cpu.time_hot", params=("native", "c"), when=1.0, error=error)
    (line,) = path.read_text().splitlines()
    text = json.loads(line)
    assert text["error"].startswith("ValueError: a b")
    assert len(text["error"]) == 500
    assert text["p"] == ["native", "c"]


ENVIRON = {"ASV_ENV_NAME": "env", "ASV_COMMIT": "c" * 40}


@pytest.fixture
def mark(tmp_path):
    return spool.mark_path(tmp_path, ENVIRON, "k.Cpu.time_hot", ("native", "float32-1M"))


def test_ended_round_leaves_no_mark(mark):
    for _ in range(3):
        spool.begin(mark, "run")
        spool.end(mark)
    assert not mark.exists()


def test_round_after_a_death_gives_up(tmp_path, mark):
    spool.begin(mark, "run")
    for _ in range(2):
        with pytest.raises(EarlierRoundDiedError, match="crashed its process or ran past its timeout"):
            spool.begin(mark, "run")
    spool.begin(spool.mark_path(tmp_path, ENVIRON, "k.Cpu.time_hot", ("eager", "float32-1M")), "run")  # another series
    spool.begin(mark, "next run")


def test_no_mark_without_a_commit(tmp_path):
    assert spool.mark_path(tmp_path, {}, "k", ()) is None
    spool.begin(None, "run")
    spool.end(None)


def test_run_is_that_of_the_parent():
    script = "from kernel_velocity.engine.spool import RUN; print(RUN)"
    root = Path(__file__).parents[2]
    runs = {subprocess.check_output([sys.executable, "-c", script], cwd=root, text=True) for _ in range(2)}
    assert len(runs) == 1
    assert runs.pop().startswith(f"{os.getpid()}")
