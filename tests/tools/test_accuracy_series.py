"""The errors of results over the commits."""

import numpy as np
import pytest

from tools import accuracy_series
from tools.recorded import ResultsFile, TrackedValue

NAME = "matmul.Cpu.track_max_error"


def file(commit, *values, machine="m"):
    return ResultsFile(
        machine=machine, environment="e", commit=commit, rows=(), rounds={}, failures={}, tracked=tuple(values)
    )


def tracked(value, *, benchmark=NAME, implementation="native", version="1"):
    return TrackedValue(
        benchmark=benchmark, version=version, implementation=implementation, case="c", value=value, began=None
    )


def test_errors_stand_in_the_order_of_the_line():
    files = [file("b", tracked(2e-7)), file("a", tracked(0.0)), file("elsewhere", tracked(1.0))]
    (found,) = accuracy_series.build(files, {"a": 0, "b": 5}).values()
    assert found.place.tolist() == [0, 5]
    assert found.error.tolist() == [0.0, 2e-7]
    assert (found.key.benchmark, found.key.implementation, found.key.case) == (NAME, "native", "c")


@pytest.mark.parametrize("value", [None, -1.0])
def test_what_failed_or_is_no_error_has_no_place(value):
    assert accuracy_series.build([file("a", tracked(value))], {"a": 0}) == {}


def test_other_tracked_values_are_no_errors():
    assert accuracy_series.build([file("a", tracked(1e9, benchmark="device.Cpu.track_peak_float32"))], {"a": 0}) == {}


def test_a_series_is_a_machine_an_implementation_and_a_version():
    files = [
        file("a", tracked(1e-7), tracked(2e-7, implementation="eager"), tracked(3e-7, version="2")),
        file("a", tracked(4e-7), machine="n"),
    ]
    found = accuracy_series.build(files, {"a": 0})
    assert sorted(float(item.error[0]) for item in found.values()) == [1e-7, 2e-7, 3e-7, 4e-7]
    assert all(item.place.dtype == np.int32 for item in found.values())


def test_of_a_commit_in_two_files_the_first_counts():
    (found,) = accuracy_series.build([file("a", tracked(1e-7)), file("a", tracked(9e-7))], {"a": 0}).values()
    assert found.error.tolist() == [1e-7]
