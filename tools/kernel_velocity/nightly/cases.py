"""Makes findings of what a night found out: of cases, one a cause; of an environment event; of what vanished. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from kernel_velocity.findings.finding import Affected, Decision, Finding, Kind, State, slug
from kernel_velocity.nightly.suspects import EnvironmentEvent, grouped
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.sessions import Changes
from kernel_velocity.series.silence import Vanished


@dataclass(frozen=True, kw_only=True)
class Case:
    """One series that a night has looked at, with what came of it."""

    affected: Affected
    commits: tuple[str, ...]  # that can have done it, oldest first
    anchor: str
    how: str
    ruled_out: tuple[str, ...] = ()

    @property
    def p(self) -> float | None:
        """The p value of its confirmation."""
        return self.affected.p


def from_cases(
    cases: Iterable[Case], *, state: State, order: Mapping[str, int], when: datetime, who: str
) -> tuple[Finding, ...]:
    """Return a finding for each cause; what is neither for the worse nor for the better is none."""
    asked = [(case, case.affected.identity.kernel, case.affected.worse, case.commits) for case in cases]
    ranged = [(case, kernel, worse, commits) for case, kernel, worse, commits in asked if worse is not None]
    return tuple(_of_group(group, commits, state, when, who) for group, commits in grouped(ranged, order))


def _of_group(group: Sequence[Case], commits: tuple[str, ...], state: State, when: datetime, who: str) -> Finding:
    worst = max(group, key=lambda case: abs(case.affected.effect))
    kind = Kind.REGRESSION if worst.affected.worse else Kind.IMPROVEMENT
    kernel = worst.affected.identity.kernel
    reason = f"{worst.how}; {len(group)} series" if worst.how else f"{len(group)} series"
    return Finding(
        id=slug(kernel, kind.value, *(sha[:SHORT] for sha in dict.fromkeys((commits[0], commits[-1])))),
        kind=kind,
        state=state,
        subject=kernel,
        found=when,
        commits=commits,
        anchor=worst.anchor,
        how=worst.how,
        ruled_out=tuple(dict.fromkeys(text for case in group for text in case.ruled_out)),
        affected=tuple(sorted((case.affected for case in group), key=lambda item: item.identity)),
        decisions=(Decision(when=when, who=who, state=state, reason=reason),),
    )


def of_environment(event: EnvironmentEvent, *, when: datetime, who: str) -> Finding:
    """Return the finding of an environment event. It names no commit."""
    began = when if event.began is None else datetime.fromtimestamp(event.began, UTC).replace(microsecond=0)
    return Finding(
        id=slug(event.machine, event.device, Kind.ENVIRONMENT.value, f"{began:%Y%m%d-%H%M%S}"),
        kind=Kind.ENVIRONMENT,
        state=State.ENVIRONMENT,
        subject=event.machine,
        found=began,
        changes=event.changes or None,
        how=f"{len(event.moves)} series moved at once, their median by a factor of {event.factor:.4g}",
        affected=tuple(Affected(identity=move.identity, ratio=math.exp(move.effect)) for move in event.moves),
        decisions=(Decision(when=when, who=who, state=State.ENVIRONMENT, reason=in_words(event.changes)),),
    )


def in_words(changes: Changes) -> str:
    """Return what changed of an environment."""
    said = "; ".join(f"{name}: {before} -> {after}" for name, (before, after) in changes.items())
    return said or "nothing of what is recorded of the machine changed"


def of_vanished(items: Iterable[Vanished], *, when: datetime, who: str) -> tuple[Finding, ...]:
    """Return a finding for each kernel and commit at which series no longer apply."""
    causes: dict[tuple[str, str], list[Vanished]] = {}
    for item in items:
        causes.setdefault((item.identity.kernel, item.commit), []).append(item)
    return tuple(
        Finding(
            id=slug(kernel, Kind.VANISHED.value, commit[:SHORT]),
            kind=Kind.VANISHED,
            state=State.NEW,
            subject=kernel,
            found=when,
            commits=(commit,),
            anchor=group[0].last,
            how="does not apply there, and had a value before",
            affected=tuple(Affected(identity=one, ratio=1.0) for one in sorted(item.identity for item in group)),
            decisions=(Decision(when=when, who=who, state=State.NEW, reason=f"{len(group)} series have no value"),),
        )
        for (kernel, commit), group in causes.items()
    )
