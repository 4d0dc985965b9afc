"""`gate` and `bisect` through a real asv, on the tiny repository: what they find, and what they leave as it was."""

import json
import signal

import pytest

from tests.faults.tiny import FASTER, GOOD, SLOWER, WRONG, end, lines_with, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SINGLE = ("--bench", "native.*1k")
BY_5_PERCENT = f"{GOOD}SLOWER = 1.05\n"
BROKEN = "int f( {"


def gate(tiny, *args):
    return tiny.run("kernel_velocity", "gate", *args, limit=400)


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


@pytest.mark.parametrize(
    ("files", "bench", "status", "reason"),
    [
        ({"kernel": WRONG}, "(native|eager).*1k", 20, "scale native float32-1k is wrong: got 3, wanted 2"),
        ({"kernel": FASTER, "source": BROKEN}, "native.*1k", 22, "does not build"),
    ],
    ids=["wrong", "broken"],
)
def test_head_without_a_time_is_no_clean_bill(tiny, files, bench, status, reason):
    base = tiny.git("rev-parse", "HEAD")
    head = tiny.commit("Change", **files)
    done = gate(tiny, base, "HEAD", "--bench", bench)
    assert done.returncode == status, done.stdout
    assert lines_with(done.stdout, "unknown, because", head[:8], reason)
    assert done.stdout.splitlines()[-1].endswith(f"(exit status {status})")


def test_interrupted_gate_goes_on_where_it_was(tiny):
    base = tiny.git("rev-parse", "HEAD")
    head = tiny.commit("Slow it down", kernel=BY_5_PERCENT)
    process = tiny.begin("gate", base, "HEAD", *SINGLE, TINY_PAUSE="2")
    until(process, "round 3/8")  # the rounds that are left take 24 s, longer than any busy machine delays us
    rest = end(process, signal.SIGINT)
    assert process.returncode == 130 and "what was measured so far is kept" in rest
    before = {commit: evidence(tiny, commit) for commit in (base, head)}
    rounds = min(map(len, before.values()))
    assert 2 <= rounds < 8  # of one alone as many would be measured as of none
    done = gate(tiny, base, "HEAD", *SINGLE)
    assert done.returncode == 10, done.stdout
    for commit, lines in before.items():
        assert [line for line in evidence(tiny, commit) if line in lines] == lines
        assert len(evidence(tiny, commit)) <= len(lines) + 8 - rounds + 1  # made even
    assert not list((tiny.root / "results").glob("kv-ab"))


def test_bisect_names_exactly_the_commit(tiny):
    good = tiny.git("rev-parse", "HEAD")
    tiny.commit("Break the build", kernel=FASTER, source=BROKEN)
    tiny.commit("Refactor", kernel=FASTER, source=None)
    culprit = tiny.commit("Check the argument", kernel=SLOWER)
    bad = tiny.commit("Say what it does", kernel=f'"""Scale."""\n{SLOWER}')
    args = ("scale.Cpu.time_hot", good, bad, "--case", "float32-1k")
    done = tiny.run("kernel_velocity", "bisect", *args, limit=600)
    assert done.returncode == 0, done.stdout
    assert lines_with(done.stdout, f"culprit: {culprit[:8]}  Check the argument (A)")
    assert lines_with(done.stdout, "against the commit before it: +10.0%")
