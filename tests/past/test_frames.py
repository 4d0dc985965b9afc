"""What is recorded as data frames (`kernel_velocity.read`), and as files of `kv export`, as their readers take them."""

import csv
import dataclasses
import importlib.util
import io
import math
import re
from pathlib import Path

import pandas as pd
import polars as pl
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import kernel_velocity
from kernel_velocity.__main__ import main
from kernel_velocity.errors import UsageError
from kernel_velocity.past import frames, past
from kernel_velocity.results.measurement import Outcome, SeriesKey
from tests import foreign_tree, synthetic

READING = Path(__file__).parents[2] / "docs" / "how-to" / "notebook.md"


def read(tree, **options):
    return kernel_velocity.read(tree.results, tree.repository, **options)


def test_values_are_those_of_the_past(copied):
    values = read(copied).values
    opened = past.open(copied.results, copied.repository)
    wanted = {
        (measurement.commit, measurement.key): measurement.seconds
        if measurement.outcome is Outcome.MEASURED
        else measurement.outcome.value
        for sha in copied.commits
        for measurement in opened.at(sha)
    }
    assert len(values) == len(wanted)
    for row in values.iter_rows(named=True):
        key = SeriesKey(**{field.name: row[field.name] for field in dataclasses.fields(SeriesKey)})
        shown = row["value"] if row["outcome"] == "measured" else row["outcome"]
        assert shown == wanted[row["commit"], key]
        assert copied.commits[int(row["place"])] == row["commit"]
    assert set(values["unit"]) == {"seconds"}
    assert values["date"].dtype == pl.Datetime("us", "UTC")


def test_rounds_are_those_that_values_rest_on(copied):
    values, rounds, _ = read(copied)
    series = ["commit", "benchmark", "implementation", "case"]
    counts = rounds.group_by(series).agg(pl.col("estimate").median(), pl.len().alias("n"))
    joined = values.filter(pl.col("outcome") == "measured").join(counts, on=series)
    assert len(joined) == len(values.filter(pl.col("outcome") == "measured"))
    assert (joined["rounds"] == joined["n"]).all()
    assert (joined["estimate"] - joined["value"]).abs().max() < 1e-15
    assert sorted(set(rounds["round"])) == [*range(8)]
    assert {name: len(set(rounds["launch"])) for name in ("launch",)} == {"launch": 8}


def test_facts_of_machines(whole_tree):
    machines = read(whole_tree).machines
    stored = machines.filter(pl.col("commit").is_null())
    assert ("bench-1", "cpu", "Imaginary 9000") in set(stored.select("machine", "fact", "text").iter_rows())
    of_sessions = machines.filter(pl.col("commit").is_not_null())
    assert len(of_sessions) and of_sessions["measured"].null_count() == 0


def test_errors_and_ceilings_are_values_too(whole_tree):
    values = read(whole_tree).values
    errors = values.filter(pl.col("benchmark").str.ends_with("track_max_error"))
    assert len(errors) and errors["low"].null_count() == len(errors)


@pytest.mark.parametrize("backend", ["polars", "pandas"])
def test_frames_of_another_suite(tmp_path, backend):
    tree = foreign_tree.build(tmp_path)
    values, rounds, machines = read(tree, backend=backend)
    kind = {"polars": pl.DataFrame, "pandas": pd.DataFrame}[backend]
    assert all(isinstance(frame, kind) for frame in (values, rounds, machines))
    assert (len(values), len(rounds)) == (19 * 24, 0)
    assert list(values.columns) == list(frames.VALUES)
    assert set(values["unit"]) == {"seconds", "bytes", "errors", ""}
    assert set(values["implementation"]) == {""}
    missing = values["value"].is_null() if backend == "polars" else values["value"].isna()
    assert list(zip(values["outcome"], missing, strict=True)).count(("failed", True)) == 1
    assert math.isclose(values["value"].min(), -2.5)


def test_empty_results_are_empty_frames(tmp_path):
    tree = synthetic.build(tmp_path, messages=synthetic.MESSAGES[:1])
    for path in tree.results.glob("*/*-*.json"):
        path.unlink()
    values, rounds, _ = read(tree)
    assert (values.shape, rounds.shape) == ((0, len(frames.VALUES)), (0, len(frames.ROUND_COLUMNS)))


def test_no_data_frames(copied, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError) as error:
        read(copied)
    assert str(error.value) == "a data frame needs polars or pandas, of which neither is installed: pip install polars"
    with pytest.raises(UsageError, match="a data frame needs pandas: pip install pandas"):
        read(copied, backend="pandas")
    with pytest.raises(UsageError, match="backend: one of polars, pandas is wanted, got 'dask'"):
        read(copied, backend="dask")


def test_unknown_name_of_the_package():
    with pytest.raises(AttributeError, match="'kernel_velocity' has no attribute 'raed'"):
        _ = kernel_velocity.raed


def test_examples_of_the_documentation(copied, monkeypatch):
    """`results` of the page lies in a repository."""
    text = READING.read_text(encoding="utf-8")
    (copied.results.parent / ".git").write_text(f"gitdir: {copied.repository / '.git'}")
    monkeypatch.chdir(copied.results.parent)
    names = {}
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(code, names)
    assert set(names["newest"]["commit"]) == {copied.commits[-1]}
    assert names["trend"].columns == ["place", "commit", "eager", "native", "triton"]
    assert names["trend"]["native"][-1] > 2 * names["trend"]["native"][0]
    assert names["scatter"]["relative"].max() < 0.02
    assert names["processors"].rows() == [("bench-1", "Imaginary 9000")]


def test_documentation_names_every_column():
    listed = re.findall(r"^\| ([a-z_, ]+) \|", READING.read_text(encoding="utf-8"), re.MULTILINE)
    columns = {name for names in listed for name in names.split(", ")} - {"column"}
    assert columns == frames.VALUES.keys() | frames.ROUND_COLUMNS.keys()


@pytest.fixture(scope="module")
def exported_tree(tmp_path_factory):
    return foreign_tree.build(tmp_path_factory.mktemp("exported"))


def export(tree, *arguments):
    """Return status, output and errors of the command."""
    out, err = io.StringIO(), io.StringIO()
    folders = [f"--results={tree.results}", f"--repository={tree.repository}"]
    status = main(["export", *map(str, arguments), *folders], out, err)
    return status, out.getvalue(), err.getvalue()


def test_parquet_is_the_table_of_values(exported_tree, tmp_path):
    path = tmp_path / "values.parquet"
    assert export(exported_tree, "--parquet", path) == (0, f"456 values: {path}\n", "")
    assert pl.read_parquet(path).equals(kernel_velocity.read(exported_tree.results, exported_tree.repository).values)


def test_csv_is_the_table_of_values(exported_tree, tmp_path):
    path = tmp_path / "values.csv"
    assert export(exported_tree, "--csv", path) == (0, f"456 values: {path}\n", "")
    rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    assert list(rows[0]) == list(frames.VALUES)
    values = kernel_velocity.read(exported_tree.results, exported_tree.repository).values
    assert [row["value"] for row in rows] == ["" if value is None else str(value) for value in values["value"]]
    assert rows[0]["date"] == "2023-11-14T22:13:20Z"
    assert {row["case"] for row in rows} == set(values["case"])


def test_openmetrics_is_what_prometheus_takes(exported_tree, tmp_path):
    path = tmp_path / "values.prom"
    assert export(exported_tree, "--openmetrics", path) == (0, f"19 values: {path}\n", "")
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


def test_one_file_is_wanted(exported_tree):
    status, _, err = export(exported_tree)
    assert status == 2 and "one of the arguments --parquet --csv --openmetrics is required" in err
    assert export(exported_tree, "--csv", "a", "--parquet", "b")[0] == 2


def test_parquet_without_what_writes_it(exported_tree, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "pandas" or None)
    complaint = "error: a Parquet file needs polars, or pyarrow beside pandas: pip install polars\n"
    assert export(exported_tree, "--parquet", tmp_path / "x.parquet") == (2, "", complaint)
    assert not list(tmp_path.iterdir())
