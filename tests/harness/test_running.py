"""A mark that is left over says that a process died, once per run of asv."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_velocity.harness import running
from kernel_velocity.harness.running import EarlierRoundDiedError

ENVIRON = {"ASV_ENV_NAME": "env", "ASV_COMMIT": "c" * 40}


@pytest.fixture
def mark(tmp_path):
    return running.mark_path(tmp_path, ENVIRON, "k.Cpu.time_hot", ("native", "float32-1M"))


def test_a_round_that_ends_leaves_nothing(mark):
    for _ in range(3):
        running.begin(mark, "run")
        running.end(mark)
    assert not mark.exists()


def test_the_round_after_a_death_gives_up_and_so_do_the_next(mark):
    running.begin(mark, "run")
    for _ in range(2):
        with pytest.raises(EarlierRoundDiedError, match="crashed its process or ran past its timeout"):
            running.begin(mark, "run")


def test_another_run_tries_again(mark):
    running.begin(mark, "killed run")
    running.begin(mark, "next run")
    running.end(mark)


def test_series_do_not_share_a_mark(tmp_path, mark):
    running.begin(mark, "run")
    running.begin(running.mark_path(tmp_path, ENVIRON, "k.Cpu.time_hot", ("eager", "float32-1M")), "run")


def test_without_a_commit_there_is_no_mark(tmp_path):
    assert running.mark_path(tmp_path, {}, "k", ()) is None
    running.begin(None, "run")
    running.end(None)


def test_children_of_one_parent_agree_on_the_run():
    script = "from kernel_velocity.harness.running import RUN; print(RUN)"
    root = Path(__file__).parents[2]
    said = {subprocess.check_output([sys.executable, "-c", script], cwd=root, text=True) for _ in range(2)}
    assert len(said) == 1
    assert said.pop().startswith(f"{os.getpid()}")
