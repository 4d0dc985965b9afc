"""What moved and whose doing it is: one answer for pages and nights."""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest

from kernel_velocity.names import CONTROLS
from kernel_velocity.past import past
from kernel_velocity.results import lines
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.stats.changepoints import search
from kernel_velocity.stats.changepoints.search import Level, Noise, OlderStep
from kernel_velocity.stats.changepoints.values import ChangePoint
from kernel_velocity.verdict import history, moves
from kernel_velocity.verdict.moves import Untested
from kernel_velocity.verdict.verdicts import Verdicts, Word
from tests import large_tree

COMMITS, SERIES = 60, 40
NATIVES = [n for n in range(SERIES) if large_tree.PAIRS[n % len(large_tree.PAIRS)][0] == "native"]
NEWEST = COMMITS - 3  # too new for the detector


def machine_step(at, factor):
    return large_tree.Change(at=at, factor=factor, series=tuple(range(SERIES)))


# What truly happened, and how many changes a page shows: where the code is unknown, and where it changed once
HISTORIES = {
    "nothing": ([], 0, 0),
    "steps of commits": (
        [
            large_tree.Change(at=at, factor=factor, series=(series,))
            for at, factor, series in zip((20, 30, NEWEST, 25), (1.05, 0.9, 1.1, 1.02), NATIVES, strict=False)
        ],
        4,
        2,
    ),
    "the machine's": ([machine_step(30, 1.05)], 0, 0),
    "the machine's, of late": ([machine_step(NEWEST, 1.05)], 0, 0),
    "both at once": ([machine_step(30, 1.05), large_tree.Change(at=30, factor=1.1, series=tuple(NATIVES[:1]))], 1, 0),
}


def test_older_step_that_later_values_deny_is_taken_back():
    step = ChangePoint(index=30, before=0.0, after=0.03, low=1.0, high=1.06, p=1e-7)
    level = Untested(np.arange(40), Level(np.zeros(40), Noise(0.005, search.NORMAL), math.nan))

    def steps(first, by_now):
        both = OlderStep(replace(step, p=by_now), replace(step, p=first))
        (result,) = moves.steps([()], [(None, level)], [[both]], [Noise(0.005, search.NORMAL)], 1e-3)
        return result

    assert steps(1e-7, 0.009).sure == (replace(step, p=0.009),)
    (taken_back,) = steps(1e-7, 0.5).sure
    assert taken_back == replace(step, is_unsteady=True, warnings=(moves.TAKEN_BACK,))
    assert steps(0.2, 1e-7).sure == (step,)
    assert steps(0.2, 0.5) == ((), ())
    (doubted,) = moves.steps(
        [()] * 99,
        [(None, level)] * 99,
        [[OlderStep(*[replace(step, p=8e-4)] * 2)], *[[]] * 98],
        [Noise(0.005, search.NORMAL)] * 99,
        1e-3,
    )[0].doubted
    assert doubted.index == 30


def with_code(folder, recorded, commits, changed_at):
    """Record the machine code of all kernels: another one from a commit on."""
    key = recorded.keys[0]
    kernels = {series.benchmark.partition(".")[0] for series in recorded.keys}
    for index, sha in enumerate(commits):
        code = dict.fromkeys(kernels, ("b" if index >= changed_at else "a") * 64)
        path = folder / "results" / key.machine / f"{sha[:8]}-{key.environment}.json"
        lines.append_session(path, SessionFacts(began=100.0 + index, code=code))
    return past.open(folder / "results", folder / "repository")


def changes_of_page(recorded):
    """Return (series, entry) -> ratio of each step that pages call a change."""
    return {
        (key.benchmark, key.implementation, key.case, point.index): pytest.approx(point.ratio, rel=1e-4)
        for key in recorded.keys
        for point in levels_of(recorded)[key].points
        if point.is_blamed and levels_of(recorded)[key].between(point.index - 1, point.index).is_change
    }


@functools.cache
def levels_of(recorded):
    return Verdicts(recorded)


def changes_of_night(recorded):
    """Return the same of what a night suspects a commit of."""
    suspected = moves.of_histories(history.build(recorded).series, recorded.line)
    return {
        (move.identity.benchmark, move.identity.implementation, move.identity.case, move.point.index): math.exp(
            move.effect
        )
        for move in suspected
        if not move.is_machines
    }


def test_night_suspects_a_newest_value_that_pages_leave_open(tmp_path):
    """A re-run tells chance from a step."""
    step = large_tree.Change(at=COMMITS - 1, factor=1.01, series=tuple(NATIVES[:1]))
    large_tree.build(tmp_path, large_tree.Shape(commits=COMMITS, series=SERIES, rounds=6), [step])
    recorded = past.open(tmp_path / "results", tmp_path / "repository")
    assert changes_of_page(recorded) == {}
    ((*_, index),) = changes_of_night(recorded)
    assert index == COMMITS - 1


@pytest.mark.parametrize("changed_at", [None, 20], ids=["unknown code", "one change of the code"])
@pytest.mark.parametrize("name", HISTORIES)
def test_page_and_night_agree(tmp_path, name, changed_at):
    planted, of_unknown, of_known = HISTORIES[name]
    commits = large_tree.build(tmp_path, large_tree.Shape(commits=COMMITS, series=SERIES), planted)
    recorded = past.open(tmp_path / "results", tmp_path / "repository")
    if changed_at is not None:
        recorded = with_code(tmp_path, recorded, commits, changed_at)
    page, night = changes_of_page(recorded), changes_of_night(recorded)
    assert len(page) == (of_unknown if changed_at is None else of_known)
    assert {key: ratio for key, ratio in night.items() if key in page} == page  # a night misses no change of a page
    for key in night.keys() - page.keys():  # what it adds is doubted: no page calls it a change
        (series,) = [of for of in recorded.keys if (of.benchmark, of.implementation, of.case) == key[:3]]
        assert levels_of(recorded)[series].between(key[3] - 1, key[3]).word in (Word.UNDECIDED, Word.UNCHANGED)
    assert not any(implementation in CONTROLS for _, implementation, _, _ in night)
