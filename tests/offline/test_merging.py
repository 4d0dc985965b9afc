"""Merging loses no value and no round, whatever comes in which order."""

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.harness import telemetry
from kernel_velocity.results import failures, merge
from kernel_velocity.results.failures import Failure
from kernel_velocity.results.merge import Cell, Row, Verdict, merge_rows
from tests.results import spooled

NAN = math.nan
AXES = (("'native'", "'eager'"), ("'a'", "'b'", "'c'"))


def cell(value, evidence=0, samples=None):
    return Cell(value=value, stats=None, samples=samples, evidence=evidence)


def row(cells, version="1", started_at=1000, axes=None):
    """Return a row of one implementation whose cases are those of `cells`, or of `axes`."""
    cells = {key if isinstance(key, tuple) else ("'native'", key): item for key, item in cells.items()}
    found = axes or tuple(tuple(dict.fromkeys(params)) for params in zip(*cells, strict=True))
    return Row(version=version, axes=found, cells=cells, started_at=started_at, duration=1.0, profile=None)


def merged(here, there, current="1"):
    """Return the verdict on one cell, and what the cell says then."""
    found = merge_rows(row({"'a'": here}), row({"'a'": there}, started_at=2000), current)
    return found.verdicts["'native'", "'a'"], found.row.cells["'native'", "'a'"]


@pytest.mark.parametrize(
    ("here", "there", "verdict"),
    [
        (cell(None, 9), cell(2.0, 1), Verdict.TAKEN),  # a value beats none
        (cell(NAN), cell(2.0, 1), Verdict.TAKEN),
        (cell(1.0, 3), cell(2.0, 4), Verdict.TAKEN),  # more rounds beat fewer
        (cell(1.0, 4), cell(2.0, 3), Verdict.BETTER),
        (cell(1.0, 4), cell(2.0, 4), Verdict.EQUAL),
        (cell(1.0, 4), cell(1.0, 4), Verdict.SAME),
        (cell(1.0, 4, (1.0,)), cell(1.0, 4, (2.0,)), Verdict.EQUAL),
        (cell(1.0, 4), cell(None, 4), Verdict.FAILED),
        (cell(1.0, 4), cell(NAN, 4), Verdict.SAME),
        (cell(NAN), cell(None), Verdict.TAKEN),  # "not asked for" knows less than "failed"
        (cell(None), cell(NAN, 9), Verdict.SAME),
        (cell(NAN, 0), cell(NAN, 1), Verdict.TAKEN),  # the one that says why
        (cell(NAN, 1), cell(NAN, 0), Verdict.SAME),
        (cell(None, 0), cell(None, 0), Verdict.SAME),
    ],
)
def test_the_better_one_wins(here, there, verdict):
    found, stays = merged(here, there)
    assert found is verdict
    assert stays is (there if verdict is Verdict.TAKEN else here)


def test_a_row_that_is_not_here_is_taken_whole():
    there = row({"'a'": cell(None), "'b'": cell(1.0, 8)})
    found = merge_rows(None, there, None)
    assert found.row is there
    assert set(found.verdicts.values()) == {Verdict.TAKEN} and found.taken == there.cells.keys()


def test_cases_of_both_stand_in_the_merged_row():
    here = row({"'a'": cell(1.0, 8)})
    there = row({("'eager'", "'b'"): cell(2.0, 8)}, started_at=2000)
    found = merge_rows(here, there, "1").row
    assert found.axes == (("'native'", "'eager'"), ("'a'", "'b'"))
    assert found.cells["'native'", "'a'"].value == 1.0 and found.cells["'eager'", "'b'"].value == 2.0
    for params in (("'native'", "'b'"), ("'eager'", "'a'")):
        assert math.isnan(found.cells[params].value)  # not asked for, which is no failure
    assert found.started_at == 2000


def test_a_row_of_which_nothing_is_taken_keeps_its_times():
    here = row({"'a'": cell(1.0, 8)})
    assert merge_rows(here, row({"'a'": cell(2.0, 8)}, started_at=9999), "1").row is here


def test_other_axes_are_another_benchmark():
    here, there = row({"'a'": cell(1.0, 8)}), row({("'a'",): cell(2.0, 9)})
    found = merge_rows(here, there, "1")
    assert found.row is here and set(found.verdicts.values()) == {Verdict.VERSION}


@pytest.mark.parametrize(
    ("here", "there", "current", "taken"),
    [
        ("1", "2", "2", True),
        ("2", "1", "2", False),
        ("1", "2", "3", False),
        ("1", "2", None, False),
        ("1", None, None, False),
        (None, "1", "1", True),
    ],
)
def test_of_two_versions_the_suite_s_wins_as_a_row(here, there, current, taken):
    old = row({"'a'": cell(1.0, 99), "'b'": cell(1.0, 99), "'c'": cell(None)}, here)
    new = row({"'a'": cell(2.0, 1), "'b'": cell(None)}, there)
    found = merge_rows(old, new, current)
    assert found.row is (new if taken else old)
    assert set(found.verdicts.values()) == {Verdict.TAKEN if taken else Verdict.VERSION}
    assert (found.replaced, found.dropped) == ((2, {("'native'", "'c'")}) if taken else (0, frozenset()))


def test_a_new_version_that_has_no_value_takes_none_away():
    new = row({"'a'": cell(None, 3)}, "2")
    old = row({"'a'": cell(1.0, 8)})
    assert merge_rows(old, new, "2").row is old
    assert merge_rows(row({"'a'": cell(None)}), new, "2").row is new


values = st.sampled_from([None, NAN, 1.0, 2.0, 3.0])
keys = list(itertools.product(*AXES))


@st.composite
def rows(draw):
    axes = tuple(tuple(draw(st.lists(st.sampled_from(axis), unique=True, min_size=1))) for axis in AXES)
    cells = {key: cell(draw(values), draw(st.integers(0, 4))) for key in itertools.product(*axes)}
    return row(cells, started_at=draw(st.sampled_from([None, 1, 2])), axes=axes)


def knows(found):
    """Return what a row says, in any order, with NaN equal to itself."""
    said = {key: (repr(item.value), item.evidence) for key, item in found.cells.items()}
    return said, {key for axis in found.axes for key in axis}, found.started_at


@given(rows(), rows())
def test_twice_is_once(here, there):
    once = merge_rows(here, there, "1").row
    again = merge_rows(once, there, "1")
    assert not again.taken and again.row is once


@given(rows(), rows())
def test_nothing_is_worse_than_before_on_either_side(here, there):
    found = merge_rows(here, there, "1")
    for key, item in here.cells.items():
        assert found.row.cells[key].rank >= item.rank
    for key, item in there.cells.items():
        assert found.row.cells[key].rank >= item.rank
    if found.taken:
        assert set(found.row.cells) == set(itertools.product(*found.row.axes))


@given(st.one_of(st.none(), rows()), rows(), rows(), st.sets(st.sampled_from(keys)))
def test_two_tars_of_different_series_may_come_in_any_order(here, one, other, mine):
    """As asv stores it: what a run was not asked for stands there as NaN."""
    asked = Cell(value=NAN, stats=None, samples=None, evidence=0)
    first = row({key: item if key in mine else asked for key, item in one.cells.items()}, axes=one.axes, started_at=1)
    second = row(
        {key: asked if key in mine else item for key, item in other.cells.items()}, axes=other.axes, started_at=1
    )

    def through(*tars):
        found = here
        for tar in tars:
            found = merge_rows(found, tar, "1").row
        return knows(found)

    assert through(first, second) == through(second, first)


def line(time, case, estimate=1e-3):
    return telemetry.encode(spooled.at(time, estimate, ("native", case)))


def series(case):
    return spooled.NAME, ("native", case)


FAILURE = Failure(benchmark=spooled.NAME, params=("native", "a"), time=1.0, error="no")


def test_lines_go_with_the_side_that_won():
    here = f"{line(1.0, 'a')}\n{line(3.0, 'b')}\n"
    there = f"{line(2.0, 'a', 5e-3)}\n{line(4.0, 'b', 5e-3)}\n{line(5.0, 'c')}\n"
    found = merge.merge_lines(here, there, {series("a")}, telemetry.decode)
    assert found == f"{line(2.0, 'a', 5e-3)}\n{line(3.0, 'b')}\n"
    assert merge.merge_lines(here, there, set(), telemetry.decode) == here
    assert merge.merge_lines(here, there, {series("a")}, telemetry.decode, {series("b")}) == found.split("\n")[0] + "\n"
    assert merge.merge_lines(found, there, {series("a")}, telemetry.decode) == found


def test_a_line_that_stands_there_twice_is_one():
    text = f"{line(1.0, 'a')}\n" * 2
    assert merge.merge_lines("", text, {series("a")}, telemetry.decode) == f"{line(1.0, 'a')}\n"
    (item,) = merge.rounds(text + "half a li")[series("a")]
    assert item.estimate == 1e-3
    text = f"{failures.encode(FAILURE)}\n" * 2 + "half a li"
    assert merge.told(text) == {series("a"): 1}


def test_a_line_that_cannot_be_read_is_kept_here_and_not_taken_from_the_tar():
    here, there = f"half a li\n{line(1.0, 'a')}\n", f'{{"b": \n{line(2.0, "b")}\n'
    found = merge.merge_lines(here, there, {series("b")}, telemetry.decode)
    assert found == f"{line(1.0, 'a')}\n{line(2.0, 'b')}\nhalf a li\n"


def entry(version, **more):
    return {"version": version, **more}


@pytest.mark.parametrize(
    ("here", "there", "verdict"),
    [
        ("old", "suite", Verdict.TAKEN),  # a new harness measured again: its rounds need not be more
        ("suite", "old", Verdict.METHOD),
        ("old", "older", Verdict.METHOD),
        ("suite", "suite", Verdict.BETTER),
        (None, "suite", Verdict.BETTER),  # nothing is known of the one here
        ("old", None, Verdict.BETTER),
    ],
)
def test_values_of_two_methods_are_not_compared(here, there, verdict):
    def of(method, count):
        return row({"'a'": replace(cell(1.0 + count, count), method=method)})

    found = merge_rows(of(here, 8), of(there, 7), "1", "suite")
    assert found.verdicts["'native'", "'a'"] is verdict
    assert merge_rows(of("x", 0), of("suite", 7), "1", None).verdicts["'native'", "'a'"] is Verdict.METHOD


def test_rounds_are_in_the_order_of_time():
    """The method of a value is that of its last round."""
    earlier = telemetry.encode(replace(telemetry.decode(line(1.0, "a")), method="older"))
    found = merge.rounds(f"{line(2.0, 'a')}\n{earlier}\n")[series("a")]
    assert [item.method for item in found] == ["older", telemetry.decode(line(2.0, "a")).method]


def test_benchmarks_are_added_and_those_here_kept():
    here = {"a": entry("1", flops=1), "b": entry("1"), "version": 2}
    there = {"a": entry("1", flops=2), "b": entry("2"), "c": entry("1"), "version": 2}
    kept = merge.merge_benchmarks(here, there, tar_is_current=False)
    assert kept == {**here, "c": entry("1")}
    newer = merge.merge_benchmarks(here, there, tar_is_current=True)
    assert newer == there  # a new case does not raise the version, and has its FLOPs in the entry


def test_the_first_file_says_which_version_is_the_suite_s():
    found = merge.versions({"a": entry("2"), "x": 7, "version": 2}, {"a": entry("1"), "b": entry(3)})
    assert found == {"a": "2", "b": "3"}
