"""What `make track` measures: which commits, and which series of the suite."""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernel_velocity.errors import UsageError
from kernel_velocity.harness import cases
from kernel_velocity.harness.suite import Suite
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.join import StoredSeries

HOT, ERROR = ".time_hot", ".track_max_error"  # how the names of benchmarks end (contract)


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


def select(suite: Suite, device: str, tier: str, bench: str | None) -> Selection:
    """Return the series of a suite on a device, without implementations that can exist on another one only.

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
    chosen = suite.core(device) if tier == "core" else None
    found: list[Series] = []
    tracked: set[Series] = set()
    versions = {}
    for problem in suite.problems(device):
        timed_by = suite.benchmark(str(problem.kernel), device)
        timed = {"time_hot": timed_by.params}
        if tier == "full" and hasattr(timed_by, "time_cold"):
            timed["time_cold"] = timed_by.cold_params
        for method, (implementations, names) in timed.items():
            name = f"{problem.kernel}.{cases.DEVICES[device]}.{method}"
            versions[name] = timed_by.version
            kept = [case for case in names if chosen is None or case in chosen[problem.name]]
            able = [one for one in implementations if one in cases.implementations_on(device)]
            found += [(name, params) for params in itertools.product(able, kept)]
        if hasattr(timed_by, "error_params"):
            name = f"{problem.kernel}.{cases.DEVICES[device]}{ERROR}"
            versions[name] = timed_by.version
            tracked |= {(name, params) for params in itertools.product(*timed_by.error_params)}
    series = tuple(_matching(found, bench))
    twins = (_twin(one, HOT, ERROR) for one in series)
    errors = tuple(error for error in twins if error in tracked)
    figures = dict(_figures(suite, series, all_kernels=bench is None))
    versions |= {name: version for (name, _), version in figures.items()}
    return Selection(series=series, versions=versions, errors=errors, figures=tuple(figures))


def _figures(suite: Suite, series: Iterable[Series], *, all_kernels: bool) -> Iterator[tuple[Series, str]]:
    """Yield the compilers' figures of the kernels whose own code is among some series, or of all; with their versions.

    For all devices, whichever is here: a machine without a GPU sees what became of its code.
    """
    kernels = dict.fromkeys(name.partition(".")[0] for name, params in series if params[0] == cases.NATIVE)
    if all_kernels:
        kernels |= dict.fromkeys(str(problem.kernel) for problem in suite.problems())
    for kernel, (device, class_name) in itertools.product(kernels, cases.DEVICES.items()):
        timed_by = suite.benchmark(kernel, device)
        for figure in cases.FIGURES[device] if hasattr(timed_by, "figure_params") else ():
            name = f"{kernel}.{class_name}.track_{figure}"
            yield from (((name, params), timed_by.version) for params in itertools.product(*timed_by.figure_params))


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
