"""Lock a GPU's clocks while a command measures (--lock-clocks), and unlock them however it ends.

A process of its own holds the lock (`harness.gpu`). It unlocks when its input ends, as it does when the command is
killed. It has a session of its own, which Ctrl-C does not reach, and not the mark of what a run started (`processes`),
by which it would be killed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from kernel_velocity.errors import UsageError
from kernel_velocity.harness import gpu
from kernel_velocity.processes import RUN, variable
from kernel_velocity.runner import host


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Declare --lock-clocks."""
    parser.add_argument(
        "--lock-clocks",
        nargs="?",
        const=gpu.BASE,
        metavar="MHZ",
        help="lock the GPU's clocks while measuring, without MHZ to its base clock; needs root",
    )


@contextmanager
def locked(clock: str | None, err: TextIO) -> Iterator[None]:
    """Lock the clocks of the GPU that measures during the body. None for a clock: do nothing.

    They are part of the method, so measuring processes find the clock in KV_LOCK_CLOCKS.

    Args:
        clock: what --lock-clocks says. err: gets a line where the clocks could not be unlocked.

    Raises:
        UsageError: it is no clock, there is no GPU, or the driver refuses.
    """
    if clock is None:
        yield
        return
    try:
        gpu.clock_lock({gpu.CLOCKS: clock})
    except ValueError as error:
        raise UsageError(f"--lock-clocks {error}") from None
    uuid = host.gpu_uuid()
    if uuid is None:
        raise UsageError("--lock-clocks: PyTorch sees no GPU here, or does not say which it is")
    process = subprocess.Popen(
        [sys.executable, "-P", gpu.__file__, uuid, clock],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={name: value for name, value in os.environ.items() if name != RUN},
    )
    answer = process.stdout.readline().strip() if process.stdout else ""
    if answer != gpu.LOCKED:
        process.communicate()
        raise UsageError(f"--lock-clocks: the clocks are not locked: {answer}. Without the option they move freely")
    try:
        with variable(gpu.CLOCKS, clock):
            yield
    finally:
        output, _ = process.communicate()  # ends its input
        if process.returncode:
            print(f"the GPU's clocks may still be locked: {output.strip().rpartition(chr(10))[2]}", file=err)
