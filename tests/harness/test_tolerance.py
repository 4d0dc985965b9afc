"""Tolerances: by dtype, by preset, as text; what makes no sense costs one clear line."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.harness.tolerance import EPSILON, INTEGERS, Tolerance, parse_tolerance, tolerance_of


@pytest.mark.parametrize(
    ("dtype", "allowed"),
    [("float32", 1e-5), ("float64", 1e-7), ("float16", 2**-9), ("bfloat16", 2**-6), ("torch.float32", 1e-5)],
)
def test_a_dtype_has_a_default(dtype, allowed):
    found = tolerance_of(dtype)
    assert (found.rtol, found.atol) == (allowed, allowed)
    assert dtype.removeprefix("torch.") in found.source


@pytest.mark.parametrize("preset", ["default", "epsilon"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_exact_whatever_the_preset(dtype, preset):
    found = tolerance_of(dtype, preset)
    assert (found.rtol, found.atol) == (0, 0)


@pytest.mark.parametrize(("dtype", "epsilon"), EPSILON.items())
def test_epsilon_is_1000_times_the_distance_from_1_to_the_next_number(dtype, epsilon):
    assert tolerance_of(dtype, "epsilon").rtol == tolerance_of(dtype, "epsilon").atol == 1000 * epsilon


def test_the_epsilons_are_those_of_torch():
    torch = pytest.importorskip("torch")
    if not hasattr(torch, "finfo"):
        pytest.skip("this torch stands in for the real one")
    assert {name: torch.finfo(getattr(torch, name)).eps for name in EPSILON} == dict(EPSILON)


def test_a_preset_as_text_takes_its_figures_from_the_output():
    found = parse_tolerance("epsilon")
    assert (found.rtol, found.atol) == (0, 0)
    assert found.resolved("float64") == tolerance_of("float64", "epsilon")
    assert found.resolved("int8") == tolerance_of("int8", "epsilon")
    stated = parse_tolerance("1e-3")
    assert stated.resolved("int8") is stated


@pytest.mark.parametrize(
    ("text", "rtol", "atol"),
    [
        ("1e-3", 1e-3, 1e-3),
        (" 0 ", 0, 0),
        ("1", 1, 1),
        ("rtol=1e-3,atol=1e-5", 1e-3, 1e-5),
        ("atol=2, rtol=.5", 0.5, 2),
        ("atol=2", 0, 2),
    ],
)
def test_what_a_user_writes(text, rtol, atol):
    found = parse_tolerance(text)
    assert (found.rtol, found.atol, found.preset) == (rtol, atol, None)


figures = st.floats(0, 1e300)


@given(rtol=figures, atol=figures)
def test_a_tolerance_reads_back_what_it_writes(rtol, atol):
    assert parse_tolerance(str(Tolerance(rtol=rtol, atol=atol, source="as given"))) == Tolerance(
        rtol=rtol, atol=atol, source="as given"
    )


@pytest.mark.parametrize("preset", ["default", "epsilon"])
def test_a_preset_reads_back_what_it_writes(preset):
    assert str(parse_tolerance(preset)) == preset


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("-1e-3", "-1e-3 is not a finite number of at least 0"),
        ("nan", "nan is not a finite number"),
        ("inf", "inf is not a finite number"),
        ("", "'' is not a number"),
        ("tight", "'tight' is not a number"),
        ("1e-3,1e-5", "'1e-3,1e-5' is not a number"),
        ("rtol=-1", "-1 is not a finite number"),
        ("rtol=", "'' is not a number"),
        ("rtol=1,rtol=2", "'rtol=2' is not understood"),
        ("rtol=1,eps=2", "'eps=2' is not understood"),
        ("rtol=1,2", "'2' is not understood"),
    ],
)
def test_text_that_makes_no_sense_costs_one_line(text, said):
    with pytest.raises(ValueError, match="wanted a number") as caught:
        parse_tolerance(text)
    message = str(caught.value)
    assert message.startswith(f"tolerance {text!r}: {said}")
    assert "\n" not in message


@pytest.mark.parametrize("value", [-1e-9, math.nan, math.inf])
@pytest.mark.parametrize("name", ["rtol", "atol"])
def test_figures_that_make_no_sense_are_refused(name, value):
    with pytest.raises(ValueError, match=f"tolerance: {name} is .*at least 0 is wanted"):
        Tolerance(**{"rtol": 0.0, "atol": 0.0, "source": "", name: value})


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="preset 'lax' is not known; wanted"):
        tolerance_of("float32", "lax")
    with pytest.raises(ValueError, match="preset 'lax' is not known; wanted"):
        Tolerance(rtol=0.0, atol=0.0, source="", preset="lax")
    with pytest.raises(ValueError, match="none is known for dtype complex64; there are float16"):
        tolerance_of("complex64")
