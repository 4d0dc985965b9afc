"""The progress bar: its line, its parts, and where it writes nothing."""

import io

from kernel_velocity.progress import ProgressBar, line


def test_line_has_label_and_remaining_time():
    assert line("round 1/8", 0.0, 0.0) == "[........................] round 1/8"
    assert line("round 4/8", 0.5, 12.0) == "[############............] round 4/8, 12 s left"
    assert line("round 8/8", 0.75, 3.0) == "[##################......] round 8/8, 1 s left"


def test_parts_continue_each_other():
    out = io.StringIO()
    bar = ProgressBar(out, shown=True)
    bar.part(1, 2)("second", 0.5)
    assert "[##################......] second" in out.getvalue()
    bar.clear()
    assert out.getvalue().endswith("\r\x1b[K")


def test_hidden_bar_writes_nothing():
    out = io.StringIO()
    bar = ProgressBar(out, shown=False)
    bar.part(0, 1)("what", 0.5)
    bar.clear()
    assert out.getvalue() == ""
