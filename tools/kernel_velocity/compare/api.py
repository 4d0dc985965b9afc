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
from dataclasses import dataclass

from kernel_velocity.compare import selection, system
from kernel_velocity.compare import settings as compare_settings
from kernel_velocity.compare.case import Progress, compare_case
from kernel_velocity.compare.implementations import binders
from kernel_velocity.compare.isolation import Journal
from kernel_velocity.compare.result import Compared, Comparison
from kernel_velocity.compare.rounds import take_round
from kernel_velocity.compare.settings import Settings
from kernel_velocity.compare.solutions import Bind
from kernel_velocity.compare.torch_state import prepared
from kernel_velocity.errors import UsageError
from kernel_velocity.harness import reported
from kernel_velocity.harness.problem import Problem, TestCase
from kernel_velocity.harness.timers import Call
from kernel_velocity.roofline.model import Roofs
from kernel_velocity.stats import speedup

__all__ = ["Job", "binders", "compare", "time_function"]

ONE_PROCESS = "rounds share one process: what differs between processes (about 1%) is not in the intervals"


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
    """Compare implementations of a problem on its device, `problem.device`.

    Args:
        problem: what is computed; its test cases, its reference.
        implementations: name -> what binds it to inputs: (problem, case, inputs) -> Bound.
        cases: names or regular expressions, commas between them; None: all.
        dtype: only cases of that dtype.
        settings: rounds, rule, tolerance, ...; None: those of the history.
        roofs: the machine's ceilings (runner/peaks.py); None: no roofline.
        progress: called with what is being done, and the share of all that is done.
        journal: what an earlier process wrote of the same comparison, which this one takes over; None: nothing.

    Raises:
        UsageError: no such case, the device is not there, a case does not fit into memory, an unknown reference.
    """
    chosen = settings or Settings()
    with prepared(problem.device, chosen.threads):
        (tests,) = selection.cases([problem], cases, dtype)
        job = Job(problem=problem, implementations=implementations, tests=tests, settings=chosen)
        return job.compare(roofs, progress, journal or Journal())


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
        reference = self.settings.reference
        if reference is not None and reference not in self.implementations:
            there = ", ".join(self.implementations)
            raise UsageError(f"--reference {reference!r}: not among the implementations compared: {there}")
        free = reported.free_memory(self.problem.device)
        for test in self.tests:
            selection.check_fits(self.problem, test, len(self.implementations), free)

    @property
    def reference(self) -> str:
        """Return the implementation that speed-ups are relative to."""
        return self.settings.reference or next(iter(self.implementations), "none")

    def compare(self, roofs: Roofs | None, progress: Progress, journal: Journal) -> Comparison:
        """Compare on every test case; those that the journal has are taken over."""
        problem, began, found = self.problem, time.time(), list[Compared]()
        environment = system.environment(problem.device, self.settings.threads)
        for number, test in enumerate(self.tests):
            name, count = test["name"], len(self.tests)

            def part(what: str, done: float, name: str = name, number: int = number, count: int = count) -> None:
                progress(f"{problem.name} {name} {what}", (number + done) / count)

            compared = journal.kept(name)
            if compared is None:
                compared = compare_case(
                    *(problem, self.implementations, test),
                    settings=self.settings,
                    roofs=roofs,
                    began=began,
                    progress=part,
                    journal=journal,
                )
                journal.keep(compared)
            found.append(compared)
        notes = [f"{problem.name}: {note}" for each in found for timed in each.timed for note in timed.notes]
        allocator = environment["allocator"]
        warnings = [ONE_PROCESS, *([f"allocator: {allocator}"] if allocator == system.NO_ALLOCATOR else []), *notes]
        warnings += [*(roofs.warnings if roofs is not None else ()), *self._without_reference(found)]
        return Comparison(
            compared=tuple(found),
            environment=environment,
            settings={**self.settings.described(), "reference": self.reference},
            began=began,
            took=time.time() - began,
            warnings=tuple(dict.fromkeys(warnings)),  # those of each case are the same
            roofs=roofs,
        )

    def _without_reference(self, compared: Sequence[Compared]) -> Iterator[str]:
        """Yield a line for each case on which the reference has no time, and others have."""
        for each in compared:
            timed = [one.implementation for one in each.timed if one.failed is None and one.estimates]
            if timed and self.reference not in timed:
                yield (
                    f"{each.problem} {each.case}: the reference {self.reference} has no time there, "
                    f"so speed-ups are relative to {timed[0]} and whoever comes first of two"
                )


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
    chosen = compare_settings.settings(environ={}, rule=rule, rounds=rounds, threads=threads)
    taken = (take_round(call, chosen.rule(), device, threads=threads) for _ in range(chosen.rounds))
    return speedup.timing([each.estimate for each in taken])
