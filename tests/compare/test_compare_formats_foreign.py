"""The JSON of Google Benchmark and of nvbench: what their compare scripts ask of it, restated, and asked here."""

import dataclasses
import re
import statistics

import pytest

from kernel_velocity.compare import formats
from kernel_velocity.compare.result import Timed
from tests.compare.comparisons import HOSTILE, case, comparison, hostile, timed, with_rows
from tests.compare.test_compare_formats import strict


def faster(found, factor):
    """Return a comparison whose every time is so many times shorter."""

    def shorter(row):
        return dataclasses.replace(
            row,
            rounds=tuple(tuple(sample / factor for sample in one) for one in row.rounds),
            estimates=tuple(each / factor for each in row.estimates),
        )

    compared = [dataclasses.replace(one, timed=tuple(map(shorter, one.timed))) for one in found.compared]
    return dataclasses.replace(found, compared=tuple(compared))


# Google Benchmark ----------------------------------------------------------------------------------------------------


def gbench(found):
    return strict(formats.as_gbench(found))


def gbench_changes(old, new):
    """Ask what tools/gbench/report.py asks: pairs by name and time unit, then times by index.

    Names in order of first mention; the unit is that of the first entry that has all three of time_unit, real_time and
    cpu_time; then all entries of that name and unit, on both sides.
    """
    changes = {}
    for name in dict.fromkeys(entry["name"] for entry in old["benchmarks"]):
        if name not in [entry["name"] for entry in new["benchmarks"]]:
            continue
        comparable = [
            entry
            for entry in old["benchmarks"]
            if entry["name"] == name and {"time_unit", "real_time", "cpu_time"} <= entry.keys()
        ]
        if not comparable:
            continue
        unit = comparable[0]["time_unit"]
        sides = [
            [entry for entry in side["benchmarks"] if entry["name"] == name and entry["time_unit"] == unit]
            for side in (old, new)
        ]
        pairs = list(zip(*sides, strict=False))
        changes[name] = [(b["real_time"] / a["real_time"] - 1, b["cpu_time"] / a["cpu_time"] - 1) for a, b in pairs]
    return changes


def test_gbench_is_read_by_its_compare_script():
    old, new = comparison(), faster(comparison(), 2)
    changes = gbench_changes(gbench(old), gbench(new))
    assert len(changes["add_mul_exp/cpu/float32-5M/native"]) == 8  # a repetition each: enough for its U test
    for name, found in changes.items():
        wanted = 0.0 if name.endswith("_cv") else -0.5  # a relative spread does not change
        assert [pair for change in found for pair in change] == pytest.approx([wanted] * 2 * len(found), abs=1e-9)


def test_gbench_filters_set_two_implementations_side_by_side():
    found = gbench(comparison())

    def filtered(family):
        kept = [entry for entry in found["benchmarks"] if re.search(family, entry["name"])]
        return {"benchmarks": [entry | {"name": re.sub(family, "[one vs. other]", entry["name"])} for entry in kept]}

    changes = gbench_changes(filtered("eager"), filtered("native"))
    (change, _), *_ = changes["add_mul_exp/cpu/float32-5M/[one vs. other]_median"]
    assert change == pytest.approx(6.4 / 14 - 1, abs=0.05)


def test_gbench_entries_have_the_librarys_fields():
    entries = gbench(comparison())["benchmarks"]
    first = entries[0]
    row = comparison().compared[0].timed[0]
    assert first["run_name"] == first["name"] == "add_mul_exp/cpu/float32-5M/eager"
    assert (first["run_type"], first["repetitions"], first["repetition_index"]) == ("iteration", 8, 0)
    assert (first["threads"], first["iterations"], first["time_unit"]) == (1, 200, "ns")
    assert first["real_time"] == first["cpu_time"] == pytest.approx(row.estimates[0] * 1e9)
    assert first["bytes_per_second"] == pytest.approx(60e6 / row.estimates[0])
    assert first["items_per_second"] == pytest.approx(5e6 / row.estimates[0])
    assert first["label"] == "DRAM"
    assert (first["family_index"], first["per_family_instance_index"]) == (0, 0)


def test_gbench_aggregates_are_over_the_rounds():
    row = comparison().compared[0].timed[0]
    found = {
        entry["aggregate_name"]: entry
        for entry in gbench(comparison())["benchmarks"]
        if entry["run_name"] == "add_mul_exp/cpu/float32-5M/eager" and entry["run_type"] == "aggregate"
    }
    assert list(found) == ["mean", "median", "stddev", "cv"]
    deviation = statistics.stdev(row.estimates)
    assert found["median"]["real_time"] == pytest.approx(statistics.median(row.estimates) * 1e9)
    assert found["stddev"]["real_time"] == pytest.approx(deviation * 1e9)
    assert found["cv"]["real_time"] == pytest.approx(deviation / statistics.fmean(row.estimates))
    assert (found["cv"]["aggregate_unit"], found["mean"]["aggregate_unit"]) == ("percentage", "time")
    assert found["mean"]["name"].endswith("eager_mean")
    assert "repetition_index" not in found["mean"]


def test_gbench_leaves_out_pairs_of_which_one_has_no_time():
    name = "add_mul_exp/cpu/float32-5M/triton"
    old = gbench(comparison())
    (entry,) = [each for each in old["benchmarks"] if each["name"] == name]
    assert (entry["error_occurred"], entry["error_message"]) == (True, "no CUDA device")
    compared = case()
    there = gbench(comparison(with_rows(compared, timed("triton", 1e-3, compared))))
    assert name not in gbench_changes(old, there)
    assert gbench_changes(there, old)[name] == []


def test_gbench_says_what_its_times_are():
    context = gbench(comparison())["context"]
    assert context["date"] == "2023-11-14T22:13:20+00:00"
    assert "one clock" in context["cpu_time"]
    assert context["kernel-velocity"]["environment"]["torch"] == "2.13.0"


def test_gbench_of_one_round_has_no_spread():
    compared = case()
    one = Timed(implementation="a", rounds=((1.0, 1.5),), estimates=(1.25,))
    (entry,) = gbench(comparison(with_rows(compared, one)))["benchmarks"]
    assert (entry["run_type"], entry["iterations"], entry["real_time"]) == ("iteration", 2, 1.25e9)


# nvbench -------------------------------------------------------------------------------------------------------------

# The tags of three generations of nvbench_compare.py: time and noise
GENERATIONS = [
    ("nv/cold/time/gpu/mean", "nv/cold/time/gpu/stdev/relative"),
    ("nv/cold/time/gpu/median", "nv/cold/time/gpu/ir/relative"),
    ("nv/cold/time/gpu/median", "nv/cold/time/gpu/iqr/relative"),
]


def nvbench(found):
    return strict(formats.as_nvbench(found))


def nvbench_rows(old, new, time_tag, noise_tag):
    """Ask what nvbench_compare.py asks: equal devices, benchmarks and states by name, then two summaries by tag."""
    assert old["devices"] == new["devices"]
    assert {"id", "name"} <= old["devices"][0].keys()
    found = {}
    for bench in new["benchmarks"]:
        (reference,) = [each for each in old["benchmarks"] if each["name"] == bench["name"]]
        for device in bench["devices"]:
            assert device in [each["id"] for each in new["devices"]]
        for state in bench["states"]:
            matches = [each for each in reference["states"] if each["name"] == state["name"]]
            if not matches or not state["summaries"] or not matches[0]["summaries"]:
                continue
            labels = tuple(axis_text(value, bench["axes"]) for value in state["axis_values"])
            values = [float_of(each["summaries"], tag) for tag in (time_tag, noise_tag) for each in (matches[0], state)]
            found[bench["name"], *labels] = values
            assert state["device"] in bench["devices"]
    return found


def axis_text(value, axes):
    (axis,) = [each for each in axes if each["name"] == value["name"]]
    assert axis["type"] == "string"
    assert axis["flags"] == ""
    assert value["value"] in [each["input_string"] for each in axis["values"]]
    return value["value"]


def float_of(summaries, tag):
    summary = next(each for each in summaries if each["tag"] == tag)
    data = next(each for each in summary["data"] if each["name"] == "value")
    assert data["type"] == "float64"
    return None if data["value"] is None else float(data["value"])


@pytest.mark.parametrize(("time_tag", "noise_tag"), GENERATIONS)
def test_nvbench_is_read_by_its_compare_scripts(time_tag, noise_tag):
    old, new = comparison(), faster(comparison(), 2)
    found = nvbench_rows(nvbench(old), nvbench(new), time_tag, noise_tag)
    assert ("matmul", "float32-512x512x512", "native") in found
    assert len(found) == 7  # of 9: one is n/a, one failed
    for before, after, noise_before, noise_after in found.values():
        assert after == pytest.approx(before / 2)
        assert 0 < noise_before == pytest.approx(noise_after)
    before = found["add_mul_exp", "float32-5M", "eager"][0]
    assert before == pytest.approx(14e-3, rel=0.05)


def test_nvbench_names_its_version_as_the_reader_does():
    version = nvbench(comparison())["meta"]["version"]["json"]
    assert version["string"] == "1.0.0"
    assert [version[part] for part in ("major", "minor", "patch")] == [1, 0, 0]


def test_nvbench_says_what_has_no_time():
    (bench, _) = nvbench(comparison())["benchmarks"]
    states = {state["name"]: state for state in bench["states"]}
    skipped = states["Device=0 Case=float32-5M Implementation=triton"]
    assert (skipped["is_skipped"], skipped["skip_reason"], skipped["summaries"]) == (True, "no CUDA device", [])
    assert states["Device=0 Case=float32-5M Implementation=eager"]["is_skipped"] is False


def test_nvbench_has_a_noise_that_is_not_known_as_null():
    one = Timed(implementation="a", rounds=((1.0,),), estimates=(1.0,))
    state = nvbench(comparison(with_rows(case(), one)))["benchmarks"][0]["states"][0]
    assert float_of(state["summaries"], "nv/cold/time/gpu/stdev/relative") is None
    assert float_of(state["summaries"], "nv/cold/time/gpu/mean") == 1.0


def test_nvbench_has_one_benchmark_per_problem_and_one_device_per_device():
    a, b = case("a"), case("b")
    again = dataclasses.replace(a, device="cuda")
    found = nvbench(comparison(*(with_rows(each, timed("eager", 1e-3)) for each in (a, b, again))))
    assert [bench["name"] for bench in found["benchmarks"]] == ["a", "b"]
    assert [device["id"] for device in found["devices"]] == [0, 1]
    assert found["benchmarks"][0]["devices"] == [0, 1]
    assert [state["device"] for state in found["benchmarks"][0]["states"]] == [0, 1]


@pytest.mark.parametrize("name", ["as_gbench", "as_nvbench"])
def test_hostile_names_stay_names(name):
    text = getattr(formats, name)(hostile())
    entry, *_ = strict(text)["benchmarks"]
    assert entry["name"].startswith(HOSTILE)
