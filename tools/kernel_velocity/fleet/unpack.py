"""``kv offline unpack TAR --machine NAME``: merge what a node measured into `results/NAME`.

The better measurement of each series stays, whole, with its rounds and failures. A value beats none, more rounds beat
fewer, and of two as good the one here stays: nothing measured is lost, and a second unpack changes nothing. A results
file of asv has one version of each benchmark: of two versions the suite's stays.

Everything is checked before the first file is written. What describes a result is written before it: the next unpack
finishes one that was interrupted.
"""

from __future__ import annotations

import argparse
import enum
import json
import math
import statistics
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

from kernel_velocity import documents, lock, units
from kernel_velocity.engine import telemetry
from kernel_velocity.engine.stopping import from_environment, method_hash
from kernel_velocity.engine.telemetry import Round
from kernel_velocity.errors import ResultsError
from kernel_velocity.files import replace_text
from kernel_velocity.fleet import archive
from kernel_velocity.fleet.archive import Manifest
from kernel_velocity.results import git, sessions
from kernel_velocity.results.asv_file import Params, StoredFile, check_machine
from kernel_velocity.results.lines import (
    FAILURES,
    ROUNDS,
    Failure,
    beside,
    decode_failure,
    decoded,
    encode_failure,
    read_failures,
    read_rounds,
    read_sessions,
    texts,
)
from kernel_velocity.results.reader import FORMAT_VERSION, parameter
from kernel_velocity.results.records import AGREEMENT
from kernel_velocity.suite import config

SeriesName = tuple[str, ...]  # benchmark and parameters, as telemetry names them
MACHINE_IDENTITY = (
    "arch",
    "cpu",
    "num_cpu",
)  # what makes a machine another one; memory and kernel move with the rental
# of the lines of the files beside a results file
LINE_CODECS: dict[str, tuple[Callable[[str], Any], Callable[[Any], str]]] = {
    ROUNDS: (telemetry.decode, telemetry.encode),
    FAILURES: (decode_failure, encode_failure),
}
DEFAULT_METHOD = method_hash(from_environment({}), None)  # the suite's own, as it is measured by default
NOTED_SERIES = 3  # that a note names before it counts the others


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the step's arguments."""
    parser.add_argument("tar", type=Path, metavar="TAR", help=f"the {archive.TAR_NAME} that the node wrote")
    parser.add_argument("--machine", required=True, help="the name under which its results are kept, such as h200")
    parser.add_argument("--root", type=Path, default=Path(), help="the folder of asv.conf.json (default: here)")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Merge the tar and say what was done. Return the exit status: 2 where no result of it could be merged.

    Raises:
        UsageError: the machine's name, the folder, or another run that measures here.
        ResultsError: the tar is damaged, of another project, or of another machine than the one of that name here.
    """
    root, machine = args.root, args.root / config.results_dir(args.root) / args.machine
    check_machine("--machine ", args.machine)
    config.check(root)
    # On the disk of .asv: /tmp may be small.
    with lock.held(root, measures=False), tempfile.TemporaryDirectory(prefix="unpack-", dir=root / ".asv") as scratch:
        folder = Path(scratch)
        manifest = archive.read(args.tar, folder)
        _check_project(root, manifest, args.tar)
        _check_machine(machine, manifest, folder)
        status = _merge(args, manifest, folder, out, err)
        _keep_run(machine, manifest, folder, out)
    return status


def _check_project(root: Path, manifest: Manifest, tar: Path) -> None:
    """Refuse results of another repository, whose commits mean nothing here."""
    done = git.run(root, "merge-base", "--is-ancestor", manifest.root, "HEAD")
    if done.returncode != 0:
        reason = done.stderr.strip().partition("\n")[0] or "it is no ancestor of HEAD"
        raise ResultsError(
            f"{tar}: of a repository whose first commit, {manifest.root[:8]}, is not in {root.absolute()} ({reason}); "
            "a shallow clone needs `git fetch --unshallow`"
        )


def _check_machine(machine: Path, manifest: Manifest, folder: Path) -> None:
    """Refuse to mix two machines under one name.

    Raises:
        ResultsError: the machine of that name here is another one, or the tar does not describe its own.
    """
    path, theirs = machine / "machine.json", folder / "results" / manifest.machine / "machine.json"
    if not path.exists() and not theirs.exists():
        raise ResultsError(f"results/{manifest.machine}/machine.json is not in the tar: asv would see no result")
    here, there = (_load(file) if file.exists() else {} for file in (path, theirs))
    different = {key: (path, here[key], there[key]) for key in MACHINE_IDENTITY if key in here and key in there}
    for earlier in sorted((machine / "runs").glob("*/manifest.jsonl")):  # asv's machine.json knows no GPU
        gpus = Manifest.from_json(earlier.read_text(encoding="utf-8", errors="replace"), str(earlier)).node.gpus
        if gpus and manifest.node.gpus:
            different["gpus"] = (earlier, gpus, manifest.node.gpus)
    for key, (where, ours, other) in different.items():
        if ours != other:
            raise ResultsError(
                f"{where}: {key}: {ours!r} here, {other!r} in the tar: "
                f"one name is one machine, give another one than --machine {machine.name}"
            )


def _merge(args: argparse.Namespace, manifest: Manifest, folder: Path, out: TextIO, err: TextIO) -> int:
    """Merge what asv recorded. Return the exit status."""
    root, source, results = args.root, folder / "results", args.root / config.results_dir(args.root)
    machine, described = results / args.machine, results / "benchmarks.json"
    paths = [path for path in sorted((source / manifest.machine).glob("*-*.json")) if _is_known(root, path, err)]
    theirs, here = (_benchmarks(path, err) for path in (source / "benchmarks.json", described))
    suites = [theirs or {}, here or {}]
    older, newer = reversed(suites) if _is_current(root, manifest.head) else suites
    suite = older | newer
    versions = {name: str(entry.get("version")) for name, entry in suite.items() if isinstance(entry, dict)}
    renewed = 0 if here is None else sum(entry != here.get(name) for name, entry in suite.items())
    if paths and not (machine / "machine.json").exists():
        about = _load(source / manifest.machine / "machine.json") | {"machine": machine.name}
        replace_text(machine / "machine.json", json.dumps(about, indent=4, sort_keys=True) + "\n")
    if paths and renewed:
        replace_text(described, json.dumps(suite, indent=4, sort_keys=True) + "\n")
        print(f"{described}: {units.count(renewed, 'benchmark')} added or renewed", file=out)
    merged = []
    for path in paths:
        try:
            merged.append(merge_file(path, machine / path.name, versions))
        except ResultsError as error:
            print(f"{error}; not merged", file=err)
    for file in merged:
        print(f"{file.path.name}: {file.adopted} series taken, {file.stayed} kept as they are here", file=out)
    for note in (note for file in merged for note in file.notes):
        print(note, file=out)
    if not merged:
        print("no result was merged", file=err)
        return ResultsError.exit_code
    if not renewed and not any(file.changed for file in merged):
        print("nothing new: the results of the tar are here already", file=out)
    print(f"Next: kv report\n      git add -f {machine} {described}", file=out)
    return 0


def _is_known(root: Path, path: Path, err: TextIO) -> bool:
    """Return whether a file is a results file of a commit that this repository has. Say why not."""
    try:
        commit = StoredFile(path).commit
        if git.run(root, "cat-file", "-e", f"{commit}^{{commit}}").returncode != 0:
            raise ResultsError(f"{path.name}: commit {commit} is not here: `git fetch`, then unpack again")
    except ResultsError as error:
        print(f"{error}; not merged", file=err)
        return False
    return True


def _benchmarks(path: Path, err: TextIO) -> dict[str, object] | None:
    """Return benchmarks.json. Empty where there is none, None (and a line) where it cannot be read."""
    try:
        data: dict[str, object] = _load(path) if path.exists() else {"version": FORMAT_VERSION}
        if data.get("version") != FORMAT_VERSION:
            raise ResultsError(f"{path}: version {data.get('version')!r} is unknown, {FORMAT_VERSION} is wanted")
    except ResultsError as error:
        print(f"{error}; left as it is", file=err)
        return None
    return data


def _is_current(root: Path, head: str) -> bool:
    """Return whether the suite that measured is the one of HEAD here, or a newer one."""
    suite = config.asv_settings(root).get("benchmark_dir", "benchmarks")
    same = git.run(root, "diff", "--quiet", head, "HEAD", "--", suite)
    return same.returncode == 0 or git.run(root, "merge-base", "--is-ancestor", "HEAD", head).returncode == 0


def _keep_run(machine: Path, manifest: Manifest, folder: Path, out: TextIO) -> None:
    """Keep what describes the run beside the results."""
    target = machine / "runs" / manifest.stamp
    replace_text(target / "manifest.jsonl", manifest.to_json())
    for path in sorted((folder / "run").glob("*")):
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.suffix == ".json":  # asv takes every .json below a machine's folder for a result
            replace_text(target / f"{path.name}l", " ".join(text.splitlines()) + "\n")
        else:
            replace_text(target / path.name, text)
    print(f"The run: {target}", file=out)


def _load(path: Path) -> dict[str, object]:
    """Return the object in a JSON file.

    Raises:
        ResultsError: it holds none.
    """
    try:
        return documents.read(path)
    except OSError as error:
        raise ResultsError(f"{path}: {error.strerror}") from None
    except documents.DamagedError as error:
        raise ResultsError(f"{path}: {error}") from None


# Two results files of one commit -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class MergeCell:
    """What a results file stores of one series, and on how much it rests."""

    value: float | None  # seconds per call, or a track's unit; NaN: n/a, or not asked for; None: failed
    samples: tuple[float, ...] | None = None  # round estimates, s per call
    evidence: int = 0  # rounds of a value; where there is none, the recorded reasons
    method: str | None = None  # hash of the timing method; None: unknown

    @property
    def measured(self) -> bool:
        """Whether there is a value."""
        return self.value is not None and math.isfinite(self.value)

    @property
    def rank(self) -> tuple[int, int]:
        """How good it is: a value, before a failure, before n/a."""
        return (2 if self.measured else 1 if self.value is None else 0), self.evidence


class MergeDecision(enum.Enum):
    """What became of a series of the other file."""

    ADOPTED = "taken"
    SAME = "says no more than here"
    FEWER = "fewer rounds than here; what is here stays"
    EQUAL = "as many rounds as here; what is here stays"
    FAILED = "failed; the value here stays"
    METHOD = "timed by another method; what is here stays"
    VERSION = "another version than here; what is here stays"


def verdict(here: MergeCell | None, there: MergeCell, method: str | None = DEFAULT_METHOD) -> MergeDecision:
    """Return what becomes of a series of the other file.

    Values of two timing methods cannot be compared: that of the suite's method (`method`) stays, else the one here.
    """
    if here is None:
        return MergeDecision.ADOPTED
    both = here.measured and there.measured
    if both and here.method != there.method and None not in (here.method, there.method):
        return MergeDecision.ADOPTED if there.method == method else MergeDecision.METHOD
    if there.rank > here.rank:
        return MergeDecision.ADOPTED
    if both and (here.value, here.samples) != (there.value, there.samples):
        return MergeDecision.EQUAL if there.rank == here.rank else MergeDecision.FEWER
    return MergeDecision.FAILED if here.measured and there.value is None else MergeDecision.SAME


@dataclass(frozen=True, kw_only=True)
class RankedFile:
    """A results file, and on how much each of its series rests."""

    file: StoredFile
    cells: Mapping[str, Mapping[Params, MergeCell]]  # by benchmark


@dataclass(frozen=True, kw_only=True)
class MergedBenchmark:
    """What became of a benchmark of the other file."""

    verdicts: Mapping[Params, MergeDecision]
    replaced: int = 0  # values of another version, which went with their row
    gone: frozenset[Params] = frozenset()  # their series that the new version does not have


@dataclass(frozen=True, kw_only=True)
class Merged:
    """What became of a results file."""

    path: Path  # the file here
    changed: bool  # whether it was written
    adopted: int = 0  # series
    stayed: int = 0  # series of the other file that are as good here, or better
    notes: list[str] = field(default_factory=list)


def merge_file(theirs: Path, path: Path, versions: Mapping[str, str]) -> Merged:
    """Merge a results file into the one at `path`, which is made where there is none.

    What lies beside a results file is written before it: the next merge finishes one that was interrupted.

    Args:
        theirs: the other file. path: `results/<machine>/<commit8>-<environment>.json`.
        versions: of each benchmark in the suite.

    Raises:
        ResultsError: one of them is no results file, or they are of two commits.
    """
    there, new = read(theirs), not path.exists()
    if new:
        there.file.move_to(path)
    here = replace(there, cells={}) if new else read(path)
    if here.file.commit != there.file.commit:
        raise ResultsError(f"{path}: of commit {here.file.commit}, not of {there.file.commit}")
    rows = {name: merge_row(name, here, there, versions.get(name)) for name in there.cells}
    adopted = {_series(name, params) for name, row in rows.items() for params in _by(row, MergeDecision.ADOPTED)}
    gone = {_series(name, params) for name, row in rows.items() for params in row.gone}
    if new or adopted:
        for suffix in LINE_CODECS:
            ours, other = (texts(beside(file, suffix), []) for file in (path, theirs))
            _replace(beside(path, suffix), merge_lines(ours, other, adopted, gone, suffix))
        merged = sessions.merged(read_sessions(path, []), read_sessions(theirs, []))
        _replace(beside(path, sessions.SUFFIX), merged)
        here.file.save()
    tried = {(name, params) for name, cells in there.cells.items() for params, cell in cells.items() if any(cell.rank)}
    count = sum(rows[name].verdicts[params] is MergeDecision.ADOPTED for name, params in tried)
    notes = [f"{path.name}: {name}: {note}" for name, row in rows.items() for note in _notes(row, there.cells[name])]
    return Merged(path=path, changed=new or bool(adopted), adopted=count, stayed=len(tried) - count, notes=notes)


def read(path: Path) -> RankedFile:
    """Return a results file. What lies beside it tells on how much its series rest.

    Raises:
        ResultsError: it is no results file.
    """
    stored = StoredFile(path)
    rounds = read_rounds(beside(path, ROUNDS), [])
    reasons = read_failures(beside(path, FAILURES), [])
    cells = {name: dict(series_of(stored, name, rounds, reasons)) for name in stored.benchmarks()}
    return RankedFile(file=stored, cells=cells)


def series_of(
    file: StoredFile,
    name: str,
    rounds: Mapping[Any, Sequence[Round]],
    reasons: Mapping[Any, Sequence[Failure]],
) -> Iterator[tuple[Params, MergeCell]]:
    """Yield the series of a benchmark. Telemetry counts where asv stored neither a count nor samples."""
    stats, samples = file.stats(name), file.samples(name)
    for params, value in file.values(name).items():
        series = _series(name, params)
        timed = sorted(rounds.get(series, ()), key=lambda round_: round_.time)
        count = len(reasons.get(series, ()))
        if value is not None and math.isfinite(value):
            stored = (stats[params] or {}).get("repeat") or len(samples[params] or ())
            count = int(stored or _resting_on(timed, value))
        drawn, method = samples[params], timed[-1].method if timed else None
        cell = MergeCell(value=value, samples=None if drawn is None else tuple(drawn), evidence=count, method=method)
        yield params, cell


def _resting_on(rounds: Sequence[Round], value: float) -> int:
    """Return how many rounds a value is the median of. 0 where they are of another run."""
    middle = statistics.median([round_.estimate for round_ in rounds]) if rounds else math.nan
    return len(rounds) if math.isclose(middle, value, rel_tol=AGREEMENT) else 0


def merge_row(name: str, here: RankedFile, there: RankedFile, current: str | None) -> MergedBenchmark:
    """Merge a benchmark into the file here, in memory. `current` is its version in the suite."""
    cells, mine = there.cells[name], here.cells.get(name)
    if mine is None:
        here.file.take_benchmark(name, there.file)
        return MergedBenchmark(verdicts=dict.fromkeys(cells, MergeDecision.ADOPTED))
    version = there.file.version(name)
    if here.file.version(name) != version:
        values = sum(cell.measured for cell in mine.values())
        if current is None or version != current or (values and not any(cell.measured for cell in cells.values())):
            return MergedBenchmark(verdicts=dict.fromkeys(cells, MergeDecision.VERSION))
        here.file.take_benchmark(name, there.file)
        return MergedBenchmark(
            verdicts=dict.fromkeys(cells, MergeDecision.ADOPTED),
            replaced=values,
            gone=frozenset(mine) - frozenset(cells),
        )
    if len(here.file.axes(name)) != len(there.file.axes(name)):
        return MergedBenchmark(verdicts=dict.fromkeys(cells, MergeDecision.VERSION))
    row = MergedBenchmark(verdicts={params: verdict(mine.get(params), cell) for params, cell in cells.items()})
    if adopted := _by(row, MergeDecision.ADOPTED):
        here.file.take_series(name, adopted, there.file)
    return row


def merge_lines(
    here: Iterable[str], there: Iterable[str], adopted: Container[SeriesName], gone: Container[SeriesName], suffix: str
) -> str:
    """Return the text of the lines beside a merged results file, in the order of time, those that cannot be read last.

    Args:
        here, there: of the two files.
        adopted: the series whose values are the other file's now. gone: the series that were removed.
        suffix: of the file.
    """
    decode, encode = LINE_CODECS[suffix]
    lines: dict[str, float] = {}  # and its Unix time
    for side, other in ((here, False), (there, True)):
        for _, line, entry in decoded(side, decode):
            if isinstance(entry, ValueError):
                lines |= {} if other else {line: math.inf}
                continue
            series = (entry.benchmark, *entry.params)
            if (series in adopted) is other and series not in gone:
                lines[encode(entry)] = entry.time
    return "".join(f"{line}\n" for line in sorted(lines, key=lines.__getitem__))


def _by(row: MergedBenchmark, wanted: MergeDecision) -> list[Params]:
    return [params for params, verdict in row.verdicts.items() if verdict is wanted]


def _notes(row: MergedBenchmark, cells: Mapping[Params, MergeCell]) -> Iterator[str]:
    """Yield why series were not taken. A series that was not tried (asv stores n/a) needs no reason."""
    for reason in (
        MergeDecision.FAILED,
        MergeDecision.EQUAL,
        MergeDecision.FEWER,
        MergeDecision.METHOD,
        MergeDecision.VERSION,
    ):
        named = [", ".join(map(parameter, params)) for params in _by(row, reason) if any(cells[params].rank)]
        if named:
            more = f" and {len(named) - NOTED_SERIES} more" if named[NOTED_SERIES:] else ""
            yield f"{reason.value} ({'; '.join(named[:NOTED_SERIES])}{more})"
    if row.replaced:
        yield f"the suite's version replaces {units.count(row.replaced, 'value')} of another"


def _series(name: str, params: Params) -> SeriesName:
    return name, *map(parameter, params)


def _replace(path: Path, text: str) -> None:
    """Write a file beside the results. One that would be empty is removed."""
    if text:
        replace_text(path, text)
    else:
        path.unlink(missing_ok=True)
