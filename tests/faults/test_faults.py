"""Each fault costs one clear line and an exit status; everything else is measured, shown and kept."""

import json

import pytest

from kernel_velocity.results import lines
from tests.faults.tiny import FASTER, GOOD, TORCH, plant

CRASHING = "import os\ndef scale(x):\n    os.kill(os.getpid(), 11)\n"
HANGING = "import time\ndef scale(x):\n    time.sleep(100)\n"
WRONG = "def scale(x):\n    return 3\n"


def lines_with(text, *words):
    return [line for line in text.splitlines() if all(word in line for word in words)]


def recorded(tiny, commit, implementation="native", case="float32-1k"):
    """Return asv's stored value of a series."""
    data = json.loads((tiny.results / f"{commit[:8]}-{tiny.environment}.json").read_text())
    row = dict(zip(data["result_columns"], data["results"]["scale.Cpu.time_hot"], strict=False))
    implementations, cases = row["params"]
    place = implementations.index(repr(implementation)) * len(cases) + cases.index(repr(case))
    return None if row["result"] is None else row["result"][place]


def page(tiny):
    folder = tiny.root / ".asv" / "html" / "kernel-velocity"
    return "".join(path.read_text() for path in sorted(folder.glob("*.html")))


def test_good_commits_end_with_the_page_and_status_0(tiny):
    new = tiny.commit("Faster", kernel=FASTER)
    done = tiny.track()
    assert done.returncode == 0, done.stdout
    last = done.stdout.splitlines()[-1]
    assert last == f"Dashboard: {(tiny.root / '.asv/html/kernel-velocity/index.html').as_uri()}"
    assert recorded(tiny, new) > 0
    assert "Faster" in page(tiny)
    for word in ("build", "set-up", "warm-up", "timing"):
        assert lines_with(done.stdout, "cost, s", word)
    (session,) = lines.read_sessions(tiny.results / f"{new[:8]}-{tiny.environment}.json", [])
    assert session.facts["torch"] == TORCH and session.code == {}  # its wheel has no build-info.json


@pytest.mark.slow
def test_second_run_measures_only_what_is_new(tiny):
    assert tiny.track().returncode == 0
    new = tiny.commit("Faster", kernel=FASTER)
    done = tiny.track()
    assert done.returncode == 0, done.stdout
    assert lines_with(done.stdout, "1 commits are measured already")
    assert {line.split("commit ")[1][:8] for line in lines_with(done.stdout, "] round")} == {new[:8]}
    assert lines_with(tiny.track(KV_AGAIN="1", KV_ROUNDS="1").stdout, "2 commits measured")


@pytest.mark.slow
def test_more_rounds_than_recorded_are_measured(tiny):
    assert tiny.track(KV_ROUNDS="1").returncode == 0
    assert lines_with(tiny.track(KV_ROUNDS="2").stdout, "1 commits measured")
    assert lines_with(tiny.track(KV_ROUNDS="2").stdout, "0 commits measured")


def test_commit_that_does_not_build(tiny):
    bad = tiny.commit("Break", kernel=FASTER, source="int f( {")
    good = tiny.commit("Mend", kernel=GOOD, source=None)
    done = tiny.track()
    assert done.returncode == 21, done.stdout
    (line,) = lines_with(done.stdout, "build failed", bad[:8])
    assert "fast.c:1" in line and "error" in line and f"build-{bad[:8]}.log" in line
    assert recorded(tiny, good) > 0 and "Mend" in page(tiny)
    assert not list(tiny.results.glob(f"{bad[:8]}*"))  # no null stands for a build that may work elsewhere
    built = lines_with(tiny.track().stdout, "built ")
    assert not built  # and it is not tried again


def test_nothing_measured(tiny):
    bad = tiny.commit("Break", kernel=FASTER, source="int f( {")
    done = tiny.track(KV_RANGE="HEAD")
    assert done.returncode == 22, done.stdout
    assert lines_with(done.stdout, "build failed", bad[:8]) and lines_with(done.stdout, "nothing was measured")


@pytest.mark.slow
def test_commit_older_than_the_kernel(tiny):
    tiny.commit("Remove", kernel="")
    done = tiny.track(KV_RANGE="HEAD")
    assert done.returncode == 0, done.stdout
    (line,) = lines_with(done.stdout, "n/a:")
    assert "native (float32-1k, float32-2k): no such kernel at this commit" in line
    assert lines_with(tiny.track(KV_RANGE="HEAD").stdout, "0 commits measured")


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (CRASHING, "its process crashed: Segmentation fault"),
        (WRONG, "scale native float32-1k is wrong: got 3, wanted 2"),
        pytest.param(HANGING, "ran past its timeout of 5 s", marks=pytest.mark.slow),
    ],
    ids=["crash", "wrong", "timeout"],
)
def test_kernel_that_fails(tiny, kernel, reason):
    bad = tiny.commit("Fail", kernel=kernel)
    done = tiny.track(KV_ROUNDS="1")
    assert done.returncode == 20, done.stdout
    (line,) = lines_with(done.stdout, "failed:", bad[:8], "native float32-1k")
    assert reason in line
    assert recorded(tiny, bad) is None
    assert recorded(tiny, bad, "eager") > 0  # its control was measured
    assert lines_with(tiny.track(KV_ROUNDS="1").stdout, "failed:", reason)  # and the reason is kept
    kept = (tiny.results / "telemetry" / f"{bad[:8]}-{tiny.environment}.failures.jsonl").read_text()
    assert reason in kept


# A crash in one round of many: the kernel looks at how often it was called at this commit.
ONCE = """
import os, pathlib
def scale(x):
    counter = pathlib.Path(os.environ["ASV_ENV_DIR"], "calls")
    calls = int(counter.read_text()) + 1 if counter.exists() else 1
    counter.write_text(str(calls))
    if calls == {call}:
        {act}
    return 2 * x
"""


def test_crash_in_the_last_round_leaves_the_other_rounds(tiny):
    bad = tiny.commit("Fail late", kernel=ONCE.format(call=3, act="os.kill(os.getpid(), 11)"))
    done = tiny.track(KV_ROUNDS="3", KV_RANGE="HEAD", KV_BENCH="native.*1k")
    assert recorded(tiny, bad) > 0, done.stdout  # asv itself stored a null
    assert lines_with(done.stdout, "value restored from 2 rounds")
    assert "need 8 rounds, have 2" in page(tiny)


@pytest.mark.parametrize(
    "call",
    [2, pytest.param(1, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)],
    ids=["middle", "first", "last"],
)
def test_wrong_numbers_in_one_round_are_not_forgiven(tiny, call):
    bad = tiny.commit("Fail once", kernel=ONCE.format(call=call, act="return 3"))
    done = tiny.track(KV_ROUNDS="3", KV_RANGE="HEAD", KV_BENCH="native.*1k")
    assert recorded(tiny, bad) is None, done.stdout  # asv itself may have stored a time
    assert lines_with(done.stdout, "failed:", "is wrong: got 3")
    assert done.returncode in (20, 22)  # 22: this series was all there was to measure
    tiny.run("kernel_velocity", "ingest")
    assert recorded(tiny, bad) is None


@pytest.mark.slow
def test_crash_in_the_middle_keeps_the_rounds_before_it(tiny):
    bad = tiny.commit("Fail once", kernel=ONCE.format(call=3, act="os.kill(os.getpid(), 11)"))
    done = tiny.track(KV_ROUNDS="4", KV_RANGE="HEAD", KV_BENCH="native.*1k")
    assert recorded(tiny, bad) > 0, done.stdout
    assert lines_with(done.stdout, "value restored from 2 rounds")
    assert "1 further round lost to a crash or a timeout, the last with: " in page(tiny)


@pytest.mark.slow
def test_kernel_that_crashes_today_does_not_keep_its_old_time(tiny):
    crash = "if os.environ.get('TINY_DO') == 'crash': os.kill(os.getpid(), 11)"
    commit = tiny.commit("Crash on demand", kernel=f"import os\ndef scale(x):\n    {crash}\n    return 2 * x\n")
    settings = {"KV_ROUNDS": "2", "KV_RANGE": "HEAD", "KV_BENCH": "native.*1k"}
    assert tiny.track(**settings).returncode == 0
    assert recorded(tiny, commit) > 0
    done = tiny.track(**settings, KV_AGAIN="1", TINY_DO="crash")
    assert recorded(tiny, commit) is None, done.stdout
    assert lines_with(done.stdout, "failed:", commit[:8])


@pytest.mark.slow
def test_recorded_value_survives_a_build_that_fails_today(tiny):
    commit = tiny.commit("Compile", kernel=GOOD, source="int f() { return 0; }")
    assert tiny.asv("run", "-m", "box", "-a", "rounds=2", "HEAD^!").returncode == 0
    assert tiny.run("kernel_velocity", "ingest").returncode == 0
    before = recorded(tiny, commit)
    (cache,) = tiny.root.glob(".asv/env/*/asv-build-cache")
    cache.rename(cache.with_name("gone"))
    broken = tiny.root.parent / "broken-compiler"
    broken.write_text("#!/bin/sh\necho 'fast.c:1:1: error: out of order' >&2\nexit 1\n")
    broken.chmod(0o755)
    assert tiny.asv("run", "-m", "box", "-a", "rounds=2", "HEAD^!", CXX=str(broken)).returncode != 0
    tiny.run("kernel_velocity", "ingest")
    assert recorded(tiny, commit) == before


@pytest.mark.slow
def test_no_compiler(tiny):
    commit = tiny.commit("Compile", kernel=GOOD, source="int f() { return 0; }")
    done = tiny.track(CXX="no-such-compiler")
    (line,) = lines_with(done.stdout, "note: no C++ compiler found")
    assert "apt install" in line
    assert lines_with(done.stdout, "build failed", commit[:8], "no C++ compiler")
    assert done.returncode == 21
    assert tiny.track().returncode == 0  # it was the machine's fault, so the commit is tried again


def test_decoy_in_the_host_is_never_measured(tiny):
    plant(tiny.host, "kernels", "9", "raise SystemExit('decoy imported')")
    commit = tiny.commit("Faster", kernel=FASTER)
    done = tiny.track(KV_RANGE="HEAD")
    assert done.returncode == 0, done.stdout
    assert recorded(tiny, commit) > 0


def test_unknown_range(tiny):
    for unknown in ("no-such-branch", "HEAD~99..HEAD~98", "--all"):
        done = tiny.track(KV_RANGE=unknown)
        assert done.returncode == 2
        (line,) = lines_with(done.stdout, "error:")
        assert repr(unknown) in line and "RANGE=HEAD~3..HEAD" in line


@pytest.mark.slow
def test_dirty_clone_measures_the_commit(tiny):
    (tiny.root / "kernels" / "__init__.py").write_text(CRASHING)
    done = tiny.track()
    assert done.returncode == 0, done.stdout
    assert lines_with(done.stdout, "note: uncommitted changes are not measured", "kernels/__init__.py")


def test_shallow_clone(tiny):
    new = tiny.commit("Faster", kernel=FASTER)
    shallow = tiny.root / ".git" / "shallow"
    shallow.write_text(f"{new}\n")
    done = tiny.track()
    assert done.returncode == 0, done.stdout
    assert lines_with(done.stdout, "note: shallow clone", "git fetch --unshallow")
    assert recorded(tiny, new) > 0
    assert tiny.track(KV_RANGE="HEAD~2..HEAD").returncode == 2


@pytest.mark.slow
def test_repository_without_a_commit(tiny):
    tiny.git("update-ref", "-d", "HEAD")
    done = tiny.track()
    assert done.returncode == 2
    assert lines_with(done.stdout, "error:", "no commit yet")


@pytest.mark.slow
def test_detached_head_and_other_branch_name(tiny):
    tiny.git("checkout", "-q", "--detach")
    assert tiny.track().returncode == 0


@pytest.mark.slow
def test_machine_gets_a_name_by_itself(tiny):
    (tiny.root.parent / ".asv-machine.json").unlink()
    done = tiny.track(KV_MACHINE="new-box")
    assert done.returncode == 0, done.stdout
    assert (tiny.root / "results" / "new-box" / "machine.json").exists()


@pytest.mark.slow
def test_malformed_results_file_is_left_alone(tiny):
    old = tiny.git("rev-parse", "HEAD")
    new = tiny.commit("Faster", kernel=FASTER)
    assert tiny.track(KV_RANGE="HEAD").returncode == 0
    broken = tiny.results / f"{old[:8]}-{tiny.environment}.json"
    broken.write_text("{")
    done = tiny.track()
    assert lines_with(done.stdout, broken.name)
    assert broken.read_text() == "{"
    assert recorded(tiny, new) > 0
