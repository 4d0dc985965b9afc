"""What an A/B session keeps and reads again: rounds in pairs, failures of this session, lines cut by a power cut."""

import pytest

from benchmarks.harness import telemetry
from tests.tools.simulated_machine import SERIES, a_round
from tools import ab_kept
from tools.ab_run import witnesses
from tools.errors import ResultsError


def rounds(*times):
    return [a_round(SERIES, time, 1e-3, f"{time}") for time in times]


def times(found):
    return [item.time for item in found.before], [item.time for item in found.after]


def test_rounds_count_where_the_same_run_of_asv_gave_both_sides_one():
    found = ab_kept.paired(rounds(11, 14, 21, 24, 27), rounds(12, 13, 15, 22, 23), [10.0, 20.0])
    assert times(found) == ([11, 14, 21, 24], [12, 13, 22, 23])


def test_rounds_come_in_order_of_time_whatever_the_order_of_the_lines():
    assert times(ab_kept.paired(rounds(13, 11), rounds(14, 12), [10.0])) == ([11, 13], [12, 14])


def test_one_side_alone_is_no_pair():
    assert ab_kept.paired(rounds(11), [], [10.0]).rounds == 0


def test_a_line_that_was_cut_off_is_passed_over_only_at_the_end(tmp_path):
    path = tmp_path / "a.jsonl"
    whole = telemetry.encode(rounds(11)[0])
    path.write_text(f"{whole}\n{whole[:40]}")
    assert ab_kept.lines(path, telemetry.decode) == rounds(11)
    path.write_text(f"{whole[:40]}\n{whole}\n")
    with pytest.raises(ResultsError, match=r"a\.jsonl:1: not JSON.*remove that line, or measure with --again"):
        ab_kept.lines(path, telemetry.decode)


@pytest.mark.parametrize("line", ['{"began": "x"}', "[]", "{}", "{"])
def test_a_block_that_says_no_time_is_refused(tmp_path, line):
    path = tmp_path / "blocks.jsonl"
    path.write_text(f'{line}\n{{"began": 1.5}}\n')
    with pytest.raises(ResultsError, match=r"blocks\.jsonl:1"):
        ab_kept.block_times(path)


def test_a_gpu_is_adjusted_by_pytorch_and_a_cpu_by_its_gauges():
    eager = (SERIES[0], ("eager", SERIES[1][1]))
    assert witnesses([SERIES], "cuda") == (eager,)
    assert witnesses([SERIES, eager], "cuda") == ()
    assert witnesses([SERIES], "cpu") == ()


def test_the_spool_of_a_session_is_not_that_of_the_history(tmp_path, monkeypatch):
    assert telemetry.spool_path(tmp_path, "e", "c") == tmp_path / ".asv" / "spool" / "e" / "c.jsonl"
    monkeypatch.setenv("KV_SPOOL", ".asv/ab/pair")
    assert telemetry.spool_path(tmp_path, "e", "c") == tmp_path / ".asv" / "ab" / "pair" / "e" / "c.jsonl"
