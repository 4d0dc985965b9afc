"""Allow one measuring run at a time in a clone, and on a machine.

Runs of one clone share the environment's path file, its checkout and the spool: two at once would record one commit's
code under another's name. Runs on one machine share caches, memory and clocks, and disturb each other.

A lock is a file that the kernel releases when its holder ends. Processes that the holder starts know it by its pid. The
machine's lock lies in the temporary folder, one for each user. KV_LOCK_FOLDER names another folder: where containers
with a /tmp of their own share a machine, or where jobs of a batch system have cores and a GPU of their own.

A run that finds a lock held ends with an error, or waits if it is asked to (--wait, KV_WAIT=1). Waiting, it holds no
other lock, so two runs that wait cannot wait for each other.

What a holder starts is contained (processes.py), so nothing measures without the lock. The lock's file has the mark of
its last holder's processes. Whoever takes the lock first ends those, in case the watcher was killed too.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from kernel_velocity import processes
from kernel_velocity.errors import UsageError
from kernel_velocity.files import naming

HOLDER = "KV_LOCK_HOLDER"  # variable: pid of the run that this process belongs to
LOCK_FOLDER = "KV_LOCK_FOLDER"  # variable: the folder of the machine's lock
WAIT = "KV_WAIT"  # variable: whether to wait for a lock; "" and 0: no


class HeldError(UsageError):
    """Another run holds a lock."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{message}; wait for it ({WAIT}=1 does)")
        self.path, self.message = path, message


def is_asked_to_wait(environ: Mapping[str, str]) -> bool:
    """Return whether KV_WAIT asks to wait."""
    return environ.get(WAIT, "") not in ("", "0")


def add_wait(parser: argparse.ArgumentParser) -> None:
    """Declare --wait. Its default comes from KV_WAIT."""
    text = f"wait for another run on this machine or in this clone, instead of failing (or {WAIT}=1)"
    parser.add_argument("--wait", action="store_true", default=is_asked_to_wait(os.environ), help=text)


def belongs_to_a_run() -> bool:
    """Return whether another process that holds the locks started this one."""
    return os.environ.get(HOLDER, "") not in ("", str(os.getpid()))


def take(root: Path, *, measures: bool = True, wait: bool | None = None) -> ExitStack | None:
    """Take the clone's lock and the machine's.

    Args:
        root: the clone. measures: whether to take the machine's lock too. wait: whether to wait for a lock that is
            held, after a line on standard error that names its holder. None: as KV_WAIT says.

    Returns:
        a stack that releases the locks when closed. None: this process's own run holds them already.

    Raises:
        HeldError: another run holds one of them, and is not waited for.
        UsageError: a lock's file cannot be opened.
    """
    awaited: Path | None = None
    while True:
        try:
            return _take_all(root, measures, awaited)
        except HeldError as held:
            if not (is_asked_to_wait(os.environ) if wait is None else wait):
                raise
            print(f"waiting: {held.message}; Ctrl-C ends this", file=sys.stderr, flush=True)  # noqa: T201
            awaited = held.path


def _take_all(root: Path, measures: bool, awaited: Path | None) -> ExitStack | None:
    """Do as `take`, without waiting but for the lock at `awaited`, which is taken first."""
    mark = processes.mark_of_this_process()
    clone = root / ".asv" / "lock"
    paths = {clone: "in this clone"}
    if measures:
        folder = os.environ.get(LOCK_FOLDER) or tempfile.gettempdir()
        paths[Path(folder, f"kernel-velocity-{os.getuid()}.lock")] = "on this machine"
    with ExitStack() as locks:
        for path in sorted(paths, key=lambda path: path != awaited):
            stream = _take(path, root, paths[path], mark, wait=path == awaited)
            if stream is not None:
                locks.enter_context(stream)
            elif path == clone:
                return None
        locks.enter_context(processes.contained(mark))
        os.environ[HOLDER] = str(os.getpid())
        return locks.pop_all()


def _take(path: Path, root: Path, where: str, mark: str, *, wait: bool) -> TextIO | None:
    """Take one lock, end what its last holder left, and write this one into it. None: this process's run holds it.

    Raises:
        HeldError: another run holds it, and `wait` is not set.
        UsageError: the file cannot be opened.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not through a link: in a shared folder, another user could have linked it to one of our files.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise UsageError(
            f"{path}: the lock cannot be opened ({error.strerror}); {LOCK_FOLDER} names another folder for it"
        ) from None
    stream = os.fdopen(descriptor, "r+", encoding="utf-8", errors="replace")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        with stream:
            holder, folder, _ = _lines(stream)
        if holder and os.environ.get(HOLDER) == holder:
            return None
        run = f"pid {holder or 'unknown'}" + (f", {folder}" if folder and folder != str(root.absolute()) else "")
        raise HeldError(path, f"another run is measuring {where} ({run})") from None
    except KeyboardInterrupt:
        stream.close()
        raise
    if last := _lines(stream)[2]:
        processes.end(last)
    with naming(path):
        stream.seek(0)
        stream.truncate()
        stream.write(f"{os.getpid()}\n{root.absolute()}\n{mark}\n")
        stream.flush()
    return stream


def _lines(stream: TextIO) -> tuple[str, str, str]:
    """Return the pid, the folder and the mark of a lock's holder, "" where the file lacks one."""
    holder, folder, mark = [*stream.read().split("\n"), "", "", ""][:3]
    return holder, folder, mark


@contextmanager
def held(root: Path, *, measures: bool = True, wait: bool | None = None) -> Iterator[None]:
    """Hold the locks of `take`.

    Raises:
        HeldError: another run holds one of them, and is not waited for.
        UsageError: a lock's file cannot be opened.
    """
    locks = take(root, measures=measures, wait=wait)
    try:
        yield
    finally:
        if locks is not None:
            os.environ.pop(HOLDER, None)
            locks.close()
