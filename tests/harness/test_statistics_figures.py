"""Figures that describe samples: scipy's numbers, and the footnotes that go with too little or degenerate data."""

from statistics import stdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.harness import statistics
from kernel_velocity.harness.statistics import describe

scipy_stats = pytest.importorskip("scipy.stats", reason="scipy is what the statistics are checked against")

TIMES = st.lists(st.floats(1e-3, 1e2), min_size=16, max_size=200)
LOCATIONS = ("mean", "trimmed_mean", "median", "min", "max", "p50", "p99")
SPREADS = ("standard_deviation", "half_width")  # in the samples' unit, blind to shifts
RELATIVE = ("cv", "rse", "gini")
UNITLESS = ("autocorrelation", "effective_n")
ORDERED = ("autocorrelation", "effective_n", "half_width")  # what depends on the samples' order


def values(samples, names):
    return [figure.value for figure in describe(samples, names).values()]


def only(samples, name):
    return describe(samples, [name])[name]


def test_every_figure_is_described():
    assert set(LOCATIONS) | set(SPREADS) | set(RELATIVE) | set(UNITLESS) | {"mvalue"} == set(statistics.FIGURES)
    assert list(describe([1.0, 2.0])) == list(statistics.FIGURES)


@given(TIMES)
def test_figures_are_scipys(samples):
    wanted = {
        "mean": np.mean(samples),
        "trimmed_mean": scipy_stats.trim_mean(samples, 0.1),
        "median": scipy_stats.scoreatpercentile(samples, 50),
        "standard_deviation": stdev(samples),
        "min": scipy_stats.tmin(samples),
        "max": scipy_stats.tmax(samples),
        "p50": scipy_stats.scoreatpercentile(samples, 50),
        "p99": scipy_stats.scoreatpercentile(samples, 99),
        "cv": scipy_stats.variation(samples, ddof=1),
        "rse": scipy_stats.sem(samples) / np.mean(samples),
    }
    assert values(samples, wanted) == pytest.approx(list(wanted.values()))


@given(TIMES)
def test_figures_scale_with_the_unit(samples):
    twice = [2 * x for x in samples]  # a power of two: no tie appears or vanishes by rounding
    for name in (*LOCATIONS, *SPREADS):
        assert values(twice, [name]) == pytest.approx([2 * values(samples, [name])[0]])
    assert values(twice, (*RELATIVE, *UNITLESS, "mvalue")) == values(samples, (*RELATIVE, *UNITLESS, "mvalue"))


@pytest.mark.parametrize("seed", range(5))
def test_figures_move_with_a_shift(seed):
    samples = np.random.default_rng(seed).lognormal(0, 0.4, 150)
    for name in LOCATIONS:
        assert values(samples + 10, [name]) == pytest.approx([10 + values(samples, [name])[0]])
    same = (*SPREADS, *UNITLESS, "mvalue")
    assert values(samples + 10, same) == pytest.approx(values(samples, same))
    assert values(samples + 10, ["cv"]) < values(samples, ["cv"])


@given(TIMES, st.randoms())
def test_only_what_is_about_order_sees_it(samples, random):
    shuffled = random.sample(samples, len(samples))
    blind = [name for name in statistics.FIGURES if name not in ORDERED]
    assert values(shuffled, blind) == pytest.approx(values(samples, blind))


def test_order_is_seen():
    samples = np.random.default_rng(1).lognormal(0, 0.4, 150)
    for name in ORDERED:
        assert values(np.sort(samples), [name]) != values(samples, [name])


NEEDED = {
    **dict.fromkeys(("mean", "median", "min", "max", "p50", "trimmed_mean", "p99", "gini"), 1),
    **dict.fromkeys(("standard_deviation", "cv", "rse"), 2),
    "autocorrelation": 3,
    **dict.fromkeys(("effective_n", "half_width", "mvalue"), 16),
}


@pytest.mark.parametrize("name", statistics.FIGURES)
def test_too_few_samples_are_unknown_and_say_how_many_it_takes(name):
    samples = np.random.default_rng(2).lognormal(0, 0.4, NEEDED[name])
    assert only(samples, name).value is not None
    few = only(samples[1:], name)
    assert few.value is None
    assert f"have {NEEDED[name] - 1}" in few.warnings[0]
    assert "need >= " in few.warnings[0]


def test_a_value_from_few_samples_has_a_footnote():
    samples = np.random.default_rng(3).lognormal(0, 0.4, 100)
    for name, enough in {"trimmed_mean": 10, "p99": 100, "mvalue": 64}.items():
        assert only(samples[:enough], name).warnings == ()
        short = only(samples[: enough - 1], name)
        assert short.value is not None
        assert short.warnings == (short.warnings[0],)
        assert short.warnings[0].startswith(f"need >= {enough} samples")


@pytest.mark.parametrize("name", ["standard_deviation", "cv", "rse", "half_width", "autocorrelation", "effective_n"])
@pytest.mark.parametrize("value", [0.1, 1e-9, 3.0])
def test_equal_samples_have_no_silent_spread(name, value):
    figure = only([value] * 64, name)
    assert "all 64 samples are equal" in figure.warnings[0]
    assert figure.value is None or figure.value == pytest.approx(0, abs=1e-15)


def test_samples_with_a_mean_of_zero_have_no_relative_spread():
    for name in ("cv", "rse"):
        figure = only([-1.0, 1.0], name)
        assert figure.value is None
        assert "mean of zero" in figure.warnings[0]


def test_a_coarse_clock_has_no_silent_half_width():
    figure = only([1.0] * 95 + [2.0] * 5, "half_width")
    assert figure.value == 0.0
    assert "clock is too coarse" in figure.warnings[0]


def test_the_standard_error_of_followers_is_footnoted():
    slow = np.repeat(np.random.default_rng(4).lognormal(0, 0.3, 20), 5)
    assert "correlated" in only(slow, "rse").warnings[0]
    assert only(np.random.default_rng(5).permutation(slow), "rse").warnings == ()
    assert only([1.0, 2.0] * 30, "rse").warnings == ()  # alternation makes a mean better, not worse


def test_a_figure_that_does_not_exist_is_named():
    with pytest.raises(ValueError, match=r"no figure 'p95'; there are mean, .*mvalue"):
        describe([1.0, 2.0], ["p95"])


def test_a_sample_that_is_no_number_is_named():
    with pytest.raises(ValueError, match="sample 1 of 3 is nan"):
        describe([1.0, float("nan"), 2.0])
