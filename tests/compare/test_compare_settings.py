"""How a comparison measures: presets, rules, what makes no sense."""

import pytest

from kernel_velocity.compare.settings import PRESETS, Settings, settings
from kernel_velocity.errors import UsageError
from kernel_velocity.harness.stopping import Continue, FixedCount, Stop, VariationOfRates


def made(**options):
    return settings(environ={}, **options)


@pytest.mark.parametrize(
    ("preset", "warmups", "rule"),
    [
        ("fused", 10, FixedCount(n=100)),
        ("chapter", 50, FixedCount(n=1000)),
        ("comppare", 100, FixedCount(n=100)),
        ("futhark", 1, FixedCount(n=10)),
        ("tensara", 10, VariationOfRates(eps=0.01, n_min=5, n_max=20)),
    ],
)
def test_presets_are_as_published(preset, warmups, rule):
    found = made(preset=preset)
    assert (found.warmups, found.rule()) == (warmups, rule)
    assert found.described()["preset"].startswith(f"{preset} (")
    assert set(PRESETS) == {"fused", "chapter", "comppare", "futhark", "tensara"}


def test_the_history_s_rounds_are_the_default():
    found = made()
    assert found == Settings(rule=found.rule)
    assert (found.rounds, found.warmups, found.rule().name, found.rule().parameters()["eps"]) == (
        *(8, None, "adaptive.round"),
        0.003,
    )
    assert found.described()["warm-up"] == "by time, 50 ms or more"
    assert Settings().rule().parameters() == found.rule().parameters()


def test_an_option_replaces_a_part_of_a_preset():
    found = made(preset="fused", warmups=3, rounds=2)
    assert (found.warmups, found.rule().n, found.rounds) == (3, 100, 2)
    assert made(preset="fused", iters=7).rule().n == 7
    assert made(preset="fused", iters=7).warmups == 10
    replaced = made(preset="fused", rule="cv")
    assert (replaced.rule().name, replaced.warmups) == ("cv", 10)


def test_a_fixed_number_of_samples_is_of_one_call_each():
    found = made(iters=20)
    assert (found.warmups, found.rule().n) == (10, 20)
    assert made(iters=20, warmups=0).warmups == 0
    assert found.described()["sample"] == "one call"
    found.rule().start()


def test_every_round_has_a_rule_of_its_own():
    found = made(iters=1)
    one, other = found.rule(), found.rule()
    one.start()
    other.start()
    one.add([1.0], 1.0)
    assert isinstance(one.decide(), Stop) and isinstance(other.decide(), Continue)


def test_parameters_come_from_the_environment():
    assert settings(environ={"KV_RULE": "fixed", "KV_N": "5"}).rule() == FixedCount(n=5)
    assert settings(environ={"KV_N": "5"}, rule="fixed").rule() == FixedCount(n=5)


def test_a_tolerance_is_described():
    from kernel_velocity.harness.accuracy import parse_tolerance

    assert made(tolerance=parse_tolerance("1e-3")).described()["tolerance"] == "rtol=0.001,atol=0.001 (as given)"
    assert made().described()["tolerance"] == "the problem's own"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"preset": "mine"}, "--preset 'mine': there are fused, chapter"),
        ({"rule": "soon"}, "--rule soon: no stopping rule 'soon'; there are adaptive"),
        ({"rule": "cv", "iters": 5}, "--rule cv and --iters 5"),
        ({"iters": 0}, "--iters 0: wanted at least 1"),
        ({"warmups": -1}, "--warmups -1: wanted 0 or more"),
        ({"rounds": 0}, "--rounds 0: wanted at least 1"),
    ],
)
def test_what_makes_no_sense_is_one_line(options, said):
    with pytest.raises(UsageError, match=said) as raised:
        made(**options)
    assert "\n" not in str(raised.value)


def test_a_parameter_the_rule_has_not_is_said():
    with pytest.raises(UsageError, match="KV_EPS"):
        settings(environ={"KV_EPS": "1"}, rule="fixed")


@pytest.mark.parametrize("given", [{"rounds": 0}, {"threads": 0}, {"warmups": -1}])
def test_settings_of_a_script_are_checked_too(given):
    with pytest.raises(UsageError, match="wanted"):
        Settings(**given)
