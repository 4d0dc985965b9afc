"""What an A/B session keeps and reads again: rounds in pairs, failures of this session, lines cut by a power cut."""

import time
from types import SimpleNamespace

import pytest

from kernel_velocity.ab import rounds as ab_kept
from kernel_velocity.ab import session
from kernel_velocity.ab.rounds import Pair
from kernel_velocity.ab.session import AsvRunner, witnesses
from kernel_velocity.errors import ResultsError
from kernel_velocity.harness import telemetry
from kernel_velocity.harness.spool import append_line, spool_path
from kernel_velocity.results import failures
from kernel_velocity.results.failures import Failure
from kernel_velocity.stats.sequential import Obstacle
from tests.ab.simulated_machine import SERIES, a_round


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


def kept(folder, *, tried=True, **said):
    """Keep what each side says of a series that it has no rounds of: whether it is n/a, else it failed.

    Where the earlier one says nothing, it has a round if it was tried.
    """
    found = ab_kept.KeptRounds(folder=folder, environment="e")
    if "a" not in said and tried:
        append_line(folder / "e" / f"{'a' * 40}.jsonl", telemetry.encode(rounds(4)[0]))
    for commit, skipped in said.items():
        item = Failure(benchmark=SERIES[0], params=SERIES[1], time=5.0, error="no such kernel", skipped=skipped)
        failures.append(found.failures_path(commit * 40), item)
    return found.pairs("a" * 40, "b" * 40, 0.0, 10.0).get(SERIES, Pair())


HOUR = 3600.0


def counted(folder, *hours):
    """Return of how many rounds a side, so many hours before now, a session that begins now makes use."""
    found = ab_kept.KeptRounds(folder=folder, environment="e")
    for commit in ("a" * 40, "b" * 40):
        path = folder / "e" / f"{commit}.jsonl"
        for item in rounds(*(100 * HOUR - HOUR * number for number in hours)):
            append_line(path, telemetry.encode(item))
    return found.pairs("a" * 40, "b" * 40, 100 * HOUR, 100 * HOUR).get(SERIES, Pair()).rounds


def test_rounds_of_another_day_answer_nothing(tmp_path):
    assert counted(tmp_path / "old", 24 * 30, 24, 7) == 0
    assert counted(tmp_path / "interrupted", 24, 5, 1) == 2
    assert counted(tmp_path / "set back", -24, -1, 2) == 1  # the clock was, and they are of no known time


def test_where_only_rounds_of_another_day_are_kept_it_is_measured(tmp_path):
    runner = object.__new__(AsvRunner)
    runner.root, runner._folder, runner._environment = tmp_path, tmp_path / "ab", SimpleNamespace(name="e")
    runner.again, runner._aside, runner.began, runner.device = False, set(), time.time(), "cpu"
    measured = []
    runner._measure = lambda folder, commits, series, rounds, deadline: measured.append(rounds)
    path = runner.folder("a" * 40, "b" * 40) / "e"
    for commit, seconds in (("a" * 40, 1e-3), ("b" * 40, 1.1e-3)):
        for number in range(8):
            item = a_round(SERIES, runner.began - 30 * 24 * HOUR + number, seconds, f"{number}")
            append_line(path / f"{commit}.jsonl", telemetry.encode(item))
    runner.measure_pair("a" * 40, "b" * 40, [SERIES], 8, runner.clock() + HOUR)
    assert measured == [8]


def test_rounds_of_another_driver_or_compiler_are_kept_elsewhere(monkeypatch):
    def at(driver="1", compiler="c++ 12"):
        monkeypatch.setattr(session.fingerprint, "now", lambda environ: {"driver": driver})
        monkeypatch.setattr(session.toolchain, "describe", lambda environ: compiler)
        return session.place("e", {})

    assert at() == at() and at().startswith("e-")
    assert len({at(), at(driver="2"), at(compiler="c++ 13")}) == 3


def test_what_is_not_applicable_at_the_later_commit_alone_is_gone(tmp_path):
    found = kept(tmp_path / "b", b=True)
    assert (found.obstacle, found.reason) == (Obstacle.GONE, "n/a at bbbbbbbb, and not before: no such kernel")
    assert kept(tmp_path / "untried", b=True, tried=False) == Pair()  # the budget ended first: it may be n/a there, too
    assert kept(tmp_path / "a", a=True).obstacle is Obstacle.NOT_APPLICABLE
    both = kept(tmp_path / "both", a=True, b=True)
    assert (both.obstacle, both.reason) == (Obstacle.NOT_APPLICABLE, "n/a at aaaaaaaa: no such kernel")


def test_a_failure_says_more_than_that_the_other_commit_has_no_such_kernel(tmp_path):
    assert kept(tmp_path / "new", a=True, b=False).reason == "failed at bbbbbbbb: no such kernel"
    assert kept(tmp_path / "old", a=False, b=True).reason == "failed at aaaaaaaa: no such kernel"
    assert kept(tmp_path / "both", a=False, b=False).reason == "failed at aaaaaaaa: no such kernel"


def obstacle(folder, *failed, of=("b",), **how):
    """Return what stands in the way where some sides failed, and some have a round."""
    found = ab_kept.KeptRounds(folder=folder, environment="e")
    for side in of:
        append_line(folder / "e" / f"{side * 40}.jsonl", telemetry.encode(rounds(4)[0]))
    for side in failed:
        item = Failure(benchmark=SERIES[0], params=SERIES[1], time=5.0, error="wrong", **how)
        failures.append(found.failures_path(side * 40), item)
    return found.pairs("a" * 40, "b" * 40, 0.0, 10.0)[SERIES].obstacle


def test_what_raised_in_every_round_of_the_earlier_commit_alone_is_mended(tmp_path):
    assert obstacle(tmp_path / "mended", "a") is Obstacle.MENDED
    assert obstacle(tmp_path / "broken", "b", of=("a",)) is Obstacle.FAILED
    assert obstacle(tmp_path / "both", "a", "b") is Obstacle.FAILED
    assert obstacle(tmp_path / "untried", "a", of=()) is Obstacle.FAILED
    assert obstacle(tmp_path / "now and then", "a", of=("a", "b")) is Obstacle.FAILED
    assert obstacle(tmp_path / "died", "a", died=True) is Obstacle.FAILED  # it may be the machine that was too slow


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
    assert spool_path(tmp_path, "e", "c") == tmp_path / ".asv" / "spool" / "e" / "c.jsonl"
    monkeypatch.setenv("KV_SPOOL", ".asv/ab/pair")
    assert spool_path(tmp_path, "e", "c") == tmp_path / ".asv" / "ab" / "pair" / "e" / "c.jsonl"
