"""asv's plugin (`plugins` in asv.conf.json): the environment of a commit, our pages, and asv's commands on our suite.

asv has the configuration's folder on `sys.path` only while it imports this module, so every package that is needed
later must be imported here, at module level. asv has no settings for the series of `asv run`, the tables it prints, and
`--python=same`: `setup`, which asv calls, puts functions of this module in the place of asv's:

    commands.run.Benchmarks      selects the series of a tier on a device, as `kv track` does
    commands.run.Results         writes results files whole, and no less of what no round tells than there was
    runner and commands.show     format_benchmark_result: tables without rows and columns of n/a
    commands.show                _print_benchmark: no benchmark that is n/a in all of its series
    commands.compare             unroll_result: no line that is n/a on both sides
    environment                  create and run of ExistingEnvironment: the working tree, under the machine's lock

Discovery, benchmarks.json and results files stay as they are: a series that is not selected keeps its recorded value.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import asv.commands.compare
import asv.commands.run
import asv.commands.show
import asv.runner
from asv import util
from asv.benchmarks import Benchmarks
from asv.console import log
from asv.environment import ExistingEnvironment
from asv.publishing import OutputPublisher

from kernel_velocity import lock, units
from kernel_velocity.errors import KernelVelocityError, UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.names import DEVICES
from kernel_velocity.problem.implementations import Module
from kernel_velocity.problem.problem import ProblemError
from kernel_velocity.results.asv_file import RunResults
from kernel_velocity.results.ingest import ingest
from kernel_velocity.runner import host, select
from kernel_velocity.runner.checks import check_build
from kernel_velocity.runner.environment import HostTorch, hold_locks
from kernel_velocity.runner.host import write_site
from kernel_velocity.suite import config
from kernel_velocity.suite.suite import Suite
from kernel_velocity.suite.under_test import ARTEFACTS

__all__ = ["HostTorch", "KernelVelocityPages", "linked", "setup"]  # HostTorch: asv finds it as a subclass

FOLDER = "kernel-velocity"  # below asv's html_dir
LINK = f'<a href="{FOLDER}/index.html"><b>Kernel velocity: GFLOPS of every commit</b></a>'
# Pages of asv that link to ours: the text in front of which the link is put, and the link. The first is asv's, before
# its navigation. The second is what a browser shows in its place without a network.
LINKS = {
    "index.html": ('<li id="nav-li-" ', f"<li>{LINK}</li>\n\t"),
    "error.html": ("</body>", f"  <p>{LINK} needs no network and no server.</p>\n  "),
}
TIER, DEVICE = "KV_TIER", "KV_DEVICE"  # variables: core (default) or full; cpu or cuda (default: as `kv track`)
NAMED_VALUES = 3  # values of a parameter that a note names
_QUOTE = "'"  # asv has parameters as their repr

_format_result = asv.runner.format_benchmark_result
_print_benchmark = asv.commands.show.Show._print_benchmark.__func__
_unroll_result = asv.commands.compare.unroll_result
_run_existing = ExistingEnvironment.run


def setup() -> None:
    """Have asv's commands use this module: asv calls it when it has imported it. Again, it changes nothing."""
    asv.commands.run.Benchmarks = TierBenchmarks
    asv.commands.run.Results = RunResults
    asv.runner.format_benchmark_result = asv.commands.show.format_benchmark_result = format_result
    asv.commands.show.Show._print_benchmark = classmethod(print_benchmark)
    asv.commands.compare.unroll_result = unroll_result
    ExistingEnvironment.create, ExistingEnvironment.run = create_existing, run_existing


# What `asv run` measures ----------------------------------------------------------------------------------------------


class TierBenchmarks(Benchmarks):  # type: ignore[misc]  # asv ships no types
    """The benchmarks of `asv run`: those that --bench matches, of our kernels in a tier on a device."""

    def __init__(self, conf: Any, benchmarks: Any, regex: Any = None) -> None:
        super().__init__(conf, benchmarks, regex)
        if lock.belongs_to_a_run():  # it names its series, and may measure another device
            return
        try:
            tier, device = _settings(os.environ)
            is_wanted = wanted(Suite(Path(conf.benchmark_dir).resolve()), device, tier)
        except (UsageError, ProblemError) as error:
            raise util.UserError(str(error)) from None
        before, after = 0, 0
        for name, benchmark in list(self.items()):
            combinations = list(itertools.product(*benchmark["params"]))
            selected = self.benchmark_selection[name]
            numbers = range(1) if selected is None else selected
            chosen = [number for number in numbers if is_wanted(name, combinations[number])]
            before, after = before + len(numbers), after + len(chosen)
            if selected is not None:
                self.benchmark_selection[name] = chosen
            if not chosen:
                del self[name]
        where = f"tier {tier} on {device.upper()}"
        if before and not after:
            more = f"{TIER}=full has all test cases, {DEVICE}={' or '.join(DEVICES)} chooses the device"
            raise util.UserError(f"none of the {before} series that were asked for is in {where}: {more}")
        if after < before:
            log.info(f"Measuring {after} of {before} series: {where} ({TIER}=full: all test cases)")

    @classmethod
    def discover(cls, conf: Any, repo: Any, environments: Any, *args: Any, **kwargs: Any) -> Any:
        """Discover benchmarks as asv does.

        Raises:
            asv.util.UserError: results of the working tree were to be recorded as those of a commit.
        """
        if conf.dvcs != "none" and any(isinstance(environment, ExistingEnvironment) for environment in environments):
            raise util.UserError(
                "--python=same measures the working tree, and records nothing: leave out --set-commit-hash and other "
                "environments (`asv run COMMIT^!` builds a commit and records it)"
            )
        return super().discover(conf, repo, environments, *args, **kwargs)


def _settings(environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the tier and the device.

    Raises:
        UsageError: there is no such device.
    """
    device = environ.get(DEVICE) or host.device()
    if device not in DEVICES:
        raise UsageError(f"{DEVICE}={device!r}: {' or '.join(DEVICES)} is wanted")
    return environ.get(TIER) or "core", device


def wanted(suite: Suite, device: str, tier: str) -> Callable[[str, Sequence[str]], bool]:
    """Return a function that tells whether `asv run` measures a series, by its name and its parameters' repr.

    It does as `select.select` for benchmarks of our kernels and the machine's ceilings. A suite's other benchmarks are
    all measured.

    Raises:
        UsageError: there is no such tier.
        ProblemError: a file of the suite does not import.
    """
    selection = select.select(suite, device, tier, None)
    chosen = {(name, tuple(map(repr, params))) for name, params in (*selection.series, *selection.tracked)}
    ours = {Path(select.CEILINGS_MODULE).stem, *(str(problem.kernel) for problem in suite.problems())}
    others = {class_name for name, class_name in DEVICES.items() if name != device}

    def is_wanted(name: str, params: Sequence[str]) -> bool:
        module, class_name, method = [*name.split("."), "", ""][:3]
        if name in selection.versions:
            return (name, tuple(params)) in chosen
        return module not in ours or not (class_name in others or method == "time_cold")

    return is_wanted


# What tables show -----------------------------------------------------------------------------------------------------


def _is_na(value: object) -> bool:
    """Return whether a value is what asv prints as n/a: not measured, or not applicable. None is a failure."""
    return isinstance(value, float) and math.isnan(value)


def format_result(results: Any, benchmark: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return asv's line and table of a benchmark without what is n/a in all of a row or a column.

    A line below the table names the values of parameters that are left out. Where all is n/a there is no table.
    """
    axes = benchmark["params"]
    values = results.get_result_value(benchmark["name"], axes)
    shown = [params for params, value in zip(itertools.product(*axes), values, strict=True) if not _is_na(value)]
    if not shown:
        return "n/a", None
    used = [set(column) for column in zip(*shown, strict=True)]
    values_shown = [[value for value in axis if value in some] for axis, some in zip(axes, used, strict=True)]
    info, details = _format_result(results, {**benchmark, "params": values_shown})
    left_out = [
        f"{name} {units.listed([value.strip(_QUOTE) for value in axis if value not in some], NAMED_VALUES)}"
        for name, axis, some in zip(benchmark["param_names"], axes, used, strict=True)
        if some != set(axis)
    ]
    return info, f"{details}\nno value: {'; '.join(left_out)}" if left_out else details


def print_benchmark(
    cls: Any, machine: str, result: Any, benchmark: Mapping[str, Any], show_details: bool = False
) -> None:
    """Print a benchmark as `asv show` does, unless all of its series are n/a. --details prints those too."""
    if show_details or not all(map(_is_na, result.get_result_value(benchmark["name"], benchmark["params"]))):
        _print_benchmark(cls, machine, result, benchmark, show_details=show_details)


def unroll_result(name: str, params: Any, *values: Any) -> Iterator[tuple[Any, ...]]:
    """Yield what `asv compare` compares of a benchmark, without what is n/a."""
    return (row for row in _unroll_result(name, params, *values) if not _is_na(row[1]))


# What `--python=same` runs --------------------------------------------------------------------------------------------


def create_existing(environment: Any) -> None:
    """Hold the locks, and refuse a native library that is older than the working tree's sources.

    Raises:
        asv.util.UserError: another run measures, or the library is older.
    """
    if hasattr(environment, "_lock"):
        return
    environment._lock = hold_locks()
    try:
        for problem in config.suite(Path()).problems():
            for module in problem.functions.values():
                if isinstance(module, Module):
                    check_build(Path(module.package), str(problem.kernel))
    except (UsageError, ProblemError) as error:
        raise util.UserError(str(error)) from None
    log.info("Measuring the working tree as it is built here: nothing is recorded")


def run_existing(environment: Any, args: list[str], **kwargs: Any) -> Any:
    """Run a Python as a measuring process of the working tree, which stands for the build of a commit.

    asv gives its own variables (ASV_PROJECT, ASV_CONF_DIR) to the processes of other environments only.
    """
    folder = os.environ.get(ARTEFACTS) or str(Path.cwd())
    path = os.pathsep.join([folder, *filter(None, [os.environ.get("ASV_PYTHONPATH")])])
    variables = host.measuring_variables(os.environ.get("KV_THREADS") or None)
    environment_variables = {**environment._global_env_vars, **variables, ARTEFACTS: folder, "ASV_PYTHONPATH": path}
    return _run_existing(
        environment,
        host.measuring_command(args),
        **{**kwargs, "env": {**kwargs.get("env", os.environ), **environment_variables}},
    )


# Our pages ------------------------------------------------------------------------------------------------------------


def linked(name: str, html: str) -> str:
    """Return asv's page `name` with a link to our pages.

    Raises:
        asv.util.UserError: the page is not the one of asv 0.6.6.
    """
    anchor, link = LINKS[name]
    if html.count(anchor) != 1:
        raise util.UserError(
            f"asv's {name}: wanted one {anchor!r} to put the link to {FOLDER}/ in front of, got {html.count(anchor)}; "
            f"asv 0.6.6 has it. The pages themselves are written: open {FOLDER}/index.html"
        )
    return html.replace(anchor, link + anchor)


class KernelVelocityPages(OutputPublisher):  # type: ignore[misc]  # asv ships no types
    """Our pages in asv's site: ingest the spooled telemetry, then write the pages below asv's html_dir."""

    name = "kernel-velocity"
    button_label = "Kernel velocity"
    description = "GFLOPS of every kernel at every commit"
    order = 1

    @classmethod
    def publish(cls, conf: Any, repo: Any, benchmarks: Any, graphs: Any, revisions: Any) -> None:
        """Write the site. `asv publish` calls this in the configuration's folder.

        Raises:
            asv.util.UserError: asv prints it as one line and exits with status 1.
        """
        del repo, benchmarks, graphs, revisions
        root, html = Path.cwd(), Path(conf.html_dir).absolute()
        try:
            try:
                with lock.held(root, measures=False, wait=False):
                    problems = ingest(root, results=Path(conf.results_dir).absolute()).problems
            except lock.HeldError as error:
                problems = [f"the rounds in the spool are not ingested: {error.message}"]
            for line in problems:
                log.warning(line)
            notes = write_site(results=Path(conf.results_dir), repository=root, out=html / FOLDER)
        except KernelVelocityError as error:
            raise util.UserError(str(error)) from error
        for note in notes:
            log.warning(note)
        for name in LINKS:
            replace_text(html / name, linked(name, (html / name).read_text(encoding="utf-8")))
