"""The command line: help, usage errors, exit codes."""

import errno
import io
import re
import subprocess
import sys
import time
import types

import pytest

from kernel_velocity import errors
from kernel_velocity.__main__ import COMMANDS, script
from tests.commands import kv


@pytest.fixture
def command(monkeypatch):
    """Install a command that calls a function."""

    def install(action):
        module = types.ModuleType("kernel_velocity.planted")
        module.add_arguments = lambda parser: None
        module.run = lambda args, out, err: action()
        monkeypatch.setitem(sys.modules, "kernel_velocity.planted", module)
        monkeypatch.setitem(COMMANDS, "planted", ("planted", "call a function"))

    return install


def raising(error):
    def action():
        raise error

    return action


@pytest.mark.parametrize("argv", [(), ("--help",)])
def test_help_lists_every_command_but_hidden_ones(argv):
    status, out, err = kv(*argv)
    assert (status, err) == (0, "")
    assert all(
        (f"    {name}" in re.findall(r"^    [a-z-]+", out, re.MULTILINE)) == (text is not None)
        for name, (_, text) in COMMANDS.items()
    )


def test_help_of_a_subcommand():
    status, out, err = kv("offline", "pack", "--help")
    assert (status, err) == (0, "")
    assert "usage: kv offline pack" in out and "--range" in out


@pytest.mark.parametrize("package", ["scipy", "git", "tomli_w", "unheard_of"])
def test_missing_package_names_the_pip_install(command, package):
    command(raising(ModuleNotFoundError(f"No module named '{package}'", name=f"{package}.models")))
    cure = {"scipy": "'scipy>=", "git": "'gitpython>=", "tomli_w": "'tomli-w>=", "unheard_of": "unheard-of"}[package]
    status, out, err = kv("planted")
    assert (status, out) == (2, "")
    assert err.startswith(f"error: kv planted needs {package}, which is not installed: pip install {cure}")
    assert err.count("\n") == 1


def test_missing_module_of_this_package_is_a_bug(command):
    command(raising(ModuleNotFoundError("gone", name="kernel_velocity.gone")))
    with pytest.raises(ModuleNotFoundError):
        kv("planted")


@pytest.mark.parametrize("argv", [("dance",), ("--loud",), ("offline",), ("offline", "dance")])
def test_usage_errors_are_one_line(argv):
    status, out, err = kv(*argv)
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
    assert kv("planted") == (status, "", "error: what, where\n")


def test_full_disk_is_a_line_with_a_cure(command):
    command(raising(OSError(errno.ENOSPC, "No space left on device")))
    text = "error: [Errno 28] No space left on device; free some space and start again: recorded results are kept\n"
    assert kv("planted") == (2, "", text)


def test_bug_keeps_its_traceback(command):
    command(raising(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        kv("planted")


def test_interruption_has_its_status(command):
    command(raising(KeyboardInterrupt()))
    assert kv("planted")[0] == 130


def test_process_lost_in_an_interruption_is_an_interruption(command):
    def action():
        try:
            raise KeyboardInterrupt
        finally:
            raise ProcessLookupError(errno.ESRCH, "No such process")

    command(action)
    assert kv("planted")[0] == 130
    command(raising(ProcessLookupError(errno.ESRCH, "No such process")))
    assert kv("planted")[0] == 2


def test_status_is_that_of_the_command(command):
    command(lambda: 7)
    assert kv("planted") == (7, "", "")


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_unencodable_text_is_printed_as_escapes(command, monkeypatch, encoding):
    command(lambda: print("scale: cannot open a\udcff · b") or 20)
    stream = io.TextIOWrapper(io.BytesIO(), encoding, errors="strict")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "argv", ["kv", "planted"])
    assert script() == 20
    stream.flush()
    text = stream.buffer.getvalue().decode(encoding)
    assert text.splitlines() == [f"scale: cannot open a\\udcff {'·' if encoding == 'utf-8' else chr(92) + 'xb7'} b"]


class Interrupted:
    """Ctrl-C is pressed in its destructor."""

    def __del__(self):
        raise KeyboardInterrupt


def test_interruption_in_a_destructor_is_raised(command, monkeypatch):
    def action():
        Interrupted()
        time.sleep(5)  # interrupted

    command(action)
    monkeypatch.setattr(sys, "argv", ["kv", "planted"])
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    assert script() == 130


def test_report_imports_parts_of_numpy_when_they_are_used():
    code = (
        "import sys; from kernel_velocity.__main__ import parse; parse(['report']); import numpy; "
        "print('numpy.f2py.rules' in sys.modules, 'unittest' in sys.modules); "
        "numpy.testing.assert_allclose(1, 1); print('unittest' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["False", "False", "True"]
