"""How a run goes on with rounds that are there: how many, and which commits in which steps."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.results.join import StoredSeries
from kernel_velocity.runner import resume
from kernel_velocity.runner.resume import Step
from tests.ab.simulated_machine import OTHER, SERIES, a_round


def test_nothing_kept_is_one_step_of_all_rounds():
    assert resume.steps({"b": 0, "a": 0}, 8) == (Step(commits=("b", "a"), rounds=8, append=False),)


def test_what_is_behind_comes_first_and_then_all_in_turns():
    assert resume.steps({"c": 5, "b": 5, "a": 4}, 8) == (
        Step(commits=("a",), rounds=1, append=True),
        Step(commits=("c", "b", "a"), rounds=3, append=True),
    )
    assert resume.steps({"b": 1, "a": 0}, 8)[0] == Step(commits=("a",), rounds=1, append=False)


@given(st.dictionaries(st.text("abc", min_size=1), st.integers(0, 9), max_size=6), st.integers(1, 8))
def test_every_commit_ends_with_its_rounds_and_none_that_is_stored_is_replaced(kept, rounds):
    have = dict(kept)
    for step in resume.steps(kept, rounds):
        for commit in step.commits:
            assert step.append or have[commit] == 0
            have[commit] += step.rounds
    assert have == {commit: max(number, rounds) for commit, number in kept.items()}


def measured(series, number, **more):
    """Return the rounds of a series, and what asv stores of them."""
    rounds = [a_round(series, 100.0 + place, 1e-3 + place * 1e-6, f"{place}") for place in range(number)]
    stored = StoredSeries(
        value=1e-3,
        failed=False,
        samples=tuple(item.estimate for item in rounds),
        count=number,
        started_at=None,
        duration=None,
    )
    return rounds, dataclasses.replace(stored, **more)


def kept(*given, told=None, now=200.0, method="m", change=lambda rounds: rounds):
    rounds = {series: change(found) for series, (found, _) in zip((SERIES, OTHER), given, strict=False)}
    stored = {series: item for series, (_, item) in zip((SERIES, OTHER), given, strict=False)}
    return resume.kept_rounds(stored, rounds, (SERIES, OTHER), told=told or {}, rounds=8, method=method, now=now)


FIVE = measured(SERIES, 5), measured(OTHER, 5)
FAILED = {"value": None, "failed": True, "samples": None, "count": None}
ABSENT = FAILED | {"failed": False}


def test_what_every_series_has_is_gone_on_from():
    assert kept(*FIVE) == 5


@pytest.mark.parametrize(("other", "told", "number"), [(FAILED, 0, 5), (ABSENT, 1, 5), (ABSENT, 0, 0)])
def test_what_has_no_value_counts_only_if_nobody_asked_for_it(other, told, number):
    assert kept(FIVE[0], measured(OTHER, 0, **other), told={OTHER: told}) == number


def test_a_round_that_died_is_a_round():
    assert kept(FIVE[0], measured(OTHER, 4), told={OTHER: 1}) == 5


@pytest.mark.parametrize(
    "given",
    [
        {"now": 100.5 + resume.LONGEST},  # of an earlier session
        {"now": 103.5},  # of one before the clock was set back
        {"method": "other"},
        {"change": lambda rounds: rounds[:-1]},  # one has no telemetry
    ],
)
def test_what_is_not_of_this_session_is_measured_anew(given):
    assert kept(*FIVE, **given) == 0


@pytest.mark.parametrize(
    "given",
    [
        FIVE[:1],  # the other is not stored
        (FIVE[0], measured(OTHER, 4)),
        (FIVE[0], measured(OTHER, 5, samples=None)),  # asv run without --record-samples: there is nothing to add to
        (measured(SERIES, 8), measured(OTHER, 8)),  # complete, and yet to be measured: something else is wrong
        (measured(SERIES, 0, **FAILED), measured(OTHER, 0, **FAILED)),  # the machine was to blame
    ],
)
def test_what_is_not_the_same_of_all_series_is_measured_anew(given):
    assert kept(*given) == 0


def test_what_is_gone_on_from_is_said():
    assert (
        resume.said({"abcdef": 5, "bcdefa": 0, "cdefab": 4}, 8, 3)
        == "going on with abc after 5, cde after 4 of 8 rounds"
    )
    assert resume.said({"abcdef": 0}, 8, 3) is None
