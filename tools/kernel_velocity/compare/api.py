"""The live comparison: implementations of a problem side by side, on the working tree, without git history.

Implementations take turns in rounds, so that they share the machine's mood; each is verified before and after timing:

    >>> from benchmarks.add_mul_exp import AddMulExp
    >>> from kernel_velocity.harness.implementations import fresh
    >>> from kernel_velocity.compare.settings import settings
    >>> from kernel_velocity.compare.api import binders, compare
    >>> from kernel_velocity.stats.speedup import pairwise, timing
    >>> def mine(problem, case, inputs):
    ...     x, y = inputs
    ...     return fresh(lambda: (x + y).mul_(2).exp_())
    >>> quick = settings(environ={}, preset="fused", rounds=3)
    >>> three = {**binders("eager", "native"), "mine": mine}
    >>> found = compare(AddMulExp(), three, cases="float32-500k", settings=quick)
    >>> (compared,) = found.compared
    >>> [(each.implementation, each.failed, len(each.rounds)) for each in compared.timed]
    [('eager', None, 3), ('native', None, 3), ('mine', None, 3)]
    >>> times = {each.implementation: timing(each.estimates) for each in compared.timed}
    >>> [f"{pair.faster} vs {pair.slower}" for pair in pairwise(times)]
    ['native vs eager', 'mine vs eager', 'mine vs native']

`kernel_velocity.compare.table.table(found, width=120)` is what the command prints of it. `time_function` times one
call:

    >>> from kernel_velocity.compare.api import time_function
    >>> values = list(range(10_000))
    >>> found = time_function(lambda: sum(values), rounds=3)
    >>> found.interval.low <= found.seconds <= found.interval.high
    True

Both are for a checkout: run from its root. An implementation of your own is a function of (problem, case, inputs) that
returns a `kernel_velocity.harness.implementations.Bound`, as `mine` does. Large results measure page faults unless the
process was started with the variables of `kernel_velocity.runner.host.measuring_variables`, as the command does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kernel_velocity.compare import selection, system
from kernel_velocity.compare import settings as compare_settings
from kernel_velocity.compare.case import Progress, compare_case
from kernel_velocity.compare.isolation import Journal
from kernel_velocity.compare.process import prepared
from kernel_velocity.compare.result import Compared, Comparison
from kernel_velocity.compare.rounds import Place, take_round
from kernel_velocity.compare.settings import Settings
from kernel_velocity.compare.subject import Bind
from kernel_velocity.errors import UsageError
from kernel_velocity.harness import implementations as harness
from kernel_velocity.harness import reported, timing
from kernel_velocity.harness.problem import Problem
from kernel_velocity.harness.timers import Call
from kernel_velocity.harness.under_test import root_folder
from kernel_velocity.roofline.model import Roofs
from kernel_velocity.stats import speedup


def binders(*names: str) -> dict[str, Bind]:
    """Return what binds the harness's implementations of these names ("eager", "compile", ...) to inputs."""
    folder = root_folder({}) / ".asv" / "cache" / "aoti"

    def bind(name: str, problem: Problem, case: str, inputs: Any) -> harness.Bound:
        return harness.bind(name, problem, case, inputs, folder)

    return {name: partial(bind, name) for name in names}


def compare(
    problem: Problem,
    implementations: Mapping[str, Bind],
    *,
    cases: selection.Pattern = None,
    dtype: str | None = None,
    settings: Settings | None = None,
    roofs: Roofs | None = None,
    progress: Progress = lambda what, done: None,
    journal: Journal | None = None,
) -> Comparison:
    """Compare implementations of a problem on its device, `problem.device`; return what was found.

    Args:
        problem: what is computed; its test cases, its reference.
        implementations: name -> what binds it to inputs: (problem, case, inputs) -> Bound.
        cases: names or regular expressions, commas between them; None: all.
        dtype: only cases of that dtype.
        settings: rounds, rule, tolerance, ...; None: those of the history.
        roofs: the machine's ceilings (runner/peaks.py); None: no roofline.
        progress: told what is being done, and which share is.
        journal: what an earlier process wrote of the same comparison, and this one goes on with; None: nothing.

    Raises:
        UsageError: no such case, the device is not there, a case does not fit into memory, an unknown reference.
    """
    chosen, log = settings or Settings(), journal or Journal()
    check_reference(chosen, implementations)
    began = time.time()
    with prepared(problem.device, chosen.threads):
        tests = selection.cases(problem, cases, dtype)
        for test in tests:  # all, before the first is allocated
            selection.check_fits(problem, test, len(implementations), reported.free_memory(problem.device))
        environment = system.environment(problem.device, chosen.threads)
        found = []
        for number, test in enumerate(tests):
            part = _part(progress, f"{problem.name} {test['name']}", number, len(tests))
            compared = log.kept(test["name"])
            if compared is None:
                compared = compare_case(
                    *(problem, implementations, test),
                    settings=chosen,
                    roofs=roofs,
                    began=began,
                    progress=part,
                    journal=log,
                )
                log.keep(compared)
            found.append(compared)
    return Comparison(
        compared=tuple(found),
        environment=environment,
        settings=described(chosen, implementations),
        began=began,
        took=time.time() - began,
        warnings=(*warnings(environment, roofs, found), *without_reference(found, chosen, implementations)),
    )


def without_reference(
    compared: Sequence[Compared], settings: Settings, implementations: Mapping[str, Bind]
) -> Iterator[str]:
    """Yield a line for each case on which the reference has no time, and others have."""
    reference = described(settings, implementations)["reference"]
    for each in compared:
        timed = [one.implementation for one in each.timed if one.failed is None and one.estimates]
        if timed and reference not in timed:
            yield (
                f"{each.problem} {each.case}: the reference {reference} has no time there, "
                f"so speed-ups are relative to {timed[0]} and whoever comes first of two"
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


def warnings(environment: Mapping[str, str], roofs: Roofs | None, compared: Sequence[Compared] = ()) -> tuple[str, ...]:
    """Return what a reader must know about all of a comparison, each once."""
    found = ["rounds share one process: what differs between processes (about 1%) is not in the intervals"]
    if "not set" in environment.get("allocator", ""):
        found.append(f"allocator: {environment['allocator']}")
    found += [f"{each.problem}: {note}" for each in compared for timed in each.timed for note in timed.notes]
    return tuple(dict.fromkeys((*found, *(roofs.warnings if roofs is not None else ()))))  # of each case the same


def _part(progress: Progress, what: str, number: int, count: int) -> Progress:
    """Return the progress of one part of several."""
    return lambda text, done: progress(f"{what} {text}", (number + done) / count)


def time_function(
    call: Call, *, rule: str | None = None, rounds: int = 8, device: str = "cpu", threads: int = 1
) -> speedup.Timing:
    """Time one call without arguments; return its time with error and 95% interval, over rounds in this process.

    Args:
        call: on CUDA it launches on the current stream; its device is not waited for but timed by events.
        rule: a stopping rule by name (harness/stopping); None: that of the history.
        rounds: from 3 on there is an interval.
        device: "cpu" or "cuda".
        threads: that the call uses, 1 or more: of several the CPU's quiet cannot be read, and is not waited for.

    Raises:
        UsageError: an unknown rule, no rounds.
    """
    named = compare_settings.settings(environ={}, rule=rule, rounds=rounds, threads=threads)
    place = Place(device=device, working_set=0, threads=threads, new_timer=timing.plain)
    return speedup.timing([take_round(call, named.rule(), place).estimate for _ in range(named.rounds)])
