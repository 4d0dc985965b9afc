"""Run a command as a child process, line by line of its output, until it ends or its time is up.

At the end of its time the child gets what Ctrl-C at a terminal would give it (SIGINT to its process group), and some
seconds in which asv writes what it measured, before it is killed. All that it started ends with it.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Thread, Timer
from typing import IO

from kernel_velocity.processes import contained

PATIENCE = 20.0  # s between SIGINT and SIGKILL; asv ends within one call of its slowest benchmark
NOISE = "USDT:"  # what the library behind torch's profiler prints at each start and stop, whatever its log level


def run(
    command: Sequence[str],
    on_line: Callable[[str], object],
    *,
    environ: Mapping[str, str],
    folder: Path | None = None,
    seconds: float = math.inf,
    on_error: Callable[[str], object] | None = None,
) -> int:
    """Run a command and return its exit status. `on_line`, called in a thread, gets each line, without its end.

    Args:
        folder: to run it in. None: the current one.
        seconds: after which it is ended.
        on_error: gets the lines of standard error. None: `on_line` does.

    Raises:
        subprocess.TimeoutExpired: it was ended after `seconds`.
        KeyboardInterrupt: as raised by a signal. What `on_line` raised likewise leaves once the child has ended.
    """
    raised: list[BaseException] = []
    with (
        ExitStack() as containing,
        subprocess.Popen(
            command,
            cwd=folder,
            env={**environ, **containing.enter_context(contained()), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if on_error else subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process,
    ):
        killer = Timer(PATIENCE, _signal, (process, signal.SIGKILL))

        def read(stream: IO[str] | None, receive: Callable[[str], object]) -> None:
            for line in stream or ():
                if raised or line.startswith(NOISE):
                    continue
                try:
                    receive(line.rstrip("\n"))
                except BaseException as error:  # noqa: BLE001 - raised below
                    raised.append(error)
                    if raised[0] is error:  # not the second of two readers
                        killer.start()
                        _signal(process, signal.SIGINT)

        readers = [Thread(target=read, args=(process.stdout, on_line))]
        readers += [Thread(target=read, args=(process.stderr, on_error))] if on_error else []
        try:
            for reader in readers:
                reader.start()
            status = process.wait(None if math.isinf(seconds) else seconds)  # with a time it polls
        finally:
            _end(process)
            containing.close()  # what the child left behind holds the pipe open, and the machine busy
            for reader in readers:
                reader.join()
            killer.cancel()
    if raised:
        raise raised[0]
    return status


def _end(process: subprocess.Popen[str]) -> None:
    """End what is left of the child's process group, also where a signal to us comes in between."""
    try:
        if process.poll() is None:
            _signal(process, signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
    finally:
        _signal(process, signal.SIGKILL)
        process.wait()


def _signal(process: subprocess.Popen[str], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
