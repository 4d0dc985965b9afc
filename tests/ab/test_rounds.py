"""The rounds of an A/B session: pairs, failures, incomplete lines, what counts as this session."""

import dataclasses
import time
from types import SimpleNamespace

import pytest

from kernel_velocity.ab import rounds as ab_rounds
from kernel_velocity.ab import session
from kernel_velocity.ab.rounds import Pair
from kernel_velocity.ab.session import AsvRunner, witnesses
from kernel_velocity.engine import telemetry
from kernel_velocity.engine.spool import append_line, spool_path
from kernel_velocity.errors import ResultsError
from kernel_velocity.results.lines import Failure, add_failure
from kernel_velocity.stats.sequential import Obstacle
from tests.ab.simulated_machine import SERIES, a_round

A, B = "a" * 40, "b" * 40
HOUR = 3600.0


def rounds(*times):
    return [a_round(SERIES, time, 1e-3, f"{time}") for time in times]


@pytest.mark.parametrize(
    ("before", "after", "blocks", "pairs"),
    [
        ((11, 14, 21, 24, 27), (12, 13, 15, 22, 23), [10.0, 20.0], [(11, 14, 21, 24), (12, 13, 22, 23)]),
        ((13, 11), (14, 12), [10.0], [(11, 13), (12, 14)]),
        ((11,), (), [10.0], [(), ()]),
    ],
    ids=["of the same run of asv", "in order of time", "one side alone"],
)
def test_rounds_are_paired(before, after, blocks, pairs):
    pair = ab_rounds.paired(rounds(*before), rounds(*after), blocks)
    assert [tuple(round_.time for round_ in side) for side in (pair.before, pair.after)] == pairs


def test_check_that_null_answers_pass_is_told():
    doubted = [dataclasses.replace(round_, flags=("unproven_zeros",)) for round_ in rounds(*range(8))]
    pair = Pair(before=tuple(rounds(*range(8))), after=tuple(doubted))
    (answer,) = ab_rounds.judge({SERIES: pair}, [SERIES], {}).values()
    assert answer.reason.endswith("; unproven: zeros would pass")


def test_incomplete_line_is_left_out_at_the_end_alone(tmp_path):
    path = tmp_path / "a.jsonl"
    whole = telemetry.encode(rounds(11)[0])
    path.write_text(f"{whole}\n{whole[:40]}")
    assert ab_rounds.lines(path, telemetry.decode) == rounds(11)
    path.write_text(f"{whole[:40]}\n{whole}\n")
    with pytest.raises(ResultsError, match=r"a\.jsonl:1: not JSON.*remove that line, or measure with --again"):
        ab_rounds.lines(path, telemetry.decode)


@pytest.mark.parametrize("line", ['{"began": "x"}', "[]", "{}", "{"])
def test_block_without_a_time_is_refused(tmp_path, line):
    path = tmp_path / "blocks.jsonl"
    path.write_text(f'{line}\n{{"began": 1.5}}\n')
    with pytest.raises(ResultsError, match=r"blocks\.jsonl:1"):
        ab_rounds.block_times(path)


def recorded(folder, measured="", **failed):
    """Return the pair of a series of which some sides have a round, and some a failure: "n/a", "raised" or "died"."""
    for side in measured:
        append_line(folder / f"{side * 40}.jsonl", telemetry.encode(rounds(4)[0]))
    for side, how in failed.items():
        fields = {"skipped": how == "n/a", "died": how == "died"}
        failure = Failure(benchmark=SERIES[0], params=SERIES[1], time=5.0, error="no such kernel", **fields)
        add_failure(ab_rounds.failures_path(folder, side * 40), failure)
    return ab_rounds.read(folder, A, B, 0.0, 10.0).get(SERIES, Pair())


@pytest.mark.parametrize(
    ("measured", "failed", "obstacle", "reason"),
    [
        ("a", {"b": "n/a"}, Obstacle.GONE, "n/a at bbbbbbbb, and not before: no such kernel"),
        ("", {"b": "n/a"}, None, ""),  # the budget ended first: it may be n/a at the earlier one, too
        ("", {"a": "n/a"}, Obstacle.NOT_APPLICABLE, "n/a at aaaaaaaa: no such kernel"),
        ("", {"a": "n/a", "b": "n/a"}, Obstacle.NOT_APPLICABLE, "n/a at aaaaaaaa: no such kernel"),
        ("", {"a": "n/a", "b": "raised"}, Obstacle.FAILED, "failed at bbbbbbbb: no such kernel"),
        ("", {"a": "raised", "b": "n/a"}, Obstacle.FAILED, "failed at aaaaaaaa: no such kernel"),
        ("", {"a": "raised", "b": "raised"}, Obstacle.FAILED, "failed at aaaaaaaa: no such kernel"),
        ("a", {"b": "raised"}, Obstacle.FAILED, "failed at bbbbbbbb: no such kernel"),
        ("b", {"a": "raised"}, Obstacle.MENDED, "failed at aaaaaaaa: no such kernel"),
        ("", {"a": "raised"}, Obstacle.FAILED, "failed at aaaaaaaa: no such kernel"),
        ("ab", {"a": "raised"}, Obstacle.FAILED, "failed at aaaaaaaa: no such kernel"),  # now and then
        ("b", {"a": "died"}, Obstacle.FAILED, "failed at aaaaaaaa: no such kernel"),  # the machine may be too slow
    ],
)
def test_failure_is_the_obstacle_of_its_series(tmp_path, measured, failed, obstacle, reason):
    pair = recorded(tmp_path / "e", measured, **failed)
    assert (pair.obstacle, pair.reason) == (obstacle, reason)


@pytest.mark.parametrize(
    ("hours", "count"), [((24 * 30, 24, 7), 0), ((24, 5, 1), 2), ((-24, -1, 2), 1)], ids=["old", "recent", "set back"]
)
def test_rounds_of_another_day_do_not_count(tmp_path, hours, count):
    for commit in (A, B):
        for round_ in rounds(*(100 * HOUR - HOUR * number for number in hours)):
            append_line(tmp_path / "e" / f"{commit}.jsonl", telemetry.encode(round_))
    assert ab_rounds.read(tmp_path / "e", A, B, 100 * HOUR, 100 * HOUR).get(SERIES, Pair()).rounds == count


def test_runner_measures_where_all_rounds_are_of_another_day(tmp_path):
    runner = object.__new__(AsvRunner)
    runner.root, runner._folder, runner._environment = tmp_path, tmp_path / "ab", SimpleNamespace(name="e")
    runner.again, runner._aside, runner.began, runner.device = False, set(), time.time(), "cpu"
    measured = []
    runner._measure = lambda folder, commits, series, rounds, deadline: measured.append(rounds)
    for commit in (A, B):
        for number in range(8):
            round_ = a_round(SERIES, runner.began - 30 * 24 * HOUR + number, 1e-3, f"{number}")
            append_line(runner.folder(A, B) / "e" / f"{commit}.jsonl", telemetry.encode(round_))
    runner.measure_pair(A, B, [SERIES], 8, runner.clock() + HOUR)
    assert measured == [8]


def test_rounds_of_another_driver_have_another_folder(monkeypatch):
    def at(driver="1", compiler="c++ 12"):
        monkeypatch.setattr(session.fingerprint, "now", lambda environ: {"driver": driver})
        monkeypatch.setattr(session.fingerprint, "toolchain", lambda environ, project: compiler)
        return session.comparable("e", {})

    assert at() == at() and at().startswith("e-")
    assert len({at(), at(driver="2"), at(compiler="c++ 13")}) == 3


def test_witnesses_are_of_a_gpu_alone():
    eager = (SERIES[0], ("eager", SERIES[1][1]))
    assert witnesses([SERIES], "cuda") == (eager,)
    assert witnesses([SERIES, eager], "cuda") == ()
    assert witnesses([SERIES], "cpu") == ()


def test_spool_of_a_session_is_not_that_of_the_history(tmp_path, monkeypatch):
    assert spool_path(tmp_path, "e", "c") == tmp_path / ".asv" / "spool" / "e" / "c.jsonl"
    monkeypatch.setenv("KV_SPOOL", ".asv/ab/pair")
    assert spool_path(tmp_path, "e", "c") == tmp_path / ".asv" / "ab" / "pair" / "e" / "c.jsonl"
