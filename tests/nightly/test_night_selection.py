"""Which commits a night measures: what is new, holes, builds that failed once, a heartbeat; within its time."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.nightly.plan import FIRST_NIGHT, MEASURING, RETRIES, Known, Planned, Why, plan


def line(text):
    """Return commits, newest first: k changes a kernel, d documentation; capital: measured; a digit: builds failed;
    an exclamation mark: what is recorded of it cannot be read.
    """
    found = []
    for letter in text:
        if letter.isdigit():
            found[-1] = replace(found[-1], failed_builds=int(letter))
        elif letter == "!":
            found[-1] = replace(found[-1], is_readable=False)
        else:
            found.append(
                Known(commit=str(len(found)), changes_kernels=letter.lower() == "k", is_measured=letter.isupper())
            )
    return found


def planned(text, **more):
    done = plan(line(text), **{"budget": 1e6, "seconds_per_commit": 60.0, **more})
    return [(item.commit, item.why) for item in done.commits]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("kdkK", [("0", Why.NEW), ("2", Why.NEW)]),  # documentation alone cannot change a kernel
        ("KkkKk", [("1", Why.HOLE), ("2", Why.HOLE)]),  # what is older than all that is measured is not wanted
        ("kKkK", [("0", Why.NEW), ("2", Why.HOLE)]),
        ("Kk1kK", [("2", Why.HOLE), ("1", Why.BUILD_AGAIN)]),
        ("k1K", [("1", Why.HEARTBEAT), ("0", Why.BUILD_AGAIN)]),  # what may not build again measures nothing
        ("ddK", [("0", Why.HEARTBEAT)]),  # the newest: its kernels are those of the last
        ("KK", [("0", Why.HEARTBEAT)]),
        ("d1dK", [("1", Why.HEARTBEAT)]),
        ("d", [("0", Why.HEARTBEAT)]),
        ("K!K", [("1", Why.HEARTBEAT)]),  # nothing can be added to what is recorded of the newest
        (f"Kk{RETRIES + 1}K", [("0", Why.HEARTBEAT)]),  # it had its second chance
    ],
)
def test_a_night_measures(text, found):
    assert planned(text) == found


def test_a_first_night_does_not_measure_a_whole_history():
    assert planned("dkkdkkkk") == [(str(index), Why.NEW) for index in (1, 2, 4)][:FIRST_NIGHT]


def test_what_the_time_does_not_allow_is_left_for_another_night():
    found = plan(line("kkkkK"), budget=200.0 / MEASURING, seconds_per_commit=60.0)
    assert found.commits == tuple(Planned(commit=str(index), why=Why.NEW) for index in range(3))
    assert found.left == (Planned(commit="3", why=Why.NEW),)


def test_even_a_short_night_measures_something():
    assert planned("kkK", budget=1.0) == [("0", Why.NEW)]


@given(st.text(alphabet="kdKD", min_size=1, max_size=30), st.floats(1, 1e5))
def test_nothing_is_lost_or_measured_twice(text, budget):
    known = line(text)
    found = plan(known, budget=budget, seconds_per_commit=60.0)
    everything = [item.commit for item in (*found.commits, *found.left)]
    assert len(set(everything)) == len(everything) and found.commits
    measured = [index for index, item in enumerate(known) if item.is_measured]
    wanted = (
        {item.commit for item in known[: measured[-1]] if item.changes_kernels and not item.is_measured}
        if measured
        else set()
    )
    assert wanted <= set(everything)
    assert all(item.why is not Why.HEARTBEAT for item in found.commits) or not wanted


@pytest.mark.parametrize(("budget", "seconds"), [(0.0, 60.0), (60.0, 0.0), (float("nan"), 60.0)])
def test_times_that_are_none_are_refused(budget, seconds):
    with pytest.raises(ValueError, match="positive times"):
        plan(line("k"), budget=budget, seconds_per_commit=seconds)


def test_a_night_without_a_commit_is_refused():
    with pytest.raises(ValueError, match="without a commit"):
        plan([], budget=1.0, seconds_per_commit=1.0)
