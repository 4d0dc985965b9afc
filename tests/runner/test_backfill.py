"""Every n-th commit, then halves: each change of a simulated history is found at its commit, for few measurements."""

import argparse
import io
import itertools
import math
import re
from pathlib import Path
from typing import ClassVar

from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.past import past
from kernel_velocity.results import blocks
from kernel_velocity.runner import backfill, track
from kernel_velocity.runner.backfill import LogTime
from kernel_velocity.runner.select import Selection
from tests import synthetic

ERROR = 0.01  # of a level; noise stays within it
STEP = 0.1


@st.composite
def histories(draw):
    """Return what series read at each commit, newest first, None where a commit does not build, and `every`."""
    size = draw(st.integers(1, 60))
    noise = st.floats(-ERROR, ERROR)
    changes = draw(st.lists(st.sets(st.integers(1, max(1, size - 1)), max_size=3), min_size=1, max_size=2))
    broken = draw(st.sets(st.integers(0, size - 1), max_size=6))
    reads = []
    for index in range(size):
        steps = [sum(index < change for change in several) for several in changes]  # a change is at its older neighbour
        reads.append(None if index in broken else [STEP * count + draw(noise) for count in steps])
    return reads, changes, draw(st.integers(1, 16))


def search(reads, every):
    """Return the commits that are measured, in turns."""
    line, turns, levels, tried = [str(index) for index in range(len(reads))], [], {}, set()
    while todo := backfill.wanted(line, every, tried, levels):
        turns.append([int(sha) for sha in todo])
        tried.update(todo)
        for sha in todo:
            if (values := reads[int(sha)]) is not None:
                levels[sha] = {number: LogTime(value, ERROR) for number, value in enumerate(values)}
    return turns


@given(histories())
def test_each_change_is_found_at_its_commit(history):
    reads, changes, every = history
    tried = set(itertools.chain.from_iterable(search(reads, every)))
    measured = sorted(index for index in tried if reads[index] is not None)
    for change in set().union(*changes):
        newer = [index for index in measured if index < change]
        older = [index for index in measured if index >= change]
        if newer and older:  # else an end of the history does not build
            assert tried.issuperset(range(newer[-1] + 1, older[0])), (newer[-1], older[0])


@given(histories())
def test_a_commit_is_measured_once_and_the_cost_is_logarithmic(history):
    reads, changes, every = history
    turns = search(reads, every)
    tried = list(itertools.chain.from_iterable(turns))
    assert len(tried) == len(set(tried))
    grid = {*range(0, len(reads), every), len(reads) - 1}
    assert set(turns[0]) == grid
    if None not in reads:
        number = len(set().union(*changes))
        assert len(tried) <= len(grid) + number * math.ceil(math.log2(every))


class Session:
    """A session that measures synthetic values."""

    environment = synthetic.ENVIRONMENT
    sessions: ClassVar[list[tuple[tuple[int, ...], tuple[str, ...]]]] = []  # the commits of each, and its lanes
    tree: ClassVar[Path]
    history: ClassVar[tuple[str, ...]]  # oldest first

    def __init__(self, *, root, commits, series, rounds, machine):
        self.root, self.commits, self.series, self.machine = self.tree / "repository", commits, series, machine
        self.results, self.measured = self.tree / "results", commits

    def measure(self, again, out, *, first_look):
        assert not first_look
        for sha in self.commits:
            synthetic.write_commit(self.results, sha, self.history.index(sha), machine=self.machine)
        lanes = dict.fromkeys(map(blocks.lane_of, self.series.series))
        self.sessions.append((tuple(map(self.history.index, self.commits)), tuple(lanes)))

    def nothing(self, *_, **__):
        pass

    recover = announce = ingest = build = measure_ceilings = nothing


def test_track_halves_where_a_test_case_changed(tmp_path, monkeypatch):
    messages = [f"Change {number}" for number in range(12)]
    history = synthetic.make_repository(tmp_path / "repository", messages, "Ada")
    synthetic.write_json(tmp_path / "results/benchmarks.json", synthetic.benchmarks_json())
    synthetic.write_json(tmp_path / "results/box/machine.json", synthetic.machine_json("box"))
    monkeypatch.setattr(Session, "tree", tmp_path, raising=False)
    monkeypatch.setattr(Session, "history", history, raising=False)
    everything = [
        (name, (kind, case))
        for name, cases in synthetic.CASES.items()
        for kind in ("eager", "native")
        for case in cases
    ]

    def chosen(bench):
        matching = [(name, params) for name, params in everything if re.search(bench, f"{name}{params}")]
        return Selection(series=tuple(matching), versions={})

    seconds = synthetic.seconds
    monkeypatch.setattr(  # no commit changed matmul
        synthetic, "seconds", lambda name, *rest: seconds(name, *rest[:2], 5 if name.startswith("matmul") else rest[2])
    )
    selection = chosen("")
    monkeypatch.setattr(track, "_select", lambda *_: ("cpu", history[::-1], selection))
    monkeypatch.setattr(track.select, "select", lambda suite, device, tier, bench: chosen(bench))
    monkeypatch.setattr(track.config, "suite", lambda root: None)
    monkeypatch.setattr(track, "Session", Session)
    monkeypatch.setattr(track, "machine", lambda name: name)
    monkeypatch.setattr(track, "_report", lambda *_: 0)
    monkeypatch.delenv("KV_LOCK_HOLDER", raising=False)
    (tmp_path / "asv.conf.json").write_text("{}")

    def run(*options):
        monkeypatch.setattr(Session, "sessions", [])
        parser, out = argparse.ArgumentParser(), io.StringIO()
        track.add_arguments(parser)
        arguments = [f"--root={tmp_path}", "--machine=box", "--no-site", "--every=6", *options]
        assert track.run(parser.parse_args(arguments), out, out) == 0
        return Session.sessions, out.getvalue()

    sessions, text = run()
    assert [commits for commits, _ in sessions] == [
        (11, 5, 0),
        (3,),
        (2,),
        (1,),
    ]  # it is between the second and the third
    assert [len(lanes) for _, lanes in sessions] == [4, 2, 2, 2]
    assert "1 commit between two that differ in add_mul_exp float32-500k, add_mul_exp float32-5M\n" in text
    repeated, _ = run("--again=1")
    assert [commits for commits, _ in repeated] == [commits for commits, _ in sessions]
    assert [commits for commits, _ in run()[0]] == [(11, 5, 0)]  # nothing is left
    _, text = run("--minutes=1e-9", "--again=1")
    assert "no time left for 1 commit between two that differ" in text and len(Session.sessions) == 1


def test_levels_are_of_complete_values_that_commits_can_change(tmp_path):
    tree = synthetic.build(tmp_path)
    recorded = past.open(tree.results, tree.repository)
    levels = backfill.levels(recorded, recorded.keys, tree.commits[:2], rounds=8)
    assert set(levels) == set(tree.commits[:2])
    assert {key.implementation for of_commit in levels.values() for key, _ in of_commit} == {"native"}
    everything = backfill.levels(recorded, recorded.keys, tree.commits, rounds=8)
    agreeing = backfill.levels(recorded, recorded.keys, tree.commits, rounds=9)
    assert 0 < sum(map(len, agreeing.values())) < sum(map(len, everything.values()))
