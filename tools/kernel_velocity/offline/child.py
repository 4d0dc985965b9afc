"""A stage as a child process: its output is kept and passed on, and it ends when its time is up.

A child gets what a terminal's Ctrl-C would give it (SIGINT to its whole process group), so that asv writes what it
measured, and some seconds to do so, before it is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 20.0  # s between SIGINT and SIGKILL; asv ends within one call of its slowest benchmark


_MARK = "KERNEL_VELOCITY_STAGE_OF"  # in the environment of all that a stage starts: the folder that it works in


class TerminatedError(Exception):
    """SIGTERM: a batch system says that the time is up."""


@dataclass(frozen=True)
class Clock:
    """How long this slice may go on; `until` is None without a limit."""

    until: float | None  # of time.monotonic()

    @property
    def left(self) -> float | None:
        """Seconds that are left, None without a limit."""
        return None if self.until is None else self.until - time.monotonic()

    def has(self, seconds: float) -> bool:
        """Return whether at least so many seconds are left."""
        return self.left is None or self.left >= seconds


def run(
    command: Sequence[str],
    *,
    cwd: Path,
    environ: Mapping[str, str],
    log: Path,
    echo: Callable[[str], None],
    seconds: float | None,
) -> int | None:
    """Run a command; return its exit status, or None where it was cut off after `seconds`.

    Every line of its output is appended to `log` and given to `echo`.

    Raises:
        TerminatedError, KeyboardInterrupt: as raised by a signal; the child has ended by then.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        log.open("ab", buffering=0) as stream,
        subprocess.Popen(
            command,
            cwd=cwd,
            env={**environ, _MARK: str(cwd.absolute())},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process,
    ):
        reader = threading.Thread(target=_read, args=(process, stream.write, echo))
        reader.start()
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)
            end_leftovers(cwd)
            reader.join()


def _read(process: subprocess.Popen[str], keep: Callable[[bytes], object], echo: Callable[[str], None]) -> None:
    if process.stdout is None:
        raise AssertionError("a pipe was asked for")
    for line in process.stdout:
        try:
            keep(line.encode())
        except OSError as error:  # a full disk: the child must not wait for a reader that is gone
            echo(f"the log cannot be written any more: {error}")
            keep = _drop
        echo(line.rstrip("\n"))


def _drop(_line: bytes) -> None:
    """Take the place of a log that cannot be written."""


def _end(process: subprocess.Popen[str]) -> None:
    """End what is left of the child's process group, also where a signal to us comes in between."""
    try:
        if process.poll() is None:
            _signal(process.pid, signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
    finally:
        _signal(process.pid, signal.SIGKILL)  # what the child left behind holds the pipe open, and the machine busy
        process.wait()


def end_leftovers(folder: Path) -> None:
    """Kill what stages of this folder left running, in whichever process group.

    asv's forking server has a group of its own; and a run that was killed itself, or lost its terminal, leaves its
    stage, which would measure beside the next. Where there is no /proc nothing is found.
    """
    mark = f"{_MARK}={folder.absolute()}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        number = int(path.parent.name)
        try:
            if number != os.getpid() and mark in path.read_bytes().split(b"\0"):
                os.kill(number, signal.SIGKILL)
        except OSError:  # it has ended, or is another user's
            continue


def _signal(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return
