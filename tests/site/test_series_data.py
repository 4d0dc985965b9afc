"""The data files of the trends: their golden text, and that they say what the series say."""

import dataclasses
import json
from pathlib import Path

import git
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from kernel_velocity.site import model, report, series_data
from kernel_velocity.site.outputs import series_name
from kernel_velocity.site.writer import json_bytes
from kernel_velocity.stats import growth
from tests import synthetic
from tests.golden import check_golden

GOLDEN = Path(__file__).parent / "golden"
KEYS = {
    *(
        "format",
        "machine",
        "environment",
        "benchmark",
        "implementation",
        "case",
        "version",
        "flop",
        "operation",
        "bytes",
    ),
    *("commit", "outcome", "seconds", "low", "high", "adjusted", "adjusted_low", "adjusted_high"),
    *("before", "newest", "rounds", "method", "remarks"),
}


def read(tree):
    return model.read(tree.results, tree.repository)


def files(tree):
    return {made.name: as_json(made.value() if made.inputs else made.value) for made in series_data.build(read(tree))}


def whole(made, name):
    """Return a series' own file with its newest entries added, as html_templates/static/series.js does."""
    older = made[name]
    newest = made[older["newest"]]
    assert newest["before"] == older["before"]
    newer = newest["series"].get(name)
    if newer is None:
        return older
    joined = {column: older[column] + newer[column] for column in newer if column != "remarks"}
    remarks = {str(int(entry) + len(older["commit"])): texts for entry, texts in newer["remarks"].items()}
    return {**older, **joined, "remarks": older["remarks"] | remarks}


@pytest.fixture(params=[64, 2, 5], ids=["all are new", "four of five are older", "none is new"])
def step(request, monkeypatch):
    monkeypatch.setattr(series_data, "STEP", request.param)


def as_json(value):
    return json.loads(json_bytes(value))


def as_text(value):
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def key_of(found, implementation, case="float32-5M"):
    return next(key for key in found.keys if (key.implementation, key.case) == (implementation, case))


def test_commits_golden(tree, accept):
    git.Repo(tree.repository).create_tag("v1.0", ref=tree.commits[2])
    check_golden(GOLDEN / "commits_data.json", as_text(files(tree)["commits"]), accept=accept)


def test_index_golden(tree, accept):
    check_golden(GOLDEN / "series_index_data.json", as_text(files(tree)["series-index"]), accept=accept)


def test_a_commit_says_where_it_was_measured(tree):
    synthetic.write_json(tree.results / "gpu-2" / "machine.json", synthetic.machine_json("gpu-2"))
    for index in (3, 4):
        synthetic.write_commit(tree.results, tree.commits[index], index, machine="gpu-2")
    assert [commit["places"] for commit in files(tree)["commits"]["commits"]] == [[0], [0], [0], [0, 1], [0, 1]]


def test_series_golden(tree, accept):
    found = read(tree)
    made = as_json(series_data.series(found.series(key_of(found, "triton")), 5, series_data.Texts(found.line)))
    check_golden(GOLDEN / "series_data.json", as_text(made), accept=accept)


@pytest.mark.usefixtures("step")
def test_every_series_of_the_index_has_a_file_with_columns_of_one_length(tree):
    made = files(tree)
    listed = {entry["name"]: entry["newest"] for entry in made["series-index"]["series"]}
    assert set(made) == {"commits", "series-index", *listed, *listed.values()}
    assert (len(listed), len(set(listed.values()))) == (12, 2)  # a file of the newest for each benchmark
    for name, newest in listed.items():
        assert made[name].keys() == KEYS
        assert made[name]["newest"] == newest
        columns = [value for value in whole(made, name).values() if isinstance(value, list)]
        assert {len(column) for column in columns} == {5}


@pytest.mark.parametrize(("step", "older"), [(64, 0), (2, 4), (5, 5), (1, 5)])
def test_one_more_commit_leaves_the_series_own_files_as_they_are(tree, monkeypatch, step, older):
    monkeypatch.setattr(series_data, "STEP", step)
    monkeypatch.setattr(growth, "ALWAYS_ANEW", 4)  # with it, older adjusted times change
    monkeypatch.setattr(growth, "GROWTH", 2)
    newest = list(tree.results.rglob(f"{tree.commits[4][:8]}-*"))
    assert newest
    after = {made.name: made.inputs for made in series_data.build(read(tree)) if made.inputs}
    for path in newest:
        path.unlink()
    before = {made.name: made.inputs for made in series_data.build(read(tree)) if made.inputs}
    changed = {name.split("-")[0] for name in before if before[name] != after[name]}
    assert changed == ({"newest"} if older < 5 else {"newest", "series"})
    assert len(before) == len(after) == 14


@pytest.mark.usefixtures("step")
def test_a_series_says_what_its_measurements_say(tree):
    found = read(tree)
    key = key_of(found, "native")
    made, columns = whole(files(tree), series_name(key)), found.series(key)
    for entry in range(len(columns)):
        item = columns.measurement(entry, found.line)
        assert made["commit"][entry] == item.commit
        assert made["outcome"][entry] == item.outcome.value
        np.testing.assert_allclose(made["seconds"][entry], item.seconds, rtol=10 ** (1 - series_data.DIGITS))
        np.testing.assert_allclose(made["high"][entry], item.interval.high, rtol=10 ** (1 - series_data.DIGITS))
        assert (made["rounds"][entry], made["method"][entry]) == (item.rounds, item.method)
        assert made["remarks"].get(str(entry), []) == list(item.warnings)


def test_the_files_are_written_beside_the_pages(tree):
    out = tree.repository.parent / "site"
    report.write_site(results=tree.results, repository=tree.repository, out=out)
    for entry in json.loads((out / "data/series-index.json").read_text())["series"]:
        text = (out / f"data/{entry['name']}.json").read_text()
        assert json.loads(text)["case"] == entry["case"]
        assert (out / f"data/{entry['name']}.js").read_text() == f'KV.put("{entry["name"]}",{text});\n'


def test_a_name_is_of_the_whole_key_and_the_same_at_every_run(tree):
    key = read(tree).keys[0]
    assert series_name(key) == "series-1a1cb34dfef53cd9"
    others = {series_name(dataclasses.replace(key, **{field.name: "x"})) for field in dataclasses.fields(key)}
    assert len(others | {series_name(key)}) == 7


def test_hostile_names_are_data(tmp_path):
    tree = synthetic.build(tmp_path, messages=("</script>\u2028\N{ROCKET}",) * 5, machine="<script>")
    made = files(tree)
    assert made["series-index"]["places"][0]["machine"] == "<script>"
    assert made["commits"]["commits"][0]["subject"] == "</script>\u2028\N{ROCKET}"
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for name in made)


@given(arrays.arrays(np.float64, 5, elements=st.floats(min_value=1e-15, max_value=1e6)))
def test_times_have_seven_digits(values):
    rounded = series_data.significant(values)
    np.testing.assert_allclose(rounded, values, rtol=0.5001 * 10 ** (1 - series_data.DIGITS))
    assert rounded.tolist() == [float(f"{value:.6e}") for value in rounded]


def test_what_is_not_a_time_stays_as_it_is():
    values = np.array([np.nan, np.inf, 0.0, -1.0, 1e-300])
    np.testing.assert_array_equal(series_data.significant(values), values)
