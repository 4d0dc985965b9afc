"""``kv lab replay``: every stopping rule on the same traces, and how far off each was for the time it took.

Synthetic mixtures of noise have a known truth. Constants were chosen on mixtures of one set ("tuning": `adaptive` on
its seeds 100 to 105, `adaptive.round` on its seed 2); those of the other ("held out") are what counts. Recorded traces
are replayed beside them, where there are any.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TextIO

from kernel_velocity.errors import UsageError
from kernel_velocity.harness.stopping import RULES, Adaptive, AdaptiveRound, FixedTime
from kernel_velocity.lab import replay_report
from kernel_velocity.lab.noise import HELD_OUT, SECONDS, TUNING, mixtures, repetition, single_families
from kernel_velocity.lab.rules import (
    Costs,
    MakeRule,
    Outcome,
    Proof,
    Repeatability,
    Result,
    compare,
    repeatability,
    replay,
    summary,
)
from kernel_velocity.results import traces as trace_files
from kernel_velocity.results.traces import Trace

DEFAULT_MIXTURES, DEFAULT_REPETITIONS = 48, 5
FULL_MIXTURES, FULL_REPETITIONS = 200, 10
REPETITIONS = 15  # of every mixture whose repeatability is looked at
REPEATED = 4  # mixtures
RECORDED = Path(".asv", "traces")
OUT = Path(".asv", "replay")
OURS = (Adaptive.name, AdaptiveRound.name)  # each is compared with a fixed time that costs as much in total
CONTENDERS: Mapping[str, MakeRule] = {
    **RULES,
    "fixed_time, 1 s": partial(FixedTime, t_max=1.0),
    "fixed_time, 2 s": partial(FixedTime, t_max=2.0),
}

Outcomes = dict[str, list[Outcome]]


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """Traces of mixtures, made anew whenever they are gone through: all at once would not fit into memory."""

    namespace: int
    seed: int
    mixtures: int
    repetitions: int = 1

    def __iter__(self) -> Iterator[Trace]:
        for mixture in mixtures(self.namespace, self.seed, self.mixtures):
            for number in range(self.repetitions):
                rng = repetition(self.namespace, self.seed, mixture.name, number)
                yield Trace(source=mixture.name, samples=mixture.trace(rng).tolist(), batch=1, truth=mixture.truth)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("traces", metavar="TRACES", nargs="*", type=Path, help=f"trace files, folders ({RECORDED})")
    parser.add_argument("--full", action="store_true", help=f"{FULL_MIXTURES} mixtures x {FULL_REPETITIONS} seeds")
    parser.add_argument("--seed", type=int, default=0, help="of the synthetic sets (default 0)")
    parser.add_argument("--out", type=Path, default=OUT, help=f"folder of the page (default {OUT})")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Replay, print the tables, write the page."""
    if args.seed < 0:
        raise UsageError(f"--seed {args.seed}: wanted a number from 0 on")
    places = args.traces or ([RECORDED] if RECORDED.is_dir() else [])
    recorded = trace_files.files(places)
    found = prove(args.seed, full=args.full, recorded=recorded)
    out.write(replay_report.text(found))
    page: Path = importlib.import_module("kernel_velocity.lab.replay_page").write(found, args.out)
    print(f"page: {page.resolve().as_uri()}", file=out)
    return 0


def prove(seed: int, *, full: bool, recorded: list[Path]) -> Proof:
    """Replay all rules on the synthetic sets of a seed, and on recorded traces.

    Raises:
        ResultsError: a file is no trace.
    """
    count, repetitions = (FULL_MIXTURES, FULL_REPETITIONS) if full else (DEFAULT_MIXTURES, DEFAULT_REPETITIONS)
    sets: list[tuple[str, Iterable[Trace]]] = [
        (title, Synthetic(namespace=namespace, seed=seed, mixtures=count, repetitions=repetitions))
        for title, namespace in (("tuning", TUNING), ("held out", HELD_OUT))
    ]
    if recorded:
        sets.append(("recorded", list(trace_files.read(recorded))))
    return Proof(
        seed=seed,
        results=tuple(result(title, traces, seed) for title, traces in sets),
        families=by_family(seed),
        repeatabilities=repeated(seed),
    )


def outcomes(traces: Iterable[Trace], rules: Mapping[str, MakeRule]) -> Outcomes:
    """Return what every rule made of every trace, in the traces' order."""
    found: Outcomes = {name: [] for name in rules}
    for trace in traces:
        for name, make in rules.items():
            found[name].append(replay(make(), trace))
    return found


def result(title: str, traces: Iterable[Trace], seed: int) -> Result:
    """Return every rule's figures on a set, and `fixed_time`'s at the total time of each of ours."""
    found = outcomes(traces, CONTENDERS)
    costs = Costs(SECONDS)
    for trace in traces:
        costs.add(trace)
    seconds = {name: costs.time_for(sum(each.spent for each in found[name])) for name in OURS}
    found |= outcomes(traces, {equal_time(name): partial(FixedTime, t_max=each) for name, each in seconds.items()})
    return Result(
        title=title,
        traces=len(found[OURS[0]]),
        summaries=tuple(summary(name, each) for name, each in found.items()),
        comparisons=tuple(compare(name, equal_time(name), found, seed) for name in OURS),
    )


def equal_time(rule: str) -> str:
    """Return what the fixed time is called that costs as much in total as `rule`."""
    return f"fixed_time, equal to {rule}"


def by_family(seed: int) -> dict[str, dict[str, float]]:
    """Return every rule's median error on every family of noise alone: five held-out traces of each."""
    found = {}
    for mixture in single_families(HELD_OUT, seed):
        traces = [
            Trace(source=mixture.name, samples=mixture.trace(rng).tolist(), batch=1, truth=mixture.truth)
            for rng in (repetition(HELD_OUT, seed, mixture.name, number) for number in range(5))
        ]
        errors = outcomes(traces, CONTENDERS)
        found[mixture.name] = {name: summary(name, each).median for name, each in errors.items()}
    return found


def repeated(seed: int) -> tuple[Repeatability, ...]:
    """Return how far apart 15 repetitions of every rule are, and their time."""
    traces = Synthetic(namespace=HELD_OUT, seed=seed, mixtures=REPEATED, repetitions=REPETITIONS)
    return tuple(repeatability(name, each) for name, each in outcomes(traces, CONTENDERS).items())
