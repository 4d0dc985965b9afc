"""The detectors of change points and their vote: planted steps, silence, invariances, and who is outvoted."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from kernel_velocity.lab.histories import bimodal
from kernel_velocity.stats.changepoints import edivisive, pelt, vote, windows
from kernel_velocity.stats.changepoints.values import MIN_EFFECT, ChangePoint
from kernel_velocity.stats.changepoints.vote import FEWEST_VISITS, LOOK_BACK, PASSING, is_visit
from tests.stepped_series import stepped, with_holes

DETECTORS = {"pelt": pelt, "e-divisive": edivisive, "two-window": windows, "vote": vote}
SEEDS = st.integers(0, 10_000)
LEVELS = st.sampled_from([0.0, -9.0, 600.0])
TICKS = st.sampled_from([0.0, 0.004, 1 / 64])


def ticking(values, tick):
    return np.round(values / tick) * tick if tick else values


def places(detector, values):
    return [(point.index, point.rises) for point in detector.detect(values)]


@pytest.fixture(params=DETECTORS)
def detector(request):
    return DETECTORS[request.param]


@pytest.mark.parametrize("effect", [0.05, -0.05])
def test_step_is_found_at_its_place_and_in_its_direction(detector, effect):
    (point,) = detector.detect(stepped(0.0, effect))
    assert abs(point.index - 40) <= (detector is windows)  # which does not look for the cut that explains most
    assert point.rises == (effect > 0)
    assert point.before == pytest.approx(0.0, abs=0.005)
    assert point.after == pytest.approx(effect, abs=0.01)
    assert point.low < point.ratio == math.exp(point.after - point.before) < point.high
    assert point.low < math.exp(effect) < point.high
    assert point.p < 1e-6
    assert point.warnings == ()


def test_two_steps_are_two_change_points(detector):
    assert places(detector, stepped(0.0, 0.08, 0.0)) == [(40, True), (80, False)]
    assert places(detector, [0.5] * 30 + [0.7] * 30) == [(30, True)]
    assert places(detector, [0.5] * 12 + [0.7] * 12) == [(12, True)]


SPIKE = stepped(0.0, size=80)
SPIKE[50] += 0.5
STILL = {
    **{f"noise {seed}": stepped(0.0, size=120, seed=seed) for seed in range(3)},
    "constant": [0.5] * 60,
    "one spike": SPIKE,
    "coarse timer": np.log(1 + 0.02 * np.array([0, 0, 0, 1, 1, 1, 0, 1, 0, 1, 1, 0])),
}


@pytest.mark.parametrize("name", STILL)
def test_nothing_is_found_without_a_step(detector, name):
    assert detector.detect(STILL[name]) == ()


def test_change_below_one_percent_has_no_vote(detector):
    assert len(places(detector, stepped(0.0, 0.006, sigma=0.001))) == (detector is pelt)


def test_too_few_points_are_no_change_points(detector):
    for values in ([], [None, None], [0.0, 0.1, 0.0, 0.1, 0.0]):
        assert detector.detect(values) == ()


def test_young_level_is_a_warning():
    (point,) = pelt.detect(stepped(0.0, 0.2)[:47])
    assert point.warnings == ("need >= 12 points for the new level, have 7",)


def test_infinite_value_is_refused_with_its_index(detector):
    with pytest.raises(ValueError, match="value 4 is infinite"):
        detector.detect([None, *stepped(0.0)[:3], -math.inf])


@settings(max_examples=6)
@given(seed=SEEDS, holes=st.lists(st.integers(0, 79), max_size=80))
@pytest.mark.parametrize("name", DETECTORS)
def test_missing_values_are_skipped_and_indices_are_those_of_the_input(name, seed, holes):
    values = stepped(0.0, 0.04, seed=seed)
    holed = with_holes(values, holes)
    present = np.flatnonzero(~np.isnan(np.array(holed, dtype=float)))
    expected = [(present[index], rises) for index, rises in places(DETECTORS[name], values)]
    assert places(DETECTORS[name], holed) == expected


@settings(max_examples=6)
@given(seed=SEEDS, shift=st.integers(-1000, 1000))
@pytest.mark.parametrize("name", DETECTORS)
def test_unit_and_direction_of_the_values_make_no_difference(name, seed, shift):
    values = stepped(0.0, 0.04, 0.01, seed=seed)
    points, moved = (DETECTORS[name].detect(each) for each in (values, values + shift / 64))
    assert [(point.index, point.rises) for point in moved] == [(point.index, point.rises) for point in points]
    assert [point.before for point in moved] == pytest.approx([point.before + shift / 64 for point in points])
    assert [point.p for point in moved] == pytest.approx([point.p for point in points], rel=1e-4)
    assert places(DETECTORS[name], -values) == [(point.index, not point.rises) for point in points]


@settings(max_examples=30)
@given(
    seed=SEEDS,
    effect=st.floats(0, 0.05),
    level=LEVELS,
    form=st.tuples(st.integers(12, 70), st.sampled_from([0.0005, 0.003, 0.01])),
    tick=TICKS,
)
def test_two_windows_find_the_same_as_exact_tests_at_every_place(seed, effect, level, form, tick):
    size, sigma = form
    values = level + ticking(stepped(0.0, effect, 0.0, size=size, sigma=sigma, seed=seed), tick)
    steps = {place: windows.step_at(values, place) for place in range(12, values.size - 11)}
    expected = []
    for place in sorted(steps, key=lambda each: (-steps[each].strength, each)):
        if windows.is_step(steps[place]) and all(abs(place - other) >= 12 for other in expected):
            expected.append(place)
    assert [(point.index, point.p, point.after) for point in windows.detect(values)] == [
        (place, steps[place].p, steps[place].after) for place in sorted(expected)
    ]


def test_two_windows_need_a_full_percent():
    assert places(windows, [0.0] * 24 + [np.nextafter(MIN_EFFECT, 0)] * 12) == []
    assert places(windows, [0.0] * 24 + [MIN_EFFECT] * 12) == [(24, True)]


def test_two_windows_test_few_places_exactly(monkeypatch):
    tested = []
    original = windows.step_at
    monkeypatch.setattr(windows, "step_at", lambda logs, place: tested.append(place) or original(logs, place))
    assert len(windows.detect(stepped(0.0, 0.1, 0.0, sigma=0.003))) == 2
    assert len(tested) < 12


@pytest.mark.parametrize(("before", "after"), [(6, 6), (6, 44), (9, 21), (12, 12), (25, 25), (14, 36)])
def test_e_divisive_searches_a_window_that_is_just_significant(before, after):
    rest = [np.resize([0.01, -0.01], count) - (count % 2) * 0.01 / count for count in (before, after)]

    def p(effect):
        return edivisive._t_test(edivisive.plain(rest[0], 0.001), edivisive.plain(rest[1] + effect, 0.001)).p

    def may_differ(effect):
        return edivisive.may_differ(np.concatenate([rest[0], rest[1] + effect])[None])[0]

    just = optimize.brentq(lambda effect: math.log(p(effect) / edivisive.P_WEAK), 1e-3, 1, xtol=1e-15)
    assert may_differ(just * (1 + 1e-9)) and not may_differ(just / 2)


@settings(max_examples=20)
@given(seed=SEEDS, effect=st.floats(0, 0.1), level=LEVELS, tick=TICKS)
def test_e_divisive_finds_the_same_as_in_all_windows(seed, effect, level, tick):
    values = level + ticking(stepped(0.0, effect, 0.0, 0.05, size=60, sigma=0.004, seed=seed), tick)
    expected = edivisive.detect(values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edivisive, "may_differ", lambda windows: np.full(len(windows), fill_value=True))
        assert edivisive.detect(values) == expected


def test_e_divisive_leaves_out_most_windows_of_noise():
    assert edivisive.may_differ(0.01 * np.random.default_rng(0).standard_normal((400, 50))).mean() < 0.1


def test_e_divisive_compares_levels_by_their_points():
    values = stepped(0.3, 0.5, size=30)
    for start, end in ((0, 60), (0, 10), (17, 45), (59, 60)):
        side, part = edivisive.Levels(values).side(start, end, 0.0), values[start:end]
        assert (side.mean, side.kept, side.size) == (pytest.approx(part.mean()), part.size, part.size)
        assert side.squared == pytest.approx(((part - part.mean()) ** 2).sum(), abs=1e-12)


def test_sticky_modes_and_correlated_noise_are_no_changes():
    rng = np.random.default_rng(3)
    mode = np.cumsum(rng.random(150) < 1 / 3) % 2
    assert places(vote, 0.024 * mode + 0.003 * rng.standard_normal(150)) == []
    for seed in range(4):
        noise = np.random.default_rng(seed).standard_normal(150) * 0.008
        for place in range(1, 150):
            noise[place] += 0.6 * noise[place - 1]
        assert places(vote, noise) == []


def test_step_smaller_than_the_usual_scatter_has_no_vote():
    calm = 0.001 * np.random.default_rng(0).standard_normal(60)
    step = 0.012 + 0.015 + 0.001 * np.random.default_rng(1).standard_normal(30)
    assert (60, True) in places(vote, [*(calm + 0.015), *step])
    assert places(vote, [*(calm + 0.03 * (np.arange(60) // 4 % 2)), *step]) == []


def test_step_needs_twelve_points_before_it():
    values = stepped(0.0, 0.2)
    assert places(vote, values[28:]) == [(12, True)]
    assert places(vote, values[30:]) == []


def change(index, after, name="a", before=0.0):
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
    points = vote.joined([[change(50, 0.05, "a")], *others])
    assert [(point.index, point.detectors) for point in points] == agreed


def test_a_change_point_votes_once():
    points = vote.joined([[change(50, 0.05, "a"), change(54, 0.05, "a")], [change(52, 0.05, "b")], []])
    assert [point.index for point in points] == [50]


@pytest.fixture
def voted(monkeypatch):
    """Return the vote of detectors that report given change points."""

    def vote_on(*found, values=None):
        for module, points in zip((pelt, edivisive, windows), found, strict=True):
            answer = tuple(points) if module is windows else (tuple(points), None)
            monkeypatch.setattr(module, "search", lambda *_, answer=answer: answer)
        points = vote.detect(stepped(0.0, 0.1) if values is None else values)
        return [(point.index, point.detectors) for point in points]

    return vote_on


def test_e_divisive_alone_counts_if_loud(voted):
    loud = change(40, 0.1, "e")
    assert voted([], [loud], []) == [(40, ("e",))]
    assert voted([loud], [], []) == voted([], [], [loud]) == []
    assert voted([], [dataclasses.replace(loud, p=1e-7)], []) == []
    assert voted([], [dataclasses.replace(loud, after=0.02)], []) == []  # twice the scatter
    assert voted([change(42, 0.1, "pelt")], [loud], []) == [(42, ("pelt", "e"))]  # and not a second time
    still = dataclasses.replace(loud, after=0.009)  # many times the scatter, and less than 1%
    assert voted([], [still], [], values=stepped(0.0, 0.009, sigma=1e-6)) == []


def test_votes_without_pelt_need_yuens_test(voted):
    both = [], [dataclasses.replace(change(40, 0.05, "e"), p=1e-6)], [change(40, 0.05, "t")]
    assert voted(*both, values=stepped(0.0, 0.05)) == [(40, ("e", "t"))]
    assert voted(*both, values=stepped(0.0, 0.0)) == []


def test_vote_names_its_voters():
    (point,) = vote.detect(stepped(0.0, 0.1))
    assert point.detectors == ("pelt", "e-divisive", "two-window")


SLOW = 0.024


def stays(*lengths):
    """Return log values that begin fast and change speed after each length."""
    return np.repeat([SLOW * (number % 2) for number in range(len(lengths))], lengths)


STICKY = stays(3, 2, 4, 5, 2, 3, 3, 1, 4, 3, 2)  # 14 of 31 points in visits of 1, 2, 3, 3 and 5
FEW = stays(*[5, 4] * (FEWEST_VISITS - 1), 5)
SPIKES = np.where(np.arange(90) % 15, 0.0, SLOW)


@pytest.mark.parametrize(
    ("before", "size", "expected"),
    [
        (STICKY, 5, True),
        (STICKY, 12, True),  # longer than usual
        (STICKY, 40, False),  # for good
        (np.zeros(60), 6, False),  # never visited
        (SPIKES, 6, False),  # never kept
        (stays(*[5, PASSING + 1] * (FEWEST_VISITS + 1), 5), 8, False),  # levels, not visits
        (FEW, 6, False),
        (np.concatenate([FEW, stays(1, 4, 5)]), 6, True),
        (np.concatenate([STICKY, np.zeros(LOOK_BACK)]), 6, False),  # long ago
    ],
)
def test_long_stay_at_a_visited_level_is_a_visit(before, size, expected):
    after, shift = np.full(size, SLOW), 2.5
    assert is_visit(before, after, change(0, SLOW)) is expected
    assert is_visit(-before, -after, change(0, -SLOW)) is expected
    assert is_visit(before + shift, after + shift, change(0, SLOW + shift, before=shift)) is expected


def test_vote_leaves_out_visits(monkeypatch):
    values = bimodal(np.random.default_rng(242), 100)
    assert places(vote, values) == []
    monkeypatch.setattr(vote, "is_visit", lambda *_: False)
    assert places(vote, values)
