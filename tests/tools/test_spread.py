"""The table of sessions: hand-made telemetry in, spreads out."""

import argparse
import dataclasses
import io
import random
from pathlib import Path

import pytest

from benchmarks.harness.telemetry import Round, append
from tools import spread
from tools.__main__ import main
from tools.errors import NothingMeasured, ResultsError


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


def test_cold_rounds_are_no_controls_of_hot_ones():
    """What empties the caches scatters by itself."""
    rng = random.Random(7)
    found = planted()
    for rounds in found.values():
        rounds += [
            dataclasses.replace(
                item,
                benchmark="matmul.Cpu.time_cold",
                estimate=item.estimate * (1 + rng.gauss(0, 0.3)),
                time=item.time + 0.5,
            )
            for item in list(rounds)
        ]
    (hot,) = (row for row in spread.rows(found) if row.series[0].endswith("time_hot"))
    (alone,) = spread.rows(planted())
    assert hot.adjusted == pytest.approx(alone.adjusted)


def test_without_controls_only_the_raw_spread_is_shown():
    bare = {name: [item for item in rounds if item.params[0] == "native"] for name, rounds in planted().items()}
    (row,) = spread.rows(bare)
    assert row.raw > 0.02 and row.adjusted is None
    assert spread.table([row]).splitlines()[1].split()[-3:] == ["-", "-", "-"]


def test_a_series_that_failed_in_most_sessions_is_left_out():
    found = planted()
    for name in list(found)[2:]:
        found[name] = [item for item in found[name] if item.params[0] != "native"]
    assert spread.rows(found) == []


def test_sessions_of_two_methods_are_refused():
    found = planted(3)
    found["00"] = [dataclasses.replace(item, method="other") for item in found["00"]]
    with pytest.raises(ResultsError, match=r"2 methods \(m, other\)"):
        spread._check_method(found)


def spread_run(monkeypatch, status):
    """Run one session of a fake asv that spools a round and a failure and ends with `status`."""
    monkeypatch.setattr(spread, "environment_of", lambda _: argparse.Namespace(name="env"))
    monkeypatch.setattr(spread, "machine", lambda name: name)
    monkeypatch.setattr(spread.Config, "load", lambda: argparse.Namespace(results_dir="results"))
    spool = spread.telemetry.spool_path(Path.cwd(), "env", "c0ffee")

    def asv(*_, **__):
        append(spool, planted()["00"][0])
        spool.with_suffix(".failures.jsonl").write_text("{}")
        return status

    monkeypatch.setattr(spread, "run_asv", asv)
    try:
        return spread._measure("c0ffee", ["x"], Path("kept", "01.jsonl"))
    finally:
        assert not list(spool.parent.iterdir())  # nothing blocks the next run


def test_a_failed_series_does_not_discard_the_session(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert spread_run(monkeypatch, 2) is True
    assert len(spread._read(Path("kept", "01.jsonl"))) == 1
    with pytest.raises(NothingMeasured, match="status 1"):
        spread_run(monkeypatch, 1)


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
