"""Combining asv's values with telemetry: which of them is shown, and when neither is."""

import json

import pytest

from kernel_velocity.results.combine import OTHER_TELEMETRY
from kernel_velocity.results.measurement import Outcome
from tests.results.test_reader import edit, file_of, read
from tests.series import one_by_one


def of_native(tree):
    """Return what the newest commit measured of native matmul's first case."""
    measurements, _ = one_by_one.measurements(read(tree))
    (measurement,) = [
        measurement
        for measurement in measurements
        if (measurement.commit, measurement.key.benchmark) == (tree.commits[-1], "matmul.Cpu.time_hot")
        and (measurement.key.implementation, measurement.key.case) == ("native", "float32-256x256x256")
    ]
    return measurement


def write_failures(tree, *lines):
    path = file_of(tree).parent / "telemetry" / f"{file_of(tree).stem}.failures.jsonl"
    series = {"b": "matmul.Cpu.time_hot", "p": ["native", "float32-256x256x256"]}
    path.write_text("".join(json.dumps(series | line) + "\n" for line in lines))


FIRST_ROUND = 1767225600.0 + 4000  # of the newest commit


def test_round_that_raised_removes_the_time(tree):
    failures = [{"t": FIRST_ROUND + 3.5, "error": "wrong by 3"}, {"t": FIRST_ROUND + 9, "error": "crash", "died": True}]
    write_failures(tree, *failures)
    measurement = of_native(tree)
    assert (measurement.outcome, measurement.seconds, measurement.interval) == (Outcome.FAILED, None, None)
    assert measurement.reason == "wrong by 3"
    assert measurement.warnings == ("8 rounds timed before it failed",)
    write_failures(tree, {"t": FIRST_ROUND - 60, "error": "wrong by 3"})  # of an earlier measurement
    assert of_native(tree).outcome is Outcome.MEASURED


def test_crashed_rounds_are_counted_in_a_footnote(tree):
    times = (FIRST_ROUND + 2.5, FIRST_ROUND + 5.5)
    write_failures(tree, *({"t": time, "error": f"crash at {time:.1f}", "died": True} for time in times))
    measurement = of_native(tree)
    assert measurement.outcome is Outcome.MEASURED
    assert measurement.warnings == (
        f"2 further rounds lost to a crash or a timeout, the last with: crash at {times[1]:.1f}",
    )


@pytest.mark.parametrize(("factor", "stale"), [(1 + 1e-7, False), (1.01, True)])
def test_telemetry_of_another_run_is_ignored(tree, factor, stale):
    def measured_again(data):
        row = data["results"]["matmul.Cpu.time_hot"]
        for column in (0, 5, 6):
            row[column] = [value if value is None else value * factor for value in row[column]]

    before = of_native(tree).seconds
    edit(file_of(tree), measured_again)
    measurement = of_native(tree)
    assert measurement.seconds == pytest.approx(before * factor if stale else before, rel=1e-9)
    assert (measurement.warnings == (OTHER_TELEMETRY,)) == stale
    assert (measurement.method is None) == stale
