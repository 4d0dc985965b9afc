"""The rounds that the A/B sessions of two commits left, and what stands against each other in them."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernel_velocity.ab.rounds import Pair
from kernel_velocity.errors import ResultsError
from kernel_velocity.harness import telemetry
from kernel_velocity.harness.telemetry import Round
from kernel_velocity.results import failures
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.failures import Failure
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.ownership import by_series
from kernel_velocity.runner import resume as going_on
from kernel_velocity.stats.sequential import Obstacle

CLOCK = 60.0  # s by which a clock may be set back while a session goes on
TIMES = "blocks.jsonl"  # in the folder of two commits: when each run of asv began


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
            if began - going_on.LONGEST <= item.time <= now + CLOCK:
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
