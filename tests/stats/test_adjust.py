"""Adjusting by signals: the machine's share goes, the change of a commit stays."""

import dataclasses
import math
import random
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.engine.telemetry import Round
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.stats import adjust, adjust_series
from kernel_velocity.stats.adjust import MIN_ROUNDS, deviations, grown, slopes

KEYS = [(f"s{session}", f"r{round_}") for session in range(10) for round_ in range(8)]
CODE = {f"s{session}": "old" if session < 5 else "new" for session in range(10)}


def planted(seed=0, *, common=0.03, noise=0.002, beta=1.0, step=0.0):
    """Return (series, controls) that share a factor of every round. The series has a step at session 5."""
    rng = random.Random(seed)
    sessions = {f"s{session}": rng.gauss(0, common) for session in range(10)}
    factor = {key: sessions[key[0]] + rng.gauss(0, 2 / 3 * common) for key in KEYS}
    controls = [{key: 1.0 + factor[key] + rng.gauss(0, noise) for key in KEYS} for _ in range(4)]
    series = {
        key: -3.0 + beta * factor[key] + (step if CODE[key[0]] == "new" else 0.0) + rng.gauss(0, noise) for key in KEYS
    }
    return series, controls


def test_signals_that_say_nothing_are_not_used():
    series, controls = planted(beta=0.0)
    signal = deviations(controls)
    betas, explained = slopes(series, [signal])
    assert abs(betas[0]) < 0.05 and explained < 0.1
    still = dict.fromkeys(KEYS, 0.0)
    assert slopes(series, [still]) == ((0.0,), None)
    assert slopes(series, [signal, signal]) == ((0.0, 0.0), None)  # the two cannot be told apart
    assert slopes(dict.fromkeys(KEYS, 1.0), [signal]) == ((0.0,), None)
    series, controls = planted()
    (beta,), explained = slopes(series, [deviations(controls)])
    assert slopes(series, [still, deviations(controls)]) == ((0.0, beta), explained)


@given(st.floats(-20, 20), st.floats(-20, 20))
def test_units_do_not_matter(shift, control_shift):
    series, controls = planted()
    moved = {key: value + shift for key, value in series.items()}
    signal = deviations([{key: value + control_shift for key, value in control.items()} for control in controls])
    betas, explained = slopes(moved, [signal])
    still, wanted = slopes(series, [deviations(controls)])
    assert (*betas, explained) == pytest.approx((*still, wanted), rel=1e-6)


@pytest.mark.parametrize(("read", "usable"), [(80, True), (72, True), (71, False), (0, False)])
def test_gauge_must_be_read_in_nine_rounds_of_ten(read, usable):
    assert adjust.is_usable(dict.fromkeys(KEYS[:read], -5.0), dict.fromkeys(KEYS, -3.0)) == usable


def test_every_signal_needs_eight_rounds():
    series, controls = planted()
    signals = [deviations(controls[:2]), deviations(controls[2:])]

    def first(count):
        return dict(list(series.items())[:count])

    (beta,), explained = slopes(first(2 * MIN_ROUNDS - 1), signals[:1])
    assert beta > 0
    assert slopes(first(2 * MIN_ROUNDS - 1), signals) == ((beta, 0.0), explained)  # enough for one of the two
    assert slopes(first(MIN_ROUNDS - 1), signals) == ((0.0, 0.0), None)
    assert 0.0 not in slopes(first(2 * MIN_ROUNDS), signals)[0]


def test_round_that_lacks_a_signal_is_adjusted_by_the_others():
    series = {("s", "a"): 1.0, ("s", "b"): 2.0, ("s", "c"): 3.0}
    signals = [{("s", "a"): 0.1, ("s", "b"): 0.2}, {("s", "a"): 0.4}]
    assert adjust.adjusted(series, signals, (0.5, 2.0)) == {("s", "a"): 1.0 - (0.05 + 0.8), ("s", "b"): 1.9}


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(-30, 5), st.floats(-1, 1)), min_size=1, max_size=40))
def test_rounds_are_centred_by_the_median_of_their_code(rounds):
    codes = np.unique([code for code, *_ in rounds], return_inverse=True)[1]
    values = np.array([figures for _, *figures in rounds])
    wanted = values - np.array([np.median(values[codes == code], axis=0) for code in codes])
    assert (adjust._centred(values, codes) == wanted).all()


@pytest.mark.parametrize(("size", "expected"), [(6, 6), (16, 16), (17, 16), (18, 18), (19, 18), (63, 57), (900, 826)])
def test_basis_grows_by_an_eighth(size, expected):
    assert grown(size) == expected


# Recorded series.
KEY = SeriesKey(
    machine="box", environment="e", benchmark="k.Cpu.time_hot", implementation="native", case="c", version="1"
)
SERIES = KEY, "m"
BUSY = 1.4  # times slower beside a busy neighbour


def rounds(seconds, seed, *, gauges=True, factor=lambda rng: BUSY if rng.random() < 0.4 else 1.0):
    """Return 8 rounds, some of them beside a busy neighbour that the gauge feels twice as much as the kernel."""
    rng = random.Random(seed)
    result = []
    for number in range(8):
        busy = factor(rng)
        result.append(
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
    return result


def history(count, **how):
    return {f"c{number}": rounds(1e-3, number + 1, **how) for number in range(count)}


def changed(recorded, **fields):
    """Return a history with other values of some fields, each given by the round."""
    return {
        commit: [dataclasses.replace(round_, **{name: of(round_) for name, of in fields.items()}) for round_ in group]
        for commit, group in recorded.items()
    }


def adjusted(recorded, others=(), **how):
    """Return the adjusted estimates of a series, by commit. None if it is not adjusted."""
    return adjust_series.adjusted({SERIES: recorded, **dict(others)}, **how).get(SERIES, {})


def medians(by_commit):
    return {commit: statistics.median(values) for commit, values in by_commit.items()}


def test_gauge_removes_machine_noise_only():
    recorded = history(6)
    recorded |= {f"c{number}": rounds(0.95e-3, number + 1) for number in (3, 4, 5)}
    recorded["c6"] = rounds(0.95e-3, 7, factor=lambda rng: BUSY * (1 + 0.01 * rng.random()))  # all of it disturbed
    raw = medians({commit: [round_.estimate for round_ in group] for commit, group in recorded.items()})
    assert max(raw.values()) / min(raw.values()) > 1.1
    expected = {f"c{number}": 1e-3 if number < 3 else 0.95e-3 for number in range(7)}
    assert medians(adjusted(recorded)) == pytest.approx(expected, rel=0.005)
    by_control = changed(recorded, core_gauge=lambda round_: 3e-5, control_gauge=lambda round_: round_.core_gauge * 20)
    assert medians(adjusted(by_control)) == pytest.approx(expected, rel=0.005)


def test_series_without_gauges_is_adjusted_by_controls():
    native = history(4, gauges=False)
    eager = changed(native, estimate=lambda round_: round_.estimate * 3)
    control = dataclasses.replace(KEY, implementation="eager")
    result = adjust_series.adjusted({SERIES: native, (control, "m"): eager})
    assert set(result) == {SERIES}  # a control is not adjusted: nothing would be left of it
    values = [value for commit in result[SERIES].values() for value in commit]
    assert max(values) / min(values) < 1.001
    for other in (
        (control, "another method"),
        (dataclasses.replace(control, benchmark="k.Cpu.time_cold"), "m"),
        (dataclasses.replace(control, benchmark="k.Cuda.time_hot"), "m"),
        (dataclasses.replace(control, environment="another torch"), "m"),
        (dataclasses.replace(control, machine="elsewhere"), "m"),
    ):
        assert adjusted(native, {other: eager}) == {}


def test_rounds_of_one_launch_are_told_apart():
    assert len(adjusted(changed({"c0": rounds(1e-3, 1)}, launch=lambda round_: "one"))["c0"]) == 8


def test_commit_with_a_round_without_gauges_is_left_raw():
    recorded = history(5)
    recorded["c2"][3] = dataclasses.replace(recorded["c2"][3], core_gauge=None)
    assert set(adjusted(recorded)) == {"c0", "c1", "c3", "c4"}


def test_gauge_that_was_seldom_read_is_not_used():
    recorded = history(5)
    seldom = changed(recorded, control_gauge=lambda round_: round_.time * 1e-6 if round_.time > 2000 else None)
    assert adjusted(seldom) == adjusted(recorded) != {}


def test_series_with_nothing_to_adjust_by_is_left_raw():
    assert adjusted({"c0": rounds(1e-3, 1, gauges=False)}) == {}
    assert adjusted(changed({"c0": rounds(1e-3, 1)}, core_gauge=lambda round_: 3e-5)) == {}


def test_commits_of_the_same_code_are_compared():
    rng = random.Random(4)
    moods = {1000.0 * number: math.exp(rng.gauss(0, 0.03)) for number in range(1, 9)}
    recorded = changed(
        history(8),
        estimate=lambda round_: 1e-3 * moods[round_.time // 1000 * 1000] * math.exp(rng.gauss(0, 0.001)),
        core_gauge=lambda round_: 3e-5 * moods[round_.time // 1000 * 1000] * rng.gauss(1, 0.01),
    )

    def spread(by_commit):
        return statistics.stdev(math.log(value) for value in medians(by_commit).values())

    raw = {commit: [round_.estimate for round_ in group] for commit, group in recorded.items()}
    apart = adjusted(recorded) or raw
    assert spread(adjusted(recorded, code={SERIES: dict.fromkeys(recorded, "same code")})) < 0.5 * spread(apart)


def measured(count, *, gauges):
    """Return what `fitted` takes: a history measured commit by commit, and controls if it has no gauges.

    The neighbour of each commit is busier than that of the last. One of the controls is not as old as the others.
    """
    native = {
        f"c{number}": rounds(
            1e-3, number + 1, gauges=gauges, factor=lambda rng, at=number: 1 + at * 0.01 + rng.random()
        )
        for number in range(count)
    }
    if gauges:
        return {SERIES: native}
    eager = changed(native, estimate=lambda round_: round_.estimate * random.Random(round_.launch).gauss(3, 0.01))
    young = {commit: group for commit, group in eager.items() if commit not in ("c0", "c1", "c2", "c3")}
    controls = {"eager": eager, "compile": young}
    beside = {(dataclasses.replace(KEY, implementation=name), "m"): control for name, control in controls.items()}
    return {SERIES: native, **beside}


@pytest.mark.parametrize("gauges", [True, False])
@pytest.mark.parametrize(("before", "after", "moves"), [(16, 17, False), (17, 18, True), (18, 19, False)])
def test_old_values_stay_the_same_until_the_basis_grows(gauges, before, after, moves):
    old, new = (adjust_series.fitted(measured(count, gauges=gauges))[SERIES] for count in (before, after))
    assert len(new.estimates) == after
    assert (old.fit != new.fit) == moves
    assert (old.estimates != {commit: new.estimates[commit] for commit in old.estimates}) == moves


@settings(max_examples=20)
@given(st.permutations(range(19)), st.booleans())
def test_order_of_commits_and_rounds_does_not_matter(order, gauges):
    recorded = measured(19, gauges=gauges)  # of which 18 are the basis
    shuffled = {f"c{number}": recorded[SERIES][f"c{number}"][::-1] for number in order}
    assert adjust_series.fitted({**recorded, SERIES: shuffled}) == adjust_series.fitted(recorded)


def test_gauges_of_the_basis_are_used():
    """A gauge that fails later, or comes later, changes no old value."""
    recorded = measured(17, gauges=True)[SERIES]
    wanted = adjusted(recorded)
    recorded["c16"] = [dataclasses.replace(round_, core_gauge=None, memory_gauge=3e-5) for round_ in recorded["c16"]]
    assert adjusted(recorded) == {commit: wanted[commit] for commit in wanted if commit != "c16"}
