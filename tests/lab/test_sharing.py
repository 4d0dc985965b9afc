"""`python -m lab sharing`: the table, and that both kinds of process measure."""

import json
import math

import pytest

from kernel_velocity.runner import asv
from lab import sharing
from lab.sharing import table as table_of


def row(series, number, longer):
    isolated = [1e-3 * (1 + turn / 10) for turn in range(4)]
    seconds = {"isolated": isolated, "shared": [value * math.exp(longer) for value in isolated]}
    return {"number": number, "series": series, "seconds": seconds, "setup": {"isolated": 0.5, "shared": 0.125}}


def test_table_has_the_mean_over_passes_and_its_interval():
    rows = [row("a", number, 0.02 + 0.001 * (number - 1)) for number in range(3)]
    rows += [row("b", number, 0.01 * (number - 1)) for number in range(3)]
    table = table_of(rows)
    assert table.note == "3 passes; of 2 intervals (95%) 1 do not hold 0, where chance makes 5%"
    assert table.rows[0] == ["a", "1.15 ms", "+2.02%", "0.25%", "0.500 s", "0.125 s"]  # t(2) = 4.303, .1% / sqrt 3
    assert table.rows[1][2:4] == ["+0.00%", "2.48%"]
    assert table.rows[2][2:] == ["+1.01%", "1.37%", "0.500 s", "0.125 s"]


def test_both_kinds_of_process_measure_every_turn(tmp_path):
    pytest.importorskip("torch", reason="the series are its")
    path, lines = tmp_path / "sharing.json", []
    options = ["--device=cpu", "--bench=quantize.*eager.*1M"]
    assert asv.run_measuring(sharing.MODULE, [str(path), *options], lines.append) == 0
    (comparison,) = json.loads(path.read_text())["rows"]
    assert lines == [f"pass 1: {comparison['series']}"]
    for kind in sharing.KINDS:
        assert len(comparison["seconds"][kind]) == sharing.TURNS and min(comparison["seconds"][kind]) > 1e-5
        assert 0 < comparison["setup"][kind] < 60
