"""``kv <command>``, or ``python -m kernel_velocity <command>``: the command line.

Each command is a module of this package with two functions:

    add_arguments(parser: argparse.ArgumentParser) -> None
    run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int      the exit status

or a package with `STEPS`, which are commands below it (`kv offline pack`).

`run` raises a `KernelVelocityError` for what a user can cure: it is printed here as one line ``error: ...``
and becomes that error's exit code. A command's module is imported only when that command is asked for, so
that ``kv report`` works where what the others need is not installed.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import importlib
import importlib.metadata
import io
import os
import re
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TextIO

from kernel_velocity.errors import KernelVelocityError, UsageError

Commands = Mapping[str, tuple[str, str | None]]
# Each command's module, and what it does; without the second one it is not listed.
COMMANDS: Commands = {
    "track": ("runner.track", "measure the last commits that changed the kernels, then write the site"),
    "report": ("site.report", "write the site: the trend of every kernel, a page per commit"),
    "compare": ("compare.command", "implementations side by side on the working tree: times, roofline, errors"),
    "gate": ("ab.gate", "is one commit, or the working tree, slower than another: measured in turns, in minutes"),
    "bisect": ("ab.bisect", "which commit made a benchmark slower: measured in turns, by the test of gate"),
    "nightly": ("nightly.command", "measure what is new, judge, confirm and bisect it, write findings, publish"),
    "findings": ("findings.command", "what nights and gates found: list, show, acknowledge, expect, reopen"),
    "new": ("scaffold.new", "write the files of a new kernel: C++, CUDA, the problem, the test"),
    "offline": ("offline", "the whole suite on a machine without a network: pack it, and unpack what it measured"),
    "peaks": ("runner.peaks", "what this machine can do at most: bandwidths, caches, FLOP/s"),
    "lab": ("lab", "how good the methods are: stopping rules, detectors, false alarms"),
    "ingest": ("results.ingest", None),  # the others call it; by itself it moves what a killed run left in the spool
}

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
# Commands that start no thread: `report` forks (forking.py), and its arrays are too small for several
ONE_THREAD = ("report",)
# Of the objects that a report makes hardly any are in cycles, and looking for these takes a tenth of its time
GARBAGE = 100_000  # new objects between two looks; Python's own is 700
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")  # of numpy's libraries, read at its import

INTERRUPTED = 130  # what a shell reports for a command that Ctrl-C ended


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are errors like any other, not an exit of the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see `{self.prog} --help`)")


def _declare(parser: argparse.ArgumentParser, commands: Commands, argv: Sequence[str], what: str) -> None:
    """Declare commands, or the steps of one; only the module that `argv` asks for is imported, for its arguments."""
    subparsers = parser.add_subparsers(dest=what, metavar=what, required=True)
    for name, (module_name, text) in commands.items():
        listed: dict[str, Any] = {} if text is None else {"help": text, "description": text}
        command = subparsers.add_parser(name, **listed)
        if argv[:1] != [name]:
            continue
        if name in ONE_THREAD and "numpy" not in sys.modules:  # else it has its threads, and so would others
            os.environ.update({each: os.environ.get(each, "1") for each in THREADS})
            gc.set_threshold(GARBAGE)
        module = importlib.import_module(f"kernel_velocity.{module_name}")
        if hasattr(module, "add_arguments"):
            module.add_arguments(command)
            command.set_defaults(run=module.run)
        else:
            _declare(command, module.STEPS, argv[1:], "step")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line; `run` is the function of its command.

    Raises:
        UsageError: it is none.
        SystemExit: it asked for help, which is printed.
    """
    parser = _Parser(prog="kv", description="kernel-velocity: how fast every kernel was at every commit.")
    _declare(parser, COMMANDS, list(argv), "command")
    return parser.parse_args(argv or ["--help"])


def _dispatch(argv: Sequence[str], out: TextIO, err: TextIO) -> int:
    with contextlib.redirect_stdout(out):  # argparse prints --help to sys.stdout, whatever we were given
        args = parse(argv)
    status: int = args.run(args, out, err)
    return status


def main(argv: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Run one command and return its exit status.

    Args:
        argv: the arguments after the program's name.
        out: where results are printed.
        err: where notes and the one line of an error are printed.
    """
    try:
        return _dispatch(argv, out, err)
    except (KernelVelocityError, ModuleNotFoundError, OSError) as error:
        if isinstance(error, ProcessLookupError) and isinstance(error.__context__, KeyboardInterrupt):
            return _interrupted(err)  # asv, interrupted, ends processes of its own, one of which has ended by itself
        print(f"error: {_in_one_line(error, argv)}", file=err)
        return error.exit_code if isinstance(error, KernelVelocityError) else KernelVelocityError.exit_code
    except KeyboardInterrupt:
        return _interrupted(err)
    except SystemExit as finished:  # --help
        return int(finished.code or 0)


def _in_one_line(error: KernelVelocityError | ModuleNotFoundError | OSError, argv: Sequence[str]) -> str:
    """Return what a user can cure: a package of others that is missing, a full disk, a folder without permission."""
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        if package in ("", "kernel_velocity"):
            raise error  # a bug
        return f"kv {argv[0]} needs {package}, which is not installed: {_cure(package)}"
    if isinstance(error, OSError) and error.errno in NO_SPACE:
        return f"{error}; free some, and start it again: what was recorded is kept"
    return str(error)


def _cure(package: str) -> str:
    """Return the command that installs a package, in a version that this distribution asks for."""
    name = {"git": "gitpython"}.get(package, package).replace("_", "-")  # the others are called like their modules
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # run from a checkout
        for requirement in importlib.metadata.requires("kernel-velocity") or ():
            if re.match(rf"{re.escape(name)}(?![\w.-])", requirement.replace("_", "-"), re.IGNORECASE):
                return f"pip install '{requirement.partition(';')[0].strip()}'"
    return f"pip install {name}"


def _interrupted(err: TextIO) -> int:
    print("interrupted: what was measured so far is kept", file=err)
    return INTERRUPTED


def _raise_interrupts(lost: sys.UnraisableHookArgs) -> None:
    """Raise a Ctrl-C again, a moment later, that fell where Python drops it: a destructor, logging's part of a fork."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        # At once would be in here, and be dropped. To the main thread: whatever it waits for, it wakes up
        again = threading.Timer(0.01, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(lost)


def script() -> int:
    """Run the command of `sys.argv` on the process's own streams; return its exit status.

    What their encoding has no bytes for is printed as an escape: errors of benchmarks are foreign text, and a lone
    surrogate in one, or a terminal that is no UTF-8, must not end a night with a traceback.
    """
    sys.unraisablehook = _raise_interrupts
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    return main(sys.argv[1:], sys.stdout, sys.stderr)


def console() -> NoReturn:
    """Run the command of `sys.argv` and end the process with its status."""
    _end(script())


def _end(status: int) -> NoReturn:
    """End the process; a report without giving back its objects one by one, a twentieth of the time of a large one.

    Its files are closed, its folders removed and its processes ended by then: nothing waits for Python's own end.
    """
    if sys.argv[1:2] and sys.argv[1] in ONE_THREAD:
        with contextlib.suppress(OSError, ValueError):  # a reader that has gone: Python's own end tells of it
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    console()
