"""Commands killed at random moments: nothing recorded is lost, nobody goes on, and the next start is complete.

TINY_KILLS is the number of kills of each command: 29 make 203 kills, in about 40 minutes. TINY_SEED gives other
moments.
"""

import itertools
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.compare.test_isolation import PROBLEM
from tests.faults.test_gate import evidence
from tests.faults.test_killed_nights import left_over, measured, without_figures
from tests.faults.test_nightly import plant
from tests.faults.tiny import Tiny, lines_with, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]
KILLS = int(os.environ.get("TINY_KILLS", "1"))
SEED = int(os.environ.get("TINY_SEED", "0"))
IN_A_ROW = 4  # kills before the next start may end
ROUNDS = 4
A_SIDE = 8  # rounds of a gate
MARK = "TINY_MARK"  # variable of all processes of a start
VARIABLES = {"KV_MACHINE": "box", "KV_TIER": "core", "KV_BENCH": "native.*1k", "KV_ROUNDS": str(ROUNDS)}
MEASURING = (b"-m\0asv\0", b"run_server\0")  # in the command lines of those that are killed beside the command itself


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command of `kv`.

    Attributes:
        words: its arguments. seconds: about as long as it takes. status: its exit status. prepare: what is done before.
        check: raises where something is lost or wrong after the command has ended, by what it printed.
    """

    words: Sequence[str]
    seconds: float
    check: Callable[[Tiny, str], None]
    status: int = 0
    prepare: Callable[[Tiny], None] = lambda tiny: None


def slow_commit(tiny):
    return tiny.git("log", "--format=%H", "--grep=^Slow$")


def have_all_rounds(tiny, _text):
    assert list(measured(tiny).values()) == [(ROUNDS, [ROUNDS])] * 4


def is_confirmed(tiny, text):
    have_all_rounds(tiny, text)
    assert [line[1:4] for line in without_figures(tiny)] == [["regression", "confirmed", [slow_commit(tiny)]]]


def is_slower(tiny, _text):
    counts = [len(evidence(tiny, tiny.git("rev-parse", name))) for name in ("HEAD~3", "HEAD")]
    assert all(A_SIDE <= count <= A_SIDE + IN_A_ROW + 1 for count in counts), counts


def is_culprit(tiny, text):
    assert lines_with(text, f"culprit: {slow_commit(tiny)[:8]}"), text


def is_site(tiny, _text):
    assert (tiny.root / "site" / "index.html").read_text().rstrip().endswith("</html>")
    assert slow_commit(tiny)[:8] in "".join(path.read_text() for path in tiny.root.glob("site/*.html"))


def is_compared(_tiny, text):
    assert len(lines_with(text, "eager", "right")) == 2, text


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


def write_problem(tiny):
    """Write a problem, which needs the real torch."""
    shutil.rmtree(tiny.host / "torch")
    (tiny.root / "twice.py").write_text(PROBLEM)


COMMANDS = {
    "track": Command(words=["track", "--range=HEAD~3..HEAD"], seconds=14, check=have_all_rounds),
    "gate": Command(words=["gate", "HEAD~3", "HEAD", "--bench=native.*1k"], seconds=13, status=10, check=is_slower),
    "bisect": Command(
        words=["bisect", "scale.Cpu.time_hot", "HEAD~3", "HEAD", "--case=float32-1k"], seconds=40, check=is_culprit
    ),
    "nightly": Command(words=["nightly", "--no-ceilings"], seconds=40, status=10, check=is_confirmed),
    "report": Command(words=["report", "--out=site"], seconds=2, prepare=measure_all, check=is_site),
    "compare": Command(
        words=["compare", "twice.py", "--rounds=2", "--iters=3", "--device=cpu", "--no-roofline"],
        seconds=8,
        prepare=write_problem,
        check=is_compared,
    ),
    "ingest": Command(words=["ingest"], seconds=1, prepare=measure_by_asv, check=is_ingested),
}


def contents(tiny):
    """Return every file of what was recorded before the first kill."""
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


def marked(mark):
    """Return the processes of a start: their numbers and command lines."""
    result = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if f"{MARK}={mark}".encode() in (path / "environ").read_bytes().split(b"\0"):
                result[int(path.name)] = (path / "cmdline").read_bytes()
    return result


def victims(mark, process):
    """Return the numbers of the processes to kill one of: the command, asv, the server that forks the rounds."""
    others = {number: line for number, line in marked(mark).items() if any(word in line for word in MEASURING)}
    server = {number for number, line in others.items() if MEASURING[1] in line}
    rounds = {number for number in server if parent(number) in server}
    return [process.pid, *sorted(others.keys() - rounds)]


def parent(number):
    with suppress(OSError):
        return int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
    return None


def kill(tiny, command, rng, mark):
    """Start a command and kill it, or what it has measure, at a random moment.

    Return a line of what was killed and how long anybody went on then, and what the command printed. The line is None
    where it ended before.
    """
    process = tiny.begin(*command.words, **VARIABLES, **{MARK: mark})
    with suppress(subprocess.TimeoutExpired):
        printed, _ = process.communicate(timeout=rng.uniform(0, command.seconds))
        assert process.returncode == command.status, printed
        return None, printed
    victim = rng.choice(victims(mark, process))
    began = time.monotonic()
    with suppress(ProcessLookupError):
        os.kill(victim, signal.SIGKILL)
    if victim != process.pid:
        printed, _ = process.communicate(timeout=400)
        assert "Traceback" not in printed, printed
        began = time.monotonic()
    wait_for(lambda: not marked(mark))
    took = time.monotonic() - began
    printed = process.communicate()[0] if victim == process.pid else printed
    return f"{'command' if victim == process.pid else 'part'}, nobody after {took:.2f} s", printed


# A bisection keeps nothing but rounds, as a gate does, and one kill of a night is less than test_killed_nights's five
@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("bisect", "nightly") or KILLS > 1])
def test_command_killed_at_random_moments(recorded, tmp_path, name):
    command, rng, folders = COMMANDS[name], random.Random(f"{SEED} {name}"), itertools.count()
    kills, row, tiny = 0, 0, None
    while kills < KILLS or row:
        if tiny is None:
            tiny = recorded.copy(tmp_path / str(next(folders)))
            command.prepare(tiny)
            before, story = contents(tiny), []
        if row < IN_A_ROW and kills < KILLS:
            line, printed = kill(tiny, command, rng, f"{os.getpid()}-{name}-{kills}-{row}")
            story += [printed, str(line)]
            print(f"{name} {kills}: {line}", flush=True)
            if line is not None:
                kills, row = kills + 1, row + 1
                continue
        else:
            done = tiny.run("kernel_velocity", *command.words, limit=500, **VARIABLES)
            printed = done.stdout
            story.append(printed)
            assert done.returncode == command.status, "\n".join(story)
        command.check(tiny, printed)
        assert contents(tiny) == before and not left_over(tiny), "\n".join(story)
        tiny, row = None, 0
