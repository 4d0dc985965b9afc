"""Write and read the tar of what a machine measured: written whole or not at all, checked before use.

    manifest.json                                            whose results these are (`Manifest`)
    results/benchmarks.json                                  what was measured
    results/<machine>/machine.json, <commit8>-<env>.json     asv's results
    results/<machine>/telemetry/*.jsonl                      rounds, failures, sessions
    results/<machine>/code/<digest>.txt.xz                   machine code that sessions name
    run/                                                     what describes the run, such as the output of the tests

A node without a network writes it by `python -m kernel_velocity.fleet.archive` (node.sh).
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import posixpath
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TextIO

from kernel_velocity import documents, fields
from kernel_velocity.errors import KernelVelocityError, NothingMeasured, ResultsError, UsageError
from kernel_velocity.fields import Moment, Rule, Sha
from kernel_velocity.files import replace_bytes, replace_text
from kernel_velocity.results import ingest
from kernel_velocity.results.asv_file import MACHINE
from kernel_velocity.runner import doctor
from kernel_velocity.suite import config
from kernel_velocity.terminal import screen

TAR_NAME = "kernel-velocity-node.tar.xz"
MANIFEST = "manifest.json"
MANIFEST_FORMAT = 1  # of the tar's layout; a newer one is refused
PROJECT = "kernel-velocity"
UNPACKED_LIMIT = 1_000_000_000  # bytes; far above any run's, far below what fills a disk
MOST_MEMBERS, MOST_LEVELS = 100_000, 16  # ours has 4 levels
END = bytes(2 * tarfile.BLOCKSIZE)  # of a whole tar


@dataclass(frozen=True, kw_only=True)
class Node:
    """What measured."""

    device: str = ""  # "cpu" or "cuda"
    gpus: tuple[str, ...] = ()
    torch: str | None = None  # its version


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The identity of what a node measured."""

    project: Annotated[str, Rule(PROJECT, PROJECT.__eq__)]
    root: Sha  # of the repository's first commit, which identifies the project
    head: Sha  # of the commit whose suite measured
    commits: tuple[Sha, ...]  # that were asked for
    machine: Annotated[str, Rule("a folder's name", MACHINE.fullmatch)]  # the folder of results/ in the tar
    node: Node
    written: Moment  # Unix time, s

    @property
    def stamp(self) -> str:
        """When it was written, in UTC, such as "20261121-180355". It names the run's folder."""
        return datetime.fromtimestamp(self.written, UTC).strftime("%Y%m%d-%H%M%S")

    def to_json(self) -> str:
        """Return the text of manifest.json: one line, so that it is a line of a .jsonl too."""
        return json.dumps({"format": MANIFEST_FORMAT} | asdict(self)) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str) -> Manifest:
        """Return the manifest of a text. `where` it is from begins the message of an error.

        Raises:
            ResultsError: not a manifest, another project's, or of a newer format.
        """
        where = f"{where}: {MANIFEST} is not of a node of {PROJECT}"
        return fields.read(cls, text, where, range(1, MANIFEST_FORMAT + 1), unchecked=MANIFEST_FORMAT)


def is_recorded(machine: str) -> bool:
    """Return whether the clone in the current folder has results of a machine."""
    results = Path(config.results_dir(Path()))
    return (results / machine / "machine.json").exists() and (results / "benchmarks.json").exists()


def of_machine(manifest: Manifest, describing: Path) -> bytes:
    """Return the tar of what the clone in the current folder has of the manifest's machine.

    Args:
        manifest: of the tar.
        describing: a folder whose files are the tar's run/.

    Raises:
        OSError: the disk is full.
    """
    machine, results = manifest.machine, Path(config.results_dir(Path()))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if is_recorded(machine):
            ours = folder / "results" / machine
            shutil.copytree(results / machine, ours, ignore=shutil.ignore_patterns("runs"))
            shutil.copy(results / "benchmarks.json", folder / "results")
        shutil.copytree(describing, folder / "run")
        (folder / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
        return of_folder(folder)


def of_folder(folder: Path) -> bytes:
    """Return a tar.xz of every file below a folder, without the machine's users and groups. The manifest is first."""

    def anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        return info

    stream = io.BytesIO()
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    with tarfile.open(fileobj=stream, mode="w:xz") as tar:
        for name in sorted(names, key=lambda name: (name != MANIFEST, name)):
            tar.add(folder / name, name, filter=anonymous)
    return stream.getvalue()


def read(path: Path, into: Path) -> Manifest:
    """Extract a node's tar into an empty folder, which the caller removes. Return its manifest.

    Raises:
        ResultsError: no tar of a node, damaged, of a newer format, too large, or with a member that leaves the folder.
    """
    if not path.is_file():
        raise ResultsError(f"{path}: no such file; the {TAR_NAME} that the node wrote is wanted")
    try:
        with lzma.open(path) as packed:
            data = packed.read(UNPACKED_LIMIT + 1)
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            # The members too: a sparse file is larger than its part of the tar.
            size = len(data) if len(data) > UNPACKED_LIMIT else sum(member.size for member in tar)
            if size > UNPACKED_LIMIT:
                raise ResultsError(f"{path}: more than {UNPACKED_LIMIT / 1e6:,.0f} MB unpacked: no run writes that")
            # Cut between two streams, the .xz is whole, and tarfile is content without the end.
            if data[tar.offset : tar.offset + len(END)] != END:
                raise tarfile.ReadError("its end is missing")
            _check_members(path, tar.getmembers())
            tar.extractall(into, filter="data")
        text = (into / MANIFEST).read_text(encoding="utf-8", errors="replace")
    except (lzma.LZMAError, EOFError, tarfile.TarError) as error:
        raise ResultsError(f"{path}: not a whole .tar.xz ({error}): copy {TAR_NAME} from the node again") from None
    except (FileNotFoundError, IsADirectoryError):
        raise ResultsError(f"{path}: no {MANIFEST} in it: the {TAR_NAME} of a node is wanted") from None
    return Manifest.from_json(text, str(path))


def _check_members(path: Path, members: Sequence[tarfile.TarInfo]) -> None:
    """Raise a ResultsError for members that no node writes: too many, several of a name, or deep ones.

    Of several the last would count. A folder of a thousand levels can be neither made nor removed by Python.
    """
    if len(members) > MOST_MEMBERS:
        raise ResultsError(f"{path}: more than {MOST_MEMBERS:,} files: no run writes that")
    names = set[str]()
    for member in members:
        name = posixpath.normpath(member.name)
        if name in names:
            raise ResultsError(f"{path}: {name[:60]!r} is in it twice: no run writes that")
        names.add(name)
        if name.count("/") > MOST_LEVELS:
            where = f"{path}: {name[:60]!r}"
            raise ResultsError(f"{where}: below more than {MOST_LEVELS} levels of folders: no run writes that")


def _probed(path: Path) -> dict[str, Any]:
    """Return what PyTorch says of this machine. A run asks once, for 3 s, and a file tells it to the later tars."""
    if path.exists():
        return documents.read(path)
    pytorch = doctor.probe()
    replace_text(path, json.dumps(pytorch))
    return pytorch


def main(argv: Sequence[str], out: TextIO) -> int:
    """Write the tar of a node: what the clone in the current folder recorded. Return the exit status, 0.

    Raises:
        NothingMeasured: it has no result. The tar has what describes the run.
        UsageError: the pack's manifest is damaged, or torch cannot be imported.
        OSError: the disk is full.
    """
    parser = argparse.ArgumentParser(prog="python -m kernel_velocity.fleet.archive")
    parser.add_argument("pack", type=Path, help="the pack's manifest.json")
    parser.add_argument("describing", type=Path, help="a folder that describes the run")
    parser.add_argument("tar", type=Path, help="the tar to write")
    parser.add_argument("--machine", required=True, help="the folder in results/")
    parser.add_argument("--pytorch", required=True, type=Path, help="a file for what PyTorch says of this machine")
    args = parser.parse_args(argv)
    try:
        pack = documents.read_checked(args.pack)
    except (OSError, documents.DamagedError) as error:
        raise UsageError(f"{args.pack}: {error}; make a pack with `kv offline pack DIR`") from None
    pytorch = _probed(args.pytorch)
    manifest = Manifest(
        project=PROJECT,
        root=pack["root"],
        head=pack["head"],
        commits=tuple(pack["commits"]),
        machine=args.machine,
        node=Node(device="cuda" if pytorch["gpus"] else "cpu", gpus=tuple(pytorch["gpus"]), torch=pytorch["torch"]),
        written=time.time(),
    )
    for line in ingest.ingest(Path(), machine=args.machine).problems:  # the rounds of a run that was cut off
        print(line, file=out)
    replace_bytes(args.tar, of_machine(manifest, args.describing))
    if not is_recorded(args.machine):
        raise NothingMeasured(f"{Path.cwd()}: nothing is recorded of {args.machine}; the tar has what steps printed")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:], screen(sys.stdout)))
    except (KernelVelocityError, OSError) as problem:
        print(f"error: {problem}", file=screen(sys.stderr))
        sys.exit(getattr(problem, "exit_code", KernelVelocityError.exit_code))
