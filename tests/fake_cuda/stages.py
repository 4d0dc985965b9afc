"""Stages of `kv offline run` on the fake device: test_cuda_tests.py has its process run them, too."""

import io
import json

import pytest

from kernel_velocity.harness.ceilings import DTYPES
from kernel_velocity.runner import stages

pytestmark = pytest.mark.cuda


def run(*arguments):
    """Run a stage in this process, which must succeed. Return what it prints."""
    out, err = io.StringIO(), io.StringIO()
    assert stages.main([*map(str, arguments)], out, err) == 0, err.getvalue()
    return out.getvalue()


def test_ceilings(tmp_path):
    run("ceilings", "--device", "cuda", tmp_path / "ceilings.json", "--caches")
    document = json.loads((tmp_path / "ceilings.json").read_text())
    measured = {(ceiling["what"], ceiling.get("dtype")): ceiling["value"] for ceiling in document["ceilings"]}
    assert {("matmul", dtype) for dtype in DTYPES} <= measured.keys()
    assert all(value > 0 for value in measured.values())
    assert measured["read", "float32"] == pytest.approx(3.35e12, rel=0.05)  # the fake's memory


def test_timers(tmp_path):
    """Every method that needs no driver times a call. A graph that outlived its tensors would not."""
    bench = "--bench=quantize_int8_rows.*native.*512x|matmul.Cuda.*eager.*float32-1024"
    run("timers", "--device", "cuda", tmp_path / "timers.json", bench)
    rows = json.loads((tmp_path / "timers.json").read_text())["rows"]
    assert [row["implementation"] for row in rows] == ["eager", "native"]
    for row in rows:
        assert row["others"]["graph"] == pytest.approx(row["harness"], rel=0.05)
        assert row["others"]["do_bench"] >= 0.95 * row["harness"]
        assert "CUPTI is absent" in row["why"]
