"""Adjusting recorded series: what the machine did goes, what a commit did stays."""

import dataclasses
import math
import random
import statistics

import pytest

from benchmarks.harness.telemetry import Round
from tools.adjusted_series import adjusted
from tools.measurements import SeriesKey

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
