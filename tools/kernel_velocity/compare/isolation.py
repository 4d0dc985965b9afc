"""The process that a comparison runs in: started anew where an implementation ends it, and its standard output guarded.

A segmentation fault in a user's library takes its process along. So the command measures in a process of its own, which
writes down what it does (compare/compare_journal.py). Where that process dies in an implementation, the next one takes
over what is finished, counts the implementation as failed, and measures the rest of its test case anew: what it did to
the memory of the others nobody knows.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TextIO

from kernel_velocity.compare.compare_journal import Journal
from kernel_velocity.errors import KernelVelocityError

# s that an interrupted process has to end by itself, and once more when asked: a call of a few ms ends within it, and
# one that loops for ever never does. To kill it costs nothing: a comparison keeps nothing, and files are renamed whole.
PATIENCE = 1.0
INTERRUPTED = 130  # what a shell reports for a command that Ctrl-C ended
WRONG = 1  # exit status (contract)
JOURNAL = "COMPARE_JOURNAL"  # environment variable: the folder of the journal, for the process that measures
# Signals that somebody sends, and that say nothing of the code that runs.
ASKED_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def run(command: Sequence[str], environ: Mapping[str, str], err: TextIO) -> int:
    """Run a comparison's command until it ends by itself; return its exit status.

    Args:
        command: of the process that measures. environ: its environment; it gets JOURNAL, too.
        err: gets a line for every implementation that ended it.

    Raises:
        KernelVelocityError: it died outside of any implementation.
    """
    with tempfile.TemporaryDirectory(prefix="compare-") as folder:
        journal = Journal(Path(folder))
        while True:
            status = _wait(command, {**environ, JOURNAL: folder}, err)
            step = journal.step()
            if step is None and status >= 0:
                return status
            if status == INTERRUPTED or -status in ASKED_TO_END:
                return status if status > 0 else 128 - status
            how = step.how if step is not None and step.how else ended(status)
            if step is None:
                raise KernelVelocityError(f"the comparison's process {how}, while no implementation ran")
            where = f" on {step.case}" if step.case else ""
            if step.implementation is None:
                raise KernelVelocityError(f"the problem itself{where}: its process {how} while {step.doing}")
            print(f"{step.implementation}{where}: its process {how} while it was {step.doing}", file=err, flush=True)
            if not step.again:
                return WRONG
            journal.bury(step, how)


def ended(status: int) -> str:
    """Return how a process ended, by its exit status as `subprocess` has it: "died of SIGSEGV (Segmentation fault)"."""
    if status >= 0:
        return f"was ended by it with exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:  # a real-time signal
        return f"died of signal {-status}"
    said = "out of memory?" if name == "SIGKILL" else signal.strsignal(-status)
    return f"died of {name} ({said})"


def _wait(command: Sequence[str], environ: Mapping[str, str], err: TextIO) -> int:
    """Run a process, with our standard streams; return its exit status. What would end us ends it first."""
    sys.stdout.flush()
    sys.stderr.flush()
    with _passed_on(signal.SIGTERM) as to, subprocess.Popen(command, env=environ) as process:
        to.append(process)
        try:
            return process.wait()
        except KeyboardInterrupt:  # the terminal interrupts both
            _stop(process, err)
            return INTERRUPTED


def _stop(process: subprocess.Popen[bytes], err: TextIO) -> None:
    """Say that an interrupted process is being stopped, and wait for it; kill it where it does not end by itself."""
    line_break = "\n" if err.isatty() else ""  # behind a progress bar and "^C"
    try:
        print(f"{line_break}interrupted: stopping what runs; Ctrl-C again kills it at once", file=err, flush=True)
        for ask in (False, True):
            if ask:
                process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
                return
    except KeyboardInterrupt:  # once more
        pass
    process.kill()
    process.wait()
    print("interrupted: what ran did not stop, and was killed; a comparison keeps nothing", file=err, flush=True)


@contextlib.contextmanager
def _passed_on(number: signal.Signals) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Pass a signal on to the processes of the list that it gives."""
    to: list[subprocess.Popen[bytes]] = []

    def pass_on(_number: int, _frame: FrameType | None) -> None:
        for process in to:
            process.send_signal(number)

    before = signal.signal(number, pass_on)
    try:
        yield to
    finally:
        signal.signal(number, before)


def take_standard_output() -> TextIO:
    """Return standard output for this process's own use; what anybody else prints goes to standard error from now on.

    Also what machine code prints, at whatever time: a document on standard output stays one.
    """
    sys.stdout.flush()
    own = os.fdopen(os.dup(1), "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors)
    os.dup2(2, 1)
    return own
