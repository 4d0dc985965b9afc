"""The one tar that comes back from a node: written whole or not at all, and read with suspicion.

    manifest.json                                            whose results these are (`Manifest`)
    results/benchmarks.json                                  what was measured
    results/<machine>/machine.json, <commit8>-<env>.json     asv's results
    results/<machine>/telemetry/*.jsonl                      rounds and failures
    run/                                                     summary.md, tests, ceilings, timers, facts of the node
    traces/, logs/                                           bulky; left out, largest first, where the limit asks for it

Every file is an xz stream of its own, and an .xz of several streams is one .xz: so each file is compressed once, what
each takes is known exactly, and leaving one out costs nothing.
"""

from __future__ import annotations

import io
import lzma
import os
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from kernel_velocity.errors import ResultsError
from kernel_velocity.offline.pack import Manifest

__all__ = ["LIMIT", "MANIFEST", "NAME", "Manifest", "read", "write"]

NAME = "kernel-velocity-node.tar.xz"
LIMIT = 16_000_000  # bytes; what the way back from a node carries
UNPACKED_LIMIT = 1_000_000_000  # bytes; far above any run's, far below what fills a disk
MANIFEST = "manifest.json"
_DROPPABLE = ("traces", "logs")  # in this order: a trace repeats what telemetry sums up, a log may explain a failure
_PRESET = 4  # of xz. A trace of 2 MB: 2.2 s and 48 MB of memory; 6: the same size, 94 MB; 1: 0.3 s, but 16% larger
_WORKERS = 8  # at most, for the sake of memory; xz leaves Python's lock
_CHUNK = 1 << 20  # bytes


def write(path: Path, folder: Path, limit: int = LIMIT) -> list[str]:
    """Pack every file below a folder; return a line for each that was left out to stay within the limit.

    The tar replaces an earlier one in one step, once it is on the disk.

    Args:
        path: the tar. folder: its contents. limit: bytes that the tar may have.

    Raises:
        ResultsError: what may not be left out is over the limit; an earlier tar and the folder are as they were.
        OSError: it cannot be read or written (a full disk); likewise, and nothing half written is left.
    """
    temporary = path.with_name(f".{path.name}.new")  # one name: a killed writer's is overwritten by the next
    names = _names(folder, but=(path, temporary))
    with ThreadPoolExecutor(min(_WORKERS, os.cpu_count() or 1)) as pool:
        streams = dict(zip(names, pool.map(lambda name: _compressed(_member(folder, name)), names), strict=True))
    end = _compressed(bytes(2 * tarfile.BLOCKSIZE))
    total = len(end) + sum(map(len, streams.values()))
    lines = []
    for name in _first_to_go(streams):
        if total <= limit:
            break
        size = len(streams.pop(name))
        over = _size(total - limit)
        lines.append(f"left out of the tar, {over} over: {name} ({_size(size)} of it)")
        total -= size
    if total > limit:
        raise ResultsError(
            f"{path}: {total} bytes without a trace or a log, at most {limit} may leave the node: "
            f"everything lies in {folder}, carry that away, or measure fewer commits"
        )
    _replace(path, temporary, [streams[name] for name in sorted(streams, key=_is_droppable)] + [end])
    return lines


def _names(folder: Path, but: Sequence[Path]) -> list[str]:
    """Return the files below a folder, relative to it, sorted."""
    left_out = {item.resolve() for item in but}
    found = [path for path in folder.rglob("*") if path.is_file() and path.resolve() not in left_out]
    return sorted(path.relative_to(folder).as_posix() for path in found)


def _is_droppable(name: str) -> bool:
    return name.partition("/")[0] in _DROPPABLE


def _first_to_go(streams: dict[str, bytes]) -> list[str]:
    """Return what may be left out: the traces, then the logs, each with those first that take most of the tar."""
    found = [name for name in streams if _is_droppable(name)]
    return sorted(found, key=lambda name: (_DROPPABLE.index(name.partition("/")[0]), -len(streams[name]), name))


def _member(folder: Path, name: str) -> bytes:
    """Return a file as a tar has it: header, contents, padding; nothing of the node's users and groups."""
    path = folder / name
    data = path.read_bytes()
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(data), int(path.stat().st_mtime)
    header = info.tobuf(format=tarfile.PAX_FORMAT)
    return header + data + bytes(-len(data) % tarfile.BLOCKSIZE)


def _compressed(data: bytes) -> bytes:
    return lzma.compress(data, preset=_PRESET)


def _size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{size:,} bytes"


def _replace(path: Path, temporary: Path, streams: Sequence[bytes]) -> None:
    try:
        with temporary.open("wb") as stream:
            for data in streams:
                stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())  # a quota or a network disk may say only now that it is full
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read(path: Path, into: Path, limit: int = UNPACKED_LIMIT) -> Manifest:
    """Check a node's tar as a whole, then extract it; return its manifest.

    Args:
        path: the tar. into: an existing folder; nothing is written there before everything is checked. limit: bytes
            that the tar may have unpacked.

    Raises:
        ResultsError: not a tar of this project's node, damaged, of a newer format, larger than `limit`, or with a
            member that could leave the folder.
    """
    with _unpacked(path, into, limit) as plain:
        try:
            with tarfile.open(fileobj=plain, mode="r:") as tar:
                members = list(_checked(path, tar, limit))
                _check_end(path, plain, tar.offset)
                manifest = _manifest(path, tar)
                for member in members:
                    tar.extract(member, into, filter="data")
        except tarfile.TarError as error:
            raise ResultsError(f"{path}: not a whole tar ({error}): copy {NAME} from the node again") from None
    return manifest


@contextmanager
def _unpacked(path: Path, into: Path, limit: int) -> Iterator[BinaryIO]:
    """Yield the tar without its compression, to the end: a last block that is cut off is seen here only."""
    if not path.is_file():
        raise ResultsError(f"{path}: no such file; the {NAME} that the node wrote is wanted")
    with tempfile.TemporaryFile(dir=into) as plain:
        try:
            with lzma.open(path, "rb") as packed:
                while data := packed.read(_CHUNK):
                    plain.write(data)
                    if plain.tell() > limit:
                        raise ResultsError(f"{path}: more than {_size(limit)} unpacked: no run of ours writes that")
        except (lzma.LZMAError, EOFError) as error:
            raise ResultsError(f"{path}: not a whole .tar.xz ({error}): copy {NAME} from the node again") from None
        plain.seek(0)
        yield plain


def _checked(path: Path, tar: tarfile.TarFile, limit: int) -> Iterator[tarfile.TarInfo]:
    """Yield the members.

    Raises:
        ResultsError: one is no plain file or folder, lies outside, stands there twice, or all are larger than `limit`.
    """
    seen: set[PurePosixPath] = set()
    size = 0
    for member in tar:
        name = PurePosixPath(member.name)
        if not (member.isreg() or member.isdir()):
            raise ResultsError(f"{path}: {member.name!r} is a link or a device, plain files are wanted: not extracted")
        if name.is_absolute() or ".." in name.parts or not name.parts or "\\" in member.name:
            raise ResultsError(f"{path}: {member.name!r} lies outside of the tar's own folder: not extracted")
        if member.isreg() and name in seen:
            raise ResultsError(f"{path}: {member.name!r} stands there twice: not extracted")
        seen.add(name)
        size += member.size  # of a sparse file this is what it would take up
        if size > limit:
            raise ResultsError(f"{path}: more than {_size(limit)} unpacked: no run of ours writes that")
        yield member


def _check_end(path: Path, plain: BinaryIO, end: int) -> None:
    """Refuse a tar without its last two blocks: cut between two streams, the .xz is whole, and tarfile content."""
    plain.seek(end)
    last = plain.read(2 * tarfile.BLOCKSIZE)
    if last != bytes(2 * tarfile.BLOCKSIZE):
        raise ResultsError(f"{path}: not a whole tar (its end is missing): copy {NAME} from the node again")


def _manifest(path: Path, tar: tarfile.TarFile) -> Manifest:
    try:
        stream = tar.extractfile(MANIFEST)
    except KeyError:
        stream = None
    if stream is None:
        raise ResultsError(f"{path}: no {MANIFEST} in it, so no tar of a node: the {NAME} of a node is wanted")
    return Manifest.from_json(io.TextIOWrapper(stream, encoding="utf-8", errors="replace").read(), str(path))
