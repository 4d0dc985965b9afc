"""``kv <command>``, or ``python -m kernel_velocity <command>``: the command line.

Each command is a module of this package with two functions:

    add_arguments(parser: argparse.ArgumentParser) -> None
    run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int      the exit status

or a package with `STEPS`, its subcommands (`kv offline pack`).

`run` raises a `KernelVelocityError` for a problem that a user can cure. It is printed here as one line ``error: ...``,
and its exit code becomes the status. Only the module of the given command is imported, so that ``kv report`` works
where packages of other commands are missing.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import importlib.util
import os
import re
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TextIO

from kernel_velocity.errors import KernelVelocityError, UsageError
from kernel_velocity.problem.problem import NotHereError, ProblemError
from kernel_velocity.statuses import Status
from kernel_velocity.terminal import screen

Commands = Mapping[str, tuple[str, str | None]]
# Name -> (module, help); a command without help is not listed.
COMMANDS: Commands = {
    "init": ("scaffold.init", "set up tracking in a git repository: asv.conf.json, the build, an example benchmark"),
    "doctor": ("runner.doctor", "print what this machine has, what will be n/a here and why, and what to run first"),
    "track": ("fleet.run", "measure the last commits that changed the kernels, then write the dashboard"),
    "report": ("site.report", "write the dashboard of what is recorded, without measuring"),
    "compare": ("compare.command", "compare implementations on the working tree: times, efficiency, errors"),
    "gate": ("ab.gate", "compare the speed of two commits, or of a commit and the working tree, in minutes"),
    "bisect": ("ab.bisect", "find the commit that made a benchmark slower"),
    "nightly": ("nightly.command", "measure new commits, confirm and bisect changes, write findings and the dashboard"),
    "findings": ("findings.command", "list, show, acknowledge, expect and reopen findings"),
    "new": ("scaffold.new", "write the files of a new kernel: C++, CUDA, the benchmark, the test"),
    "export": ("past.frames", "export every recorded value as Parquet or CSV, or the newest ones for OpenMetrics"),
    "offline": ("fleet", "measure on a machine without a network: pack the suite, and unpack what it measured"),
    "peaks": ("runner.peaks", "measure the ceilings of this machine: bandwidth of memory and caches, FLOP/s"),
    "false-alarms": ("ab.false_alarms", "estimate how often identical code is called different on this machine"),
    "join": ("fleet.join", "put what machines of one kind measured under one name, such as hosted runners"),
    "ingest": ("results.ingest", "record files of Google Benchmark or nvbench, or the rounds of a killed run"),
}

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
# Commands that start no thread: `report` forks (forking.py), and its arrays are too small for several threads
ONE_THREAD = ("report",)
# Hardly any objects of a report are in cycles, and looking for those at every 100,000 took a twentieth of its time
GARBAGE = 1_000_000  # new objects between two collections; Python's default is 700
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")  # of numpy's libraries, read at its import
# scipy.special reads every name of numpy (scipy 1.17), and so imports these and what they import, 128 modules: half of
# the .2 s that it takes. What is used after all is imported then
UNUSED = ("f2py", "ma", "polynomial", "random", "testing")


class _Parser(argparse.ArgumentParser):
    """A parser that raises a UsageError where argparse exits the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see `{self.prog} --help`)")


def _declare(parser: argparse.ArgumentParser, commands: Commands, argv: Sequence[str], what: str) -> None:
    """Declare commands, or the subcommands of one. Import only the module that `argv` names, for its arguments."""
    subparsers = parser.add_subparsers(dest=what, metavar=what, required=True)
    for name, (module_name, text) in commands.items():
        listed: dict[str, Any] = {} if text is None else {"help": text, "description": text}
        command = subparsers.add_parser(name, **listed)
        if argv[:1] != [name]:
            continue
        if name in ONE_THREAD and "numpy" not in sys.modules:  # an imported numpy has started its threads
            for variable in THREADS:
                os.environ.setdefault(variable, "1")
            gc.set_threshold(GARBAGE)
            _import_later("numpy", UNUSED)
        module = importlib.import_module(f"kernel_velocity.{module_name}")
        if hasattr(module, "add_arguments"):
            module.add_arguments(command)
            command.set_defaults(run=module.run)
        else:
            _declare(command, module.STEPS, argv[1:], "step")


def _import_later(package: str, names: Sequence[str]) -> None:
    """Let modules of a package be attributes of it that are imported when they are used, if ever."""
    for name in names:
        spec = importlib.util.find_spec(f"{package}.{name}")
        if spec is not None and spec.loader is not None:
            spec.loader = importlib.util.LazyLoader(spec.loader)
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
            setattr(sys.modules[package], name, module)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line. `run` is the function of its command.

    Raises:
        UsageError: the command line is malformed.
        SystemExit: after printing the help of --help.
    """
    parser = _Parser(prog="kv", description="kernel-velocity: how fast every kernel was at every commit.")
    _declare(parser, COMMANDS, list(argv), "command")
    return parser.parse_args(argv or ["--help"])


def main(argv: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Run one command and return its exit status.

    Args:
        argv: the arguments after the program's name.
        out: where results are printed.
        err: where notes and the one line of an error are printed.
    """
    try:
        with contextlib.redirect_stdout(out):  # argparse prints --help to sys.stdout
            args = parse(argv)
        status: int = args.run(args, out, err)
        return status
    except (KernelVelocityError, ProblemError, ModuleNotFoundError, OSError) as error:
        if isinstance(error, ProcessLookupError) and isinstance(error.__context__, KeyboardInterrupt):
            return _interrupted(err)  # an interrupted asv kills its processes, one of which had already ended
        print(f"{'n/a' if isinstance(error, NotHereError) else 'error'}: {_message(error, argv)}", file=err)
        return getattr(error, "exit_code", KernelVelocityError.exit_code)
    except KeyboardInterrupt:
        return _interrupted(err)
    except SystemExit as finished:  # --help
        return int(finished.code or 0)


def _message(error: KernelVelocityError | ProblemError | ModuleNotFoundError | OSError, argv: Sequence[str]) -> str:
    """Return the text of an error with its cure, where that is a missing package or a full disk."""
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        if package in ("", "kernel_velocity"):
            raise error  # a bug
        return f"kv {argv[0]} needs {package}, which is not installed: {_pip_install(package)}"
    if isinstance(error, OSError) and error.errno in NO_SPACE:
        return f"{error}; free some space and start again: recorded results are kept"
    return str(error)


def _pip_install(package: str) -> str:
    """Return the command that installs a package in a version that this distribution requires."""
    name = {"git": "gitpython"}.get(package, package).replace("_", "-")  # other distributions have their module's name
    metadata = importlib.import_module("importlib.metadata")  # takes .02 s of each start
    with contextlib.suppress(metadata.PackageNotFoundError):  # a checkout that is not installed
        for requirement in metadata.requires("kernel-velocity") or ():
            if re.match(rf"{re.escape(name)}(?![\w.-])", requirement.replace("_", "-"), re.IGNORECASE):
                return f"pip install '{requirement.partition(';')[0].strip()}'"
    return f"pip install {name}"


def _interrupted(err: TextIO) -> int:
    print("interrupted: what was measured so far is kept", file=err)
    return Status.INTERRUPTED


def _raise_interrupts(lost: sys.UnraisableHookArgs) -> None:
    """Repeat a Ctrl-C, a moment later, that Python dropped in a destructor or in logging's handler of a fork."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        # Raised at once, it would be dropped again. The signal wakes the main thread from whatever it waits for
        again = threading.Timer(0.01, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(lost)


def script() -> int:
    """Run the command of `sys.argv` on the process's streams. Return its exit status.

    Errors of benchmarks are foreign text: what controls a terminal, a lone surrogate, or a terminal without UTF-8 must
    neither hide a line nor end a night with a traceback.
    """
    sys.unraisablehook = _raise_interrupts
    sys.stdout, sys.stderr = screen(sys.stdout), screen(sys.stderr)
    return main(sys.argv[1:], sys.stdout, sys.stderr)


def console() -> NoReturn:
    """Run the command of `sys.argv` and end the process with its status.

    A report ends without freeing its objects one by one, which takes a twentieth of the time of a large one. By then
    its files are closed, its folders removed and its processes ended.
    """
    status = script()
    if sys.argv[1:2] and sys.argv[1] in ONE_THREAD:
        with contextlib.suppress(OSError, ValueError):  # a closed pipe, which Python's own end reports
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    console()
