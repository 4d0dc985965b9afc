"""Which commits can have caused a change: the true one is among them, and few others."""

import math
import statistics

import numpy as np
import pytest

from kernel_velocity.past import past
from kernel_velocity.results.git import SideCommit
from kernel_velocity.stats.changepoints.values import ChangePoint
from kernel_velocity.verdict import ranges
from kernel_velocity.verdict.ranges import NO_COMMIT, Beside, CommitRange, Line, Value
from kernel_velocity.verdict.verdicts import Verdicts
from tests import large_tree

COMMITS = tuple(f"{number:08x}" * 5 for number in range(20))
ORDER = {sha: position for position, sha in enumerate(COMMITS)}
LINE = Line(COMMITS, ORDER)
SHAPE = large_tree.Shape(commits=150, series=60)


def entries(*positions, code=None):
    return [Value(position, code) for position in positions]


def positions(commits):
    return [ORDER[sha] for sha in commits.commits]


def test_planted_changes_lie_in_their_ranges(tmp_path):
    chance = np.random.default_rng(3)
    native = [number for number in range(SHAPE.series) if large_tree.PAIRS[number % 20][0] == "native"]
    changes = [
        large_tree.Change(at=int(at), factor=float(factor), series=(int(series),))
        for at, factor, series in zip(
            chance.integers(15, 140, 12),
            chance.choice([0.8, 0.95, 1.04, 1.3], 12),
            chance.choice(native, 12, replace=False),
            strict=True,
        )
    ]
    commits = large_tree.build(tmp_path, SHAPE, changes)
    for number in chance.choice(150, 45, replace=False):
        for path in (tmp_path / "results" / large_tree.MACHINE).glob(f"{commits[number][:8]}-*"):
            path.unlink()
    recorded = past.open(tmp_path / "results", tmp_path / "repository")
    levels, extra, alone = Verdicts(recorded), [], {}
    for key in recorded.keys:
        alone[key] = {commits.culprit for commits in levels[key].ranges if commits.culprit}
    for change in changes:
        benchmark, pair = divmod(change.series[0], 20)
        name = SHAPE.benchmarks[benchmark], *large_tree.PAIRS[pair]
        (key,) = [key for key in recorded.keys if (key.benchmark, key.implementation, key.case) == name]
        measured, cause = recorded.columns(key).position, commits[change.at]
        gap = measured[measured >= change.at].min() - measured[measured < change.at].max()
        (named,) = [range_ for range_ in levels[key].ranges if cause in range_.commits]
        extra.append(len(named.commits) - gap)
        alone[key] -= {cause}
    assert len(extra) == 12 and statistics.median(extra) <= 1
    assert not any(alone.values())


def point(index, before=0.0, after=0.1):
    ratio = math.exp(after - before)
    return ChangePoint(index=index, before=before, after=after, low=ratio * 0.99, high=ratio * 1.01, p=1e-9)


def test_noise_widens_a_range_by_what_the_values_leave_open():
    quiet = np.array([0.001, -0.001] * 10 + [0.101, 0.099] * 10)
    assert ranges.began(quiet, point(20), 20) == (19, 20)
    half_way = quiet.copy()
    half_way[20] = 0.05
    assert ranges.began(half_way, point(20), 20) == (19, 21)
    misleading = quiet.copy()
    misleading[[3, 8, 30, 36]] = 0.1, 0.1, 0.0, 0.0  # one value of ten is of the other level
    good, bad = ranges.began(misleading, point(20), 20)
    assert good < 19 and bad > 20
    back = np.r_[np.full(5, 0.1), quiet[:4], quiet[20:]]  # the level before is short: what lies before it tells nothing
    assert ranges.began(back + np.tile([0.001, -0.001], 30)[: len(back)], point(9), 9, first=5) == (8, 9)


def test_what_cannot_have_changed_the_code_leaves():
    assert positions(LINE.between(entries(3, 7))) == [4, 5, 6, 7]
    idle = Line(COMMITS, ORDER, frozenset({COMMITS[4], COMMITS[7]}))
    assert positions(idle.between(entries(3, 7))) == [5, 6]
    built = [Value(3, "a"), Value(5, "a"), Value(6, "b"), Value(9, "b")]
    only = LINE.between(built)
    assert (positions(only), only.good, only.bad) == ([6], COMMITS[5], COMMITS[6])  # the nearest measured ends
    assert str(only) == COMMITS[6][:8]
    none = LINE.between(entries(3, 7, code="a"))
    assert none.commits == () and str(none) == NO_COMMIT
    assert str(LINE.between(entries(3, 7))) == f"one of 4 commits, {COMMITS[3][:8]}..{COMMITS[7][:8]}"


# Commit 6 merges a branch that forked at 4: what was measured on the branch is before or after the change
@pytest.mark.parametrize(
    ("log", "alike", "left"),
    [
        (0.1, False, [4, 6]),  # the cause is behind the branch, or on it
        (0.0, False, [5, 6, 7]),
        (0.0, True, [5, 7]),  # the merge has the same files
        (0.05, True, [4, 5, 6, 7]),  # half-way says nothing
    ],
)
def test_value_beside_the_line_narrows_a_range(log, alike, left):
    side = Beside(SideCommit(fork=4, merge=6, is_merge_alike=alike), log)
    named = LINE.of_step(np.array([0.001, -0.001] * 5), point(10), entries(3, 7), [side])
    assert positions(named) == left


def test_machines_narrow_each_other_but_two_steps_of_one_do_not():
    def of(first, last):
        return CommitRange(good=COMMITS[first], bad=COMMITS[last], commits=COMMITS[first + 1 : last + 1])

    steps = [
        ("up", "a", of(1, 6)),
        ("up", "b", of(4, 9)),
        ("up", "c", of(3, 5)),
        ("down", "d", of(4, 8)),
        ("up", "a", of(5, 9)),
    ]
    first, second, third, other, later = ranges.agreed(steps, ORDER)
    assert first == second == third and (positions(first), first.good, first.bad) == ([5], COMMITS[4], COMMITS[5])
    assert other == of(4, 8) and later == of(5, 9)


@pytest.mark.parametrize(("began_at", "left"), [(35, range(39, 42)), (10, [38]), (None, range(38, 42))])
def test_side_value_lacks_what_the_machine_did(tmp_path, monkeypatch, began_at, left):
    """After the machine's +10% a side commit from before a change of +8% is slower than the line was after it."""
    shape, native = large_tree.Shape(commits=60, series=20), large_tree.PAIRS.index(("native", "float32-1M"))
    machine = large_tree.moved(shape, 20, of_controls=1.1, of_others=1.1)
    commits = large_tree.build(tmp_path, shape, [*machine, large_tree.Change(at=40, factor=1.08, series=(native,))])
    for number in (38, 39, 40):
        for path in (tmp_path / "results" / large_tree.MACHINE).glob(f"{commits[number][:8]}-*"):
            path.unlink()
    recorded = past.open(tmp_path / "results", tmp_path / "repository")
    (key,) = [key for key in recorded.keys if (key.implementation, key.case) == large_tree.PAIRS[native]]
    columns = recorded.columns(key)
    method = columns.methods[columns.method[0]] if columns.methods else None
    side = SideCommit(fork=38, merge=59, is_merge_alike=False)
    began = math.nan if began_at is None else large_tree.FIRST + 3600.0 * began_at
    value = float(np.median(columns.seconds[25:35]))
    monkeypatch.setattr(past.Past, "beside", lambda *_: iter([(side, method, value, began)]))
    (named,) = Verdicts(recorded)[key].ranges
    assert [recorded.order[sha] for sha in named.commits] == [*left]


def test_commits_of_documents_cause_no_step(tmp_path):
    change = large_tree.Change(at=20, factor=1.2, series=(12,))
    commits = large_tree.build(tmp_path, large_tree.Shape(commits=40, series=20), [change])
    for number in (18, 19, 20, 21):
        for path in (tmp_path / "results" / large_tree.MACHINE).glob(f"{commits[number][:8]}-*"):
            path.unlink()

    def named(built_from):
        (tmp_path / "repository" / "kernel-velocity.toml").write_text(f"built-from = {built_from}\n")
        recorded = past.open(tmp_path / "results", tmp_path / "repository")
        (key,) = [key for key in recorded.keys if (key.implementation, key.case) == large_tree.PAIRS[12]]
        return Verdicts(recorded)[key]

    every = named('["kernel.cpp"]')  # which all commits touch
    assert every.ranges[0].commits == commits[18:23] and every.points[0].is_blamed
    none = named('["other.cpp"]')
    assert none.ranges[0].commits == () and not none.points[0].is_blamed
