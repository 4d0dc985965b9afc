"""Select the series of the suite that `kv track` measures, and tell which of them are complete."""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernel_velocity.errors import UsageError
from kernel_velocity.names import DEVICES, NATIVE
from kernel_velocity.results.asv_file import Series, StoredSeries
from kernel_velocity.results.measurement import FIRST_LOOK
from kernel_velocity.suite.suite import CEILINGS, Suite

HOT, ERROR = ".time_hot", ".track_max_error"  # suffixes of the names of benchmarks (contract)
CEILINGS_MODULE = f"{CEILINGS}.py"  # of a suite; one without it has no ceilings


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The series to measure: timings in rounds, errors and compiler figures once."""

    series: tuple[Series, ...]  # timings
    versions: dict[str, str]  # benchmark -> its version in the suite
    errors: tuple[Series, ...] = ()  # track_max_error of the series timed hot, where the suite has it
    figures: tuple[Series, ...] = ()  # compiler figures of the timed kernels, for all devices

    @property
    def tracked(self) -> tuple[Series, ...]:
        """Errors and compiler figures."""
        return self.errors + self.figures


def expressions(series: Sequence[Series]) -> list[str]:
    """Return the regular expressions that make asv's `--bench` select exactly some series."""
    expressions = []
    for name, group in itertools.groupby(series, key=lambda key: key[0]):
        combinations = "|".join(re.escape(", ".join(map(repr, params))) for _, params in group)
        expressions.append(rf"^{re.escape(name)}\((?:{combinations})\)$")
    return expressions


def select(suite: Suite, device: str, tier: str, bench: str | None) -> Selection:
    """Return the series of a suite on a device, without the implementations of other devices.

    Args:
        device: "cpu" or "cuda". tier: "core" (two test cases of every kernel, hot) or "full" (all cases hot, and those
            that fit in caches also cold).
        bench: a regular expression that a series must match, in asv's notation ("matmul.Cpu.time_hot('native',
            '...')"). None: all series.

    Raises:
        UsageError: unknown tier, malformed expression, or no match.
    """
    if tier not in ("core", "full"):
        raise UsageError(f"TIER must be core (two test cases per kernel) or full (got {tier!r})")
    chosen = suite.core(device) if tier == "core" else None
    timings: list[Series] = []
    tracked: set[Series] = set()
    versions = {}
    for problem in suite.problems(device):
        benchmark = suite.benchmark(str(problem.kernel), device)
        methods = {"time_hot": benchmark.params}
        if tier == "full" and hasattr(benchmark, "time_cold"):
            methods["time_cold"] = benchmark.cold_params
        for method, (implementations, names) in methods.items():
            name = f"{problem.kernel}.{DEVICES[device]}.{method}"
            versions[name] = benchmark.version
            of_tier = [case for case in names if chosen is None or case in chosen[problem.name]]
            on_device = [name for name in implementations if name in problem.implementations_on(device)]
            timings += [(name, params) for params in itertools.product(on_device, of_tier)]
        if hasattr(benchmark, "error_params"):
            name = f"{problem.kernel}.{DEVICES[device]}{ERROR}"
            versions[name] = benchmark.version
            tracked |= {(name, params) for params in itertools.product(*benchmark.error_params)}
    series = tuple(matching(timings, bench))
    twins = (_twin(key, HOT, ERROR) for key in series)
    errors = tuple(error for error in twins if error in tracked)
    figures = dict(_figures(suite, series, all_kernels=bench is None))
    versions |= {name: version for (name, _), version in figures.items()}
    return Selection(series=series, versions=versions, errors=errors, figures=tuple(figures))


def _figures(suite: Suite, series: Iterable[Series], *, all_kernels: bool) -> Iterator[tuple[Series, str]]:
    """Yield the figures of code, with versions, of the kernels whose native code is among `series`, or of all.

    Figures of every device are included: a machine without a GPU can tell how its CUDA code changed.
    """
    kernels = dict.fromkeys(name.partition(".")[0] for name, params in series if params[0] == NATIVE)
    if all_kernels:
        kernels |= dict.fromkeys(str(problem.kernel) for problem in suite.problems())
    for kernel, (device, class_name) in itertools.product(kernels, DEVICES.items()):
        benchmark = suite.figures(kernel, device)
        for figure, params, version in benchmark.figures_of_code() if hasattr(benchmark, "figures_of_code") else ():
            yield (f"{kernel}.{class_name}.track_{figure}", params), version


def of_lanes(lanes: Iterable[str], bench: str | None) -> str:
    """Return the regular expression of the series of some lanes, of those that `bench` matches."""
    by_kernel = itertools.groupby(sorted(name.split(" ", 1) for name in lanes), key=lambda parts: parts[0])
    kernels = [
        rf"{re.escape(kernel)}\..*, (?:{'|'.join(re.escape(repr(case)) for _, case in group)})"
        for kernel, group in by_kernel
    ]
    matching = f"(?=.*(?:{bench}))" if bench else ""
    return rf"^{matching}(?:{'|'.join(kernels)})\)$"


def _twin(series: Series, method: str, other: str) -> Series:
    """Return the series of another method. The name of a series that does not end in `method` exists nowhere."""
    name, params = series
    return f"{name.removesuffix(method)}{other}", params


def matching(series: Sequence[Series], bench: str | None) -> list[Series]:
    """Return the series that a regular expression matches in asv's notation, all for None.

    Raises:
        UsageError: it is malformed, or matches none.
    """
    if bench is None:
        return list(series)
    try:
        expression = re.compile(bench)
    except re.error as error:
        raise UsageError(f"BENCH={bench!r} is not a regular expression: {error}") from None
    matches = [key for key in series if expression.search(f"{key[0]}({', '.join(map(repr, key[1]))})")]
    if not matches:
        names = ", ".join(dict.fromkeys(name for name, _ in series))
        raise UsageError(f"BENCH={bench!r} matches no series; there are {names}, of implementations and test cases")
    return matches


def is_measured(
    stored: Mapping[Series, StoredSeries],
    wanted: Iterable[Series],
    rounds: int,
    *,
    failures: Mapping[Series, int],
    other_method: Container[Series],
    settled: Container[Series] = (),
) -> bool:
    """Return whether a commit's stored results leave nothing to measure.

    Every series must have its `rounds`, or enough, or a recorded reason: asv stores the same null for a series that
    does not apply and for one that an earlier run left out. A failed series is complete, unless every implementation of
    its test case failed, which is the fault of the build or the machine.

    Args:
        stored: asv's values. wanted: the run's series. rounds: of a complete series.
        failures: number of recorded failures of a series, inapplicable ones included.
        other_method: series whose value was timed by another method than this run's.
        settled: series whose rounds agree, so that fewer are enough (`measurement.is_enough`).
    """
    for series in wanted:
        value = stored.get(series)
        if value is None or series in other_method:
            return False
        if value.failed and not failures.get(series, 0):  # no reason: neither it nor its death could be written
            return False
        if value.failed:
            name, params = series
            same_case = [other for key, other in stored.items() if (key[0], key[1][-1]) == (name, params[-1])]
            if all(other.failed for other in same_case):
                return False
        elif value.value is None:
            if not failures.get(series, 0):
                return False
        elif series not in settled and (value.count or 0) + failures.get(series, 0) < (
            min(rounds, FIRST_LOOK) if failures.get(series, 0) else rounds  # one that failed is left out from there on
        ):
            return False
    return True


def is_tracked(
    stored: Mapping[Series, StoredSeries], wanted: Iterable[Series], *, failures: Container[Series] = ()
) -> bool:
    """Return whether a commit's stored results leave no error or compiler figure to take.

    A series is complete if it has a value, has failed, or is among `failures` (which includes inapplicable ones). An
    error is complete too if the timing of the same call has no value, because that call fails or does not apply.
    """
    for series in wanted:
        value, hot = stored.get(series), stored.get(_twin(series, ERROR, HOT))
        if value is None:
            return False
        complete = value.value is not None or value.failed or series in failures
        if not complete and (hot is None or hot.value is not None):
            return False
    return True


def wrong_errors(stored: Mapping[Series, StoredSeries], wanted: Iterable[Series]) -> list[Series]:
    """Return those of `wanted` (errors) that failed although the same call was timed. No other line reports them."""
    wrong = []
    for series in wanted:
        value, hot = stored.get(series), stored.get(_twin(series, ERROR, HOT))
        if value is not None and value.failed and hot is not None and hot.value is not None:
            wrong.append(series)
    return wrong
