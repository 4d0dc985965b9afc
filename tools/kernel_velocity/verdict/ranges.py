"""Name the commits that can have caused a step: pages, nights and findings ask here. Pure.

A step began between two measured commits. Noise widens that range, and what cannot have changed the code leaves it:
commits between two builds of equal code, and those that touched nothing that a build depends on. A commit beside the
first-parent line that was measured says whether the merge that brought it is one of the possible causes. Machines that
show the same change narrow each other's range.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np

from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.results import sessions
from kernel_velocity.results.git import SHORT, SideCommit
from kernel_velocity.stats.changepoints.noise import difference_sigma
from kernel_velocity.stats.changepoints.search import MARGIN
from kernel_velocity.stats.changepoints.values import ChangePoint

# Probability that a step began after `good`, and that it did by `bad`. Of steps of 2% at a noise of .7%, `good` is from
# before the step in .99 of the cases, the value beside the first that shows it in .5.
SURE = 0.999
_SURE = np.array([1 - SURE, SURE])
RECENT_VALUES = 40  # newest values among which a step of the newest can have begun
FEWEST_TELLING = 3  # values that tell their scatter
BETWEEN_SESSIONS = 0.0075  # log units, of fewer values: identical code scattered by so much (docs: false alarms)
NO_COMMIT = "no commit can have caused it"


@dataclass(frozen=True, kw_only=True)
class CommitRange:
    """The commits that can have caused a change. All are full SHAs."""

    good: str  # measured, surely from before the change
    bad: str  # measured, surely from after it
    commits: tuple[str, ...]  # of the first-parent line, after `good` up to `bad`, oldest first; (): none

    @property
    def culprit(self) -> str | None:
        """The only possible commit. None while there are several, or none."""
        return self.commits[0] if len(self.commits) == 1 else None

    @property
    def ends(self) -> str:
        """The measured ends as git writes a range, shortened."""
        return f"{self.good[:SHORT]}..{self.bad[:SHORT]}"

    @property
    def count(self) -> str:
        """How many commits there are, in words."""
        return f"one of {len(self.commits):,} commits" if self.commits else NO_COMMIT

    def __str__(self) -> str:
        """Return it in words: "one of 7 commits, 7744c6af..54eaeaef"."""
        return self.culprit[:SHORT] if self.culprit else f"{self.count}, {self.ends}" if self.commits else NO_COMMIT


class MeasuredCommit(Protocol):
    """A measured commit of a series."""

    @property
    def position(self) -> int:
        """Its place on the first-parent line."""

    @property
    def code(self) -> str | None:
        """A hash of what was built there. None: not recorded."""


class Value(NamedTuple):
    """A `MeasuredCommit`."""

    position: int
    code: str | None


def is_same_code(before: str | None, after: str | None) -> bool:
    """Return whether two hashes of machine code (None: unknown) are the same: then no commit moved a series."""
    return before is not None and before == after


def is_other_code(before: str | None, after: str | None) -> bool:
    """Return whether two hashes of machine code (None: unknown) say that it changed. Two schemes say nothing."""
    if before is None or after is None or sessions.scheme(before) != sessions.scheme(after):
        return False
    return before != after


def commits_between(
    entries: Iterable[MeasuredCommit], line: Sequence[str], idle: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the commits after the first of some measured commits, up to the last, that can have moved a series.

    Between two of equal code there is none, whatever was committed and taken back.

    Args:
        line: the first-parent line, oldest first. idle: its commits that touched nothing that a build depends on.
    """
    return tuple(
        commit
        for before, after in pairwise(entries)
        if not is_same_code(before.code, after.code)
        for commit in line[before.position + 1 : after.position + 1]
        if commit not in idle
    )


def began(logs: FloatArray, point: ChangePoint, at: int, first: int = 0, last: int | None = None) -> tuple[int, int]:
    """Return the last entry that is surely from before a step, and the first that is surely from after it.

    Every beginning near the step has the probability that the values give it, each from the level before or the level
    after, an outlier as if it lay at the nearer of both.

    Args:
        logs: without gaps. at: the step's place among them. first, last: where the level before begins, and the one
            after the new level.
    """
    most = _most_telling(logs[:last], point, at, first)
    first, last = max(first + 1, at - RECENT_VALUES), min(last or logs.size, at + MARGIN + 1)
    of_values = _telling(logs[first:last], point, scatter(logs[:at]), most)
    telling = of_values[::-1].cumsum()[::-1]  # that all from here on have moved
    begun = np.exp(telling - telling.max()).cumsum()  # by here, but for a factor
    after, bad = begun.searchsorted(begun[-1] * _SURE).tolist()
    return first + after - 1, first + bad


def _moved(logs: FloatArray, point: ChangePoint) -> FloatArray:
    """Return how far values are on their way from the level before a step to the level after it, 0 to 1."""
    moved = (logs - point.before) / (point.after - point.before)
    return np.minimum(np.maximum(moved, 0.0), 1.0)  # `np.clip` takes twice as long for a few dozen


def _telling(logs: FloatArray, point: ChangePoint, sigma: float, most: float) -> FloatArray:
    """Return how much likelier each value is after a step than before it, as a logarithm, at most `most` each."""
    loudness = ((point.after - point.before) / sigma) ** 2
    return np.minimum(np.maximum((_moved(logs, point) - 0.5) * loudness, -most), most)


def _most_telling(logs: FloatArray, point: ChangePoint, at: int, first: int) -> float:
    """Return the most that one value can tell of a step: less where values of its levels lay nearer to the other one.

    Args:
        logs: up to the end of the new level. at: the step's place among them. first: where the level before begins.
    """
    before, after = logs[first : max(at - MARGIN, first)], logs[at + MARGIN :]
    middle, side = (point.before + point.after) / 2, 1 if point.rises else -1
    misleading = np.count_nonzero(side * before > side * middle) + np.count_nonzero(side * after < side * middle)
    return math.log(max((before.size + after.size) / misleading, 2.0)) if misleading else math.inf


def scatter(logs: FloatArray) -> float:
    """Return the sigma of the newest of some log values, or what is assumed where there are too few."""
    newest = logs[-RECENT_VALUES:]
    return float(difference_sigma(newest)) if newest.size >= FEWEST_TELLING else BETWEEN_SESSIONS


class Beside(NamedTuple):
    """A value of a series at a commit beside the first-parent line."""

    commit: SideCommit
    log: float  # of the value


@dataclass(frozen=True)
class Line:
    """The first-parent line as ranges of commits see it."""

    commits: Sequence[str]  # oldest first
    order: Mapping[str, int]  # commit -> its position
    idle: Collection[str] = ()  # those that touched nothing that a build depends on

    def between(self, entries: Sequence[MeasuredCommit]) -> CommitRange:
        """Return the range of a change that surely began after the first of some measured commits and by the last.

        Its ends are the nearest ones around the commits that are left.
        """
        return self._ended(entries, commits_between(entries, self.commits, self.idle))

    def _ended(self, entries: Sequence[MeasuredCommit], commits: tuple[str, ...]) -> CommitRange:
        positions = [entry.position for entry in entries]
        first, last = 0, len(entries) - 1
        if commits:
            first, last = (bisect_left(positions, self.order[sha]) for sha in (commits[0], commits[-1]))
            first -= 1
        return CommitRange(good=self.commits[positions[first]], bad=self.commits[positions[last]], commits=commits)

    def of_step(
        self, logs: FloatArray, point: ChangePoint, entries: Sequence[MeasuredCommit], beside: Sequence[Beside] = ()
    ) -> CommitRange:
        """Return the range of a step.

        Args:
            logs: up to the step, without gaps. entries: the measured commits that it surely began after and by.
            beside: values of the series beside the line.
        """
        commits = commits_between(entries, self.commits, self.idle)
        sigma = scatter(logs) if beside else math.nan
        for side, log in beside:
            (telling,) = _telling(np.array([log]), point, sigma, math.inf).tolist()
            if abs(telling) > math.log(1 / (1 - SURE)):  # surely of one of both levels
                left = tuple(sha for sha in commits if _can_be(self.order[sha], side, has_moved=telling > 0))
                commits = left or commits
        return self._ended(entries, commits)


def _can_be(position: int, side: SideCommit, *, has_moved: bool) -> bool:
    """Return whether a commit of the line can be the cause, given whether a commit beside it shows the change.

    What shows the change has its cause behind it, what does not has not. The merge that brought it is a possible cause
    if it shows the change, and none where the merge has the same files.
    """
    if position == side.merge:
        return has_moved or not side.is_merge_alike
    return (position <= side.fork) is has_moved


def agreed(steps: Sequence[tuple[Hashable, Hashable, CommitRange]], order: Mapping[str, int]) -> list[CommitRange]:
    """Return the ranges of steps, each narrowed by those that can have the same cause.

    Args:
        steps: of each what it must have in common with others (the test case, the direction), whose it is (the
            machine: two steps of one are two causes), and its range. order: commit -> position on the line.
    """
    result = [commits for _, _, commits in steps]
    alike: dict[Hashable, list[int]] = {}
    for number, (kind, _, commits) in enumerate(steps):
        if commits.commits:
            alike.setdefault(kind, []).append(number)
    for numbers in alike.values():
        numbers.sort(key=lambda number: order[result[number].commits[-1]])
        for group, common in _groups(numbers, steps):
            good = max((result[number].good for number in group), key=order.__getitem__)
            bad = min((result[number].bad for number in group), key=order.__getitem__)
            narrowed = CommitRange(good=good, bad=bad, commits=tuple(sorted(common, key=order.__getitem__)))
            for number in group:
                result[number] = narrowed
    return result


def _groups(
    numbers: Iterable[int], steps: Sequence[tuple[Hashable, Hashable, CommitRange]]
) -> Iterator[tuple[list[int], set[str]]]:
    """Yield the steps that can have one cause, by number, and the commits that all of them allow."""
    groups: list[tuple[list[int], set[Hashable], set[str]]] = []
    for number in numbers:
        _, owner, commits = steps[number]
        for group, owners, common in groups:
            if owner not in owners and not common.isdisjoint(commits.commits):
                group.append(number)
                owners.add(owner)
                common.intersection_update(commits.commits)
                break
        else:
            groups.append(([number], {owner}, set(commits.commits)))
    yield from ((group, common) for group, _, common in groups if len(group) > 1)
