"""The progress of long commands, and where it shows nothing."""

import io
import os

import pytest

from kernel_velocity import progress
from kernel_velocity.progress import LINES, ProgressBar, counted, line, reported


@pytest.fixture(autouse=True)
def progress_is_told(monkeypatch):
    monkeypatch.setattr(progress, "LINES", LINES)


def passed(err, step, count=4):
    """Return how many items a loop of `count` items was given, each of which takes `step` s."""
    times = iter(range(0, 10_000, step))
    with reported(err, clock=lambda: float(next(times))):
        return len([*counted("reading", range(count))])


def test_long_command_writes_lines_to_a_log():
    err = io.StringIO()
    assert passed(err, int(LINES) // 2, count=6) == 6
    assert err.getvalue() == "reading: 1 of 6, 75 s left\nreading: 3 of 6, 45 s left\nreading: 5 of 6, 15 s left\n"


def test_short_command_writes_nothing():
    err = io.StringIO()
    assert passed(err, 1) == 4 and err.getvalue() == ""
    assert [*counted("reading", "ab")] == ["a", "b"]  # nobody wants to see it


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_terminal_has_a_bar_that_is_erased_at_the_end():
    err = Terminal()
    passed(err, 2)
    assert "[############............] reading: 2 of 4" in err.getvalue()
    assert err.getvalue().endswith("\r\x1b[K") and "\n" not in err.getvalue()


def test_forked_child_shows_nothing():
    err = io.StringIO()
    times = iter(range(0, 10_000, int(LINES)))
    with reported(err, clock=lambda: float(next(times))):
        values = counted("reading", range(3))
        child = os.fork()
        if child == 0:
            count = len([*values])
            os._exit(9 if err.getvalue() else count)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3


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
