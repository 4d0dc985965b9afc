"""One test case of a live comparison: set up, verified, timed in rounds that implementations take in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from kernel_velocity.compare import selection, system
from kernel_velocity.compare.isolation import Journal
from kernel_velocity.compare.result import Compared, Timed
from kernel_velocity.compare.rounds import Place
from kernel_velocity.compare.settings import Settings
from kernel_velocity.compare.subject import Bench, Bind, Shared, Subject, shared
from kernel_velocity.errors import UsageError, is_out_of_memory
from kernel_velocity.harness import reported
from kernel_velocity.harness.problem import Inputs, Problem, TestCase, outputs_of
from kernel_velocity.roofline.model import Roofs, memory_of, roofline
from kernel_velocity.stats import speedup
from kernel_velocity.units import memory

Progress = Callable[[str, float], None]  # what is being done, the share of it that is done
Item = TypeVar("Item")


def order(items: Sequence[Item], number: int) -> list[Item]:
    """Return the items in the order of round `number`, from 0: A B C, B C A, C A B, then each of these backwards.

    So every item is as often the first as any other, and comes as often after one neighbour as after the other.
    """
    if not items:
        return []
    cycle, by = divmod(number, len(items))
    turned = [*items[by:], *items[:by]]
    return turned[::-1] if cycle % 2 else turned


def compare_case(
    problem: Problem,
    implementations: Mapping[str, Bind],
    test: TestCase,
    *,
    settings: Settings,
    roofs: Roofs | None,
    began: float,
    progress: Progress,
    journal: Journal,
) -> Compared:
    """Compare the implementations on one test case; inside `prepared`.

    Raises:
        UsageError: its memory ran out.
    """
    try:
        with journal.running("computing what is expected", None, test["name"]):
            bench = _bench(problem, test, settings, began, journal)
        subjects = [Subject(name=name, bench=bench) for name in implementations]
        for subject in subjects:
            progress(f"verifying {subject.name}", 0.0)
            subject.set_up(implementations[subject.name])
        _take_rounds(subjects, settings.rounds, progress)
        for subject in subjects:
            if subject.runs:
                subject.verify("after timing")
    except (MemoryError, RuntimeError) as error:
        if is_out_of_memory(error):
            free = reported.free_memory(problem.device)
            rest = "" if free is None else f" ({memory(free)} are free)"
            raise UsageError(f"{problem.name} {test['name']}: memory ran out{rest}; take smaller cases") from None
        raise
    return _compared(bench, test, subjects, roofs)


def _bench(problem: Problem, test: TestCase, settings: Settings, began: float, journal: Journal) -> Bench:
    inputs, expected, watched = _made(problem, test)
    touched = footprint(problem, test, _tensors(inputs, expected))
    place = Place(device=problem.device, working_set=touched, threads=settings.threads)
    return Bench(
        problem=problem,
        case=test["name"],
        inputs=inputs,
        shared=watched,
        expected=expected,
        place=place,
        settings=settings,
        began=began,
        journal=journal,
    )


def _made(problem: Problem, test: TestCase) -> tuple[Inputs, Any, Shared]:
    """Return a case's inputs, what is expected of them, and the inputs as they must stay.

    Raises:
        UsageError: the problem, which may be a user's file, raised, or its reference changed the inputs.
    """
    step = "create_inputs"
    try:
        inputs = test["create_inputs"]()
        watched = shared(problem, inputs)
        step = "its reference"
        expected = problem.expected(*inputs)
    except (Exception, SystemExit) as error:
        if isinstance(error, UsageError) or is_out_of_memory(error):
            raise
        what = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise UsageError(f"{problem.name} {test['name']}: {step} raised {what}") from error
    if changed := watched.changed():
        raise UsageError(
            f"{problem.name} {test['name']}: its reference changes its inputs ({', '.join(changed)}), which everybody "
            "else is to compute from; let it work on a copy"
        )
    return inputs, expected, watched


def _take_rounds(subjects: Sequence[Subject], rounds: int, progress: Progress) -> None:
    """Take every round of every implementation that runs, in turn."""
    for number in range(rounds):
        for turn, subject in enumerate(order([each for each in subjects if each.runs], number)):
            done = (number + turn / len(subjects)) / rounds
            progress(f"round {number + 1}/{rounds} {subject.name}", done)
            subject.take_round()


def _tensors(inputs: Sequence[Any], expected: Any) -> list[Any]:
    return [each for each in (*inputs, *outputs_of(expected)) if hasattr(each, "element_size")]


def footprint(problem: Problem, test: TestCase, tensors: Sequence[Any]) -> int:
    """Return the bytes of memory that a call touches, each once: what a cache would have to hold.

    What the problem says; and no more than its tensors have, so that a problem which passes over them again and again
    is not taken for one beyond the caches. Tensors that share their memory count once.
    """
    sizes: dict[int, int] = {}
    for each in tensors:
        place = each.untyped_storage().data_ptr()
        sizes[place] = max(_size(each), sizes.get(place, 0))
    held, said = sum(sizes.values()), problem.get_footprint(test)
    return held if said is None else min(said, held)


def _size(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def _compared(bench: Bench, test: TestCase, subjects: Sequence[Subject], roofs: Roofs | None) -> Compared:
    problem = bench.problem
    written = next((outputs_of(each.output()) for each in subjects if each.runs), ())
    largest = max(_tensors(bench.inputs, written or bench.expected), key=_size)
    flops, moved = problem.get_flops(test), problem.get_bytes(test)
    touched = footprint(problem, test, _tensors(bench.inputs, written or bench.expected))
    # A product of int8 computes in int8, though its largest tensor is of int32
    dtype = selection.said_dtype(test["name"]) or str(largest.dtype).removeprefix("torch.")
    levels = roofs or system.reported_levels(problem.device)
    found = Compared(
        problem=problem.name,
        case=test["name"],
        device=problem.device,
        dtype=dtype,
        dims=tuple(test["dims"]),
        elements=int(largest.numel()),
        tensor_bytes=_size(largest),
        flops=flops,
        bytes=moved,
        footprint=touched,
        memory=None if levels is None else memory_of(touched, levels),
        timed=tuple(each.result() for each in subjects),
    )
    if roofs is None:
        return found
    tf32 = {each.name for each in subjects if each.tf32 and dtype == "float32"}
    placed = (_placed(each, found, roofs, "tf32" if each.implementation in tf32 else dtype) for each in found.timed)
    return replace(found, timed=tuple(placed))


def _placed(timed: Timed, compared: Compared, roofs: Roofs, dtype: str) -> Timed:
    """Return a timing with its place below the roofs; as it is where it has no time that counts.

    Args:
        dtype: in which it computed, a key of `roofs.peaks`.
    """
    if not timed.estimates or timed.failed is not None:
        return timed
    found = roofline(
        flops=compared.flops,
        bytes=compared.bytes,
        seconds=speedup.timing(timed.estimates).seconds,
        roofs=roofs,
        dtype=dtype,
        working_set=compared.footprint,
    )
    return replace(timed, roofline=found)
