"""The evidence that a night records: the rounds that its findings rest on, and the paths of bisections."""

import errno
import os
from dataclasses import replace

import numpy as np
import pytest

from kernel_velocity.findings import evidence, store
from kernel_velocity.findings.evidence import Evidence, Purpose
from kernel_velocity.findings.finding import State
from kernel_velocity.nightly import conclude
from kernel_velocity.nightly.confirm import MOST_NIGHTS, P_DIFFERENT, look_again, pending, sessions
from kernel_velocity.stats import sequential
from kernel_velocity.stats.sequential import Answer
from tests.ab.simulated_machine import Machine
from tests.findings import nights
from tests.nightly.test_judge import LATER, LINE, STEP, a_night, after, history, judged, slower_from

MACHINE = "box"


def confirmed(**machine):
    """Return a night's finding of a planted 10%, and its evidence."""
    result, outcome = a_night(Machine(speed=slower_from(20, 1.1), **machine), history(STEP, tonight=1))
    return result[0], outcome.evidence


def test_evidence_has_the_rounds_and_looks_of_the_answer():
    finding, night = confirmed()
    (rerun,) = evidence.of(finding, night).reruns
    assert (rerun.before, rerun.after, rerun.commits) == (LINE[19], LINE[20], (LINE[20],))
    assert (rerun.purpose, rerun.answer, rerun.rounds) == (Purpose.CONFIRM, Answer.DIFFERENT, 8)
    before, after = (np.log(side) for side in rerun.compared)
    assert sequential.compare(before, after).ratio == pytest.approx(finding.worst.ratio)
    (look,) = rerun.looks
    assert (look.rounds, look.p, look.answer) == (8, finding.worst.p, Answer.DIFFERENT)
    assert (look.low, look.high) == (finding.worst.low, finding.worst.high)
    assert look.least < look.low < look.ratio < look.high < look.most
    assert all(first < other for first, other in zip(rerun.sides[0].began, rerun.sides[1].began, strict=True))


def test_evidence_has_every_look():
    """1.3% in 1.2% of noise takes more than the first eight rounds."""
    _, outcome = a_night(Machine(speed=slower_from(20, 1.013), noise=0.012, seed=3), history(STEP, tonight=1))
    (rerun,) = outcome.evidence.reruns
    assert [look.rounds for look in rerun.looks] == [8, 16, 32, 64][: len(rerun.looks)] and len(rerun.looks) > 1
    assert [look.answer for look in rerun.looks[:-1]] == [Answer.UNKNOWN] * (len(rerun.looks) - 1)
    assert rerun.looks[-1].rounds == rerun.rounds == len(rerun.sides[1].flags)


def test_wide_interval_is_that_of_the_threshold_of_the_test():
    """Its end lies at 1 exactly where p is at the threshold: the test and the picture cannot say different things."""
    for seed in range(40):
        _, outcome = a_night(Machine(speed=slower_from(20, 1.012), seed=seed), history(STEP, tonight=1))
        for look in outcome.evidence.reruns[0].looks:
            assert (look.p < P_DIFFERENT) == (look.least > 1 or look.most < 1)


def test_adjusted_rounds_are_recorded_beside_the_raw_ones():
    (rerun,) = confirmed(mood=0.05)[1].reruns
    assert rerun.is_adjusted and rerun.compared[0] == rerun.sides[0].adjusted != rerun.sides[0].seconds
    adjusted, raw = (np.log(side).std() for side in (rerun.sides[0].adjusted, rerun.sides[0].seconds))
    assert adjusted < raw


def test_bisection_is_recorded_with_the_check_of_its_culprit():
    series = [history(STEP, tonight=1, indices=[*range(20), 25], seed=seed, case=f"{seed}M") for seed in range(2)]
    (finding,), outcome = a_night(Machine(speed=slower_from(22, 1.1), codes={LINE[21]: "x", LINE[20]: "x"}), *series)
    recorded = evidence.of(finding, outcome.evidence)
    (path,) = recorded.paths
    assert (path.good, path.bad, path.left) == (LINE[19], LINE[25], (LINE[22],))
    assert path.tried[0].commit == LINE[25] and path.tried[0].slow is True
    assert {step.commit: step.slow for step in path.tried}[LINE[22]] is True
    culprits = [rerun for rerun in recorded.reruns if rerun.purpose is Purpose.CULPRIT]
    assert [(rerun.before, rerun.after) for rerun in culprits] == [(LINE[20], LINE[22])] * 2  # 21 has the code of 20
    assert {rerun.identity for rerun in culprits} == {affected.identity for affected in finding.affected}
    assert culprits[0].code == ("x", None)


def test_evidence_joins_the_finding_of_its_cause():
    finding, night = confirmed()
    assert not evidence.of(replace(finding, commits=(LINE[3],)), night)
    other = replace(finding.affected[0], identity=nights.identity())
    assert not evidence.of(replace(finding, affected=(other,)), night)
    faster = replace(finding.affected[0], ratio=0.9)
    assert not evidence.of(replace(finding, affected=(faster,)), night)


def test_evidence_of_refuted_and_unmeasured_suspects():
    series = history(STEP, tonight=1)
    recorded, _ = a_night(Machine(noise=0.002), series, budget=0.0)
    (result,), outcome = a_night(Machine(noise=0.002), series, recorded=recorded)
    (rerun,) = evidence.of(result, outcome.evidence).reruns
    assert (result.state, rerun.answer, rerun.rounds) == (State.RESOLVED, Answer.SAME, 8)
    (result,), outcome = a_night(Machine(unbuildable=(LINE[19],)), series)
    (rerun,) = evidence.of(result, outcome.evidence).reruns
    assert (rerun.rounds, rerun.looks, rerun.effect) == (0, (), None) and "does not build" in rerun.reason


def test_newer_evidence_of_the_same_commits_replaces_the_older():
    (_, first), (_, second) = confirmed(), confirmed(seed=1)
    assert evidence.joined(first, second).reruns == second.reruns
    elsewhere = replace(first.reruns[0], before=LINE[3])
    assert len(evidence.joined(Evidence(reruns=(elsewhere,)), second).reruns) == 2


def test_evidence_is_written_beside_its_finding(tmp_path, monkeypatch):
    finding, night = confirmed()
    assert conclude.write(tmp_path, MACHINE, [finding, nights.finding()], night, []) == ([], [])
    assert [path.parent.name for path in tmp_path.rglob("*.json")] == [finding.id]
    assert store.path_of(tmp_path, finding).exists()
    evidence.path_of(tmp_path, finding.id, MACHINE).write_text("[")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(conclude.store, "write", full)
    before = [replace(finding, subject="as it was")]
    (blocked,), (unwritten,) = conclude.write(tmp_path, MACHINE, [finding], night, before)
    assert "not JSON" in blocked and blocked.endswith("are not kept")
    assert "No space left on device" in unwritten and "the next start" in unwritten


SMALL = history([0.0] * 41, noise=0.01, tonight=1)
SMALL = replace(SMALL, observations=(*SMALL.observations[:-1], replace(SMALL.newest, value=-6.95)))


def night_again(recorded, reruns, machine, *, budget, until=0.0):
    """Measure the suspects of nights before again. Return the findings and the outcome."""
    moves = list(pending(recorded, [SMALL], ()))
    outcome = look_again(moves, machine, budget=budget, earlier=sessions(reruns, until))
    return after(outcome, judged(), SMALL, recorded=recorded, when=LATER), outcome


def noisy(seed, slower=1.0, pace=1.0):
    """Return a machine of another night, slower as a whole by `pace`."""
    everywhere = dict.fromkeys(LINE[:40], pace) | dict.fromkeys(LINE[40:], pace * slower)
    return Machine(speed=everywhere, noise=0.04, seed=seed)


def test_suspect_carries_its_rounds_to_the_next_night():
    """Neither night alone settles 3% in a noise of 4%. The second machine is slower by 50% as a whole."""
    first, outcome = a_night(noisy(0, 1.03), SMALL, budget=2 * 32)
    assert first[0].state is State.SUSPECT
    (rerun,) = outcome.reruns
    alone, _ = night_again(first, (), noisy(1, 1.03, pace=1.5), budget=2 * 32)
    assert alone[0].state is State.SUSPECT
    (result,), outcome = night_again(first, [rerun], noisy(1, 1.03, pace=1.5), budget=2 * 32, until=1e9)
    assert result.state is State.CONFIRMED and result.worst.ratio == pytest.approx(1.03, abs=0.01)
    (again,) = outcome.reruns
    assert again.earlier == (rerun.sides,) and again.sessions == (*again.earlier, again.sides)
    assert again.looks[-1].answer is Answer.DIFFERENT and again.looks[-1].p < P_DIFFERENT
    assert result.how.endswith("with the rounds of 1 night before")
    (nothing,) = night_again(first, [rerun], noisy(1), budget=0.0, until=1e9)[1].reruns
    assert nothing.sessions == (rerun.sides,)  # a night without time keeps them
    assert sessions([rerun], 0.0) == {(rerun.identity, rerun.before, rerun.after): []}  # those are still at hand


def test_move_that_no_night_settles_is_given_up():
    recorded, outcome = a_night(noisy(0, 1.01), SMALL)
    reruns = outcome.reruns
    for seed in range(1, MOST_NIGHTS):
        assert recorded[0].state is State.SUSPECT and len(reruns[0].sessions) == seed
        recorded, outcome = night_again(recorded, reruns, noisy(seed, 1.01), budget=1e6, until=1e9)
        reruns = outcome.reruns
    assert recorded[0].state is State.RESOLVED and "measured again in turns" in recorded[0].decisions[-1].reason
