"""A problem and its implementations on test cases: each verified, then timed in rounds that they take in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from kernel_velocity.compare import selection, system
from kernel_velocity.compare.isolation import Journal
from kernel_velocity.compare.result import Compared, Comparison, Timed
from kernel_velocity.compare.settings import Settings
from kernel_velocity.compare.solutions import Bind
from kernel_velocity.compare.subject import Bench, SharedInputs, Subject
from kernel_velocity.errors import UsageError, is_out_of_memory
from kernel_velocity.harness import reported
from kernel_velocity.harness.problem import Problem, TestCase, outputs_of
from kernel_velocity.roofline.model import Roofs, memory_of, roofline
from kernel_velocity.stats import speedup
from kernel_velocity.units import memory

Progress = Callable[[str, float], None]  # what is being done, the share of it that is done
Item = TypeVar("Item")
ONE_PROCESS = "rounds share one process: what differs between processes (about 1%) is not in the intervals"


def order(items: Sequence[Item], number: int) -> list[Item]:
    """Return the items in the order of round `number`, from 0: A B C, B C A, C A B, then each of these backwards.

    So every item is as often the first as any other, and comes as often after one neighbour as after the other.
    """
    if not items:
        return []
    cycle, by = divmod(number, len(items))
    turned = [*items[by:], *items[:by]]
    return turned[::-1] if cycle % 2 else turned


@dataclass(frozen=True, kw_only=True)
class Job:
    """A problem, its implementations and its test cases, ready to be compared; inside `prepared`.

    Raises:
        UsageError: the reference is not compared, or a case does not fit into memory; nothing is allocated yet.
    """

    problem: Problem
    implementations: Mapping[str, Bind]
    tests: Sequence[TestCase]
    settings: Settings

    def __post_init__(self) -> None:
        if self.settings.reference not in (None, *self.implementations):
            there = ", ".join(self.implementations)
            raise UsageError(
                f"--reference {self.settings.reference!r}: not among the implementations compared: {there}"
            )
        free = reported.free_memory(self.problem.device)
        for test in self.tests:
            selection.check_fits(self.problem, test, len(self.implementations), free)

    def compare(self, roofs: Roofs | None, progress: Progress, journal: Journal) -> Comparison:
        """Compare on every test case; those that the journal has are taken over.

        Raises:
            UsageError: memory ran out, or the problem raised.
        """
        problem, began, found = self.problem, time.time(), list[Compared]()
        environment = system.environment(problem.device, self.settings.threads)
        for number, test in enumerate(self.tests):

            def part(what: str, done: float, name: str = test["name"], number: int = number) -> None:
                progress(f"{problem.name} {name} {what}", (number + done) / len(self.tests))

            compared = journal.kept(test["name"])
            if compared is None:
                compared = self._compare_case(test, roofs, began, part, journal)
                journal.keep(compared)
            found.append(compared)
        reference = self.settings.reference or next(iter(self.implementations), "none")
        warnings = [ONE_PROCESS]
        warnings += [f"allocator: {system.NO_ALLOCATOR}"] if environment["allocator"] == system.NO_ALLOCATOR else []
        warnings += [f"{problem.name}: {note}" for each in found for timed in each.timed for note in timed.notes]
        warnings += [*(roofs.warnings if roofs is not None else ()), *_without_reference(found, reference)]
        return Comparison(
            compared=tuple(found),
            environment=environment,
            settings={**self.settings.described(), "reference": reference},
            began=began,
            took=time.time() - began,
            warnings=tuple(dict.fromkeys(warnings)),  # those of each case are the same
            roofs=roofs,
        )

    def _compare_case(
        self, test: TestCase, roofs: Roofs | None, began: float, progress: Progress, journal: Journal
    ) -> Compared:
        rounds = self.settings.rounds
        try:
            with journal.running("computing what is expected", None, test["name"]):
                bench = self._bench(test, began, journal)
            subjects = [Subject(name=name, bench=bench) for name in self.implementations]
            for subject in subjects:
                progress(f"verifying {subject.name}", 0.0)
                subject.set_up(self.implementations[subject.name])
            for number in range(rounds):
                for turn, subject in enumerate(order([each for each in subjects if each.runs], number)):
                    done = (number + turn / len(subjects)) / rounds
                    progress(f"round {number + 1}/{rounds} {subject.name}", done)
                    subject.take_round()
            for subject in subjects:
                if subject.runs:
                    subject.verify("after timing")
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            free = reported.free_memory(self.problem.device)
            rest = "" if free is None else f" ({memory(free)} are free)"
            raise UsageError(f"{self.problem.name} {test['name']}: memory ran out{rest}; take smaller cases") from None
        return _compared(bench, test, subjects, roofs)

    def _bench(self, test: TestCase, began: float, journal: Journal) -> Bench:
        """Make a case's inputs, and what is expected of them.

        Raises:
            UsageError: the problem, which may be a user's file, raised, or its reference changed the inputs.
        """
        problem, step, where = self.problem, "create_inputs", f"{self.problem.name} {test['name']}"
        try:
            inputs = test["create_inputs"]()
            shared = SharedInputs(problem, inputs)
            step = "its reference"
            expected = problem.expected(*inputs)
        except (Exception, SystemExit) as error:
            if isinstance(error, UsageError) or is_out_of_memory(error):
                raise
            what = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            raise UsageError(f"{where}: {step} raised {what}") from error
        if changed := shared.put_back():
            raise UsageError(
                f"{where}: its reference changes its inputs ({changed}), from which everybody else is to compute; "
                "let it work on a copy"
            )
        return Bench(
            problem=problem,
            case=test["name"],
            inputs=inputs,
            shared=shared,
            expected=expected,
            working_set=footprint(problem, test, _tensors(inputs, expected)),
            settings=self.settings,
            began=began,
            journal=journal,
        )


def _without_reference(compared: Sequence[Compared], reference: str) -> Iterator[str]:
    """Yield a line for each case on which the reference has no time, and others have."""
    for each in compared:
        timed = [one.implementation for one in each.timed if one.failed is None and one.estimates]
        if timed and reference not in timed:
            yield (
                f"{each.problem} {each.case}: the reference {reference} has no time there, "
                f"so speed-ups are relative to {timed[0]} and whoever comes first of two"
            )


def _tensors(inputs: Sequence[Any], outputs: Any) -> list[Any]:
    return [each for each in (*inputs, *outputs_of(outputs)) if hasattr(each, "element_size")]


def _size(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def footprint(problem: Problem, test: TestCase, tensors: Sequence[Any]) -> int:
    """Return the bytes of memory that a call touches, each once: what a cache would have to hold.

    The problem's figure, and at most the size of the tensors, so that a problem which passes over them again and
    again is not taken for one beyond the caches. Tensors that share their memory count once.
    """
    sizes: dict[int, int] = {}
    for each in tensors:
        address = each.untyped_storage().data_ptr()
        sizes[address] = max(_size(each), sizes.get(address, 0))
    held, stated = sum(sizes.values()), problem.get_footprint(test)
    return held if stated is None else min(stated, held)


def _compared(bench: Bench, test: TestCase, subjects: Sequence[Subject], roofs: Roofs | None) -> Compared:
    problem = bench.problem
    written = next((each.bound.output() for each in subjects if each.runs and each.bound is not None), None)
    tensors = _tensors(bench.inputs, bench.expected if written is None else written)
    largest = max(tensors, key=_size)
    touched = footprint(problem, test, tensors)
    # A product of int8 computes in int8, though its largest tensor is of int32
    dtype = selection.named_dtype(test["name"]) or str(largest.dtype).removeprefix("torch.")
    levels = roofs or system.reported_levels(problem.device)
    compared = Compared(
        problem=problem.name,
        case=test["name"],
        device=problem.device,
        dtype=dtype,
        dims=tuple(test["dims"]),
        elements=int(largest.numel()),
        tensor_bytes=_size(largest),
        flops=problem.get_flops(test),
        bytes=problem.get_bytes(test),
        footprint=touched,
        memory=None if levels is None else memory_of(touched, levels),
        timed=(),
    )
    tf32 = [dtype == "float32" and each.tf32 for each in subjects]
    timed = (
        _placed(each.result(), compared, roofs, "tf32" if tf else dtype)
        for each, tf in zip(subjects, tf32, strict=True)
    )
    return replace(compared, timed=tuple(timed))


def _placed(timed: Timed, compared: Compared, roofs: Roofs | None, dtype: str) -> Timed:
    """Return a timing with its place below the roofs of a dtype; as it is where no time counts."""
    if roofs is None or not timed.estimates or timed.failed is not None:
        return timed
    place = roofline(
        flops=compared.flops,
        bytes=compared.bytes,
        seconds=speedup.timing(timed.estimates).seconds,
        roofs=roofs,
        dtype=dtype,
        working_set=compared.footprint,
    )
    return replace(timed, roofline=place)
