"""Part of the work in a forked child: its result, its error, its end.

The tests fork from processes of one thread: this one has threads of pytest and numpy.
"""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys

import pytest

from kernel_velocity import forking
from kernel_velocity.past import cache
from kernel_velocity.site import report
from tests import one_thread
from tests.one_thread import ROOT
from tests.waiting import PATIENCE

BEGIN = """
import os, signal, sys, time
from kernel_velocity import forking
from kernel_velocity.errors import KernelVelocityError, ResultsError
os.sched_getaffinity = lambda _: {0, 1}
assert forking.is_possible()
here = os.getpid()
"""


def run(script, *, status=0):
    return one_thread.run(BEGIN + script, status=status)


def test_child_runs_the_work_and_ends():
    done = run("""
with forking.forked(lambda: (os.getpid(), "x" * 10**6)) as made:
    process, text = made()
print(process != here, len(text))
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("no process is left")
""")
    assert done.stdout.splitlines() == ["True 1000000", "no process is left"]


def test_halves_have_all_values_in_order():
    done = run("""
for count in (199, 201):
    parts = forking.in_halves(lambda values: ([*values], os.getpid()), range(count))
    values = [value for part, _ in parts for value in part]
    print(values == [*range(count)], [process == here for _, process in parts])
""")
    assert done.stdout.splitlines() == ["True [True]", "True [True, False]"]


@pytest.mark.parametrize(
    ("raising", "message"),
    [
        ("raise ResultsError('a.json: not JSON')", "ResultsError: a.json: not JSON"),
        ("raise type('Odd', (Exception,), {})('its own words')", "RuntimeError: Traceback"),  # cannot be pickled
    ],
)
def test_error_is_raised_with_its_traceback(raising, message):
    done = run(
        f"""
def part():
    {raising}

with forking.forked(part) as made:
    made()
""",
        status=1,
    )
    assert message in done.stderr.replace("(most recent call last)", "")
    assert "in part" in done.stderr


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "was ended by SIGKILL: run it again"),
        ("os._exit(3)", "ended with status 3, without a result: run it again"),
    ],
)
def test_child_without_a_result_is_an_error(ending, words):
    done = run(f"""
try:
    with forking.forked(lambda: {ending}) as made:
        made()
except KernelVelocityError as error:
    print(error)
""")
    assert done.stdout == f"the process that makes a part of the site {words}\n"


def test_shared_items_are_taken_once_by_either_process():
    done = run("""
shared = forking.share(range(200))
to_child, to_parent = os.pipe(), os.pipe()
def part():
    mine, others = (to_child, to_parent) if os.getpid() == here else (to_parent, to_child)
    taken = []
    for each in shared:
        taken.append(each)
        if len(taken) == 50:  # neither goes on before the other has as many
            os.write(mine[1], b"x")
            os.read(others[0], 1)
    return taken
with forking.forked(part) as made:
    ours = part()
    theirs = made()
print(sorted([*ours, *theirs]) == list(range(200)), min(len(ours), len(theirs)) >= 50, list(shared))
""")
    assert done.stdout.split() == ["True", "True", "[]"]


def test_child_ends_with_the_context():
    done = run("""
began = time.monotonic()
try:
    with forking.forked(lambda: time.sleep(50)):
        raise ResultsError("here")
except ResultsError as error:
    print(error, time.monotonic() - began < 40)
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("no process is left")
""")
    assert done.stdout.splitlines() == ["here True", "no process is left"]


def begun():
    """Start two processes. Return the first, once both are at work, and the number of the other."""
    script = """
def part():
    os.write(1, b"%d\\n" % os.getpid())  # in one piece, as the other writes too
    for _ in range(5000):  # a signal that comes as one long sleep begins waits for its end
        time.sleep(0.1)

with forking.forked(part) as made:
    os.write(1, b"here\\n")
    made()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN + script],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    lines = {process.stdout.readline().strip() for _ in range(2)}
    (other,) = map(int, lines - {b"here"})
    return process, other


def test_child_ends_with_a_killed_parent():
    process, _ = begun()
    with process:
        process.kill()
        assert process.communicate(timeout=PATIENCE) == (b"", b"")  # both hold the pipe


def test_interruption_ends_both():
    process, other = begun()
    with process:
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert b"KeyboardInterrupt" in err
    assert err.count(b"Traceback") == 1  # this process tells of it, the other does not
    with pytest.raises(ProcessLookupError):
        os.kill(other, 0)


def test_several_threads_or_one_core_do_not_fork(monkeypatch):
    monkeypatch.setattr(forking.os, "fork", None)
    monkeypatch.setattr(forking.os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(forking, "_TASKS", ROOT)  # more entries than one
    with forking.forked(os.getpid) as made:
        assert made() == os.getpid()
    monkeypatch.setattr(forking.os, "sched_getaffinity", lambda _: {0})
    assert not forking.is_possible()


def test_site_of_two_processes_is_that_of_one(built, tmp_path):
    write = "report.write_site(results=Path({!r}), repository=Path({!r}), out=Path({!r}), cache=Path({!r}))"
    call = write.format(*map(str, (built.results, built.repository, tmp_path / "two", tmp_path / "cache")))
    done = run(f"""
from pathlib import Path
from kernel_velocity.site import report
report.FEWEST_APART, fork, forked = 1, os.fork, []
os.fork = lambda: forked.append(0) or fork()
{call}
print(len(forked))
""")
    assert done.stdout == "1\n"
    report.write_site(results=built.results, repository=built.repository, out=tmp_path / "one", cache=tmp_path / "else")
    first, two = (
        {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}
        for out in (tmp_path / "one", tmp_path / "two")
    )
    assert len(first) > 20
    assert first == two
    stored = [answers(tmp_path / folder) for folder in ("cache", "else")]
    assert stored[0] == stored[1]
    assert stored[0]


def answers(folder):
    """Return the answers that a cache stores, by key."""
    with contextlib.closing(sqlite3.connect(folder / cache.FILE_NAME)) as connection:
        return dict(connection.execute("SELECT key, value FROM answer").fetchall())
