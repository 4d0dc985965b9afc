"""The rounds that the A/B sessions of two commits left, and what stands against each other in them."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import telemetry
from benchmarks.harness.telemetry import Round
from tools import failures
from tools.ab_rounds import Pair
from tools.ab_test import Obstacle
from tools.errors import ResultsError
from tools.failures import Failure
from tools.ownership import by_series
from tools.run_report import SHORT
from tools.stored_file import Series

TIMES = "blocks.jsonl"  # in the folder of two commits: when each run of asv began


@dataclass(frozen=True, kw_only=True)
class KeptRounds:
    """What is kept in the folder of two commits (tools/ab_run.py says what lies there)."""

    folder: Path
    environment: str  # asv's name

    def pairs(self, before: str, after: str, since: float) -> dict[Series, Pair]:
        """Return what is kept of two commits; a side that failed after a Unix time, s, has no rounds.

        Raises:
            ResultsError: a line says something else.
        """
        rounds = [by_series(lines(self._path(commit), telemetry.decode)) for commit in (before, after)]
        blocks = block_times(self.folder / TIMES)
        found = {
            one: paired(rounds[0].get(one, []), rounds[1].get(one, []), blocks) for one in {**rounds[0], **rounds[1]}
        }
        for commit in (after, before):  # of two that fail, the earlier commit is named
            for item in lines(self.failures_path(commit), failures.decode):
                if item.time >= since and (item.raised or item.died or item.skipped):
                    found[item.benchmark, item.params] = _obstructed(commit, item)
        return found

    def failures_path(self, commit: str) -> Path:
        """Return the file that says why a commit has no rounds."""
        return self.folder / self.environment / f"{commit}{failures.SUFFIX}"

    def _path(self, commit: str) -> Path:
        return self.folder / self.environment / f"{commit}.jsonl"


def _obstructed(commit: str, item: Failure) -> Pair:
    obstacle = Obstacle.NOT_APPLICABLE if item.skipped else Obstacle.FAILED
    return Pair(obstacle=obstacle, reason=f"{obstacle.value} at {commit[:SHORT]}: {item.error}")


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
