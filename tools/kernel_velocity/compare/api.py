"""The live comparison: implementations of a problem side by side, on the working tree, without git history.

Implementations take turns in rounds, so that all of them see the same noise. Each is verified before and after timing:

    >>> from benchmarks.add_mul_exp import AddMulExp
    >>> from kernel_velocity.problem.implementations import fresh
    >>> from kernel_velocity.compare.settings import settings
    >>> from kernel_velocity.compare.api import binders, compare
    >>> from kernel_velocity.stats.speedup import pairwise, timing
    >>> def mine(problem, case, inputs):
    ...     x, y = inputs
    ...     return fresh(lambda: (x + y).mul_(2).exp_())
    >>> quick = settings(environ={}, preset="fused", rounds=3)
    >>> three = {**binders("eager", "native"), "mine": mine}
    >>> comparison = compare(AddMulExp(), three, cases="float32-500k", settings=quick)
    >>> (compared,) = comparison.compared
    >>> [(timed.implementation, timed.failed, len(timed.rounds)) for timed in compared.timed]
    [('eager', None, 3), ('native', None, 3), ('mine', None, 3)]
    >>> times = {timed.implementation: timing(timed.estimates) for timed in compared.timed}
    >>> [f"{pair.faster} vs {pair.slower}" for pair in pairwise(times)]
    ['native vs eager', 'mine vs eager', 'mine vs native']

`kernel_velocity.compare.table.table(comparison, width=120)` is what the command prints. `time_function` times one call:

    >>> from kernel_velocity.compare.api import time_function
    >>> values = list(range(10_000))
    >>> result = time_function(lambda: sum(values), rounds=3)
    >>> result.interval.low <= result.seconds <= result.interval.high
    True

Both are for a checkout: run from its root. An implementation of your own is a function of (problem, case, inputs) that
returns a `kernel_velocity.problem.implementations.Bound`, as `mine` does. Large results measure page faults unless the
process was started with the variables of `kernel_velocity.runner.host.measuring_variables`, as the command does.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernel_velocity.compare import settings as compare_settings
from kernel_velocity.compare.implementations import Pattern, binders, select_cases
from kernel_velocity.compare.isolation import ProcessJournal
from kernel_velocity.compare.job import ComparisonJob, Progress, compare_jobs
from kernel_velocity.compare.result import LiveComparison
from kernel_velocity.compare.settings import TimingSettings, prepared
from kernel_velocity.compare.solutions import Bind
from kernel_velocity.compare.subject import take_round
from kernel_velocity.engine.timers import Call
from kernel_velocity.problem.problem import Problem
from kernel_velocity.roofline.model import Roofs
from kernel_velocity.stats import speedup

__all__ = ["binders", "compare", "time_function"]


def compare(
    problem: Problem,
    implementations: Mapping[str, Bind],
    *,
    cases: Pattern = None,
    dtype: str | None = None,
    settings: TimingSettings | None = None,
    roofs: Roofs | None = None,
    progress: Progress = lambda what, done: None,
    journal: ProcessJournal | None = None,
) -> LiveComparison:
    """Compare implementations of a problem on its device, `problem.device`.

    Args:
        problem: what is computed, with its test cases and its reference.
        implementations: name -> what binds it to inputs: (problem, case, inputs) -> Bound.
        cases: names or regular expressions, separated by commas. None: all.
        dtype: only cases of that dtype.
        settings: rounds, rule, tolerance. None: those of the history.
        roofs: the machine's ceilings (runner/peaks.py). None: no roofline.
        progress: called with the current step, and the share of steps that are done.
        journal: of an earlier process of this comparison, whose finished cases are taken over. None: no such process.

    Raises:
        UsageError: no such case, the device is not there, no case fits into memory, an unknown reference.
    """
    chosen = settings or TimingSettings()
    with prepared(problem.device, chosen.threads):
        (tests,) = select_cases([problem], cases, dtype)
        job = ComparisonJob(problem=problem, implementations=implementations, tests=tests, settings=chosen)
        return compare_jobs([job], roofs, progress, journal or ProcessJournal())


def time_function(
    call: Call, *, rule: str | None = None, rounds: int = 8, device: str = "cpu", threads: int = 1
) -> speedup.Timing:
    """Return the time of one call without arguments, with error and 95% interval over rounds in this process.

    Args:
        call: on CUDA it launches on the current stream and is timed by events.
        rule: a stopping rule by name (engine/stopping.py). None: that of the history.
        rounds: from 3 on there is an interval.
        device: "cpu" or "cuda".
        threads: that the call uses, 1 or more. With several the quiet-core filter is off.

    Raises:
        UsageError: an unknown rule, no rounds.
    """
    chosen = compare_settings.settings(environ={}, rule=rule, rounds=rounds, threads=threads)
    results = (take_round(call, chosen.rule, device, threads=threads) for _ in range(chosen.rounds))
    return speedup.timing([result.estimate for result in results])
