"""A comparison in Google Benchmark's form, as our own reader of that form takes it."""

import json

import pytest

from kernel_velocity.compare.result import as_google_benchmark
from kernel_velocity.results import foreign
from tests.compare.live_comparisons import whole


def test_rounds_are_repetitions_and_failures_are_errors(tmp_path):
    path = tmp_path / "gbench.json"
    path.write_text(as_google_benchmark(whole()))
    series = foreign.read("google-benchmark", [path]).series
    rounds = series["add_mul_exp.Cpu.time_hot", "native", "cpu/float32-1M/eager"]
    assert [measured.estimate for measured in rounds] == pytest.approx([712.8e-6, 720e-6, 727.2e-6])
    failed = series["add_mul_exp.Cpu.time_hot", "native", "cpu/float32-50M/mine"]
    assert failed.error == "raised ZeroDivisionError: by zero"
    (entry, *_) = [entry for entry in json.loads(path.read_text())["benchmarks"] if entry["name"].endswith("native")]
    assert entry["bytes_per_second"] * entry["real_time"] == pytest.approx(12e6 * 1e9)
