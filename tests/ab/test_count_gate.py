"""`kv gate --counts`: its statuses and reports, and two commits of a C library, one kernel of which crashes."""

import json
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kernel_velocity import lock
from kernel_velocity.ab import count_gate
from kernel_velocity.ab.count_gate import CountReport
from kernel_velocity.counts.changes import FigureKey, Rules
from kernel_velocity.findings.report import as_json, as_junit, as_markdown
from kernel_velocity.results.records import Commit
from kernel_velocity.runner.figures import Side
from kernel_velocity.suite.counting import Call
from tests.counts.counting import COUNTS, DEFINITION, gate, repository_of

SCALE, NORM = Call("scale", "native", "float32-4k"), Call("norm", "native", "float32-4k")
INSTRUCTIONS, READS = (FigureKey("scale", "native", "float32-4k-avx2", name) for name in ("instructions", "reads"))
SPILLS = FigureKey("scale", "native", "sm_90", "spill_bytes")
TOOLS = Path(count_gate.__file__).parents[2]


def commit(sha):
    when = datetime(2026, 1, 1, tzinfo=UTC)
    return Commit(sha=sha * 40, date=when, committed=when, author="Ann", message=f"Change {sha}", parents=())


def report(before, after, calls=(SCALE,), **options):
    sides = [side if isinstance(side, Side) else Side(figures=side) for side in (before, after)]
    options = {"rules": Rules(), "seconds": 3.0, **options}
    return CountReport(base=commit("a"), head=commit("b"), before=sides[0], after=sides[1], calls=calls, **options)


@pytest.mark.parametrize(
    ("before", "after", "rules", "status", "words"),
    [
        ({INSTRUCTIONS: 1000}, {INSTRUCTIONS: 1000}, Rules(), 0, "clean; differing: 0 of 1 figure"),
        ({INSTRUCTIONS: 1000}, {INSTRUCTIONS: 1010}, Rules(), 0, "clean; differing: 1 of 1 figure"),
        ({INSTRUCTIONS: 1000}, {INSTRUCTIONS: 500}, Rules(), 0, "clean; differing: 1 of 1 figure"),
        (
            {INSTRUCTIONS: 1000},
            {INSTRUCTIONS: 1020},
            Rules(),
            11,
            "unlike before; to look at: 1 figure; differing: 1 of",
        ),
        ({INSTRUCTIONS: 1000}, {INSTRUCTIONS: 1020}, Rules(percent=3.0), 0, "clean"),
        (
            {INSTRUCTIONS: 1000},
            {INSTRUCTIONS: 1020},
            Rules(regression=("instructions",)),
            10,
            "regression confirmed; worse although they must not be: 1 figure",
        ),
        ({INSTRUCTIONS: 9, SPILLS: 0}, {INSTRUCTIONS: 9, SPILLS: 4}, Rules(), 10, "regression confirmed"),
        ({READS: 1000}, {READS: 9000}, Rules(), 0, "clean"),
        ({READS: 1}, Side(failed={SCALE: "it broke"}), Rules(), 22, "nothing was measured or compared"),
        (
            {READS: 1, SPILLS: 0},
            Side({SPILLS: 0}, failed={SCALE: "it broke"}),
            Rules(),
            20,
            "a benchmark failed; failing: 1 call",
        ),
        ({READS: 1, SPILLS: 0}, Side({SPILLS: 0}, {SCALE: "gone"}), Rules(), 22, "nothing was measured or compared"),
        (Side({}, {SCALE: "no"}), Side({}, {SCALE: "no"}), Rules(), 22, "nothing was measured or compared"),
        ({}, {}, Rules(), 22, "nothing was measured or compared"),
    ],
)
def test_status_and_verdict(before, after, rules, status, words):
    result = report(before, after, rules=rules)
    assert (result.status, result.words[: len(words)]) == (status, words)


def test_count_that_only_base_has_is_a_suspect():
    norm = NORM.kernel, NORM.implementation, "float32-4k-avx2"
    before = {INSTRUCTIONS: 5, FigureKey(*norm, "instructions"): 5}
    result = report(before, Side({INSTRUCTIONS: 5}, {NORM: "no function norm"}), calls=[SCALE, NORM])
    assert (result.status, "not counted any more: 1 call" in result.words) == (11, True)
    assert "n/a (HEAD), no function norm: norm native float32-4k" in count_gate.as_text(result)


def test_what_both_sides_lack_is_told_once():
    sides = [Side({INSTRUCTIONS: 5}, {NORM: "no `norm`"}) for _ in range(2)]
    result = report(*sides, calls=[SCALE, NORM])
    assert result.status == 0
    assert count_gate.as_text(result).count("n/a (both), no `norm`: norm native float32-4k") == 1


def test_failure_at_base_alone_is_no_fault_of_head():
    result = report(Side({SPILLS: 0, READS: 1}, failed={NORM: "crashed"}), {SPILLS: 0, READS: 1}, calls=[SCALE, NORM])
    assert result.status == 0 and "failed (BASE), crashed: norm native float32-4k" in count_gate.as_text(result)


def test_reports_call_nothing_slower():
    before = {READS: 100, INSTRUCTIONS: 1000, SPILLS: 0}
    result = report(before, {READS: 50, INSTRUCTIONS: 2000, SPILLS: 4}, notes=["a note"])
    text, data = count_gate.as_text(result), count_gate.as_report(result)
    lines = [line.split() for line in text.splitlines() if line.startswith("scale")]
    assert [line[3:] for line in lines] == [
        ["0", "4", "new", "bytes", "spilled"],
        ["1,000", "2,000", "+100%", "instructions"],
        ["100", "50", "-50.0%", "reads"],
    ]
    document = json.loads(as_json(data))
    assert [row["figure"] for row in document["changes"]] == ["spill_bytes", "instructions", "reads"]
    assert [(row["regression"], row["suspect"]) for row in document["changes"]] == [
        (True, False),
        (False, True),
        (False,) * 2,
    ]
    (failure,) = ElementTree.fromstring(as_junit(data)).iter("failure")
    assert failure.get("message") == "bytes spilled: 0 -> 4"
    markdown = as_markdown(data)
    assert "| `scale native sm_90` | 0 | 4 | new | bytes spilled |" in markdown and "Note: `a note`" in markdown
    for written in (text, markdown):
        assert count_gate.NOTE[3:] in written
        assert "slower" not in written.replace(count_gate.NOTE[3:], "") and "faster" not in written.replace(
            count_gate.NOTE[3:], ""
        )


# Two commits of a library ---------------------------------------------------------------------------------------------

LIBRARY = """
int scale(float *out, const float *x, int n) { for (int i = 0; i < n; i++) out[i] = 2 * x[i]; return 0; }
int crash(float *out, const float *x, int n) { return scale(out, x, n); }
int gone(float *out, const float *x, int n) { return scale(out, x, n); }
"""
HEAD = (
    LIBRARY.replace("for", '__asm__ volatile(".rept 999; nop; .endr"); for')
    .replace("return scale(out, x, n); }", "return *(volatile int *)0; }", 1)
    .replace("int gone", "int other")
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A repository of two commits: the second executes more in `scale`, crashes in `crash`, and has no `gone`."""
    pytest.importorskip("torch", reason="inputs and references are PyTorch's")
    folder = tmp_path_factory.mktemp("counted")
    build = "gcc -O2 -shared -fPIC -o {out}/libscale.so scale.c"
    definitions = {name: DEFINITION.format(name=name) for name in ("scale", "crash", "gone")}
    return repository_of(folder, build, "scale.c", (LIBRARY, HEAD), definitions)


@COUNTS
@pytest.mark.timeout(600)
def test_commits_are_compared_also_beside_another_run(repository, monkeypatch):
    done = gate(repository, "HEAD~1", "HEAD", "--json", "gate.json")
    assert done.returncode == 20, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("failed (HEAD), ") and line.endswith("crash native float32-1k") for line in lines)
    assert "n/a (HEAD), libscale.so of this commit has no function gone: gone native float32-1k" in lines
    data = json.loads((repository / "gate.json").read_text())
    (change,) = data["changes"]  # nops read and write nothing
    assert (change["kernel"], change["figure"], change["after"] - change["before"]) == ("scale", "instructions", 999)
    assert data["compared"] == 5 and not (repository / "results").exists()
    monkeypatch.setenv("KV_LOCK_FOLDER", str(repository / ".asv"))
    monkeypatch.delenv("KV_LOCK_HOLDER", raising=False)
    with lock.take(repository):
        again = gate(repository, "HEAD~1", "HEAD", "--bench", "scale")
    assert again.returncode == 11, again.stdout + again.stderr
    assert "verdict: unlike before; to look at: 1 figure; differing: 1 of 5 figures (exit status 11)" in again.stdout
