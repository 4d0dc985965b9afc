"""Read results of other benchmark programs as series of the history: Google Benchmark's JSON, and nvbench's.

A series is named as ours are: `<kernel>.<Device>.time_hot` with the axes (implementation, case). Google Benchmark's
BM_Copy<float>/1024 is the case "<float>/1024" of the kernel BM_Copy, nvbench's axes are the case "N=1024,T=float".
Their implementation is "native": machine code that a commit can change. nvbench's cold times, each after a flush of the
cache, are `time_cold`.

They go into a results file of asv of their own, since asv's environment is the program. Repetitions become samples.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from asv.machine import Machine

from kernel_velocity import bounds
from kernel_velocity.errors import ResultsError, UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.names import NATIVE
from kernel_velocity.results import asv_file, lines
from kernel_velocity.results.asv_file import Params, StoredFile, check_machine
from kernel_velocity.results.reader import FORMAT_VERSION, load, read_machine

GOOGLE_BENCHMARK, NVBENCH = "google-benchmark", "nvbench"  # name asv's environment
FORMS = {GOOGLE_BENCHMARK: "what --benchmark_out of Google Benchmark wrote", NVBENCH: "what --json of nvbench wrote"}
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}  # by Google Benchmark's units
VERSION = "1"  # of every such benchmark: asv wants one, and these programs have none
NO_CASE = "default"  # of a benchmark without arguments
COLD = "nv/cold/time/gpu/"
# nvbench's tags of a time in s -> device and method of the series; the first of each that a state has counts
TAGS: Sequence[tuple[Sequence[str], str, str]] = (
    ((f"{COLD}median", f"{COLD}mean"), "Cuda", "time_cold"),
    (("nv/batch/time/gpu/mean",), "Cuda", "time_hot"),
    (("nv/cpu_only/time/cpu/mean",), "Cpu", "time_hot"),
)

Key = tuple[str, str, str]  # benchmark, implementation, case


@dataclass(frozen=True, kw_only=True)
class ForeignRun:
    """What a file of another program says: s per call of every repetition, by series. None: failed, (): n/a."""

    program: str
    began: float  # Unix time, s
    series: Mapping[Key, tuple[float, ...] | None]
    notes: tuple[str, ...] = ()


def read(program: str, path: Path) -> ForeignRun:
    """Return what a file says.

    Raises:
        UsageError: it cannot be read, is not of this format, has no benchmark, or two of its names become one.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        written = path.stat().st_mtime
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; the JSON of {program} is wanted") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON ({error}); the JSON of {program} is wanted") from None
    series: dict[Key, tuple[float, ...] | None] = {}
    names: dict[Key, str] = {}
    notes = list[str]()
    try:
        for name, key, samples in READERS[program](data):
            if names.setdefault(key, name) != name:
                raise UsageError(f"{path}: {names[key]!r} and {name!r} both become {' '.join(key)}; rename one of them")
            before = series.get(key, ())
            if samples is not None and not all(map(bounds.is_time, samples)):
                notes.append(f"{path}: {name}: no time from {bounds.LEAST:g} to {bounds.MOST:g} s; it is left out")
            else:
                series[key] = None if samples is None or before is None else (*before, *samples)
        began = _date(data.get("context")) or written
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        why = f"{type(error).__name__}: {error}"
        raise UsageError(f"{path}: not a file of {program} ({why}); see `kv ingest --help`") from None
    if not series and not notes:
        raise UsageError(f"{path}: no benchmark in it; see whether a filter left them all out")
    return ForeignRun(program=program, began=began, series=series, notes=tuple(notes))


def _date(context: Any) -> float | None:
    """Return the time that Google Benchmark's context names, Unix, s. Without an offset it is taken as UTC."""
    if not isinstance(context, dict) or not context.get("date"):
        return None
    date = datetime.fromisoformat(context["date"])
    moment = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    if not bounds.is_moment(moment):
        raise ValueError(f"a date from 1970 on is wanted, got {context['date']!r}")
    return moment


Rows = Iterator[tuple[str, Key, tuple[float, ...] | None]]  # name in the file, series, samples


def _google_benchmark(data: Any) -> Rows:
    runs: dict[str, list[Any]] = {}
    for entry in data["benchmarks"]:
        runs.setdefault(entry.get("run_name") or entry["name"], []).append(entry)
    for name, entries in runs.items():
        repetitions = [entry for entry in entries if entry.get("run_type", "iteration") == "iteration"]
        timed = repetitions or _centre(entries)
        samples: tuple[float, ...] | None
        if not timed:
            continue  # the fit of a complexity
        if any(entry.get("error_occurred") for entry in repetitions):
            samples = None
        elif any(entry.get("skipped") for entry in repetitions):
            samples = ()
        else:
            samples = tuple(map(_seconds, timed))
        yield name, _named(name), samples


def _centre(entries: Sequence[Any]) -> list[Any]:
    """Return the median of a run that was written without its repetitions, else its mean, [] without either."""
    centres = {entry.get("aggregate_name"): entry for entry in entries}
    return [centres[name] for name in ("median", "mean") if name in centres][:1]


def _seconds(entry: Any) -> float:
    return _number(entry["real_time"]) * SECONDS[entry["time_unit"]]


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError(f"a number is wanted, got {repr(value)[:60]}")
    return float(value)


def _named(name: str) -> Key:
    family = re.match(r"[^/<]*", name)
    kernel = family.group() if family else ""
    return f"{_kernel(kernel)}.Cpu.time_hot", NATIVE, name[len(kernel) :].lstrip("/") or NO_CASE


def _kernel(name: str) -> str:
    """Return a name as that of a kernel, which letters, digits and underscores make, a letter first."""
    kernel = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    return kernel if kernel[:1].isalpha() else f"bench_{kernel}"


def _nvbench(data: Any) -> Rows:
    for benchmark in data["benchmarks"]:
        for state in benchmark["states"]:
            axes = {axis["name"]: str(axis["value"]) for axis in state.get("axis_values") or ()}
            if len(data["devices"]) > 1:
                axes["Device"] = str(state.get("device"))
            case = axes["Case"] if [*axes] == ["Case"] else ",".join(f"{name}={axes[name]}" for name in axes)
            for device, method, samples in _times(state):
                key = (f"{_kernel(benchmark['name'])}.{device}.{method}", NATIVE, case or NO_CASE)
                yield f"{benchmark['name']} {state['name']}", key, samples


def _times(state: Any) -> Iterator[tuple[str, str, tuple[float, ...] | None]]:
    """Yield device, method and samples of a state's times. Without any, a cold one that failed or is n/a."""
    values = {summary["tag"]: summary for summary in state.get("summaries") or ()}
    timed = [(device, method, tag) for tags, device, method in TAGS for tag in [*filter(values.get, tags)][:1]]
    for device, method, tag in timed:
        yield device, method, (_value(values[tag]),)
    if not timed:
        yield *TAGS[0][1:], () if state.get("is_skipped") else None


def _value(summary: Any) -> float:
    value = next((datum["value"] for datum in summary["data"] if datum["name"] == "value"), None)
    return float(value) if isinstance(value, str) and "_" not in value else _number(value)  # nvbench writes texts


NEW, CHANGED, SAME = FATES = ("new", "changed", "as before")  # what becomes of a series


def record(run: ForeignRun, machine: Path, *, commit: str, date: float, facts: Mapping[str, str]) -> Counter[str]:
    """Store a run for a commit. Return how many of its series had each of FATES, and write nothing if all had the last.

    A series that the file has is replaced, and no other one changes.

    Args:
        run: what was read.
        machine: its folder in the results.
        commit: full SHA. date: of the commit, Unix time, s.
        facts: what asv records of the machine.

    Raises:
        ResultsError: a file of this commit, or asv's list of benchmarks, is there and cannot be read.
    """
    path = machine / f"{lines.stem(commit, run.program)}.json"
    fresh = StoredFile.create(path, commit=commit, date=date, environment=run.program, facts=facts)
    benchmarks: dict[str, dict[Params, tuple[float, ...] | None]] = {}
    for (benchmark, *parameters), samples in run.series.items():
        benchmarks.setdefault(benchmark, {})[tuple(map(repr, parameters))] = samples
    here = StoredFile(path) if path.exists() else None
    counts = Counter[str]()
    for benchmark, series in benchmarks.items():
        fresh.put(benchmark, VERSION, series, run.began)
        before, after = ({} if file is None else _stored(file, benchmark) for file in (here, fresh))
        counts.update(NEW if key not in before else CHANGED if before[key] != after[key] else SAME for key in series)
        if here is not None:
            if benchmark in here.benchmarks():
                here.take_series(benchmark, series.keys(), fresh)
            else:
                here.take_benchmark(benchmark, fresh)
    if counts[NEW] or counts[CHANGED]:
        _describe(machine.parent / "benchmarks.json", fresh)
        (here or fresh).save()
    return counts


def machine(results: Path, name: str | None) -> tuple[Path, dict[str, str]]:
    """Return a machine's folder, and what asv records of it. Write its machine.json where it has none.

    Args:
        results: asv's folder of results.
        name: of the machine. None: asv's name of this one.

    Raises:
        UsageError: the name cannot be that of a folder of results, or is one of ours.
    """
    facts: dict[str, str] = {}
    if name is None:
        facts = Machine.get_defaults()
        facts |= asv_file.machine_entry(Machine.get_unique_machine_name())
    called = check_machine("--machine ", name or str(facts["machine"]))
    path = results / called / "machine.json"
    if path.exists():
        facts = dict(read_machine(path.parent, []).details)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, json.dumps({**facts, "machine": called, "version": Machine.api_version}, indent=4) + "\n")
    return path.parent, facts


def _describe(path: Path, file: StoredFile) -> None:
    """Add the benchmarks of a file to asv's list of benchmarks, without which its own pages leave them out."""
    try:
        listed: dict[str, Any] = load(path) if path.exists() else {"version": FORMAT_VERSION}
    except ResultsError as error:
        raise ResultsError(f"{path}: {error}; `asv run` writes it again") from None
    for name in file.benchmarks():
        entry = {"name": name, "type": "time", "unit": "seconds", "version": VERSION, "timeout": 60.0}
        listed.setdefault(name, {**entry, "param_names": ["implementation", "case"], "params": file.axes(name)})
    replace_text(path, json.dumps(listed, indent=4) + "\n")


def _stored(file: StoredFile, benchmark: str) -> dict[Params, tuple[str, list[float] | None]]:
    """Return value and samples of each series of a benchmark. The value is text: NaN equals no NaN."""
    if benchmark not in file.benchmarks():
        return {}
    samples = file.samples(benchmark)
    return {key: (repr(value), samples[key]) for key, value in file.values(benchmark).items()}


READERS = {GOOGLE_BENCHMARK: _google_benchmark, NVBENCH: _nvbench}
