"""Measure in a child process, which is started again where an implementation ends it, and keep its journal.

A segmentation fault in a user's library ends its process. So the command measures in a child process, which writes its
steps into a journal. Where it dies in an implementation, the parent records how, and starts the next child. That child
takes over the finished test cases, counts the implementation as failed, and repeats the test case: the memory of the
other implementations may be damaged.

An implementation may also end its process with status 0, or print a table like ours. So the parent has the steps in a
file without a name, which nobody can remove. It prints what the child hands over with a code that only the two know,
and returns the exit status that this says. Without it, the child has died, whatever its own status is.
"""

from __future__ import annotations

import atexit
import ctypes
import hmac
import io
import json
import os
import pickle
import re
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import IO, Any, NoReturn, TextIO

from kernel_velocity import documents, lock
from kernel_velocity.compare.result import Compared
from kernel_velocity.documents import with_checksum
from kernel_velocity.errors import KernelVelocityError
from kernel_velocity.files import SCRATCH, replace_bytes, replace_text
from kernel_velocity.processes import LEFT, contained
from kernel_velocity.statuses import Status

# s that an interrupted process has to end by itself: a call of a few ms ends within it, an endless loop never does.
# Killing it is safe: nothing is saved before the end, and files are renamed whole.
INTERRUPT_SECONDS = 2.0
LATE_SECONDS, LATE = 2.0, -1000  # s that a process may go on after its report, and the status of one that did
# s that a step may take, and the status of a process one of whose steps took longer. Compiling a model takes minutes
STEP_SECONDS, HUNG = 1800.0, -1001
GIVEN_UP = 70  # exit status of a process that ended itself
JOURNAL = "COMPARE_JOURNAL"  # environment variable: the folder of the journal, for the process that measures
DESCRIPTORS = "COMPARE_DESCRIPTORS"  # likewise: the file of steps, a pipe with the code of the report, one for its end
DEATHS, REPORT = "deaths.json", "report.json"  # files of the journal
NO_STEP = b"null\n"  # ends the steps of a journal where none lasts
# Signals that somebody sends, not faults of the code that runs.
REQUESTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def run(
    command: Sequence[str], environ: Mapping[str, str], root: Path, out: TextIO, err: TextIO, *, wait: bool = False
) -> int:
    """Run a comparison's command until it ends by itself, print its report, and return its exit status.

    Each process takes the lock once it has loaded the problems. From the first death on, this one holds it for them.

    Args:
        command: of the process that measures. environ: its environment, to which variables of the journal are added.
        root: the folder of the lock.
        out: gets the report.
        err: gets a line for every implementation that ended the process, and for every process that was left running.
        wait: whether to wait for another run that took the lock in between.

    Raises:
        KernelVelocityError: the process died outside of any implementation, or again in one that had ended another.
    """
    with (
        tempfile.TemporaryDirectory(prefix="compare-") as folder,
        tempfile.TemporaryFile("a+b", buffering=0) as steps,
        ExitStack() as stack,
    ):
        journal, code = ProcessJournal(Path(folder), steps=steps), secrets.token_bytes(32)
        while True:
            holder = {name: value for name, value in os.environ.items() if name == lock.HOLDER}
            mine = {JOURNAL: folder, SCRATCH: folder}
            status, left = _wait(command, {**environ, **holder, **mine}, steps, code, err)
            step, report = journal.step(), journal.report(code)
            for process in left:
                by = journal.starter(process)
                print(f"{by or 'left running after the comparison, and killed:'} {process}", file=err, flush=True)
            if report.status is not None or (step is not None and not step.again):
                out.write(report.text)
                out.flush()
            if report.status is not None:
                # An error that Python prints has status 1
                if status not in (report.status, LATE) and (status, report.status) != (1, Status.ERROR):
                    print(f"the measuring process {ended(status)} after its report", file=err, flush=True)
                return report.status
            if status == Status.INTERRUPTED or -status in REQUESTS:
                return status if status > 0 else 128 - status
            how = step.how if step is not None and step.how else ended(status)
            if step is None:
                what = "while no implementation ran" + ("" if status < 0 else ", and left no report")
                raise KernelVelocityError(f"the measuring process {how} {what}")
            where = f" on {step.case}" if step.case else ""
            if step.implementation is None:
                raise KernelVelocityError(f"the problem itself{where}: its process {how} while {step.doing}")
            print(f"{step.implementation}{where}: its process {how} while it was {step.doing}", file=err, flush=True)
            if not step.again:
                return Status.WRONG
            journal.record_death(step, how)
            steps.truncate(0)
            stack.enter_context(lock.held(root, wait=wait))


def ended(status: int) -> str:
    """Return how a process ended, by its exit status as `subprocess` has it: "died of SIGSEGV (Segmentation fault)"."""
    if status >= 0:
        return f"exited with status {status}"
    if status == HUNG:
        return f"took more than {STEP_SECONDS:,g} s, the limit, and was killed"
    try:
        name = signal.Signals(-status).name
    except ValueError:  # a real-time signal
        return f"died of signal {-status}"
    return f"died of {name} ({'out of memory?' if name == 'SIGKILL' else signal.strsignal(-status)})"


def _wait(
    command: Sequence[str], environ: Mapping[str, str], steps: IO[bytes], code: bytes, err: TextIO
) -> tuple[int, list[str]]:
    """Run a process, its output on standard error. Return its exit status, and what it left running.

    A request to end is passed on to it.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    children: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        for process in children:
            process.send_signal(number)

    reading, writing = os.pipe()
    os.write(writing, code)
    os.close(writing)
    reported, reporting = os.pipe()
    descriptors, left = (steps.fileno(), reading, reporting), list[str]()

    def end_late() -> None:
        """Kill the process where it goes on after its report: threads that were left, or a handler at its exit."""
        if os.read(reported, 1):
            try:
                process.wait(LATE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                left.append(f"the measuring process, {LATE_SECONDS:g} s after its report")

    environ = {**environ, DESCRIPTORS: ",".join(map(str, descriptors))}
    before = signal.signal(signal.SIGTERM, pass_on)
    try:
        with (
            contained(left=left) as mark,
            subprocess.Popen(command, env={**environ, **mark}, stdout=2, pass_fds=descriptors) as process,
        ):
            children.append(process)
            os.close(reporting)
            watching = Thread(target=end_late, daemon=True)
            watching.start()
            try:
                status: int = _ended_or_hung(process, steps)
            except KeyboardInterrupt:  # the terminal interrupts both
                _stop(process, err)
                status = Status.INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
        os.close(reading)
    watching.join(INTERRUPT_SECONDS)  # now, since what was left may have held its pipe
    os.close(reported)
    return LATE if any(what.startswith("the measuring") for what in left) else status, left


def _ended_or_hung(process: subprocess.Popen[bytes], steps: IO[bytes]) -> int:
    """Return the exit status of a process, HUNG of one that was killed since one of its steps did not end."""
    while True:
        size = os.fstat(steps.fileno()).st_size
        try:
            return process.wait(STEP_SECONDS)
        except subprocess.TimeoutExpired:
            same = os.fstat(steps.fileno()).st_size == size
            if same and size and os.pread(steps.fileno(), len(NO_STEP), size - len(NO_STEP)) != NO_STEP:
                process.kill()
                process.wait()
                return HUNG


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


@dataclass(frozen=True)
class Report:
    """What a process prints, and its exit status, None as long as it goes on."""

    text: str = ""
    status: int | None = None


class ReportStream(io.StringIO):
    """A stream for what this process prints: all of it is handed to the parent when it is flushed, and at the end."""

    def __init__(self, folder: Path, code: bytes, end: int) -> None:
        super().__init__()
        self._folder, self._code, self._end = folder, code, end

    def flush(self) -> None:
        """Hand over what was printed so far."""
        self._hand_over(None)

    def until_end(self, work: Callable[[], int]) -> int:
        """Return the exit status of `work`, and hand it over, also where it raises what `kv` prints."""
        status = int(Status.ERROR)
        try:
            status = work()
            return status
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
            raise
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) and error.code else status
            raise
        except Exception:
            # `kv` prints it first. What else happens at an exit takes 2 s where PyTorch's compiler was loaded
            atexit.register(leave, status)
            raise
        finally:
            self._hand_over(status)
            os.write(self._end, b"\n")

    def _hand_over(self, status: int | None) -> None:
        text = json.dumps({"text": self.getvalue(), "status": status})
        replace_text(self._folder / REPORT, f"{_signed(text, self._code)}\n{text}")


def leave(status: int) -> NoReturn:
    """End this process now. Neither threads nor handlers that foreign code left keep it. The parent has its report."""
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)  # what machine code printed
    os._exit(status)


def _signed(text: str, code: bytes) -> str:
    """Return what only who knows the code can say of a text."""
    return hmac.new(code, text.encode(), "sha256").hexdigest()


def of_parent() -> tuple[ProcessJournal, ReportStream]:
    """Return the journal and the report of this process, which `run` started. Call it before foreign code runs."""
    folder = Path(os.environ[JOURNAL])
    steps, pipe, end = map(int, os.environ.pop(DESCRIPTORS).split(","))
    with open(pipe, "rb") as stream:  # noqa: PTH123 - a descriptor
        code = stream.read()
    for descriptor in (steps, end):
        os.set_inheritable(descriptor, False)
    return ProcessJournal(folder, steps=os.fdopen(steps, "a+b", buffering=0)), ReportStream(folder, code, end)


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
    """The journal of a problem's comparison, in a folder. Without a folder it stays empty.

    Args:
        folder: of its files. problem: its number in the comparison.
        steps: the file of its steps, open to read and append. None: one in memory.
    """

    def __init__(self, folder: Path | None = None, problem: int = 0, steps: IO[bytes] | None = None) -> None:
        self._folder, self._problem = folder, problem
        self.steps = io.BytesIO() if steps is None else steps
        self._recorded: list[tuple[JournalStep, str]] = []  # deaths, and how, by this process

    @property
    def lasts(self) -> bool:
        """Return whether it has a folder: this process is a comparison's own."""
        return self._folder is not None

    def part(self, problem: int) -> ProcessJournal:
        """Return the journal of one of the problems."""
        return ProcessJournal(self._folder, problem, self.steps)

    @contextmanager
    def running(self, doing: str, implementation: str | None, case: str = "", *, again: bool = True) -> Iterator[None]:
        """Record a step while it lasts. The record stays if the process ends within."""
        self._write(doing=doing, implementation=implementation, case=case, again=again)
        try:
            yield
        finally:
            if self._folder is not None:
                self.steps.write(NO_STEP)

    def give_up(self, doing: str, implementation: str, case: str, how: str) -> None:
        """End this process so that the next one goes on without the implementation. Without a folder, return."""
        if self._folder is not None:
            self._write(doing=doing, implementation=implementation, case=case, how=how)
            os._exit(GIVEN_UP)  # cleaning up may wait for a device that is lost

    def _write(self, **fields: Any) -> None:
        if self._folder is not None:
            self.steps.write(json.dumps(asdict(JournalStep(problem=self._problem, **fields))).encode() + b"\n")

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
        """Return the step in which the process ended, None where it was in none.

        Raises:
            KernelVelocityError: foreign code wrote into the file of steps.
        """
        self.steps.seek(0)
        last = (self.steps.read().splitlines() or [b"null"])[-1]
        try:
            step = json.loads(last)
            return None if step is None else JournalStep(**step)
        except (ValueError, TypeError):
            raise KernelVelocityError(f"the measuring process left a damaged journal ({last[:60]!r})") from None

    def note_started(self, implementation: str, processes: Sequence[int]) -> None:
        """Record which processes an implementation started in a step that has ended."""
        if self._folder is not None and processes:
            self.steps.write(json.dumps({"by": implementation, "started": processes}).encode() + b"\nnull\n")

    def starter(self, process: str) -> str:
        """Return "NAME left running, and killed:" of a process as `contained` names it, "" where nobody knows.

        It is who started it in a step that has ended, or in whose step the process that measures died.
        """
        if not (number := re.match(r"process (\d+) ", process)):
            return ""
        self.steps.seek(0)
        for line in self.steps.read().splitlines():
            with suppress(ValueError, TypeError, KeyError):  # a step, or what foreign code wrote
                entry = json.loads(line)
                if int(number[1]) in entry["started"]:
                    return f"{entry['by']} {LEFT}"
        step = self.step()
        return "" if step is None or step.implementation is None else f"{step.implementation} {LEFT}"

    def report(self, code: bytes) -> Report:
        """Return what the process handed over, an empty report where it did not, or where it has another code."""
        try:
            signature, _, text = (self._folder or Path()).joinpath(REPORT).read_text(encoding="utf-8").partition("\n")
        except (OSError, UnicodeDecodeError):
            return Report()
        return (
            Report(**json.loads(text))
            if hmac.compare_digest(signature.encode(), _signed(text, code).encode())
            else Report()
        )

    def record_death(self, step: JournalStep, how: str) -> None:
        """Record that a process ended in a step.

        Raises:
            KernelVelocityError: another one had ended in it already: something removed the record.
        """
        if self._folder is not None:
            if any(
                (step.problem, step.implementation, step.case) == (other.problem, other.implementation, other.case)
                for other, _ in self._recorded
            ):
                raise KernelVelocityError(f"{step.implementation}: it ended a second process; leave it out")
            self._recorded.append((step, how))
            deaths = [(asdict(step), how) for step, how in self._recorded]
            replace_text(self._folder / DEATHS, with_checksum(json.dumps({"deaths": deaths})))

    def death(self, implementation: str, case: str = "") -> str | None:
        """Return how an implementation ended a process on a case or before the first, None where it did not."""
        for fields, how in (self._read(DEATHS) or {"deaths": []})["deaths"]:
            step = JournalStep(**fields)
            here = not step.case or (step.problem, step.case) == (self._problem, case)
            if here and step.implementation == implementation:
                return f"its process {how} while it was {step.doing}"
        return None

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
