"""``kv join NAME MACHINE...``: put what machines of one kind measured under one name, such as hosted runners.

A hosted runner has another name in each job, so that each of its series has one value. Their results files move into
`results/NAME`. Of a commit that NAME has already, the better series are taken (unpack.py), and a file of which anything
else stays is left where it is: nothing recorded is lost, and the same command again changes nothing. `joined.jsonl`
beside the files says which machine measured each.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TextIO

from kernel_velocity import lock, units
from kernel_velocity.counts import listing
from kernel_velocity.errors import ResultsError, UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.fleet.unpack import MACHINE_IDENTITY, merge_file, read_object, records
from kernel_velocity.results import lines, reader, sessions
from kernel_velocity.results.asv_file import StoredFile, check_machine
from kernel_velocity.suite import config

FROM = "joined.jsonl"  # a line for each file: which machine measured it
LISTED = 5  # machines named in an error


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("name", metavar="NAME", help="the name under which the results are kept, such as hosted")
    parser.add_argument(
        "machines", metavar="MACHINE", nargs="+", help="a folder of results/, or a pattern such as 'fv-az*'"
    )
    parser.add_argument("--root", type=Path, default=Path(), help="the folder of asv.conf.json (default: here)")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Move the results and say what was done.

    Raises:
        UsageError: NAME is no name, no machine is meant, or the machines are of different kinds.
        ResultsError: machine.json or benchmarks.json cannot be read. Nothing was moved then.
    """
    check_machine("NAME ", args.name)
    results = args.root / config.results_dir(args.root)
    with lock.held(args.root, measures=False):
        machines = _named(results, args.name, args.machines)
        target, facts = results / args.name, _same_facts([*machines, results / args.name])
        versions = _versions(results / "benchmarks.json")
        if not (target / "machine.json").exists():
            about = facts | {"machine": args.name}
            replace_text(target / "machine.json", json.dumps(about, indent=4, sort_keys=True) + "\n")
        moved = 0
        for machine in machines:
            listing.copy(machine / sessions.CODE, target / sessions.CODE)
            for path in machines[machine]:
                try:
                    moved += _move(path, target, versions)
                except ResultsError as error:
                    print(f"{error}; it stays in {machine}", file=err)
            _remove_if_empty(machine)
    if not machines:
        print(f"nothing to join: {args.name} has what these machines measured", file=out)
        return 0
    left = sum(machine.exists() for machine in machines)
    print(f"{target}: {units.count(moved, 'results file')} of {units.count(len(machines), 'machine')}", file=out)
    if left:
        print(f"{units.count(left, 'machine')} keep what {args.name} has of the same commits", file=out)
    print(f"Next: kv report\n      git add -A {results}; git add -f {target}", file=out)
    print(f"From now on measure with --machine {args.name}", file=out)
    return 0


def _named(results: Path, name: str, patterns: Sequence[str]) -> dict[Path, list[Path]]:
    """Return the folders that patterns name, but for the one that they become, with the results files of each.

    Raises:
        UsageError: there is none, and NAME has no results.
    """
    here = dict(reader.folders(results))
    chosen = {
        folder: paths
        for folder, paths in here.items()
        if folder.name != name and any(fnmatchcase(folder.name, pattern) for pattern in patterns)
    }
    if not chosen and results / name not in here:
        names = units.listed([folder.name for folder in here], LISTED)
        raise UsageError(f"MACHINE: a machine of {results} is wanted ({names}), got {' '.join(patterns)}")
    return chosen


def _same_facts(machines: Sequence[Path]) -> dict[str, object]:
    """Return what asv says of the first of some machines.

    Raises:
        UsageError: another one is of another kind.
    """
    described = {path: read_object(path / "machine.json") for path in machines if (path / "machine.json").exists()}
    (first, facts), *others = described.items() or [(machines[0], {})]
    for path, other in others:
        for key in MACHINE_IDENTITY:
            if key in facts and key in other and facts[key] != other[key]:
                raise UsageError(
                    f"{path}/machine.json: {key}: {other[key]!r}, but {facts[key]!r} of {first.name}: one name is one "
                    "kind of machine; join each kind under a name of its own"
                )
    return facts


def _versions(path: Path) -> dict[str, str]:
    """Return the version of each benchmark in benchmarks.json."""
    entries = read_object(path) if path.exists() else {}
    return {name: str(entry.get("version")) for name, entry in entries.items() if isinstance(entry, dict)}


def _move(path: Path, target: Path, versions: dict[str, str]) -> bool:
    """Merge a results file into a machine's folder. Remove it, and return True, where all that it says is there now."""
    joined = lines.counterpart(path, target)
    merge_file(path, joined, versions)
    theirs, ours = StoredFile(path), StoredFile(joined)
    here = records(ours, joined)
    for series, record in records(theirs, path).items():
        is_here = here.get(series) == record and ours.version(series[0]) == theirs.version(series[0])
        if record.is_tried and not is_here:
            return False
    if any(_entries(path, suffix) - _entries(joined, suffix) for suffix in lines.CODECS):
        return False  # lines of no value
    line = json.dumps({"file": joined.name, "machine": path.parent.name})
    entries = dict.fromkeys((*filter(None, lines.texts(target / FROM, [])), line))
    replace_text(target / FROM, "".join(f"{text}\n" for text in entries))
    for suffix in (*lines.CODECS, sessions.SUFFIX):
        lines.beside(path, suffix).unlink(missing_ok=True)
    path.unlink()
    return True


def _entries(path: Path, suffix: str) -> set[str]:
    """Return the lines of a kind beside a results file, as text that is equal for equal lines."""
    decode, _ = lines.CODECS[suffix]
    entries = lines.decoded(lines.texts(lines.beside(path, suffix), []), decode)
    return {line if isinstance(entry, ValueError) else repr(entry) for _, line, entry in entries}


def _remove_if_empty(machine: Path) -> None:
    """Remove a machine's folder where it has nothing but machine.json, and machine code, which was copied."""
    code = machine / sessions.CODE
    if all(path.is_dir() or path == machine / "machine.json" or path.parent == code for path in machine.rglob("*")):
        (machine / "machine.json").unlink(missing_ok=True)
        shutil.rmtree(code, ignore_errors=True)
        for folder in sorted((path for path in machine.rglob("*")), reverse=True):
            folder.rmdir()
        machine.rmdir()
