"""What `make track` measures: which commits, and which series of the suite."""

from __future__ import annotations

import importlib
import itertools
import re
import subprocess
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import cases
from tools.errors import HistoryError, UsageError
from tools.joining import StoredSeries
from tools.stored_file import Series
from tools.working_tree import BUILT_FROM

DEFAULT_COMMITS = 3
HOT, ERROR = ".time_hot", ".track_max_error"  # how the names of benchmarks end (contract)
EXAMPLES = "for example RANGE=HEAD~3..HEAD for three commits, RANGE=HEAD for one"
_ASKS_FOR_SET = re.compile(r"\.\.|\^[!@-]|^\^")  # what makes a git revision a set of commits


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The series to measure: times in rounds; errors, and the compilers' figures, once."""

    series: tuple[Series, ...]
    versions: dict[str, str]  # benchmark -> its version in the suite
    errors: tuple[Series, ...] = ()  # track_max_error of what is timed hot, where the suite tracks it
    figures: tuple[Series, ...] = ()  # of the code of the kernels that are timed, for all devices

    def expressions(self) -> list[str]:
        """Return the regular expressions that make asv's `--bench` select exactly the timed series."""
        return _expressions(self.series)

    @property
    def tracked(self) -> tuple[Series, ...]:
        """What is no time."""
        return self.errors + self.figures

    def tracked_expressions(self) -> list[str]:
        """Return those that select exactly what is no time."""
        return _expressions(self.tracked)


def _expressions(series: Sequence[Series]) -> list[str]:
    found = []
    for name, group in itertools.groupby(series, key=lambda one: one[0]):
        combinations = "|".join(re.escape(", ".join(map(repr, params))) for _, params in group)
        found.append(rf"^{re.escape(name)}\((?:{combinations})\)$")
    return found


def git(repository: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run git in a repository; the caller looks at the status.

    Raises:
        HistoryError: there is no git.
    """
    try:
        return subprocess.run(["git", *args], cwd=repository, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise HistoryError("git is not installed: the commits to measure are taken from a git clone") from None


def check_clone(repository: Path) -> list[str]:
    """Return what a user should know about the clone, one line each.

    Raises:
        HistoryError: no git repository, or one without a commit.
    """
    asked = git(repository, "rev-parse", "--git-dir")
    if asked.returncode != 0:
        raise HistoryError(_refusal(repository, asked.stderr))
    if git(repository, "rev-parse", "--verify", "-q", "HEAD").returncode != 0:
        raise HistoryError(f"{repository.absolute()}: the repository has no commit yet; commit something to measure")
    notes = []
    if git(repository, "rev-parse", "--is-shallow-repository").stdout.strip() == "true":
        count = git(repository, "rev-list", "--count", "HEAD").stdout.strip()
        notes.append(f"shallow clone: only {count} commits are known here; `git fetch --unshallow` brings the rest")
    changed = git(repository, "status", "--porcelain", "--", *BUILT_FROM).stdout.splitlines()
    if changed:
        name = changed[0][3:]
        notes.append(f"uncommitted changes are not measured, commits are: {name}{' and more' if changed[1:] else ''}")
    return notes


def _refusal(repository: Path, said: str) -> str:
    """Return why git does not take a folder for a repository, in its words where it is one (another user's)."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if not lines or "not a git repository" in lines[0]:
        return f"{repository.absolute()}: no git repository; `make track` measures commits of a clone"
    cures = [f"; run `{line}`" for line in lines if line.startswith("git config ")]
    return f"{repository.absolute()}: git says: {lines[0]}{''.join(cures)}"


def commits(repository: Path, wanted: str | None, *, most: int = DEFAULT_COMMITS) -> tuple[str, ...]:
    """Return the commits to measure, newest first, along first parents (asv's trends show no others).

    Args:
        repository: a folder of the clone. wanted: a git range, or revisions for themselves alone; None: the
            last commits that changed what kernels are built from, `most` of them at most.

    Raises:
        UsageError: `wanted` names no commit.
    """
    if wanted is None:
        found = _listed(repository, f"-{most}", "HEAD", "--", *BUILT_FROM)
        return found or _listed(repository, "-1", "HEAD", "--")
    words = wanted.split()
    alone = not any(map(_ASKS_FOR_SET.search, words))
    if any(word.startswith("-") for word in words):
        raise UsageError(f"RANGE={wanted!r} is an option of git; a range is wanted, {EXAMPLES}")
    found = _listed(repository, *(["--no-walk"] if alone else []), *words, "--")
    if not found:
        raise UsageError(f"RANGE={wanted!r} names no commit of this repository; a git range is wanted, {EXAMPLES}")
    return found


def newest(repository: Path, most: int) -> tuple[str, ...]:
    """Return the newest commits along the first parents of HEAD, newest first, whatever they changed."""
    return _listed(repository, f"-{most}", "HEAD", "--")


def _listed(repository: Path, *args: str) -> tuple[str, ...]:
    done = git(repository, "rev-list", "--first-parent", *args)
    return tuple(done.stdout.split()) if done.returncode == 0 else ()


def select(device: str, tier: str, bench: str | None) -> Selection:
    """Return the series of the suite on a device, without implementations that can exist on another one only.

    Args:
        device: "cpu" or "cuda". tier: "core" (two test cases of every kernel, hot) or "full" (all of them hot, and
            those that caches hold cold, too). bench: a regular
            expression that a series, as asv writes it ("matmul.Cpu.time_hot('native', '...')"), must match;
            None: all.

    Raises:
        UsageError: no such tier, not a regular expression, or nothing matches.
    """
    if tier not in ("core", "full"):
        raise UsageError(f"TIER={tier!r}; there are core (two test cases per kernel) and full")
    chosen = cases.core(device) if tier == "core" else None
    found: list[Series] = []
    tracked: set[Series] = set()
    versions = {}
    for problem in cases.problems(device):
        suite = getattr(importlib.import_module(f"benchmarks.{problem.kernel}"), cases.DEVICES[device])
        timed = {"time_hot": suite.params}
        if tier == "full" and hasattr(suite, "time_cold"):
            timed["time_cold"] = suite.cold_params
        for method, (implementations, names) in timed.items():
            name = f"{problem.kernel}.{cases.DEVICES[device]}.{method}"
            versions[name] = suite.version
            kept = [case for case in names if chosen is None or case in chosen[problem.name]]
            able = [one for one in implementations if one in cases.implementations_on(device)]
            found += [(name, params) for params in itertools.product(able, kept)]
        if hasattr(suite, "error_params"):
            name = f"{problem.kernel}.{cases.DEVICES[device]}{ERROR}"
            versions[name] = suite.version
            tracked |= {(name, params) for params in itertools.product(*suite.error_params)}
    series = tuple(_matching(found, bench))
    twins = (_twin(one, HOT, ERROR) for one in series)
    errors = tuple(error for error in twins if error in tracked)
    figures = dict(_figures(series, all_kernels=bench is None))
    versions |= {name: version for (name, _), version in figures.items()}
    return Selection(series=series, versions=versions, errors=errors, figures=tuple(figures))


def _figures(series: Iterable[Series], *, all_kernels: bool) -> Iterator[tuple[Series, str]]:
    """Yield the compilers' figures of the kernels whose own code is among some series, or of all; with their versions.

    For all devices, whichever is here: a machine without a GPU sees what became of its code.
    """
    kernels = dict.fromkeys(name.partition(".")[0] for name, params in series if params[0] == cases.NATIVE)
    if all_kernels:
        kernels |= dict.fromkeys(str(problem.kernel) for problem in cases.problems())
    for kernel, (device, class_name) in itertools.product(kernels, cases.DEVICES.items()):
        suite: Any = getattr(importlib.import_module(f"benchmarks.{kernel}"), class_name, None)
        for figure in cases.FIGURES[device] if hasattr(suite, "figure_params") else ():
            name = f"{kernel}.{class_name}.track_{figure}"
            yield from (((name, params), suite.version) for params in itertools.product(*suite.figure_params))


def _twin(series: Series, method: str, other: str) -> Series:
    """Return the same series of another method; of a series that is not of `method`, one that exists nowhere."""
    name, params = series
    return f"{name.removesuffix(method)}{other}", params


def _matching(series: Sequence[Series], bench: str | None) -> list[Series]:
    if bench is None:
        return list(series)
    try:
        expression = re.compile(bench)
    except re.error as error:
        raise UsageError(f"BENCH={bench!r} is not a regular expression: {error}") from None
    found = [item for item in series if expression.search(f"{item[0]}({', '.join(map(repr, item[1]))})")]
    if not found:
        names = ", ".join(dict.fromkeys(name for name, _ in series))
        raise UsageError(f"BENCH={bench!r} matches no series; there are {names}, of implementations and test cases")
    return found


def is_measured(
    stored: Mapping[Series, StoredSeries],
    wanted: Iterable[Series],
    rounds: int,
    *,
    told: Mapping[Series, int],
    other_method: Container[Series],
) -> bool:
    """Return whether a commit's stored results leave nothing to measure.

    Every series must have its `rounds`, or a reason why not: asv stores "does not apply" and "was not asked for" alike.
    A failure is not tried again by itself; where every implementation failed, the build or the machine was to blame,
    and it is.

    Args:
        stored: what asv stores. wanted: the series asked for. rounds: how many each should have.
        told: how many rounds of a series said why they have no value (failed, or do not apply).
        other_method: series whose value was timed by another method than this run's.
    """
    for series in wanted:
        item = stored.get(series)
        if item is None or series in other_method:
            return False
        if item.failed:
            same_case = [found for key, found in stored.items() if (key[0], key[1][-1]) == (series[0], series[1][-1])]
            if all(found.failed for found in same_case):
                return False
        elif (item.value is not None and (item.count or 0) + told.get(series, 0) < rounds) or (
            item.value is None and not told.get(series, 0)
        ):
            return False
    return True


def is_tracked(
    stored: Mapping[Series, StoredSeries], wanted: Iterable[Series], *, told: Container[Series] = ()
) -> bool:
    """Return whether a commit's stored results leave no error or figure to track.

    Every one of `wanted` must have a value, have failed, or be one of `told`, which said why they have none; or else
    the time of the same call (an error has one) must have none: what does not apply or fails there does here. What
    failed is not tried again by itself.
    """
    for series in wanted:
        item, hot = stored.get(series), stored.get(_twin(series, ERROR, HOT))
        if item is None:
            return False
        settled = item.value is not None or item.failed or series in told
        if not settled and (hot is None or hot.value is not None):
            return False
    return True


def wrong_errors(stored: Mapping[Series, StoredSeries], wanted: Iterable[Series]) -> list[Series]:
    """Return those of `wanted` (errors) that failed although the same call has a time: nobody else names them."""
    found = []
    for series in wanted:
        item, hot = stored.get(series), stored.get(_twin(series, ERROR, HOT))
        if item is not None and item.failed and hot is not None and hot.value is not None:
            found.append(series)
    return found
