"""The live comparison: implementations of a problem side by side, on the working tree, without git history.

Implementations take turns in rounds, so that they share the machine's mood; each is verified before and after timing:

    >>> from benchmarks.add_mul_exp import AddMulExp
    >>> from tools.compare_settings import settings
    >>> from tools.comparing import binders, compare
    >>> from tools.speed_ups import pairwise, timing
    >>> quick = settings(environ={}, preset="fused", rounds=3)
    >>> found = compare(AddMulExp(), binders("eager", "native"), cases="float32-500k", settings=quick)
    >>> (compared,) = found.compared
    >>> [(each.implementation, each.failed, len(each.rounds)) for each in compared.timed]
    [('eager', None, 3), ('native', None, 3)]
    >>> times = {each.implementation: timing(each.estimates) for each in compared.timed}
    >>> [f"{pair.faster} vs {pair.slower}" for pair in pairwise(times)]
    ['native vs eager']

`tools.compare_table.table(found, width=120)` is what the command prints of it. `time_function` times one call:

    >>> from tools.comparing import time_function
    >>> values = list(range(10_000))
    >>> found = time_function(lambda: sum(values), rounds=3)
    >>> found.interval.low <= found.seconds <= found.interval.high
    True

Both are for a checkout: run from its root. An implementation of your own is a function of (problem, case, inputs) that
returns a `benchmarks.harness.implementations.Bound`. Large results measure page faults unless the process was started
with the variables of `tools.host.measuring_variables`, as the command does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from benchmarks.harness import implementations as harness
from benchmarks.harness import reported, timing
from benchmarks.harness.benchmark import root_folder
from benchmarks.harness.problem import Inputs, Problem, TestCase
from benchmarks.harness.timers import Call
from tools import compare_selection, compare_settings, compare_system, speed_ups
from tools.compare_accuracy import outputs_of
from tools.compare_inputs import Shared, shared
from tools.compare_rounds import Place, take_round
from tools.compare_settings import Settings
from tools.compare_subjects import Bench, Bind, Subject, is_out_of_memory
from tools.comparison import Compared, Comparison, Timed
from tools.errors import UsageError
from tools.measuring_process import prepared
from tools.roofline import Roofs, memory_of, roofline
from tools.units import memory

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


def binders(*names: str) -> dict[str, Bind]:
    """Return what binds the harness's implementations of these names ("eager", "compile", "native") to inputs."""
    folder = root_folder({}) / ".asv" / "cache" / "aoti"

    def bind(name: str, problem: Problem, case: str, inputs: Any) -> harness.Bound:
        return harness.bind(name, problem, case, inputs, folder)

    return {name: partial(bind, name) for name in names}


def compare(
    problem: Problem,
    implementations: Mapping[str, Bind],
    *,
    cases: compare_selection.Pattern = None,
    dtype: str | None = None,
    settings: Settings | None = None,
    roofs: Roofs | None = None,
    progress: Progress = lambda what, done: None,
) -> Comparison:
    """Compare implementations of a problem on its device, `problem.device`; return what was found.

    Args:
        problem: what is computed; its test cases, its reference.
        implementations: name -> what binds it to inputs: (problem, case, inputs) -> Bound.
        cases: names or regular expressions, commas between them; None: all.
        dtype: only cases of that dtype.
        settings: rounds, rule, tolerance, ...; None: those of the history.
        roofs: the machine's ceilings (tools/peaks.py); None: no roofline.
        progress: told what is being done, and which share is.

    Raises:
        UsageError: no such case, the device is not there, a case does not fit into memory, an unknown reference.
    """
    chosen = settings or Settings()
    check_reference(chosen, implementations)
    began = time.time()
    with prepared(problem.device, chosen.threads):
        tests = compare_selection.cases(problem, cases, dtype)
        for test in tests:  # all, before the first is allocated
            compare_selection.check_fits(problem, test, len(implementations), reported.free_memory(problem.device))
        environment = compare_system.environment(problem.device, chosen.threads)
        found = []
        for number, test in enumerate(tests):
            part = _part(progress, f"{problem.name} {test['name']}", number, len(tests))
            found.append(
                compare_case(problem, implementations, test, settings=chosen, roofs=roofs, began=began, progress=part)
            )
    return Comparison(
        compared=tuple(found),
        environment=environment,
        settings=described(chosen, implementations),
        began=began,
        took=time.time() - began,
        warnings=warnings(environment, roofs),
    )


def described(settings: Settings, implementations: Mapping[str, Bind]) -> dict[str, str]:
    """Return the settings as text, the implementation that speed-ups are relative to among them."""
    return {**settings.described(), "reference": settings.reference or next(iter(implementations), "none")}


def check_reference(settings: Settings, implementations: Mapping[str, Bind]) -> None:
    """Refuse a reference that is not compared.

    Raises:
        UsageError: there is no such implementation.
    """
    if settings.reference is not None and settings.reference not in implementations:
        there = ", ".join(implementations)
        raise UsageError(f"--reference {settings.reference!r}: not among the implementations compared: {there}")


def warnings(environment: Mapping[str, str], roofs: Roofs | None) -> tuple[str, ...]:
    """Return what a reader must know about all of a comparison."""
    found = ["rounds share one process: what differs between processes (about 1%) is not in the intervals"]
    if "not set" in environment.get("allocator", ""):
        found.append(f"allocator: {environment['allocator']}")
    return (*found, *(roofs.warnings if roofs is not None else ()))


def _part(progress: Progress, what: str, number: int, count: int) -> Progress:
    """Return the progress of one part of several."""
    return lambda text, done: progress(f"{what} {text}", (number + done) / count)


def compare_case(
    problem: Problem,
    implementations: Mapping[str, Bind],
    test: TestCase,
    *,
    settings: Settings,
    roofs: Roofs | None,
    began: float,
    progress: Progress,
) -> Compared:
    """Compare the implementations on one test case; inside `prepared`.

    Raises:
        UsageError: its memory ran out.
    """
    try:
        bench = _bench(problem, test, settings, began)
        subjects = [Subject(name=name, bench=bench) for name in implementations]
        for subject in subjects:
            progress(f"verifying {subject.name}", 0.0)
            subject.set_up(implementations[subject.name])
        _take_rounds(subjects, settings.rounds, progress)
        for subject in subjects:
            if subject.runs:
                subject.verify("after timing")
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or is_out_of_memory(error):
            free = reported.free_memory(problem.device)
            rest = "" if free is None else f" ({memory(free)} are free)"
            raise UsageError(f"{problem.name} {test['name']}: memory ran out{rest}; take smaller cases") from None
        raise
    return _compared(bench, test, subjects, roofs)


def _bench(problem: Problem, test: TestCase, settings: Settings, began: float) -> Bench:
    inputs, expected, watched = _made(problem, test)
    moved = problem.get_bytes(test)
    touched = moved if moved is not None else sum(_size(each) for each in _tensors(inputs, expected))
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
        if isinstance(error, MemoryError) or is_out_of_memory(error):
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


def _size(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def _compared(bench: Bench, test: TestCase, subjects: Sequence[Subject], roofs: Roofs | None) -> Compared:
    problem = bench.problem
    written = next((outputs_of(each.output()) for each in subjects if each.runs), ())
    largest = max(_tensors(bench.inputs, written or bench.expected), key=_size)
    flops, moved = problem.get_flops(test), problem.get_bytes(test)
    dtype = str(largest.dtype).removeprefix("torch.")
    levels = roofs or compare_system.reported_levels(problem.device)
    return Compared(
        problem=problem.name,
        case=test["name"],
        device=problem.device,
        dtype=dtype,
        dims=tuple(test["dims"]),
        elements=int(largest.numel()),
        tensor_bytes=_size(largest),
        flops=flops,
        bytes=moved,
        memory=None if levels is None else memory_of(bench.place.working_set, levels),
        timed=tuple(_with_roofline(each.result(), flops, moved, dtype, roofs) for each in subjects),
    )


def _with_roofline(timed: Timed, flops: int | None, moved: int | None, dtype: str, roofs: Roofs | None) -> Timed:
    """Return a timing with its place below the roofs; as it is where it has no time that counts."""
    if roofs is None or not timed.estimates or timed.failed is not None:
        return timed
    seconds = speed_ups.timing(timed.estimates).seconds
    found = roofline(flops=flops, bytes=moved, seconds=seconds, roofs=roofs, dtype=dtype, working_set=moved)
    return replace(timed, roofline=found)


def time_function(
    call: Call, *, rule: str | None = None, rounds: int = 8, device: str = "cpu", threads: int = 1
) -> speed_ups.Timing:
    """Time one call without arguments; return its time with error and 95% interval, over rounds in this process.

    Args:
        call: on CUDA it launches on the current stream; its device is not waited for but timed by events.
        rule: a stopping rule by name (benchmarks/harness/stopping); None: that of the history.
        rounds: from 3 on there is an interval.
        device: "cpu" or "cuda".
        threads: that the call uses, 1 or more: of several the CPU's quiet cannot be read, and is not waited for.

    Raises:
        UsageError: an unknown rule, no rounds.
    """
    named = compare_settings.settings(environ={}, rule=rule, rounds=rounds, threads=threads)
    place = Place(device=device, working_set=0, threads=threads, new_timer=timing.plain)
    return speed_ups.timing([take_round(call, named.rule(), place).estimate for _ in range(named.rounds)])
