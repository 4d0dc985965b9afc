"""``python -m tools compare``: implementations of a problem side by side, on the working tree, without git history.

Every implementation is verified before and after it is timed; they take turns in rounds. The exit status is 1 when one
is wrong, 2 for a mistake of the user's, 22 when there was nothing to measure.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from benchmarks.harness import cases as harness_cases
from benchmarks.harness import reported
from benchmarks.harness.benchmark import root_folder
from benchmarks.harness.problem import TestCase
from tools import (
    compare_inside,
    compare_selection,
    compare_settings,
    compare_statistics,
    compare_table,
    comparing,
    host,
    kept_ceilings,
    measuring_process,
    peaks,
)
from tools.atomic import replace_text
from tools.compare_arguments import ALL, FORMATS, add_arguments
from tools.compare_settings import Settings
from tools.comparison import Comparison
from tools.errors import NothingMeasured, UsageError
from tools.progress_bar import ProgressBar
from tools.roofline import Roofs

__all__ = ["add_arguments", "merged", "run", "status"]

DTYPE = "float32"  # of definitions that make their cases for one dtype
INTERRUPTED = 130  # what a shell reports for a command that Ctrl-C ended
WRONG = 1  # exit status (contract)
WIDE = 160  # characters, where there is no terminal to ask


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Compare, print, write; return the exit status.

    Raises:
        UsageError: an option, a problem or a size that cannot be; nothing was measured yet.
    """
    chosen = _settings(args, os.environ)
    _check_files(args)
    compare_inside.check(args)
    if measuring_process.is_command() and out is sys.stdout:
        measuring_process.restart(str(chosen.threads))
    device = args.device or host.device()
    with measuring_process.prepared(device, chosen.threads):
        jobs = _jobs(args, device, chosen)
        for job in jobs:  # every size, before the first is allocated or anything is measured
            job.check_fits()
        roofs = None if args.no_roofline else _roofs(device, err, quiet=args.quiet)
    bar = ProgressBar(err, shown=not args.quiet and err.isatty())
    found = []
    try:
        for number, job in enumerate(jobs):
            found.append(job.compare(roofs, bar.part(number, len(jobs))))
    except KeyboardInterrupt:
        print("interrupted: a comparison keeps nothing", file=err)
        return INTERRUPTED
    finally:
        bar.clear()
    code = _report(merged(found), args, roofs, out, err)
    if args.profile is not None or args.ncu is not None or args.tops:
        with measuring_process.prepared(device, chosen.threads):
            inside = [job.inside(one) for job, one in zip(jobs, found, strict=True)]
            compare_inside.look(inside, args, device, _for_tables(args, out, err))
    return code


class Job:
    """A problem with its implementations and settings, ready to be compared."""

    def __init__(
        self, what: str, loaded: Any, tests: Sequence[TestCase], args: argparse.Namespace, settings: Settings
    ) -> None:
        self._what, self._solutions = what, args.solution
        self._problem = loaded.problem
        self._tests = tests
        where = f"{self._problem.name} on {self._problem.device}"
        self._implementations = compare_selection.implementations(loaded.implementations, args.implementations, where)
        comparing.check_reference(settings, self._implementations)
        self._settings = settings

    def check_fits(self) -> None:
        """Refuse sizes that do not fit into memory.

        Raises:
            UsageError: one does not.
        """
        free = reported.free_memory(self._problem.device)
        for test in self._tests:
            compare_selection.check_fits(self._problem, test, len(self._implementations), free)

    def compare(self, roofs: Roofs | None, progress: comparing.Progress) -> Comparison:
        """Measure."""
        return comparing.compare(
            self._problem,
            self._implementations,
            cases=[test["name"] for test in self._tests],
            settings=self._settings,
            roofs=roofs,
            progress=progress,
        )

    def inside(self, found: Comparison) -> compare_inside.Inside:
        """Return what can be looked into, with what was found of it."""
        return compare_inside.Inside(
            what=self._what,
            problem=self._problem,
            implementations=self._implementations,
            solutions=self._solutions,
            found=found,
        )


def _jobs(args: argparse.Namespace, device: str, settings: Settings) -> list[Job]:
    """Return what is to be compared; a problem of which no case was asked for is left out, where others have some.

    Raises:
        UsageError: a problem, case, implementation or reference that is not there.
    """
    load = importlib.import_module("tools.problem_loading").load
    whats = _expanded(args.what)
    loaded = [load(what, device, args.solution, args.dtype or DTYPE) for what in whats]
    tests = compare_selection.cases_of([each.problem for each in loaded], args.sizes, args.dtype)
    found = zip(whats, loaded, tests, strict=True)
    return [Job(what, each, chosen, args, settings) for what, each, chosen in found if chosen]


def _expanded(whats: Sequence[str]) -> list[str]:
    """Return the problems named, `all` replaced by every kernel's."""
    every = [str(problem.kernel) for problem in harness_cases.problems()]
    return list(dict.fromkeys(name for what in whats for name in (every if what == ALL else [what])))


def _settings(args: argparse.Namespace, environ: Mapping[str, str]) -> Settings:
    """Return the settings of the command line, else of the environment.

    Raises:
        UsageError: one makes no sense.
    """
    threads = str(args.threads) if args.threads is not None else environ.get("KV_THREADS") or None
    host.measuring_variables(threads)  # refuses what is no number of threads
    return compare_settings.settings(
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
        return importlib.import_module("benchmarks.harness.accuracy").parse_tolerance(text)
    except ValueError as error:
        raise UsageError(f"--tolerance: {error}") from None


def _check_files(args: argparse.Namespace) -> None:
    """Refuse files that cannot be written, before anything is measured.

    Raises:
        UsageError: no such folder, a folder in the file's place, or standard output asked for twice.
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


def _roofs(device: str, err: TextIO, *, quiet: bool) -> Roofs | None:
    """Return the ceilings as last measured; where none are kept, they are measured now, and kept."""
    root = root_folder(os.environ)
    found = peaks.latest_roofs(root, device)
    if found is not None:
        return found
    if not quiet:
        print(
            "note: no ceilings of this machine are kept: measuring them first, half a minute (--no-roofline skips it)",
            file=err,
            flush=True,
        )
    kept_ceilings.keep(root, peaks.measure_document(device))
    return peaks.latest_roofs(root, device)


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
    width = shutil.get_terminal_size((WIDE, 24)).columns if to.isatty() else WIDE
    to.write(compare_statistics.one_lines(found) if args.oneline else compare_table.table(found, width))
    if args.stats:
        to.write("\n" + compare_statistics.table(found))
    for name in FORMATS:
        if (target := getattr(args, name)) is not None:
            _write(_formatted(name, found, roofs), target, out)
    return status(found)


def _for_tables(args: argparse.Namespace, out: TextIO, err: TextIO) -> TextIO:
    """Return where tables are printed: beside a format on standard output, standard error."""
    return err if "-" in [getattr(args, name) for name in FORMATS] else out


def _formatted(name: str, found: Comparison, roofs: Roofs | None) -> str:
    formats = importlib.import_module("tools.compare_formats")
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
