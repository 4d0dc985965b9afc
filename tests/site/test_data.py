"""The data files: series, commits, rounds, fits, and that they say what the results say."""

import itertools
import json
import math
import statistics

import git
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from kernel_velocity.engine import telemetry
from kernel_velocity.engine.stopping import Reason
from kernel_velocity.site import model, series_data
from kernel_velocity.site.pages import measurement
from kernel_velocity.site.writer import json_bytes, series_name
from kernel_velocity.stats import adjust
from tests import synthetic
from tests.golden import check_golden
from tests.site import machine_records
from tests.site.pages import GOLDEN, as_text, edit, read

NATIVE = ("matmul.Cpu.time_hot", "native", "float32-512x512x512")


def as_json(value):
    return json.loads(json_bytes(value() if callable(value) else value))


def key_of(site, benchmark, implementation, case):
    (key,) = [
        key for key in site.keys if (key.benchmark, key.implementation, key.case) == (benchmark, implementation, case)
    ]
    return key


# ---- series --------------------------------------------------------------------------------------------------------


def files(tree):
    return {made.name: as_json(made.value) for made in series_data.build(read(tree))}


def spread(runs):
    return [value for value, count in runs for _ in range(count)]


def columns_of(part, commits):
    """Return the columns of a file of a series, as html_templates/static/data.js does."""
    numbers = [number for first, count in part["commit"] for number in range(first, first + count)]
    columns = {name: spread(part[name]) for name in ("outcome", "rounds", "method", "remarks")}

    def apart(name, others, sign=1):
        values = part.get(name, [None] * len(numbers))
        return [None if value is None else other + sign * value for value, other in zip(values, others, strict=True)]

    times = {"seconds": apart("seconds", [0] * len(numbers))}
    for name in ("", "adjusted"):
        middle = times["seconds"] if not name else times.setdefault(name, apart(name, times["seconds"]))
        for end, sign in (("low", -1), ("high", 1)):
            times["_".join(filter(None, (name, end)))] = apart("_".join(filter(None, (name, end))), middle, sign)
    scaled = {name: [value and value / part["per"] for value in values] for name, values in times.items()}
    assert part["last"][1] == commits[part["last"][0]]["sha"][:8] == commits[numbers[-1]]["sha"][:8]
    return {"commit": [commits[number]["sha"] for number in numbers], **columns, **scaled}


def whole(made, name):
    """Return the columns of a series: those of its own file with its newest entries added."""
    older = made[name]
    newest = made[older["newest"]]
    assert newest["before"] == older["before"]
    parts = [part for part in (older, newest["series"].get(name)) if part and part["last"]]
    columns = [columns_of(part, made["commits"]["commits"]) for part in parts]
    return {name: [value for part in columns for value in part[name]] for name in columns[0]}


@pytest.fixture(params=[64, 2, 5], ids=["all are new", "four of five are older", "none is new"])
def step(request, monkeypatch):
    monkeypatch.setattr(model, "STEP", request.param)


def test_commits_golden(tree, accept):
    git.Repo(tree.repository).create_tag("v1.0", ref=tree.commits[2])
    check_golden(GOLDEN / "commits_data.json", as_text(files(tree)["commits"]), accept=accept)


def test_index_golden(tree, accept):
    check_golden(GOLDEN / "series_index_data.json", as_text(files(tree)["series-index"]), accept=accept)


def test_series_golden(tree, monkeypatch, accept):
    monkeypatch.setattr(model, "STEP", 5)
    site = read(tree)
    key = key_of(site, "add_mul_exp.Cpu.time_hot", "triton", "float32-5M")
    made = as_json(series_data.series(site, key, series_data.Encoder(site)))
    check_golden(GOLDEN / "series_data.json", as_text(made), accept=accept)


@pytest.mark.parametrize(("step", "older"), [(64, 0), (2, 4), (5, 5), (1, 5)])
def test_series_files_after_one_more_commit(tree, monkeypatch, step, older):
    monkeypatch.setattr(model, "STEP", step)
    monkeypatch.setattr(adjust, "ALWAYS_ANEW", 4)  # with it, older adjusted times change
    monkeypatch.setattr(adjust, "GROWTH", 2)
    newest = list(tree.results.rglob(f"{tree.commits[4][:8]}-*"))
    assert newest
    after = {made.name: made.inputs for made in series_data.build(read(tree)) if made.inputs}
    for path in newest:
        path.unlink()
    before = {made.name: made.inputs for made in series_data.build(read(tree)) if made.inputs}
    changed = {name.split("-")[0] for name in before if before[name] != after[name]}
    assert changed == ({"newest"} if older < 5 else {"newest", "series"})
    assert len(before) == len(after) == 14


def test_hostile_names_are_data(tmp_path):
    tree = synthetic.build(tmp_path, messages=("</script>\u2028\N{ROCKET}",) * 5, machine="<script>")
    made = files(tree)
    assert made["series-index"]["places"][0]["machine"] == "<script>"
    assert made["commits"]["commits"][0]["subject"] == "</script>\u2028\N{ROCKET}"
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for name in made)


@given(arrays.arrays(np.float64, 5, elements=st.floats(min_value=1e-15, max_value=9e5)))
def test_times_have_six_digits(values):
    rounded = series_data.significant(values)
    np.testing.assert_allclose(rounded, values, rtol=0.5001 * 10 ** (1 - series_data.DIGITS))
    assert rounded.tolist() == [float(f"{value:.5e}") for value in rounded]
    odd = np.array([np.nan, np.inf, 0.0, -1.0, 1e-300])
    np.testing.assert_array_equal(series_data.significant(odd), odd)


# ---- rounds --------------------------------------------------------------------------------------------------------


def rounds_files(tree):
    return {(sha, number): file for number, sha, file in measurement.files(read(tree)) if sha}


def values_of(column):
    """Return the values of a column, as html_templates/static/measurement.js does."""
    if "runs" in column:
        return spread(column["runs"])
    steps = column["steps"]
    if isinstance(steps, str):
        codes = [ord(letter) - ord("#") for letter in steps]
        steps = [None if code < 0 else -(code + 1) // 2 if code % 2 else code // 2 for code in codes]
    numbers = [step for step in steps if step is not None]
    sums = iter([column["from"] + step for step in numbers] if "from" in column else itertools.accumulate(numbers))
    return [None if step is None else next(sums) / column["per"] for step in steps]


def rounds_of(tree, index=0, wanted=NATIVE):
    """Return what a file of rounds has of a series."""
    (labels,) = [file.value["series"] for _, sha, file in measurement.files(read(tree)) if not sha]
    made = as_json(rounds_files(tree)[tree.commits[index], 0].value)
    (at,) = [
        at for at, label in enumerate(labels) if (label["benchmark"], label["implementation"], label["case"]) == wanted
    ]
    start, count, base = sum(made["count"][:at]), made["count"][at], made["base"][at]
    rounds = {name: values_of(column)[start : start + count] for name, column in made["rounds"].items()}
    rounds["estimate"] = [base * (1 + value) for value in rounds["estimate"]]
    values = {name: values_of(made[name])[at] for name in ("outcome", "method", "remarks", "interval", "low", "high")}
    return {**labels[at], **values, "base": base, "rounds": rounds}


def test_rounds_golden(copied, accept):
    machine_records.add_gauges(copied, 1, on_gpu=True)
    check_golden(GOLDEN / "rounds_data.json", as_text(rounds_of(copied, 1)), accept=accept)


def test_rounds_out_of_all_proportion(copied):
    """No column of whole numbers holds them."""
    path = machine_records.telemetry_of(copied, 0)
    lines = [telemetry.parse(line) for line in path.read_text().splitlines()]
    strange = [
        {**line, "m": "older", "t": 1.5 + number, "e": 10.0 ** (20 * number - 12), "w": 1e-18}
        for number, line in enumerate(lines[:2])
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in [*lines, *strange]))
    wanted = (lines[0]["b"], *lines[0]["p"])
    data = rounds_of(copied, wanted=wanted)
    assert data["rounds"]["estimate"][0] == pytest.approx(1e-12, rel=0.01)
    assert data["rounds"]["warmup"][0] in (0, 1e-18)


def test_rounds_files_are_of_commits_with_telemetry(copied):
    named = {sha: file.name for (sha, _), file in rounds_files(copied).items()}
    assert named == {sha: f"rounds-{sha[:8]}-0" for sha in copied.commits}
    path = machine_records.telemetry_of(copied, 0)
    path.write_text("{\n")
    empty = as_json(rounds_files(copied)[copied.commits[0], 0].value)
    assert set(empty["count"]) == {0} and set(empty["base"]) == {None}
    path.unlink()
    assert (copied.commits[0], 0) not in rounds_files(copied)


def test_rounds_of_another_method_do_not_count(copied):
    path = machine_records.telemetry_of(copied, 0)
    lines = [telemetry.parse(line) for line in path.read_text().splitlines()]
    older = [{**line, "m": "older", "t": line["t"] - 5000, "e": 3 * line["e"]} for line in lines]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in older + lines))
    data = rounds_of(copied)
    assert data["rounds"]["counts"] == [False] * 8 + [True] * 8
    assert data["base"] < 2 * min(data["rounds"]["estimate"])
    assert any("earlier timing method" in text for text in data["remarks"])


def test_rounds_of_a_single_one(copied):
    synthetic.write_commit(copied.results, copied.commits[0], 0, rounds=1)
    data = rounds_of(copied)
    assert (data["low"], data["high"], data["interval"]) == (None, None, None)
    assert data["base"] == pytest.approx(data["rounds"]["estimate"][0], rel=1e-5)


def test_newer_commit_changes_no_older_rounds(copied):
    for index in range(4):
        machine_records.add_gauges(copied, index)
    before = {file.name: (as_json(file.value), file.inputs) for file in rounds_files(copied).values()}
    machine_records.add_gauges(copied, 4, busy=1.8)
    after = {file.name: (as_json(file.value), file.inputs) for file in rounds_files(copied).values()}
    for part in (0, 1):
        changed = {name for name in before if before[name][part] != after[name][part]}
        assert changed == {f"rounds-{copied.commits[4][:8]}-0"}


def test_rounds_after_other_work(copied):
    before = {file.inputs for file in rounds_files(copied).values()}

    def double(listed):
        listed[NATIVE[0]]["flops"][NATIVE[2]] *= 2

    edit(copied.results / "benchmarks.json", double)
    assert not before & {file.inputs for file in rounds_files(copied).values()}


def test_fits_give_the_adjusted_value(copied):
    for index in range(5):
        machine_records.add_gauges(copied, index)
    site = read(copied)
    key, (platform,) = key_of(site, *NATIVE), site.platforms
    (file,) = measurement.fits(site)
    fit = file.value["series"][series_name(key)]
    (value,) = [value for value in site.past.at(copied.commits[4]) if value.key == key]
    assert (file.name, fit["method"], fit["explained"] > 0.9) == ("fits-0", value.method, True)
    assert [*fit["signals"]] == ["core_gauge", "memory_gauge"] and "Slopes: gauge of the core 0." in fit["words"]
    slope, centre = fit["signals"]["core_gauge"]
    assert slope == pytest.approx(0.5, abs=0.1) and centre == pytest.approx(3e-5, rel=0.01)
    rounds = site.rounds_at(platform, value.commit)[NATIVE]
    signals = fit["signals"].items()
    adjusted = [
        round_.estimate * math.prod((getattr(round_, name) / centre) ** -slope for name, (slope, centre) in signals)
        for round_ in rounds
    ]
    assert statistics.median(adjusted) == pytest.approx(value.adjusted.seconds, rel=1e-6)


def test_every_reason_and_flag_is_explained():
    assert set(Reason) <= set(measurement.STOPS)
    assert set(telemetry.FLAGS) <= set(measurement.FLAGS)
