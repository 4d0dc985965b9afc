"""Errors are tracked once per commit, after its times, which they leave alone."""

import json
import signal

import pytest

from tests.faults.test_faults import lines_with, page
from tests.faults.test_two_runs import begin, end, until

TRACKED = """
    error_params = [params[0], CASES[:2]]

    def track_max_error(self, implementation, case):
        error = 0.25 * (self.call(1) - 2 + ("2k" in case))
        if os.environ.get("TINY_DO") == implementation + case:
            raise AssertionError("scale is off by 1")
        return error


class Cpu(_Suite):
"""


def track_errors(tiny):
    """Have the suite track errors."""
    suite, kernel = tiny.root / "benchmarks" / "__init__.py", tiny.root / "benchmarks" / "scale.py"
    text = suite.read_text().replace("RoundBenchmark", "ErrorBenchmark")
    suite.write_text(suite.read_text() + text)
    before = kernel.read_text()
    kernel.write_text(before.replace("\n\nclass Cpu(_Suite):\n", TRACKED))
    assert kernel.read_text() != before


def rows(tiny, commit):
    """Return asv's stored rows of both benchmarks, by method."""
    data = json.loads((tiny.results / f"{commit[:8]}-{tiny.environment}.json").read_text())
    return {
        name.rpartition(".")[2]: dict(zip(data["result_columns"], row, strict=False))
        for name, row in data["results"].items()
    }


@pytest.mark.slow
def test_errors_join_times_that_are_recorded_already(tiny):
    head = tiny.git("rev-parse", "HEAD")
    assert tiny.track().returncode == 0
    times = rows(tiny, head)["time_hot"]
    track_errors(tiny)
    done = tiny.track(TINY_DO="eagerfloat32-1k")
    assert done.returncode == 20, done.stdout  # what is found wrong then is named, though its time stays
    (line,) = lines_with(done.stdout, "failed:", head[:8], "scale.Cpu.track_max_error eager float32-1k")
    assert line.endswith("AssertionError: scale is off by 1")
    found = rows(tiny, head)
    assert json.dumps(found["time_hot"]) == json.dumps(times)  # NaN, "not asked for", equals nothing
    assert found["track_max_error"]["result"] == [None, 0.25, 0, 0.25, 0, 0.25]
    assert "float32-1k" in page(tiny)
    again = tiny.track()
    assert again.returncode == 20  # and is not tried again by itself
    assert not lines_with(again.stdout, "] round")


@pytest.mark.slow
def test_one_run_times_in_rounds_and_tracks_errors_once(tiny):
    track_errors(tiny)
    head = tiny.git("rev-parse", "HEAD")
    done = tiny.track()
    assert done.returncode == 0, done.stdout
    found = rows(tiny, head)
    assert found["track_max_error"]["result"] == [0, 0.25, 0, 0.25, 0, 0.25]
    assert not any(found["track_max_error"].get("samples") or ())
    assert {len(samples) for samples in found["time_hot"]["samples"] if samples} == {2}
    assert len(lines_with(done.stdout, "] round 1/1")) == 1
    assert len(lines_with(done.stdout, "/2, commit")) == 2
    assert lines_with(tiny.track().stdout, "0 commits measured")


@pytest.mark.slow
def test_an_error_that_the_problem_does_not_give_is_asked_for_once(tiny):
    track_errors(tiny)
    kernel = tiny.root / "benchmarks" / "scale.py"
    kernel.write_text(kernel.read_text().replace("return error", "return None"))
    settings = {"KV_BENCH": "native.*1k", "KV_RANGE": "HEAD", "KV_ROUNDS": "1"}
    first = tiny.track(**settings)
    assert first.returncode == 0, first.stdout
    assert lines_with(first.stdout, "round 1/1")
    assert not lines_with(tiny.track(**settings).stdout, "] round")


@pytest.mark.slow
def test_who_interrupts_the_errors_keeps_what_was_timed(tiny):
    track_errors(tiny)
    kernel = tiny.root / "benchmarks" / "scale.py"
    kernel.write_text(kernel.read_text().replace("return error", "time.sleep(60)"))
    head = tiny.git("rev-parse", "HEAD")
    process = begin(tiny, KV_BENCH="native.*1k", KV_RANGE="HEAD", KV_ROUNDS="2")
    until(process, "round 1/1")  # of the errors; the times had two
    end(process, signal.SIGINT)
    telemetry = tiny.results / "telemetry" / f"{head[:8]}-{tiny.environment}.jsonl"
    assert len(telemetry.read_text().splitlines()) == 2  # rounds
