"""``kv lab replay``: replay every stopping rule on the same traces, and compare errors and costs.

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
from itertools import groupby
from pathlib import Path
from typing import TextIO

from kernel_velocity.errors import UsageError
from kernel_velocity.harness.stopping import RULES, Adaptive, AdaptiveRound, FixedTime
from kernel_velocity.lab import replay_page, rules
from kernel_velocity.lab.noise import HELD_OUT, SECONDS, TUNING, Mixture, mixtures, repetition, single_families
from kernel_velocity.lab.rules import MakeRule, Outcome, Result
from kernel_velocity.results import traces as trace_files
from kernel_velocity.results.traces import TRACES, Trace
from kernel_velocity.tables import Table, aligned, percent
from kernel_velocity.units import seconds

DEFAULT_MIXTURES, DEFAULT_REPETITIONS = 48, 5
FULL_MIXTURES, FULL_REPETITIONS = 200, 10
REPETITIONS = 15  # of every mixture of the repeatability
REPEATED = 4  # mixtures
FAMILY_REPETITIONS = 5
OUT = Path(".asv", "replay")
CLOSE = 0.005  # relative error
OURS = (Adaptive.name, AdaptiveRound.name)  # each is compared with a fixed time that costs as much in total
CONTENDERS: Mapping[str, MakeRule] = {
    **RULES,
    "fixed_time, 1 s": partial(FixedTime, t_max=1.0),
    "fixed_time, 2 s": partial(FixedTime, t_max=2.0),
}
COLUMNS: Mapping[str, Callable[[Sequence[Outcome]], str]] = {  # cells of a rule, from its outcomes
    "median error": lambda all_: percent(rules.median(all_, "error")),
    "p90": lambda all_: percent(rules.p90(all_)),
    "within .5%": lambda all_: percent(rules.share(outcome.error <= CLOSE for outcome in all_)),
    "total time": lambda all_: seconds(sum(outcome.spent for outcome in all_)),
    "coverage": lambda all_: percent(rules.share(outcome.covered for outcome in all_)),
    "of the mean": lambda all_: percent(rules.median(all_, "error_of_mean")),
    "lag 1": lambda all_: _plain(rules.median(all_, "correlation")),
    "kept": lambda all_: _plain(rules.median(all_, "correlation_kept")),
    "stopped by": lambda all_: ", ".join(
        f"{why} {n}" for why, n in Counter(outcome.reason for outcome in all_).most_common()
    ),
}
FOOTNOTES = (
    "error: |estimate - truth| / truth, the estimate being the harness's (10% trimmed mean without the first fifth) of "
    "what the rule kept; of the mean: median error of the plain mean of the same samples",
    "coverage: share of traces whose within-run 95% interval holds the truth",
    "lag 1: median autocorrelation of a sample with the next, of all samples taken; kept: of those behind the estimate",
    "trace ended: the rule wanted more than the trace had; on recorded traces its error is then near 0 by construction",
)


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """Traces of mixtures, made anew for every iteration: all at once would not fit into memory."""

    mixtures: Callable[[int, int], Iterable[Mixture]]  # of a namespace and a seed
    namespace: int = HELD_OUT
    seed: int
    repetitions: int

    def __iter__(self) -> Iterator[Trace]:
        for mixture in self.mixtures(self.namespace, self.seed):
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
    parser.add_argument("--out", type=Path, default=OUT, help=f"the folder of the page (default {OUT})")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Replay, print the tables, write the page."""
    if args.seed < 0:
        raise UsageError(f"--seed {args.seed}: wanted a number from 0 on")
    folders = args.traces or ([TRACES] if TRACES.is_dir() else [])
    results = [
        result(title, traces, args.seed)
        for title, traces in sets(args.seed, trace_files.files(folders), full=args.full)
    ]
    tables = [*map(_result_table, results), _families(args.seed), _repeatability(args.seed)]
    titled = (aligned(replace(table, title=f"{table.title} (seed {args.seed})")) for table in tables)
    out.write("\n\n".join((*titled, *FOOTNOTES)) + "\n")
    page = replay_page.write(results, tables, FOOTNOTES, args.out)
    print(f"page: {page.resolve().as_uri()}", file=out)
    return 0


def sets(seed: int, recorded: list[Path], *, full: bool) -> Iterator[tuple[str, Iterable[Trace]]]:
    """Yield the synthetic sets of a seed, and the recorded traces if there are any, each with its title.

    Raises:
        ResultsError: a file is no trace.
    """
    count, repetitions = (FULL_MIXTURES, FULL_REPETITIONS) if full else (DEFAULT_MIXTURES, DEFAULT_REPETITIONS)
    for title, namespace in (("tuning", TUNING), ("held out", HELD_OUT)):
        made = partial(mixtures, count=count)
        yield title, Synthetic(mixtures=made, namespace=namespace, seed=seed, repetitions=repetitions)
    if recorded:
        yield "recorded", list(trace_files.read(recorded))


def outcomes(traces: Iterable[Trace], makers: Mapping[str, MakeRule]) -> dict[str, list[Outcome]]:
    """Return the outcomes of every rule on every trace, in the traces' order."""
    result: dict[str, list[Outcome]] = {name: [] for name in makers}
    for trace in traces:
        for name, make in makers.items():
            result[name].append(rules.replay(make(), trace))
    return result


def result(title: str, traces: Iterable[Trace], seed: int) -> Result:
    """Return every rule's figures on a set, and `fixed_time`'s at the total time of each of ours."""
    by_rule = outcomes(traces, CONTENDERS)
    times = rules.equal_time(traces, SECONDS, {name: sum(outcome.spent for outcome in by_rule[name]) for name in OURS})
    equal = {name: f"fixed_time, equal to {name}" for name in OURS}
    by_rule |= outcomes(traces, {equal[name]: partial(FixedTime, t_max=time) for name, time in times.items()})
    worse = {name: rules.worse(by_rule[name], by_rule[equal[name]], seed) for name in OURS}
    return Result(title=title, outcomes=by_rule, worse=worse)


def _result_table(result: Result) -> Table:
    compared = "; ".join(
        f"{name} is worse in the median in {percent(median)}, in p90 in {percent(p90)}"
        for name, (median, p90) in result.worse.items()
    )
    traces = len(result.outcomes[OURS[0]])
    note = f"{traces} traces; paired bootstrap over what was measured, with a fixed time that costs as much: "
    order = sorted(result.outcomes, key=lambda name: rules.median(result.outcomes[name], "error") or 0.0)
    rows = [[name, *(cell(result.outcomes[name]) for cell in COLUMNS.values())] for name in order]
    return Table(result.title, f"{note}{compared} of resamples", ["rule", *COLUMNS], rows)


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _families(seed: int) -> Table:
    """Return every rule's median error on every family of noise alone."""
    traces = Synthetic(mixtures=single_families, seed=seed, repetitions=FAMILY_REPETITIONS)
    medians = {}
    for name, runs in outcomes(traces, CONTENDERS).items():
        families = {family: list(group) for family, group in groupby(runs, key=lambda outcome: outcome.source)}
        medians[name] = {family: rules.median(group, "error") or 0.0 for family, group in families.items()}
    order = sorted(medians, key=lambda name: max(medians[name].values()))
    rows = [[name, *map(percent, medians[name].values())] for name in order]
    return Table("one family of noise at a time", "median error, held out", ["rule", *medians[order[0]]], rows)


def _repeatability(seed: int) -> Table:
    """Return how far apart repetitions of every rule are, and their time."""
    traces = Synthetic(mixtures=partial(mixtures, count=REPEATED), seed=seed, repetitions=REPETITIONS)
    figures = {name: rules.repeatability(runs) for name, runs in outcomes(traces, CONTENDERS).items()}
    return Table(
        f"{REPETITIONS} repetitions",
        "relative standard deviation of the estimates, and time of a repetition; medians over mixtures, held out",
        ["rule", "RSD", "run time"],
        [
            [name, percent(deviation), seconds(time)]
            for name, (deviation, time) in sorted(figures.items(), key=lambda pair: pair[1][0])
        ],
    )
