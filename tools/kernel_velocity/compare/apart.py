"""An implementation in a process of its own, forked from the one that made the inputs, which runs no solution.

What a solution leaves behind (settings, memory, threads, functions that it replaced) ends with its process. Inputs stay
at their addresses and in their memory: a fork copies a page when somebody writes to it. A process that dies fails its
own implementation, and the others go on.

The command forks on a CPU (`kind_of_subjects`). CUDA cannot be used behind a fork, and threads do not come along: the
process that forks computes on one, and those of an implementation begin in its own.
"""

from __future__ import annotations

import ctypes
import importlib
import io
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, NoReturn

from kernel_velocity import forking, processes
from kernel_velocity.compare.isolation import NO_STEP, JournalStep, ProcessJournal, ended
from kernel_velocity.compare.result import Accuracy, TimedImplementation, plain
from kernel_velocity.compare.solutions import Bind
from kernel_velocity.compare.subject import Subject, TensorFacts
from kernel_velocity.engine import timing
from kernel_velocity.errors import KernelVelocityError, UsageError
from kernel_velocity.machine import limits
from kernel_velocity.problem.problem import NotHereError, ProblemError

# All that a process may hand over beside numbers and text: unpickling anything else could run its code here
ERRORS = (KernelVelocityError, UsageError, ProblemError, NotHereError, MemoryError, RuntimeError)
HANDED_OVER = {(kind.__module__, kind.__name__): kind for kind in (TimedImplementation, Accuracy, TensorFacts, *ERRORS)}


def can_fork(device: str, journal: ProcessJournal) -> bool:
    """Return whether this is the command, on a CPU, and this process has one thread."""
    if device != "cpu" or not journal.lasts or not hasattr(os, "pidfd_open"):
        return False
    if not forking.has_one_thread():
        forking.end_threads_of_blas()
    return forking.has_one_thread()


def kind_of_subjects(device: str, names: Collection[str], journal: ProcessJournal) -> type[Subject]:
    """Return ApartSubject where this process can fork. Else Subject, whose PyTorch has all threads.

    Freed memory goes back to the system, so that forked processes get pages of their own: what two share of one of 2 MB
    becomes 512 small ones when it is written. A stream of 500,000 elements took 1.35 times as long.
    """
    if not can_fork(device, journal):
        timing.prepare_torch(device)
        return Subject
    if "compile" in names and "torch._inductor.compile_fx" not in sys.modules:
        # Its modules, and a look at the processor: once, not in the process of each case. This starts no thread
        torch: Any = importlib.import_module("torch")
        with suppress(Exception):  # no C++ compiler: n/a when it is bound
            torch.compile(torch.neg, options={"compile_threads": 1})(torch.ones(9))
    processes.adopt_orphans()
    with suppress(AttributeError):  # no glibc
        ctypes.CDLL(None).malloc_trim(0)
    return ApartSubject


class _Results(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in HANDED_OVER:
            raise pickle.UnpicklingError(f"{module}.{name}")
        return HANDED_OVER[module, name]


def _read(text: bytes) -> Any:
    return _Results(io.BytesIO(text)).load()


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class ApartSubject(Subject):
    """An implementation on a test case, whose steps a process of its own takes. `end` kills it."""

    _process = 0  # its number
    _pipes: set[Connection] = set()  # noqa: RUF012 - ends of pipes that a new process must not keep

    def set_up(self, bind: Bind) -> None:
        """Fork the process, and bind and verify there."""
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        self._pipe, theirs = Pipe()
        self._pipes.add(self._pipe)
        self._process = os.fork()
        if self._process == 0:
            processes.end_with_parent(parent)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends, and this process with it
            for pipe in self._pipes:
                pipe.close()
            self._serve(theirs, bind)
        theirs.close()
        self._ending = os.pidfd_open(self._process)
        self._ask("set_up")

    def verify(self, when: str) -> None:
        """Verify there."""
        self._ask("verify", when)

    def take_round(self, work: limits.Work, *, counts: bool = True) -> None:
        """Take a round there."""
        self._ask("take_round", work, counts=counts)

    def audit(self, *, is_last: bool) -> bool:
        """Audit there."""
        return bool(self._ask("audit", is_last=is_last))

    def outputs(self) -> list[TensorFacts]:
        """Return what its outputs are."""
        outputs: list[TensorFacts] = self._ask("outputs") or []
        return outputs

    def note_left(self) -> None:
        """Note what still runs."""
        if self._process:
            self._ask("note_left")

    def end(self) -> None:
        """Kill the process, and name and kill what it left running."""
        if not self._process:
            return
        before = processes.children() - {self._process}  # those of other implementations
        os.kill(self._process, signal.SIGKILL)
        _, self._status = os.waitpid(self._process, 0)
        self._process = 0
        os.close(self._ending)
        self._pipe.close()
        self._pipes.discard(self._pipe)
        for process in processes.end_children(before, processes.GRACE):
            _say(f"{self.name} {processes.LEFT} {process}")

    def _ask(self, method: str, *args: Any, **more: Any) -> Any:
        """Return what a method returns there, and raise what it raises. Where the process dies, it has failed."""
        how = ""
        with suppress(OSError, EOFError):  # it has died
            self._pipe.send((method, args, more))
            if self._pipe in wait([self._pipe, self._ending]):
                text = self._pipe.recv_bytes()
                how = "handed over no result"
                with suppress(Exception):
                    value, error, self.timed, self.tf32 = _read(text)
                    how = "none"
        if how != "none":
            self._fail(how)
            return None
        if error is not None:
            raise error
        return value

    def _fail(self, how: str) -> None:
        """Record how the process died, and end what it left."""
        journal, case = self._bench.journal, self._bench.case
        step = journal.step() or JournalStep(doing="waiting", implementation=self.name, case=case)
        step = replace(step, implementation=self.name)
        journal.steps.write(NO_STEP)
        self.end()
        how = how or step.how or ended(os.waitstatus_to_exitcode(self._status))
        journal.record_death(step, how)
        self.timed.failed = f"its process {how} while it was {step.doing}"
        where = f" on {step.case}" if step.case else ""
        _say(f"{self.name}{where}: {self.timed.failed}")

    def _serve(self, requests: Connection, bind: Bind) -> NoReturn:
        """Take the steps that the parent asks for, until it kills this process."""
        self.__class__ = Subject  # type: ignore[assignment] # whose methods take them
        timing.prepare_torch(self._device)  # with its threads
        self._bench.fresh.begin(os.environ)
        while True:
            method, args, more = requests.recv()
            value, error = None, None
            try:
                value = getattr(self, method)(*(args or ((bind,) if method == "set_up" else ())), **more)
            except BaseException as raised:  # noqa: BLE001 - the parent raises it
                error = raised if type(raised) in ERRORS else RuntimeError(traceback.format_exc())
            try:
                _read(text := pickle.dumps((value, error, self.timed, self.tf32)))
            except Exception:  # noqa: BLE001 - details of a user's own check
                parts = tuple(replace(part, details=plain(part.details)) for part in self.timed.accuracy)
                text = pickle.dumps((value, error, replace(self.timed, accuracy=parts), self.tf32))
            requests.send_bytes(text)
