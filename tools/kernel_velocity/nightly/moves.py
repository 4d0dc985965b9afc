"""Find moves: series that left their level, by how much, and between which commits. Pure.

Where the code of a series is known, every change of it is measured again, and no screen decides. For the others a
screen does. The commit that a move is measured against is surely from before it: the first value of a move often fires
no screen, and against the commit beside that one both sides would be slow.

The screen compares the newest value, the mean of the newest two, and the median of the newest three with the values
before them. A machine's first nights have few values: there every move counts that stands out from them, or that
exceeds the difference of any two sessions. A sensitive screen costs re-runs in turns only, and these decide.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from kernel_velocity.findings.finding import Step
from kernel_velocity.results import sessions
from kernel_velocity.results.identity import Identity, is_worse
from kernel_velocity.results.sessions import Changes
from kernel_velocity.series.history import LEAST, Observation, SeriesHistory, floor_of, threshold
from kernel_velocity.stats.changepoints import detector
from kernel_velocity.stats.changepoints.detector import MARGIN
from kernel_velocity.stats.changepoints.drift import drift
from kernel_velocity.stats.changepoints.noise import difference_sigma, iqr_sigma

REFERENCE = 40  # values before the newest ones
NEWEST = 3
FEWEST = 10  # values of a reference: the quartiles of fewer mean little
Z1 = 3.0  # sigmas of the newest value
Z3 = 2.5  # sigmas of the median of the newest three
# Sigmas of the mean of the newest two. Simulated at a noise of .7%, a screen fires at 2.5% of quiet values (without it
# at .7%), and within two commits of a step of 2% in .98 of cases (.77). The larger of two sigmas is often too large.
Z2 = 2.1 / math.sqrt(2)
SHOWN = 0.5  # of the effect, by the newest value: after an outlier the mean and the median show one that is over
# Probability that a move began after `good`, and that it did by `bad`. Of such steps `good` is from before the step in
# .99 of the cases, the value beside the first that fires in .5.
SURE = 0.999
RECENT = 40  # newest values among which it can have begun
LOOK_BACK = 8  # values of a short history that the newest is compared with
FEW = 3  # values before the newest that tell their scatter
Z_FEW = 2.0  # sigmas; of few values sigma is hardly known, and a re-run is cheap
# Log units; where there are not even FEW. Identical code differed by 1 to 3% between sessions (docs: false alarms).
BETWEEN_SESSIONS = 0.015


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change in the log values of a series, oldest first."""

    effect: float  # new minus old
    good: int  # index of the last value that is surely from before
    bad: int  # index of the first value that is surely from after; of a drift: the newest


def shift(values: Sequence[float]) -> Change | None:
    """Return the change of the newest log values, oldest first. None where they are at the level before them."""
    reference = np.asarray(values[-REFERENCE - NEWEST : -NEWEST])
    if reference.size < FEWEST:
        return _shift_of_few(values)
    level, sigma = float(np.median(reference)), float(max(iqr_sigma(reference), difference_sigma(reference)))
    newest = np.asarray(values[-NEWEST:]) - level
    for effect, limit in ((np.median(newest), Z3), (newest[-1], Z1), (newest[-2:].mean(), Z2)):
        if abs(effect) > limit * sigma and newest[-1] / effect > SHOWN:
            return _began(values, level, float(effect), sigma)
    return None


def _shift_of_few(values: Sequence[float]) -> Change | None:
    before = values[-LOOK_BACK - 1 : -1]
    if not before:
        return None
    level, sigma = float(np.median(before)), scatter(values)
    limit = max(LEAST, Z_FEW * sigma)
    effect = values[-1] - level
    return _began(values, level, effect, limit / Z_FEW) if abs(effect) > limit else None


def scatter(values: Sequence[float]) -> float:
    """Return the sigma of the log values before the newest, or what is assumed where there are too few."""
    before = np.asarray(values[-RECENT - 1 : -1])
    return float(difference_sigma(before)) if before.size >= FEW else BETWEEN_SESSIONS / Z_FEW


def _began(values: Sequence[float], level: float, effect: float, sigma: float) -> Change:
    """Return a change that surely began between its two values.

    The newest value is from after the change. Every beginning before it has the probability that the values give it,
    each from its level or `effect` away from it, an outlier as if it lay at the nearer of both.
    """
    first = max(1, len(values) - RECENT)
    moved = np.clip((np.asarray(values[first:]) - level) / effect, 0.0, 1.0)
    evidence = np.cumsum(((moved - 0.5) * (effect / sigma) ** 2)[::-1])[::-1]  # that all from here on have moved
    begun = np.cumsum(np.exp(evidence - evidence.max()))  # by here, but for a factor
    after, bad = np.searchsorted(begun, begun[-1] * np.array([1 - SURE, SURE])).tolist()
    return Change(effect=effect, good=first + after - 1, bad=first + bad)


def look_back(values: Sequence[float]) -> Change | None:
    """Return the newest change of log values, oldest first: a drift up to the newest, else the last step.

    A step is known to within a few values. It lies between the values that far to both sides: a bisection narrows it.
    """
    slow = drift(values)
    if slow.is_drift and slow.ratio is not None and slow.first is not None and slow.last is not None:
        return Change(effect=math.log(slow.ratio), good=slow.first, bad=slow.last)
    points = detector.detect(values)
    if not points:
        return None
    newest, first = points[-1], points[-2].index if len(points) > 1 else 0
    good = max(newest.index - 1 - detector.MARGIN, first)
    bad = min(newest.index + detector.MARGIN, len(values) - 1)
    return Change(effect=newest.after - newest.before, good=good, bad=bad)


LEVEL = 20  # values that tell the level before a change of the code


@dataclass(frozen=True, kw_only=True)
class Move:
    """A series that moved, or whose code changed, and between which commits."""

    history: SeriesHistory
    effect: float  # of log values: new minus old
    good: Observation  # surely one before: it is measured against this
    bad: Observation  # surely one after
    candidates: tuple[str, ...]  # possible commits, oldest first; (): none, the code is the same
    is_screened: bool = True  # whether its values show it; else its code changed, and they may or may not

    @property
    def identity(self) -> Identity:
        """The series that moved."""
        return self.history.identity

    @property
    def worse(self) -> bool | None:
        """Whether it moved for the worse. None where neither direction is."""
        return is_worse(self.identity, self.effect)

    @property
    def changes(self) -> Changes:
        """The facts of the machine that changed."""
        return sessions.changes(self.good.facts, self.history.newest.facts)


def of_tonight(histories: Iterable[SeriesHistory], since: float, steps: Sequence[Step]) -> list[SeriesHistory]:
    """Return the series with a value of this night, prepared (`prepared`)."""
    return [
        prepared(history, since, steps)
        for history in histories
        if history.newest.measured is not None and history.newest.measured >= since
    ]


def prepared(history: SeriesHistory, since: float, explained: Sequence[Step] = ()) -> SeriesHistory:
    """Return a series as a night judges it: moved by its explained steps, with the floor of earlier sessions."""
    steps = [step for step in explained if step.identity == history.identity]
    observations = tuple(
        replace(
            observation, value=observation.value + sum(step.effect for step in steps if _is_before(observation, step))
        )
        for observation in history.observations
    )
    earlier = [
        observation for observation in observations if observation.measured is None or observation.measured < since
    ]
    floor = floor_of(history.identity, earlier) if history.floor is None else history.floor
    return replace(history, observations=observations, floor=floor)


def _is_before(observation: Observation, step: Step) -> bool:
    if step.position is not None:
        return observation.position < step.position
    return step.since is not None and observation.measured is not None and observation.measured < step.since


def move_of(history: SeriesHistory, line: Sequence[str]) -> Move | None:
    """Return the move that the newest value of a series still shows. None where it is at its level.

    A move that a later value took back is none.
    """
    change = shift(_values(history))
    return None if change is None or abs(change.effect) < threshold(history) else _move(history, change, line)


def code_change(
    history: SeriesHistory, line: Sequence[str], since: float, again: str | None = None, left: str | None = None
) -> Move | None:
    """Return the change of a series' code tonight, whether or not its values show it. None where it has none.

    Args:
        line: the commits of the first-parent line, oldest first. since: when the night began, Unix time, s.
        again: the commit that tonight measured although it had been measured before.
        left: the commit since which an earlier night had no time to examine its code.
    """
    observations = history.observations
    tonight = [
        observation.commit != again and observation.measured is not None and observation.measured >= since
        for observation in observations
    ]
    start = next((number for number, observation in enumerate(observations) if observation.commit == left), None)
    if history.identity.is_control or not history.identity.is_timed or (start is None and not any(tonight)):
        return None
    good = tonight.index(True) - 1 if start is None else start
    bad = max((number for number, is_tonights in enumerate(tonight) if is_tonights), default=len(observations) - 1)
    codes = {observations[good].code, observations[bad].code}
    if good < 0 or None in codes or len(codes) == 1:
        return None
    effect = observations[bad].value - statistics.median(
        observation.value for observation in observations[max(0, good - LEVEL) : good + 1]
    )
    return replace(_move(history, Change(effect=effect, good=good, bad=bad), line), is_screened=False)


def openness(move: Move) -> float:
    """Return the probability that a move is relevant, from its values. Certain and doubtful moves are open.

    The newest value is off its level by as much as sessions scatter. What is surely less than LEAST is settled.
    """
    noise = NormalDist(abs(move.effect), scatter(_values(move.history)))
    return 1 - noise.cdf(LEAST) + noise.cdf(-LEAST)


def late_move(history: SeriesHistory, line: Sequence[str]) -> Move | None:
    """Return the move that a look back over all values of a series shows."""
    change = look_back(_values(history))
    return None if change is None or abs(change.effect) < LEAST else _move(history, change, line)


def is_new(move: Move, since: float) -> bool:
    """Return whether a look back over the values of earlier nights shows no move."""
    observations = move.history.observations
    before = look_back(
        [
            observation.value
            for observation in observations
            if observation.measured is None or observation.measured < since
        ]
    )
    if before is None or before.effect * move.effect < 0 or abs(before.effect) < LEAST:
        return True
    return abs(before.good - observations.index(move.good)) > MARGIN


def _values(history: SeriesHistory) -> list[float]:
    return [observation.value for observation in history.observations]


def _move(history: SeriesHistory, change: Change, line: Sequence[str]) -> Move:
    observations = history.observations[change.good : change.bad + 1]
    return Move(
        history=history,
        effect=change.effect,
        good=observations[0],
        bad=observations[-1],
        candidates=_candidates(history.identity, observations, line),
    )


def _candidates(identity: Identity, observations: Sequence[Observation], line: Sequence[str]) -> tuple[str, ...]:
    """Return the commits after the first of some observations, up to the last, that can have moved a series.

    Between two observations of equal code there is none, whatever was committed and taken back.
    """
    commits: list[str] = []
    for before, after in itertools.pairwise(observations):
        if not identity.is_control and not is_same_code(before, after):
            commits += line[before.position + 1 : after.position + 1]
    return tuple(commits)


def is_same_code(before: Observation, after: Observation) -> bool:
    """Return whether two observations are known to be of the same code."""
    return before.code is not None and before.code == after.code
