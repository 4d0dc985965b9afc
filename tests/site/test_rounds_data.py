"""The data of a measurement's page: rounds as columns, what they are adjusted by, raw samples."""

import json
import math
import random
import re

import pytest

from kernel_velocity.harness import telemetry
from kernel_velocity.harness.stopping import Reason
from kernel_velocity.site import model, rounds_data
from kernel_velocity.site.outputs import series_name
from kernel_velocity.site.pages import measurement
from tests import synthetic
from tests.site import machine_records

NATIVE = ("matmul.Cpu.time_hot", "native", "float32-512x512x512")


@pytest.fixture
def tree(copied):
    """Quicker than a fresh one: nothing here changes the repository."""
    return copied


def read(tree):
    return model.read(tree.results, tree.repository)


def named(found, wanted=NATIVE):
    (key,) = [key for key in found.keys if (key.benchmark, key.implementation, key.case) == wanted]
    return series_name(key)


def series(tree, index=0, wanted=NATIVE):
    found = read(tree)
    files = {(sha, number): file for number, sha, file in rounds_data.files(found)}
    return files[tree.commits[index], 0].value()["series"][named(found, wanted)]


def test_a_file_for_every_commit_and_place(tree):
    files = [(number, sha, file.name) for number, sha, file in rounds_data.files(read(tree))]
    assert files == [(0, sha, f"rounds-{sha[:8]}-0") for sha in tree.commits]


def test_a_value_with_its_rounds_in_the_order_of_time(tree):
    one = series(tree)
    rounds = one["rounds"]
    assert rounds["began"] == sorted(rounds["began"]) and len(rounds["estimate"]) == 8
    assert one["low"] < one["value"] < one["high"]
    assert sorted(rounds["estimate"])[3] <= one["value"] <= sorted(rounds["estimate"])[4]
    assert rounds["launch"] == list(range(1, 9))
    assert rounds["stop"] == ["converged"] * 8
    assert "core_gauge" not in rounds and "flags" not in rounds  # no round has any
    assert series(tree, 1)["rounds"]["flags"] == ["contended", *[None] * 7]


def test_telemetry_of_nothing_that_is_shown_is_a_file_without_series(tree):
    path = tree.results / synthetic.MACHINE / "telemetry" / f"{machine_records.results_file(tree, 0).stem}.jsonl"
    path.write_text("{\n")
    files = {sha: file.value()["series"] for _, sha, file in rounds_data.files(read(tree))}
    assert files[tree.commits[0]] == {} and files[tree.commits[1]] != {}
    path.unlink()
    assert tree.commits[0] not in {sha for _, sha, _ in rounds_data.files(read(tree))}


def test_everything_recorded_of_a_round_is_there(tree):
    machine_records.add_gauges(tree, 0, on_gpu=True)
    rounds = series(tree)["rounds"]
    for column in ("core_gauge", "memory_gauge", "half_width", "waited", "effective", "steal", "switches", "setup"):
        assert len(rounds[column]) == 8, column
    assert rounds["sm_after"] == [1.94e9] * 8
    assert rounds["temperature"] == [52] * 8


def test_rounds_of_another_method_are_kept_and_do_not_count(tree):
    path = tree.results / synthetic.MACHINE / "telemetry" / f"{machine_records.results_file(tree, 0).stem}.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    older = [{**line, "m": "older", "t": line["t"] - 5000, "e": 3 * line["e"]} for line in lines]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in older + lines))
    one = series(tree)
    assert one["rounds"]["counts"] == [False] * 8 + [True] * 8
    assert one["value"] < 2 * min(one["rounds"]["estimate"])
    assert any("earlier timing method" in text for text in one["remarks"])


def test_what_asv_stored_and_no_round_made_counts_none(tree):
    path = machine_records.results_file(tree, 0)
    data = json.loads(path.read_text())
    data["results"][NATIVE[0]][0] = [value and 2 * value for value in data["results"][NATIVE[0]][0]]
    path.write_text(json.dumps(data))
    one = series(tree)
    assert one["rounds"]["counts"] == [False] * 8 and one["method"] is None
    assert one["correlogram"] == []


def test_a_single_round_has_neither_interval_nor_correlogram(tree):
    synthetic.write_commit(tree.results, tree.commits[0], 0, rounds=1)
    one = series(tree)
    assert (one["low"], one["high"], one["correlogram"]) == (None, None, [])
    assert one["value"] == pytest.approx(one["rounds"]["estimate"][0], rel=1e-6)


def test_the_correlogram_is_that_of_the_estimates():
    assert rounds_data.round_correlogram([1.0, 2.0] * 4) == pytest.approx([-0.875, 0.75, -0.625, 0.5, -0.375])
    assert rounds_data.round_correlogram([1.0] * 8) == []
    assert rounds_data.round_correlogram([1.0, 2.0, 3.0]) == []
    assert rounds_data.round_correlogram([]) == []


def test_a_newer_commit_changes_no_older_file(tree):
    for index in range(4):
        machine_records.add_gauges(tree, index)
    before = {file.name: (file.value(), file.inputs) for _, _, file in rounds_data.files(read(tree))}
    machine_records.add_gauges(tree, 4, busy=1.8)
    after = {file.name: (file.value(), file.inputs) for _, _, file in rounds_data.files(read(tree))}
    for value_or_inputs in (0, 1):
        changed = {name for name in before if before[name][value_or_inputs] != after[name][value_or_inputs]}
        assert changed == {f"rounds-{tree.commits[4][:8]}-0"}


def test_a_benchmark_that_counts_other_work_makes_its_rounds_anew(tree):
    before = {file.inputs for _, _, file in rounds_data.files(read(tree))}
    path = tree.results / "benchmarks.json"
    listed = json.loads(path.read_text())
    listed[NATIVE[0]]["flops"][NATIVE[2]] *= 2
    path.write_text(json.dumps(listed))
    assert not before & {file.inputs for _, _, file in rounds_data.files(read(tree))}


def test_fits_say_what_a_series_is_adjusted_by(tree):
    for index in range(5):
        machine_records.add_gauges(tree, index)
    found = read(tree)
    (file,) = rounds_data.fits(found)
    fit = file.value["series"][named(found)]
    assert (file.name, fit["method"]) == ("fits-0", "a1b2c3d4")
    slope, centre = fit["signals"]["core_gauge"]
    assert slope == pytest.approx(0.5, abs=0.1) and centre == pytest.approx(3e-5, rel=0.01)


def test_every_reason_and_flag_is_explained():
    assert set(Reason) <= set(measurement.STOPS)
    assert set(telemetry.FLAGS) <= set(measurement.FLAGS)


def test_the_address_of_a_measurement(tree):
    found = read(tree)
    (key,) = [key for key in found.keys if (key.benchmark, key.implementation, key.case) == NATIVE]
    address = measurement.href(tree.commits[0], key)
    assert re.fullmatch(rf"measurement\.html#commit={tree.commits[0]}&series=series-[0-9a-f]{{16}}", address)


# ---- raw samples ---------------------------------------------------------------------------------------------------


def samples(number=1000, seed=0):
    rng = random.Random(seed)
    return [1e-3 * math.exp(rng.gauss(0, 0.02)) for _ in range(number)]


def test_a_trace_is_shown_beside_the_series_of_its_name(tmp_path):
    machine_records.add_trace(tmp_path, samples())
    machine_records.add_trace(tmp_path, samples(seed=1), process="process-02")
    found = rounds_data.read(tmp_path)
    ((name, file),) = zip(found.names.items(), found.files, strict=True)
    assert name == (("add_mul_exp.Cpu.time_hot", "native", "float32-500k"), file.name)
    first, second = file.value["traces"]
    assert (first["process"], second["process"], first["samples"]) == ("process-01", "process-02", 1000)
    assert len(first["seconds"]) == len(first["number"]) <= rounds_data.POINTS
    assert sum(first["counts"]) + first["beyond"] == 1000
    assert first["median"] == pytest.approx(1e-3, rel=0.01)
    assert abs(first["correlogram"][0]) < 0.1 and len(first["correlogram"]) == 40
    assert found.problems == ()


@pytest.mark.parametrize("number", [1, 2, 20])
def test_a_short_or_constant_trace_is_shown_too(tmp_path, number):
    machine_records.add_trace(tmp_path, [1e-3] * number)
    ((trace,),) = (file.value["traces"] for file in rounds_data.read(tmp_path).files)
    assert trace["samples"] == number and trace["correlogram"] == []
    json.dumps(trace, allow_nan=False)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1, "unit": "s", "seconds": [NaN]}'])
def test_a_trace_that_is_none_is_named(tmp_path, text):
    machine_records.add_trace(tmp_path, samples(20)).write_text(text)
    found = rounds_data.read(tmp_path)
    assert found.files == () and "process-01/one.json" in found.problems[0]


@pytest.mark.parametrize(
    "change",
    [
        *({"began": value} for value in (None, "yesterday", 10**400, 1e300)),
        *({"seconds": [1e-3, value]} for value in (10**400, 1e300)),
        *({"device": "tpu"}, {"batch": 0}, {"batch": 10**400}),
    ],
)
def test_a_trace_with_a_field_that_says_nothing_is_named(tmp_path, change):
    machine_records.add_trace(tmp_path, samples(20), **change)
    assert len(rounds_data.read(tmp_path).problems) == 1


def test_without_traces_there_is_nothing_to_say(tmp_path):
    machine_records.add_trace(tmp_path, samples(20), name="started.json")  # a recording that ended before its first
    for folder in (tmp_path / "empty", tmp_path):
        found = rounds_data.read(folder)
        assert (found.names, found.files, found.problems) == ({}, (), ())


def test_the_page_names_traces_that_cannot_be_shown(tmp_path):
    tree = synthetic.build(tmp_path)
    machine_records.add_trace(tree.repository, samples(20), began="<b>").write_text("<b>")
    text = machine_records.rendered(measurement, tree)
    assert "Traces that cannot be shown" in text and "one.json" in text and "<b>" not in text
