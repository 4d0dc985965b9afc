"""Findings with evidence beside the synthetic tree: of commits that it has, measured by the simulated machine."""

from dataclasses import replace
from datetime import UTC, date, datetime

from kernel_velocity.ab.bisect import bisect
from kernel_velocity.ab.confirm import confirm
from kernel_velocity.findings import evidence, store
from kernel_velocity.findings.evidence import BisectionPath, Evidence, Purpose
from kernel_velocity.findings.finding import Affected, Decision, Finding, Kind, State
from kernel_velocity.nightly import confirm as night
from kernel_velocity.results.identity import environment_of
from tests import synthetic
from tests.ab.simulated_machine import Machine
from tests.findings import nights

WHEN = datetime(2026, 3, 9, 3, 0, tzinfo=UTC)
CASES = tuple(synthetic.CASES["matmul.Cpu.time_hot"])


ENVIRONMENT = environment_of(synthetic.ENVIRONMENT, "native")


def identity(case=CASES[0], method="a1b2c3d4", **changed):
    return nights.identity(environment=ENVIRONMENT, case=case, method=method, **changed)


def series(of):
    return of.benchmark, (of.implementation, of.case)


def regression(tree, *, machine=None, **changed):
    """Return a confirmed regression of the third commit of a tree, bisected from the first to the fourth."""
    machine = machine or Machine(speed=dict.fromkeys(tree.commits[2:], 1.1), mood=0.02)
    line, identities = tree.commits[:4], [identity(case) for case in CASES]
    answers = confirm(machine, line[0], line[-1], [series(identity) for identity in identities], 1e6)
    bisection = bisect(machine, series(identities[0]), line[0], line[-1], line[1:])

    def rerun(identity, purpose, commits, answer):
        pairs = machine.measure_pair(*commits, list(map(series, identities)), 0, 0.0)
        return night.rerun(identity, purpose, commits, answer, pairs, left=bisection.left, code=("ab", "cd"))

    reruns = [
        rerun(identity, Purpose.CONFIRM, (line[0], line[-1]), answers[series(identity)]) for identity in identities
    ]
    if bisection.isolated is not None:
        index = line.index(bisection.culprit)
        reruns.append(rerun(identities[0], Purpose.CULPRIT, line[index - 1 : index + 1], bisection.isolated))
    path = BisectionPath(
        identity=identities[0],
        good=line[0],
        bad=line[-1],
        tried=bisection.tried,
        left=bisection.left,
        reason=bisection.reason,
    )
    figures = ("ratio", "low", "high", "p", "rounds")
    whole = Finding(
        id=f"matmul-regression-{line[2][:8]}",
        kind=Kind.REGRESSION,
        state=State.CONFIRMED,
        subject="matmul",
        found=WHEN,
        commits=bisection.left,
        anchor=line[0],
        how=f"measured again in turns with {line[0][:8]}",
        ruled_out=("the machine: both sides were measured in the same minutes",),
        affected=tuple(
            Affected(identity=identity, **{name: getattr(answers[series(identity)], name) for name in figures})
            for identity in identities
        ),
        decisions=(Decision(when=WHEN, who="nightly", state=State.CONFIRMED, reason="2 series"),),
    )
    return replace(whole, **changed), Evidence(reruns=tuple(reruns), paths=(path,))


def others(tree):
    """Return a finding of every other kind, without evidence."""
    commit = tree.commits[3]
    decision = Decision(when=WHEN, who="ada", state=State.ACKNOWLEDGED, reason="wait", until=date(2027, 1, 1))
    base = regression(tree)[0]
    plain = {"commits": (commit,), "anchor": tree.commits[2]}
    return (
        replace(base, id="matmul-improvement-x", kind=Kind.IMPROVEMENT, affected=_faster(base), **plain),
        replace(base, id="matmul-regression-old", state=State.ACKNOWLEDGED, decisions=(decision,), **plain),
        replace(base, id="matmul-regression-gone", state=State.RESOLVED, **plain),
        replace(
            base,
            id="bench-1-cpu-environment-x",
            kind=Kind.ENVIRONMENT,
            state=State.ENVIRONMENT,
            subject=synthetic.MACHINE,
            commits=(),
            anchor=None,
            changes={"driver": ("550", "560")},
            ruled_out=(),
            how="2 series moved at once",
        ),
        replace(base, id="matmul-vanished-x", kind=Kind.VANISHED, state=State.NEW, ruled_out=(), **plain),
        replace(base, id="matmul-suspect", state=State.SUSPECT, commits=tree.commits[1:4], anchor=tree.commits[0]),
        replace(base, id="matmul-error", affected=_error(), **plain),
    )


def _faster(base):
    return tuple(replace(member, ratio=0.8, low=0.79, high=0.81) for member in base.affected)


def _error():
    return (Affected(identity=identity(benchmark="matmul.Cpu.track_max_error", method=""), ratio=2.0, p=0.0),)


def write(tree):
    """Write all of them beside the results of a tree. Return them, the regression first."""
    regressed, bisected = regression(tree)
    evidence.add(tree.results, regressed.id, synthetic.MACHINE, bisected)
    findings = (regressed, *others(tree))
    for finding in findings:
        store.write(tree.results, finding)
    return findings
