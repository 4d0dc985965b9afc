"""What is recorded as data frames: `kernel_velocity.read`."""

import dataclasses
import importlib.util
import math
import re
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

import kernel_velocity
from kernel_velocity.errors import UsageError
from kernel_velocity.results.measurement import Outcome, SeriesKey
from kernel_velocity.series import frames, past
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
    assert (values.shape, rounds.shape) == ((0, len(frames.VALUES)), (0, len(frames.ROUNDS)))


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
    assert columns == frames.VALUES.keys() | frames.ROUNDS.keys()
