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
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Generic, TypeVar

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
    other = Other(lambda: [make()])
    try:
        yield other.__next__
    finally:
        other.end()


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


class Other(Iterator[Made], Generic[Made]):
    """Another process, which makes some things one after the other: an iterator of them. `end` it."""

    def __init__(self, make: Callable[[], Iterable[Made]]) -> None:
        """Begin; only where `is_possible`. What it makes has to be picklable."""
        told, says = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            os.close(told)
            _be_the_other(make, says)
        os.close(says)
        self._told: BufferedReader = os.fdopen(told, "rb")

    def __next__(self) -> Made:
        """Wait for the next thing and return it.

        Raises:
            KernelVelocityError: it was ended from outside, or has made everything. What it raised, is raised here.
        """
        # Where Ctrl-C ends both, it is raised behind this line, and not while an error of the other is handled
        says_more = self._told.peek(1)
        if not says_more:
            raise self._ended()
        try:
            error, made = pickle.load(self._told)
        except (EOFError, pickle.UnpicklingError):  # it did not say all
            raise self._ended() from None
        if error is not None:
            raise error
        result: Made = made
        return result

    def _ended(self) -> KernelVelocityError:
        return KernelVelocityError(f"the process that makes a part of the site {self._how_it_ended()}: run it again")

    def _how_it_ended(self) -> str:
        process, self._process = self._process, 0
        _, status = os.waitpid(process, 0)
        code = os.waitstatus_to_exitcode(status)
        return (
            f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}, and said nothing"
        )

    def end(self) -> None:
        """End it, whatever it does; once more is harmless."""
        self._told.close()
        process, self._process = self._process, 0
        if process:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)


def _be_the_other(make: Callable[[], Iterable[object]], says: int) -> None:
    """Make the things, say what came of it, and end: whatever else this process was to do is the other's business."""
    status = 1
    try:
        with contextlib.suppress(BrokenPipeError), os.fdopen(says, "wb") as out:
            for said in _said(make):
                out.write(said)
                out.flush()
            status = 0
    finally:  # also of Ctrl-C, which both processes get: the other one tells of it
        os._exit(status)


def _said(make: Callable[[], Iterable[object]]) -> Iterator[bytes]:
    """Yield (None, thing) of all things, pickled, or (what was raised, None) as the last."""
    try:
        for made in make():
            yield pickle.dumps((None, made))
    except Exception as error:  # noqa: BLE001 - whatever it is, the other process raises it
        yield pickle.dumps((_to_be_told(error), None))


def _to_be_told(error: Exception) -> Exception:
    """Return an error with where it was raised; only its text where it cannot be pickled, or not be read back."""
    where = traceback.format_exc()
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - of whatever class it is
        return RuntimeError(where)
    error.add_note(f"In the process that makes a part of the site:\n{where}")
    return error
