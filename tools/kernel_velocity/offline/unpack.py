"""``kv offline unpack TAR --machine NAME``: merge what a node measured into `results/NAME`.

Nothing that is better here is overwritten (merging.py), a second unpack changes nothing, and one that was interrupted
is finished by the next. Everything is checked before the first file is written.

Puts what a node's tar holds where it belongs in this clone, each file in one step.

What describes a result is written before the result: after an interruption at any point the next unpack still finds the
result missing, and finishes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from asv.results import get_filename

from kernel_velocity import config, lock, units
from kernel_velocity.errors import HistoryError, ResultsError, UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.harness import telemetry
from kernel_velocity.harness.stopping import from_environment, method_hash
from kernel_velocity.offline import archive
from kernel_velocity.offline.pack import SHA, Manifest
from kernel_velocity.results import failures, git, merge
from kernel_velocity.results import lines as line_files
from kernel_velocity.results import merge as rows
from kernel_velocity.results import sessions as session_facts
from kernel_velocity.results.asv_file import StoredFile
from kernel_velocity.results.merge import Cell, Decode, MergedRow, Row, Verdict
from kernel_velocity.results.reader import FORMAT_VERSION
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.runner.track import MACHINE

_HARDWARE = ("arch", "cpu", "num_cpu")  # what makes a machine another one; memory and kernel move with the rental
_LOCAL = ("traces", "logs")  # bulky, kept in .asv/, which git ignores

_DECODERS: tuple[tuple[str, Decode], ...] = (
    (".jsonl", telemetry.decode),
    (failures.SUFFIX, failures.decode),
)
METHOD = method_hash(from_environment({}), None)  # the suite's own, as it is measured by default
_NAMED = 3  # places that a line names before it says how many there are


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
    listed = git.run(root, "rev-list", "--max-parents=0", "HEAD")
    if listed.returncode != 0:
        reason = listed.stderr.strip().partition("\n")[0]
        raise HistoryError(f"{root.absolute()}: git cannot list the commits of HEAD: {reason}")
    roots = listed.stdout.split()
    if manifest.root in roots:
        return
    if git.run(root, "rev-parse", "--is-shallow-repository").stdout.strip() == "true":
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
    versions = merge.versions(first or {}, second or {})
    paths = [path for path in sorted(source.glob("*.json")) if path.name != "machine.json"]
    known = _known(root, paths, done)
    if known and description is not None:
        replace_text(machine / "machine.json", description)
    if known and theirs and here is not None:
        done.benchmarks = benchmarks(here, theirs, results / "benchmarks.json", tar_is_current=is_current)
    for path in known:
        try:
            done.placed.append(results_file(path, machine, versions))
        except ResultsError as error:
            done.problems.append(f"{error}; not merged")
    done.run, done.new = run_folder(folder, manifest, machine)
    for kind in _LOCAL:
        place = root / ".asv" / kind / name / done.run.name
        done.local[place] = local_files(folder / kind, place)
    return done


def _described(theirs: Path, machine: Path, manifest: Manifest) -> str | None:
    """Return the machine.json to write; None: the one here stays.

    Raises:
        ResultsError: the tar has none, or the one here is of another machine.
    """
    there = load_object(theirs) if theirs.exists() else {}
    path = machine / "machine.json"
    if not path.exists():
        if not there:
            raise ResultsError(f"results/{manifest.machine}/machine.json is not in the tar: asv would see no result")
        return json.dumps(there | {"machine": machine.name}, indent=4, sort_keys=True) + "\n"
    here = load_object(path)
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
        data = load_object(path)
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
    same = git.run(root, "diff", "--quiet", head, "HEAD", "--", "benchmarks")
    return same.returncode == 0 or git.run(root, "merge-base", "--is-ancestor", "HEAD", head).returncode == 0


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
    for commit in [sha for sha in files if git.run(root, "cat-file", "-e", f"{sha}^{{commit}}").returncode != 0]:
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


@dataclass(frozen=True, kw_only=True)
class Placed:
    """What became of one results file of the tar."""

    path: Path  # the results file here
    taken: int  # series
    kept: int  # series that are as good here, or better
    changed: bool  # whether anything was written
    notes: tuple[str, ...]  # what a reader should know, one line each


@dataclass(frozen=True, kw_only=True)
class _Side:
    """A results file with its lines, here or in the tar."""

    results: Any  # asv's object
    rows: Mapping[str, Row]
    lines: Mapping[str, str]  # suffix -> text
    sessions: tuple[SessionFacts, ...] = ()


def results_file(theirs: Path, machine: Path, versions: Mapping[str, str]) -> Placed:
    """Merge one results file of the tar, with its telemetry, into a machine's folder.

    Args:
        theirs: the file, unpacked. machine: `results/<machine>`. versions: of each benchmark in the suite.

    Raises:
        ResultsError: it, or the one here, is not a results file, or they are of different commits.
    """
    there = _side(theirs)
    path = machine / theirs.name
    _check_name(theirs, there)
    there.results.params["machine"] = machine.name
    here = _side(path) if path.exists() else _Side(results=there.results, rows={}, lines={})
    if here.results.commit_hash != there.results.commit_hash:
        raise ResultsError(f"{path}: of commit {here.results.commit_hash}, the tar's is of {there.results.commit_hash}")
    merged = {
        name: merge.merge_rows(here.rows.get(name), row, versions.get(name), METHOD) for name, row in there.rows.items()
    }
    changed = not path.exists() or any(item.taken for item in merged.values())
    if changed:
        _write(path, here, there, merged)
    return _placed(path, there, merged, changed)


def _side(path: Path) -> _Side:
    results = rows.load(path)
    beside = path.parent / "telemetry"
    lines = {suffix: _text(beside / f"{path.stem}{suffix}") for suffix, _ in _DECODERS}
    rounds, failed = merge.rounds(lines[".jsonl"]), merge.told(lines[failures.SUFFIX])
    try:
        found = rows.rows(results, rounds, failed)
        return _Side(results=results, rows=found, lines=lines, sessions=line_files.read_sessions(path, []))
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ResultsError(f"{path}: its columns do not fit together: {type(error).__name__}: {error}") from None


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _check_name(theirs: Path, there: _Side) -> None:
    """Refuse a file whose name is not that of its commit and environment: it would be put into another's place."""
    results = there.results
    if Path(get_filename("node", str(results.commit_hash), results._env_name)).name != theirs.name:
        raise ResultsError(f"{theirs.name}: holds results of {results.commit_hash} in {results._env_name}: left out")


def _write(path: Path, here: _Side, there: _Side, merged: Mapping[str, MergedRow]) -> None:
    for name, item in merged.items():
        rows.put(here.results, name, item.row)
    taken = {rows.series(name, params) for name, item in merged.items() for params in item.taken}
    gone = {rows.series(name, params) for name, item in merged.items() for params in item.dropped}
    for suffix, decode in _DECODERS:
        before = here.lines.get(suffix, "")
        text = merge.merge_lines(before, there.lines[suffix], taken, decode, gone)
        _replace(path.parent / "telemetry" / f"{path.stem}{suffix}", text)
    _replace(line_files.beside(path, session_facts.SUFFIX), session_facts.merged(here.sessions, there.sessions))
    replace_text(path, rows.text(here.results))


def _replace(path: Path, text: str) -> None:
    if text:
        replace_text(path, text)
    else:
        path.unlink(missing_ok=True)


def _placed(path: Path, there: _Side, merged: Mapping[str, MergedRow], changed: bool) -> Placed:
    verdicts = [
        verdict
        for name, item in merged.items()
        for params, verdict in item.verdicts.items()
        if _says_something(there.rows[name].cells[params])
    ]
    taken = verdicts.count(Verdict.TAKEN)
    notes = [f"{path.name}: {text}" for name, item in merged.items() for text in _notes(name, there.rows[name], item)]
    return Placed(path=path, taken=taken, kept=len(verdicts) - taken, changed=changed, notes=tuple(notes))


def _says_something(cell: Cell) -> bool:
    """Whether a series was tried: asv stores "does not apply" for those that were not asked for."""
    return cell.rank > (0, 0)


def _notes(name: str, there: Row, item: MergedRow) -> list[str]:
    lines = []
    for verdict, text in (
        (Verdict.FAILED, "failed on the node; the values here stay"),
        (Verdict.EQUAL, "as many rounds here and in the tar; what is here stays"),
        (Verdict.BETTER, "fewer rounds in the tar; what is here stays"),
        (Verdict.METHOD, "timed by another method; what is here stays"),
        (Verdict.VERSION, f"version {there.version} in the tar, {item.row.version} here; what is here stays"),
    ):
        found = [key for key, given in item.verdicts.items() if given is verdict and _says_something(there.cells[key])]
        if found:
            named = "; ".join(", ".join(rows.series(name, key)[1]) for key in found[:_NAMED])
            more = f" and {len(found) - _NAMED} more" if found[_NAMED:] else ""
            lines.append(f"{name}: {text} ({named}{more})")
    if item.replaced:
        lost = units.count(item.replaced, "value")
        lines.append(f"{name}: version {item.row.version} is the suite's: {lost} of another went with their row")
    return lines


def benchmarks(here: Mapping[str, object], theirs: Mapping[str, object], path: Path, *, tar_is_current: bool) -> int:
    """Write the benchmarks of both to benchmarks.json; return how many entries are new or another version's."""
    merged = merge.merge_benchmarks(here, theirs, tar_is_current=tar_is_current)
    changed = sum(here.get(name) != entry for name, entry in merged.items() if name != "version")
    if changed:
        replace_text(path, json.dumps(merged, indent=4, sort_keys=True) + "\n")
    return changed


def load_object(path: Path) -> dict[str, object]:
    """Return the object in a JSON file.

    Raises:
        ResultsError: it holds none.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # ValueError: not JSON, or not UTF-8
        raise ResultsError(f"{path}: an object in JSON is wanted: {error}") from None
    if not isinstance(data, dict):
        raise ResultsError(f"{path}: an object in JSON is wanted, got {str(data)[:60]!r}")
    return data


def run_folder(unpacked: Path, manifest: Manifest, machine: Path) -> tuple[Path, bool]:
    """Put the manifest and run/ beside the results; return their folder, and whether anything was written.

    asv takes every .json below a machine's folder for a result: these become .jsonl, of one line.
    """
    text = manifest.to_json()
    folder = _free(machine / "runs" / manifest.stamp, text)
    texts = {"manifest.jsonl": text}
    for path in sorted((unpacked / "run").rglob("*")):
        if path.is_file():
            name, said = _renamed(path, unpacked / "run")
            texts.setdefault(name, said)
    written = [name for name, said in texts.items() if _text(folder / name) != said or not (folder / name).exists()]
    for name in written:
        replace_text(folder / name, texts[name])
    return folder, bool(written)


def _free(folder: Path, manifest: str) -> Path:
    """Return the folder, or one beside it where another run of the same second is there."""
    number, found = 1, folder
    while (found / "manifest.jsonl").exists() and _text(found / "manifest.jsonl") != manifest:
        number += 1
        found = folder.with_name(f"{folder.name}-{number}")
    return found


def _renamed(path: Path, folder: Path) -> tuple[str, str]:
    """Return the name and the text under which a file of run/ is kept."""
    name, text = path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8", errors="replace")
    if not name.endswith(".json"):
        return name, text
    try:
        line = json.dumps(json.loads(text)) + "\n"
    except ValueError:  # cut off on the node: kept as it is
        return f"{name}.txt", text
    return (f"{name}.txt", text) if path.with_suffix(".jsonl").exists() else (f"{name}l", line)


def local_files(source: Path, target: Path) -> int:
    """Move the files below a folder (on the same disk) below another; return how many."""
    found = [path for path in sorted(source.rglob("*")) if path.is_file()]
    for path in found:
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        path.replace(place)
    return len(found)
