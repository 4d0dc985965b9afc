"""How an interrupted run resumes: from how many rounds, and which commits in which steps."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.results.asv_file import StoredSeries
from kernel_velocity.runner import session
from kernel_velocity.runner.session import AsvRun
from tests.ab.simulated_machine import OTHER, SERIES, a_round


def test_steps_end_at_looks():
    assert session.resuming_steps({"b": 0, "a": 0}, 16) == (
        AsvRun(commits=("b", "a"), rounds=4, before=0),
        AsvRun(commits=("b", "a"), rounds=4, before=4),
        AsvRun(commits=("b", "a"), rounds=8, before=8),
    )
    assert session.resuming_steps({"b": 0, "a": 0}, 3) == (AsvRun(commits=("b", "a"), rounds=3, before=0),)


def test_first_look_needs_a_round_of_every_commit():
    assert session.resuming_steps({"b": 0, "a": 0}, 8, first_look=True) == (
        AsvRun(commits=("b", "a"), rounds=1, before=0),
        AsvRun(commits=("b", "a"), rounds=3, before=1),
        AsvRun(commits=("b", "a"), rounds=4, before=4),
    )


def test_steps_begin_with_the_commits_that_are_behind():
    assert session.resuming_steps({"c": 5, "b": 5, "a": 4}, 8) == (
        AsvRun(commits=("a",), rounds=1, before=4),
        AsvRun(commits=("c", "b", "a"), rounds=3, before=5),
    )
    assert session.resuming_steps({"b": 1, "a": 0}, 8)[0] == AsvRun(commits=("a",), rounds=1, before=0)


@given(st.dictionaries(st.text("abc", min_size=1), st.integers(0, 9), max_size=6), st.integers(1, 8), st.booleans())
def test_steps_complete_every_commit_and_replace_no_round(done, rounds, first_look):
    have = dict(done)
    for step in session.resuming_steps(done, rounds, first_look=first_look):
        for commit in step.commits:
            assert step.before or have[commit] == 0
            have[commit] += step.rounds
    assert have == {commit: max(number, rounds) for commit, number in done.items()}


def measured(series, number, scatter=0.1, **more):
    """Return the rounds of a series, and asv's value of them."""
    seconds = [1e-3 * (1 + scatter * (index % 2)) for index in range(number)]
    rounds = [a_round(series, 100.0 + index, value, f"{index}") for index, value in enumerate(seconds)]
    stored = StoredSeries(
        value=1e-3,
        failed=False,
        samples=tuple(record.estimate for record in rounds),
        count=number,
        started_at=None,
        duration=None,
    )
    return rounds, dataclasses.replace(stored, **more)


def resumable(*args, failures=None, now=200.0, method="m", change=lambda rounds: rounds):
    rounds = {series: change(records) for series, (records, _) in zip((SERIES, OTHER), args, strict=False)}
    stored = {series: value for series, (_, value) in zip((SERIES, OTHER), args, strict=False)}
    return session.resumable_rounds(
        stored, rounds, (SERIES, OTHER), failures=failures or {}, rounds=8, method=method, now=now
    )


FIVE = measured(SERIES, 5), measured(OTHER, 5)
FAILED = {"value": None, "failed": True, "samples": None, "count": None}
ABSENT = FAILED | {"failed": False}


def test_resumes_from_the_rounds_that_every_series_has():
    assert resumable(*FIVE) == 5


@pytest.mark.parametrize(("other", "failures", "number"), [(FAILED, 0, 5), (ABSENT, 1, 5), (ABSENT, 0, 0)])
def test_series_without_value_needs_a_recorded_reason(other, failures, number):
    assert resumable(FIVE[0], measured(OTHER, 0, **other), failures={OTHER: failures}) == number


@pytest.mark.parametrize(("number", "begin"), [(3, 0), (4, 5)])
def test_series_with_enough_rounds_holds_no_other_up(number, begin):
    assert resumable(FIVE[0], measured(OTHER, number, scatter=1e-3)) == begin


@pytest.mark.parametrize(
    ("number", "scatter", "is_enough"), [(3, 1e-3, False), (4, 1e-3, True), (4, 0.1, False), (8, 0.1, True)]
)
def test_rounds_that_agree_are_enough(number, scatter, is_enough):
    assert session.has_enough(measured(SERIES, number, scatter)[1], 8) is is_enough


def test_failed_round_counts_as_a_round():
    assert resumable(FIVE[0], measured(OTHER, 4), failures={OTHER: 1}) == 5


@pytest.mark.parametrize(
    "recorded",
    [
        {"now": 100.5 + session.LONGEST_SESSION},  # of an earlier session
        {"now": 103.5},  # of one before the clock was set back
        {"method": "other"},
        {"change": lambda rounds: rounds[:-1]},  # a round without telemetry
    ],
)
def test_rounds_of_another_session_are_measured_again(recorded):
    assert resumable(*FIVE, **recorded) == 0


@pytest.mark.parametrize(
    "recorded",
    [
        FIVE[:1],  # the other is not stored
        (FIVE[0], measured(OTHER, 4)),
        (FIVE[0], measured(OTHER, 5, samples=None)),  # asv run without --record-samples: it cannot be appended to
        (measured(SERIES, 8), measured(OTHER, 8)),  # complete, so its measurement is incomplete for another reason
        (measured(SERIES, 0, **FAILED), measured(OTHER, 0, **FAILED)),  # the fault of the machine
    ],
)
def test_unequal_rounds_are_measured_again(recorded):
    assert resumable(*recorded) == 0


def test_summary_names_the_resumed_commits():
    line = "resuming abc after 5, cde after 4 of 8 rounds"
    assert session.resuming_line({"abcdef": 5, "bcdefa": 0, "cdefab": 4}, 8, 3) == line
    assert session.resuming_line({"abcdef": 0}, 8, 3) is None
