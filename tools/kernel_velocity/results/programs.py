"""Read what files of other benchmark programs say: Google Benchmark's JSON, and nvbench's. `foreign` records it.

A series is named as ours are: `<kernel>.<Device>.time_hot` with the axes (implementation, case). Google Benchmark's
BM_Copy<float>/1024 is the case "<float>/1024" of the kernel BM_Copy, nvbench's axes are the case "N=1024,T=float".
Their implementation is "native": machine code that a commit can change. nvbench's cold times, each after a flush of the
cache, are `time_cold`.

Each program has one estimator that all of its versions write (`ESTIMATORS`). Only where a file lacks it, another one
stands in, which makes another series of it. So an upgrade of the program alone changes no series.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from kernel_velocity import bounds
from kernel_velocity.names import NATIVE
from kernel_velocity.results.lines import Series

GOOGLE_BENCHMARK, NVBENCH = "google-benchmark", "nvbench"  # name asv's environment
FORMS = {GOOGLE_BENCHMARK: "what --benchmark_out of Google Benchmark wrote", NVBENCH: "what --json of nvbench wrote"}
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}  # by Google Benchmark's units
NO_CASE = "default"  # of a benchmark without arguments
# The estimators of a file, the one that counts first. Google Benchmark's repetitions are reduced to their median, too,
# and nvbench has written the mean from its beginning, the median since 2026.
ESTIMATORS = {GOOGLE_BENCHMARK: ("median", "mean"), NVBENCH: ("mean", "median")}
# nvbench's measurements: what their tags begin with, and those of their times; device and method of the series
MEASUREMENTS = (
    ("nv/cold", "time/gpu", "Cuda", "time_cold"),
    ("nv/batch", "time/gpu", "Cuda", "time_hot"),
    ("nv/cpu_only", "time/cpu", "Cpu", "time_hot"),
)
_AGGREGATES = ("mean", "median", "stddev", "cv")  # ends of names in files before version 1.4.1
DEBUG_BUILD, SCALING = "debug_build", "scaling"  # flags
_FIT = "fit"  # of a complexity: no time
_ERROR = "Unexpected error"  # begins nvbench's reason where the benchmark raised an exception


class Row(NamedTuple):
    """One sample in a file, or why there is none."""

    name: str  # in the file
    series: Series
    estimator: str = ""
    seconds: float = 0.0
    samples: int = 1
    calls: int = 1  # of a sample
    repetition: object = None
    reason: str | None = None  # None: there is a sample
    skipped: bool = False  # no failure: it does not apply


class Head(NamedTuple):
    """What a file says of its run."""

    began: float | None = None  # Unix time, s
    host: str | None = None
    facts: Mapping[str, str] = {}
    flags: tuple[str, ...] = ()


# Google Benchmark -----------------------------------------------------------------------------------------------------


def _google_head(data: Any) -> Head:
    context = data.get("context")
    if not isinstance(context, dict):
        return Head()
    version, build, processors = (context.get(key) for key in ("library_version", "library_build_type", "num_cpus"))
    facts = {GOOGLE_BENCHMARK: version, "library build": build, "num_cpu": processors and str(processors)}
    for fact, key in (("cpu scaling", "cpu_scaling_enabled"), ("aslr", "aslr_enabled")):
        facts[fact] = {True: "enabled", False: "disabled"}.get(context.get(key, ""))
    warnings = {DEBUG_BUILD: build == "debug", SCALING: context.get("cpu_scaling_enabled") is True}
    return Head(
        began=_date(context.get("date")),
        host=context.get("host_name") if isinstance(context.get("host_name"), str) else None,
        facts={fact: text for fact, text in facts.items() if isinstance(text, str) and text},
        flags=tuple(flag for flag, holds in warnings.items() if holds),
    )


def _date(text: Any) -> float | None:
    """Return the time that Google Benchmark's context names, Unix, s. Without an offset it is taken as UTC."""
    if not text:
        return None
    date = datetime.fromisoformat(text)
    moment = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    if not bounds.is_moment(moment):
        raise ValueError(f"a date from 1970 on is wanted, got {text!r}")
    return moment


def _google_rows(data: Any) -> Iterator[Row]:
    entries = data["benchmarks"]
    counts = Counter(entry["name"] for entry in entries)
    runs: dict[str, dict[str, list[Any]]] = {}  # name -> aggregate, "" for a repetition -> entries
    for entry in entries:
        name, aggregate = _run(entry, counts)
        runs.setdefault(name, {}).setdefault(aggregate, []).append(entry)
    for name, parts in runs.items():
        if "" in parts:
            estimator = ESTIMATORS[GOOGLE_BENCHMARK][0]  # the value of a series is the median of its samples
        else:  # the run was written without its repetitions; the fit of a complexity is no time
            estimator = next((name for name in ESTIMATORS[GOOGLE_BENCHMARK] if name in parts), "")
        for number, entry in enumerate(parts.get("") or parts.get(estimator, [])):
            numbered = number if len(parts) > 1 else None  # by old versions, which count no repetitions
            yield _google_row(name, entry, estimator, _whole(entry.get("repetition_index"), numbered))


def _run(entry: Any, counts: Mapping[str, int]) -> tuple[str, str]:
    """Return the run that an entry belongs to, and which aggregate of it the entry is, "" for a repetition.

    Files before version 1.4.1 tell it by the name alone, which ends with the aggregate's. A counter is a number.
    """
    name = entry["name"]
    if isinstance(entry.get("run_type"), str):
        run = entry.get("run_name")
        aggregate = "" if entry["run_type"] == "iteration" else str(entry.get("aggregate_name"))
        return run if isinstance(run, str) else name.removesuffix(f"_{aggregate}"), aggregate
    if "real_time" not in entry and not {"big_o", "rms"}.isdisjoint(entry):
        return name, _FIT
    run, _, end = name.rpartition("_")
    is_aggregate = counts.get(f"{run}_mean") and counts.get(f"{run}_stddev")
    if is_aggregate or (end in _AGGREGATES and counts.get(run, 0) > 1):
        return run, end
    return name, ""


def _google_row(name: str, entry: Any, estimator: str, repetition: int | None) -> Row:
    series = _named(name)
    for field, why in (("error_occurred", "error_message"), ("skipped", "skip_message")):
        if entry.get(field) is True:  # a counter of this name is a number
            return Row(name, series, repetition=repetition, reason=str(entry.get(why, "")), skipped=field == "skipped")
    seconds = _number(entry["real_time"]) * SECONDS[entry["time_unit"]]
    return Row(name, series, estimator, seconds, calls=_whole(entry.get("iterations"), 1), repetition=repetition)


def _whole(value: Any, otherwise: Any) -> Any:
    """Return a whole number of a file, from 0 on, or what stands in for it."""
    return value if type(value) is int and value >= 0 else otherwise


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError(f"a number is wanted, got {repr(value)[:60]}")
    return float(value)


def _named(name: str) -> Series:
    family = re.match(r"[^/<]*", name)
    kernel = family.group() if family else ""
    return f"{_kernel(kernel)}.Cpu.time_hot", NATIVE, name[len(kernel) :].lstrip("/") or NO_CASE


def _kernel(name: str) -> str:
    """Return a name as that of a kernel, which letters, digits and underscores make, a letter first."""
    kernel = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    return kernel if kernel[:1].isalpha() else f"bench_{kernel}"


# nvbench --------------------------------------------------------------------------------------------------------------


def _nvbench_head(data: Any) -> Head:
    measured = {state.get("device") for benchmark in data["benchmarks"] for state in benchmark["states"] or ()}
    gpus = [str(gpu.get("name")) for gpu in data["devices"] or () if gpu.get("id") in measured and gpu.get("name")]
    version = (((data.get("meta") or {}).get("version") or {}).get(NVBENCH) or {}).get("string")
    facts = {NVBENCH: version, "gpu": " | ".join(gpus)}
    return Head(facts={fact: text for fact, text in facts.items() if isinstance(text, str) and text})


def _nvbench_rows(data: Any) -> Iterator[Row]:
    for benchmark in data["benchmarks"]:
        for state in benchmark["states"] or ():
            axes = {axis["name"]: str(axis["value"]) for axis in state.get("axis_values") or ()}
            if len(data["devices"] or ()) > 1:
                axes["Device"] = str(state.get("device"))
            case = axes["Case"] if [*axes] == ["Case"] else ",".join(f"{name}={axes[name]}" for name in axes)
            for device, method, times in _times(state):
                series = f"{_kernel(benchmark['name'])}.{device}.{method}", NATIVE, case or NO_CASE
                yield Row(f"{benchmark['name']} {state['name']}", series, **times)


def _times(state: Any) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield device, method and sample of a state's measurements. Without any, why the cold one has none."""
    values = {summary["tag"]: summary for summary in state.get("summaries") or ()}
    timed = [
        (device, method, {"estimator": estimator, **_sample(values, prefix, f"{prefix}/{kind}/{estimator}")})
        for prefix, kind, device, method in MEASUREMENTS
        for estimator in [name for name in ESTIMATORS[NVBENCH] if f"{prefix}/{kind}/{name}" in values][:1]
    ]
    is_skipped = bool(state.get("is_skipped"))
    if timed and not is_skipped:
        yield from timed
        return
    reason = str(state.get("skip_reason") or ("" if is_skipped else "no time in the file"))
    default = MEASUREMENTS[-1 if state.get("device") is None else 0][2:]
    for device, method in [sample[:2] for sample in timed] or [default]:
        yield device, method, {"reason": reason, "skipped": is_skipped and not reason.startswith(_ERROR)}


def _sample(values: Mapping[str, Any], prefix: str, tag: str) -> dict[str, Any]:
    samples = values.get(f"{prefix}/sample_size")
    count = 1 if samples is None else max(int(_value(samples)), 1)
    return {"seconds": _value(values[tag]), "samples": count}


def _value(summary: Any) -> float:
    value = next((datum["value"] for datum in summary["data"] if datum["name"] == "value"), None)
    return float(value) if isinstance(value, str) and "_" not in value else _number(value)  # nvbench writes texts


READERS: Mapping[str, tuple[Callable[[Any], Head], Callable[[Any], Iterator[Row]]]] = {
    GOOGLE_BENCHMARK: (_google_head, _google_rows),
    NVBENCH: (_nvbench_head, _nvbench_rows),
}
