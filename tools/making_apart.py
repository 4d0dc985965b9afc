"""Does a part of a work in another process that has all this one has: forked, it shares what was read.

Only of a process with one thread, as a fork has no other threads and keeps the locks that they held: numpy's OpenBLAS
starts some unless it is told not to before it is imported (`tools.__main__`). Elsewhere both parts are done in turn.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Generic, TypeVar

from tools.errors import KernelVelocityError

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
    other = _Other(make)
    try:
        yield other.result
    finally:
        other.end()


class _Other(Generic[Made]):
    """The other process."""

    def __init__(self, make: Callable[[], Made]) -> None:
        told, says = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            os.close(told)
            _be_the_other(make, says)
        os.close(says)
        self._told: IO[bytes] = os.fdopen(told, "rb")

    def result(self) -> Made:
        """Wait for the result and return it."""
        with self._told:
            said = self._told.read()
        try:
            error, made = pickle.loads(said)
        except (EOFError, pickle.UnpicklingError):  # it said nothing, or not all
            message = f"the process that makes a part of the pages {self._how_it_ended()}: run it again"
            raise KernelVelocityError(message) from None
        if error is not None:
            raise error
        result: Made = made
        return result

    def _how_it_ended(self) -> str:
        process, self._process = self._process, 0
        _, status = os.waitpid(process, 0)
        code = os.waitstatus_to_exitcode(status)
        return (
            f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}, and said nothing"
        )

    def end(self) -> None:
        """End it, whatever it does."""
        self._told.close()
        if self._process:
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)


def _be_the_other(make: Callable[[], object], says: int) -> None:
    """Do the part, say what came of it, and end: whatever else this process was to do is the other's business."""
    status = 1
    try:
        with contextlib.suppress(BrokenPipeError), os.fdopen(says, "wb") as out:
            out.write(_said(make))
            status = 0
    finally:  # also of Ctrl-C, which both processes get: the other one tells of it
        os._exit(status)


def _said(make: Callable[[], object]) -> bytes:
    """Return (what the part raised or None, what it returned), pickled."""
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
    error.add_note(f"In the process that makes a part of the pages:\n{where}")
    return error
