"""The evidence of a finding: what was measured again, round by round, and the path of a bisection. Pure values.

A night makes it of the very rounds that its verdict rests on (`night_evidence`), and keeps it beside the finding
(`evidence_store`): the folder that asv measured in is a cache, and is gone with the machine.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from kernel_velocity.findings.finding import Finding
from kernel_velocity.results.identity import Identity
from kernel_velocity.stats.sequential import Answer

# What is kept of a finding on a machine. A re-run of the most rounds is 9 KB, one of the fewest 2: .3 MB at most.
MOST_RERUNS = 32
MOST_TRIED = 64  # commits of a bisection: enough for a range of any length, half of which do not build
MOST_TEXT = 400  # characters of a reason


class Purpose(enum.Enum):
    """Why two commits were measured in turns."""

    CONFIRM = "confirmation"  # the last commit before a move, and the first after it
    CULPRIT = "culprit"  # the commit that a bisection came to, and the one before it


@dataclass(frozen=True, kw_only=True)
class Side:
    """The rounds of one commit, in order of time; all fields are equally long."""

    began: tuple[float, ...]  # Unix time, s
    seconds: tuple[float, ...]  # estimate, s per call
    flags: tuple[tuple[str, ...], ...]  # what the round says against itself
    adjusted: tuple[float, ...] = ()  # s per call, freed of what the machine did; (): the rounds were compared as read


@dataclass(frozen=True, kw_only=True)
class Look:
    """What the sequential test said once there were so many rounds. Ratios are of times, after / before."""

    rounds: int  # a side
    ratio: float
    low: float  # 95% interval
    high: float
    least: float  # the interval that the test's own threshold leaves: 1 lies outside where p is below it
    most: float
    p: float
    answer: Answer


@dataclass(frozen=True, kw_only=True)
class Rerun:
    """One series of two commits, measured in turns."""

    identity: Identity
    purpose: Purpose
    before: str  # full SHA
    after: str
    commits: tuple[str, ...]  # that can have done it once this was known, oldest first
    answer: Answer
    reason: str
    floor: float  # relative change that counts
    sides: tuple[Side, Side]  # before, after: as many rounds of one as of the other
    looks: tuple[Look, ...]
    code: tuple[str | None, str | None] = (None, None)  # hashes of what the series ran before and after

    @property
    def rounds(self) -> int:
        """Rounds a side."""
        return len(self.sides[0].seconds)

    @property
    def is_adjusted(self) -> bool:
        """Whether the test compared adjusted values."""
        return bool(self.sides[0].adjusted and self.sides[1].adjusted)

    @property
    def compared(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """What the test compared, s per call, before and after."""
        before, after = self.sides
        return (before.adjusted, after.adjusted) if self.is_adjusted else (before.seconds, after.seconds)

    @property
    def effect(self) -> float | None:
        """The change of the logarithm at the last look; None where there was none."""
        return math.log(self.looks[-1].ratio) if self.looks else None


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A commit that a bisection compared with the good one; unknown is None."""

    commit: str
    slow: bool | None
    answer: Answer
    reason: str
    rounds: int = 0
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None


@dataclass(frozen=True, kw_only=True)
class Path:
    """A bisection of one series."""

    identity: Identity
    good: str
    bad: str
    tried: tuple[Tried, ...]  # in the order they were tried
    left: tuple[str, ...]  # the commits, oldest first, of which one is the culprit
    reason: str


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What one machine has of one finding."""

    reruns: tuple[Rerun, ...] = ()
    paths: tuple[Path, ...] = ()
    left_out: int = 0  # re-runs that there was no room for, at least

    def __bool__(self) -> bool:
        """Return whether there is any."""
        return bool(self.reruns or self.paths)


def of(finding: Finding, found: Evidence) -> Evidence:
    """Return what of a night's evidence is of a finding: of its series, and of a commit that can have done it."""
    effects = {item.identity: item.effect for item in finding.affected}
    commits = set(finding.commits)

    def is_own(item: Rerun) -> bool:
        if item.identity not in effects or not commits & set(item.commits):
            return False
        opposite = item.effect is not None and item.effect * effects[item.identity] < 0
        return not (opposite and item.answer is Answer.DIFFERENT)

    return Evidence(
        reruns=tuple(item for item in found.reruns if is_own(item)),
        paths=tuple(item for item in found.paths if item.identity in effects and commits & set(item.left)),
    )


def joined(known: Evidence, new: Evidence) -> Evidence:
    """Return both; of what was measured again between the same commits, the newer. The largest effects, MOST_RERUNS."""
    paths = {(item.identity, item.good, item.bad): item for item in (*known.paths, *new.paths)}
    reruns = {
        (item.identity, item.before, item.after, item.purpose): item for item in (*known.reruns, *new.reruns)
    }.values()
    kept = sorted(reruns, key=lambda item: -abs(item.effect or 0.0))[:MOST_RERUNS]
    return Evidence(
        reruns=tuple(sorted(kept, key=lambda item: (item.identity, item.before, item.after, item.purpose.value))),
        paths=tuple(_short(paths[key]) for key in sorted(paths)[:MOST_RERUNS]),
        left_out=max(known.left_out, new.left_out, len(reruns) - len(kept)),
    )


def _short(path: Path) -> Path:
    return replace(path, tried=path.tried[:MOST_TRIED])


def newest(reruns: Iterable[Rerun]) -> float | None:
    """Return when the newest round of some re-runs began, Unix time, s."""
    return max((time for item in reruns for side in item.sides for time in side.began), default=None)
