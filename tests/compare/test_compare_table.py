"""What a comparison looks like in a terminal: golden files, widths, rounding that cannot lie."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.compare import statistics, table
from kernel_velocity.compare.result import Accuracy, Timed
from kernel_velocity.compare.table import Column
from tests.compare.live_comparisons import case, comparison, right, roofline, timed, whole
from tests.golden import check_golden

GOLDEN = Path(__file__).with_name("golden")


@pytest.mark.parametrize("width", [100, 160])
def test_the_whole_table_is_as_accepted(width, request):
    text = table.table(whole(), width)
    check_golden(GOLDEN / f"compare_{width}.txt", text, accept=request.config.getoption("--accept-golden"))


def test_statistics_are_as_accepted(request):
    text = statistics.table(whole()) + "\n" + statistics.one_lines(whole())
    check_golden(GOLDEN / "compare_stats.txt", text, accept=request.config.getoption("--accept-golden"))


@pytest.mark.parametrize("width", [100, 120, 160])
def test_tables_fit(width):
    tables = [line for line in table.table(whole(), width).splitlines() if not line.startswith(("FAIL", "n/a"))]
    assert max(map(len, tables)) <= width


def test_wide_terminals_show_more():
    texts = (table.table(whole(), width) for width in (100, 160))
    narrow, wide = (next(line for line in text.splitlines() if line.startswith("case ")) for text in texts)
    for head in (" MB ", "elements", "mean ±std", "p50"):
        assert head in wide and head not in narrow
    for head in ("where", "GFLOPS", "GB/s", "eff.", "bound", "cache", "p99", "samples"):
        assert head in wide and head in narrow


def test_only_columns_that_are_shown_are_explained():
    narrow, wide = (table.table(whole(), width) for width in (100, 160))
    assert "MB: of the largest tensor" in wide and "MB: of the largest tensor" not in narrow.split("quantize_int8")[0]


def test_a_wrong_implementation_has_no_time_and_no_speed_up():
    bad = timed(
        "native", 1e-6, failed="out is wrong: 1 element", accuracy=(Accuracy(output="out", right=False, details={}),)
    )
    text = table.table(comparison(case("float32-1M", 10**6, timed("eager", 1e-3), bad)), 160)
    assert "1.00 µs" not in text and "native vs eager" not in text
    assert "FAIL: add_mul_exp float32-1M native: out is wrong: 1 element" in text
    assert "WRONG: add_mul_exp float32-1M native" in text.splitlines()[-1]


def test_the_reference_comes_first_in_every_pair():
    shown = whole()
    text = table.speed_up_table(shown.compared[:1], "native", 160)
    assert "eager vs native" in text and "compile vs native" in text and "native vs" not in text


def test_pairs_that_do_not_fit_side_by_side_go_below():
    many = case("float32-1M", 10**6, *(timed(f"implementation{number}", 1e-3 * number) for number in range(1, 6)))
    text = table.speed_up_table([many], None, 80)
    assert max(map(len, text.splitlines())) <= 80
    assert text.count(" vs ") == 10 + 1  # every pair, and the note


def test_what_raised_without_an_output_is_in_the_closing_line():
    crashed = Timed(implementation="mine", failed="raised ZeroDivisionError: by zero")
    found = comparison(case("float32-1M", 10**6, timed("eager", 1e-3), crashed))
    assert table.accuracy_line(found).endswith("1 implementation FAILED otherwise")


def test_exact_outputs_are_called_exact():
    exact = timed("eager", 1e-3, accuracy=(right(max_error=0.0),))
    assert "all exact" in table.accuracy_line(comparison(case("int8-1M", 10**6, exact)))
    assert table.accuracy_line(comparison()) == "accuracy: nothing was verified"


def row(seconds=1e-3, **given):
    compared = case("float32-1M", 10**6, timed("mine", seconds, **given))
    return table.row(compared, compared.timed[0])


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [(1.0, "1.00"), (1.0001, "1.00+"), (0.9999, "1.00-"), (2.345, "2.35"), (0.05, "0.0500"), (1e-9, "0.00000000100")],
)
def test_a_ratio_is_one_only_when_it_is(ratio, shown):
    assert table.as_ratio(ratio) == shown


@given(st.floats(1e-12, 1e4))
def test_a_ratio_is_never_nothing(ratio):
    assert float(table.as_ratio(ratio).rstrip("+-").replace(",", "")) > 0


@pytest.mark.parametrize(
    ("fraction", "shown"),
    [(0.0, "0%"), (0.004123, "0.41%"), (0.0999, "10%"), (0.12, "12%"), (0.00996, "1.0%"), (1e-9, "<0.0001%")],
)
def test_an_error_in_percent_is_nothing_only_when_it_is(fraction, shown):
    assert table.percent(fraction) == shown


@pytest.mark.parametrize(
    ("samples", "shown"),
    [
        ([61e-6 * 0.59] * 5 + [61e-6 * 1.082] * 25, "61us (RSD 0.186; min -41%; max +8%)"),
        ([1e-3, 1e-3], "1,000us (RSD 0.000; min 0%; max 0%)"),
        ([1e-3, 1.0001e-3], "1,000us (RSD <0.001; min -<0.1%; max +<0.1%)"),
        ([0.5e-6], "0.500us (one sample)"),
    ],
)
def test_one_line(samples, shown):
    assert table.one_line(row(rounds=1) if not samples else _of(samples)) == shown


def _of(samples):
    compared = case("c-1", 1, timed("mine", 1e-3, rounds=1))
    made = Timed(implementation="mine", rounds=(tuple(samples),), estimates=(samples[0],))
    return table.row(compared, made)


def test_one_line_of_what_has_no_time():
    assert table.one_line(row(failed="it is wrong")) == "FAIL: it is wrong"
    assert table.one_line(row(missing="no GPU")) == "n/a: no GPU"


def test_without_three_rounds_there_is_no_interval():
    assert table.time(row(rounds=2)) == "1.00 ms"
    assert table.time(row(rounds=3)).startswith("1.00 ms ±2.5%")


def test_a_timing_beyond_belief_is_marked():
    assert table.efficiency(row(roofline=roofline(efficiency=1.0, impossible=True))) == "100.0%!"


def test_what_to_look_at_is_said_once_for_all_doubts():
    doubts = [timed(str(n), 1e-3, roofline=roofline(warnings=(f"{n} times the peak; is it right?",))) for n in (1, 2)]
    text = table.table(comparison(case("float32-1M", 10**6, *doubts)), 160)
    assert "1 times the peak: 1 float32-1M\n2 times the peak: 2 float32-1M\n  is it right?\n" in text
    assert text.count("93.0%!") == 2


def test_a_function_faster_than_its_kernel_is_noise():
    assert table.overhead(row(function=1.2e-3)) == "200 µs"
    assert table.overhead(row(function=0.9e-3)) == "within noise"
    assert table.overhead(row(function=1e-3)) == table.NONE


def test_equal_samples_have_no_histogram():
    assert table.histogram(_of([1e-3] * 5)) == "all equal"


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=12).filter(any))
def test_a_histogram_shows_what_is_there_and_blanks_what_is_not(counts):
    shown = table.bars(counts)
    assert len(shown) == len(counts) and shown == shown.strip()
    assert [char in " ·" for char in shown] == [count == 0 for count in counts]
    assert shown[counts.index(max(counts))] == "█"


def test_columns_go_in_the_order_of_their_worth():
    found = [Column(head="a" * 5, cells=["x"]), Column(head="b" * 5, cells=["x"], keep=2)]
    found.append(Column(head="c" * 5, cells=["x"], keep=1))
    assert [column.head[0] for column in table.fitting(found, 19)] == ["a", "b", "c"]
    assert [column.head[0] for column in table.fitting(found, 18)] == ["a", "b"]
    assert [column.head[0] for column in table.fitting(found, 3)] == ["a"]


def test_a_column_that_says_nothing_is_left_out():
    found = [Column(head="a", cells=["x", "y"]), Column(head="b", cells=["-", ""], keep=1)]
    assert [column.head for column in table.fitting(found, 100)] == ["a"]
