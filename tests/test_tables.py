"""Tables as text: aligned columns, and percentages that cannot mislead. The progress bar."""

import pytest

from kernel_velocity.tables import Table, aligned, percent


def test_title_note_and_columns():
    table = Table(
        "false alarms", "two sessions", ["test", "called different"], [["asv's own", "0%"], ["ours", "12.5%"]]
    )
    assert aligned(table) == (
        "false alarms: two sessions\n"
        "test       called different\n"
        "asv's own                0%\n"
        "ours                  12.5%"
    )


def test_empty_last_cell_leaves_no_blanks():
    assert aligned(Table("t", "n", ["a", "b"], [["x", ""]])).splitlines()[2] == "x"


@pytest.mark.parametrize("row", [["x"], ["x", "y", "z"]])
def test_row_of_another_length_raises(row):
    with pytest.raises((ValueError, IndexError)):
        aligned(Table("t", "n", ["a", "b"], [row]))


@pytest.mark.parametrize(
    ("fraction", "shown"),
    [(1.0, "100%"), (0.99999, ">99.9%"), (0.9995, ">99.9%"), (0.9994, "99.9%"), (1e-6, "0.000100%")],
)
def test_percent_rounds_neither_to_all_nor_to_nothing(fraction, shown):
    assert percent(fraction) == shown
