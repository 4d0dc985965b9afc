"""The rounds of an A/B session: read from its files, paired, adjusted for machine noise, and judged.

A round is adjusted by the gauges that were read beside its samples. On a GPU it is adjusted by PyTorch's
implementations in the same launch (stats/adjust_series.py). Otherwise rounds are compared as they are.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernel_velocity import bounds, documents
from kernel_velocity.engine import telemetry
from kernel_velocity.engine.telemetry import Round
from kernel_velocity.errors import ResultsError
from kernel_velocity.names import CONTROLS
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.ingest import by_series
from kernel_velocity.results.lines import FAILURES, Failure, decode_failure
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.runner.session import LONGEST_SESSION
from kernel_velocity.stats import adjust_series, sequential
from kernel_velocity.stats.sequential import FLOOR, LOOKS, Answer, Comparison, Obstacle, Strata
from kernel_velocity.stats.two_samples import P
from kernel_velocity.unproven import in_flags

CLOCK = 60.0  # s by which a clock may be set back during a session
BLOCKS_FILE = "blocks.jsonl"  # beside the folder of the telemetry: when each run of asv began


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The rounds of one series on both sides, in order of time, or why there are none."""

    before: tuple[Round, ...] = ()
    after: tuple[Round, ...] = ()
    obstacle: Obstacle | None = None
    reason: str = ""  # of the obstacle, one line

    @property
    def rounds(self) -> int:
        """Rounds that both sides have."""
        return min(len(self.before), len(self.after))


Pairs = Mapping[Series, Pair]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The settings of the test of one series: thresholds, and earlier sessions that count."""

    floor: float = FLOOR  # relative change that counts
    level: float = P  # p below which a difference is no chance
    earlier: Strata = ()  # sessions that did not settle it
    looks: Sequence[int] = LOOKS  # rounds a side of the looks


def judge(pairs: Pairs, series: Iterable[Series], terms: Mapping[Series, Terms]) -> dict[Series, Comparison]:
    """Return the answer of the sequential test for each of some series, look after look, from the rounds at hand.

    Args:
        pairs: of these series, and of those that they are adjusted by.
        terms: of the tests, where they are not the usual ones.
    """
    return {key: _judged(pairs, key, terms.get(key, Terms())) for key in series}


def _judged(pairs: Pairs, series: Series, terms: Terms) -> Comparison:
    pair = pairs.get(series, Pair())
    if pair.obstacle is not None:
        return sequential.not_compared(pair.obstacle, pair.reason)
    answer = Comparison(
        answer=Answer.UNKNOWN,
        reason=f"{pair.rounds} of the {terms.looks[0]} rounds a side that the first look takes",
        rounds=pair.rounds,
        next_look=terms.looks[0],
    )
    for look in terms.looks:
        if pair.rounds >= look and answer.answer is Answer.UNKNOWN:
            before, after, adjusted = estimates(pairs, series, look)
            answer = sequential.compare(before, after, adjusted=adjusted, **vars(terms))
    if unproven := in_flags(flag for round_ in (*pair.before, *pair.after) for flag in round_.flags):
        answer = replace(answer, reason=f"{answer.reason}; {unproven}")
    return answer


def estimates(pairs: Pairs, series: Series, rounds: int) -> tuple[list[float], list[float], bool]:
    """Return (log seconds before, after, whether they are adjusted) of the first `rounds` of a series on either side.

    They are adjusted only where every round can be: a mixture with raw values would be worth less.
    """
    recorded = {
        _key(other): {"before": pair.before, "after": pair.after}
        for other, pair in pairs.items()
        if other[1][0] in CONTROLS and pair.rounds
    }
    raw = {"before": pairs[series].before[:rounds], "after": pairs[series].after[:rounds]}
    recorded[_key(series)] = raw
    adjusted = adjust_series.adjusted(recorded).get(_key(series), {})
    is_adjusted = all(len(adjusted.get(side, ())) == rounds for side in raw)
    seconds = (
        adjusted if is_adjusted else {side: [round_.estimate for round_ in measured] for side, measured in raw.items()}
    )
    before, after = ([math.log(value) for value in seconds[side]] for side in ("before", "after"))
    return before, after, is_adjusted


def _key(series: Series) -> adjust_series.TimedSeries:
    """Return a series as the adjustment names it. All of a session share machine, environment and method."""
    benchmark, (implementation, case) = series
    key = SeriesKey(
        machine="", environment="", benchmark=benchmark, implementation=implementation, case=case, version=""
    )
    return key, ""


def read(folder: Path, before: str, after: str, began: float, now: float) -> dict[Series, Pair]:
    """Return the recorded rounds of two commits. A side that failed in this session has none.

    Rounds count from this session, and from an interrupted one within `LONGEST_SESSION` before it. Older ones are of
    the machine of another day, those of after `now` from before a clock was set back.
    A series that is n/a at the later commit is gone where the earlier one has a round of it. If the earlier one was not
    measured yet, nothing is known. A series that raised in every round of the earlier commit, and has rounds of the
    later one, is mended. A crash or a timeout there may be the machine's fault.

    Args:
        folder: of the telemetry. before, after: full SHAs. began: when this session did. now: Unix times, s.

    Raises:
        ResultsError: a line cannot be read.
    """
    old, new = (
        by_series(
            round_
            for round_ in lines(folder / f"{commit}.jsonl", telemetry.decode)
            if began - LONGEST_SESSION <= round_.time <= now + CLOCK
        )
        for commit in (before, after)
    )
    blocks = block_times(folder.parent / BLOCKS_FILE)
    pairs = {key: paired(old.get(key, []), new.get(key, []), blocks) for key in {**old, **new}}
    failed = [
        (commit, failure)
        for commit in (after, before)
        for failure in lines(failures_path(folder, commit), decode_failure)
        if failure.time >= began and (failure.raised or failure.died or failure.skipped)
    ]
    # A failure says more than n/a, and of two commits with the same the earlier one is named
    for commit, failure in sorted(failed, key=lambda pair: not pair[1].skipped):
        pairs[failure.benchmark, failure.params] = _obstructed(commit, failure, is_later=commit == after)
    for key in _raised_before(failed, after) & new.keys() - old.keys():
        pairs[key] = replace(pairs[key], obstacle=Obstacle.MENDED)
    return {key: pair for key, pair in pairs.items() if pair.obstacle is not Obstacle.GONE or key in old}


def failures_path(folder: Path, commit: str) -> Path:
    """Return the file of a commit's failures, in the folder of the telemetry."""
    return folder / f"{commit}{FAILURES}"


def _obstructed(commit: str, failure: Failure, *, is_later: bool) -> Pair:
    if not failure.skipped:
        return Pair(obstacle=Obstacle.FAILED, reason=f"failed at {commit[:SHORT]}: {failure.error}")
    obstacle = Obstacle.GONE if is_later else Obstacle.NOT_APPLICABLE
    where = f"{commit[:SHORT]}, and not before" if is_later else commit[:SHORT]
    return Pair(obstacle=obstacle, reason=f"n/a at {where}: {failure.error}")


def _raised_before(failed: Sequence[tuple[str, Failure]], after: str) -> set[Series]:
    """Return the series that raised at the earlier commit, and failed in no other way."""
    raised: set[Series] = set()
    others: set[Series] = set()
    for commit, failure in failed:
        is_early = commit != after and failure.raised
        (raised if is_early else others).add((failure.benchmark, failure.params))
    return raised - others


def lines(path: Path, decode: Callable[[str], Any]) -> list[Any]:
    """Return the decoded lines of a file, without a last one that a power cut left incomplete.

    Raises:
        ResultsError: another line cannot be read.
    """
    texts = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    decoded = []
    for number, text in enumerate(texts, start=1):
        try:
            decoded.append(decode(text))
        except ValueError as error:
            if number < len(texts):
                raise ResultsError(f"{path}:{number}: {error}; remove that line, or measure with --again") from None
    return decoded


def block_times(path: Path) -> list[float]:
    """Return when the runs of asv began, Unix times, s."""

    def began(line: str) -> float:
        data = documents.parse(line)
        began = data.get("began") if isinstance(data, dict) else None
        if not bounds.is_moment(began):
            raise ValueError(f"`began`, a Unix time, is wanted, got {line[:60]!r}")
        return began

    return sorted(set(lines(path, began)))


def paired(before: Sequence[Round], after: Sequence[Round], blocks: Sequence[float]) -> Pair:
    """Return the paired rounds: in every run of asv as many of one side as of the other.

    A round that an interruption left without its counterpart would be compared with a round of another hour.
    """
    sides: tuple[list[Round], list[Round]] = ([], [])
    for block in range(len(blocks) + 1):
        rounds = [
            [
                round_
                for round_ in sorted(side, key=lambda round_: round_.time)
                if bisect_right(blocks, round_.time) == block
            ]
            for side in (before, after)
        ]
        count = min(map(len, rounds))
        for side, group in zip(sides, rounds, strict=True):
            side.extend(group[:count])
    return Pair(before=tuple(sides[0]), after=tuple(sides[1]))
