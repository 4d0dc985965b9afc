"""Errors are tracked once per commit, after its times, and ceilings once per run: both leave the times alone."""

import json
import signal

import pytest

from tests.faults.tiny import FASTER, end, lines_with, page, until

TRACKED = """
    error_params = [params[0], CASES[:2]]

    def track_max_error(self, implementation, case):
        error = 0.25 * (self.call(1) - 2 + ("2k" in case))
        if os.environ.get("TINY_DO") == implementation + case:
            raise AssertionError("scale is off by 1")
        return error


class Cpu(_Suite):
"""
CEILINGS = """
class Cpu:
    version = "1"

    def setup_cache(self):
        return 5.0

    def track_peak_float32(self, found):
        return found

    track_peak_float32.unit = "FLOP/s"

    def track_l1_size(self, found):
        return None
"""
pytestmark = pytest.mark.slow


def track_errors(tiny, returned="error"):
    """Have the suite track errors."""
    suite, kernel = tiny.root / "benchmarks" / "__init__.py", tiny.root / "benchmarks" / "scale.py"
    suite.write_text(suite.read_text() + suite.read_text().replace("RoundBenchmark", "TrackBenchmark"))
    before = kernel.read_text()
    kernel.write_text(before.replace("\n\nclass Cpu(_Suite):\n", TRACKED.replace("return error", f"return {returned}")))
    assert kernel.read_text() != before


def rows(tiny, commit):
    """Return asv's stored rows of all benchmarks, by what follows the name of the kernel or device."""
    data = json.loads((tiny.results / f"{commit[:8]}-{tiny.environment}.json").read_text())
    return {
        name.rpartition(".")[2]: dict(zip(data["result_columns"], row, strict=False))
        for name, row in data["results"].items()
    }


def test_errors_join_times_that_are_recorded_already(tiny):
    head = tiny.git("rev-parse", "HEAD")
    assert tiny.track().returncode == 0
    times = rows(tiny, head)["time_hot"]
    track_errors(tiny)
    done = tiny.track(site=True, TINY_DO="eagerfloat32-1k")
    assert done.returncode == 20, done.stdout  # what is found wrong then is named, though its time stays
    (line,) = lines_with(done.stdout, "failed:", head[:8], "scale.Cpu.track_max_error eager float32-1k")
    assert line.endswith("AssertionError: scale is off by 1")
    result = rows(tiny, head)
    assert json.dumps(result["time_hot"]) == json.dumps(times)  # NaN, "not asked for", equals nothing
    assert result["track_max_error"]["result"] == [None, 0.25, 0, 0.25, 0, 0.25]
    assert "float32-1k" in page(tiny)
    again = tiny.track()
    assert again.returncode == 20 and not lines_with(again.stdout, "errors, counts")  # and is not tried again by itself


def test_run_times_in_rounds_and_tracks_errors_once(tiny):
    """A crash behind the last error costs none: as where a driver's library fails at the end of a process."""
    track_errors(tiny)
    kernel = tiny.root / "benchmarks" / "scale.py"
    crash = "import atexit, sys\nif sys.argv[0].endswith('counting.py'):\n    atexit.register(os._exit, 3)\n"
    kernel.write_text(kernel.read_text() + crash)
    head = tiny.git("rev-parse", "HEAD")
    done = tiny.track(KV_ROUNDS="2")
    assert done.returncode == 0, done.stdout
    result = rows(tiny, head)
    assert result["track_max_error"]["result"] == [0, 0.25, 0, 0.25, 0, 0.25]
    assert not any(result["track_max_error"].get("samples") or ())
    assert {len(samples) for samples in result["time_hot"]["samples"] if samples} == {2}
    assert len(lines_with(done.stdout, "errors, counts and code figures of commit", head[:8])) == 1
    assert len(lines_with(done.stdout, "/2, commit")) == 2
    assert not lines_with(tiny.track(KV_ROUNDS="2").stdout, "errors, counts")


def test_interrupted_errors_leave_what_was_timed(tiny):
    track_errors(tiny, returned="time.sleep(60)")
    head = tiny.git("rev-parse", "HEAD")
    process = tiny.begin("track", KV_BENCH="native.*1k", KV_RANGE="HEAD", KV_ROUNDS="2", KV_MACHINE="box")
    until(process, "errors, counts")
    end(process, signal.SIGTERM)  # ends it as Ctrl-C does
    telemetry = tiny.results / "telemetry" / f"{head[:8]}-{tiny.environment}.jsonl"
    assert len(telemetry.read_text().splitlines()) == 2  # rounds


def test_ceilings_are_of_the_newest_commit(tiny):
    (tiny.root / "benchmarks" / "device.py").write_text(CEILINGS)
    old, new = tiny.git("rev-parse", "HEAD"), tiny.commit("Faster", kernel=FASTER)
    done = tiny.track(KV_BENCH="native.*1k")
    assert done.returncode == 0, done.stdout
    result = rows(tiny, new)
    assert "track_peak_float32" not in rows(tiny, old)
    assert "measuring the ceilings of the machine" in done.stdout
    assert (result["track_peak_float32"]["result"], result["track_l1_size"]["result"]) == ([5.0], None)
    assert "what the machine can do" not in tiny.track(KV_BENCH="native.*1k").stdout  # nothing was measured
