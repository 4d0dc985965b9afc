"""What a comparison is written as: golden files, and what the compare scripts of others ask of their formats."""

import dataclasses
import json
import math
import re
import statistics
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.compare import formats, text
from kernel_velocity.compare.formats.json import plain, strict_json
from kernel_velocity.compare.result import Accuracy, Row, Timed
from kernel_velocity.results import foreign
from kernel_velocity.tables import literal
from tests.compare.live_comparisons import HOSTILE, case, comparison, hostile, timed, whole
from tests.golden import check_golden

GOLDEN = Path(__file__).parent / "golden" / "compare_formats"
FORMATS = {"as_json": "json", "as_markdown": "md", "as_gbench": "json", "as_nvbench": "json"}


def strict(text):
    """Parse JSON, without the NaN and infinity that Python's parser accepts."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("name", FORMATS)
def test_golden(name, accept):
    check_golden(GOLDEN / f"{name}.{FORMATS[name]}", getattr(formats, name)(whole()), accept=accept)


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_measured_is_written_too(name):
    assert getattr(formats, name)(comparison()).endswith("\n")
    alone = comparison(case("c", 1, Timed(implementation="a", missing="no GPU")))
    assert "no GPU" in getattr(formats, name)(alone)


# Figures -------------------------------------------------------------------------------------------------------------


def test_row_figures_by_hand():
    rounds = ((1.0, 2.0), (3.0, 4.0), (5.0, 6.0))
    single = Timed(implementation="a", rounds=rounds, estimates=(1.5, 3.5, 5.5), function=3.75)
    row = Row(case("c", 1000, single), single)
    assert (row.timing.seconds, row.overhead) == (3.5, 0.25)
    assert (row.spread.mean, row.spread.n, row.spread.min, row.spread.max) == (3.5, 6, 1.0, 6.0)
    assert row.spread.deviation == pytest.approx(math.sqrt(17.5 / 5))
    assert (row.spread.p50, row.spread.p99) == (3.5, pytest.approx(5.95))
    assert (row.rate, row.bandwidth) == (pytest.approx(3000 / 3.5), pytest.approx(12000 / 3.5))
    for missing in ({"missing": "none here"}, {"failed": "broke"}):
        assert Row(row.compared, timed("a", 1.0, **missing)).timing is None


def test_speed_ups_have_errors_and_leave_out_wrong_results():
    estimates = {"a": (2.0, 2.2, 1.8), "b": (1.0, 1.01, 0.99)}
    rows = [Timed(implementation=name, estimates=seconds) for name, seconds in estimates.items()]
    wrong = timed("w", 1e-3, accuracy=(Accuracy(output="o", right=False, details={}),))
    (pair,) = case("c", 1, rows[0], Timed(implementation="n", missing="x"), wrong, rows[1]).speed_ups(None)
    assert (pair.slower, pair.faster, pair.ratio) == ("a", "b", pytest.approx(2.0))
    errors = [statistics.stdev(seconds) / math.sqrt(3) / statistics.median(seconds) for seconds in estimates.values()]
    assert pair.error == pytest.approx(2.0 * math.hypot(*errors))


def test_speed_ups_are_over_the_reference_in_every_file():
    three = case("c", 1, *(timed(name, seconds) for name, seconds in (("a", 1e-3), ("b", 2e-3), ("c", 4e-3))))
    compared = comparison(three, settings={"reference": "c"})
    pairs = [(pair["faster"], pair["slower"]) for pair in strict(formats.as_json(compared))["speed_ups"]]
    assert pairs == [("a", "c"), ("b", "c"), ("b", "a")]
    assert "`a` over `c`" in formats.as_markdown(compared) and "`c` over" not in formats.as_markdown(compared)


WRONG = (Accuracy(output="out", right=False, details={}),)


@pytest.mark.parametrize(
    ("row", "status"),
    [
        (Timed(implementation="a", missing="no GPU", accuracy=WRONG), "n/a"),
        (Timed(implementation="a", estimates=(1.0,), accuracy=WRONG), "WRONG"),
        (Timed(implementation="a", failed="broke", accuracy=WRONG), "WRONG"),
        (Timed(implementation="a", failed="broke"), "FAILED"),
        (Timed(implementation="a", estimates=(1.0,)), "not verified"),
        (timed("a", 1.0), "right"),
    ],
)
def test_status(row, status):
    assert row.status == status


@pytest.mark.parametrize(
    ("figures", "shown"),
    [([1.0, math.nan, 2.0], "NaN"), ([1.0, 2.0], "2"), ([], ""), ([True], "")],
)
def test_error_is_the_largest_and_nan_above_all(figures, shown):
    outputs = tuple(Accuracy(output="a", right=True, details={"max_absolute_error": figure}) for figure in figures)
    assert text.error(Row(case("c", 1), timed("a", 1.0, accuracy=outputs))) == shown


# JSON ----------------------------------------------------------------------------------------------------------------


def test_json_has_a_nan_as_text_and_unknown_as_null():
    rows = {(row["name"], row["implementation"]): row for row in strict(formats.as_json(whole()))["results"]}
    figures = rows["float32-50M", "native"]["accuracy"][0]["details"]
    assert (figures["max_absolute_error"], figures["max_relative_error"]) == ("NaN", "Infinity")
    missing = rows["float32-1M", "triton"]
    assert (missing["status"], missing["reason"]) == ("n/a", "Triton needs a CUDA device")
    assert [missing[name] for name in ("runtime_ms", "gflops", "seconds", "roofline")] == [None] * 4


def test_plain_values():
    odd = {"a": np.float64("nan"), "b": np.int64(3), "c": (1, True, None), "d": set, 5: -math.inf}
    assert plain(odd) == {"a": "NaN", "b": 3, "c": [1, True, None], "d": "<class 'set'>", "5": "-Infinity"}


@settings(max_examples=50)
@given(st.recursive(st.none() | st.floats() | st.text() | st.booleans(), lambda inner: st.lists(inner, max_size=3)))
def test_any_value_becomes_strict_json(value):
    strict(strict_json({"value": value}).encode("utf-8").decode("utf-8"))


# Markdown ------------------------------------------------------------------------------------------------------------


def test_markdown_leads_with_the_verdict():
    failed = "**FAIL: 2 results wrong or failed: `native` on `float32-50M`, `mine` on `float32-50M`**"
    assert formats.as_markdown(whole()).startswith(failed)
    good = comparison(case("c", 1, timed("a", 1e-3), Timed(implementation="b", missing="no GPU")))
    assert formats.as_markdown(good).startswith("**1 of 1 result verified and right**")


def test_markdown_shows_hostile_text_as_text():
    document = formats.as_markdown(hostile())
    outside = re.sub(r"<code>.*?</code>", "", document)
    assert not [word for word in ("<script", "@everyone", "](", "{{", "$$", "window") if word in outside]
    assert "<script" not in document
    lines = [line for line in document.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in lines} == {15}


@given(st.text())
def test_literal_text_stays_in_its_span(text):
    span = literal(text)
    inside = span[1:-1] if span.startswith("`") else span.removeprefix("<code>").removesuffix("</code>")
    assert not set(inside) & set("\n`|") and not (span.startswith("<code>") and set(inside) & set("<>\\*_[]@$"))


# Google Benchmark ----------------------------------------------------------------------------------------------------


def faster(before, factor):
    """Return a comparison whose every time is so many times shorter."""

    def shorter(row):
        rounds = tuple(tuple(sample / factor for sample in part) for part in row.rounds)
        return dataclasses.replace(row, rounds=rounds, estimates=tuple(seconds / factor for seconds in row.estimates))

    compared = [dataclasses.replace(part, timed=tuple(map(shorter, part.timed))) for part in before.compared]
    return dataclasses.replace(before, compared=tuple(compared))


def gbench_changes(old, new):
    """Ask what tools/gbench/report.py asks: pairs by name and time unit, then times by index.

    Names in order of first mention. The unit is that of the first entry that has all three of time_unit, real_time and
    cpu_time. Then all entries of that name and unit, on both sides.
    """
    changes = {}
    for name in dict.fromkeys(entry["name"] for entry in old["benchmarks"]):
        keys = {"time_unit", "real_time", "cpu_time"}
        comparable = [entry for entry in old["benchmarks"] if entry["name"] == name and keys <= entry.keys()]
        if name not in [entry["name"] for entry in new["benchmarks"]] or not comparable:
            continue
        unit = comparable[0]["time_unit"]
        sides = [
            [entry for entry in side["benchmarks"] if entry["name"] == name and entry["time_unit"] == unit]
            for side in (old, new)
        ]
        pairs = [(a, b) for a, b in zip(*sides, strict=False) if a["real_time"]]  # two that failed are two zeros
        changes[name] = [(b["real_time"] / a["real_time"] - 1, b["cpu_time"] / a["cpu_time"] - 1) for a, b in pairs]
    return changes


def gbench(compared):
    return strict(formats.as_gbench(compared))


def test_gbench_is_read_by_its_compare_script():
    changes = gbench_changes(gbench(whole()), gbench(faster(whole(), 2)))
    assert len(changes["add_mul_exp/cpu/float32-1M/native"]) == 3  # a repetition each: for its U test
    for name, pairs in changes.items():
        expected = 0.0 if name.endswith("_cv") else -0.5  # a relative spread does not change
        assert [pair for change in pairs for pair in change] == pytest.approx([expected] * 2 * len(pairs), abs=1e-9)


def test_gbench_filters_set_two_implementations_side_by_side():
    def filtered(family):
        entries = [entry for entry in gbench(whole())["benchmarks"] if re.search(family, entry["name"])]
        return {"benchmarks": [entry | {"name": re.sub(family, "[one vs. other]", entry["name"])} for entry in entries]}

    changes = gbench_changes(filtered("eager"), filtered("native"))
    ((change, _), *_) = changes["add_mul_exp/cpu/float32-1M/[one vs. other]_median"]
    assert change == pytest.approx(361.2 / 720 - 1)


def test_gbench_leaves_out_pairs_of_which_one_has_failed():
    name = "add_mul_exp/cpu/float32-50M/mine"
    other = gbench(comparison(case("float32-50M", 1, timed("mine", 1e-3))))
    assert gbench_changes(gbench(whole()), other)[name] == gbench_changes(other, gbench(whole()))[name] == []


def test_gbench_has_what_bencher_reads():
    """Its adapter `cpp_google` is typed: a list of caches, then a name, a number and a known unit in every entry."""
    document = gbench(whole())
    assert all(isinstance(cache, dict) for cache in document["context"]["caches"])
    for entry in document["benchmarks"]:
        assert 0 < len(entry["name"]) <= 1024
        assert isinstance(entry["real_time"], float) and entry["time_unit"] in ("ns", "s")


def test_gbench_context_says_what_is_not_available():
    document = gbench(whole())
    (name,) = document["context"]["kernel-velocity"]["not available"]
    assert name == "add_mul_exp/cpu/float32-1M/triton"
    assert name not in [entry["name"] for entry in document["benchmarks"]]


def test_test_cases_of_one_name_get_their_number():
    same = comparison(*(case("c", elements, timed("a", 1e-3)) for elements in (1, 2)), case("d", 3, timed("a", 1e-3)))
    runs = [entry["run_name"] for entry in gbench(same)["benchmarks"] if entry.get("repetition_index") == 0]
    assert runs == ["add_mul_exp/cpu/c#1/a", "add_mul_exp/cpu/c#2/a", "add_mul_exp/cpu/d/a"]
    states = [state["name"] for state in nvbench(same)["benchmarks"][0]["states"]]
    assert states == [f"Device=0 Case={case} Implementation=a" for case in ("c#1", "c#2", "d")]


# nvbench -------------------------------------------------------------------------------------------------------------

# The tags of three generations of nvbench_compare.py: time and noise
GENERATIONS = [
    ("nv/cold/time/gpu/mean", "nv/cold/time/gpu/stdev/relative"),
    ("nv/cold/time/gpu/median", "nv/cold/time/gpu/ir/relative"),
    ("nv/cold/time/gpu/median", "nv/cold/time/gpu/iqr/relative"),
]


def nvbench(compared):
    return strict(formats.as_nvbench(compared))


def float_of(summaries, tag):
    (summary,) = [entry for entry in summaries if entry["tag"] == tag]
    (data,) = summary["data"]
    assert (data["name"], data["type"]) == ("value", "float64")
    return None if data["value"] is None else float(data["value"])


def nvbench_rows(old, new, *tags):
    """Ask what nvbench_compare.py asks: equal devices, benchmarks and states by name, then two summaries by tag."""
    assert old["devices"] == new["devices"] and {"id", "name"} <= old["devices"][0].keys()
    rows = {}
    for bench in new["benchmarks"]:
        (reference,) = [entry for entry in old["benchmarks"] if entry["name"] == bench["name"]]
        assert set(bench["devices"]) <= {entry["id"] for entry in new["devices"]}
        axes = {axis["name"]: [value["input_string"] for value in axis["values"]] for axis in bench["axes"]}
        assert {(axis["type"], axis["flags"]) for axis in bench["axes"]} == {("string", "")}
        for state in bench["states"]:
            (other,) = [entry for entry in reference["states"] if entry["name"] == state["name"]]
            assert state["device"] in bench["devices"]
            assert all(entry["value"] in axes[entry["name"]] for entry in state["axis_values"])
            labels = tuple(entry["value"] for entry in state["axis_values"])
            if state["summaries"] and other["summaries"]:
                values = [float_of(entry["summaries"], tag) for tag in tags for entry in (other, state)]
                rows[bench["name"], *labels] = values
    return rows


@pytest.mark.parametrize("tags", GENERATIONS)
def test_nvbench_is_read_by_its_compare_scripts(tags):
    rows = nvbench_rows(nvbench(whole()), nvbench(faster(whole(), 2)), *tags)
    assert len(rows) == 8  # of 11: one is n/a, two failed
    for before, after, noise_before, noise_after in rows.values():
        assert after == pytest.approx(before / 2)
        assert 0 < noise_before == pytest.approx(noise_after)
    assert rows["add_mul_exp", "float32-1M", "eager"][0] == pytest.approx(720e-6, rel=0.02)


def test_nvbench_has_the_mean_clock_where_it_is_known():
    rows = case("c", 1, timed("a", 1e-3, clocks=(1.9e9, 2.1e9)), timed("b", 1e-3, clocks=()))
    measured, unmeasured = (state["summaries"] for state in nvbench(comparison(rows))["benchmarks"][0]["states"])
    assert float_of(measured, "nv/cold/sm_clock_rate/mean") == 2.0e9
    assert "nv/cold/sm_clock_rate/mean" not in [summary["tag"] for summary in unmeasured]


def test_nvbench_has_an_unknown_noise_as_null():
    single = Timed(implementation="a", rounds=((1.0,),), estimates=(1.0,))
    state = nvbench(comparison(case("c", 1, single)))["benchmarks"][0]["states"][0]
    assert float_of(state["summaries"], "nv/cold/time/gpu/stdev/relative") is None
    assert float_of(state["summaries"], "nv/cold/time/gpu/mean") == 1.0


def test_nvbench_has_one_benchmark_per_problem():
    cases = [case("c", 1, timed("eager", 1e-3), problem=name) for name in ("a", "b", "a")]
    document = nvbench(comparison(*cases[:2], dataclasses.replace(cases[2], device="cuda")))
    assert [(bench["name"], bench["devices"]) for bench in document["benchmarks"]] == [("a", [0, 1]), ("b", [0])]
    assert [device["id"] for device in document["devices"]] == [0, 1]
    assert [state["device"] for state in document["benchmarks"][0]["states"]] == [0, 1]


@pytest.mark.parametrize(("name", "program"), [("as_gbench", "google-benchmark"), ("as_nvbench", "nvbench")])
def test_what_is_written_can_be_ingested(tmp_path, name, program):
    (tmp_path / "file.json").write_text(getattr(formats, name)(whole()), encoding="utf-8")
    series = foreign.read(program, tmp_path / "file.json").series
    centre = series["add_mul_exp.Cpu.time_hot", "compile", "float32-1M"]
    assert statistics.median(centre) == pytest.approx(364e-6, rel=0.02)
    assert len(series) == (10 if program == "google-benchmark" else 11)  # the one that is n/a is no entry
    assert sum(not samples for samples in series.values()) == (2 if program == "google-benchmark" else 3)


@pytest.mark.parametrize("name", ["as_gbench", "as_nvbench"])
def test_hostile_names_stay_names(name):
    entry, *_ = strict(getattr(formats, name)(hostile()))["benchmarks"]
    assert entry["name"].startswith(HOSTILE)
