"""A problem and its implementations on test cases: each verified, then timed in rounds that they take in turn."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from kernel_velocity.compare import system
from kernel_velocity.compare.implementations import MEMORY_SHARE, named_dtype
from kernel_velocity.compare.isolation import ProcessJournal
from kernel_velocity.compare.result import Compared, LiveComparison, TimedImplementation
from kernel_velocity.compare.settings import TimingSettings
from kernel_velocity.compare.solutions import Bind
from kernel_velocity.compare.subject import Bench, SharedInputs, Subject
from kernel_velocity.engine import reported
from kernel_velocity.errors import UsageError
from kernel_velocity.machine.limits import Work
from kernel_velocity.problem.problem import Problem, ProblemError, TestCase, outputs_of
from kernel_velocity.problem.problem_file import is_out_of_memory
from kernel_velocity.roofline.model import Roofs, memory_of, roofline
from kernel_velocity.stats import speedup
from kernel_velocity.suite.audit import FreshInputs
from kernel_velocity.suite.originals import ORIGINALS
from kernel_velocity.units import memory

Progress = Callable[[str, float], None]  # the current step, and the share of all steps that is done
Turn = TypeVar("Turn")
ONE_PROCESS = "all rounds ran in one process: intervals leave out the variation between processes, about 1%"


def order(turns: Sequence[Turn], number: int) -> list[Turn]:
    """Return the order of turns in round `number`, from 0: A B C, B C A, C A B, then these three backwards.

    So every implementation is first equally often, and equally often runs after either neighbour.
    """
    if not turns:
        return []
    cycle, shift = divmod(number, len(turns))
    rotated = [*turns[shift:], *turns[:shift]]
    return rotated[::-1] if cycle % 2 else rotated


class MemoryRanOutError(Exception):
    """A case needs more memory than it may use."""


@dataclass(frozen=True, kw_only=True)
class ComparisonJob:
    """A problem with the implementations and test cases to compare. It is made and used inside `prepared`.

    Raises:
        UsageError: the reference is not compared.
    """

    problem: Problem
    implementations: Mapping[str, Bind]
    tests: Sequence[TestCase]
    settings: TimingSettings
    notes: Sequence[str] = ()  # on cases that were left out

    def __post_init__(self) -> None:
        if self.settings.reference not in (None, *self.implementations):
            names = ", ".join(self.implementations)
            raise UsageError(f"--reference must be one of {names} (got {self.settings.reference!r})")

    def compare(self, roofs: Roofs | None, progress: Progress, journal: ProcessJournal) -> LiveComparison:
        """Compare on every test case that the journal does not have. A case for which memory runs out is left out.

        Raises:
            UsageError: memory ran out for every case, or the problem raised.
        """
        problem, began, cases, left_out = self.problem, time.time(), list[Compared](), list[str]()
        environment = system.environment(problem.device, self.settings.threads)
        for number, test in enumerate(self.tests):

            def part(what: str, done: float, name: str = test["name"], number: int = number) -> None:
                progress(f"{problem.name} {name} {what}", (number + done) / len(self.tests))

            compared = journal.finished(test["name"])
            if compared is None:
                try:
                    with reported.memory_bound(problem.device, MEMORY_SHARE):
                        compared = self._compare_case(test, roofs, part, journal)
                except MemoryRanOutError as error:
                    left_out.append(str(error))
                    continue
                journal.save(compared)
            cases.append(compared)
        if not cases:
            raise UsageError(left_out[0])
        reference = self.settings.reference or next(iter(self.implementations), "none")
        warnings = [*self.notes, *left_out, ONE_PROCESS]
        warnings += [f"allocator: {system.NO_ALLOCATOR}"] if environment["allocator"] == system.NO_ALLOCATOR else []
        warnings += [
            f"{problem.name}: {note}" for compared in cases for timed in compared.timed for note in timed.notes
        ]
        warnings += [*(roofs.warnings if roofs is not None else ()), *_without_reference(cases, reference)]
        return LiveComparison(
            compared=tuple(cases),
            environment=environment,
            settings={**self.settings.described(), "reference": reference},
            began=began,
            took=time.time() - began,
            warnings=tuple(dict.fromkeys(warnings)),  # cases repeat them
        )

    def _compare_case(
        self, test: TestCase, roofs: Roofs | None, progress: Progress, journal: ProcessJournal
    ) -> Compared:
        rounds = self.settings.rounds
        try:
            with journal.running("computing the reference", None, test["name"]):
                bench = self._bench(test, journal)
            subjects = [Subject(name=name, bench=bench) for name in self.implementations]
            for subject in subjects:
                progress(f"verifying {subject.name}", 0.0)
                subject.set_up(self.implementations[subject.name])
            for number in range(rounds):
                for turn, subject in enumerate(order([subject for subject in subjects if subject.runs], number)):
                    done = (number + turn / len(subjects)) / rounds
                    progress(f"round {number + 1}/{rounds} {subject.name}", done)
                    subject.take_round()
            for subject in subjects:
                if subject.runs:
                    subject.verify("after timing")
            for subject in subjects:
                if subject.runs:
                    subject.audit()
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            free = reported.free_memory(self.problem.device)
            rest = "" if free is None else f" ({memory(free)} are free)"
            text = f"{self.problem.name} {test['name']}: out of memory{rest}; select smaller cases (--sizes, --sample)"
            raise MemoryRanOutError(text) from None
        return _compared(bench, test, subjects, roofs)

    def _bench(self, test: TestCase, journal: ProcessJournal) -> Bench:
        """Make a case's inputs, and what is expected of them.

        Raises:
            UsageError: the problem, which may be a user's file, raised, or its reference changed the inputs.
        """
        ORIGINALS.note(self.problem)
        problem, where = self.problem, f"{self.problem.name} {test['name']}"
        with _user_code(f"{where}: create_inputs"):
            inputs = test["create_inputs"]()
        shared = SharedInputs(problem, inputs)
        with _user_code(f"{where}: its reference"):
            expected = problem.expected(*inputs)
        if changed := shared.restore():
            raise UsageError(
                f"{where}: its reference changes its inputs ({changed}), which all implementations share; "
                "make it work on a copy"
            )
        return Bench(
            problem=problem,
            case=test["name"],
            inputs=inputs,
            fresh=FreshInputs(inputs, test["create_inputs"], os.environ),
            shared=shared,
            expected=expected,
            work=work(problem, test, _tensors(inputs, expected)),
            settings=self.settings,
            journal=journal,
        )


@contextmanager
def _user_code(what: str) -> Iterator[None]:
    """Turn an exception of a user's code into a UsageError, unless memory ran out."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if isinstance(error, UsageError | ProblemError) or is_out_of_memory(error):
            raise
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise UsageError(f"{what} raised {reason}") from error


def _without_reference(cases: Sequence[Compared], reference: str) -> Iterator[str]:
    """Yield a warning for each case on which other implementations have a time, and the reference has none."""
    for compared in cases:
        timed = [row.implementation for row in compared.timed if row.failed is None and row.estimates]
        if timed and reference not in timed:
            yield (
                f"{compared.problem} {compared.case}: the reference {reference} has no time there, "
                f"so speed-ups are relative to {timed[0]}"
            )


def _tensors(inputs: Sequence[Any], outputs: Any) -> list[Any]:
    return [value for value in (*inputs, *outputs_of(outputs)) if hasattr(value, "element_size")]


def _size(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def footprint(problem: Problem, test: TestCase, tensors: Sequence[Any]) -> int:
    """Return the working set of a call: the bytes of memory that it touches, each counted once.

    It is the problem's figure, but at most the size of the tensors: a problem that passes over them again and again has
    more traffic than a cache must hold. Tensors that share their memory count once.
    """
    sizes: dict[int, int] = {}
    for tensor in tensors:
        address = tensor.untyped_storage().data_ptr()
        sizes[address] = max(_size(tensor), sizes.get(address, 0))
    allocated, stated = sum(sizes.values()), problem.get_footprint(test)
    return allocated if stated is None else min(stated, allocated)


def work(problem: Problem, test: TestCase, tensors: Sequence[Any]) -> Work:
    """Return what a call on a test case does, whose inputs and outputs are `tensors`."""
    # A product of int8 computes in int8, though its largest tensor is of int32
    dtype = named_dtype(test["name"]) or str(max(tensors, key=_size).dtype).removeprefix("torch.")
    flops, moved = problem.get_flops(test), problem.get_bytes(test)
    return Work(flops=flops, bytes=moved, footprint=footprint(problem, test, tensors), dtype=dtype)


def _compared(bench: Bench, test: TestCase, subjects: Sequence[Subject], roofs: Roofs | None) -> Compared:
    problem = bench.problem
    written = next((subject.bound.output() for subject in subjects if subject.runs and subject.bound), None)
    tensors = _tensors(bench.inputs, bench.expected if written is None else written)
    largest = max(tensors, key=_size)
    done = work(problem, test, tensors)
    levels = roofs or system.reported_levels(problem.device)
    compared = Compared(
        problem=problem.name,
        case=test["name"],
        device=problem.device,
        dtype=done.dtype,
        dims=tuple(test["dims"]),
        elements=int(largest.numel()),
        tensor_bytes=_size(largest),
        flops=done.flops,
        bytes=done.bytes,
        footprint=done.footprint,
        memory=None if levels is None or done.footprint is None else memory_of(done.footprint, levels),
        timed=(),
    )
    dtypes = ["tf32" if done.dtype == "float32" and subject.tf32 else done.dtype for subject in subjects]
    timed = (_placed(subject.result(), compared, roofs, roof) for subject, roof in zip(subjects, dtypes, strict=True))
    return replace(compared, timed=tuple(timed))


def _placed(timed: TimedImplementation, compared: Compared, roofs: Roofs | None, dtype: str) -> TimedImplementation:
    """Return a timing with its roofline for a dtype. Without a time that counts it stays as it is."""
    if roofs is None or not timed.estimates or timed.failed is not None:
        return timed
    placed = roofline(
        flops=compared.flops,
        bytes=compared.bytes,
        seconds=speedup.timing(timed.estimates).seconds,
        roofs=roofs,
        dtype=dtype,
        working_set=compared.footprint,
    )
    return replace(timed, roofline=placed)
