"""Each fault costs one clear line and an exit status. Everything else is measured, shown and kept."""

from kernel_velocity.past import past
from kernel_velocity.results import lines
from tests.faults.tiny import FASTER, GOOD, TORCH, WRONG, lines_with, page, plant, recorded

CRASHING = "import os\ndef scale(x):\n    os.kill(os.getpid(), 11)\n"
HANGING = "import time\ndef scale(x):\n    time.sleep(100)\n"
BROKEN = "int f( {"


# Lines of asv's log, what looks like its results, bytes that are no text, and file descriptors closed that it had.
PRINTED = b"""For parameters: (((
[1.1%] \xc2\xb7 For x commit 12345678 (round 1/1)
For parameters: 'a', 'b'
asv: benchmark timed out (timeout 1s)
Fatal Python error: none
{"samples": [1e-12], "number": 1}
\xff\0\x1b[2J"""
PRINTING = f"""
import os
def scale(x):
    os.write(1, {PRINTED!r} + bytes(range(256)) * 40)
    os.write(2, b"\\xff\\xfe" * 1000)
    os.closerange(3, 256)
    return 2 * x
"""


NOTING = """        import kernels
        with open(Path(os.environ["ASV_CONF_DIR"], "seen"), "a") as seen:
            print(kernels.NAME, os.environ["ASV_COMMIT"], os.environ["OMP_NUM_THREADS"], file=seen)
"""


def test_good_commits_end_with_the_page_and_status_0(tiny):
    """Every round is of the commit that asv names, and what a kernel prints is no result."""
    suite = (tiny.root / "benchmarks" / "scale.py").read_text()
    began = "        began = time.time()\n"
    (tiny.root / "benchmarks" / "scale.py").write_text(suite.replace(began, began + NOTING))
    printing = tiny.commit("Print", kernel=f"NAME = 'one'\n{PRINTING}")
    new = tiny.commit("Faster", kernel=f"NAME = 'two'\n{FASTER}")
    settings = {"KV_RANGE": "HEAD~2..HEAD", "KV_BENCH": "(native|eager).*1k", "KV_ROUNDS": "2", "KV_THREADS": "2"}
    done = tiny.track(site=True, **settings)
    assert done.returncode == 0, done.stdout
    last = done.stdout.splitlines()[-1]
    assert last == f"Dashboard: {(tiny.root / '.asv/html/kernel-velocity/index.html').as_uri()}"
    assert "Faster" in page(tiny)
    assert len(lines_with(done.stdout, "First look: ", "it renews itself")) == 1
    for word in ("build", "set-up", "warm-up", "timing"):
        assert lines_with(done.stdout, "cost, s", word)
    for commit in (printing, new):
        assert all(9e-7 < recorded(tiny, commit, name) < 2e-6 for name in ("native", "eager"))  # what was timed
    observed = (tiny.root / "seen").read_text().splitlines()
    assert sorted(observed) == [f"one {printing} 2"] * 4 + [f"two {new} 2"] * 4
    (session,) = lines.read_sessions(tiny.results / f"{new[:8]}-{tiny.environment}.json", [])
    assert session.facts["torch"] == TORCH and list(session.code) == ["scale"]


def test_commit_that_does_not_build_is_named(tiny):
    bad = tiny.commit("Break", kernel=FASTER, source=BROKEN)
    alone = tiny.track(KV_RANGE="HEAD", KV_BENCH="native.*1k")
    assert alone.returncode == 22, alone.stdout
    (line,) = lines_with(alone.stdout, "build failed", bad[:8])
    assert "fast.c:1" in line and "error" in line and f"build-{bad[:8]}.log" in line
    assert lines_with(alone.stdout, "nothing was measured")
    (log,) = tiny.root.rglob(f"build-{bad[:8]}.log")
    built = log.stat().st_mtime_ns
    good = tiny.commit("Mend", kernel=GOOD, source=None)
    done = tiny.track(site=True, KV_BENCH="native.*1k")
    assert done.returncode == 21, done.stdout
    assert lines_with(done.stdout, "build failed", bad[:8]) and log.stat().st_mtime_ns == built  # it is not tried again
    assert recorded(tiny, good) > 0 and "Mend" in page(tiny)
    assert not list(tiny.results.glob(f"{bad[:8]}*"))  # no null stands for a build that may work elsewhere


FAILING = {
    CRASHING: "its process crashed: Segmentation fault",
    WRONG: "scale native float32-1k is wrong: got 3, wanted 2",
    HANGING: "ran past its timeout of 5 s",
}


def test_kernel_that_fails_is_named_with_its_reason(tiny):
    bad = {tiny.commit("Fail", kernel=kernel): reason for kernel, reason in FAILING.items()}
    settings = {"KV_BENCH": "(native|eager).*1k", "KV_RANGE": "HEAD~3..HEAD", "TINY_TIMEOUT": "5"}
    done = tiny.track(**settings)
    assert done.returncode == 20, done.stdout
    again = tiny.track(**settings)
    for commit, reason in bad.items():
        (line,) = lines_with(done.stdout, "failed:", commit[:8], "native float32-1k")
        assert reason in line
        assert recorded(tiny, commit) is None
        assert recorded(tiny, commit, "eager") > 0  # its control was measured
        assert lines_with(again.stdout, "failed:", commit[:8], reason)  # and the reason is kept
        failures = (tiny.results / "telemetry" / f"{commit[:8]}-{tiny.environment}.failures.jsonl").read_text()
        assert reason in failures


# A fault in one round of many: the kernel counts its calls at this commit.
ONCE = """
import os, pathlib
def scale(x):
    counter = pathlib.Path(os.environ["ASV_ENV_DIR"], "calls-" + os.environ["ASV_COMMIT"])
    calls = int(counter.read_text()) + 1 if counter.exists() else 1
    counter.write_text(str(calls))
    if calls == {call}:
        {act}
    return 2 * x
"""


def test_fault_in_one_round_of_many(tiny):
    """A crash leaves the rounds beside it, in the middle and at the end. Wrong numbers are not forgiven."""
    crash, wrong = "os.kill(os.getpid(), 11)", "return 3"
    commits = {
        (act, call): tiny.commit(f"Fail {call}", kernel=ONCE.format(call=call, act=act))
        for act, call in ((crash, 2), (crash, 3), (wrong, 2))
    }
    done = tiny.track(KV_ROUNDS="3", KV_RANGE="HEAD~3..HEAD", KV_BENCH="native.*1k")
    assert done.returncode == 20, done.stdout
    tiny.run("kernel_velocity", "ingest")
    for (act, _), commit in commits.items():  # asv itself stores a null of a crash in the last round, and times
        assert (recorded(tiny, commit) is None) == (act == wrong), done.stdout
        assert bool(lines_with(done.stdout, "failed:", commit[:8], "is wrong: got 3")) == (act == wrong)
    assert len(lines_with(done.stdout, "value restored from 2 rounds")) >= 1
    opened = past.open(tiny.root / "results", tiny.root)
    notes = [note for commit in commits.values() for value in opened.at(commit) for note in value.warnings]
    assert "a sound verdict needs 8 rounds, have 2" in notes
    assert any(note.startswith("1 further round lost to a crash or a timeout, the last with: ") for note in notes)


def test_commit_is_measured_whatever_lies_around_it(tiny):
    """A decoy in the host, uncommitted changes, a shallow clone, a detached HEAD, a machine without a name."""
    plant(tiny.host, "kernels", "9", "raise SystemExit('decoy imported')")
    new = tiny.commit("Faster", kernel=FASTER)
    (tiny.root / "kernels" / "__init__.py").write_text(CRASHING)
    (tiny.root / ".git" / "shallow").write_text(f"{new}\n")
    tiny.git("checkout", "-q", "--detach")
    (tiny.root.parent / ".asv-machine.json").unlink()
    done = tiny.track(KV_MACHINE="new-box", KV_BENCH="native.*1k")
    assert done.returncode == 0, done.stdout
    assert lines_with(done.stdout, "note: uncommitted changes are not measured", "kernels/__init__.py")
    assert lines_with(done.stdout, "note: shallow clone", "git fetch --unshallow")
    results = tiny.root / "results" / "new-box"
    assert (results / "machine.json").exists() and list(results.glob(f"{new[:8]}-*.json"))
    refused = tiny.track(KV_RANGE="HEAD~2..HEAD")
    (line,) = lines_with(refused.stdout, "error:")
    assert refused.returncode == 2 and "'HEAD~2..HEAD'" in line and "RANGE=HEAD~3..HEAD" in line
