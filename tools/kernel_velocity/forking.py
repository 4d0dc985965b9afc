"""Does a part of a work in another process that has all this one has: forked, it shares what was read.

Only of a process with one thread, as a fork has no other threads and keeps the locks that they held: numpy's OpenBLAS
starts some unless it is told not to before it is imported (`kernel_velocity.__main__`). Elsewhere both parts are done
in turn.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

from kernel_velocity.errors import KernelVelocityError

_TASKS = Path("/proc/self/task")  # a folder for each thread of this process, also of those that Python did not start

Made = TypeVar("Made")


def is_possible() -> bool:
    """Return whether another process would help, and may be forked here."""
    if not hasattr(os, "fork") or not _TASKS.is_dir():
        return False
    return len(os.sched_getaffinity(0)) > 1 and len(list(_TASKS.iterdir())) == 1


@contextlib.contextmanager
def begun(make: Callable[[], Made]) -> Iterator[Callable[[], Made]]:
    """Do a part of the work in another process while the body does the rest; where that is not possible, afterwards.

    What the part returns has to be picklable. The other process has ended when the body has, however that was.

    Yields:
        what returns the part's result; call it once. It raises what the part raised, and KernelVelocityError where the
        other process was ended from outside.
    """
    if not is_possible():
        yield make
        return
    told, says = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(told)
        _be_the_other(make, says)
    os.close(says)
    try:
        with os.fdopen(told, "rb") as saying:
            yield lambda: _made(process, saying)
    finally:  # whatever it does; one that has ended is there until it is waited for
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


class Shared(Iterator[Made], Generic[Made]):
    """Things that two processes take from, each thing once: an iterator, made before the other process begins."""

    def __init__(self, things: Sequence[Made]) -> None:
        """Share at most 256 things."""
        self._things = things
        self._numbers, writes = os.pipe()
        os.write(writes, bytes(range(len(things))))  # a byte can be read by one process only
        os.close(writes)

    def __next__(self) -> Made:
        """Return the next thing that nobody has taken."""
        number = os.read(self._numbers, 1) if self._numbers >= 0 else b""
        if number:
            return self._things[number[0]]
        self._close()
        raise StopIteration

    def _close(self) -> None:
        number, self._numbers = self._numbers, -1
        if number >= 0:
            os.close(number)

    __del__ = _close


def _made(process: int, saying: BufferedReader) -> Any:
    """Wait for what the other process made, and return it; raise what it raised."""
    # Where Ctrl-C ends both, it is raised behind this line, and not while an error of the other is handled
    says_any = saying.peek(1)
    if not says_any:
        raise _ended(process)
    try:
        error, made = pickle.load(saying)
    except (EOFError, pickle.UnpicklingError):  # it did not say all
        raise _ended(process) from None
    if error is not None:
        raise error
    return made


def _ended(process: int) -> KernelVelocityError:
    """Return how a process ended that did not say all; it stays there to be waited for."""
    end = os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    assert end is not None  # only where one does not wait (WNOHANG)
    if end.si_code == os.CLD_EXITED:
        how = f"ended with status {end.si_status}, and said nothing"
    else:
        how = f"was ended by {signal.Signals(end.si_status).name}"
    return KernelVelocityError(f"the process that makes a part of the site {how}: run it again")


def _be_the_other(make: Callable[[], object], says: int) -> NoReturn:
    """Make the part, say what came of it, and end: whatever else this process was to do is the other's business."""
    status = 1
    try:
        with contextlib.suppress(BrokenPipeError), os.fdopen(says, "wb") as out:
            out.write(_said(make))
        status = 0
    finally:  # also of Ctrl-C, which both processes get: the other one tells of it
        os._exit(status)


def _said(make: Callable[[], object]) -> bytes:
    """Return (None, what was made), pickled, or (what was raised, None)."""
    try:
        return pickle.dumps((None, make()))
    except Exception as error:  # noqa: BLE001 - whatever it is, the other process raises it
        return pickle.dumps((_to_be_told(error), None))


def _to_be_told(error: Exception) -> Exception:
    """Return an error with where it was raised; only its text where it cannot be pickled, or not be read back."""
    where = traceback.format_exc()
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - of whatever class it is
        return RuntimeError(where)
    error.add_note(f"In the process that makes a part of the site:\n{where}")
    return error
