"""A night that is killed in each of its phases, interrupted, or out of space, ends as one that nobody disturbed."""

import fcntl
import json
import signal

import pytest

from kernel_velocity import files
from tests.faults.test_nightly import findings, plant
from tests.faults.tiny import end, lines_with, rounds_begun
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.slow
ROUNDS = 4
COMMITS = 3
A_SIDE = 8  # rounds of a first look again


def is_setting_up(tiny):
    return any((tiny.root / ".asv" / "journals").glob("*.json"))


def is_measuring(number):
    return lambda tiny: rounds_begun(tiny).total() >= number


def is_confirming(number):
    return lambda tiny: rounds_begun(tiny, ".asv/ab").total() >= number


def is_concluding(tiny):
    return any((tiny.root / "results" / "findings").glob("*.toml"))


def night_at(tiny, reached, **more):
    """Begin a night, or go on with it. Return its process once a moment is reached. A site makes it end late."""
    series = {"KV_MACHINE": "box", "KV_TIER": "core", "KV_BENCH": "native.*1k"}
    process = tiny.begin("nightly", "--no-ceilings", **series, KV_ROUNDS=str(ROUNDS), **more)
    wait_until(lambda: reached(tiny) or process.poll() is not None)
    return process


def kill_at(tiny, reached):
    """Begin a night, or go on with it, and kill it with all its processes. Return what it printed."""
    process = night_at(tiny, reached)
    assert process.poll() is None, process.communicate()[0]
    return end(process, signal.SIGKILL)


def without_figures(tiny):
    """Return the findings without figures that no two nights share."""
    keys = ("id", "kind", "state", "commits", "anchor")
    return [
        [finding.get(key) for key in keys]
        + [[member["benchmark"], round(member["ratio"], 2)] for member in finding["series"]]
        for finding in findings(tiny)
    ]


def measured(tiny):
    """Return the rounds that every commit has beside its value, and those that the value itself rests on."""
    result = {}
    for path in sorted(tiny.results.glob("*-host-*.json")):
        data = json.loads(path.read_text())
        row = dict(zip(data["result_columns"], data["results"]["scale.Cpu.time_hot"], strict=False))
        beside = path.parent / "telemetry" / f"{path.stem}.jsonl"
        times = {json.loads(line)["t"] for line in beside.read_text().splitlines()}
        result[path.name[:8]] = (len(times), [len(samples) for samples in row["samples"] if samples is not None])
    return result


def left_over(tiny):
    """Return what a killed process could leave that nobody wants: temporary files, folders, broken files."""
    result = files.remove_left(tiny.root / "results") + files.remove_left(tiny.root / ".asv" / "journals")
    for pattern in ("results/kv-*", ".asv/spool/*/*.claimed*", ".asv/spool/*/*.malformed"):
        result += tiny.root.glob(pattern)
    for path in [*tiny.root.glob("results/**/*.json*"), *tiny.root.glob(".asv/ab/**/*.jsonl")]:
        for text in [path.read_text()] if path.suffix == ".json" else path.read_text().splitlines():
            json.loads(text)
    with (tiny.root / ".asv" / "lock").open("r+") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises while somebody holds it
    return result


# A disk that is full while a file is there, for whoever writes results; every Python here reads it first.
FULL = """
import builtins, errno, io, os
plain = io.open

def full(file, mode="r", *args, **more):
    path = "" if isinstance(file, int) else os.path.abspath(file)
    if "/results/" in path and set(mode) & set("wax+") and os.path.exists(os.environ.get("TINY_FULL", "")):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return plain(file, mode, *args, **more)

io.open = builtins.open = full
"""


def interrupt_at(tiny, reached):
    """Begin a night, or go on with it, and press Ctrl-C, which a terminal sends to all of its processes."""
    process = night_at(tiny, reached)
    printed = end(process, signal.SIGINT)
    # A shell says 130 of both; Python ends by the signal where it fell into an exec(), as dataclasses have one
    assert process.returncode in (130, -signal.SIGINT), printed
    assert printed.splitlines()[-1] == "interrupted: what was measured so far is kept", printed
    assert "Traceback" not in printed, printed
    return printed


def fill_at(tiny, reached):
    """Begin a night, or go on with it, and let the disk be full from a moment on until it has ended."""
    mark = tiny.root.parent / "full"
    process = night_at(tiny, reached, TINY_FULL=str(mark))
    mark.touch()
    printed = process.communicate(timeout=PATIENCE)[0]
    mark.unlink()
    assert process.returncode == 2 and "Traceback" not in printed, printed
    (line,) = lines_with(printed, "error: ")
    assert "No space left on device" in line and printed.splitlines()[-1] == line, printed
    return printed


def test_night_cut_off_five_times_ends_as_an_undisturbed_one(tiny):
    slow = plant(tiny)
    (tiny.host / "sitecustomize.py").write_text(FULL)
    printed = [
        cut(tiny, reached)
        for cut, reached in (
            (interrupt_at, is_setting_up),
            (kill_at, is_measuring(2)),
            (fill_at, is_measuring(5)),
            (interrupt_at, is_confirming(3)),
            (kill_at, is_concluding),
        )
    ]
    done = tiny.nightly("--no-ceilings", KV_ROUNDS=str(ROUNDS))
    story = "\n".join([*printed, done.stdout])
    assert done.returncode == 10 and lines_with(done.stdout, "resuming the night of"), story
    assert [row[1:4] for row in without_figures(tiny)] == [["regression", "confirmed", [slow]]], story
    assert list(measured(tiny).values()) == [(ROUNDS, [ROUNDS])] * COMMITS, story
    # A round that had begun when it was cut off is begun again, and in turns also the one that it stood against
    assert rounds_begun(tiny).total() <= ROUNDS * COMMITS + 2, story
    assert rounds_begun(tiny, ".asv/ab").total() <= 2 * A_SIDE + 3, story
    assert not left_over(tiny), story
