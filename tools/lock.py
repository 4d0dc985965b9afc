"""One measuring run at a time in a clone: all of them share the environment's path file, its checkout and the spool.

Two at once would record one commit's code under another's name. The lock is a file that the kernel frees when its
holder ends, however that ends; the processes that the holder starts know it by its pid.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from tools.errors import UsageError

HOLDER = "KV_LOCK_HOLDER"  # pid of the run that this process belongs to


def take(root: Path) -> TextIO | None:
    """Take the clone's lock; it is held until the returned file is closed. None: our own run holds it already.

    Raises:
        UsageError: another run holds it.
    """
    path = root / ".asv" / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    stream = path.open("a+", encoding="utf-8")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stream.seek(0)
        holder = stream.read().strip()
        stream.close()
        if holder and os.environ.get(HOLDER) == holder:
            return None
        raise UsageError(
            f"another run is measuring in this clone (pid {holder or 'unknown'}); wait for it, or use another clone"
        ) from None
    stream.truncate(0)
    stream.write(f"{os.getpid()}\n")
    stream.flush()
    os.environ[HOLDER] = str(os.getpid())
    return stream


@contextmanager
def held(root: Path) -> Iterator[None]:
    """Hold the clone's lock.

    Raises:
        UsageError: another run holds it.
    """
    stream = take(root)
    try:
        yield
    finally:
        if stream is not None:
            os.environ.pop(HOLDER, None)
            stream.close()
