"""End what a process started when the process ends, even if it was killed.

A killed process cleans nothing up. What it started would go on, and measure beside the next run: compilers, asv's
server, the rounds that this forks. They have process groups of their own, so a signal to a group does not reach them.

`contained` marks them by a variable of their environment, which everything inherits that they start. It also starts a
watcher, a small process that sleeps until this process says that the body has ended, or is gone. Then the watcher kills
what has the mark. A fork that runs no other program has its parent's environment. So this process also adopts what
loses its parent, and at the end of the body its forks are killed, too. Where what is left is named, all children are:
foreign code may start a program without our variable.
Without /proc, as on macOS, nothing is marked and nothing is killed.

The watcher runs this file, so it imports little: pathlib and subprocess would be half of what a watcher takes.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

LEFT = "left running, and killed:"  # and a process
RUN = "KERNEL_VELOCITY_RUN"  # variable: the marks, joined by "/", of the bodies that a process was started in
PATIENCE = 10.0  # s; a process that waits for a disk or a GPU's driver ends late
PAUSE = 0.005  # s between two looks
# s that the watcher goes on looking after a kill: a process that was about to call exec() still has no environment of
# its own. On a busy machine it was seen to appear after 5 ms.
CALM = 1.0
GRACE = 1.0  # s that what is named has to end by itself first, as workers of a compiler do
# Programs that end when the process has ended that started them: workers of PyTorch's compiler, Python's own watcher
HELPERS = ("torch/_inductor/compile_worker", "multiprocessing.resource_tracker")
_PROCESSES = "/proc"
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # prctl(2)
_PF_EXITING = 0x4  # a flag of Linux (include/linux/sched.h)
_ENDED = b"ended"


def new_mark() -> str:
    """Return a mark that is unique among processes and calls."""
    return f"{os.getpid()}-{time.time_ns()}"


def mark_of_this_process() -> str:
    """Return a mark that no other process gives: its number, and when it began (proc(5), stat). "" without /proc."""
    try:
        return f"{os.getpid()}-{_status('self')[19]}"
    except OSError:
        return ""


def _status(process: str) -> list[str]:
    """Return the fields of a process from its state on, by its number (proc(5), stat): its parent is the second."""
    with open(f"{_PROCESSES}/{process}/stat", encoding="ascii", errors="replace") as stream:  # noqa: PTH123
        return stream.read().rpartition(")")[2].split()


def children() -> set[int]:
    """Return the numbers of this process's children that have not ended, adopted ones included. None without /proc."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # there are none: a look at all processes took 3 ms
        return set()
    if not os.path.exists(f"{_PROCESSES}/self/environ"):  # noqa: PTH110
        return set()
    return {process for process in _processes() if _is_child(process, os.getpid())}


def left(before: set[int]) -> set[int]:
    """Return the numbers of children that code left running since there were some, `before`. HELPERS are none."""
    return {child for child in children() - before if not any(name in _command(child) for name in HELPERS)}


def end_children(before: set[int], grace: float = 0.0) -> list[str]:
    """Kill what is `left` after `grace` s, and its children where they are adopted. Return what they are."""
    killed = dict[int, str]()
    until = time.monotonic() + grace
    while left(before) and time.monotonic() < until:
        time.sleep(PAUSE)
    until = time.monotonic() + GRACE
    while (alive := left(before)) and time.monotonic() < until:
        for process in alive:
            killed.setdefault(process, described(process))
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(PAUSE)
    return list(killed.values())


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
def contained(mark: str | None = None, left: list[str] | None = None) -> Iterator[Mapping[str, str]]:
    """End all processes that the body started, at its end or when this process is killed.

    The variable is set in `os.environ` during the body. Bodies may be nested: the outer one ends everything.

    Args:
        mark: of the body (`new_mark`). None: a new one.
        left: gets a line for each process that did not end by itself within GRACE s after the body. Then all children
            of the body end, also those whose environment is not ours.

    Yields:
        the variable, for environments that were made before.
    """
    import subprocess  # noqa: PLC0415

    if not os.path.exists(f"{_PROCESSES}/self/environ"):  # noqa: PTH110
        yield {}
        return
    mark = mark or new_mark()
    adopt_orphans()
    grace, before = "" if left is None else str(GRACE), ",".join(map(str, children()))
    # Isolated (-I, -S), it is ready after 10 ms. In a session of its own, it gets no signal of a terminal
    watcher = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, mark, grace, before],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )
    outer = os.environ.get(RUN)
    marks = mark if outer is None else f"{outer}/{mark}"
    try:
        with variable(RUN, marks):
            yield {RUN: marks}
    finally:
        killed, _ = watcher.communicate(_ENDED)  # waits
        if left is not None:
            left += killed.decode("utf-8", "replace").splitlines()


def end(mark: str, calm: float = 0.0, also: Callable[[int], bool] = lambda process: False) -> dict[int, str]:
    """Kill processes, but not this one, and wait until they have ended, `PATIENCE` s at most.

    Args:
        mark: of a body, that they have. calm: s to go on looking for others after the last one was seen.
        also: whether to kill a process that has no mark, by its number.

    Returns: their commands, by number.
    """
    killed = dict[int, str]()
    now = time.monotonic()
    last_seen, until = now, now + PATIENCE
    while now < until:
        if alive := _left(mark, also):
            killed = {process: _command(process) for process in alive} | killed
            for process in alive:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            # The children of one that ends become its parent's only then
            last_seen, calm = time.monotonic(), max(calm, 4 * PAUSE)
        elif now - last_seen >= calm:
            break
        time.sleep(PAUSE)
        now = time.monotonic()
    return killed


def adopt_orphans() -> None:
    """Make this process the parent of what its descendants leave behind when they end (Linux only)."""
    import ctypes  # noqa: PLC0415

    with suppress(AttributeError):  # macOS
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent(parent: int) -> None:
    """Have this process, forked by one of this number, killed with it. Its environment is not marked (Linux only)."""
    import ctypes  # noqa: PLC0415

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the call
        os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def interrupted_by_request() -> Iterator[None]:
    """Have SIGTERM, which a job's time limit and a container's stop send, interrupt the body as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def described(process: int) -> str:
    """Return the number of a process and the program that it runs."""
    return f"process {process} ({_command(process)[:60]})"


def _command(process: int) -> str:
    return " ".join(_words(process).decode("utf-8", "replace").replace("\0", " ").split())[:200] or "unknown"


def _words(process: int) -> bytes:
    """Return the command line of a process, each word with a NUL behind it."""
    with suppress(OSError), open(f"{_PROCESSES}/{process}/cmdline", "rb") as stream:  # noqa: PTH123
        return stream.read()
    return b""


def _processes() -> Iterator[int]:
    return map(int, filter(str.isdigit, os.listdir(_PROCESSES)))  # noqa: PTH208


def _is_child(process: int, parent: int) -> bool:
    with suppress(OSError):  # it has ended
        state, of, _, _, _, _, flags, *_ = _status(str(process))
        # What has ended waits for its parent to ask how. What is about to end has no command any more
        return int(of) == parent and state not in "ZX" and not int(flags) & _PF_EXITING
    return False


def _left(mark: str, also: Callable[[int], bool]) -> list[int]:
    """Return the numbers of processes that have a mark, or are meant too, without this one."""
    code = mark.encode()
    return [process for process in _processes() if process != os.getpid() and (_has(process, code) or also(process))]


def _has(process: int, mark: bytes) -> bool:
    name = f"{RUN}=".encode()
    # It has ended, or is another user's
    with suppress(OSError), open(f"{_PROCESSES}/{process}/environ", "rb") as stream:  # noqa: PTH123
        marks = [text.removeprefix(name) for text in stream.read().split(b"\0") if text.startswith(name)]
        return bool(marks) and mark in marks[0].split(b"/")
    return False


def _has_open(process: int, pipe: os.stat_result) -> bool:
    folder = f"{_PROCESSES}/{process}/fd"
    with suppress(OSError):  # it has ended, or is another user's
        for descriptor in os.listdir(folder):  # noqa: PTH208
            with suppress(OSError):
                if os.path.samestat(os.stat(f"{folder}/{descriptor}"), pipe):  # noqa: PTH116
                    return True
    return False


def _watch(mark: str, grace: str, before: str) -> None:
    """Wait for the end of the body or of this process's parent, end what is left, and print it.

    Args:
        mark: of the body. grace: s before children of all kinds are killed. "": at once, and only forks of the parent.
        before: numbers of children that are older than the body.
    """
    parent, others = int(mark.partition("-")[0]), before.split(",")

    def is_left(process: int) -> bool:
        is_new = _is_child(process, parent) and str(process) not in others
        return is_new and (bool(grace) or _words(process) == _words(parent))

    wakes = [0]
    with suppress(AttributeError, OSError):  # Linux before 5.3: the pipe closes unless a fork of the parent holds it
        wakes.append(os.pidfd_open(parent))
    is_there = os.getppid() == parent
    if not is_there or 0 not in select.select(wakes, [], [])[0] or os.read(0, len(_ENDED)) != _ENDED:
        pipe = os.fstat(0)
        end(mark, CALM, lambda process: _has_open(process, pipe))  # its forks, which have other parents now
        return
    until = time.monotonic() + float(grace or 0)
    while time.monotonic() < until and _left(mark, is_left):
        time.sleep(PAUSE)
    for process, command in end(mark, 0.0, is_left).items():
        if __file__ not in command:  # a watcher of a process that was killed
            print(f"process {process} ({command})")  # noqa: T201


if __name__ == "__main__":
    _watch(*sys.argv[1:])
