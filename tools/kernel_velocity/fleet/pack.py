"""``kv offline pack DIR``: everything that a node without a network needs, in one folder under 50 MB.

The folder holds the repository as a git bundle, the wheels of the extra `node` of pyproject.toml for several Pythons,
the script that measures (node.sh, named `run`), a manifest, and the checksums of all files, so that a copy that broke
off is noticed before anything is measured. PyTorch is not in it: the node has one that fits its GPU.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from packaging.utils import parse_wheel_filename

from kernel_velocity import units
from kernel_velocity.documents import with_checksum
from kernel_velocity.errors import HistoryError, UsageError
from kernel_velocity.fleet.archive import MANIFEST, PROJECT
from kernel_velocity.make_venv import extra
from kernel_velocity.results import git

PACK_FORMAT = 2  # of the pack
LIMIT = 50_000_000  # bytes; what is copied to a node by hand stays small enough for any upload form
CHECKSUMS = "SHA256SUMS"  # of all other files, as `sha256sum -c` reads them
PYTHONS = "3.11,3.12,3.13"
# What asv asks for its environment type `virtualenv`, which this project does not use: 6.4 MB.
UNUSED = ("virtualenv", "distlib", "filelock", "platformdirs", "python-discovery")
# pip matches these tags exactly. glibc 2.28 is RHEL 8's; an older node is refused by pip there, by name.
PLATFORM_TAGS = ("manylinux1", "manylinux2010", "manylinux2014", *(f"manylinux_2_{n}" for n in (5, 12, 17, 24, 27, 28)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the step's arguments."""
    parser.add_argument("folder", type=Path, help="the folder to make; an older pack there is replaced")
    parser.add_argument("--range", help="the commits to measure on the node (default: those of `kv track`)")
    parser.add_argument("--pythons", default=PYTHONS, help=f"Pythons that the node may have (default {PYTHONS})")
    parser.add_argument("--platform", default=platform.machine(), help="the node's processor (default: this one's)")
    parser.add_argument("--root", type=Path, default=Path(), help="the clone (default: here)")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Pack. Return the exit status.

    Raises:
        HistoryError: no clone, or a shallow one.
        UsageError: an option makes no sense, the pack would be too large, or a wheel is not to be had.
    """
    root, folder = args.root, args.folder
    git.check_clone(root)
    if git.is_shallow(root):
        raise HistoryError("a shallow clone cannot be packed: run `git fetch --unshallow` first")
    if changed := git.run(root, "status", "--porcelain").stdout.splitlines():
        print(f"note: uncommitted changes do not travel, only commits: {units.listed(changed)[3:]}", file=err)
    commits = git.commits(root, args.range)
    git.check_ancestors(root, commits)
    pythons = [version.strip() for version in args.pythons.split(",")]
    if not all(re.fullmatch(r"3\.1[1-9]", version) for version in pythons):
        raise UsageError(f"--pythons {args.pythons!r}: versions from 3.11 on are wanted, such as {PYTHONS}")
    if folder.exists() and not (folder / MANIFEST).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: exists and is no pack of ours; name a folder that does not exist")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as scratch:
        new = Path(scratch, "pack")
        size = _fill(new, root, commits, pythons, args.platform)
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)
    print(
        f"{folder}: {len(commits)} commits ({', '.join(sha[:8] for sha in commits)}), {size / 1e6:.1f} MB, for "
        f"Python {args.pythons} on {args.platform}\n"
        f"copy the folder to the node, there: sh {folder.name}/run OUT 60",
        file=out,
    )
    return 0


def _fill(folder: Path, root: Path, commits: Sequence[str], pythons: Sequence[str], machine: str) -> int:
    """Write a pack. Return its bytes."""
    wheels = folder / "wheels"
    wheels.mkdir(parents=True)
    git.bundle(root, folder / "repository.bundle")
    for python in pythons:
        _download(wheels, python, machine, extra(root / "tools", "node"))
    shutil.copy(Path(__file__).with_name("node.sh"), folder / "run")
    manifest = {
        "format": PACK_FORMAT,
        "project": PROJECT,
        "root": git.first_commit(root),
        "head": git.resolve(root, "HEAD", "HEAD"),
        "commits": list(commits),
        "pythons": list(pythons),
        "platform": machine,
        "packed": time.time(),
    }
    (folder / MANIFEST).write_text(with_checksum(json.dumps(manifest, indent=1)), encoding="utf-8")
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()))
    (folder / CHECKSUMS).write_text(sums, encoding="utf-8")
    sizes = {name: len(data) for name, data in files.items()}
    total = sum(sizes.values())
    if total > LIMIT:
        largest = ", ".join(f"{name} {sizes[name] / 1e6:.1f} MB" for name in sorted(sizes, key=lambda n: -sizes[n])[:3])
        raise UsageError(
            f"the pack is {total / 1e6:.1f} MB, at most {LIMIT / 1e6:.0f} are allowed; largest: {largest}. "
            "Name fewer --pythons"
        )
    return total


def _download(wheels: Path, python: str, machine: str, wanted: Sequence[str]) -> None:
    """Collect the wheels of one Python, and the list of them that is installed there.

    Raises:
        UsageError: pip could not: no network, or no wheel for this Python and platform.
    """
    tags = [text for tag in PLATFORM_TAGS for text in ("--platform", f"{tag}_{machine}")]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "-q", *tags]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", python, *wanted]
    with tempfile.TemporaryDirectory(dir=wheels.parent) as fresh:
        done = subprocess.run([*command, "-d", fresh], capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["pip gave no reason"]
            raise UsageError(f"wheels for Python {python} on {machine}: {errors[-1].removeprefix('ERROR: ')}")
        lines = []
        for path in sorted(Path(fresh).glob("*.whl")):
            name, version, *_ = parse_wheel_filename(path.name)
            if name not in UNUSED:
                path.replace(wheels / path.name)
                lines.append(f"{name}=={version}\n")
    (wheels / f"requirements-{python}.txt").write_text("".join(lines), encoding="utf-8")
