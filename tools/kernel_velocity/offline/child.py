"""Run a stage as a child process, until it ends or its time is up.

At the end of its time the child gets what Ctrl-C at a terminal would give it (SIGINT to its process group), and some
seconds in which asv writes what it measured, before it is killed.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from kernel_velocity.processes import contained

PATIENCE = 20.0  # s between SIGINT and SIGKILL; asv ends within one call of its slowest benchmark
NOISE = "USDT:"  # what the library behind torch's profiler prints at each start and stop, whatever its log level


def run(
    command: Sequence[str], *, environ: Mapping[str, str], log: Path, echo: Callable[[str], None], seconds: float
) -> int | None:
    """Run a command in the current folder. Return its exit status, None if it was ended after `seconds`.

    Every line of its output is appended to `log` and given to `echo`.

    Raises:
        KeyboardInterrupt: as raised by a signal. The child has ended by then.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        ExitStack() as containing,
        log.open("ab", buffering=0) as stream,
        subprocess.Popen(
            command,
            env={**environ, **containing.enter_context(contained())},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process,
    ):

        def read() -> None:
            writable = True
            for line in process.stdout or ():
                if line.startswith(NOISE):
                    continue
                echo(line.rstrip("\n"))
                try:
                    _ = writable and stream.write(line.encode())
                except OSError as error:  # a full disk: the child must not wait for a reader that is gone
                    writable = False
                    echo(f"the log cannot be written any more: {error}")

        reader = threading.Thread(target=read)
        try:
            reader.start()
            return process.wait(None if math.isinf(seconds) else seconds)  # with a time it polls
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)
            containing.close()  # what the child left behind holds the pipe open, and the machine busy
            reader.join()


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
