"""Full disks and read-only folders: one line with the path, and the next run brings what is missing.

A library makes them so, for all processes of a command (`full.c`): root may write anywhere else. TINY_DISKS=46 tries
every case, fewer are drawn by TINY_SEED.
"""

import errno
import os
import random
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.test_gate import evidence
from tests.faults.test_killed_nights import left_over, measured, without_figures
from tests.faults.test_nightly import plant
from tests.faults.tiny import Tiny, lines_with, rounds_begun
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.slow
SEED = int(os.environ.get("TINY_SEED", "0"))
ROUNDS = 4
A_SIDE = 8  # rounds of a gate
VARIABLES = {"KV_MACHINE": "box", "KV_TIER": "core", "KV_BENCH": "native.*1k", "KV_ROUNDS": str(ROUNDS)}


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command of `kv`.

    Attributes:
        words: its arguments. status: its exit status. prepare: what is done before.
        check: raises where something is lost or wrong after the command has ended, by what it printed.
    """

    words: Sequence[str]
    check: Callable[[Tiny, str], None]
    status: int = 0
    prepare: Callable[[Tiny], None] = lambda tiny: None


def slow_commit(tiny):
    return tiny.git("log", "--format=%H", "--grep=^Slow$")


def have_all_rounds(tiny, _text, commits=2):
    assert list(measured(tiny).values()) == [(ROUNDS, [ROUNDS])] * commits


def is_confirmed(tiny, text):
    have_all_rounds(tiny, text, 4)
    assert [line[1:4] for line in without_figures(tiny)] == [["regression", "confirmed", [slow_commit(tiny)]]]


def is_slower(tiny, _text):
    counts = [len(evidence(tiny, tiny.git("rev-parse", name))) for name in ("HEAD~3", "HEAD")]
    assert all(A_SIDE <= count <= A_SIDE + 2 for count in counts), counts


def is_site(tiny, _text):
    assert (tiny.root / "site" / "index.html").read_text().rstrip().endswith("</html>")
    assert slow_commit(tiny)[:8] in "".join(path.read_text() for path in tiny.root.glob("site/*.html"))


def measure_by_asv(tiny):
    """Have asv alone measure a commit, whose rounds then wait in the spool."""
    shape = ["--interleave-rounds", "-a", "rounds=2", "--record-samples", "--bench", VARIABLES["KV_BENCH"], "HEAD^!"]
    assert tiny.asv("run", "--machine=box", *shape).returncode == 0
    (path,) = (path for path in tiny.root.glob(".asv/spool/*/*.jsonl") if path.name.count(".") == 1)
    (tiny.root.parent / "spooled").write_text(path.read_text())


def is_ingested(tiny, _text):
    new = tiny.git("rev-parse", "--short=8", "HEAD")
    lines = (tiny.results / "telemetry" / f"{new}-{tiny.environment}.jsonl").read_text().splitlines()
    assert sorted(lines) == sorted((tiny.root.parent / "spooled").read_text().splitlines())


def measure_all(tiny):
    done = tiny.run("kernel_velocity", "track", "--no-site", "--range=HEAD~3..HEAD", "--rounds=1", **VARIABLES)
    assert done.returncode == 0, done.stdout


def contents(tiny):
    """Return every file of what was recorded before."""
    commit = tiny.git("rev-parse", "--short=8", "HEAD~3")
    return {path: path.read_bytes() for path in tiny.results.rglob(f"{commit}-*")}


@pytest.fixture(scope="module")
def recorded(template, tmp_path_factory):
    """Return the folder of a repository with a slow commit, and one before it that is measured."""
    tiny = template.copy(tmp_path_factory.mktemp("recorded"))
    plant(tiny)
    done = tiny.run("kernel_velocity", "track", "--no-site", "--range=HEAD~3^!", **VARIABLES)
    assert done.returncode == 0, done.stdout
    return tiny


COMMANDS = {
    "track": Command(words=["track", "--range=HEAD^!"], check=have_all_rounds),
    "gate": Command(words=["gate", "HEAD~3", "HEAD", "--bench=native.*1k"], status=10, check=is_slower),
    "nightly": Command(words=["nightly", "--no-ceilings"], status=10, check=is_confirmed),
    "report": Command(words=["report", "--out=site"], prepare=measure_all, check=is_site),
    "ingest": Command(words=["ingest"], prepare=measure_by_asv, check=is_ingested),
}


SPOOL, TELEMETRY, RESULTS, FINDINGS = ".asv/spool", "results/box/telemetry", "results/", "results/findings"
CACHE, ENVIRONMENT, LOGS, LOCK, JOURNALS = ".asv/cache", ".asv/env", ".asv/logs", ".asv/lock", ".asv/journals"
HTML, MACHINE_LOCK, MACHINES = ".asv/html", "/kernel-velocity-", "/.asv-machine.json"
# The command, what it cannot write, and after how many rounds
WRITES = [
    *[("track", part, 0) for part in (SPOOL, CACHE, ENVIRONMENT, LOGS, HTML, LOCK, MACHINE_LOCK, MACHINES)],
    *[("track", part, 2) for part in (SPOOL, CACHE, TELEMETRY, RESULTS)],
    *[("gate", ".asv/ab", rounds) for rounds in (0, 5)],
    *[("report", part, 0) for part in ("/site", CACHE)],
    *[("ingest", part, 0) for part in (TELEMETRY, SPOOL, RESULTS)],
    *[("nightly", part, 5) for part in (JOURNALS, SPOOL)],
    *[("nightly", part, 14) for part in (".asv/ab", FINDINGS)],
]
CASES = [(*write, number) for write in WRITES for number in (errno.ENOSPC, errno.EROFS)]
DRAWN = random.Random(SEED).sample(CASES, min(len(CASES), int(os.environ.get("TINY_DISKS", "0"))))
CHOSEN = DRAWN or [
    ("track", SPOOL, 2, errno.ENOSPC),
    ("gate", ".asv/ab", 0, errno.EROFS),
    ("ingest", RESULTS, 0, errno.ENOSPC),
]


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """Return the library that makes a disk full."""
    path = tmp_path_factory.mktemp("full") / "full.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, Path(__file__).with_name("full.c"), "-ldl"], check=True)
    return path


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: "-".join(map(str, case)))
def test_disk_without_room_costs_one_line_and_no_round(recorded, tmp_path, library, case):
    name, part, begun, number = case
    command = COMMANDS[name]
    tiny = recorded.copy(tmp_path)
    command.prepare(tiny)
    before, when, rounds = contents(tiny), tmp_path / "when", rounds_begun(tiny, "").total()
    full = {"LD_PRELOAD": str(library), "FULL_PATH": part, "FULL_ERROR": str(number), "FULL_WHEN": str(when)}
    process = tiny.begin(*command.words, **VARIABLES, **full)
    wait_until(lambda: rounds_begun(tiny, "").total() >= rounds + begun or process.poll() is not None)
    when.touch()
    printed, _ = process.communicate(timeout=PATIENCE)
    print(*case, process.returncode, *printed.splitlines()[-1:], sep=" | ", flush=True)
    when.unlink()
    again = tiny.run("kernel_velocity", *command.words, **VARIABLES)
    assert again.returncode == command.status, printed + again.stdout
    command.check(tiny, again.stdout)
    assert contents(tiny) == before and not left_over(tiny), printed + again.stdout
    assert "Traceback" not in printed, printed
    if process.returncode != command.status:  # else nothing was written there any more
        (line,) = lines_with(printed, "error: ")
        assert process.returncode == 2 and part.strip("/") in line and printed.splitlines()[-1] == line, printed
