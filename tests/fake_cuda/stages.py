"""Ceilings on the fake device: test_cuda_tests.py has its process run them, too."""

import io
import json

import pytest

from kernel_velocity.machine.ceilings import DTYPES
from kernel_velocity.runner import peaks

pytestmark = pytest.mark.cuda


def test_ceilings(tmp_path):
    err = io.StringIO()
    assert peaks.main([str(tmp_path / "ceilings.json"), "--device=cuda"], err) == 0, err.getvalue()
    document = json.loads((tmp_path / "ceilings.json").read_text())
    measured = {(ceiling["what"], ceiling.get("dtype")): ceiling["value"] for ceiling in document["ceilings"]}
    assert {("matmul", dtype) for dtype in DTYPES} <= measured.keys()
    assert all(value > 0 for value in measured.values())
    assert measured["read", "float32"] == pytest.approx(3.35e12, rel=0.05)  # the fake's memory
