"""One measuring run at a time in a clone, and on a machine.

In a clone all of them share the environment's path file, its checkout and the spool: two at once would record one
commit's code under another's name. On a machine they share caches, memory and clocks: two at once disturb each other.

A lock is a file that the kernel frees when its holder ends, however that ends; the processes that the holder starts
know it by its pid. That of a machine lies in the temporary folder, one for each user: where several are one machine to
measure on (containers with a /tmp of their own), or one is several (jobs of a batch system, each with its own cores and
GPU), KV_LOCK_FOLDER names another folder.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from kernel_velocity.errors import UsageError

HOLDER = "KV_LOCK_HOLDER"  # pid of the run that this process belongs to
FOLDER = "KV_LOCK_FOLDER"  # of the machine's lock


def take(root: Path, *, measures: bool = True) -> ExitStack | None:
    """Take the clone's lock and the machine's; they are held until what is returned is closed.

    None: our own run holds them already.

    Args:
        root: the clone. measures: whether the machine is measured; else the clone's lock is enough.

    Raises:
        UsageError: another run holds one of them.
    """
    with ExitStack() as taken:
        clone = _taken(root / ".asv" / "lock", root, "in this clone")
        if clone is None:
            return None
        taken.enter_context(clone)
        machine = _taken(_of_machine(), root, "on this machine") if measures else None
        if machine is not None:
            taken.enter_context(machine)
        os.environ[HOLDER] = str(os.getpid())
        return taken.pop_all()


def _of_machine() -> Path:
    return Path(os.environ.get(FOLDER) or tempfile.gettempdir(), f"kernel-velocity-{os.getuid()}.lock")


def _taken(path: Path, root: Path, where: str) -> TextIO | None:
    """Take one lock and write down who holds it. None: our own run does.

    Raises:
        UsageError: another run holds it, or there can be no such file.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not through a link: in a folder that is everybody's, somebody could have made it one to a file of ours.
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
            holder, _, folder = stream.read().strip().partition("\n")
        if holder and os.environ.get(HOLDER) == holder:
            return None
        said = f"pid {holder or 'unknown'}" + (f", {folder}" if folder and folder != str(root.absolute()) else "")
        raise UsageError(f"another run is measuring {where} ({said}); wait for it") from None
    stream.truncate(0)
    stream.write(f"{os.getpid()}\n{root.absolute()}\n")
    stream.flush()
    return stream


@contextmanager
def held(root: Path, *, measures: bool = True) -> Iterator[None]:
    """Hold the locks that `take` takes.

    Raises:
        UsageError: another run holds one of them.
    """
    taken = take(root, measures=measures)
    try:
        yield
    finally:
        if taken is not None:
            os.environ.pop(HOLDER, None)
            taken.close()
