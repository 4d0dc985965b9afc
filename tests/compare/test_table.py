"""What a comparison looks like in a terminal: golden files, widths, rounding."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.compare import table
from kernel_velocity.compare.result import Accuracy, ComparedRow, TimedImplementation
from kernel_velocity.compare.table import Column
from kernel_velocity.stats.speedup import SpeedUp
from tests.compare.live_comparisons import case, comparison, right, roofline, timed, whole
from tests.golden import check_golden

GOLDEN = Path(__file__).with_name("golden")


@pytest.mark.parametrize("width", [100, 160])
def test_table_golden(width, accept):
    shown = table.table(whole(), width)
    check_golden(GOLDEN / f"compare_{width}.txt", shown, accept=accept)
    lines = [line for line in shown.splitlines() if not line.startswith(("FAIL", "n/a", "accuracy:"))]
    assert max(map(len, lines)) <= width


def test_statistics_golden(accept):
    shown = table.all_samples(whole())
    check_golden(GOLDEN / "compare_stats.txt", shown, accept=accept)
    assert table.all_samples(comparison()) == "no samples\n"


def test_speed_ups_wide_tables_continue_below():
    many = case("float32-1M", 10**6, *(timed(f"implementation{number}", 1e-3 * number) for number in range(1, 6)))
    shown = table.speed_ups([many], None, 80)
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.count(" vs ") == 10 + 1  # every pair, and the note


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([timed("a", 1e-3, accuracy=(right(max_error=0.0),))], "1 of 1 output right; all exact; 1 of 1 pass 1e-5"),
        ([], "nothing was verified"),
        (
            [timed("a", 1e-3, accuracy=()), TimedImplementation(implementation="b", failed="x")],
            "nothing was verified; 1 imp.* FAILED",
        ),
        ([timed("a", 1e-3), TimedImplementation(implementation="b", failed="x")], "1 of 1 .* 1 implementation FAILED"),
        ([timed("a", 1, accuracy=(Accuracy(output="o", right=False, details={}),))], "0 of 1 .*WRONG: add_mul_exp c a"),
    ],
)
def test_accuracy_line(rows, line):
    assert re.search(f"accuracy: {line}", table.accuracy_line(comparison(case("c", 1, *rows))))


def row(seconds=1e-3, **fields):
    compared = case("float32-1M", 10**6, timed("mine", seconds, **fields))
    return ComparedRow(compared, compared.timed[0])


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [(1.0, "1.00"), (1.0001, "1.00+"), (0.9999, "1.00-"), (2.345, "2.35"), (0.05, "0.0500"), (1e-9, "0.00000000100")],
)
def test_ratio_is_one_only_when_it_is(ratio, shown):
    assert table.ratio(ratio) == shown


@pytest.mark.parametrize(
    ("fraction", "shown"),
    [(0.0, "0%"), (0.004123, "0.41%"), (0.0999, "10%"), (0.12, "12%"), (0.00996, "1.0%"), (1e-9, "<0.0001%")],
)
def test_percent_is_nothing_only_when_it_is(fraction, shown):
    assert table.percent(fraction) == shown


@pytest.mark.parametrize(
    ("error", "shown"), [(None, "2.00×"), (0.02, "2.00× ±0.02"), (0.0012, "2.00× ±0.00120"), (0.0, "2.00× ±0")]
)
def test_speed_up_shows_every_error(error, shown):
    assert table.speed_up(SpeedUp(faster="a", slower="b", ratio=2.0, error=error)) == shown


def test_time_has_an_interval_from_three_rounds():
    assert table.time(row(rounds=2)) == "1.00 ms"
    assert table.time(row(rounds=3)).startswith("1.00 ms ±2.5%")


def test_doubts_advice_is_given_once():
    doubts = [timed(str(n), 1e-3, roofline=roofline(warnings=(f"{n} times the peak; is it right?",))) for n in (1, 2)]
    shown = table.table(comparison(case("float32-1M", 10**6, *doubts)), 160)
    assert "1 times the peak: 1 float32-1M\n2 times the peak: 2 float32-1M\n  is it right?\n" in shown
    assert shown.count("93.0%!") == 2


def test_overhead_below_zero_is_noise():
    assert table.overhead(row(function=1.2e-3)) == "200 µs"
    assert table.overhead(row(function=0.9e-3)) == "within noise"
    assert table.overhead(row(function=1e-3)) == table.NONE


def test_bound_names_tf32_where_its_peak_binds():
    assert table.bound(row(roofline=roofline(dtype="tf32", bound="compute"))) == "compute in TF32"


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=12).filter(any))
def test_bars_show_what_is_there_and_blank_what_is_not(counts):
    shown = table.bars(counts)
    assert len(shown) == len(counts) and shown == shown.strip()
    assert [char in " ·" for char in shown] == [count == 0 for count in counts]
    assert shown[counts.index(max(counts))] == "█"


def test_fitting_drops_columns_by_worth_and_silent_ones_first():
    fields = [Column("a" * 5, ["x"]), Column("b" * 5, ["x"], 2), Column("c" * 5, ["x"], 1)]
    assert [column.head[0] for column in table.fitting(fields, 19)] == ["a", "b", "c"]
    assert [column.head[0] for column in table.fitting(fields, 18)] == ["a", "b"]
    assert [column.head[0] for column in table.fitting(fields, 3)] == ["a"]
    assert table.fitting([*fields[:1], Column("d", ["-"], 9)], 100) == fields[:1]
