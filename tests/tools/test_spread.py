"""The table of sessions: hand-made telemetry in, spreads out."""

import io
import random

import pytest

from benchmarks.harness.telemetry import Round, append
from tools import spread
from tools.__main__ import main
from tools.errors import ResultsError


def planted(sessions=8, *, common=0.03):
    """Return sessions of 8 rounds in which native and two controls share a factor."""
    rng = random.Random(5)
    found = {}
    for session in range(sessions):
        factor = 1 + rng.gauss(0, common)
        found[f"{session:02}"] = [
            Round(
                benchmark="matmul.Cpu.time_hot",
                params=(implementation, "float32-256x256x256"),
                time=float(session * 100 + launch),
                estimate=seconds * factor * (1 + rng.gauss(0, 0.002)),
                n=9,
                batch=1,
                spent=0.1,
                stop="budget",
                method="m",
                launch=f"{session}-{launch}",
            )
            for launch in range(8)
            for implementation, seconds in (("native", 1e-3), ("eager", 5e-4), ("compile", 4e-4))
        ]
    return found


def test_only_our_series_are_rows_and_adjusting_helps():
    (row,) = spread.rows(planted())
    assert row.series == ("matmul.Cpu.time_hot", ("native", "float32-256x256x256"))
    assert row.raw > 0.02
    assert row.adjusted < 0.005
    assert row.beta == pytest.approx(1, abs=0.1)
    assert row.seconds == pytest.approx(1e-3, rel=0.1)
    assert "native float32-256x256x256" in spread.table([row])


def test_two_sessions_are_no_spread():
    with pytest.raises(ResultsError, match="2 sessions: at least 3"):
        spread.rows(planted(2))


def test_a_broken_session_file_is_named(tmp_path):
    path = tmp_path / "01.jsonl"
    append(path, planted()["00"][0])
    with path.open("a") as stream:
        stream.write('{"b":')
    with pytest.raises(ResultsError, match=r"01\.jsonl: not JSON"):
        spread._read(path)


def test_too_few_sessions_is_a_usage_error():
    err = io.StringIO()
    assert main(["spread", "--sessions", "2"], io.StringIO(), err) == 2
    assert err.getvalue() == "error: --sessions 2: at least 3 make a spread\n"
