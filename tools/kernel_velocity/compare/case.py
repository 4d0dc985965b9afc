"""One test case of a comparison: set up, verified, timed in rounds that implementations take in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from kernel_velocity.compare import selection, system
from kernel_velocity.compare.isolation import Journal
from kernel_velocity.compare.result import Compared, Timed
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
        for number in range(settings.rounds):
            for turn, subject in enumerate(order([each for each in subjects if each.runs], number)):
                done = (number + turn / len(subjects)) / settings.rounds
                progress(f"round {number + 1}/{settings.rounds} {subject.name}", done)
                subject.take_round()
        for subject in subjects:
            if subject.runs:
                subject.verify("after timing")
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        free = reported.free_memory(problem.device)
        rest = "" if free is None else f" ({memory(free)} are free)"
        raise UsageError(f"{problem.name} {test['name']}: memory ran out{rest}; take smaller cases") from None
    return _compared(bench, test, subjects, roofs)


def _bench(problem: Problem, test: TestCase, settings: Settings, began: float, journal: Journal) -> Bench:
    """Make a case's inputs, and what is expected of them.

    Raises:
        UsageError: the problem, which may be a user's file, raised, or its reference changed the inputs.
    """
    step = "create_inputs"
    try:
        inputs = test["create_inputs"]()
        shared = SharedInputs(problem, inputs)
        step = "its reference"
        expected = problem.expected(*inputs)
    except (Exception, SystemExit) as error:
        if isinstance(error, UsageError) or is_out_of_memory(error):
            raise
        what = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise UsageError(f"{problem.name} {test['name']}: {step} raised {what}") from error
    if changed := shared.put_back():
        raise UsageError(
            f"{problem.name} {test['name']}: its reference changes its inputs ({changed}), from which everybody else "
            "is to compute; let it work on a copy"
        )
    return Bench(
        problem=problem,
        case=test["name"],
        inputs=inputs,
        shared=shared,
        expected=expected,
        working_set=footprint(problem, test, _tensors(inputs, expected)),
        settings=settings,
        began=began,
        journal=journal,
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
