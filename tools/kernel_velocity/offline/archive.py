"""Write and read the tar that a node sends back: written whole or not at all, checked before use.

    manifest.json                                            whose results these are (`Manifest`)
    results/benchmarks.json                                  what was measured
    results/<machine>/machine.json, <commit8>-<env>.json     asv's results
    results/<machine>/telemetry/*.jsonl                      rounds, failures, sessions
    run/                                                     summary.md, tests, ceilings, timers, facts of the node
    traces/, logs/                                           large. Left out, largest first, above the limit

Every file is an xz stream of its own, and several xz streams are one .xz file. So each file is compressed once, its
size in the tar is exact, and the last file can be left out without compressing the others again.
"""

from __future__ import annotations

import io
import json
import lzma
import os
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from kernel_velocity import fields
from kernel_velocity.errors import ResultsError
from kernel_velocity.fields import Moment, Rule, Sha
from kernel_velocity.files import replace_bytes
from kernel_velocity.results.asv_file import MACHINE

NAME = "kernel-velocity-node.tar.xz"
MANIFEST = "manifest.json"
FORMAT = 1  # of the tar's layout; a newer one is refused
PROJECT = "kernel-velocity"
LIMIT = 16_000_000  # bytes; what the way back from a node carries
UNPACKED_LIMIT = 1_000_000_000  # bytes; far above any run's, far below what fills a disk
DROPPABLE = ("traces/", "logs/")  # in this order: telemetry sums up a trace, a log may explain a failure
PRESET = 4  # of xz. A trace of 2 MB: 2.2 s and 48 MB of memory; 6: the same size, 94 MB; 1: 0.3 s, but 16% larger
WORKERS = 8  # at most, for the sake of memory; xz releases Python's lock
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
        return json.dumps({"format": FORMAT} | asdict(self)) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str) -> Manifest:
        """Return the manifest of a text. `where` it is from begins the message of an error.

        Raises:
            ResultsError: not a manifest, another project's, or of a newer format.
        """
        where = f"{where}: {MANIFEST} is not of a node of {PROJECT}"
        return fields.read(cls, text, where, range(1, FORMAT + 1), unchecked=FORMAT)


def write(path: Path, folder: Path, limit: int = LIMIT) -> list[str]:
    """Pack every file below a folder. Return a line for each that was left out to stay within `limit` bytes.

    Raises:
        ResultsError: what may not be left out is over the limit. An earlier tar and the folder stay as they are.
        OSError: a full disk. Likewise.
    """
    for left in path.parent.glob(f".{path.name}.*"):  # by a writer that was killed
        left.unlink()
    names = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
    with ThreadPoolExecutor(min(WORKERS, os.cpu_count() or 1)) as pool:
        streams = dict(zip(names, pool.map(lambda name: _stream(folder, name), names), strict=True))
    end = lzma.compress(END)
    total = len(end) + sum(map(len, streams.values()))
    lines = []
    for name in sorted(filter(_order, names), key=lambda name: (_order(name), -len(streams[name]))):
        if total > limit:
            size = len(streams.pop(name))
            lines.append(f"left out of the tar, {total - limit:,} bytes over: {name} ({size:,} bytes of it)")
            total -= size
    if total > limit:
        raise ResultsError(
            f"{path}: {total} bytes without a trace or a log, at most {limit} may leave the node: "
            f"copy {folder} instead, or measure fewer commits"
        )
    replace_bytes(path, b"".join([*(streams[name] for name in sorted(streams, key=_order)), end]))
    return lines


def _order(name: str) -> int:
    """Return 0 for a file that may not be left out, else 1 for those that are left out first, then 2."""
    return next((number for number, prefix in enumerate(DROPPABLE, start=1) if name.startswith(prefix)), 0)


def _stream(folder: Path, name: str) -> bytes:
    """Return a file as the tar has it (header without the node's users and groups, contents, padding), compressed."""
    data = (folder / name).read_bytes()
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(data), int((folder / name).stat().st_mtime)
    padding = bytes(-len(data) % tarfile.BLOCKSIZE)
    return lzma.compress(info.tobuf(format=tarfile.PAX_FORMAT) + data + padding, preset=PRESET)


def read(path: Path, into: Path) -> Manifest:
    """Extract a node's tar into an empty folder, which the caller removes. Return its manifest.

    Raises:
        ResultsError: no tar of a node, damaged, of a newer format, too large, or with a member that leaves the folder.
    """
    if not path.is_file():
        raise ResultsError(f"{path}: no such file; the {NAME} that the node wrote is wanted")
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
            tar.extractall(into, filter="data")
        text = (into / MANIFEST).read_text(encoding="utf-8", errors="replace")
    except (lzma.LZMAError, EOFError, tarfile.TarError) as error:
        raise ResultsError(f"{path}: not a whole .tar.xz ({error}): copy {NAME} from the node again") from None
    except (FileNotFoundError, IsADirectoryError):
        raise ResultsError(f"{path}: no {MANIFEST} in it: the {NAME} of a node is wanted") from None
    return Manifest.from_json(text, str(path))
