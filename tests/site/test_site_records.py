"""What a page can ask a site for beside series: sessions, ceilings, rounds, fits."""

import json
import math
import statistics

import pytest

from kernel_velocity.results import lines
from kernel_velocity.site import model
from tests import synthetic
from tests.site import machine_records


@pytest.fixture
def tree(copied):
    """Quicker than a fresh one: nothing here changes the repository."""
    return copied


def read(tree):
    return model.read(tree.results, tree.repository)


@pytest.mark.parametrize("environment", ["host-py3.11-torch2.13.0+cpu", "e" * 127, "e" * 128, "\N{ROCKET}" * 200])
def test_files_are_named_as_asv_names_them(environment):
    from asv.results import get_filename

    assert get_filename("m", "c" * 40, environment) == f"m/{lines.stem('c' * 40, environment)}.json"


def test_sessions_of_a_place_in_their_order(tree):
    for index in (2, 0):
        machine_records.add_session(tree, index, governor=f"g{index}")
    found = read(tree)
    (place,) = found.places
    assert [(sha, each.facts["governor"]) for sha, each in found.sessions(place)] == [
        (tree.commits[0], "g0"),
        (tree.commits[2], "g2"),
    ]


def test_rounds_of_a_commit_are_those_of_its_telemetry(tree):
    found = read(tree)
    (place,) = found.places
    rounds = found.rounds_at(place, tree.commits[1])
    assert len(rounds) == 8  # two benchmarks, two cases, two implementations
    assert {len(each) for each in rounds.values()} == {8}
    assert found.rounds_at(place, "f" * 40) == {}


def test_ceilings_and_roofs_of_a_place(tree):
    machine_records.add_ceilings(tree, 1)
    machine_records.add_ceilings(tree, 0, peak_float32=80e9)
    found = read(tree)
    (place,) = found.places
    assert [each.commit for each in found.ceilings(place, "Cpu")] == list(tree.commits[:2])
    assert found.ceilings(place, "Cuda") == ()
    assert found.roofs(place, "Cpu").peaks["float32"] == pytest.approx(87.5e9)
    assert found.roofs(place, "Cuda") is None


@pytest.mark.parametrize("value", [0, -1.0, math.inf, math.nan, "x", True, None])
def test_a_ceiling_that_is_no_rate_was_not_measured(tree, value):
    machine_records.add_ceilings(tree, 0, dram_copy_bandwidth=20e9, dram_read_bandwidth=value, peak_float64=value)
    found = read(tree)
    roofs = found.roofs(found.places[0], "Cpu")
    assert roofs.levels[-1].bandwidth == 26e9  # of the triad
    assert roofs.peaks["float64"] is None


@pytest.mark.parametrize("began", ["x", math.inf, math.nan, [1], None])
def test_ceilings_of_no_known_time_are_passed_over(tree, began):
    machine_records.add_ceilings(tree, 0)
    path = machine_records.results_file(tree, 0)
    data = json.loads(path.read_text())
    for name, stored in data["results"].items():
        if name.startswith("device."):
            stored[3] = began
    path.write_text(json.dumps(data))
    found = read(tree)
    assert found.ceilings(found.places[0], "Cpu") == ()


def test_roofs_leave_out_another_device_of_the_same_name(tree):
    machine_records.add_ceilings(tree, 0, device_id=1, peak_float32=900e9)
    machine_records.add_ceilings(tree, 1, device_id=2, peak_float32=90e9)
    found = read(tree)
    assert found.roofs(found.places[0], "Cpu").peaks["float32"] == 90e9


def test_a_fit_makes_of_the_rounds_what_the_measurement_says(tree):
    for index in range(5):
        machine_records.add_gauges(tree, index)
    found = read(tree)
    (place,) = found.places
    (item,) = [
        each
        for each in found.at(tree.commits[4])
        if (each.key.benchmark, each.key.implementation, each.key.case)
        == ("matmul.Cpu.time_hot", "native", "float32-512x512x512")
    ]
    fit = found.fit(item.key)
    assert [signal.name for signal in fit.signals] == ["core_gauge", "memory_gauge"]
    assert fit.method == item.method and fit.explained > 0.9
    assert fit.signals[0].slope == pytest.approx(0.5, abs=0.1)
    rounds = found.rounds_at(place, item.commit)[item.key.benchmark, "native", item.key.case]
    adjusted = [
        each.estimate * math.prod((getattr(each, one.name) / one.centre) ** -one.slope for one in fit.signals)
        for each in rounds
    ]
    assert statistics.median(adjusted) == pytest.approx(item.adjusted.seconds, rel=1e-9)


def test_without_gauges_nothing_was_fitted(tree):
    found = read(tree)
    assert [found.fit(key) for key in found.keys if key.implementation == "eager"] == [None] * 4
    assert synthetic.MACHINE in {key.machine for key in found.keys}
