"""End what a process started when the process ends, even if it was killed.

A killed process cleans nothing up. What it started would go on, and measure beside the next run: compilers, asv's
server, the rounds that this forks. They have process groups of their own, so a signal to a group does not reach them.

`contained` marks them by a variable of their environment, which everything inherits that they start. It also starts a
watcher, a small process that sleeps until a pipe from this process closes. Then the watcher kills what has the mark.
Without /proc, as on macOS, nothing is marked and nothing is killed.

The watcher runs this file, so it imports little: pathlib and subprocess would be half of what a watcher takes.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

RUN = "KERNEL_VELOCITY_RUN"  # variable: the marks, joined by "/", of the bodies that a process was started in
PATIENCE = 10.0  # s; a process that waits for a disk or a GPU's driver ends late
PAUSE = 0.005  # s between two looks
# s that the watcher goes on looking after a kill: a process that was about to call exec() still has no environment of
# its own. On a busy machine it was seen to appear after 5 ms.
CALM = 1.0
_PROCESSES = "/proc"
_PR_SET_PDEATHSIG = 1  # prctl(2)


def new_mark() -> str:
    """Return a mark that is unique among processes and calls."""
    return f"{os.getpid()}-{time.time_ns()}"


def mark_of_this_process() -> str:
    """Return a mark that no other process gives: its number, and when it began (proc(5), stat). "" without /proc."""
    try:
        with open(f"{_PROCESSES}/self/stat", encoding="ascii", errors="replace") as stream:  # noqa: PTH123
            began = stream.read().rpartition(")")[2].split()[19]
    except OSError:
        return ""
    return f"{os.getpid()}-{began}"


@contextmanager
def variable(name: str, value: str | None) -> Iterator[None]:
    """Set a variable of the environment during the body. None leaves it as it is."""
    before = os.environ.get(name)
    try:
        if value is not None:
            os.environ[name] = value
        yield
    finally:
        os.environ.pop(name, None)
        if before is not None:
            os.environ[name] = before


@contextmanager
def contained(mark: str | None = None) -> Iterator[Mapping[str, str]]:
    """End all processes that the body started, at its end or when this process is killed.

    The variable is set in `os.environ` during the body. Bodies may be nested: the outer one ends everything.

    Args:
        mark: of the body (`new_mark`). None: a new one.

    Yields:
        the variable, for environments that were made before.
    """
    import subprocess  # noqa: PLC0415

    if not os.path.exists(f"{_PROCESSES}/self/environ"):  # noqa: PTH110
        yield {}
        return
    mark = mark or new_mark()
    # Isolated (-I, -S), it is ready after 10 ms. In a session of its own, it gets no signal of a terminal
    watcher = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )
    before = os.environ.get(RUN)
    marks = mark if before is None else f"{before}/{mark}"
    try:
        with variable(RUN, marks):
            yield {RUN: marks}
    finally:
        watcher.communicate(b"ended")  # closes the pipe, and waits


def end(mark: str, calm: float = 0.0) -> None:
    """Kill the processes with a mark, but not this one, and wait until they have ended, `PATIENCE` s at most.

    Args:
        mark: of a body. calm: s to go on looking for others after the last one was seen.
    """
    now = time.monotonic()
    last_seen, until = now, now + PATIENCE
    while now < until:
        if _kill(mark.encode()):
            last_seen = time.monotonic()
        elif now - last_seen >= calm:
            return
        time.sleep(PAUSE)
        now = time.monotonic()


def end_with_parent(parent: int) -> None:
    """Have this process, forked by one of this number, killed with it. Its environment is not marked (Linux only)."""
    import ctypes  # noqa: PLC0415

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the call
        os.kill(os.getpid(), signal.SIGKILL)


def _kill(mark: bytes) -> bool:
    """Kill the processes with a mark. Return whether there was any."""
    any_left, name = False, f"{RUN}=".encode()
    for number in map(int, filter(str.isdigit, os.listdir(_PROCESSES))):  # noqa: PTH208
        # It has ended, or is another user's
        with suppress(OSError), open(f"{_PROCESSES}/{number}/environ", "rb") as stream:  # noqa: PTH123
            marks = [text.removeprefix(name) for text in stream.read().split(b"\0") if text.startswith(name)]
            if number != os.getpid() and marks and mark in marks[0].split(b"/"):
                any_left = True
                os.kill(number, signal.SIGKILL)
    return any_left


if __name__ == "__main__":
    is_killed = not sys.stdin.buffer.read()
    end(sys.argv[1], CALM if is_killed else 0.0)
