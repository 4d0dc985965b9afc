"""Change points found in two processes are those found in one.

The tests that fork do so in a process of one thread: this one has pytest's and numpy's.
"""

import numpy as np

from tests.tools import one_thread, test_series_changes
from tests.tools.planted import stepped
from tools import making_apart, series_changes
from tools.changes_apart import Finder

SERIES = {
    name: test_series_changes.series(stepped(-7.0, -7.0 + effect, seed=seed))
    for seed, (name, effect) in enumerate({"a": 0.2, "b": -0.1, "c": 0.0, "d": 0.3, "e": 0.15}.items())
}
EXPECTED = {name: series_changes.of(each) for name, each in SERIES.items()}
BEGIN = """
import os, signal, tempfile
from pathlib import Path
from tests.tools.test_changes_apart import EXPECTED, SERIES
from tools import changes_apart, series_changes
from tools.changes_apart import Finder
from tools.errors import KernelVelocityError
changes_apart.FEWEST = 1
os.sched_getaffinity = lambda _: {0, 1}
from tools import changepoints_kept
found, here = changepoints_kept.found, os.getpid()
"""


def run(script):
    """Run a script in a process of one thread; return what it printed."""
    return one_thread.run(BEGIN + script).stdout.splitlines()


def test_in_whatever_order_they_are_asked_for():
    said = run("""
found_here = []
changepoints_kept.found = lambda *of: (os.getpid() == here and found_here.append(of), found(*of))[1]
changes_apart.BLOCK = 4
for order in ("abcde", "edcba", "ddb"):
    found_here.clear()
    finder = Finder(tuple(SERIES), SERIES.__getitem__)
    assert all(finder.of(name) == EXPECTED[name] for name in order)
    print(len(found_here))
del finder
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("no process is left")
""")
    assert said == ["3", "3", "2", "no process is left"]
    assert len(EXPECTED["d"]) == 1


def test_what_both_processes_find_is_kept():
    said = run("""
with tempfile.TemporaryDirectory() as folder:
    for _ in range(2):
        finder = Finder(tuple(SERIES), SERIES.__getitem__, Path(folder))
        assert all(finder.of(name) == EXPECTED[name] for name in SERIES)
        print(*(path.name for path in Path(folder).iterdir()))
        changepoints_kept.found = None
""")
    assert said == ["changes.kept"] * 2


def test_one_that_dies_is_an_error():
    said = run("""
changepoints_kept.found = lambda *of: os.kill(os.getpid(), signal.SIGKILL) if os.getpid() != here else found(*of)
finder = Finder(tuple(SERIES), SERIES.__getitem__)
try:
    finder.of("b")
except KernelVelocityError as error:
    print(error)
""")
    assert said == ["the process that makes a part of the site was ended by SIGKILL: run it again"]


def test_few_values_are_worth_no_process(monkeypatch):
    monkeypatch.setattr(making_apart, "Other", None)
    monkeypatch.setattr(making_apart, "is_possible", lambda: True)
    finder = Finder(tuple(SERIES), SERIES.__getitem__)
    assert {name: finder.of(name) for name in SERIES} == EXPECTED
    assert np.sum([len(each) for each in EXPECTED.values()]) >= 4
