"""Files of measuring processes: whole lines whoever writes beside them, block means, marks of running rounds."""

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.engine import spool
from kernel_velocity.engine.sampling import BLOCKS, block_means
from kernel_velocity.engine.spool import EarlierRoundDiedError, SpoolError, append, append_failure, spool_path
from kernel_velocity.engine.telemetry import decode, encode, parse
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
    append_failure(
        path, benchmark="matmul.Cpu.time_hot", params=("native", "c"), when=1.0, error=ValueError("a\nb" + "x" * 9999)
    )
    (line,) = path.read_text().splitlines()
    text = json.loads(line)
    assert text["error"].startswith("ValueError: a b")
    assert len(text["error"]) == 500
    assert text["p"] == ["native", "c"]


SETTINGS = {"KV_BLOCKS": "1", "ASV_ENV_NAME": "env", "ASV_COMMIT": "c" * 40}


@given(st.integers(1, 500))
def test_block_means_cover_every_sample_once(n):
    means = block_means(range(n))
    assert len(means) == min(n, BLOCKS)
    sizes, begin = [], 0
    for mean in means:
        size = round(2 * (mean - begin)) + 1  # of consecutive whole numbers from begin on
        assert mean == fmean(range(begin, begin + size))
        sizes.append(size)
        begin += size
    assert begin == n
    assert max(sizes) - min(sizes) <= 1


def stored(root):
    path = root / ".asv" / "blocks" / "env" / f"{'c' * 40}.jsonl"
    return [parse(line) for line in path.read_text().splitlines()] if path.exists() else None


def test_block_means_are_one_line_per_round(tmp_path):
    for means in ([1.2345678e-5, 2e-5], [3e-5]):
        spool.append_blocks(FULL, means, tmp_path, SETTINGS)
    identity = {"b": FULL.benchmark, "p": list(FULL.params), "l": FULL.launch}
    assert stored(tmp_path) == [{**identity, "seconds": [1.2346e-5, 2e-5]}, {**identity, "seconds": [3e-5]}]


@pytest.mark.parametrize("other", [{"KV_BLOCKS": ""}, {"KV_BLOCKS": "0"}, {"ASV_COMMIT": ""}, {"ASV_ENV_NAME": ""}])
def test_no_block_means_unless_requested(tmp_path, other):
    spool.append_blocks(FULL, [1e-5], tmp_path, SETTINGS | other)
    spool.append_blocks(FULL, [1e-5], tmp_path, {name: SETTINGS[name] for name in SETTINGS if name not in other})
    assert list(tmp_path.iterdir()) == []


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
