"""Adjusting recorded series: what the machine did goes, what a commit did stays."""

import dataclasses
import math
import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.harness.telemetry import Round
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.stats.adjust_series import adjusted, fitted

KEY = SeriesKey(
    machine="box", environment="e", benchmark="k.Cpu.time_hot", implementation="native", case="c", version="1"
)
BUSY = 1.4  # times slower beside a busy neighbour


def rounds(seconds, seed, *, gauges=True, factor=lambda rng: BUSY if rng.random() < 0.4 else 1.0):
    """Return 8 rounds, some of them beside a busy neighbour that the gauge feels twice as much as the kernel."""
    rng = random.Random(seed)
    found = []
    for number in range(8):
        busy = factor(rng)
        found.append(
            Round(
                benchmark=KEY.benchmark,
                params=(KEY.implementation, KEY.case),
                time=1000.0 * seed + number,
                estimate=seconds * math.sqrt(busy) * math.exp(rng.gauss(0, 0.002)),
                n=9,
                batch=1,
                spent=0.1,
                stop="budget",
                method="m",
                launch=f"{seed}-{number}",
                core_gauge=3e-5 * busy if gauges else None,
            )
        )
    return found


def medians(found):
    return {commit: statistics.median(values) for commit, values in found.items()}


def test_what_the_gauge_felt_is_taken_out_and_what_a_commit_did_stays():
    history = {f"c{number}": rounds(1e-3 if number < 3 else 0.95e-3, number + 1) for number in range(6)}
    found = medians(adjusted({(KEY, "m"): history})[KEY, "m"])
    raw = {commit: statistics.median(item.estimate for item in items) for commit, items in history.items()}
    assert max(raw.values()) / min(raw.values()) > 1.1
    for number in range(6):
        assert found[f"c{number}"] == pytest.approx(1e-3 if number < 3 else 0.95e-3, rel=0.005)


def test_a_commit_whose_every_round_was_disturbed_is_not_blamed():
    history = {f"c{number}": rounds(1e-3, number + 1) for number in range(5)}
    history["c5"] = rounds(1e-3, 6, factor=lambda rng: BUSY * (1 + 0.01 * rng.random()))
    assert medians(adjusted({(KEY, "m"): history})[KEY, "m"])["c5"] == pytest.approx(1e-3, rel=0.005)


def test_without_gauges_the_controls_of_the_same_state_and_method_tell():
    control = dataclasses.replace(KEY, implementation="eager")
    native = {f"c{number}": rounds(1e-3, number + 1, gauges=False) for number in range(4)}
    eager = {
        commit: [dataclasses.replace(item, estimate=item.estimate * 3) for item in items]
        for commit, items in native.items()
    }
    found = adjusted({(KEY, "m"): native, (control, "m"): eager})
    assert set(found) == {(KEY, "m")}  # a control is its own witness: nothing would be left of it
    values = [value for commit in found[KEY, "m"].values() for value in commit]
    assert max(values) / min(values) < 1.001
    for other in (
        (control, "another method"),
        (dataclasses.replace(control, benchmark="k.Cpu.time_cold"), "m"),
        (dataclasses.replace(control, benchmark="k.Cuda.time_hot"), "m"),
        (dataclasses.replace(control, environment="another torch"), "m"),
        (dataclasses.replace(control, machine="elsewhere"), "m"),
    ):
        assert adjusted({(KEY, "m"): native, other: eager}) == {}


def test_rounds_that_shared_a_launch_are_told_apart():
    shared = [dataclasses.replace(item, launch="one") for item in rounds(1e-3, 1)]
    assert len(adjusted({(KEY, "m"): {"c0": shared}})[KEY, "m"]["c0"]) == 8


def test_a_commit_with_rounds_that_no_gauge_was_read_in_is_left_as_it_is():
    history = {f"c{number}": rounds(1e-3, number + 1) for number in range(5)}
    history["c2"][3] = dataclasses.replace(history["c2"][3], core_gauge=None)
    assert set(adjusted({(KEY, "m"): history})[KEY, "m"]) == {"c0", "c1", "c3", "c4"}


def test_a_gauge_that_was_seldom_read_is_done_without():
    """Else the rounds without it, most of them, would be left out."""
    history = {f"c{number}": rounds(1e-3, number + 1) for number in range(5)}
    whole = adjusted({(KEY, "m"): history})
    seldom = {
        commit: [dataclasses.replace(item, control_gauge=1e-3 * number if number else None) for item in items]
        for number, (commit, items) in enumerate(history.items())
    }
    assert adjusted({(KEY, "m"): seldom}) == whole


def test_what_only_a_control_beside_the_samples_felt_is_taken_out():
    """The gauge of the core saw nothing."""
    history = {
        f"c{number}": [
            dataclasses.replace(item, core_gauge=3e-5, control_gauge=item.core_gauge * 20)
            for item in rounds(1e-3, number + 1)
        ]
        for number in range(5)
    }
    found = medians(adjusted({(KEY, "m"): history})[KEY, "m"])
    assert list(found.values()) == pytest.approx([1e-3] * 5, rel=0.005)


def test_a_series_that_does_not_move_with_its_gauge_is_not_adjusted():
    still = {"c0": [dataclasses.replace(item, core_gauge=3e-5) for item in rounds(1e-3, 1)]}
    assert adjusted({(KEY, "m"): still}) == {}


def test_nothing_to_adjust_by():
    assert adjusted({(KEY, "m"): {"c0": rounds(1e-3, 1, gauges=False)}}) == {}


def test_commits_known_to_run_the_same_tell_by_how_they_differ():
    """The gauge of each session has a reading of its own: only between sessions does it say what the machine did."""
    rng = random.Random(4)
    history = {}
    for number in range(8):
        mood = math.exp(rng.gauss(0, 0.03))
        history[f"c{number}"] = [
            dataclasses.replace(
                item, estimate=1e-3 * mood * math.exp(rng.gauss(0, 0.001)), core_gauge=3e-5 * mood * rng.gauss(1, 0.01)
            )
            for item in rounds(1e-3, number + 1)
        ]
    place = (KEY, "m")
    apart = adjusted({place: history}).get(
        place, {commit: [r.estimate for r in items] for commit, items in history.items()}
    )
    together = adjusted({place: history}, {place: dict.fromkeys(history, "same code")})[place]

    def spread(found):
        return statistics.stdev(math.log(value) for value in medians(found).values())

    assert spread(together) < 0.5 * spread(apart)


def measured(count, *, gauges=True):
    """Return a history of so many commits, the last measured last, each beside a busier neighbour than the last one."""
    return {
        f"c{number}": rounds(
            1e-3, number + 1, gauges=gauges, factor=lambda rng, at=number: 1 + at * 0.01 + rng.random()
        )
        for number in range(count)
    }


def beside(history):
    """Return controls that felt about the same as native, in a series each; one of them is not as old."""
    rng = {commit: random.Random(commit) for commit in history}
    eager = {
        commit: [dataclasses.replace(item, estimate=item.estimate * rng[commit].gauss(3, 0.01)) for item in items]
        for commit, items in history.items()
    }
    young = {commit: items for commit, items in eager.items() if commit not in ("c0", "c1", "c2", "c3")}
    return {
        (dataclasses.replace(KEY, implementation="eager"), "m"): eager,
        (dataclasses.replace(KEY, implementation="compile"), "m"): young,
    }


@pytest.mark.parametrize("gauges", [True, False])
@pytest.mark.parametrize(("before", "after", "moves"), [(16, 17, False), (17, 18, True), (18, 19, False)])
def test_old_values_stay_as_they_are_to_the_last_bit_until_the_basis_grows(gauges, before, after, moves):
    history = measured(after, gauges=gauges)
    both = []
    for count in (before, after):
        part = dict(list(history.items())[:count])
        recorded = {(KEY, "m"): part} | ({} if gauges else beside(part))
        both.append(fitted(recorded)[KEY, "m"])
    old, new = both
    assert set(new.estimates) == set(history)
    assert (old.fit != new.fit) == moves
    assert (old.estimates != {commit: new.estimates[commit] for commit in old.estimates}) == moves


@pytest.mark.parametrize("gauges", [True, False])
def test_a_commit_that_is_measured_late_moves_no_value_wherever_it_stands(gauges):
    known = measured(17, gauges=gauges)
    late = {"b0": known.pop("c16"), **known}
    wanted, found = (adjusted({(KEY, "m"): one} | ({} if gauges else beside(one)))[KEY, "m"] for one in (known, late))
    assert {commit: found[commit] for commit in wanted} == wanted
    assert found.keys() - wanted.keys() == {"b0"}


@settings(max_examples=20)
@given(st.permutations(range(18)), st.booleans())
def test_values_follow_from_the_rounds_in_whatever_order_they_are_told(order, gauges):
    history = measured(18, gauges=gauges)
    shuffled = {f"c{number}": history[f"c{number}"][::-1] for number in order}
    recorded, other = ({(KEY, "m"): one} | ({} if gauges else beside(history)) for one in (history, shuffled))
    found, wanted = fitted(other), fitted(recorded)
    assert found == wanted


def test_a_gauge_is_used_if_the_basis_has_it():
    """One that fails later, or comes later, does not make old values others."""
    history = measured(17)
    wanted = adjusted({(KEY, "m"): history})[KEY, "m"]
    history["c16"] = [dataclasses.replace(item, core_gauge=None, memory_gauge=3e-5) for item in history["c16"]]
    found = adjusted({(KEY, "m"): history})[KEY, "m"]
    assert found == {commit: wanted[commit] for commit in wanted if commit != "c16"}
