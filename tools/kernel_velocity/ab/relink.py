"""Compare two commits beyond layout: built and measured in turns under several link orders (stats/layout.py).

Each order is a session of its own, with its own builds (`AsvRunner.link_order`). All builds come first, because only
they show whether the link order moves anything.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from kernel_velocity.ab.confirm import Runner, unchanged
from kernel_velocity.ab.rounds import Pairs, estimates
from kernel_velocity.errors import UsageError
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.git import SHORT
from kernel_velocity.stats import layout, sequential
from kernel_velocity.stats.sequential import LOOKS, Answer, Comparison, Obstacle

ROUNDS = LOOKS[0]  # a side and order: another order tells more than more rounds


def orders(text: str) -> int:
    """Return the number of link orders that --relink names.

    Raises:
        UsageError: it is no whole number, or too few for the test.
    """
    if text.isascii() and text.isdigit() and int(text) >= layout.LEAST:
        return int(text)
    raise UsageError(
        f"--relink must be a whole number of link orders, {layout.LEAST} or more, as fewer cannot tell a change from "
        f"layout (got {text!r}), for example --relink {layout.LEAST}"
    )


def confirm(
    runners: Sequence[Runner], before: str, after: str, series: Sequence[Series], budget: float
) -> dict[Series, Comparison]:
    """Return the change of each series beyond layout. One with the same machine code is not measured.

    Args:
        runners: a machine for each link order. before, after: full SHAs.
        budget: s of measuring, builds apart. Where it is short, the last orders are left out.

    Raises:
        UsageError: too few link orders move the code. Nothing was measured.
    """
    for runner, commit in itertools.product(runners, (before, after)):
        if (reason := runner.prepare(commit)) is not None:
            return dict.fromkeys(series, sequential.not_compared(Obstacle.NOT_BUILT, reason))
    runners = _different(runners, before, after)
    answers = unchanged(runners[0], before, after, series)
    rest = tuple(key for key in series if key not in answers)
    deadline = runners[0].clock() + budget
    sessions = [runner.measure_pair(before, after, rest, ROUNDS, deadline) for runner in runners if rest]
    return {key: answers[key] if key in answers else _judged(sessions, key) for key in series}


def _different(runners: Sequence[Runner], before: str, after: str) -> list[Runner]:
    """Return the runners whose link orders put the code of both commits where no earlier one does.

    Raises:
        UsageError: they are too few for the test.
    """
    tried: set[tuple[str, str | None]] = {(before, None), (after, None)}  # None: there is no library
    chosen = []
    for runner in runners:
        layouts = {(commit, runner.placement(commit)) for commit in (before, after)}
        if not layouts & tried:
            chosen.append(runner)
        tried |= layouts
    if len(chosen) < layout.LEAST:
        raise UsageError(
            f"--relink {len(runners)}: {len(chosen)} of these link orders give {before[:SHORT]} and {after[:SHORT]} a "
            f"layout of their own, wanted {layout.LEAST} or more: their builds must link objects in another order for "
            "each number in KV_LINK_ORDER; with few objects, give a larger N"
        )
    return chosen


def _judged(sessions: Sequence[Pairs], key: Series) -> Comparison:
    pairs = [session[key] for session in sessions if key in session]
    for pair in pairs:
        if pair.obstacle is not None:
            return sequential.not_compared(pair.obstacle, pair.reason)
    measured = [session for session in sessions if key in session and session[key].rounds >= ROUNDS]
    if len(measured) < layout.LEAST:
        reason = f"{len(measured)} of the {layout.LEAST} link orders that the test takes were measured"
        return Comparison(answer=Answer.UNKNOWN, reason=reason, rounds=sum(pair.rounds for pair in pairs))
    values = [estimates(session, key, ROUNDS) for session in measured]
    return layout.beyond(
        [(np.asarray(old), np.asarray(new)) for old, new, _ in values], adjusted=all(done for *_, done in values)
    )
