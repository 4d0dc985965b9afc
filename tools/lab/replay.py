"""``python -m lab replay``: replay every stopping rule on the same traces, and compare errors and costs.

Synthetic mixtures of noise have a known truth. Constants were chosen on mixtures of one set ("tuning": `adaptive` on
its seeds 100 to 105, `adaptive.round` on its seed 2). Those of the other ("held out") count. Recorded traces are
replayed beside them, where there are any.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np

from kernel_velocity.engine.statistics import half_width, trimmed_mean
from kernel_velocity.engine.stopping import (
    RULES,
    Adaptive,
    AdaptiveRound,
    FixedTime,
    Stop,
    StoppingRule,
    without_burn_in,
)
from kernel_velocity.errors import UsageError
from kernel_velocity.tables import Table, aligned, percent
from kernel_velocity.units import seconds
from lab import traces as trace_files
from lab.noise import HELD_OUT, SECONDS, TUNING, mixtures, repetition
from lab.traces import TRACES, Trace

DEFAULT_MIXTURES, DEFAULT_REPETITIONS = 48, 5
FULL_MIXTURES, FULL_REPETITIONS = 200, 10
MakeRule = Callable[[], StoppingRule]
ENDED = "trace ended"  # reason if the rule wanted more than was recorded
RESAMPLES = 1000
PERCENTILE = 0.9
CLOSE = 0.005  # relative error
OURS = (Adaptive.name, AdaptiveRound.name)  # each is compared with a fixed time that costs as much in total
CONTENDERS: Mapping[str, MakeRule] = {
    **RULES,
    "fixed_time, 1 s": partial(FixedTime, t_max=1.0),
    "fixed_time, 2 s": partial(FixedTime, t_max=2.0),
}
COLUMNS: Mapping[str, Callable[[Sequence[ReplayOutcome]], str]] = {  # cells of a rule, from its outcomes
    "median error": lambda all_: percent(median(all_)),
    "p90": lambda all_: percent(p90(all_)),
    "within .5%": lambda all_: percent(share(outcome.error <= CLOSE for outcome in all_)),
    "total time": lambda all_: seconds(sum(outcome.spent for outcome in all_)),
    "coverage": lambda all_: percent(share(outcome.covered for outcome in all_)),
    "stopped by": lambda all_: ", ".join(
        f"{why} {n}" for why, n in Counter(outcome.reason for outcome in all_).most_common()
    ),
}
FOOTNOTES = (
    "error: |estimate - truth| / truth, the estimate being the harness's (10% trimmed mean without the first fifth) of "
    "what the rule kept",
    "coverage: share of traces whose within-run 95% interval holds the truth",
    "trace ended: the rule wanted more than the trace had; on recorded traces its error is then near 0 by construction",
)


# One rule on traces --------------------------------------------------------------------------------------------------


class ReplayOutcome(NamedTuple):
    """One rule on one trace. Times in s. Errors relative to the truth."""

    source: str
    error: float  # of the harness's estimate: 10% trimmed mean without the burn-in
    covered: bool | None  # whether estimate and half-width include the truth; None: too few samples for a half-width
    spent: float
    n: int
    reason: str


def replay(rule: StoppingRule, trace: Trace) -> ReplayOutcome:
    """Return the outcome of a rule on a trace."""
    rule.start()
    position, end = 0, len(trace.samples)
    while not isinstance(decision := rule.decide(), Stop) and position < end:
        portion = trace.samples[position : position + decision.n]
        rule.add(portion, sum(portion) * trace.batch)
        position += len(portion)
    samples = trace.samples[:position]
    by_rule = rule.samples or samples  # none yet, where the trace ended as a rule had dropped its first phase
    settled = np.asarray(without_burn_in(by_rule))
    estimate, width = trimmed_mean(settled), half_width(settled)
    return ReplayOutcome(
        source=trace.source,
        error=abs(estimate / trace.truth - 1),
        covered=None if width is None else abs(estimate - trace.truth) <= width * estimate,
        spent=rule.spent,
        n=len(samples),
        reason=decision.reason.value if isinstance(decision, Stop) else ENDED,
    )


def median(outcomes: Iterable[ReplayOutcome]) -> float:
    """Return the median of the errors."""
    return float(np.median([outcome.error for outcome in outcomes]))


def p90(outcomes: Iterable[ReplayOutcome]) -> float:
    """Return the 90th percentile of the errors."""
    return float(np.quantile([outcome.error for outcome in outcomes], PERCENTILE))


def share(values: Iterable[bool | None]) -> float | None:
    """Return the share of the values that are true. None if none is known."""
    present = [value for value in values if value is not None]
    return float(np.mean(present)) if present else None


def equal_time(traces: Iterable[Trace], longest: float, totals: Mapping[str, float]) -> dict[str, float]:
    """Return the time per trace, s, that costs each total, or up to half a percent more, if all traces stop at it.

    A trace is stopped by the first sample that ends at or after the time, or by its last. `fixed_time` gets this time
    when it is compared at equal total time, so that it never gets less than the other rule.

    Args:
        traces: all traces.
        longest: time that is tried, s. Returned if no time costs the total.
        totals: by rule, s.
    """
    times = np.geomspace(longest / 1e4, longest, 2000)
    costs = np.zeros(2000)
    for trace in traces:
        spent = np.cumsum(trace.samples) * trace.batch
        costs += spent[np.minimum(np.searchsorted(spent, times), spent.size - 1)]
    return {
        rule: float(times[min(int(np.searchsorted(costs, total)), times.size - 1)]) for rule, total in totals.items()
    }


def worse(first: Sequence[ReplayOutcome], second: Sequence[ReplayOutcome], seed: int) -> tuple[float, float]:
    """Return the shares of resamples in which the first rule has the larger median error, and 90th percentile.

    The resamples are a paired bootstrap over sources, each with all its repetitions.

    Args:
        first: outcomes of the one rule.
        second: of the other, on the same traces.
        seed: of the resamples.
    """
    rng = np.random.default_rng([seed, RESAMPLES])
    sources = [outcome.source for outcome in first]
    groups = [np.flatnonzero(np.asarray(sources) == source) for source in dict.fromkeys(sources)]
    errors = np.asarray([[outcome.error for outcome in outcomes] for outcomes in (first, second)])
    count = np.zeros(2)
    for _ in range(RESAMPLES):
        drawn = errors[:, np.concatenate([groups[index] for index in rng.integers(0, len(groups), len(groups))])]
        figures = np.quantile(drawn, (0.5, PERCENTILE), axis=1)  # rows: median, p90
        count += figures[:, 0] > figures[:, 1]
    return float(count[0] / RESAMPLES), float(count[1] / RESAMPLES)


# The command ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """Traces of mixtures, made anew for every iteration: all at once would not fit into memory."""

    count: int  # mixtures
    namespace: int
    seed: int
    repetitions: int

    def __iter__(self) -> Iterator[Trace]:
        for mixture in mixtures(self.namespace, self.seed, self.count):
            for number in range(self.repetitions):
                samples = mixture.trace(repetition(self.namespace, self.seed, mixture.name, number))
                yield Trace(source=mixture.name, samples=samples.tolist(), batch=1, truth=mixture.truth)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "traces", metavar="TRACES", nargs="*", type=Path, help=f"trace files or folders of them (default: {TRACES})"
    )
    parser.add_argument(
        "--full", action="store_true", help=f"simulate {FULL_MIXTURES} mixtures with {FULL_REPETITIONS} seeds each"
    )
    parser.add_argument("--seed", type=int, default=0, help="the seed of the synthetic sets (default 0)")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Replay, and print the tables."""
    if args.seed < 0:
        raise UsageError(f"--seed {args.seed}: wanted a number from 0 on")
    folders = args.traces or ([TRACES] if TRACES.is_dir() else [])
    tables = [
        compared(title, traces, args.seed)
        for title, traces in sets(args.seed, trace_files.files(folders), full=args.full)
    ]
    titled = (aligned(replace(table, title=f"{table.title} (seed {args.seed})")) for table in tables)
    out.write("\n\n".join((*titled, *FOOTNOTES)) + "\n")
    return 0


def sets(seed: int, recorded: list[Path], *, full: bool) -> Iterator[tuple[str, Iterable[Trace]]]:
    """Yield the synthetic sets of a seed, and the recorded traces if there are any, each with its title.

    Raises:
        ResultsError: a file is no trace.
    """
    count, repetitions = (FULL_MIXTURES, FULL_REPETITIONS) if full else (DEFAULT_MIXTURES, DEFAULT_REPETITIONS)
    for title, namespace in (("tuning", TUNING), ("held out", HELD_OUT)):
        yield title, Synthetic(count=count, namespace=namespace, seed=seed, repetitions=repetitions)
    if recorded:
        yield "recorded", list(trace_files.read(recorded))


def outcomes(traces: Iterable[Trace], makers: Mapping[str, MakeRule]) -> dict[str, list[ReplayOutcome]]:
    """Return the outcomes of every rule on every trace, in the traces' order."""
    result: dict[str, list[ReplayOutcome]] = {name: [] for name in makers}
    for trace in traces:
        for name, make in makers.items():
            result[name].append(replay(make(), trace))
    return result


def compared(title: str, traces: Iterable[Trace], seed: int) -> Table:
    """Return every rule's figures on a set, and `fixed_time`'s at the total time of each of ours."""
    by_rule = outcomes(traces, CONTENDERS)
    times = equal_time(traces, SECONDS, {name: sum(outcome.spent for outcome in by_rule[name]) for name in OURS})
    equal = {name: f"fixed_time, equal to {name}" for name in OURS}
    by_rule |= outcomes(traces, {equal[name]: partial(FixedTime, t_max=time) for name, time in times.items()})
    shares = {name: map(percent, worse(by_rule[name], by_rule[equal[name]], seed)) for name in OURS}
    ours = "; ".join(f"{name} is worse in the median in {{}}, in p90 in {{}}".format(*shares[name]) for name in OURS)
    number = len(by_rule[OURS[0]])
    note = f"{number} traces; paired bootstrap over what was measured, with a fixed time that costs as much: {ours}"
    order = sorted(by_rule, key=lambda name: median(by_rule[name]))
    rows = [[name, *(cell(by_rule[name]) for cell in COLUMNS.values())] for name in order]
    return Table(title, f"{note} of resamples", ["rule", *COLUMNS], rows)
