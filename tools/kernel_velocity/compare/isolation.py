"""Measure in a child process, which is started again where an implementation ends it, and keep its journal.

A segmentation fault in a user's library ends its process. So the command measures in a child process, which writes its
steps into a journal. Where it dies in an implementation, the parent records how, and starts the next child. That child
takes over the finished test cases, counts the implementation as failed, and repeats the test case: the memory of the
other implementations may be damaged.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from kernel_velocity import documents, lock
from kernel_velocity.compare.result import Compared
from kernel_velocity.documents import with_checksum
from kernel_velocity.errors import KernelVelocityError
from kernel_velocity.files import replace_bytes, replace_text
from kernel_velocity.processes import contained
from kernel_velocity.statuses import Status

# s that an interrupted process has to end by itself: a call of a few ms ends within it, an endless loop never does.
# Killing it is safe: nothing is saved before the end, and files are renamed whole.
INTERRUPT_SECONDS = 2.0
GIVEN_UP = 70  # exit status of a process that ended itself
JOURNAL = "COMPARE_JOURNAL"  # environment variable: the folder of the journal, for the process that measures
STEP, DEATHS = "step.json", "deaths.json"  # files of the journal
# Signals that somebody sends, not faults of the code that runs.
REQUESTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def run(command: Sequence[str], environ: Mapping[str, str], root: Path, err: TextIO, *, wait: bool = False) -> int:
    """Run a comparison's command until it ends by itself, and return its exit status.

    Each process takes the lock once it has loaded the problems. From the first death on, this one holds it for them.

    Args:
        command: of the process that measures. environ: its environment, to which JOURNAL is added.
        root: the folder of the lock.
        err: gets a line for every implementation that ended the process.
        wait: whether to wait for another run that took the lock in between.

    Raises:
        KernelVelocityError: the process died outside of any implementation.
    """
    with tempfile.TemporaryDirectory(prefix="compare-") as folder, ExitStack() as stack:
        journal = ProcessJournal(Path(folder))
        while True:
            holder = {name: value for name, value in os.environ.items() if name == lock.HOLDER}
            status = _wait(command, {**environ, **holder, JOURNAL: folder}, err)
            step = journal.step()
            if step is None and status >= 0:
                return status
            if status == Status.INTERRUPTED or -status in REQUESTS:
                return status if status > 0 else 128 - status
            how = step.how if step is not None and step.how else ended(status)
            if step is None:
                raise KernelVelocityError(f"the measuring process {how} while no implementation ran")
            where = f" on {step.case}" if step.case else ""
            if step.implementation is None:
                raise KernelVelocityError(f"the problem itself{where}: its process {how} while {step.doing}")
            print(f"{step.implementation}{where}: its process {how} while it was {step.doing}", file=err, flush=True)
            if not step.again:
                return Status.WRONG
            journal.record_death(step, how)
            stack.enter_context(lock.held(root, wait=wait))


def ended(status: int) -> str:
    """Return how a process ended, by its exit status as `subprocess` has it: "died of SIGSEGV (Segmentation fault)"."""
    if status >= 0:
        return f"exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:  # a real-time signal
        return f"died of signal {-status}"
    return f"died of {name} ({'out of memory?' if name == 'SIGKILL' else signal.strsignal(-status)})"


def _wait(command: Sequence[str], environ: Mapping[str, str], err: TextIO) -> int:
    """Run a process with our standard streams, and return its exit status. A request to end is passed on to it."""
    sys.stdout.flush()
    sys.stderr.flush()
    children: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        for process in children:
            process.send_signal(number)

    before = signal.signal(signal.SIGTERM, pass_on)
    try:
        with contained() as mark, subprocess.Popen(command, env={**environ, **mark}) as process:
            children.append(process)
            try:
                return process.wait()
            except KeyboardInterrupt:  # the terminal interrupts both
                _stop(process, err)
                return Status.INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(process: subprocess.Popen[bytes], err: TextIO) -> None:
    """Wait for an interrupted process, and kill it where it does not end by itself, or on another interrupt."""
    line_break = "\n" if err.isatty() else ""  # behind a progress bar and "^C"
    print(f"{line_break}interrupted: stopping; Ctrl-C again kills the measuring process", file=err, flush=True)
    with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
        process.wait(INTERRUPT_SECONDS)
        return
    process.kill()
    process.wait()
    print("interrupted: the measuring process was killed; nothing was saved", file=err, flush=True)


def take_standard_output() -> TextIO:
    """Return standard output for this process's documents, and send everything else to standard error from now on.

    That includes the output of machine code, which writes to descriptor 1.
    """
    sys.stdout.flush()
    stream = os.fdopen(os.dup(1), "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors)
    os.dup2(2, 1)
    return stream


@dataclass(frozen=True, kw_only=True)
class JournalStep:
    """A step during which the process may end.

    Attributes:
        doing: in words that follow "while it was": "verified before timing".
        implementation: the one whose code runs. None: the code of the problem does.
        problem: its number in the comparison. case: name of the test case, "" before the first.
        again: whether the comparison can go on without the implementation.
        how: the process's own words for how it ended, "" where it left none.
    """

    doing: str
    implementation: str | None
    problem: int = 0
    case: str = ""
    again: bool = True
    how: str = ""


class ProcessJournal:
    """The journal of a problem's comparison, in a folder. Without a folder it stays empty."""

    def __init__(self, folder: Path | None = None, problem: int = 0) -> None:
        self._folder, self._problem = folder, problem

    def part(self, problem: int) -> ProcessJournal:
        """Return the journal of one of the problems."""
        return ProcessJournal(self._folder, problem)

    @contextmanager
    def running(self, doing: str, implementation: str | None, case: str = "", *, again: bool = True) -> Iterator[None]:
        """Record a step while it lasts. The record stays if the process ends within."""
        self._write(doing=doing, implementation=implementation, case=case, again=again)
        try:
            yield
        finally:
            if self._folder is not None:
                (self._folder / STEP).unlink(missing_ok=True)

    def give_up(self, doing: str, implementation: str, case: str, how: str) -> None:
        """End this process so that the next one goes on without the implementation. Without a folder, return."""
        if self._folder is not None:
            self._write(doing=doing, implementation=implementation, case=case, how=how)
            os._exit(GIVEN_UP)  # cleaning up may wait for a device that is lost

    def _write(self, **fields: Any) -> None:
        if self._folder is not None:
            step = JournalStep(problem=self._problem, **fields)
            (self._folder / STEP).write_text(with_checksum(json.dumps(asdict(step))), encoding="utf-8")

    def _read(self, name: str) -> dict[str, Any] | None:
        """Return a file of the journal, None where it does not exist.

        Raises:
            KernelVelocityError: it is damaged: its process died while writing it.
        """
        if self._folder is None:
            return None
        try:
            return documents.read_checked(self._folder / name)
        except FileNotFoundError:
            return None
        except documents.DamagedError as error:
            raise KernelVelocityError(f"the measuring process left a damaged journal ({name}: {error})") from None

    def step(self) -> JournalStep | None:
        """Return the step in which the process ended, None where it was in none."""
        step = self._read(STEP)
        return None if step is None else JournalStep(**step)

    def record_death(self, step: JournalStep, how: str) -> None:
        """Record that a process ended in a step."""
        if self._folder is not None:
            deaths = [*self._deaths(), (asdict(step), how)]
            replace_text(self._folder / DEATHS, with_checksum(json.dumps({"deaths": deaths})))
            (self._folder / STEP).unlink()

    def death(self, implementation: str, case: str = "") -> str | None:
        """Return how an implementation ended a process on a case or before the first, None where it did not."""
        for fields, how in self._deaths():
            step = JournalStep(**fields)
            here = not step.case or (step.problem, step.case) == (self._problem, case)
            if here and step.implementation == implementation:
                return f"its process {how} while it was {step.doing}"
        return None

    def _deaths(self) -> list[Any]:
        return list((self._read(DEATHS) or {"deaths": []})["deaths"])

    def save(self, compared: Compared) -> None:
        """Save a finished test case. If it cannot be pickled, the next process measures it again."""
        if self._folder is not None:
            with suppress(pickle.PicklingError, TypeError, AttributeError):  # details of a user's own check
                replace_bytes(self._path(self._folder, compared.case), pickle.dumps(compared))

    def finished(self, case: str) -> Compared | None:
        """Return a finished test case, None where it is not finished. Its file is whole, or is not there."""
        if self._folder is None or not (path := self._path(self._folder, case)).exists():
            return None
        compared: Compared = pickle.loads(path.read_bytes())
        return compared

    def _path(self, folder: Path, case: str) -> Path:
        return folder / f"{self._problem}-{case.encode().hex()[:200]}.pickle"
