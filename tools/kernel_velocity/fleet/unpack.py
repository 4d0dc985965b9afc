"""``kv offline unpack TAR --machine NAME``: merge what a node measured into `results/NAME`.

The better record of each series stays, whole: its rounds, its failures, and asv's value of them. A value beats none,
the suite's timing method another one, more rounds fewer, and of two as good the one here stays: nothing measured is
lost, and a second unpack changes nothing. A results file of asv has one version of each benchmark: of two versions the
suite's stays.

Everything is checked before the first file is written. What lies beside a result is written before it: the next unpack
finishes one that was interrupted.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TextIO

from kernel_velocity import documents, lock, units
from kernel_velocity.counts import listing
from kernel_velocity.documents import lines_of
from kernel_velocity.engine.stopping import from_environment, method_hash
from kernel_velocity.errors import ResultsError
from kernel_velocity.files import replace_text
from kernel_velocity.fleet import archive
from kernel_velocity.fleet.archive import Manifest
from kernel_velocity.results import git, lines
from kernel_velocity.results.asv_file import Series, StoredFile, StoredSeries, check_machine
from kernel_velocity.results.ingest import by_series
from kernel_velocity.results.reader import FORMAT_VERSION, parameter
from kernel_velocity.results.sessions import CODE
from kernel_velocity.suite import config

# What makes a machine another one; memory and kernel move with the rental
MACHINE_IDENTITY = ("arch", "cpu", "num_cpu")
DEFAULT_METHOD = method_hash(from_environment({}), None)  # the suite's own, as it is measured by default


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
    has_results = any(theirs.parent.glob("*-*.json"))  # none: of a run that ended before it measured
    if has_results and not path.exists() and not theirs.exists():
        raise ResultsError(f"results/{manifest.machine}/machine.json is not in the tar: asv would see no result")
    here, there = (read_object(file) if file.exists() else {} for file in (path, theirs))
    different = {key: (path, here[key], there[key]) for key in MACHINE_IDENTITY if key in here and key in there}
    for earlier in sorted((machine / "runs").glob("*/manifest.jsonl")):  # asv's machine.json knows no GPU
        gpus = Manifest.from_json(lines_of(earlier), str(earlier)).node.gpus
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
        about = read_object(source / manifest.machine / "machine.json") | {"machine": machine.name}
        replace_text(machine / "machine.json", json.dumps(about, indent=4, sort_keys=True) + "\n")
    if paths and renewed:
        replace_text(described, json.dumps(suite, indent=4, sort_keys=True) + "\n")
        print(f"{described}: {units.count(renewed, 'benchmark')} added or renewed", file=out)
    if paths:
        listing.copy(source / manifest.machine / CODE, machine / CODE)
    merged = []
    for path in paths:
        try:
            merged.append(merge_file(path, lines.counterpart(path, machine), versions))
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
        data: dict[str, object] = read_object(path) if path.exists() else {"version": FORMAT_VERSION}
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
        text = lines_of(path)
        if path.suffix == ".json":  # asv takes every .json below a machine's folder for a result
            replace_text(target / f"{path.name}l", " ".join(text.splitlines()) + "\n")
        else:
            replace_text(target / path.name, text)
    print(f"The run: {target}", file=out)


def read_object(path: Path) -> dict[str, object]:
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
class SeriesRecord:
    """What one place recorded of a series at a commit."""

    stored: StoredSeries  # asv's value of it
    method: str | None = None  # hash of the timing method; None: unknown
    reasons: int = 0  # recorded ones why there is no value

    @property
    def rank(self) -> tuple[int, bool, int]:
        """How good it is: a value before a failure before n/a, then the suite's method, then rounds or reasons."""
        if self.stored.value is None:
            return int(self.stored.failed), True, self.reasons
        return 2, self.method in (None, DEFAULT_METHOD), self.stored.size

    @property
    def is_tried(self) -> bool:
        """Whether it says something. asv stores n/a for what was not asked for, too."""
        return self.stored.value is not None or self.stored.failed or self.reasons > 0


class MergedFile(NamedTuple):
    """What became of a results file."""

    path: Path  # the file here
    changed: bool  # whether it was written
    adopted: int  # series that are the other file's now
    stayed: int  # series of the other file that are as good here, or better
    notes: list[str]


def merge_file(theirs: Path, path: Path, versions: Mapping[str, str]) -> MergedFile:
    """Merge a results file into the one at `path`, which is made where there is none.

    Args:
        theirs: the other file. path: `results/<machine>/<commit8>-<environment>.json`.
        versions: of each benchmark in the suite.

    Raises:
        ResultsError: one of them is no results file, or they are of two commits.
    """
    there, new = StoredFile(theirs), not path.exists()
    if new:
        there.move_to(path)
    here = there if new else StoredFile(path)
    if here.commit != there.commit:
        raise ResultsError(f"{path}: of commit {here.commit}, not of {there.commit}")
    ours, other = {} if new else records(here, path), records(there, theirs)
    adopted: set[Series] = set()
    replaced: set[Series] = set()  # of the file here
    notes: list[str] = []
    for name in there.benchmarks():
        mine, offered = ({key: value for key, value in side.items() if key[0] == name} for side in (ours, other))
        is_same_version = here.version(name) == there.version(name)
        if not mine or (is_same_version and len(here.axes(name)) == len(there.axes(name))):
            better = {series for series, record in offered.items() if is_better(record, mine.get(series))}
            worse = better & mine.keys()
        elif not is_same_version and there.version(name) == versions.get(name, "") and replaces(mine, offered):
            better, worse = set(offered), set(mine)  # a row of asv is of one version
            count = sum(record.stored.value is not None for record in mine.values())
            notes.append(f"{path.name}: {name}: the suite's version replaces {units.count(count, 'value')} of another")
        else:
            better, worse = set(), set()
            notes.append(f"{path.name}: {name}: another version than here; what is here stays")
        if better and worse == mine.keys():
            here.take_benchmark(name, there)
        elif better:
            chosen = [params for params in there.values(name) if (name, tuple(map(parameter, params))) in better]
            here.take_series(name, chosen, there)
        adopted |= better
        replaced |= worse
    if new or adopted:
        beside = {suffix: lines.texts(lines.beside(theirs, suffix), []) for suffix in lines.CODECS}
        lines.merge_beside(path, beside, replaced, adopted)
        lines.add_sessions(path, lines.read_sessions(theirs, []))
        here.save()
    tried = {series for series, record in other.items() if record.is_tried}
    return MergedFile(path, new or bool(adopted), len(tried & adopted), len(tried - adopted), notes)


def records(file: StoredFile, path: Path) -> dict[Series, SeriesRecord]:
    """Return what is recorded of each series of a results file, which was read from `path`."""
    rounds = by_series(lines.read(lines.beside(path, lines.ROUNDS), lines.decode_round, []))
    failures = by_series(lines.read(lines.beside(path, lines.FAILURES), lines.decode_failure, []))
    return {
        series: SeriesRecord(
            stored=stored,
            method=rounds[series][-1].method if series in rounds else None,
            reasons=len(failures.get(series, ())),
        )
        for series, stored in file.series()
    }


def is_better(there: SeriesRecord, here: SeriesRecord | None) -> bool:
    """Return whether the record of the other place is taken."""
    return here is None or there.rank > here.rank


def replaces(here: Mapping[Series, SeriesRecord], there: Mapping[Series, SeriesRecord]) -> bool:
    """Return whether records of the suite's version may replace those of another: not values by none."""
    have_values = [any(record.stored.value is not None for record in side.values()) for side in (here, there)]
    return have_values != [True, False]
