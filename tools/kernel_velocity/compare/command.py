"""``kv compare``: implementations of a problem side by side, on the working tree, without git history.

Every implementation is verified before and after it is timed. They take turns in rounds, in a process of their own,
which is started again if an implementation crashes it (compare/isolation.py). The exit status is 1 when one is wrong,
2 for a usage error, 22 when nothing was compared.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import TextIO

from kernel_velocity import lock
from kernel_velocity.compare import implementations, isolation, nsight, settings, table
from kernel_velocity.compare.apart import can_fork
from kernel_velocity.compare.isolation import ProcessJournal
from kernel_velocity.compare.job import ComparisonJob, compare_jobs
from kernel_velocity.compare.profile import profile
from kernel_velocity.compare.result import LiveComparison, as_google_benchmark, as_json
from kernel_velocity.compare.settings import PRESETS, TimingSettings, prepared
from kernel_velocity.engine import reported, timing
from kernel_velocity.engine.stopping import RULES
from kernel_velocity.errors import UsageError
from kernel_velocity.files import check_report, check_writable, replace_text
from kernel_velocity.problem.accuracy import parse_tolerance
from kernel_velocity.problem.implementations import Module
from kernel_velocity.problem.problem import NotHereError
from kernel_velocity.problem.problem_file import DTYPE
from kernel_velocity.progress import ProgressBar
from kernel_velocity.results import git
from kernel_velocity.roofline import ceilings
from kernel_velocity.roofline.model import Roofs
from kernel_velocity.runner import host, peaks
from kernel_velocity.statuses import Status
from kernel_velocity.suite import config
from kernel_velocity.suite.under_test import ARTEFACTS, find_info, root_folder

ALL = "all"
PROFILES = Path(".asv", "profiles")
WIDTH_OF_FILES = 160  # characters, where there is no terminal to ask
MEASURING = "note: measuring this machine's ceilings first, about half a minute (--no-roofline skips this)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add = parser.add_argument
    add("what", nargs="+", metavar="PROBLEM", help=f"a kernel, a problem file (docs/how-to/problem-files.md), or {ALL}")
    text = "a shared library or Python file that defines `solution`, or FlashInfer's JSON; may be repeated"
    add("--solution", action="append", type=Path, default=[], metavar="FILE", help=text)
    add("--device", choices=("cpu", "cuda"), help="default: cuda where there is a GPU")
    text = "test cases: names or regular expressions, separated by commas (default: all)"
    add("--sizes", "--cases", dest="sizes", metavar="NAMES", help=text)
    add("--sample", action="store_true", help="only the small sample case of each problem")
    add("--dtype", help="only test cases of this dtype, such as float32")
    text = "names or regular expressions, separated by commas (default: all)"
    add("--implementations", metavar="NAMES", help=text)
    add("--reference", metavar="NAME", help="the implementation that speed-ups are relative to (default: the first)")
    add("--tolerance", help="allowed error: 1e-3, rtol=1e-3,atol=1e-5, or epsilon; 1 allows integers off by one")
    add("--threads", type=int, help="CPU threads (default: KV_THREADS, else 1)")

    add = parser.add_argument_group("how it is measured").add_argument
    add("--rounds", type=int, help="rounds, each of which times every implementation once (default 8)")
    add("--rule", metavar="NAME", help=f"stopping rule of a round: {', '.join(sorted(RULES))}")
    add("--warmups", type=int, help="warm-up calls of a round; each sample is then one call")
    add("--iters", type=int, help=f"samples of a round, one call each, after {settings.WARMUPS} warm-up calls")
    add("--preset", metavar="NAME", help=f"measure as published benchmarks do: {', '.join(PRESETS)}")
    text = "leave out the efficiency, and do not measure the machine's ceilings"
    add("--no-roofline", action="store_true", help=text)
    lock.add_wait(parser)

    add = parser.add_argument_group("profilers, on the last test case of each problem").add_argument
    add(
        "--profile",
        nargs="?",
        type=Path,
        const=PROFILES,
        metavar="FOLDER",
        help=f"run PyTorch's, with traces in FOLDER ({PROFILES})",
    )
    add("--ncu", nargs="?", const="", metavar="PATH", help="run Nsight Compute, from PATH if given")

    add = parser.add_argument_group("output").add_argument
    text = "also print mean, std, min, max, p50 and p99 of all samples"
    add("--stats", action="store_true", help=text)
    add("--quiet", action="store_true", help="print no progress bar and no notes")
    add("--json", metavar="FILE", help="write JSON; -: to standard output, the tables to standard error")
    add("--gbench", metavar="FILE", help="write JSON as Google Benchmark does, for its tools")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Compare, print and write, and return the exit status.

    A command (its main module has `console`) compares in a process of its own, any other caller in this one.

    Raises:
        UsageError: an option, a problem or a size is invalid, or another run measures here. Nothing was measured.
    """
    chosen = _settings(args, os.environ)
    _check_files(args)
    if hasattr(sys.modules["__main__"], "console") and out is sys.stdout:
        if isolation.JOURNAL not in os.environ:
            threads = str(chosen.threads)
            environ = {**os.environ, **host.measuring_variables(threads), "KV_THREADS": threads}
            environ |= _artefacts(args, err)
            environ["PYTHONFAULTHANDLER"] = ""  # our report of a crash has one line, Python's has forty
            environ["COLUMNS"] = str(_width(err if args.json == "-" else out))
            command = [sys.executable, *sys.orig_argv[1:]]
            return isolation.run(command, environ, root_folder(os.environ), out, err, wait=args.wait)
        journal, report = isolation.of_parent()
        with redirect_stdout(err):
            isolation.leave(report.until_end(lambda: _compare(args, chosen, report, err, journal)))
    with redirect_stdout(err):  # what a user's Python code prints
        return _compare(args, chosen, out, err, ProcessJournal())


def _artefacts(args: argparse.Namespace, err: TextIO) -> dict[str, str]:
    """Return the variables by which a process sees a build of the working tree.

    {} where none of the kernels calls what a build makes, a build is named already, or their packages are built in
    place (`find_info` finds what the build says of itself).

    Raises:
        UsageError: the working tree does not build.
    """
    whats = set(args.what)
    if ARTEFACTS in os.environ or all(implementations.is_file(what) for what in whats):
        return {}
    problems = [problem for problem in config.suite(Path()).problems() if ALL in whats or problem.name in whats]
    functions = [function for problem in problems for function in problem.functions.values()]
    if all(isinstance(function, Module) and find_info(Path(function.package)) for function in functions):
        return {}
    from kernel_velocity.ab.session import AsvRunner  # noqa: PLC0415 - asv takes half a second

    with lock.held(Path(), wait=args.wait):
        runner = AsvRunner(root=Path.cwd(), device=args.device or host.device(), err=err, again=True)
        commit = git.working_tree(Path())
        reason = runner.prepare(commit)
    if reason is not None:
        raise UsageError(f"the working tree does not build: {reason}")
    folder = str(runner.unpacked(commit))
    return {ARTEFACTS: folder, "PYTHONPATH": os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])}


def _settings(args: argparse.Namespace, environ: Mapping[str, str]) -> TimingSettings:
    """Return the settings of the command line, else of the environment.

    Raises:
        UsageError: one is invalid.
    """
    threads = str(args.threads) if args.threads is not None else environ.get("KV_THREADS") or None
    host.measuring_variables(threads)  # refuses what is no number of threads
    try:
        tolerance = None if args.tolerance is None else parse_tolerance(args.tolerance)
    except ValueError as error:
        raise UsageError(f"--tolerance: {error}") from None
    names = ("preset", "rule", "warmups", "iters", "rounds", "reference")
    options = {name: getattr(args, name) for name in names}
    return settings.settings(environ=environ, tolerance=tolerance, threads=int(threads or 1), **options)


def _check_files(args: argparse.Namespace) -> None:
    """Refuse files that cannot be written, and programs that are not there, before anything is measured.

    Raises:
        UsageError: no such folder, a folder in the file's place, no permission to write there, or Nsight Compute is
            not installed.
    """
    for option, file in (("--json", args.json), ("--gbench", args.gbench)):
        if file is not None and (option, file) != ("--json", "-"):
            check_report(option, Path(file))
    if args.profile is not None:
        if args.profile.exists() and not args.profile.is_dir():
            raise UsageError(f"--profile {args.profile}: must be a folder, for traces (got a file)")
        trace = args.profile.absolute() / "trace"
        existing = next(folder for folder in trace.parents if folder.exists())  # the others are made
        check_writable(f"--profile {args.profile}", existing / trace.name)
    if args.ncu is not None:
        nsight.find(args.ncu)


def _compare(
    args: argparse.Namespace, chosen: TimingSettings, out: TextIO, err: TextIO, journal: ProcessJournal
) -> int:
    """Compare in this process, print and write, and return the exit status."""
    device = args.device or host.device()
    tables = err if args.json == "-" else out
    bar = ProgressBar(err, shown=not args.quiet and err.isatty())
    with prepared(device, chosen.threads, 1 if can_fork(device, journal) else None):
        try:
            jobs, notes = _jobs(args, device, chosen, journal, bar)
        finally:
            bar.clear()
        # After loading: a mistake in a user's file is reported even while another run holds the lock
        with lock.held(root_folder(os.environ), wait=args.wait):
            roofs = None if args.no_roofline else _roofs(device, err, quiet=args.quiet)
            try:
                comparison = compare_jobs(list(jobs.values()), roofs, bar.show, journal, notes)
            except KeyboardInterrupt:
                print("interrupted: nothing was saved", file=err)
                return Status.INTERRUPTED
            finally:
                bar.clear()
            _report(comparison, args, tables, out)
            timing.prepare_torch(device)  # with all threads again
            for what, job in jobs.items():
                for text in _looks_inside(what, job, args, journal):
                    tables.write(f"\n{text}\n")
                    tables.flush()  # the next look may end the process
    if (code := status(comparison, has_solutions=bool(args.solution))) == Status.NOTHING:
        print("nothing was compared: no two implementations have a time on one test case", file=err)
    return code


def _jobs(
    args: argparse.Namespace, device: str, chosen: TimingSettings, journal: ProcessJournal, bar: ProgressBar
) -> tuple[dict[str, ComparisonJob], list[str]]:
    """Return the jobs by the user's name of the problem, and notes on problems that are n/a.

    A problem without a matching case is left out where another has one, and so is one that is n/a.

    Raises:
        UsageError: no such problem, case or implementation.
        NotHereError: all problems are n/a.
    """
    kernels = [str(problem.kernel) for problem in config.suite(Path()).problems()] if ALL in args.what else []
    whats = list(dict.fromkeys(name for what in args.what for name in (kernels if what == ALL else [what])))
    loaded, missing = {}, []
    for what in whats:
        bar.show(f"loading {what}", 0.0)
        try:
            with journal.running("loading it", None, what):
                loaded[what] = implementations.load(what, device, args.solution, args.dtype or DTYPE)
        except NotHereError as error:
            missing.append(str(error))
    if not loaded:
        raise NotHereError("\nn/a: ".join(missing))
    problems = [problem for problem, _ in loaded.values()]
    if args.sample:
        tests = [[problem.generate_sample()] for problem in problems]
    else:
        tests = implementations.select_cases(problems, args.sizes, args.dtype)
    jobs = {}
    for (what, (problem, binders)), chosen_tests in zip(loaded.items(), tests, strict=True):
        where = f"{problem.name} on {problem.device}"
        names = implementations.matching("--implementations", args.implementations, list(binders), where)
        if chosen_tests:
            jobs[what] = ComparisonJob(
                problem=problem,
                implementations={name: binders[name] for name in names},
                tests=chosen_tests,
                settings=chosen,
            )
    return jobs, [f"n/a: {reason}" for reason in missing]


def _roofs(device: str, err: TextIO, *, quiet: bool) -> Roofs | None:
    """Return the device's recorded ceilings. Where there are none, measure and record them first."""
    root, name = root_folder(os.environ), reported.name(device)
    if peaks.latest_roofs(root, device, name) is None:
        if not quiet:
            print(MEASURING, file=err, flush=True)
        ceilings.keep(root, peaks.measure_document(device))
    return peaks.latest_roofs(root, device, name)


def _report(comparison: LiveComparison, args: argparse.Namespace, tables: TextIO, out: TextIO) -> None:
    """Print and write a comparison."""
    width = _width(tables)
    tables.write(table.table(comparison, width))
    if args.stats:
        tables.write("\n" + table.all_samples(comparison))
    if args.json == "-":
        out.write(as_json(comparison))
    elif args.json is not None:
        replace_text(Path(args.json), as_json(comparison))
    if args.gbench is not None:
        replace_text(Path(args.gbench), as_google_benchmark(comparison))
    for stream in (tables, out):
        stream.flush()  # a look inside may end the process


def _width(to: TextIO) -> int:
    """Return COLUMNS or the width of a terminal, and WIDTH_OF_FILES for any other stream.

    A report for the parent has the width that the parent says. `shutil.get_terminal_size` would ask descriptor 1.
    """
    columns = os.environ.get("COLUMNS", "")
    if not to.isatty() and not isinstance(to, isolation.ReportStream):
        return WIDTH_OF_FILES
    return (
        int(columns)
        if columns.isdigit() and int(columns)
        else os.get_terminal_size(to.fileno()).columns or WIDTH_OF_FILES
    )


def _looks_inside(what: str, job: ComparisonJob, args: argparse.Namespace, journal: ProcessJournal) -> Iterator[str]:
    """Yield a profiler's report of every implementation that has a time on the last test case of a problem."""
    for row in job.compared[-1].rows() if job.compared else ():
        name, case = row.timed.implementation, row.compared.case
        if row.timing is None:
            continue
        if args.profile is not None:
            with journal.running("profiled", name, case, again=False):
                text = profile(job.problem, name, case, args.profile, job.implementations[name])
            yield text
        if args.ncu is not None:
            command = nsight.child_command(what, row, args.solution, args.dtype or DTYPE)
            try:
                launches = nsight.ncu(command, args.ncu)
            except UsageError as error:  # the other implementations still have reports
                yield f"n/a: Nsight Compute on {name} {case}: {error}"
            else:
                yield nsight.report(launches, row)


def status(comparison: LiveComparison, *, has_solutions: bool = False) -> int:
    """Return the exit status: 1 where an implementation is wrong, 22 where no two that were asked for have a time.

    One alone is measured, not compared, and then has to have a time. Else 0. With solutions it is 1 where one is
    unproven, too.
    """
    timed = [row.timed for row in comparison.rows()]
    if any(result.failed is not None or (has_solutions and result.unproven) for result in timed):
        return Status.WRONG
    names = {result.implementation for result in timed}
    counts = [sum(bool(result.estimates) for result in compared.timed) for compared in comparison.compared]
    return Status.CLEAN if max(counts, default=0) >= min(2, len(names) or 1) else Status.NOTHING
