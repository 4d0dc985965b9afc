"""Generated nights: histories of series with planted steps, cases and findings."""

import dataclasses
import random
from datetime import UTC, datetime

import numpy as np

from kernel_velocity.direction import better
from kernel_velocity.findings.finding import Affected, Decision, Finding, Kind, State
from kernel_velocity.nightly.confirm import ExaminedSeries, from_cases
from kernel_velocity.results.identity import Identity
from kernel_velocity.verdict import controls
from kernel_velocity.verdict.history import Observation, SeriesHistory

LINE = tuple(f"{number:08x}{'0' * 32}" for number in range(0x10, 0x10 + 60))  # commits, oldest first
ORDER = {sha: index for index, sha in enumerate(LINE)}
NIGHT = 1_000_000.0  # Unix time at which the night began, s
WHEN = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)
FACTS = {"driver": "550", "governor": "performance"}


def identity(**parts):
    """Return the identity of a series. `native` matmul on one machine unless said otherwise."""
    whole = {
        "machine": "bench-1",
        "environment": "host-py3.11",
        "benchmark": "matmul.Cpu.time_hot",
        "implementation": "native",
        "case": "float32-256x256x256",
        "version": "1",
        "method": "m",
    }
    return Identity(**(whole | parts))


def history(length=40, *, step_at=None, step=0.0, code="a", code_at=None, facts_at=None, seed=0, floor=None, **parts):
    """Return a series over the first `length` commits, noise .3%. Its last value is of tonight.

    Args:
        step_at: place from which values are moved by `step` (log). code_at: place from which the code is another one.
        facts_at: place from which the driver is another one.
    """
    rng = random.Random(f"{seed} {sorted(parts.items())}")
    observations = [
        Observation(
            commit=LINE[index],
            position=index,
            value=-7.0 + rng.gauss(0, 0.003) + (step if step_at is not None and index >= step_at else 0.0),
            measured=NIGHT - 86400.0 * (length - 1 - index) + 10.0,
            facts=FACTS | ({"driver": "560"} if facts_at is not None and index >= facts_at else {}),
            code=f"{code}2" if code_at is not None and index >= code_at else code,
        )
        for index in range(length)
    ]
    of = identity(**parts)
    return SeriesHistory(identity=of, better=better(of.benchmark), observations=tuple(observations), floor=floor)


def with_shared(*histories):
    """Return series with what the controls among them share, as the past gives it."""
    rows = [
        tuple(
            np.array([getattr(entry, name) for entry in series.observations])
            for name in ("position", "measured", "value")
        )
        for series in histories
        if series.identity.is_control
    ]
    common = controls.common(rows)
    shared = dict(zip(common.position.tolist(), common.values.tolist(), strict=True))

    def with_machine(entry):
        return dataclasses.replace(entry, machine=shared.get(entry.position, float("nan")))

    return [
        dataclasses.replace(series, observations=tuple(map(with_machine, series.observations))) for series in histories
    ]


def case(ratio=1.1, commits=LINE[30:31], p=1e-5, **parts):
    """Return a confirmed case of one series."""
    low, high = (None, None) if p is None else (ratio * 0.99, ratio * 1.01)
    return ExaminedSeries(
        affected=Affected(identity=(of := identity(**parts)), ratio=ratio, low=low, high=high, p=p, rounds=16),
        better=better(of.benchmark),
        commits=tuple(commits),
        anchor=LINE[29],
        bad=commits[-1],
        how="A/B, 16 rounds a side in fresh processes",
        ruled_out=("the environment: eager and compile stood still",),
    )


def of_cases(*cases, state=State.CONFIRMED):
    """Return the findings that a night makes of cases."""
    return from_cases(cases, state=state, order=ORDER, when=WHEN)


def finding(kind=Kind.REGRESSION, state=State.CONFIRMED, **changed):
    """Return a finding of one series."""
    member = case(ratio=1.1 if kind is Kind.REGRESSION else 0.8)
    result = Finding(
        id=f"matmul-{kind.value}-{LINE[30][:8]}",
        kind=kind,
        state=state,
        subject="matmul",
        found=WHEN,
        commits=(LINE[30],),
        anchor=member.anchor,
        how=member.how,
        ruled_out=member.ruled_out,
        affected=(member.affected,),
        decisions=(Decision(when=WHEN, who="nightly", state=state, reason="found"),),
    )
    return dataclasses.replace(result, **changed)
