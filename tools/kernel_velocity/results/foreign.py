"""Record what other benchmark programs measured, whose files `programs` reads, as series of the history.

They go into a results file of asv of their own, since asv's environment is the program. What the files of one command
say is one measurement: all rows of one name are samples of one series, in whichever of these files they stand, and
replace what was recorded of the series before.

A sample is a round, in the telemetry beside the results file. Its method is program and estimator, and whether the
build is a debug one: values of two methods are not compared. What the program warns of is a flag of the round, the
program's version a fact of the session, and why a benchmark has no time a failure.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asv.machine import Machine

from kernel_velocity import bounds, documents, progress, units
from kernel_velocity.engine.telemetry import Round
from kernel_velocity.errors import ResultsError, UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.results import asv_file, lines
from kernel_velocity.results.asv_file import Params, StoredFile, check_machine
from kernel_velocity.results.lines import FAILURES, ROUNDS, Failure, Series
from kernel_velocity.results.programs import DEBUG_BUILD, READERS, Head, Row
from kernel_velocity.results.reader import FORMAT_VERSION, load, read_machine
from kernel_velocity.results.sessions import SessionFacts

VERSION = "1"  # of every such benchmark: asv wants one, and these programs have none
_FAILURES_NAMED = 3  # before a note only counts them
_TIMES_NAMED = 4  # of one series, before a note only counts them
_APART = 0.01  # s between the rounds of a file, which dates none of them: equal ones would count once


@dataclass(frozen=True, kw_only=True)
class ForeignRun:
    """What the files of one program say, as one measurement."""

    program: str
    paths: tuple[Path, ...]
    series: Mapping[Series, tuple[Round, ...] | Failure]
    sessions: tuple[SessionFacts, ...]
    hosts: Mapping[str, Path]  # that the files name, with a file of each
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class _File:
    path: Path
    launch: str  # digest of the contents
    head: Head
    began: float  # Unix time, s
    rows: Sequence[Row]


def read(program: str, paths: Sequence[Path]) -> ForeignRun:
    """Return what files say. A file that is given twice counts once.

    Raises:
        UsageError: one of them cannot be read, is not of this format, has no benchmark, two of their names become one,
            or a series was measured by two methods.
    """
    files: dict[str, _File] = {}
    by_series: dict[Series, list[tuple[_File, Row]]] = {}
    for path in progress.counted("reading files", paths):
        file = _read_file(program, path)
        if files.setdefault(file.launch, file) is file:
            for row in file.rows:
                by_series.setdefault(row.series, []).append((file, row))
    notes = [*_repeated(by_series.values())]
    series: dict[Series, tuple[Round, ...] | Failure] = {}
    for key, several in by_series.items():
        outcome = _outcome(program, key, several)
        if isinstance(outcome, str):
            notes.append(outcome)
        else:
            series[key] = outcome
    return ForeignRun(
        program=program,
        paths=tuple(file.path for file in files.values()),
        series=series,
        sessions=tuple(SessionFacts(began=file.began, facts=file.head.facts) for file in files.values()),
        hosts={file.head.host: file.path for file in files.values() if file.head.host},
        notes=(*notes, *_without_time(series)),
    )


def _read_file(program: str, path: Path) -> _File:
    wanted = f"the JSON of {program} is wanted"
    try:
        text = documents.text_of(path)
        written = path.stat().st_mtime
        data = json.loads(text, object_pairs_hook=_first_of_each)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; {wanted}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON ({error}); {wanted}") from None
    head_of, rows_of = READERS[program]
    try:
        if not isinstance(data, dict):
            raise TypeError(f"an object is wanted, got a {type(data).__name__}")
        head, rows = head_of(data), list(rows_of(data))
        for row in rows:
            row.name.encode()  # which half of a surrogate pair has no bytes for
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        why = f"{type(error).__name__}: {error}"
        raise UsageError(f"{path}: not a file of {program} ({why}); see `kv ingest --help`") from None
    if not rows:
        raise UsageError(f"{path}: no benchmark in it; see whether a filter left them all out")
    launch, began = hashlib.sha256(text.encode()).hexdigest()[:8], head.began or written
    return _File(path=path, launch=launch, head=head, began=round(began, 2), rows=rows)


def _first_of_each(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object. Google Benchmark writes its fields before a user's counters, which may have the same names."""
    return dict(reversed(pairs))


def _outcome(program: str, series: Series, several: Sequence[tuple[_File, Row]]) -> tuple[Round, ...] | Failure | str:
    """Return what became of a series, from its rows and their files. A note, where no time of its own can be right."""
    first_file, first = several[0]
    methods: dict[str, Path] = {}
    for file, row in several:
        if row.name != first.name:
            both = f"{first.name!r} and {row.name!r} both become {' '.join(series)}"
            raise UsageError(f"{file.path}: {both}; rename one of them")
        if row.reason is None:
            methods.setdefault(_method(program, file, row), file.path)
    without = min(
        ((file, row) for file, row in several if row.reason is not None), key=lambda pair: pair[1].skipped, default=None
    )
    if without is not None:
        file, row = without
        reason = row.reason or f"{program} gives no reason"
        return Failure(benchmark=series[0], params=series[1:], time=file.began, error=reason, skipped=row.skipped)
    if len(methods) > 1:
        first_method, other = [*methods.items()][:2]
        raise UsageError(
            f"{other[1]}: {first.name}: measured as {other[0]}, and as {first_method[0]} in {first_method[1]}: "
            "samples of a series have one method; leave out one of the files"
        )
    if not all(bounds.is_time(row.seconds) for _, row in several):
        return f"{first_file.path}: {first.name}: no time from {bounds.LEAST:g} to {bounds.MOST:g} s; it is left out"
    return tuple(_round(program, file, row, file.began + number * _APART) for number, (file, row) in enumerate(several))


def _method(program: str, file: _File, row: Row) -> str:
    return f"{program} {row.estimator}" + (", debug build" if DEBUG_BUILD in file.head.flags else "")


def _round(program: str, file: _File, row: Row, time: float) -> Round:
    return Round(
        benchmark=row.series[0],
        params=row.series[1:],
        time=time,
        estimate=row.seconds,
        n=row.samples,
        batch=row.calls,
        spent=row.samples * row.calls * row.seconds,
        stop=program,
        method=_method(program, file, row),
        launch=file.launch,
        flags=file.head.flags,
    )


def _repeated(series: Iterable[Sequence[tuple[_File, Row]]]) -> Iterator[str]:
    """Yield a note on rows of one name that are no repetitions of each other, if there are any."""
    repeated = [several for several in series if max(Counter(row.repetition for _, row in several).values()) > 1]
    if repeated:
        files, rows = zip(*repeated[0], strict=True)
        times = [units.value(row.seconds, units.SECONDS) for row in rows if row.reason is None]
        where = f"{units.count(len(set(files)), 'file')} ({units.listed(times, _TIMES_NAMED)})"
        more = f", and likewise {units.count(len(repeated) - 1, 'more name')}" if len(repeated) > 1 else ""
        yield f"{rows[0].name}: {len(rows)} rows in {where} are samples of one series{more}"


def _without_time(series: Mapping[Series, tuple[Round, ...] | Failure]) -> Iterator[str]:
    """Yield a note on what failed, and one on what was skipped: a series that was never measured has no page."""
    failures = [outcome for outcome in series.values() if isinstance(outcome, Failure)]
    for word, several in (
        ("failed", [failure for failure in failures if not failure.skipped]),
        ("skipped", [failure for failure in failures if failure.skipped]),
    ):
        texts = [f"{failure.benchmark} {' '.join(failure.params)} ({failure.error})" for failure in several]
        if texts:
            yield f"{word}: {units.listed(texts, _FAILURES_NAMED)}"


def check_hosts(runs: Iterable[ForeignRun]) -> None:
    """Refuse files that another host wrote, where nobody names the machine.

    Raises:
        UsageError: there is one.
    """
    here = platform.node()
    for host, path in (pair for run in runs for pair in run.hosts.items()):
        if _short(host) != _short(here):
            name = host if asv_file.MACHINE.fullmatch(host) else "bench-2"
            raise UsageError(
                f"{path}: context, host_name: {here!r}, this machine, is wanted, got {host!r}: name the machine that "
                f"measured it, such as --machine {name}"
            )


def _short(host: str) -> str:
    return host.partition(".")[0].casefold()


# What is recorded -----------------------------------------------------------------------------------------------------

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
    path = lines.results_path(machine, commit, run.program)
    fresh = StoredFile.create(path, commit=commit, date=date, environment=run.program, facts=facts)
    here = StoredFile(path) if path.exists() else None
    _put(fresh, run)
    stored = {suffix: lines.texts(lines.beside(path, suffix), []) for suffix in lines.CODECS}
    before, after = {} if here is None else _states(here, stored), _states(fresh, _beside(run))
    counts = Counter(NEW if key not in before else SAME if before[key] == after[key] else CHANGED for key in run.series)
    if counts[NEW] or counts[CHANGED]:
        _describe(machine.parent / "benchmarks.json", fresh)
        chosen = {(benchmark, tuple(params)) for benchmark, *params in run.series}
        lines.merge_beside(path, _beside(run), chosen, chosen)
        lines.add_sessions(path, run.sessions)
        if here is not None:
            _take(here, fresh)
        (here or fresh).save()
    return counts


def _put(file: StoredFile, run: ForeignRun) -> None:
    """Store a run's series in a file that has none."""
    benchmarks: dict[str, dict[Params, tuple[float, ...] | None]] = {}
    for (benchmark, *params), outcome in run.series.items():
        samples = None if isinstance(outcome, Failure) else tuple(round_.estimate for round_ in outcome)
        if isinstance(outcome, Failure) and outcome.skipped:
            samples = ()
        benchmarks.setdefault(benchmark, {})[tuple(map(repr, params))] = samples
    began = max((session.began for session in run.sessions), default=0.0)
    for benchmark, series in benchmarks.items():
        file.put(benchmark, VERSION, series, began)


def _beside(run: ForeignRun) -> dict[str, list[str]]:
    """Return the lines of a run, by suffix."""
    beside: dict[str, list[str]] = {ROUNDS: [], FAILURES: []}
    for outcome in run.series.values():
        suffix, several = (FAILURES, (outcome,)) if isinstance(outcome, Failure) else (ROUNDS, outcome)
        beside[suffix] += map(lines.CODECS[suffix][1], several)
    return beside


def _take(here: StoredFile, fresh: StoredFile) -> None:
    """Replace the series of a file that another one has."""
    for benchmark in fresh.benchmarks():
        if benchmark in here.benchmarks():
            here.take_series(benchmark, fresh.values(benchmark).keys(), fresh)
        else:
            here.take_benchmark(benchmark, fresh)


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


def _states(file: StoredFile, beside: Mapping[str, Iterable[str]]) -> dict[tuple[str, ...], list[object]]:
    """Return what is recorded of each series, without times of day: those of a copied file may be the copy's.

    A value is text: NaN equals no NaN.
    """
    states: dict[tuple[str, ...], list[object]] = {
        (name, *params): [repr(stored.value), stored.failed] for (name, params), stored in file.series()
    }
    for suffix, texts in beside.items():
        for _, _, entry in lines.decoded(texts, lines.CODECS[suffix][0]):
            if isinstance(entry, Round):
                facts: tuple[object, ...] = (entry.estimate, entry.method, entry.flags)
            elif isinstance(entry, Failure):
                facts = (entry.error, entry.skipped)
            else:
                continue  # a malformed line
            states.get((entry.benchmark, *entry.params), []).append(facts)
    return states
