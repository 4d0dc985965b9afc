"""The detectors of change points, alone and in their vote: planted steps, silence, invariances, later points."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from kernel_velocity.stats import growth
from kernel_velocity.stats.changepoints import edivisive, pelt
from kernel_velocity.stats.changepoints import vote as changepoints
from kernel_velocity.stats.changepoints import windows as changepoints_windows
from kernel_velocity.stats.changepoints.values import LEAST, ChangePoint, Detection, is_there
from tests.stepped_series import stepped, with_holes

DETECTORS = {
    "pelt": pelt.Pelt,
    "e-divisive": edivisive.EDivisive,
    "two-window": changepoints_windows.TwoWindow,
    "vote": changepoints.Vote,
}
MODULES = (pelt, edivisive, changepoints_windows, changepoints)
SEEDS = st.integers(0, 10_000)


def found(make, values):
    detector = make()
    detector.extend(values)
    return detector.detection().points


def places(points):
    return [(point.index, point.rises) for point in points]


@pytest.fixture(params=DETECTORS)
def make(request):
    return DETECTORS[request.param]


def test_pelt_is_asked_only_where_it_can_have_a_majority(monkeypatch):
    asked = []
    original = pelt.Pelt.detection
    monkeypatch.setattr(pelt.Pelt, "detection", lambda self: asked.append(1) or original(self))
    assert found(changepoints.Vote, stepped(0.0, 0.0, size=60)) == () and not asked
    (point,) = found(changepoints.Vote, stepped(0.0, 0.05))
    assert "pelt" in point.detectors and asked
    pelt_alone = found(pelt.Pelt, stepped(0.0, 0.05))
    assert len(pelt_alone) == 1 and changepoints.joined([pelt_alone, [], []]) == ()


LEVELS = st.sampled_from([0.0, -9.0, 600.0])
TICKS = st.sampled_from([0.0, 0.004, 1 / 64])


def ticking(values, tick):
    return np.round(values / tick) * tick if tick else values


@settings(max_examples=30, deadline=None)
@given(
    seed=SEEDS,
    effect=st.floats(0, 0.05),
    level=LEVELS,
    form=st.tuples(st.integers(12, 70), st.sampled_from([0.0005, 0.003, 0.01])),
    tick=TICKS,
)
def test_two_windows_find_what_tests_at_every_place_find(seed, effect, level, form, tick):
    size, sigma = form
    values = level + ticking(stepped(0.0, effect, 0.0, size=size, sigma=sigma, seed=seed), tick)
    steps = {place: changepoints_windows._test(values, place) for place in range(12, values.size - 11)}
    strengths = {place: changepoints_windows._strength(step) for place, step in steps.items()}
    estimates = changepoints_windows._strengths(values, np.array([*steps], dtype=np.int64))
    assert estimates == pytest.approx([*strengths.values()], rel=changepoints_windows._inexactness(values), abs=1e-9)
    kept = []
    for place in sorted(steps, key=lambda each: (-strengths[each], each)):
        if changepoints_windows._is_step(steps[place]) and all(abs(place - other) >= 12 for other in kept):
            kept.append(place)
    points = changepoints_windows.detect(values).points
    assert [(point.index, point.p, point.after) for point in points] == [
        (place, steps[place].p, steps[place].after) for place in sorted(kept)
    ]


def test_two_windows_leave_a_change_that_only_rounding_takes_for_one_percent():
    less = np.nextafter(LEAST, 0)
    assert changepoints_windows.detect([0.0] * 24 + [less] * 12).points == ()
    assert places(changepoints_windows.detect([0.0] * 24 + [LEAST] * 12).points) == [(24, True)]


def test_two_windows_test_few_places(monkeypatch):
    tested = []
    original = changepoints_windows._test
    monkeypatch.setattr(
        changepoints_windows, "_test", lambda logs, place: tested.append(place) or original(logs, place)
    )
    assert len(changepoints_windows.detect(stepped(0.0, 0.1, 0.0, sigma=0.003)).points) == 2
    assert len(tested) < 10


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, effect=st.floats(0, 0.03), level=LEVELS, size=st.integers(12, 50), tick=TICKS)
def test_e_divisive_leaves_out_only_windows_without_a_cut(seed, effect, level, size, tick):
    window = level + ticking(stepped(0.0, effect, size=25, sigma=0.008, seed=seed), tick)[:size]
    least = edivisive.least_sigma(window)
    sides = [(window[:place], window[place:]) for place in range(6, size - 5)]
    tests = [edivisive._t_test(*(edivisive.plain(side, least) for side in both)) for both in sides]
    if any(test.p < edivisive.P_WEAK for test in tests):
        assert edivisive.may_differ(window[None])[0]


@pytest.mark.parametrize(("before", "after"), [(6, 6), (6, 44), (9, 21), (12, 12), (25, 25), (14, 36)])
def test_e_divisive_leaves_out_no_window_that_is_just_significant(before, after):
    rest = [np.resize([0.01, -0.01], count) - (count % 2) * 0.01 / count for count in (before, after)]
    sides = [edivisive.plain(side, 0.001) for side in rest]

    def window(effect):
        return np.concatenate([rest[0], rest[1] + effect])

    def p(effect):
        moved = edivisive.plain(rest[1] + effect, 0.001)
        return edivisive._t_test(sides[0], moved).p

    just = optimize.brentq(lambda effect: math.log(p(effect) / edivisive.P_WEAK), 1e-3, 1, xtol=1e-15)
    assert edivisive.may_differ(window(just * (1 + 1e-9))[None])[0]
    assert not edivisive.may_differ(window(just / 2)[None])[0]


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, effect=st.floats(0, 0.1), level=LEVELS, tick=TICKS)
def test_e_divisive_finds_what_it_finds_in_all_windows(seed, effect, level, tick):
    values = level + ticking(stepped(0.0, effect, 0.0, 0.05, size=60, sigma=0.004, seed=seed), tick)
    expected = edivisive.detect(values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edivisive, "may_differ", lambda windows: np.full(len(windows), fill_value=True))
        assert edivisive.detect(values) == expected


def test_e_divisive_leaves_out_most_windows_of_noise():
    windows = 0.01 * np.random.default_rng(0).standard_normal((400, 50))
    assert edivisive.may_differ(windows).mean() < 0.1


@pytest.mark.parametrize("effect", [0.05, -0.05])
def test_a_step_is_found_at_its_place_and_in_its_direction(make, effect):
    (point,) = found(make, stepped(0.0, effect))
    slack = 1 if make is changepoints_windows.TwoWindow else 0  # it does not look for the cut that explains most
    assert abs(point.index - 40) <= slack
    assert point.rises == (effect > 0)
    assert point.before == pytest.approx(0.0, abs=0.005)
    assert point.after == pytest.approx(effect, abs=0.01)
    assert point.low < point.ratio == math.exp(point.after - point.before) < point.high
    assert point.low < math.exp(effect) < point.high
    assert point.p < 1e-6
    assert point.warnings == ()


def test_two_steps_are_two_change_points(make):
    assert places(found(make, stepped(0.0, 0.08, 0.0))) == [(40, True), (80, False)]


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_found_in_noise(make, seed):
    assert found(make, stepped(0.0, size=120, seed=seed)) == ()


def test_nothing_is_found_in_a_constant(make):
    assert found(make, [0.5] * 60) == ()


def test_a_step_without_noise_is_found(make):
    assert places(found(make, [0.5] * 30 + [0.7] * 30)) == [(30, True)]


def test_a_change_below_one_percent_has_no_vote(make):
    points = found(make, stepped(0.0, 0.006, sigma=0.001))
    assert len(points) == (1 if make is pelt.Pelt else 0)


def test_one_spike_is_no_change(make):
    values = stepped(0.0, size=80)
    values[50] += 0.5
    assert found(make, values) == ()


def test_readings_of_a_coarse_timer_are_no_change(make):
    ticks = np.log(1 + 0.02 * np.array([0, 0, 0, 1, 1, 1, 0, 1, 0, 1, 1, 0]))
    assert found(make, ticks) == ()


@pytest.mark.parametrize("module", MODULES)
def test_a_whole_series_at_once(module):
    values = stepped(0.0, 0.1)
    assert places(module.detect(values).points) == [(40, True)]


def test_too_few_points_are_said_to_be_too_few(make):
    detector = make()
    detector.extend([0.0, 0.1, 0.0, 0.1, 0.0])
    detection = detector.detection()
    assert detection.points == ()
    assert detection.warnings
    assert all("points for" in warning and warning.endswith("have 5") for warning in detection.warnings)


def test_nothing_at_all(make):
    detector = make()
    detector.extend([])
    detector.extend([None])
    assert detector.detection().points == ()
    assert "have 0" in detector.detection().warnings[0]


def test_a_young_level_says_so():
    (point,) = pelt.detect(stepped(0.0, 0.2)[:47]).points
    assert point.warnings == ("need >= 12 points for the new level, have 7",)


def test_an_infinite_value_is_refused_with_its_index_and_nothing_is_taken(make):
    values = stepped(0.0, 0.1).tolist()
    detector = make()
    detector.extend(values[:3])
    with pytest.raises(ValueError, match="value 4 is infinite"):
        detector.extend([values[3], -math.inf])
    detector.extend(values[3:])
    assert places(detector.detection().points) == [(40, True)]


@settings(max_examples=6, deadline=None)
@given(seed=SEEDS, cuts=st.lists(st.integers(1, 30), min_size=1, max_size=8), asked=st.booleans())
@pytest.mark.parametrize("name", DETECTORS)
def test_how_the_points_are_dealt_out_makes_no_difference(name, seed, cuts, asked):
    values = stepped(0.0, 0.03, -0.02, sigma=0.008, seed=seed).tolist()
    detector, start = DETECTORS[name](), 0
    for cut in cuts:
        detector.extend(values[start : start + cut])
        start += cut
        if asked:
            detector.detection()
    detector.extend(values[start:])
    assert detector.detection().points == found(DETECTORS[name], values)


@settings(max_examples=6, deadline=None)
@given(seed=SEEDS, holes=st.lists(st.integers(0, 79), max_size=10))
@pytest.mark.parametrize("name", DETECTORS)
def test_missing_points_are_skipped_and_indices_stay_those_of_the_input(name, seed, holes):
    values = stepped(0.0, 0.04, seed=seed)
    holed = with_holes(values, holes)
    there = [index for index, value in enumerate(holed) if is_there(value)]
    expected = [(there[index], rises) for index, rises in places(found(DETECTORS[name], values))]
    assert places(found(DETECTORS[name], holed)) == expected


@settings(max_examples=6, deadline=None)
@given(seed=SEEDS, shift=st.integers(-1000, 1000))
@pytest.mark.parametrize("name", DETECTORS)
def test_the_unit_of_the_values_makes_no_difference(name, seed, shift):
    values = stepped(0.0, 0.04, 0.01, seed=seed)
    points, moved = found(DETECTORS[name], values), found(DETECTORS[name], values + shift / 64)
    assert places(moved) == places(points)
    assert [point.before for point in moved] == pytest.approx([point.before + shift / 64 for point in points])
    assert [point.p for point in moved] == pytest.approx([point.p for point in points], rel=1e-4)


@settings(max_examples=6, deadline=None)
@given(seed=SEEDS)
@pytest.mark.parametrize("name", DETECTORS)
def test_upside_down_every_direction_turns(name, seed):
    values = stepped(0.0, 0.04, 0.01, seed=seed)
    turned = [(index, not rises) for index, rises in places(found(DETECTORS[name], values))]
    assert places(found(DETECTORS[name], -values)) == turned


@pytest.mark.parametrize("scale", [0.5, 2.0, 5.0])
def test_pelt_alone_knows_no_scale(scale):
    values = stepped(0.0, 0.04, 0.015, sigma=0.01, seed=2)
    points, scaled = found(pelt.Pelt, values), found(pelt.Pelt, values * scale)
    assert len(points) == 2
    assert places(scaled) == places(points)
    assert [point.p for point in scaled] == pytest.approx([point.p for point in points])


def test_two_modes_that_a_series_sticks_in_are_no_changes():
    rng = np.random.default_rng(3)
    mode = np.cumsum(rng.random(150) < 1 / 3) % 2
    assert found(changepoints.Vote, 0.024 * mode + 0.003 * rng.standard_normal(150)) == ()


def test_correlated_noise_is_no_change():
    for seed in range(4):
        noise = np.random.default_rng(seed).standard_normal(150) * 0.008
        for place in range(1, 150):
            noise[place] += 0.6 * noise[place - 1]
        assert found(changepoints.Vote, noise) == ()


def test_a_step_smaller_than_what_the_series_does_anyway_has_no_vote():
    restless = 0.03 * (np.arange(60) // 4 % 2) + 0.001 * np.random.default_rng(0).standard_normal(60)
    calm = 0.001 * np.random.default_rng(0).standard_normal(60)
    step = 0.012 + 0.015 + 0.001 * np.random.default_rng(1).standard_normal(30)
    assert 60 in [point.index for point in found(changepoints.Vote, [*(calm + 0.015), *step])]
    assert found(changepoints.Vote, [*restless, *step]) == ()


def test_without_twelve_points_before_there_is_no_vote():
    values = stepped(0.0, 0.2)
    assert places(found(changepoints.Vote, values[28:])) == [(12, True)]
    assert found(changepoints.Vote, values[30:]) == ()


def test_the_sums_of_e_divisive_are_those_of_the_points():
    values = stepped(0.3, 0.5, size=30)
    detector = edivisive.EDivisive()
    detector.extend(values)
    for start, end in ((0, 60), (0, 10), (17, 45), (59, 60)):
        side, part = detector._side(start, end, 0.0), values[start:end]
        assert (side.mean, side.kept, side.size) == (pytest.approx(part.mean()), part.size, part.size)
        assert side.squared == pytest.approx(((part - part.mean()) ** 2).sum(), abs=1e-12)


def test_commit_by_commit_is_the_same_as_all_at_once_at_every_size(make):
    values = stepped(0.0, 0.5, size=26).tolist()
    detector = make()
    for size, value in enumerate(values, 1):
        detector.extend([value])
        assert detector.detection().points == found(make, values[:size])


def change(index, after, name, before=0.0):
    return ChangePoint(index=index, before=before, after=after, low=0.9, high=1.1, p=0.0, detectors=(name,))


@pytest.mark.parametrize(
    ("others", "agreed"),
    [
        ([[], []], []),
        ([[change(50, 0.05, "b")], []], [(50, ("a", "b"))]),
        ([[change(55, 0.05, "b")], []], [(50, ("a", "b"))]),
        ([[change(56, 0.05, "b")], []], []),  # beyond the margin
        ([[change(50, -0.05, "b")], []], []),  # the other direction
        ([[], [change(47, 0.02, "c")]], [(50, ("a", "c"))]),
        ([[change(51, 0.05, "b")], [change(49, 0.05, "c")]], [(50, ("a", "b", "c"))]),
        ([[change(80, 0.05, "b")], [change(82, 0.05, "c")]], [(80, ("b", "c"))]),
        ([[change(80, 0.05, "b")], [change(90, 0.05, "c")]], []),
        ([[change(80, 0.009, "b")], [change(80, 0.05, "c")]], []),  # less than 1% has no vote
    ],
)
def test_two_of_three_must_agree(others, agreed):
    points = changepoints.joined([[change(50, 0.05, "a")], *others])
    assert [(point.index, point.detectors) for point in points] == agreed


def test_one_voice_is_heard_once():
    points = changepoints.joined([[change(50, 0.05, "a"), change(54, 0.05, "a")], [change(52, 0.05, "b")], []])
    assert [point.index for point in points] == [50]


class Says:
    """A detector that says what a test wants."""

    def __init__(self, *points):
        self.points = points

    def extend(self, values):
        pass

    def detection(self):
        return Detection(points=self.points)


def voted(*said, values=None):
    vote = changepoints.Vote()
    vote.detectors = tuple(Says(*points) for points in said)
    vote.extend(stepped(0.0, 0.1) if values is None else values)
    return [(point.index, point.detectors) for point in vote.detection().points]


def test_e_divisive_alone_is_heard_where_it_is_loud():
    loud = change(40, 0.1, "e")
    assert voted([], [loud], []) == [(40, ("e",))]
    assert voted([loud], [], []) == voted([], [], [loud]) == []
    assert voted([], [dataclasses.replace(loud, p=1e-7)], []) == []
    assert voted([], [dataclasses.replace(loud, after=0.02)], []) == []  # twice the scatter
    assert voted([change(42, 0.1, "pelt")], [loud], []) == [(42, ("pelt", "e"))]  # and not a second time
    still = dataclasses.replace(loud, after=0.009)  # many times the scatter, and no percent
    assert voted([], [still], [], values=stepped(0.0, 0.009, sigma=1e-6)) == []


def test_the_vote_names_its_voters():
    (point,) = changepoints.detect(stepped(0.0, 0.1)).points
    assert point.detectors == ("pelt", "e-divisive", "two-window")


def test_a_point_more_costs_no_more_in_a_long_series(monkeypatch):
    taken = []
    original = pelt.Program.extend
    monkeypatch.setattr(pelt.Program, "extend", lambda p, more: taken.append(more.size) or original(p, more))
    detector = pelt.Pelt()
    detector.extend(stepped(0.0, size=400))
    detector.detection()
    del taken[:]
    for value in stepped(0.0, size=100, seed=1):
        detector.extend([value])
        detector.detection()
    assert sum(taken) < 100 * (growth.GROWTH + 5)
