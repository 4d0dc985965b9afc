"""The command line: help, usage errors, exit codes."""

import errno
import io
import signal
import sys
import time
import types

import pytest

from tools import errors
from tools.__main__ import COMMANDS, main, script


def run(*argv):
    out, err = io.StringIO(), io.StringIO()
    status = main(argv, out, err)
    return status, out.getvalue(), err.getvalue()


@pytest.fixture
def command(monkeypatch):
    """Put a command into place whose run does what the test says."""

    def install(action):
        module = types.ModuleType("tools.planted")
        module.add_arguments = lambda parser: None
        module.run = lambda args, out, err: action()
        monkeypatch.setitem(sys.modules, "tools.planted", module)
        monkeypatch.setitem(COMMANDS, "planted", "do what the test says")

    return install


def raising(error):
    def action():
        raise error

    return action


def test_help_names_every_command():
    status, out, err = run("--help")
    assert (status, err) == (0, "")
    assert all(name in out for name in COMMANDS)


def test_a_command_may_have_two_words():
    status, out, err = run("false-alarms", "--help")
    assert (status, err) == (0, "")
    assert "python -m tools false-alarms" in out and "--read FOLDER" in out


@pytest.mark.parametrize("argv", [(), ("dance",), ("--loud",)])
def test_usage_errors_are_one_line(argv):
    status, out, err = run(*argv)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.UsageError, 2),
        (errors.ResultsError, 2),
        (errors.HistoryError, 2),
        (errors.BenchmarkFailed, 20),
        (errors.BuildFailed, 21),
        (errors.NothingMeasured, 22),
        (PermissionError, 2),
    ],
)
def test_errors_become_exit_codes(command, error, status):
    command(raising(error("what, where")))
    assert run("planted") == (status, "", "error: what, where\n")


def test_a_full_disk_is_a_line_that_says_what_to_do(command):
    command(raising(OSError(errno.ENOSPC, "No space left on device")))
    said = "error: [Errno 28] No space left on device; free some, and start it again: what was recorded is kept\n"
    assert run("planted") == (2, "", said)


def test_a_bug_keeps_its_traceback(command):
    command(raising(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        run("planted")


def test_an_interruption_is_no_traceback(command):
    command(raising(KeyboardInterrupt()))
    assert run("planted")[0] == 130


def test_a_process_that_an_interruption_finds_gone_is_an_interruption(command):
    def action():
        try:
            raise KeyboardInterrupt
        finally:
            raise ProcessLookupError(errno.ESRCH, "No such process")

    command(action)
    assert run("planted")[0] == 130
    command(raising(ProcessLookupError(errno.ESRCH, "No such process")))
    assert run("planted")[0] == 2


def test_the_status_is_the_commands(command):
    command(lambda: 7)
    assert run("planted") == (7, "", "")


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_what_a_stream_cannot_say_is_printed_as_an_escape(command, monkeypatch, encoding):
    command(lambda: print("scale: cannot open a\udcff · b") or 20)
    stream = io.TextIOWrapper(io.BytesIO(), encoding, errors="strict")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "argv", ["tools", "planted"])
    assert script() == 20
    stream.flush()
    said = stream.buffer.getvalue().decode(encoding)
    assert said.splitlines() == [f"scale: cannot open a\\udcff {'·' if encoding == 'utf-8' else chr(92) + 'xb7'} b"]


class Interrupted:
    """Ctrl-C is pressed while it is destroyed."""

    def __del__(self):
        raise KeyboardInterrupt


def test_an_interruption_that_python_would_drop_is_one(command, monkeypatch):
    def action():
        Interrupted()
        time.sleep(5)  # which it ends

    command(action)
    monkeypatch.setattr(sys, "argv", ["tools", "planted"])
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    # A shell that starts this in the background has it ignore Ctrl-C
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert script() == 130
    finally:
        signal.signal(signal.SIGINT, before)
