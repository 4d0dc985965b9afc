"""Run part of the work in a forked child, which shares the data already in memory.

Only a process with one thread forks, because a child has no other threads but keeps the locks that they held. numpy's
OpenBLAS starts threads unless told not to before its import (`kernel_velocity.__main__`). Elsewhere both parts run in
turn.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from io import FileIO
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

from kernel_velocity.errors import KernelVelocityError
from kernel_velocity.processes import end_with_parent

FEWEST_APART = 200  # items: with fewer the work is done sooner than another process has started
_TASKS = Path("/proc/self/task")  # a folder for each thread of this process, those of libraries included

Value = TypeVar("Value")
Result = TypeVar("Result")


def has_one_thread() -> bool:
    """Return whether this process may fork."""
    return hasattr(os, "fork") and _TASKS.is_dir() and len(list(_TASKS.iterdir())) == 1


def end_threads_of_blas() -> None:
    """Have numpy's OpenBLAS end its threads, as its handler does before each fork. Its next product begins others."""
    if child := os.fork():
        os.waitpid(child, 0)
    else:
        os._exit(0)


def is_possible() -> bool:
    """Return whether this process may fork, and has a second core for the child."""
    return has_one_thread() and len(os.sched_getaffinity(0)) > 1


@contextlib.contextmanager
def forked(work: Callable[[], Result]) -> Iterator[Callable[[], Result]]:
    """Call `work` in a child while the body runs. Where forking is not possible, call it when its result is wanted.

    The result must be picklable. The child has ended when the context ends.

    Yields:
        a function that returns the result. Call it once. It raises the error of `work`, and KernelVelocityError where
        the child ended without a result.
    """
    if not is_possible():
        yield work
        return
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_send_result, args=(work, sender, os.getpid()))
    child.start()
    sender.close()

    def result() -> Result:
        receiver.poll(None)  # a Ctrl-C, which ends both, is raised here, not while the child's end is handled
        try:
            error, value = receiver.recv()
        except (EOFError, OSError):  # nothing, or a part of it
            child.join()
            code = child.exitcode or 0
            how = (
                f"was ended by {signal.Signals(-code).name}"
                if code < 0
                else f"ended with status {code}, without a result"
            )
            raise KernelVelocityError(f"the process that makes a part of the site {how}: run it again") from None
        if error is not None:
            raise error
        returned: Result = value
        return returned

    try:
        with receiver:
            yield result
    finally:
        child.kill()
        child.join()


def in_halves(work: Callable[[Sequence[Value]], Result], values: Sequence[Value]) -> list[Result]:
    """Call `work` with both halves of values, the second in a forked child. With few values, call it once."""
    if len(values) < FEWEST_APART:
        return [work(values)]
    half = len(values) // 2
    with forked(lambda: work(values[half:])) as rest:
        return [work(values[:half]), rest()]


def share(results: Sequence[Result]) -> Iterator[Result]:
    """Return an iterator over at most 256 items that, forked, yields each item in one of the two processes."""
    reading, writing = os.pipe()
    os.write(writing, bytes(range(len(results))))  # a byte of a pipe is read by one process only
    os.close(writing)
    return _take(results, FileIO(reading))


def _take(results: Sequence[Result], numbers: FileIO) -> Iterator[Result]:
    with numbers:
        while number := numbers.read(1):
            yield results[number[0]]


def _send_result(work: Callable[[], object], sender: Connection, parent: int) -> None:
    """Send (None, the result of `work`), or (its error, None)."""
    end_with_parent(parent)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends this child without a traceback; the parent has one
    with contextlib.suppress(BrokenPipeError):
        try:
            sender.send((None, work()))
        except Exception as error:  # noqa: BLE001 - the parent raises it
            sender.send((_picklable(error), None))


def _picklable(error: Exception) -> Exception:
    """Return an error with its traceback as a note. A RuntimeError of the traceback where it cannot be pickled."""
    where = traceback.format_exc()
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - pickling runs the error's own code
        return RuntimeError(where)
    error.add_note(f"In the process that makes a part of the site:\n{where}")
    return error
