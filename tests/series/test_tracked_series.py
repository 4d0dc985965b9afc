"""Errors of results, and figures of the code, over the commits."""

import numpy as np
import pytest

from kernel_velocity.results.records import ResultsFile, TrackedValue
from kernel_velocity.series import tracked as tracked_series

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
    (found,) = tracked_series.build(files, {"a": 0, "b": 5}).values()
    assert found.place.tolist() == [0, 5]
    assert found.value.tolist() == [0.0, 2e-7]
    assert (found.key.benchmark, found.key.implementation, found.key.case) == (NAME, "native", "c")


@pytest.mark.parametrize("value", [None, -1.0])
def test_what_failed_or_is_no_error_has_no_place(value):
    assert tracked_series.build([file("a", tracked(value))], {"a": 0}) == {}


def test_figures_of_the_code_are_tracked_of_every_target():
    names = {"registers": 168, "spill_bytes": 0}
    figures = [tracked(value, benchmark=f"matmul.Cuda.track_{name}") for name, value in names.items()]
    found = tracked_series.build([file("a", *figures)], {"a": 3})
    assert {key.benchmark.rpartition("_")[2]: item.value.tolist() for key, item in found.items()} == {
        "registers": [168.0],
        "bytes": [0.0],
    }


def test_ceilings_are_of_no_kernel():
    assert tracked_series.build([file("a", tracked(1e9, benchmark="device.Cpu.track_peak_float32"))], {"a": 0}) == {}


def test_a_series_is_a_machine_an_implementation_and_a_version():
    files = [
        file("a", tracked(1e-7), tracked(2e-7, implementation="eager"), tracked(3e-7, version="2")),
        file("a", tracked(4e-7), machine="n"),
    ]
    found = tracked_series.build(files, {"a": 0})
    assert sorted(float(item.value[0]) for item in found.values()) == [1e-7, 2e-7, 3e-7, 4e-7]
    assert all(item.place.dtype == np.int32 for item in found.values())


def test_of_a_commit_in_two_files_the_first_counts():
    (found,) = tracked_series.build([file("a", tracked(1e-7)), file("a", tracked(9e-7))], {"a": 0}).values()
    assert found.value.tolist() == [1e-7]
