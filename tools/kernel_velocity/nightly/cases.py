"""Make findings of a night's results: confirmed or unsettled series, environment events, vanished series. Pure."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from kernel_velocity.findings.finding import Affected, Decision, Finding, Kind, State, slug
from kernel_velocity.nightly.suspects import EnvironmentEvent, in_words
from kernel_velocity.results.git import SHORT
from kernel_velocity.series.silence import Vanished
from kernel_velocity.stats.two_samples import controlled

FALSE_DISCOVERIES = 0.05  # expected share among what one night reports (Benjamini and Hochberg, JRSS B 57(1), 1995)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One series that a night examined, with the result."""

    affected: Affected
    commits: tuple[str, ...]  # possible causes, oldest first
    anchor: str
    how: str
    ruled_out: tuple[str, ...] = ()


def discoveries(
    tests: Sequence[tuple[Case, float]], others: Sequence[tuple[float, float]] = ()
) -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    """Return the cases that a night may report, and those that stay suspects.

    It is Benjamini and Hochberg's control with weights whose mean is 1, by which p is divided (Genovese, Roeder and
    Wasserman, Biometrika 93(3), 2006). A case without a test stays a suspect.

    Args:
        tests: cases, each confirmed by a test of its own, with how much its kernel's other series agree (judge.py).
        others: p of everything else that the night tested, with the same. They show the one of hundreds that chance
            confirmed.
    """
    cases = [case for case, _ in tests]
    tested = [(case.affected.p, agreed) for case, agreed in tests if case.affected.p is not None]
    mean = statistics.fmean(agreed for _, agreed in (*tested, *others)) if tested else 0.0
    weighted = [min(1.0, p * mean / agreed) for p, agreed in (*tested, *others)]
    adjusted = iter(controlled(weighted))
    passed = [case.affected.p is not None and next(adjusted) <= FALSE_DISCOVERIES for case in cases]
    reported = tuple(case for case, is_passed in zip(cases, passed, strict=True) if is_passed)
    return reported, tuple(case for case, is_passed in zip(cases, passed, strict=True) if not is_passed)


def from_cases(
    cases: Iterable[Case], *, state: State, order: Mapping[str, int], when: datetime, who: str
) -> tuple[Finding, ...]:
    """Return a finding for each cause. A case that is neither for the worse nor for the better is left out.

    One cause: the same kernel and direction, and ranges of commits with one in common, on whatever machines and with
    whatever parameters. The narrowest ranges come first, so that a wide one joins the range that explains it.

    Args:
        order: commit -> position on the first-parent line.
    """
    causes: dict[tuple[str, bool], list[tuple[list[Case], set[str]]]] = defaultdict(list)
    for case in sorted(cases, key=lambda case: (len(case.commits), [order[sha] for sha in case.commits])):
        if (worse := case.affected.worse) is None:
            continue
        groups = causes[case.affected.identity.kernel, worse]
        for members, commits in groups:
            if commits & set(case.commits):
                members.append(case)
                commits &= set(case.commits)
                break
        else:
            groups.append(([case], set(case.commits)))
    return tuple(
        _of_cause(members, tuple(sorted(commits, key=order.__getitem__)), state, when, who)
        for groups in causes.values()
        for members, commits in groups
    )


def _of_cause(cases: Sequence[Case], commits: tuple[str, ...], state: State, when: datetime, who: str) -> Finding:
    worst = max(cases, key=lambda case: abs(case.affected.effect))
    kind = Kind.REGRESSION if worst.affected.worse else Kind.IMPROVEMENT
    kernel = worst.affected.identity.kernel
    reason = f"{worst.how}; {len(cases)} series" if worst.how else f"{len(cases)} series"
    return Finding(
        id=slug(kernel, kind.value, *(sha[:SHORT] for sha in dict.fromkeys((commits[0], commits[-1])))),
        kind=kind,
        state=state,
        subject=kernel,
        found=when,
        commits=commits,
        anchor=worst.anchor,
        how=worst.how,
        ruled_out=tuple(dict.fromkeys(text for case in cases for text in case.ruled_out)),
        affected=tuple(sorted((case.affected for case in cases), key=lambda series: series.identity)),
        decisions=(Decision(when=when, who=who, state=state, reason=reason),),
    )


def of_environment(event: EnvironmentEvent, *, when: datetime, who: str) -> Finding:
    """Return the finding of an environment event. It names no commit."""
    began = when if event.began is None else datetime.fromtimestamp(event.began, UTC).replace(microsecond=0)
    reason = in_words(event.changes) or "nothing of what is recorded of the machine changed"
    count = len(event.moves)
    many = "1 series moved" if count == 1 else f"{count} series moved at once, their median"
    return Finding(
        id=slug(event.machine, event.device, Kind.ENVIRONMENT.value, f"{began:%Y%m%d-%H%M%S}"),
        kind=Kind.ENVIRONMENT,
        state=State.ENVIRONMENT,
        subject=event.machine,
        found=began,
        changes=event.changes or None,
        how=f"{many} by a factor of {event.factor:.4g}",
        affected=tuple(Affected(identity=move.identity, ratio=math.exp(move.effect)) for move in event.moves),
        decisions=(Decision(when=when, who=who, state=State.ENVIRONMENT, reason=reason),),
    )


def of_vanished(vanished: Iterable[Vanished], *, when: datetime, who: str) -> tuple[Finding, ...]:
    """Return a finding for each kernel and commit at which series no longer apply."""
    causes: dict[tuple[str, str], list[Vanished]] = defaultdict(list)
    for series in vanished:
        causes[series.identity.kernel, series.commit].append(series)
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
            affected=tuple(Affected(identity=identity, ratio=1.0) for identity in sorted(s.identity for s in group)),
            decisions=(Decision(when=when, who=who, state=State.NEW, reason=f"{len(group)} series have no value"),),
        )
        for (kernel, commit), group in causes.items()
    )
