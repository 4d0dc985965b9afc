"""The rounds of an A/B session, series by series: adjusted for the machine's mood, and judged. Pure.

A round is adjusted by the gauges that were read beside its samples, or, on a GPU, by PyTorch's implementations in the
same launch (stats/adjust_series.py); where neither says anything, the rounds are compared as they are.

The rounds that the A/B sessions of two commits left, and what stands against each other in them.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernel_velocity.errors import ResultsError
from kernel_velocity.harness import telemetry
from kernel_velocity.harness.cases import CONTROLS
from kernel_velocity.harness.telemetry import Round
from kernel_velocity.results import failures
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.failures import Failure
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.ingest import by_series
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.runner import resume
from kernel_velocity.stats import adjust_series, sequential
from kernel_velocity.stats.adjust_series import Place
from kernel_velocity.stats.sequential import FLOOR, LOOKS, Answer, Comparison, Obstacle

BEFORE, AFTER = "before", "after"

CLOCK = 60.0  # s by which a clock may be set back while a session goes on
TIMES = "blocks.jsonl"  # in the folder of two commits: when each run of asv began


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The rounds of one series on both sides, in order of time; or why there are none."""

    before: tuple[Round, ...] = ()
    after: tuple[Round, ...] = ()
    obstacle: Obstacle | None = None
    reason: str = ""  # of the obstacle, one line

    @property
    def rounds(self) -> int:
        """Rounds that both sides have."""
        return min(len(self.before), len(self.after))


Pairs = Mapping[Series, Pair]


def judge(pairs: Pairs, series: Iterable[Series], floors: Mapping[Series, float]) -> dict[Series, Comparison]:
    """Return what the sequential test says of each of some series, look after look, over the rounds at hand.

    Args:
        pairs: of these series, and of those that they are adjusted by.
        floors: relative changes that count, where it is known that 1% is too little.
    """
    return {one: _judged(pairs, one, floors.get(one, FLOOR)) for one in series}


def _judged(pairs: Pairs, series: Series, floor: float) -> Comparison:
    pair = pairs.get(series, Pair())
    if pair.obstacle is not None:
        return sequential.not_compared(pair.obstacle, pair.reason)
    found = Comparison(
        answer=Answer.UNKNOWN,
        reason=f"{pair.rounds} of the {LOOKS[0]} rounds a side that the first look takes",
        rounds=pair.rounds,
        next_look=LOOKS[0],
    )
    for look in LOOKS:
        if pair.rounds >= look and found.answer is Answer.UNKNOWN:
            before, after, adjusted = estimates(pairs, series, look)
            found = sequential.compare(before, after, floor=floor, adjusted=adjusted)
    return found


def estimates(pairs: Pairs, series: Series, rounds: int) -> tuple[list[float], list[float], bool]:
    """Return (log seconds before, after, whether they are adjusted) of the first `rounds` of a series on either side.

    Adjusted only where every one of them can be: with as many raw values among them they would be worth less.
    """
    controls = {other: pair for other, pair in pairs.items() if other[1][0] in CONTROLS and pair.rounds}
    recorded = {_place(other): _sides(pair, None) for other, pair in controls.items()}
    recorded[_place(series)] = _sides(pairs[series], rounds)
    place = _place(series)
    raw = recorded[place]
    found = adjust_series.adjusted(recorded).get(place, {})
    whole = all(len(found.get(side, ())) == rounds for side in (BEFORE, AFTER))
    seconds = found if whole else {side: [item.estimate for item in raw[side]] for side in (BEFORE, AFTER)}
    before, after = ([math.log(value) for value in seconds[side]] for side in (BEFORE, AFTER))
    return before, after, whole


def _sides(pair: Pair, rounds: int | None) -> dict[str, Sequence[Round]]:
    return {BEFORE: pair.before[:rounds], AFTER: pair.after[:rounds]}


def _place(series: Series) -> Place:
    """Return a series as the adjustment knows it: machine, environment and method are the same for all of a session."""
    benchmark, (implementation, case) = series
    key = SeriesKey(
        machine="", environment="", benchmark=benchmark, implementation=implementation, case=case, version=""
    )
    return key, ""


@dataclass(frozen=True, kw_only=True)
class KeptRounds:
    """What is kept in the folder of two commits (ab/session.py says what lies there)."""

    folder: Path
    environment: str  # asv's name

    def pairs(self, before: str, after: str, began: float, now: float) -> dict[Series, Pair]:
        """Return what is kept of two commits; a side that failed in this session has no rounds.

        A series that is n/a at the later commit is gone where the earlier one has a round of it; where that one was not
        tried yet, nothing is known. One that raised in every round of the earlier commit, and has rounds of the later
        one, is mended; what died there (a crash, the timeout) may have died of the machine.

        Args:
            before, after: full SHAs. began: when this session did, Unix time, s. now: Unix time, s.

        Raises:
            ResultsError: a line says something else.
        """
        rounds = [by_series(self._rounds(commit, began, now)) for commit in (before, after)]
        blocks = block_times(self.folder / TIMES)
        found = {
            one: paired(rounds[0].get(one, []), rounds[1].get(one, []), blocks) for one in {**rounds[0], **rounds[1]}
        }
        said = [(commit, item) for commit in (after, before) for item in self._failures(commit, began)]
        # A failure says more than n/a, and of two commits that say the same the earlier one is named
        for commit, item in sorted(said, key=lambda pair: not pair[1].skipped):
            found[item.benchmark, item.params] = _obstructed(commit, item, is_later=commit == after)
        for one in _mended(said, after) & rounds[1].keys() - rounds[0].keys():
            found[one] = replace(found[one], obstacle=Obstacle.MENDED)
        return {one: item for one, item in found.items() if item.obstacle is not Obstacle.GONE or one in rounds[0]}

    def _rounds(self, commit: str, began: float, now: float) -> Iterator[Round]:
        """Yield the rounds of this session, and of an interrupted one that it goes on with.

        Those of last week would answer for the machine of last week; those of after `now` are from before a clock was
        set back.
        """
        for item in lines(self._path(commit), telemetry.decode):
            if began - resume.LONGEST <= item.time <= now + CLOCK:
                yield item

    def _failures(self, commit: str, since: float) -> Iterator[Failure]:
        for item in lines(self.failures_path(commit), failures.decode):
            if item.time >= since and (item.raised or item.died or item.skipped):
                yield item

    def failures_path(self, commit: str) -> Path:
        """Return the file that says why a commit has no rounds."""
        return self.folder / self.environment / f"{commit}{failures.SUFFIX}"

    def _path(self, commit: str) -> Path:
        return self.folder / self.environment / f"{commit}.jsonl"


def _obstructed(commit: str, item: Failure, *, is_later: bool) -> Pair:
    """Return why a series has no rounds, by what one of the two commits said of it."""
    if not item.skipped:
        return Pair(obstacle=Obstacle.FAILED, reason=f"failed at {commit[:SHORT]}: {item.error}")
    obstacle = Obstacle.GONE if is_later else Obstacle.NOT_APPLICABLE
    where = f"{commit[:SHORT]}, and not before" if is_later else commit[:SHORT]
    return Pair(obstacle=obstacle, reason=f"n/a at {where}: {item.error}")


def _mended(said: Sequence[tuple[str, Failure]], after: str) -> set[Series]:
    """Return the series that raised at the earlier commit, and did nothing else at either."""
    raised = {(item.benchmark, item.params) for commit, item in said if commit != after and item.raised}
    others = {(item.benchmark, item.params) for commit, item in said if commit == after or not item.raised}
    return raised - others


def lines(path: Path, decode: Callable[[str], Any]) -> list[Any]:
    """Return what the lines of a file say; of a last one that a power cut has cut, nothing.

    Raises:
        ResultsError: another line says something else.
    """
    texts = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    found = []
    for number, text in enumerate(texts, start=1):
        try:
            found.append(decode(text))
        except ValueError as error:
            if number < len(texts):
                raise ResultsError(f"{path}:{number}: {error}; remove that line, or measure with --again") from None
    return found


def block_times(path: Path) -> list[float]:
    """Return when the runs of asv began, Unix times, s."""

    def began(line: str) -> float:
        said = json.loads(line)
        if not isinstance(said, Mapping) or not isinstance(said.get("began"), float):
            raise ValueError(f"`began`, a Unix time, is wanted, got {line[:60]!r}")
        return float(said["began"])

    return sorted(lines(path, began))


def paired(before: Sequence[Round], after: Sequence[Round], blocks: Sequence[float]) -> Pair:
    """Return the rounds that stand against each other: as many of one side as of the other in every run of asv.

    What an interruption left without its counterpart would be compared with rounds of another hour.
    """
    kept: tuple[list[Round], list[Round]] = ([], [])
    for number in range(len(blocks) + 1):
        sides = [
            [item for item in sorted(side, key=lambda item: item.time) if bisect_right(blocks, item.time) == number]
            for side in (before, after)
        ]
        least = min(map(len, sides))
        for rounds, found in zip(kept, sides, strict=True):
            rounds.extend(found[:least])
    return Pair(before=tuple(kept[0]), after=tuple(kept[1]))
