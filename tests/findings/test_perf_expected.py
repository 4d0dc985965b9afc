"""`Perf-Expected:` lines: what they mean, and what a hostile one cannot do."""

import dataclasses
from datetime import UTC, datetime

import pytest

from kernel_velocity.findings import decisions
from kernel_velocity.findings.finding import Affected
from kernel_velocity.results.records import Commit
from kernel_velocity.stats.sequential import Answer, Comparison
from tests.findings.nights import identity

SHA = "a" * 40
WHEN = datetime(2026, 3, 1, tzinfo=UTC)


def read(*lines):
    message = "\n".join(("Add a bias to the product", "", *lines))
    commit = Commit(sha=SHA, parents=(), author="Ada", date=WHEN, committed=WHEN, message=message)
    return decisions.expectations([commit])


def covers(line, ratio=1.02, **parts):
    (found,), notes = read(line)
    assert notes == ()
    return found.covers(Affected(identity=identity(**parts), ratio=ratio))


def test_a_line_says_which_series_how_far_and_why():
    (found,), notes = read("Perf-Expected: matmul +3% because the bias is added in the epilogue")
    assert notes == ()
    assert (found.id, found.commits, found.most, found.who) == ("aaaaaaaa-1", (SHA,), 1.03, "Ada")
    assert found.reason == "Perf-Expected in aaaaaaaa: the bias is added in the epilogue"


@pytest.mark.parametrize(
    ("pattern", "covered"),
    [
        ("matmul", True),
        ("matmul.Cpu", True),
        ("matmul.*.time_hot", True),
        ("*", True),
        ("*.*.*_hot", True),
        ("*l*u*", True),
        ("*x*", False),  # the case is no part of the name
        ("mat*", True),
        ("mat", False),
        ("matmul.Cuda", False),
        ("quantize_int8", False),
        ("m.tmul", False),  # a point is a point
    ],
)
def test_a_pattern_names_a_kernel_or_the_beginning_of_a_series(pattern, covered):
    assert covers(f"Perf-Expected: {pattern} any") is covered


@pytest.mark.parametrize(
    ("much", "ratio", "covered"),
    [
        ("+3%", 1.02, True),
        ("+3%", 1.04, False),
        ("+3%", 0.98, False),
        ("-20%", 0.85, True),
        ("-20%", 0.75, False),
        ("-20%", 1.02, False),
        ("any", 7.0, True),
        ("+0.5%", 1.004, True),
        ("+150%", 2.4, True),
    ],
)
def test_how_far_a_value_may_move(much, ratio, covered):
    assert covers(f"Perf-Expected: matmul {much} because", ratio) is covered


def test_several_lines_in_any_case_and_none():
    found, _ = read("perf-expected: matmul +3%", "PERF-EXPECTED:   * any : flags")
    assert [item.id for item in found] == ["aaaaaaaa-1", "aaaaaaaa-2"]
    assert found[1].reason.endswith(": flags")
    assert read("We expected Perf-Expected: nothing") == ((), ())


@pytest.mark.parametrize("line", ["matmul", "matmul 3%", "+3%", "matmul +3 %", "(a+)+$ any", "", "matmul +99999%"])
def test_a_line_that_cannot_be_read_is_a_note_and_expects_nothing(line):
    found, notes = read(f"Perf-Expected: {line}")
    assert found == ()
    (note,) = notes
    assert note.startswith("aaaaaaaa: Perf-Expected: `Perf-Expected: SERIES +3%|-3%|any [because REASON]` is wanted")


def test_a_note_has_nothing_that_a_terminal_would_obey():
    (note,) = read("Perf-Expected: \x1b[31m" + "x" * 200)[1]
    assert note.isprintable() and len(note) < 200


def test_a_pattern_of_many_stars_takes_no_time():
    (found,), _ = read("Perf-Expected: " + "*a" * 40 + " any")
    long = dataclasses.replace(identity(), benchmark="a" * 200 + ".Cpu.time_hot")
    assert found.covers(Affected(identity=long, ratio=1.1)) is True
    assert found.covers(Affected(identity=dataclasses.replace(long, benchmark="b" * 200), ratio=1.1)) is False


def test_what_a_branch_expects_counts_for_its_merge():
    side = Commit(
        sha="b" * 40, parents=(), author="Ben", date=WHEN, committed=WHEN, message="Perf-Expected: matmul +3%"
    )
    found, notes = decisions.expectations([side], {SHA: [side]})
    assert [(item.commits, item.id, item.who) for item in found] == [
        ((side.sha,), "bbbbbbbb-1", "Ben"),
        ((SHA,), "bbbbbbbb-1", "Ben"),
    ]
    assert notes == ()
    wrong = dataclasses.replace(side, message="Perf-Expected: matmul 3")
    assert len(decisions.expectations([wrong], {SHA: [wrong]})[1]) == 1


def test_series_that_are_slower_as_expected():
    both, _ = read("Perf-Expected: matmul.*.time_hot +3% for the bias")
    slower = Comparison(answer=Answer.DIFFERENT, reason="measured", ratio=1.05, low=1.02, high=1.08, p=1e-4)
    same = dataclasses.replace(slower, answer=Answer.SAME, ratio=1.001, low=1.0, high=1.002)
    found = {
        ("matmul.Cpu.time_hot", ("native", "a")): slower,
        ("matmul.Cpu.time_cold", ("native", "a")): slower,
        ("matmul.Cpu.time_hot", ("native", "b")): dataclasses.replace(slower, low=1.04),
        ("matmul.Cpu.time_hot", ("native", "c")): dataclasses.replace(slower, answer=Answer.UNKNOWN),
        ("matmul.Cpu.time_hot", ("native", "d")): Comparison(answer=Answer.UNKNOWN, reason="no look"),
        ("matmul.Cpu.time_hot", ("native", "e")): same,
    }
    reason = "Perf-Expected in aaaaaaaa: for the bias"
    assert decisions.slower_as_expected(found, both) == {
        ("matmul.Cpu.time_hot", ("native", "a")): reason,
        ("matmul.Cpu.time_hot", ("native", "c")): reason,
    }
