"""The progress bar: its line, and where it writes nothing."""

import io

from kernel_velocity.progress import ProgressBar, line


def test_line_has_label_and_remaining_time():
    assert line("round 1/8", 0.0, 0.0) == "[........................] round 1/8"
    assert line("round 4/8", 0.5, 12.0) == "[############............] round 4/8, 12 s left"
    assert line("round 8/8", 0.75, 3.0) == "[##################......] round 8/8, 1 s left"


def test_bar_is_shown_and_cleared_where_there_is_a_terminal():
    out, nowhere = io.StringIO(), io.StringIO()
    for bar in (ProgressBar(out, shown=True), ProgressBar(nowhere, shown=False)):
        bar.show("second", 0.75)
        bar.clear()
    assert "[##################......] second" in out.getvalue() and out.getvalue().endswith("\r\x1b[K")
    assert nowhere.getvalue() == ""
