"""``kv offline unpack TAR --machine NAME``: merge what a node measured into `results/NAME`.

Nothing that is better here is replaced (results/merge.py), and a second unpack changes nothing. Everything is checked
before the first file is written. What describes a result is written before it: the next unpack finishes one that was
interrupted.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from kernel_velocity import config, lock, units
from kernel_velocity.errors import ResultsError
from kernel_velocity.files import replace_text
from kernel_velocity.harness import documents
from kernel_velocity.harness.cases import DEVICES
from kernel_velocity.harness.device_figures import figures, version
from kernel_velocity.offline import archive
from kernel_velocity.offline.archive import Manifest
from kernel_velocity.results import git, merge
from kernel_velocity.results.asv_file import Params, StoredFile, check_machine
from kernel_velocity.results.reader import FORMAT_VERSION

HARDWARE = ("arch", "cpu", "num_cpu")  # what makes a machine another one; memory and kernel move with the rental


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the step's arguments."""
    parser.add_argument("tar", type=Path, metavar="TAR", help=f"the {archive.NAME} that the node wrote")
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
        _keep_run(root, machine, manifest, folder, out)
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
    different = {key: (path, here[key], there[key]) for key in HARDWARE if key in here and key in there}
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
    _put_ceilings(folder, manifest, paths)
    merged = []
    for path in paths:
        try:
            merged.append(merge.merge_file(path, machine / path.name, versions))
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


def _put_ceilings(folder: Path, manifest: Manifest, paths: Sequence[Path]) -> None:
    """Put the ceilings that a stage of the run measured into its newest commit's results, as asv would have.

    Without them the machine has no roofs here, and nothing has a share of its limit.
    """
    measured = folder / "run" / "ceilings.json"
    commits = {StoredFile(path).commit: path for path in paths}
    newest = next((commits[commit] for commit in manifest.commits if commit in commits), None)
    if newest is None or not measured.exists():
        return
    document = documents.read_checked(measured)
    device, file = document["device"], StoredFile(newest)
    for name, ceiling in figures(document).items():
        values: dict[Params, Sequence[float] | None] = {(): None if ceiling.value is None else [ceiling.value]}
        series = f"device.{DEVICES[device]}.track_{name}"
        file.put(series, version(device, name), values, measured.stat().st_mtime)
    file.save()


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


def _keep_run(root: Path, machine: Path, manifest: Manifest, folder: Path, out: TextIO) -> None:
    """Keep what describes the run beside the results, and what is large in .asv, which git ignores."""
    target = machine / "runs" / manifest.stamp
    replace_text(target / "manifest.jsonl", manifest.to_json())
    for path in sorted((folder / "run").glob("*")):
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.suffix == ".json":  # asv takes every .json below a machine's folder for a result
            replace_text(target / f"{path.name}l", " ".join(text.splitlines()) + "\n")
        else:
            replace_text(target / path.name, text)
    print(f"The run: {target}", file=out)
    for kind in ("traces", "logs"):
        if (folder / kind).is_dir():
            copied = root / ".asv" / kind / machine.name / manifest.stamp
            shutil.copytree(folder / kind, copied, dirs_exist_ok=True)
            print(f"{units.count(len(list(copied.iterdir())), 'file')}: {copied}", file=out)


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
