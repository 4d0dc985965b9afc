"""Change points of a series' columns: of adjusted values, a timing method at a time."""

import dataclasses

import numpy as np

from kernel_velocity.results.measurement import Adjusted, Measurement, Outcome, SeriesKey
from kernel_velocity.series import change_points
from tests.series.one_by_one import columns_of
from tests.stepped_series import stepped

KEY = SeriesKey(
    machine="m", environment="e", benchmark="k.Cpu.time_hot", implementation="native", case="c", version="1"
)


def series(logs, *, adjusted=None, methods=None, missing=()):
    """Return a series of the times exp(logs); `missing` entries failed."""
    items = []
    for index, log in enumerate(logs):
        failed = index in missing
        fair = None if adjusted is None else Adjusted(seconds=float(np.exp(adjusted[index])), interval=None)
        items.append(
            Measurement(
                key=KEY,
                commit=str(index),
                outcome=Outcome.FAILED if failed else Outcome.MEASURED,
                seconds=None if failed else float(np.exp(log)),
                adjusted=None if failed else fair,
                method=None if failed else (methods[index] if methods else "m"),
            )
        )
    return columns_of(items, {str(index): index for index in range(len(items))})


def test_a_planted_step_is_found_at_its_entry():
    (point,) = change_points.of(series(stepped(-7.0, -6.8)))
    assert point.index == 40
    assert point.ratio > 1.2


def test_indices_count_the_entries_without_a_time():
    (point,) = change_points.of(series(stepped(-7.0, -6.8), missing=(3, 17)))
    assert point.index == 40


def test_nothing_is_found_where_nothing_moved_or_nothing_was_measured():
    assert change_points.of(series(stepped(-7.0, -7.0))) == ()
    assert change_points.of(series(stepped(-7.0, size=5), missing=range(5))) == ()
    assert change_points.of(series([-7.0])) == ()


def test_what_the_machine_did_in_the_same_rounds_is_no_change():
    assert change_points.of(series(stepped(-7.0, -6.8), adjusted=stepped(-7.0, -7.0))) == ()


def test_another_timing_method_is_another_series():
    methods = ["old"] * 40 + ["new"] * 40
    assert change_points.of(series(stepped(-7.0, -6.8), methods=methods)) == ()
    within = series(stepped(-7.0, -6.8, -6.0), methods=methods + ["new"] * 40)
    assert [point.index for point in change_points.of(within)] == [80]


def test_a_value_of_an_unknown_method_is_no_obstacle():
    found = series(stepped(-7.0, -6.8))
    unknown = dataclasses.replace(found, method=np.full_like(found.method, -1))
    assert [point.index for point in change_points.of(unknown)] == [40]
