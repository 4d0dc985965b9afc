"""Find moves: series that left their level, by how much, and between which commits. Pure.

Where the code of a series is known, every change of it is measured again, and no screen decides. For the others a
screen does. The commit that a move is measured against is surely from before it: the first value of a move often fires
no screen, and against the commit beside that one both sides would be slow.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from kernel_velocity.findings.finding import Step
from kernel_velocity.nightly.screen import Change, look_back, scatter, shift
from kernel_velocity.results import sessions
from kernel_velocity.results.identity import Identity, is_worse
from kernel_velocity.results.sessions import Changes
from kernel_velocity.series.history import LEAST, Observation, SeriesHistory, floor_of, threshold
from kernel_velocity.stats.changepoints.detector import MARGIN

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
