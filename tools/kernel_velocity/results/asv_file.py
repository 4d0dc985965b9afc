"""A results file of asv: what it stores of each series, and every change of it.

The only module that touches the attributes of asv's `Results`, most of which are private.
"""

from __future__ import annotations

import datetime
import itertools
import math
import os
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from asv import util
from asv.machine import Machine, MachineCollection
from asv.results import Results
from asv.runner import BenchmarkResult

from kernel_velocity import bounds, documents
from kernel_velocity.engine.telemetry import Round
from kernel_velocity.errors import ResultsError, UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.results import identity, lines
from kernel_velocity.results.reader import COLUMNS, load_results, named_row, parameter

Params = tuple[str, ...]  # of a series, as asv stores them: the repr of each
Series = tuple[str, tuple[str, ...]]  # benchmark, parameters

# Attributes of asv's object: what it stores of a series, with what stands for one that was not asked for
_OF_SERIES = {"_results": math.nan, "_stats": None, "_samples": None}
_OF_RUN = ("_started_at", "_duration", "_profiles")  # of a benchmark, as are parameters and version

# Of A/B runs while they measure, and of what an earlier version measured of identical code. Not imported from there: a
# node that only measures has no scipy.
MEASURING_FOLDERS = ("kv-ab", "kv-sessions")
# Names in results/ that no machine may have: those, findings, recorded sessions, the journals of nights.
OWN_FOLDERS = frozenset({*MEASURING_FOLDERS, "findings", "sessions", "journals"})
MACHINE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")  # a folder of results/, and a name on the pages


# asv's file of machines, ~/.asv-machine.json, which people edit. Where it is damaged, asv itself ends with a traceback,
# and asks for it again in every process. The variable names another file: machines of a cluster share a home directory,
# and asv names a machine by its entry as long as it is the only one.
MACHINES_FILE = "KV_MACHINES"
if os.environ.get(MACHINES_FILE):
    MachineCollection.get_machine_file_path = staticmethod(lambda: os.environ[MACHINES_FILE])
_FACTS = tuple(name for name, _ in Machine.fields)  # of a machine, that asv knows


def check_machine(option: str, name: str) -> str:
    """Return the name of a machine that an option gives.

    Raises:
        UsageError: it cannot be that of a folder of results, or is one of ours.
    """
    if not MACHINE.fullmatch(name):
        raise UsageError(f"{option}{name!r}: letters, digits, `.`, `_` and `-` are wanted, such as {option}bench-2")
    if name in OWN_FOLDERS:
        raise UsageError(f"{option}{name!r} is reserved for a folder in results/: take another name, such as bench-2")
    return name


def paths(results: Path, environment: str, commit: str) -> list[Path]:
    """Return the results files of a commit and environment: at most one in each machine's folder."""
    files = []
    for folder in (folder for folder in results.iterdir() if folder.is_dir()):
        try:
            files.append(lines.results_path(folder, commit, environment))
        except ResultsError:  # whoever reads it says why
            files.append(folder / f"{lines.stem(commit, environment)}.json")
    return sorted(path for path in files if path.is_file())


def _check(name: str, row: Mapping[str, Any]) -> None:
    """Refuse a row that asv could not work with.

    Raises:
        ResultsError: a column lacks a value for a combination of the parameters, or has one of another type.
    """

    def refuse(key: str, wanted: str) -> NoReturn:
        raise ResultsError(f"{name}: {key}: {wanted} is wanted, got {str(row.get(key))[:60]!r}")

    axes = row.get("params")
    if not isinstance(axes, list) or not all(isinstance(axis, list) for axis in axes):
        refuse("params", "a list of lists")
    if not all(isinstance(text, str) for axis in axes for text in axis):
        refuse("params", "a list of lists of texts")
    combinations = math.prod(map(len, axes))
    for key in ("result", *(name for name in COLUMNS if name.startswith("stats_")), "samples"):
        column = row.get(key)
        if column is None:
            continue
        if not isinstance(column, list) or len(column) != combinations:
            refuse(key, f"a list of {combinations}")
        lists = column if key == "samples" else [column]
        is_good = _is_count if key in ("stats_number", "stats_repeat") else _is_number
        if not all(values is None or (isinstance(values, list) and all(map(is_good, values))) for values in lists):
            refuse(key, "a list of numbers and nulls")
    began, duration = row.get("started_at"), row.get("duration")
    if began is not None and not (bounds.is_number(began) and bounds.is_moment(began / 1000)):
        refuse("started_at", "a Unix time in ms")
    if duration is not None and not bounds.is_number(duration):
        refuse("duration", "a number of seconds")


def _is_number(value: object) -> bool:
    return value is None or isinstance(value, float) or bounds.is_number(value)  # NaN: n/a


def _is_count(value: object) -> bool:
    return value is None or (isinstance(value, int) and bounds.is_number(value))


@dataclass(frozen=True, kw_only=True)
class StoredSeries:
    """The value that asv stores of a series at a commit. Unknown is None."""

    value: float | None  # seconds per call; None where it failed or does not apply
    failed: bool
    samples: tuple[float, ...] | None  # round estimates, seconds per call
    count: int | None  # samples that the value rests on
    started_at: float | None  # Unix time, s; of the last round where rounds were interleaved
    duration: float | None  # s

    @property
    def ended(self) -> float:
        """Unix time at which asv's last round of the benchmark ended, s. Infinite where asv stored none."""
        return math.inf if self.started_at is None or self.duration is None else self.started_at + self.duration

    @property
    def size(self) -> int:
        """How many rounds the value rests on, at least 1. 0 without a value."""
        return 0 if self.value is None else self.count or 1


class StoredFile:
    """A results file, read once. Changed in memory and written by `save`."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            ResultsError: it is not a results file, or of a version that the installed asv does not know, or a row of
                it is damaged.
        """
        self.path = path
        try:
            data = load_results(path)
            for name, row in data["results"].items():
                _check(name, named_row(row, data["result_columns"]))
            self._results: Any = Results.load(str(path))
        except (ResultsError, ValueError, TypeError, LookupError, util.UserError) as error:
            raise ResultsError(f"{path}: not a results file of asv: {error}") from None
        self.commit: str = self._results.commit_hash

    @classmethod
    def create(cls, path: Path, *, commit: str, date: float, environment: str, facts: Mapping[str, str]) -> StoredFile:
        """Return a file without a series, for `save` to write.

        Args:
            path: of the file, whose folder names the machine.
            commit: full SHA. date: of the commit, Unix time, s.
            environment: asv's name of it.
            facts: what asv records of the machine.
        """
        parameters = {**facts, "machine": path.parent.name}
        with tempfile.TemporaryDirectory() as folder:
            Results(parameters, {}, commit, int(date * 1000), "", environment, {}).save(folder)
            (saved,) = Path(folder).glob("*/*.json")
            file = cls(saved)
        file.path = path
        return file

    def benchmarks(self) -> list[str]:
        """Return the benchmarks that it stores something of."""
        return list(self._results.get_all_result_keys())

    def axes(self, benchmark: str) -> list[list[str]]:
        """Return the parameters of a benchmark, a list for each axis, as asv stores them."""
        axes: list[list[str]] = self._results.get_result_params(benchmark)
        return axes

    def values(self, benchmark: str) -> dict[Params, float | None]:
        """Return what asv stores of each series: its value. NaN: n/a, or not asked for. None: failed."""
        return self._column(benchmark, "_results")

    def stats(self, benchmark: str) -> dict[Params, dict[str, Any] | None]:
        """Return asv's statistics of each series. None where it stores none."""
        return self._column(benchmark, "_stats")

    def samples(self, benchmark: str) -> dict[Params, list[float] | None]:
        """Return the samples of each series, s per call. None where asv stores none."""
        return self._column(benchmark, "_samples")

    def _column(self, benchmark: str, attribute: str) -> dict[Params, Any]:
        series = self._combinations(benchmark)
        column = getattr(self._results, attribute).get(benchmark)  # None: a column of None
        return dict(zip(series, [None] * len(series) if column is None else column, strict=True))

    def series(self) -> Iterator[tuple[Series, StoredSeries]]:
        """Yield every series that the file knows, with what is stored of it."""
        for name in self.benchmarks():
            for index, params in enumerate(self._combinations(name)):
                yield (name, tuple(map(parameter, params))), self._stored(name, index)

    @property
    def measured_at(self) -> float:
        """Unix time at which its newest benchmark ended, s, as the file itself says (a checkout changes its mtime)."""
        ends = [
            started_at + (self._results.duration.get(name) or 0.0) * 1000
            for name, started_at in self._results.started_at.items()
            if started_at is not None
        ]
        return max(ends, default=0.0) / 1000

    def version(self, benchmark: str) -> str | None:
        """Return the version of a benchmark whose values are stored."""
        version: str | None = self._results.benchmark_version.get(benchmark)
        return version

    def _combinations(self, name: str) -> list[tuple[str, ...]]:
        return list(itertools.product(*self._results.get_result_params(name)))

    def _stored(self, name: str, index: int) -> StoredSeries:
        params = self._results.get_result_params(name)
        value = self._results.get_result_value(name, params)[index]
        samples = self._results.get_result_samples(name, params)[index]
        stats = self._results.get_result_stats(name, params)[index] or {}
        started_at = self._results.started_at.get(name)
        measured = isinstance(value, int | float) and math.isfinite(value)
        return StoredSeries(
            value=value if measured else None,
            failed=value is None,
            samples=None if samples is None else tuple(samples),
            count=stats.get("repeat"),
            started_at=None if started_at is None else started_at / 1000,
            duration=self._results.duration.get(name),
        )

    def restore(self, series: Series, rounds: Sequence[Round]) -> None:
        """Replace the value of a series by that of rounds. Without any it is null, asv's "failed". `save` writes it."""
        estimates = [round_.estimate for round_ in rounds] or None
        name, wanted = series
        combinations = self._combinations(name)
        index = [tuple(map(parameter, params)) for params in combinations].index(wanted)
        samples: list[list[float] | None] = [None] * len(combinations)
        samples[index] = estimates
        self._add(
            name,
            self.axes(name),
            self.version(name),
            results=[None if sample is None else True for sample in samples],
            samples=samples,
            began=(self._results.started_at.get(name) or 0) / 1000,
            duration=self._results.duration.get(name),
            selected=[index],
        )

    def _add(
        self,
        name: str,
        axes: list[list[str]],
        version: str | None,
        *,
        results: Sequence[float | None],
        samples: Sequence[list[float] | None],
        began: float,
        duration: float | None = None,
        selected: list[int] | None = None,
    ) -> None:
        """Have asv add results: true where there are samples, which are what counts."""
        number = [None if part is None else 1 for part in samples]
        self._results.add_result(
            {"name": name, "params": axes, "version": version},
            BenchmarkResult(result=results, samples=samples, number=number, errcode=0, stderr="", profile=None),
            started_at=datetime.datetime.fromtimestamp(began, datetime.UTC),
            duration=duration,
            record_samples=True,
            selected_idx=selected,
        )

    def put(self, benchmark: str, version: str, series: Mapping[Params, Sequence[float] | None], began: float) -> None:
        """Store a benchmark with these series alone, their samples in s per call. `save` writes it.

        Args:
            benchmark: its name.
            version: of the benchmark.
            series: by parameters. No samples: n/a. None: failed.
            began: Unix time of the measurement, s.
        """
        axes = [list(dict.fromkeys(texts)) for texts in zip(*series, strict=True)]
        parts = [series.get(key, ()) for key in itertools.product(*axes)]
        results = [None if part is None else True if part else math.nan for part in parts]
        samples = [list(part) if part else None for part in parts]
        self._add(benchmark, axes, version, results=results, samples=samples, began=began)

    def track(
        self,
        benchmark: str,
        version: str,
        axes: list[list[str]],
        values: Mapping[Params, float | None],
        *,
        began: float,
        seconds: float,
    ) -> None:
        """Store values of some series of a benchmark that is not timed. `save` writes them.

        Args:
            benchmark: its name. version: of the benchmark. axes: all its parameters, as asv writes them.
            values: by parameters. NaN: n/a. None: failed.
            began: Unix time of the measurement, s. seconds: its duration.
        """
        keys = [tuple(map(parameter, texts)) for texts in itertools.product(*axes)]
        results = [values.get(key, math.nan) for key in keys]
        selected = [index for index, key in enumerate(keys) if key in values]
        self._add(
            benchmark,
            axes,
            version,
            results=results,
            samples=[None for _ in keys],
            began=began,
            duration=seconds,
            selected=selected,
        )

    def move_to(self, path: Path) -> None:
        """Have `save` write another file, whose folder names the machine."""
        self.path = path
        self._results.params["machine"] = path.parent.name

    def take_benchmark(self, benchmark: str, other: StoredFile) -> None:
        """Replace all that is stored of a benchmark by what another file stores of it. `save` writes it."""
        for attribute in (*_OF_SERIES, *_OF_RUN, "_benchmark_params", "_benchmark_version"):
            getattr(self._results, attribute)[benchmark] = getattr(other._results, attribute).get(benchmark)

    def take_series(self, benchmark: str, chosen: Collection[Params], other: StoredFile) -> None:
        """Replace some series of a benchmark by those of another file, which has it in this version. `save` writes it.

        The axes grow where the other file has more cases or implementations.
        """
        axes = [list(axis) for axis in self.axes(benchmark)]
        for number, axis in enumerate(axes):
            wanted = {params[number] for params in chosen}
            axis += [text for text in other.axes(benchmark)[number] if text in wanted and text not in axis]
        for attribute, absent in _OF_SERIES.items():
            ours, theirs = self._column(benchmark, attribute), other._column(benchmark, attribute)
            column = [theirs[key] if key in chosen else ours.get(key, absent) for key in itertools.product(*axes)]
            getattr(self._results, attribute)[benchmark] = None if all(value is None for value in column) else column
        self._results._benchmark_params[benchmark] = axes
        started_at = self._results.started_at.get(benchmark) or 0
        if (other._results.started_at.get(benchmark) or 0) > started_at:
            for attribute in _OF_RUN:
                if (value := getattr(other._results, attribute).get(benchmark)) is not None:
                    getattr(self._results, attribute)[benchmark] = value

    def save(self) -> None:
        """Write the file, whole or not at all."""
        _save(self._results, self.path)


def _save(results: Results, path: Path) -> None:
    """Write what asv's object holds, whole or not at all."""
    with tempfile.TemporaryDirectory() as folder:
        Results.save(results, folder)
        (saved,) = Path(folder).glob("*/*.json")
        replace_text(path, saved.read_text(encoding="utf-8"))


class RunResults(Results):  # type: ignore[misc]  # asv ships no types
    """The results file that `asv run` writes after each round of a commit, which may be the last one before a crash.

    It is written whole. What no round tells is only replaced by a value of its own kind: an error or a ceiling that
    cannot be measured now leaves the recorded one. Rounds of another version go together with its values.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._replaced: set[str] = set()  # benchmarks that had another version

    def add_result(
        self, benchmark: dict[str, Any], result: Any, *args: Any, selected_idx: Any = None, **more: Any
    ) -> None:
        """Add what asv measured of a benchmark."""
        name, numbers = benchmark["name"], range(len(result.result)) if selected_idx is None else selected_idx
        before = self._benchmark_version.get(name)
        if before == benchmark["version"] and identity.is_tracked(name):
            values = zip(self.get_result_value(name, benchmark["params"]), result.result, strict=True)
            lost = {number for number, (old, new) in enumerate(values) if util.is_na(new) and not util.is_na(old)}
            selected_idx = [number for number in numbers if number not in lost]
        elif before not in (None, benchmark["version"]):
            self._replaced.add(name)
        super().add_result(benchmark, result, *args, selected_idx=selected_idx, **more)

    def load_data(self, result_dir: str) -> None:
        """Take over what was recorded of this commit, and not of another one whose hash begins with the same digits."""
        self._filename = str(self._path(result_dir).relative_to(result_dir))
        super().load_data(result_dir)

    def _path(self, result_dir: str) -> Path:
        return lines.results_path(Path(result_dir, self._filename).parent, self.commit_hash, self.env_name)

    def save(self, result_dir: str) -> None:
        """Write the file, and remove rounds of replaced versions from beside it."""
        path = self._path(result_dir)
        if self._replaced:
            lines.remove_rounds(path, self._replaced)
        _save(self, path)


# asv's file of machines -----------------------------------------------------------------------------------------------


def machine_entry(name: str) -> dict[str, str]:
    """Return what the file says of a machine, {} where it says nothing. All of the file is checked, as asv reads it.

    Raises:
        UsageError: the file is no such file.
    """
    path = Path(MachineCollection.get_machine_file_path())
    if not path.exists():
        return {}
    try:
        machines = documents.read(path)
        _check_machines(machines)
    except documents.DamagedError as error:
        raise UsageError(f"{path}: {error}; mend it, or remove it: asv then asks this machine again") from None
    here = {key: value for key, value in machines.items() if key != "version"}
    is_only = len(here) == 1 and name == Machine.get_unique_machine_name()
    facts = next(iter(here.values())) if is_only else here.get(name, {})
    return {key: str(value) for key, value in facts.items() if key in _FACTS}


def complete_machine(name: str, facts: dict[str, str]) -> None:
    """Write the facts of this machine that its entry lacks."""
    MachineCollection.save(name, {**Machine.get_defaults(), "machine": name, **facts})


def _check_machines(machines: dict[str, Any]) -> None:
    if machines.get("version") != MachineCollection.api_version:
        raise documents.DamagedError(
            f"version: {MachineCollection.api_version} is wanted, got {str(machines.get('version'))[:60]!r}"
        )
    for name, facts in machines.items():
        if name == "version":
            continue
        if not isinstance(facts, dict):
            raise documents.DamagedError(f"{name[:60]!r}: an object is wanted, got {str(facts)[:60]!r}")
        for key, value in facts.items():
            if key in _FACTS and not (isinstance(value, str) or bounds.is_number(value)):
                raise documents.DamagedError(f"{name[:60]!r}: {key}: a text is wanted, got {str(value)[:60]!r}")
        if facts and not facts.get("machine"):
            raise documents.DamagedError(f"{name[:60]!r}: machine: the name of the machine is wanted, got nothing")
