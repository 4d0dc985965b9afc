"""Tables as text: columns line up, shares do not lie."""

import pytest

from kernel_velocity.tables import Table, aligned, percent


def test_titles_notes_and_columns_line_up():
    table = Table(
        "false alarms", "two sessions", ["test", "called different"], [["asv's own", "0%"], ["ours", "12.5%"]]
    )
    assert aligned(table) == (
        "false alarms: two sessions\n"
        "test       called different\n"
        "asv's own                0%\n"
        "ours                  12.5%"
    )


def test_an_empty_last_cell_leaves_no_blanks():
    assert aligned(Table("t", "n", ["a", "b"], [["x", ""]])).splitlines()[2] == "x"


@pytest.mark.parametrize("row", [["x"], ["x", "y", "z"]])
def test_a_row_that_does_not_fit_its_heads_is_a_bug(row):
    with pytest.raises((ValueError, IndexError)):
        aligned(Table("t", "n", ["a", "b"], [row]))


@pytest.mark.parametrize(
    ("fraction", "shown"),
    [(1.0, "100%"), (0.99999, ">99.9%"), (0.9995, ">99.9%"), (0.9994, "99.9%"), (1e-6, "0.000100%")],
)
def test_only_the_whole_is_printed_as_the_whole_and_only_nothing_as_nothing(fraction, shown):
    assert percent(fraction) == shown
