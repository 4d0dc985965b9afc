"""``kv offline pack DIR``: everything that a node without a network needs, in one folder under 40 MB.

The folder holds the repository as a git bundle, the wheels of the extra `node` of pyproject.toml for several Pythons,
the two scripts that begin the run, and a manifest that says what belongs there, so that a copy that broke off is
noticed before anything is measured. PyTorch is not in it: the node has one that fits its GPU.

What a node's tar says of itself: which project, which commits, which machine.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from packaging.utils import canonicalize_name, parse_wheel_filename

from kernel_velocity.errors import HistoryError, ResultsError, UsageError
from kernel_velocity.make_venv import extra
from kernel_velocity.results import git

PACK_FORMAT = 1
LIMIT = 40_000_000  # bytes; what is copied to a node by hand stays small enough for any upload form
BUNDLE = "repository.bundle"
MANIFEST = "manifest.json"
SCRIPTS = ("run", "launch.py")
PYTHONS = "3.11,3.12,3.13"
OLDEST = (3, 11)  # Python that the suite runs on
EXTRA = "node"
# What asv asks for its environment type `virtualenv`, which this project does not use: 6.4 MB.
UNUSED = ("virtualenv", "distlib", "filelock", "platformdirs", "python-discovery")
# pip matches these tags exactly. glibc 2.28 is RHEL 8's; an older node is refused by pip there, by name.
PLATFORM_TAGS = ("manylinux1", "manylinux2010", "manylinux2014", *(f"manylinux_2_{n}" for n in (5, 12, 17, 24, 27, 28)))

FORMAT = 1  # of the tar's layout; a reader refuses a higher one
PROJECT = "kernel-velocity"
SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_FOLDER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")  # as kernel_velocity.runner.track has it for the name of a machine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the step's arguments."""
    parser.add_argument("folder", type=Path, help="the folder to make; an older pack there is replaced")
    parser.add_argument("--range", help="the commits to measure on the node (default: those of `make track`)")
    parser.add_argument("--pythons", default=PYTHONS, help=f"Pythons that the node may have (default {PYTHONS})")
    parser.add_argument("--platform", default=platform.machine(), help="the node's processor (default: this one's)")
    parser.add_argument("--leave-out", action="append", default=[], metavar="PACKAGE", help="what the node has anyway")
    parser.add_argument("--root", type=Path, default=Path(), help="the clone (default: here)")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Pack; return the exit status."""
    for note in _check(args.root):
        print(f"note: {note}", file=err)
    commits = git.commits(args.root, args.range)
    _check_ancestors(args.root, commits)
    _check_replaceable(args.folder)
    new = args.folder.with_name(f".{args.folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    try:
        _fill(new, args, commits)
        size = _check_size(new)
        _replace(new, args.folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    print(
        f"{args.folder}: {len(commits)} commits ({', '.join(sha[:8] for sha in commits)}), {size / 1e6:.1f} MB, for "
        f"Python {args.pythons} on {args.platform}\n"
        f"copy the folder to the node, there: sh {args.folder.name}/run OUT --minutes 60",
        file=out,
    )
    return 0


def _check(root: Path) -> list[str]:
    """Return notes on the clone.

    Raises:
        HistoryError: no clone, or a shallow one.
    """
    git.check_clone(root)
    if git.run(root, "rev-parse", "--is-shallow-repository").stdout.strip() == "true":
        raise HistoryError("a shallow clone cannot be packed: run `git fetch --unshallow` first")
    changed = git.run(root, "status", "--porcelain").stdout.splitlines()
    more = f" and {len(changed) - 1} more" if changed[1:] else ""
    return [f"uncommitted changes do not travel, only commits: {changed[0][3:]}{more}"] if changed else []


def _check_ancestors(root: Path, commits: Sequence[str]) -> None:
    for commit in commits:
        if git.run(root, "merge-base", "--is-ancestor", commit, "HEAD").returncode != 0:
            raise UsageError(f"--range: {commit[:8]} is no ancestor of HEAD; check out a branch that has it")


def _check_replaceable(folder: Path) -> None:
    if folder.exists() and not (folder / MANIFEST).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: exists and is no pack of ours; name a folder that does not exist")


def _fill(folder: Path, args: argparse.Namespace, commits: Sequence[str]) -> None:
    folder.mkdir(parents=True)
    _git(args.root, "bundle", "create", "-q", str((folder / BUNDLE).absolute()), "HEAD")
    pythons = _pythons(args.pythons)
    wanted = extra(args.root / "tools", EXTRA)
    left_out = {canonicalize_name(name) for name in (*UNUSED, *args.leave_out)}
    for python in pythons:
        _download(folder / "wheels", python, args.platform, wanted, left_out)
    for name in SCRIPTS:
        shutil.copy(Path(__file__).parent / "node" / name, folder / name)
    manifest = {
        "format": PACK_FORMAT,
        "project": PROJECT,
        "root": _git(args.root, "rev-list", "--max-parents=0", "HEAD").split()[-1],
        "head": _git(args.root, "rev-parse", "HEAD").strip(),
        "commits": list(commits),
        "pythons": pythons,
        "platform": args.platform,
        "left_out": args.leave_out,
        "packed": time.time(),
        "files": {
            str(path.relative_to(folder)): path.stat().st_size for path in sorted(folder.rglob("*")) if path.is_file()
        },
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def _git(root: Path, *args: str) -> str:
    done = git.run(root, *args)
    if done.returncode != 0:
        raise HistoryError(f"git {args[0]}: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    return done.stdout


def _pythons(text: str) -> list[str]:
    """Return the versions of a list such as "3.11,3.12".

    Raises:
        UsageError: one is no version, or older than the suite.
    """
    found = [item.strip() for item in text.split(",") if item.strip()]
    for item in found:
        parts = item.split(".")
        if len(parts) != 2 or not all(part.isdigit() for part in parts) or tuple(map(int, parts)) < OLDEST:
            raise UsageError(
                f"--pythons: {item!r}; versions from {OLDEST[0]}.{OLDEST[1]} on are wanted, such as {PYTHONS}"
            )
    if not found:
        raise UsageError(f"--pythons {text!r} names none; versions are wanted, such as {PYTHONS}")
    return found


def _download(wheels: Path, python: str, machine: str, wanted: Sequence[str], left_out: Container[str]) -> None:
    """Collect the wheels of one Python, and the list of them that is installed there.

    Raises:
        UsageError: pip could not: no network, or no wheel for this Python and platform.
    """
    tags = [text for tag in PLATFORM_TAGS for text in ("--platform", f"{tag}_{machine}")]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "-q", *tags]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", python, *wanted]
    with tempfile.TemporaryDirectory(dir=wheels.parent) as fresh:
        done = subprocess.run([*command, "-d", fresh], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["pip gave no reason"]
            raise UsageError(f"wheels for Python {python} on {machine}: {errors[-1].removeprefix('ERROR: ')}")
        found = {path: parse_wheel_filename(path.name)[:2] for path in sorted(Path(fresh).glob("*.whl"))}
        kept = {path: pair for path, pair in found.items() if pair[0] not in left_out}
        wheels.mkdir(exist_ok=True)
        for path in kept:
            path.replace(wheels / path.name)
    lines = [f"{name}=={version}\n" for name, version in kept.values()]
    (wheels / f"requirements-{python}.txt").write_text("".join(lines), encoding="utf-8")


def _check_size(folder: Path) -> int:
    sizes = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    total = sum(sizes.values())
    if total > LIMIT:
        largest = sorted(sizes, key=lambda path: -sizes[path])[:3]
        named = ", ".join(f"{path.name} {sizes[path] / 1e6:.1f} MB" for path in largest)
        raise UsageError(
            f"the pack is {total / 1e6:.1f} MB, at most {LIMIT / 1e6:.0f} are allowed; largest: {named}. "
            "Name fewer --pythons, or --leave-out what the node has"
        )
    return total


def _replace(new: Path, folder: Path) -> None:
    """Put the new folder in the place of an older one."""
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The identity of what a node measured."""

    root: str  # SHA of the repository's first commit: what makes two clones the same project
    head: str  # SHA of the commit whose suite measured
    commits: tuple[str, ...]  # SHAs that were asked for
    machine: str  # the folder of results/ in the tar
    node: Mapping[str, object]  # facts of the machine (offline/facts.py)
    written: float  # Unix time, s

    @property
    def stamp(self) -> str:
        """When it was written, in UTC, as a folder is named after it: "20261121-180355"."""
        return datetime.fromtimestamp(self.written, UTC).strftime("%Y%m%d-%H%M%S")

    @property
    def gpus(self) -> frozenset[str]:
        """The models of its GPUs; empty where none was seen."""
        named = self.node.get("gpus")
        return frozenset(map(str, named)) if isinstance(named, list | tuple) else frozenset()

    def to_json(self) -> str:
        """Return the text of manifest.json: one line, so that it is a line of a .jsonl too."""
        data: dict[str, object] = {"format": FORMAT, "project": PROJECT, "root": self.root, "head": self.head}
        data |= {"commits": list(self.commits), "machine": self.machine, "node": dict(self.node)}
        return json.dumps(data | {"written": self.written}) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str) -> Manifest:
        """Return the manifest of a text.

        Args:
            text: manifest.json. where: the tar, for messages.

        Raises:
            ResultsError: not a manifest, another project's, or of a newer format.
        """
        try:
            data = json.loads(text)
        except ValueError as error:
            raise ResultsError(f"{where}: manifest.json: not JSON: {error}") from None
        if not isinstance(data, dict) or data.get("project") != PROJECT:
            got = data.get("project") if isinstance(data, dict) else data
            raise ResultsError(f"{where}: manifest.json: project {PROJECT!r} is wanted, got {str(got)[:60]!r}")
        _check_format(data.get("format"), where)
        for key, good in _CHECKS.items():
            if not good(data.get(key)):
                raise ResultsError(
                    f"{where}: manifest.json: {key}: {str(data.get(key, 'nothing'))[:60]!r} makes no sense"
                )
        return cls(
            root=data["root"],
            head=data["head"],
            commits=tuple(data["commits"]),
            machine=data["machine"],
            node=data["node"],
            written=float(data["written"]),
        )


def _check_format(number: Any, where: str) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ResultsError(f"{where}: manifest.json: format: a number from 1 on is wanted, got {str(number)[:60]!r}")
    if number > FORMAT:
        raise ResultsError(
            f"{where}: written in format {number} by a newer kernel-velocity, this one reads up to {FORMAT}: "
            "update this clone, then unpack again"
        )


def _is_sha(value: Any) -> bool:
    return isinstance(value, str) and SHA.fullmatch(value) is not None


def _is_time(value: Any) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 <= value < 253402300800  # no NaN either; the year 10000, where datetime ends
    )


_CHECKS = {
    "root": _is_sha,
    "head": _is_sha,
    "commits": lambda value: isinstance(value, list) and all(map(_is_sha, value)),
    "machine": lambda value: isinstance(value, str) and _FOLDER.fullmatch(value) is not None,
    "node": lambda value: isinstance(value, dict),
    "written": _is_time,
}
