"""`kv export`: Parquet, CSV and OpenMetrics files, as their readers take them."""

import csv
import importlib.util
import io

import polars as pl
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import kernel_velocity
from kernel_velocity.__main__ import main
from kernel_velocity.series import frames
from tests import foreign_tree, synthetic


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return foreign_tree.build(tmp_path_factory.mktemp("exported"))


def export(tree, *arguments):
    """Return status, output and errors of the command."""
    out, err = io.StringIO(), io.StringIO()
    folders = [f"--results={tree.results}", f"--repository={tree.repository}"]
    status = main(["export", *map(str, arguments), *folders], out, err)
    return status, out.getvalue(), err.getvalue()


def test_parquet_is_the_table_of_values(tree, tmp_path):
    path = tmp_path / "values.parquet"
    assert export(tree, "--parquet", path) == (0, f"456 values: {path}\n", "")
    assert pl.read_parquet(path).equals(kernel_velocity.read(tree.results, tree.repository).values)


def test_csv_is_the_table_of_values(tree, tmp_path):
    path = tmp_path / "values.csv"
    assert export(tree, "--csv", path) == (0, f"456 values: {path}\n", "")
    rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    assert list(rows[0]) == list(frames.VALUES)
    values = kernel_velocity.read(tree.results, tree.repository).values
    assert [row["value"] for row in rows] == ["" if value is None else str(value) for value in values["value"]]
    assert rows[0]["date"] == "2023-11-14T22:13:20Z"
    assert {row["case"] for row in rows} == set(values["case"])


def test_openmetrics_is_what_prometheus_takes(tree, tmp_path):
    path = tmp_path / "values.prom"
    assert export(tree, "--openmetrics", path) == (0, f"19 values: {path}\n", "")
    families = {family.name: family for family in text_string_to_metric_families(path.read_text(encoding="utf-8"))}
    assert {name: (family.type, family.unit, len(family.samples)) for name, family in families.items()} == {
        "kernel_velocity_time_seconds": ("gauge", "seconds", 14),
        "kernel_velocity_memory_bytes": ("gauge", "bytes", 3),
        "kernel_velocity_value": ("gauge", "", 2),
    }
    (errors,) = [sample for sample in families["kernel_velocity_value"].samples if sample.labels["unit"] == "errors"]
    assert errors.value == 3.0
    assert errors.labels["benchmark"] == "core.track_errors" and errors.labels["machine"] == "box"


def test_openmetrics_labels_of_any_text(tmp_path):
    suite = {'a "quoted"\n\\name': ("any unit", [["'\\n'", "'\"'"]], 2.0)}
    tree = foreign_tree.build(tmp_path, commits=1, suite=suite)
    path = tmp_path / "values.prom"
    assert export(tree, "--openmetrics", path)[0] == 0
    (family,) = text_string_to_metric_families(path.read_text(encoding="utf-8"))
    assert [(sample.labels["benchmark"], sample.labels["case"]) for sample in family.samples] == [
        ('a "quoted"\n\\name', case) for case in ("\n", '"')
    ]


def test_nothing_to_export_leaves_the_file(tmp_path):
    tree = synthetic.build(tmp_path, messages=synthetic.MESSAGES[:1])
    for path in tree.results.glob("*/*-*.json"):
        path.unlink()
    path = tmp_path / "values.csv"
    path.write_text("old")
    status, out, err = export(tree, "--csv", path)
    assert (status, out) == (2, "")
    assert err == f"error: {tree.results}: it has no value to export: name asv's results directory with --results\n"
    assert path.read_text() == "old"


def test_one_file_is_wanted(tree):
    status, _, err = export(tree)
    assert status == 2 and "one of the arguments --parquet --csv --openmetrics is required" in err
    assert export(tree, "--csv", "a", "--parquet", "b")[0] == 2


@pytest.mark.parametrize(
    ("installed", "complaint"),
    [
        ((), "a data frame needs polars or pandas, of which neither is installed: pip install polars"),
        (("pandas",), "a Parquet file needs polars, or pyarrow beside pandas: pip install polars"),
    ],
)
def test_parquet_without_what_writes_it(tree, tmp_path, monkeypatch, installed, complaint):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: True if name in installed else None)
    assert export(tree, "--parquet", tmp_path / "x.parquet") == (2, "", f"error: {complaint}\n")
    assert not list(tmp_path.iterdir())
