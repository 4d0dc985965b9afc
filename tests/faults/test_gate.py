"""`gate` and `bisect` through a real asv, on the tiny repository: what they find, and what they leave as it was."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.faults.test_faults import WRONG, lines_with
from tests.faults.tiny import FASTER, GOOD

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ONE = ("--bench", "native.*1k")


def slower(factor):
    return f"{GOOD}SLOWER = {factor}\n"


def gate(tiny, *args):
    return tiny.run("kernel_velocity", "gate", *args, limit=400)


def evidence(tiny, commit):
    """Return the rounds that sessions kept of a commit, in order of time."""
    paths = tiny.root.glob(f".asv/ab/*/*/*/{commit}.jsonl")
    lines = (line for path in paths for line in path.read_text().splitlines())
    return sorted((json.loads(line) for line in lines), key=lambda line: line["t"])


def test_a_slower_commit_is_found_and_the_history_is_left_alone(tiny):
    base = tiny.git("rev-parse", "HEAD")
    head = tiny.commit("Slow it down", kernel=slower(1.05))
    (tiny.root / "results").mkdir()
    (tiny.root / "results" / "benchmarks.json").write_text("{}")
    done = gate(tiny, base, "HEAD", *ONE, "--json", "gate.json")
    assert done.returncode == 10, done.stdout
    (row,) = json.loads((tiny.root / "gate.json").read_text())["series"]
    assert (row["answer"], row["rounds"]) == ("different", 8)
    assert row["low"] <= 1.05 <= row["high"] and row["high"] - row["low"] < 0.01
    assert [path.name for path in (tiny.root / "results").iterdir()] == ["benchmarks.json"]
    assert (tiny.root / "results" / "benchmarks.json").read_text() == "{}"
    assert not (tiny.root / ".asv" / "spool").exists()
    order = sorted([(line["t"], side) for side in "ab" for line in evidence(tiny, base if side == "a" else head)])
    assert "".join(side for _, side in order) == "baab" * 4
    again = gate(tiny, base, "HEAD", *ONE)
    assert again.returncode == 10 and not lines_with(again.stdout, "round 1/8"), again.stdout
    assert len(evidence(tiny, base)) == 8


def test_an_innocent_refactoring_that_is_not_committed_yet(tiny):
    (tiny.root / "kernels" / "__init__.py").write_text(FASTER)
    before = tiny.git("status", "--porcelain"), tiny.git("rev-parse", "HEAD")
    done = gate(tiny, "HEAD", ".", *ONE)
    assert done.returncode == 0, done.stdout
    assert lines_with(done.stdout, "scale.Cpu.time_hot native float32-1k", " same ")
    assert lines_with(done.stdout, "HEAD", "Working tree, uncommitted")
    assert (tiny.git("status", "--porcelain"), tiny.git("rev-parse", "HEAD")) == before


def test_a_kernel_that_is_wrong_and_one_that_does_not_build(tiny):
    base = tiny.git("rev-parse", "HEAD")
    tiny.commit("Fail", kernel=WRONG)
    done = gate(tiny, base, "HEAD", "--bench", "(native|eager).*1k")
    assert done.returncode == 20, done.stdout
    assert lines_with(done.stdout, "unknown, because failed at", "scale native float32-1k is wrong: got 3, wanted 2")
    broken = tiny.commit("Break", kernel=FASTER, source="int f( {")
    done = gate(tiny, base, "HEAD", *ONE)
    assert done.returncode == 22, done.stdout
    assert lines_with(done.stdout, "unknown, because", broken[:8], "does not build", "fast.c:1")
    assert done.stdout.splitlines()[-1] == "verdict: nothing was compared; does not build (exit status 22)"


def test_a_kernel_that_is_not_there_yet_gives_nothing_to_compare(tiny):
    base = tiny.commit("Remove", kernel="", source=None)
    tiny.commit("Add it again", kernel=GOOD)
    done = gate(tiny, base, "HEAD", *ONE)
    assert done.returncode == 22, done.stdout
    assert lines_with(done.stdout, f"unknown, because n/a at {base[:8]}: no such kernel at this commit")
    assert lines_with(done.stdout, "verdict: nothing was compared; n/a (exit status 22)")


def test_a_kernel_that_is_not_there_any_more_is_no_clean_bill(tiny):
    base = tiny.git("rev-parse", "HEAD")
    head = tiny.commit("Remove", kernel="")
    done = gate(tiny, base, "HEAD", "--bench", "(native|eager).*1k")
    assert done.returncode == 11, done.stdout
    assert lines_with(done.stdout, f"unknown, because n/a at {head[:8]}, and not before: no such kernel")


def test_what_is_interrupted_goes_on_where_it_was(tiny):
    base = tiny.git("rev-parse", "HEAD")
    head = tiny.commit("Slow it down", kernel=slower(1.05))
    process = subprocess.Popen(
        [sys.executable, "-m", "kernel_velocity", "gate", base, "HEAD", *ONE],
        cwd=tiny.root,
        env=tiny.variables(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    # Early: the rounds that are left take five seconds
    assert any("round 2/8" in line for line in process.stdout)
    os.killpg(process.pid, signal.SIGINT)
    rest = process.communicate(timeout=200)[0]
    assert process.returncode == 130 and "what was measured so far is kept" in rest
    kept = {commit: evidence(tiny, commit) for commit in (base, head)}
    rounds = min(map(len, kept.values()))
    assert 1 <= rounds < 8
    done = gate(tiny, base, "HEAD", *ONE)
    assert done.returncode == 10, done.stdout
    for commit, lines in kept.items():
        assert [line for line in evidence(tiny, commit) if line in lines] == lines
        assert len(evidence(tiny, commit)) <= len(lines) + 8 - rounds + 1  # made even
    assert not list((tiny.root / "results").glob("kv-ab"))


def bisect(tiny, good, bad):
    return tiny.run("kernel_velocity", "bisect", "scale.Cpu.time_hot", good, bad, "--case", "float32-1k", limit=600)


def test_bisect_names_exactly_the_commit(tiny):
    good = tiny.git("rev-parse", "HEAD")
    tiny.commit("Break the build", kernel=FASTER, source="int f( {")
    tiny.commit("Refactor", kernel=FASTER, source=None)
    culprit = tiny.commit("Check the argument", kernel=slower(1.1))
    bad = tiny.commit("Say what it does", kernel=f'"""Scale."""\n{slower(1.1)}')
    done = bisect(tiny, good, bad)
    assert done.returncode == 0, done.stdout
    assert lines_with(done.stdout, f"culprit: {culprit[:8]}  Check the argument (A)")
    assert lines_with(done.stdout, "against the commit before it: +10.0%")
    (path,) = tiny.root.glob(".asv/ab/bisect-*.json")
    said = json.loads(path.read_text())
    assert [item["sha"] for item in said["left"]] == [culprit]
    assert [(step["slow"], step["answer"]) for step in said["steps"]] == [(False, "same"), (True, "different")]
