"""Allow one measuring run at a time in a clone, and on a machine.

Runs of one clone share the environment's path file, its checkout and the spool: two at once would record one commit's
code under another's name. Runs on one machine share caches, memory and clocks, and disturb each other.

A lock is a file that the kernel releases when its holder ends. Processes that the holder starts know it by its pid. The
machine's lock lies in the temporary folder, one for each user. KV_LOCK_FOLDER names another folder: where containers
with a /tmp of their own share a machine, or where jobs of a batch system have cores and a GPU of their own.

What a holder starts is contained (processes.py), so nothing measures without the lock. The lock's file has the mark of
its last holder's processes. Whoever takes the lock first ends those, in case the watcher was killed too.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from kernel_velocity import processes
from kernel_velocity.errors import UsageError
from kernel_velocity.files import naming

HOLDER = "KV_LOCK_HOLDER"  # variable: pid of the run that this process belongs to
FOLDER = "KV_LOCK_FOLDER"  # variable: the folder of the machine's lock


def take(root: Path, *, measures: bool = True) -> ExitStack | None:
    """Take the clone's lock and the machine's.

    Args:
        root: the clone. measures: whether to take the machine's lock too.

    Returns:
        a stack that releases the locks when closed. None: this process's own run holds them already.

    Raises:
        UsageError: another run holds one of them.
    """
    mark = processes.mark_of_this_process()
    with ExitStack() as locks:
        clone = _take(root / ".asv" / "lock", root, "in this clone", mark)
        if clone is None:
            return None
        locks.enter_context(clone)
        if measures:
            folder = os.environ.get(FOLDER) or tempfile.gettempdir()
            machine = _take(Path(folder, f"kernel-velocity-{os.getuid()}.lock"), root, "on this machine", mark)
            if machine is not None:
                locks.enter_context(machine)
        locks.enter_context(processes.contained(mark))
        os.environ[HOLDER] = str(os.getpid())
        return locks.pop_all()


def _take(path: Path, root: Path, where: str, mark: str) -> TextIO | None:
    """Take one lock, end what its last holder left, and write this one into it. None: this process's run holds it.

    Raises:
        UsageError: another run holds it, or the file cannot be opened.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not through a link: in a shared folder, another user could have linked it to one of our files.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise UsageError(
            f"{path}: no lock can be there ({error.strerror}); {FOLDER} names another folder for the machine's"
        ) from None
    stream = os.fdopen(descriptor, "r+", encoding="utf-8", errors="replace")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with stream:
            holder, folder, _ = _lines(stream)
        if holder and os.environ.get(HOLDER) == holder:
            return None
        run = f"pid {holder or 'unknown'}" + (f", {folder}" if folder and folder != str(root.absolute()) else "")
        raise UsageError(f"another run is measuring {where} ({run}); wait for it") from None
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
def held(root: Path, *, measures: bool = True) -> Iterator[None]:
    """Hold the locks of `take`.

    Raises:
        UsageError: another run holds one of them.
    """
    locks = take(root, measures=measures)
    try:
        yield
    finally:
        if locks is not None:
            os.environ.pop(HOLDER, None)
            locks.close()
