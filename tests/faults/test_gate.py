"""`gate` and `bisect` through a real asv, on the tiny repository: what they find, and what they leave as it was."""

import json
import re

import pytest

from tests.faults.tiny import FASTER, GOOD, SLOWER, lines_with

pytestmark = pytest.mark.slow
SINGLE = ("--bench", "native.*1k")
BY_5_PERCENT = f"{GOOD}SLOWER = 1.05\n"
BROKEN = "int f( {"


def gate(tiny, *args):
    return tiny.run("kernel_velocity", "gate", *args)


def evidence(tiny, commit):
    """Return the rounds that sessions kept of a commit, in order of time."""
    paths = tiny.root.glob(f".asv/ab/*/*/*/{commit}.jsonl")
    lines = (line for path in paths for line in path.read_text().splitlines())
    return sorted((json.loads(line) for line in lines), key=lambda line: line["t"])


def test_slower_commit_is_found_and_the_history_is_left_alone(tiny):
    base = tiny.git("rev-parse", "HEAD")
    head = tiny.commit("Slow it down", kernel=BY_5_PERCENT)
    (tiny.root / "results").mkdir()
    (tiny.root / "results" / "benchmarks.json").write_text("{}")
    done = gate(tiny, base, "HEAD", *SINGLE, "--json", "gate.json")
    assert done.returncode == 10, done.stdout
    (row,) = json.loads((tiny.root / "gate.json").read_text())["series"]
    assert (row["answer"], row["rounds"]) == ("different", 8)
    assert row["low"] <= 1.05 <= row["high"] and row["high"] - row["low"] < 0.01
    assert [path.name for path in (tiny.root / "results").iterdir()] == ["benchmarks.json"]
    assert (tiny.root / "results" / "benchmarks.json").read_text() == "{}"
    assert not (tiny.root / ".asv" / "spool").exists()
    order = sorted([(line["t"], side) for side in "ab" for line in evidence(tiny, base if side == "a" else head)])
    assert "".join(side for _, side in order) == "baab" * 4
    again = gate(tiny, base, "HEAD", *SINGLE)
    assert again.returncode == 10 and not lines_with(again.stdout, "round 1/8"), again.stdout
    assert len(evidence(tiny, base)) == 8


def test_uncommitted_refactoring_is_the_same(tiny):
    (tiny.root / "kernels" / "__init__.py").write_text(FASTER)
    before = tiny.git("status", "--porcelain"), tiny.git("rev-parse", "HEAD")
    done = gate(tiny, "HEAD", ".", *SINGLE)
    assert done.returncode == 0, done.stdout
    assert lines_with(done.stdout, "scale.Cpu.time_hot native float32-1k", " same ")
    assert lines_with(done.stdout, "HEAD", "Working tree, uncommitted")
    assert (tiny.git("status", "--porcelain"), tiny.git("rev-parse", "HEAD")) == before


def test_head_that_does_not_build_is_no_clean_bill(tiny):
    base = tiny.git("rev-parse", "HEAD")
    head = tiny.commit("Change", kernel=FASTER, source=BROKEN)
    done = gate(tiny, base, "HEAD", *SINGLE)
    assert done.returncode == 22, done.stdout
    assert lines_with(done.stdout, "unknown, because", head[:8], "does not build")
    assert done.stdout.splitlines()[-1].endswith("(exit status 22)")


def test_bisect_names_exactly_the_commit(tiny):
    good = tiny.git("rev-parse", "HEAD")
    culprit = tiny.commit("Check the argument", kernel=SLOWER)
    tiny.commit("Refactor", kernel=SLOWER.replace("2 * x", "x + x"))
    args = ("scale.Cpu.time_hot", good, "HEAD", "--case", "float32-1k")
    done = tiny.run("kernel_velocity", "bisect", *args)
    assert done.returncode == 0, done.stdout
    assert lines_with(done.stdout, f"culprit: {culprit[:8]}  Check the argument (A)")
    assert re.search(r"against the commit before it: \+(9\.9\d|10\.\d)%", done.stdout)
