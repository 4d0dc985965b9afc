"""``python -m tools <command>``: the command line of the analysis half.

Each command is a module of this package with two functions:

    add_arguments(parser: argparse.ArgumentParser) -> None
    run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int      the exit status

`run` raises a `KernelVelocityError` for what a user can cure: it is printed here as one line ``error: ...``
and becomes that error's exit code. A command's module is imported only when that command is asked for, so
that ``python -m tools report`` works where what the others need is not installed.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import importlib
import io
import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn, TextIO

from tools.errors import KernelVelocityError, UsageError

COMMANDS = {
    "report": "write the site: the trend of every kernel, a page per commit",
    "plot": "the trend of some series as a picture, SVG or PNG",
    "findings": "what nights and gates found: list, show, acknowledge, expect, reopen",
    "ingest": "move the telemetry of finished measurements next to asv's results",
    "track": "measure the last commits that touched the kernels, then write the site",
    "false-alarms": "how often identical code is called different between sessions, and planted changes are found",
    "nightly": "measure what is new, judge, confirm and bisect it, write findings, publish",
    "gate": "is one commit, or the working tree, slower than another: measured in turns, in minutes",
    "bisect": "which commit made a benchmark slower: measured in turns, by the test of gate",
    "new": "write the files of a new kernel: C++, CUDA, the problem, the test",
    "offline": "the whole suite on a machine without a network: pack it, and unpack what it measured",
    "peaks": "what this machine can do at most: bandwidths, caches, FLOP/s; measured, and what others say",
    "record": "record raw traces of every kernel, a file for each process",
    "replay": "replay every stopping rule on recorded and synthetic traces",
    "compare": "implementations side by side on the working tree: times, speed-ups, roofline, errors",
    "score-detectors": "how often detectors of change points cry wolf, and what they miss, asv's and ours",
    "spread": "measure one commit in several sessions; print how far apart they are, raw and adjusted",
}

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
# Commands that start no thread: `report` forks (tools/making_apart.py), and its arrays are too small for several
ONE_THREAD = ("report",)
# Of the objects that a report makes hardly any are in cycles, and looking for these takes a tenth of its time
GARBAGE = 100_000  # new objects between two looks; Python's own is 700
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")  # of numpy's libraries, read at its import

INTERRUPTED = 130  # what a shell reports for a command that Ctrl-C ended


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are errors like any other, not an exit of the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see `{self.prog} --help`)")


def _module(command: str) -> ModuleType:
    return importlib.import_module(f"tools.{command.replace('-', '_')}")


def _parser(requested: str | None) -> argparse.ArgumentParser:
    """Return the parser; only the requested command's module is imported, for its arguments."""
    parser = _Parser(prog="python -m tools", description="kernel-velocity: what the recorded history says.")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        if name == requested:
            if name in ONE_THREAD and "numpy" not in sys.modules:  # else it has its threads, and so would others
                os.environ.update({each: os.environ.get(each, "1") for each in THREADS})
                gc.set_threshold(GARBAGE)
            _module(name).add_arguments(command)
    return parser


def _dispatch(argv: Sequence[str], out: TextIO, err: TextIO) -> int:
    requested = argv[0] if argv else None
    with contextlib.redirect_stdout(out):  # argparse prints --help to sys.stdout, whatever we were given
        args = _parser(requested).parse_args(argv)
    status: int = _module(args.command).run(args, out, err)
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
    except KernelVelocityError as error:
        print(f"error: {error}", file=err)
        return error.exit_code
    except OSError as error:  # a full disk, a folder without permission: cured by the user, not by us
        if isinstance(error, ProcessLookupError) and isinstance(error.__context__, KeyboardInterrupt):
            return _interrupted(err)  # asv, interrupted, ends processes of its own, one of which has ended by itself
        cure = "; free some, and start it again: what was recorded is kept" if error.errno in NO_SPACE else ""
        print(f"error: {error}{cure}", file=err)
        return KernelVelocityError.exit_code
    except KeyboardInterrupt:
        return _interrupted(err)
    except SystemExit as finished:  # --help
        return int(finished.code or 0)


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
    _end(script())
