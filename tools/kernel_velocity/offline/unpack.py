"""``kv offline unpack TAR --machine NAME``: merge what a node measured into `results/NAME`.

Nothing that is better here is overwritten (merging.py), a second unpack changes nothing, and one that was interrupted
is finished by the next. Everything is checked before the first file is written.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from kernel_velocity import config, lock, units
from kernel_velocity.errors import HistoryError, ResultsError, UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.offline import archive, placing
from kernel_velocity.offline.manifest import SHA, Manifest
from kernel_velocity.offline.placing import Placed
from kernel_velocity.results import merging
from kernel_velocity.results.asv_file import StoredFile
from kernel_velocity.results.clone import git
from kernel_velocity.results.reader import FORMAT_VERSION
from kernel_velocity.runner.track import MACHINE

_HARDWARE = ("arch", "cpu", "num_cpu")  # what makes a machine another one; memory and kernel move with the rental
_LOCAL = ("traces", "logs")  # bulky, kept in .asv/, which git ignores


@dataclass(kw_only=True)
class _Done:
    """What an unpack did, and what it could not do."""

    placed: list[Placed] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    benchmarks: int = 0
    run: Path | None = None
    new: bool = False
    local: dict[Path, int] = field(default_factory=dict)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the step's arguments."""
    parser.add_argument("tar", type=Path, metavar="TAR", help=f"the {archive.NAME} that the node wrote")
    parser.add_argument("--machine", required=True, help="the name under which its results are kept, such as h200")
    parser.add_argument("--root", type=Path, default=Path(), help="the folder of asv.conf.json (default: here)")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Merge the tar and say what was done; return the exit status: 2 where no result of it could be merged.

    Raises:
        UsageError: the machine's name, the folder, or another run that measures here.
        ResultsError: the tar is damaged, of another project, or of another machine than the one of that name here.
        HistoryError: the folder is no git repository, or too shallow to tell which.
    """
    root: Path = args.root
    if not MACHINE.fullmatch(args.machine):
        raise UsageError(
            f"--machine {args.machine!r}: letters, digits, `.`, `_` and `-` are wanted, such as --machine h200"
        )
    config.check(root)
    with lock.held(root, measures=False), _scratch(root) as folder:
        manifest = archive.read(args.tar, folder)
        _check_project(root, manifest, args.tar)
        done = _merge(root, folder, manifest, args.machine)
    _report(done, args, out, err)
    return 0 if done.placed else ResultsError.exit_code


@contextmanager
def _scratch(root: Path) -> Iterator[Path]:
    """Yield a folder on the disk of `.asv`, so that traces and logs are moved, not copied."""
    with tempfile.TemporaryDirectory(prefix="unpack-", dir=root / ".asv") as folder:
        yield Path(folder)


def _check_project(root: Path, manifest: Manifest, tar: Path) -> None:
    """Refuse results of another repository: its commits' names mean nothing here."""
    listed = git(root, "rev-list", "--max-parents=0", "HEAD")
    if listed.returncode != 0:
        reason = listed.stderr.strip().partition("\n")[0]
        raise HistoryError(f"{root.absolute()}: git cannot list the commits of HEAD: {reason}")
    roots = listed.stdout.split()
    if manifest.root in roots:
        return
    if git(root, "rev-parse", "--is-shallow-repository").stdout.strip() == "true":
        raise HistoryError(
            f"{root.absolute()}: a shallow clone, which does not reach the first commit, {manifest.root[:8]}, "
            "that the tar names: run `git fetch --unshallow`"
        )
    raise ResultsError(
        f"{tar}: measured in another repository: its first commit is {manifest.root[:8]}, here it is "
        f"{', '.join(sha[:8] for sha in roots)}"
    )


def _merge(root: Path, folder: Path, manifest: Manifest, name: str) -> _Done:
    done = _Done()
    source, results = folder / "results" / manifest.machine, root / "results"
    machine = results / name
    description = _described(source / "machine.json", machine, manifest)
    _check_gpus(machine, manifest)
    theirs = _benchmarks(folder / "results" / "benchmarks.json", done)
    here = _benchmarks(results / "benchmarks.json", done)
    is_current = _is_current(root, manifest.head)
    first, second = (theirs, here) if is_current else (here, theirs)
    versions = merging.versions(first or {}, second or {})
    paths = [path for path in sorted(source.glob("*.json")) if path.name != "machine.json"]
    known = _known(root, paths, done)
    if known and description is not None:
        replace_text(machine / "machine.json", description)
    if known and theirs and here is not None:
        done.benchmarks = placing.benchmarks(here, theirs, results / "benchmarks.json", tar_is_current=is_current)
    for path in known:
        try:
            done.placed.append(placing.results_file(path, machine, versions))
        except ResultsError as error:
            done.problems.append(f"{error}; not merged")
    done.run, done.new = placing.run_folder(folder, manifest, machine)
    for kind in _LOCAL:
        place = root / ".asv" / kind / name / done.run.name
        done.local[place] = placing.local_files(folder / kind, place)
    return done


def _described(theirs: Path, machine: Path, manifest: Manifest) -> str | None:
    """Return the machine.json to write; None: the one here stays.

    Raises:
        ResultsError: the tar has none, or the one here is of another machine.
    """
    there = placing.load_object(theirs) if theirs.exists() else {}
    path = machine / "machine.json"
    if not path.exists():
        if not there:
            raise ResultsError(f"results/{manifest.machine}/machine.json is not in the tar: asv would see no result")
        return json.dumps(there | {"machine": machine.name}, indent=4, sort_keys=True) + "\n"
    here = placing.load_object(path)
    for key in _HARDWARE:
        if key in here and key in there and here[key] != there[key]:
            raise ResultsError(
                f"{path}: {key}: {here[key]!r} here, {there[key]!r} in the tar: "
                f"one name is one machine, give another one than --machine {machine.name}"
            )
    return None


def _check_gpus(machine: Path, manifest: Manifest) -> None:
    """Refuse another GPU than that of the earlier runs under this name: asv's machine.json knows no GPU."""
    for path in sorted((machine / "runs").glob("*/manifest.jsonl")):
        earlier = Manifest.from_json(path.read_text(encoding="utf-8"), str(path))
        if earlier.gpus and manifest.gpus and earlier.gpus != manifest.gpus:
            raise ResultsError(
                f"{path}: {', '.join(sorted(earlier.gpus))} here, {', '.join(sorted(manifest.gpus))} in the tar: "
                f"one name is one machine, give another one than --machine {machine.name}"
            )


def _benchmarks(path: Path, done: _Done) -> dict[str, object] | None:
    """Return benchmarks.json; empty where there is none, None where it cannot be read."""
    if not path.exists():
        return {}
    try:
        data = placing.load_object(path)
    except ResultsError as error:
        done.problems.append(f"{error}; it is left as it is")
        return None
    if data.get("version") != FORMAT_VERSION:
        done.problems.append(
            f"{path}: version {data.get('version')!r} is unknown, {FORMAT_VERSION} is wanted; left as it is"
        )
        return None
    return data


def _is_current(root: Path, head: str) -> bool:
    """Whether the suite that measured is the one of HEAD here, or a newer one."""
    same = git(root, "diff", "--quiet", head, "HEAD", "--", "benchmarks")
    return same.returncode == 0 or git(root, "merge-base", "--is-ancestor", "HEAD", head).returncode == 0


def _known(root: Path, paths: list[Path], done: _Done) -> list[Path]:
    """Return the results files of commits that this repository has, and say which it has not."""
    files: dict[str, list[Path]] = {}
    for path in paths:
        try:
            commit = StoredFile(path).commit
            if not (isinstance(commit, str) and SHA.fullmatch(commit)):
                raise ResultsError(
                    f"{path.name}: commit_hash: a commit's full hash is wanted, got {str(commit)[:60]!r}"
                )
        except ResultsError as error:
            done.problems.append(f"{error}; not merged")
            continue
        files.setdefault(commit, []).append(path)
    for commit in [sha for sha in files if git(root, "cat-file", "-e", f"{sha}^{{commit}}").returncode != 0]:
        count = units.count(len(files.pop(commit)), "results file")
        done.problems.append(
            f"commit {commit} is not in this repository: {count} not merged; `git fetch`, then unpack again"
        )
    return [path for found in files.values() for path in found]


def _report(done: _Done, args: argparse.Namespace, out: TextIO, err: TextIO) -> None:
    for line in done.problems:
        print(line, file=err)
    for item in done.placed:
        print(f"{item.path.name}: {item.taken} series taken, {item.kept} kept as they are here", file=out)
    for line in (note for item in done.placed for note in item.notes):
        print(line, file=out)
    if not done.placed:
        print(f"{args.tar}: no result was merged", file=err)
    if not (done.new or done.benchmarks or any(item.changed for item in done.placed)):
        print("nothing new: what the tar holds is here already", file=out)
    if done.benchmarks:
        print(f"results/benchmarks.json: {units.count(done.benchmarks, 'benchmark')} added or renewed", file=out)
    print(f"The run: {done.run}", file=out)
    for place, count in done.local.items():
        if count:
            print(f"{units.count(count, 'file')}: {place}", file=out)
    if done.placed:
        folders = f"{args.root / 'results' / args.machine} {args.root / 'results' / 'benchmarks.json'}"
        print(f"Next: kv report\n      git add -f {folders}", file=out)
