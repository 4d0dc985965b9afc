"""Full disks and read-only folders: one line with the path, and the next run brings what is missing.

A library makes them so, for all processes of a command (`full.c`): root may write anywhere else. TINY_DISKS is the
number of cases: 6 of them, by TINY_SEED, or as many as are wanted.
"""

import errno
import os
import random
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.test_killed import COMMANDS, ROUNDS, SEED, VARIABLES, contents, recorded
from tests.faults.test_killed_nights import left_over, measured
from tests.faults.tiny import lines_with, rounds_begun, wait_for

__all__ = ["recorded"]  # a fixture
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def have_both_rounds(tiny, _text):
    assert list(measured(tiny).values()) == [(ROUNDS, [ROUNDS])] * 2


SINGLE = {"track": replace(COMMANDS["track"], words=["track", "--range=HEAD^!"], check=have_both_rounds)}
SPOOL, TELEMETRY, RESULTS, FINDINGS = ".asv/spool", "results/box/telemetry", "results/", "results/findings"
CACHE, ENVIRONMENT, LOGS, LOCK, JOURNALS = ".asv/cache", ".asv/env", ".asv/logs", ".asv/lock", ".asv/journals"
HTML, MACHINE_LOCK, MACHINES, BACKUP = ".asv/html", "/kernel-velocity-", "/.asv-machine.json", ".asv/track-before"
# The command, what it cannot write, and after how many rounds
WRITES = [
    *[("track", part, 0) for part in (SPOOL, CACHE, ENVIRONMENT, LOGS, HTML, LOCK, MACHINE_LOCK, MACHINES, BACKUP)],
    *[("track", part, 2) for part in (SPOOL, CACHE, TELEMETRY, RESULTS)],
    *[("gate", ".asv/ab", rounds) for rounds in (0, 5)],
    *[("report", part, 0) for part in ("/site", CACHE)],
    *[("ingest", part, 0) for part in (TELEMETRY, SPOOL, RESULTS)],
    *[("nightly", part, 5) for part in (JOURNALS, SPOOL)],
    *[("nightly", part, 14) for part in (".asv/ab", FINDINGS)],
]
CASES = [(*write, number) for write in WRITES for number in (errno.ENOSPC, errno.EROFS)]
CHOSEN = random.Random(SEED).sample(CASES, min(len(CASES), int(os.environ.get("TINY_DISKS", "6"))))


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """Return the library that makes a disk full."""
    path = tmp_path_factory.mktemp("full") / "full.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, Path(__file__).with_name("full.c"), "-ldl"], check=True)
    return path


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: "-".join(map(str, case)))
def test_disk_without_room_costs_one_line_and_no_round(recorded, tmp_path, library, case):
    name, part, begun, number = case
    command = (COMMANDS | SINGLE)[name]
    tiny = recorded.copy(tmp_path)
    command.prepare(tiny)
    before, when, rounds = contents(tiny), tmp_path / "when", rounds_begun(tiny, "").total()
    full = {"LD_PRELOAD": str(library), "FULL_PATH": part, "FULL_ERROR": str(number), "FULL_WHEN": str(when)}
    process = tiny.begin(*command.words, **VARIABLES, **full)
    wait_for(lambda: rounds_begun(tiny, "").total() >= rounds + begun or process.poll() is not None, 300)
    when.touch()
    printed, _ = process.communicate(timeout=400)
    print(*case, process.returncode, *printed.splitlines()[-1:], sep=" | ", flush=True)
    when.unlink()
    again = tiny.run("kernel_velocity", *command.words, limit=500, **VARIABLES)
    assert again.returncode == command.status, printed + again.stdout
    command.check(tiny, again.stdout)
    assert contents(tiny) == before and not left_over(tiny), printed + again.stdout
    assert "Traceback" not in printed, printed
    if process.returncode != command.status:  # else nothing was written there any more
        (line,) = lines_with(printed, "error: ")
        assert process.returncode == 2 and part.strip("/") in line and printed.splitlines()[-1] == line, printed
