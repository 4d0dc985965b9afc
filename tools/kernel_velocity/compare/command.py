"""``kv compare``: implementations of a problem side by side, on the working tree, without git history.

Every implementation is verified before and after it is timed; they take turns in rounds, in a process of their own that
one of them may end (compare/isolation.py). The exit status is 1 when one is wrong, 2 for a mistake of the user's,
22 when there was nothing to measure.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from kernel_velocity import lock
from kernel_velocity.compare import inside as compare_inside
from kernel_velocity.compare import isolation, process, settings, statistics, table
from kernel_velocity.compare.arguments import FORMATS, add_arguments
from kernel_velocity.compare.isolation import Journal
from kernel_velocity.compare.jobs import jobs
from kernel_velocity.compare.result import Comparison
from kernel_velocity.compare.settings import Settings
from kernel_velocity.errors import NothingMeasured, UsageError
from kernel_velocity.files import replace_text, try_to_write
from kernel_velocity.harness import reported
from kernel_velocity.harness.under_test import root_folder
from kernel_velocity.progress import ProgressBar
from kernel_velocity.roofline import ceilings
from kernel_velocity.roofline.model import Roofs
from kernel_velocity.runner import host, peaks

__all__ = ["add_arguments", "merged", "run", "status"]

INTERRUPTED = 130  # what a shell reports for a command that Ctrl-C ended
WRONG = 1  # exit status (contract)
WIDE = 160  # characters, where there is no terminal to ask


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Compare, print, write; return the exit status.

    Raises:
        UsageError: an option, a problem or a size that cannot be, or another run measures here; nothing was measured.
    """
    chosen = _settings(args, os.environ)
    _check_files(args)
    compare_inside.check(args)
    with lock.held(root_folder(os.environ)):  # neither disturbs what is measured here, nor is disturbed by it
        return _measured(args, chosen, out, err)


def _measured(args: argparse.Namespace, chosen: Settings, out: TextIO, err: TextIO) -> int:
    """Compare in a process of its own where this is a command, else in this one; return the exit status."""
    if process.is_command() and out is sys.stdout:
        if isolation.JOURNAL not in os.environ:
            environment = process.environment(str(chosen.threads))
            # A crash is reported by us, in a line: Python's own report of it is forty.
            return isolation.run(process.command(), environment | {"PYTHONFAULTHANDLER": ""}, err)
        out = isolation.take_standard_output()
    try:
        with redirect_stdout(err):  # what a user's Python code prints, where this is no process of its own
            return _compare(args, chosen, out, err)
    finally:
        out.flush()


def _compare(args: argparse.Namespace, chosen: Settings, out: TextIO, err: TextIO) -> int:
    """Compare in this process, print, write; return the exit status."""
    device = args.device or host.device()
    folder = os.environ.get(isolation.JOURNAL)
    journal = Journal(Path(folder) if folder else None)
    with process.prepared(device, chosen.threads):
        asked = jobs(args, device, chosen, journal)
        for job in asked:  # every size, before the first is allocated or anything is measured
            job.check_fits()
        roofs = None if args.no_roofline else _roofs(device, err, quiet=args.quiet)
    bar = ProgressBar(err, shown=not args.quiet and err.isatty())
    found = []
    try:
        for number, job in enumerate(asked):
            found.append(job.compare(roofs, bar.part(number, len(asked)), journal.part(number)))
    except KeyboardInterrupt:
        print("interrupted: a comparison keeps nothing", file=err)
        return INTERRUPTED
    finally:
        bar.clear()
    code = _report(merged(found), args, roofs, out, err)
    if args.profile is not None or args.ncu is not None:
        with process.prepared(device, chosen.threads):
            inside = [job.inside(one) for job, one in zip(asked, found, strict=True)]
            compare_inside.look(inside, args, device, _for_tables(args, out, err), journal)
    return code


def _settings(args: argparse.Namespace, environ: Mapping[str, str]) -> Settings:
    """Return the settings of the command line, else of the environment.

    Raises:
        UsageError: one makes no sense.
    """
    threads = str(args.threads) if args.threads is not None else environ.get("KV_THREADS") or None
    host.measuring_variables(threads)  # refuses what is no number of threads
    return settings.settings(
        environ=environ,
        preset=args.preset,
        rule=args.rule,
        warmups=args.warmups,
        iters=args.iters,
        rounds=args.rounds,
        tolerance=_tolerance(args.tolerance),
        reference=args.reference,
        threads=int(threads or 1),
    )


def _tolerance(text: str | None) -> Any:
    """Return the tolerance that was asked for; None: none was.

    Raises:
        UsageError: it is no tolerance.
    """
    if text is None:
        return None
    try:
        return importlib.import_module("kernel_velocity.harness.accuracy").parse_tolerance(text)
    except ValueError as error:
        raise UsageError(f"--tolerance: {error}") from None


def _check_files(args: argparse.Namespace) -> None:
    """Refuse files that cannot be written, before anything is measured.

    Raises:
        UsageError: no such folder, a folder in the file's place, no leave to write there, or standard output asked for
            twice.
    """
    targets = {name: target for name in FORMATS if (target := getattr(args, name)) is not None}
    if list(targets.values()).count("-") > 1:
        raise UsageError("standard output (-) can take one format only: give the others a file")
    for name, target in targets.items():
        path = Path(target)
        if target != "-" and (path.is_dir() or not path.absolute().parent.is_dir()):
            raise UsageError(f"--{name} {target}: wanted a file in a folder that is there")
        if target != "-" and path.exists() and not path.is_file():  # it would be replaced: a device, a pipe
            raise UsageError(f"--{name} {target}: is there and no plain file; wanted one, or - for standard output")
        if target != "-":
            _try_to_write(path, f"--{name} {target}")
    if args.profile is not None:  # made where it is not there yet
        whole = args.profile.absolute()
        there = next(folder for folder in (whole, *whole.parents) if folder.exists())
        _try_to_write(there / "trace", f"--profile {args.profile}")


def _try_to_write(path: Path, asked: str) -> None:
    try:
        try_to_write(path)
    except OSError as error:
        raise UsageError(f"{asked}: cannot be written ({error.strerror}); name another place") from None


def _roofs(device: str, err: TextIO, *, quiet: bool) -> Roofs | None:
    """Return the device's ceilings as last measured; where none are kept, they are measured now, and kept."""
    root, name = root_folder(os.environ), reported.name(device)
    found = peaks.latest_roofs(root, device, name)
    if found is not None:
        return found
    if not quiet:
        print(
            "note: no ceilings of this machine are kept: measuring them first, half a minute (--no-roofline skips it)",
            file=err,
            flush=True,
        )
    ceilings.keep(root, peaks.measure_document(device))
    return peaks.latest_roofs(root, device, name)


def merged(found: Sequence[Comparison]) -> Comparison:
    """Return the comparisons of several problems as one; the first says what they ran on."""
    first = found[0]
    return replace(
        first,
        compared=tuple(each for comparison in found for each in comparison.compared),
        took=sum(comparison.took for comparison in found),
        warnings=tuple(dict.fromkeys(each for comparison in found for each in comparison.warnings)),
    )


def _report(found: Comparison, args: argparse.Namespace, roofs: Roofs | None, out: TextIO, err: TextIO) -> int:
    """Print and write what was found; return the exit status."""
    to = _for_tables(args, out, err)
    to.write(statistics.one_lines(found) if args.oneline else table.table(found, _width(to)))
    if args.stats:
        to.write("\n" + statistics.table(found))
    for name in FORMATS:
        if (target := getattr(args, name)) is not None:
            _write(_formatted(name, found, roofs), target, out)
    for stream in (to, out):
        stream.flush()  # what is looked into next may end the process
    return status(found)


def _width(to: TextIO) -> int:
    """Return the columns of a terminal, or as many as COLUMNS says; WIDE of anything else.

    Not `shutil`'s: that asks the descriptor 1, which need not be standard output's any more.
    """
    if not to.isatty():
        return WIDE
    wanted = os.environ.get("COLUMNS", "")
    return int(wanted) if wanted.isdigit() and int(wanted) else os.get_terminal_size(to.fileno()).columns or WIDE


def _for_tables(args: argparse.Namespace, out: TextIO, err: TextIO) -> TextIO:
    """Return where tables are printed: beside a format on standard output, standard error."""
    return err if "-" in [getattr(args, name) for name in FORMATS] else out


def _formatted(name: str, found: Comparison, roofs: Roofs | None) -> str:
    formats = importlib.import_module("kernel_velocity.compare.formats")
    write = getattr(formats, f"as_{name}")
    made: str = write(found, roofs) if name == "html" else write(found)
    return made


def _write(text: str, target: str, out: TextIO) -> None:
    if target == "-":
        out.write(text)
    else:
        replace_text(Path(target), text)


def status(found: Comparison) -> int:
    """Return the exit status: 1 where an implementation is wrong, 22 where nothing has a time, else 0."""
    timed = [each for compared in found.compared for each in compared.timed]
    if any(each.failed is not None for each in timed):
        return WRONG
    return 0 if any(each.estimates for each in timed) else NothingMeasured.exit_code
