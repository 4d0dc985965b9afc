"""Change points of series: of adjusted values, a timing method at a time, and stored from report to report."""

import dataclasses
import sqlite3

import numpy as np
import pytest

from kernel_velocity.past.cache import FILE_NAME
from kernel_velocity.results.measurement import Adjusted, Measurement, Outcome, SeriesKey
from kernel_velocity.stats.changepoints import search
from kernel_velocity.verdict import change_points
from tests.past.one_by_one import change_points_of, columns_of, settled_of
from tests.stepped_series import stepped

KEY = SeriesKey(
    machine="m", environment="e", benchmark="k.Cpu.time_hot", implementation="native", case="c", version="1"
)


def series(logs, *, adjusted=None, methods=None, missing=()):
    """Return a series of the times exp(logs). `missing` entries failed."""
    measurements = []
    for index, log in enumerate(logs):
        failed = index in missing
        fair = None if adjusted is None else Adjusted(seconds=float(np.exp(adjusted[index])), interval=None)
        measurements.append(
            Measurement(
                key=KEY,
                commit=str(index),
                outcome=Outcome.FAILED if failed else Outcome.MEASURED,
                seconds=None if failed else float(np.exp(log)),
                adjusted=None if failed else fair,
                method=None if failed else (methods[index] if methods else "m"),
            )
        )
    return columns_of(measurements, {str(index): index for index in range(len(measurements))})


SERIES = {
    name: series(stepped(-7.0, -7.0 + effect, seed=seed))
    for seed, (name, effect) in enumerate({"a": 0.2, "b": -0.1, "c": 0.0, "d": 0.3, "e": 0.15}.items())
}
EXPECTED = {name: settled_of(columns) for name, columns in SERIES.items()}


@pytest.fixture
def searches(monkeypatch):
    """The values of each series that was looked at."""
    looked = []
    original = search.detect_many

    def detect_many(series, before):
        results = original(series, before)
        looked.extend(
            values.tobytes() for values, now, then in zip(series, results, before, strict=True) if now is not then
        )
        return results

    monkeypatch.setattr(search, "detect_many", detect_many)
    return looked


def of_all(names="abcde", folder=None):
    return change_points.of_all(tuple(names), SERIES.__getitem__, folder)


def stored(folder):
    """Return the stored answers by key."""
    with sqlite3.connect(folder / FILE_NAME) as connection:
        return dict(connection.execute("SELECT key, value FROM answer").fetchall())


@pytest.mark.parametrize("block", [2, 512])
def test_many_series_as_one_by_one(monkeypatch, searches, block):
    monkeypatch.setattr(change_points, "SERIES_AT_ONCE", block)
    assert of_all() == EXPECTED
    assert len(searches) == len(set(searches)) == len(SERIES)
    assert len(EXPECTED["d"].points) == 1


def test_stored_answers_are_not_searched_again(tmp_path, searches):
    of_all(folder=tmp_path)
    assert len(stored(tmp_path)) == len(SERIES)
    searches.clear()
    assert of_all(folder=tmp_path) == EXPECTED
    assert not searches


def test_answers_of_removed_series_go_with_the_next_new_one(tmp_path):
    of_all("abcd", tmp_path)
    written = (tmp_path / FILE_NAME).stat().st_mtime_ns
    of_all("ab", tmp_path)
    assert (tmp_path / FILE_NAME).stat().st_mtime_ns == written
    of_all("abe", tmp_path)
    assert len(stored(tmp_path)) == 3


def damage(folder, statement):
    with sqlite3.connect(folder / FILE_NAME) as connection:
        connection.execute(statement)


@pytest.mark.parametrize(
    ("statement", "again"),
    [
        ("UPDATE answer SET value = zeroblob(length(value)) WHERE rowid = 2", 1),
        ("UPDATE answer SET value = x'' WHERE rowid = 2", 1),
        ("UPDATE made SET identity = 'other code'", len(SERIES)),
        ("PRAGMA user_version = 99", len(SERIES)),
        ("DROP TABLE answer", len(SERIES)),
    ],
)
def test_damaged_answers_are_computed_again(tmp_path, searches, statement, again):
    assert of_all(folder=tmp_path) == EXPECTED
    damage(tmp_path, statement)
    searches.clear()
    assert of_all(folder=tmp_path) == EXPECTED and len(searches) == again


def test_answers_without_a_usable_folder(tmp_path):
    (tmp_path / "file").write_text("")
    assert of_all(folder=tmp_path / "file") == EXPECTED
    assert (tmp_path / "file").read_text() == ""


def test_planted_step_is_a_change_point():
    (point,) = change_points_of(series(stepped(-7.0, -6.8)))
    assert point.index == 40
    assert point.ratio > 1.2


def test_change_point_index_counts_entries_without_a_time():
    (point,) = change_points_of(series(stepped(-7.0, -6.8), missing=(3, 17)))
    assert point.index == 40


def test_constant_or_empty_series_has_no_change_point():
    assert change_points_of(series(stepped(-7.0, -7.0))) == ()
    assert change_points_of(series(stepped(-7.0, size=5), missing=range(5))) == ()
    assert change_points_of(series([-7.0])) == ()


def test_adjusted_step_is_no_change_point():
    assert change_points_of(series(stepped(-7.0, -6.8), adjusted=stepped(-7.0, -7.0))) == ()


def test_change_of_method_is_no_change_point():
    methods = ["old"] * 40 + ["new"] * 40
    assert change_points_of(series(stepped(-7.0, -6.8), methods=methods)) == ()
    within = series(stepped(-7.0, -6.8, -6.0), methods=methods + ["new"] * 40)
    assert [point.index for point in change_points_of(within)] == [80]


def test_change_point_of_an_unknown_method():
    columns = series(stepped(-7.0, -6.8))
    unknown = dataclasses.replace(columns, method=np.full_like(columns.method, -1))
    assert [point.index for point in change_points_of(unknown)] == [40]
