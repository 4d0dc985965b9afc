"""The evidence of findings: what a night keeps of its re-runs, as values and as files."""

import errno
import json
import os
from dataclasses import replace

import numpy as np
import pytest

from kernel_velocity.errors import ResultsError
from kernel_velocity.findings import evidence, evidence_store, store
from kernel_velocity.findings.evidence import MOST_RERUNS, Evidence, Purpose
from kernel_velocity.findings.finding import State
from kernel_velocity.nightly import conclude
from kernel_velocity.nightly.confirm import look_again
from kernel_velocity.stats import sequential, two_samples
from kernel_velocity.stats.sequential import Answer
from tests.ab.simulated_machine import Machine
from tests.findings import nights
from tests.nightly.test_night_judging import LINE, STEP, a_night, history, judged, slower_from

MACHINE = "box"


def confirmed(**machine):
    """Return a night's finding of a planted 10%, and what was kept of it."""
    found, outcome = a_night(Machine(speed=slower_from(20, 1.1), **machine), history(STEP, tonight=1))
    return found[0], outcome.evidence


def bisected():
    """Return a night's finding of a commit among six of which one was measured, and what was kept of it."""
    series = [history(STEP, tonight=1, places=[*range(20), 25], seed=seed, case=f"{seed}M") for seed in range(2)]
    found, outcome = a_night(Machine(speed=slower_from(22, 1.1), codes={LINE[21]: "x", LINE[20]: "x"}), *series)
    return found[0], outcome.evidence


def test_every_round_that_the_answer_rests_on_is_kept_with_what_the_test_said():
    finding, kept = confirmed()
    (rerun,) = evidence.of(finding, kept).reruns
    assert (rerun.before, rerun.after, rerun.commits) == (LINE[19], LINE[20], (LINE[20],))
    assert (rerun.purpose, rerun.answer, rerun.rounds) == (Purpose.CONFIRM, Answer.DIFFERENT, 8)
    before, after_ = (np.log(side) for side in rerun.compared)
    assert sequential.compare(before, after_).ratio == pytest.approx(finding.worst.ratio)
    (look,) = rerun.looks
    assert (look.rounds, look.p, look.answer) == (8, finding.worst.p, Answer.DIFFERENT)
    assert (look.low, look.high) == (finding.worst.low, finding.worst.high)
    assert look.least < look.low < look.ratio < look.high < look.most
    assert all(one < other for one, other in zip(rerun.sides[0].began, rerun.sides[1].began, strict=True))


def test_the_path_of_p_is_kept_look_by_look():
    """1.3% in 1.2% of noise takes more than the first eight rounds."""
    _, outcome = a_night(Machine(speed=slower_from(20, 1.013), noise=0.012, seed=3), history(STEP, tonight=1))
    (rerun,) = outcome.reruns
    assert [look.rounds for look in rerun.looks] == [8, 16, 32, 64][: len(rerun.looks)] and len(rerun.looks) > 1
    assert [look.answer for look in rerun.looks[:-1]] == [Answer.UNKNOWN] * (len(rerun.looks) - 1)
    assert rerun.looks[-1].rounds == rerun.rounds == len(rerun.sides[1].flags)


def test_the_wide_interval_is_that_of_the_tests_threshold():
    """Its end lies at 1 exactly where p is at the threshold: the test and the picture cannot say different things."""
    for seed in range(40):
        _, outcome = a_night(Machine(speed=slower_from(20, 1.012), seed=seed), history(STEP, tonight=1))
        for look in outcome.reruns[0].looks:
            assert (look.p < two_samples.P) == (look.least > 1 or look.most < 1)


def test_adjusted_rounds_are_kept_beside_the_raw_ones():
    _, kept = confirmed(mood=0.05)
    (rerun,) = kept.reruns
    assert rerun.is_adjusted and rerun.compared[0] == rerun.sides[0].adjusted != rerun.sides[0].seconds
    spread = [np.log(side).std() for side in (rerun.sides[0].adjusted, rerun.sides[0].seconds)]
    assert spread[0] < spread[1]


def test_the_path_of_a_bisection_is_kept_and_the_check_of_its_culprit():
    finding, kept = bisected()
    own = evidence.of(finding, kept)
    (path,) = own.paths
    assert (path.good, path.bad, path.left) == (LINE[19], LINE[25], (LINE[22],))
    assert path.tried[0].commit == LINE[25] and path.tried[0].slow is True
    assert {step.commit: step.slow for step in path.tried}[LINE[22]] is True
    culprits = [item for item in own.reruns if item.purpose is Purpose.CULPRIT]
    assert [(item.before, item.after) for item in culprits] == [(LINE[21], LINE[22])] * 2
    assert {item.identity for item in culprits} == {item.identity for item in finding.affected}
    assert culprits[0].code == ("x", None)


def test_evidence_is_of_the_finding_whose_commits_and_direction_it_has():
    finding, kept = confirmed()
    assert not evidence.of(replace(finding, commits=(LINE[3],)), kept)
    other = replace(finding.affected[0], identity=nights.identity())
    assert not evidence.of(replace(finding, affected=(other,)), kept)
    faster = replace(finding.affected[0], ratio=0.9)
    assert not evidence.of(replace(finding, affected=(faster,)), kept)


def test_what_refuted_a_suspect_is_its_evidence():
    series = history(STEP, tonight=1)
    known, _ = a_night(Machine(noise=0.002), series, budget=0.0)
    (found,), outcome = a_night(Machine(noise=0.002), series, known=known)
    assert found.state is State.RESOLVED
    (rerun,) = evidence.of(found, outcome.evidence).reruns
    assert rerun.answer is Answer.SAME and rerun.rounds == 8


def test_what_could_not_be_measured_is_kept_with_its_reason():
    found, outcome = a_night(Machine(unbuildable=(LINE[19],)), history(STEP, tonight=1))
    (rerun,) = evidence.of(found[0], outcome.evidence).reruns
    assert (rerun.rounds, rerun.looks, rerun.effect) == (0, (), None) and "does not build" in rerun.reason


def test_keeping_measures_nothing_more():
    machine = Machine(speed=slower_from(20, 1.1))
    look_again(judged(history(STEP, tonight=1)).moves, machine, budget=1e6)
    assert [asked[3] for asked in machine.asked] == [8]


def test_newer_evidence_of_the_same_commits_replaces_the_older():
    finding, first = confirmed()
    _, second = confirmed(seed=1)
    assert evidence.joined(first, second).reruns == second.reruns
    elsewhere = replace(first.reruns[0], before=LINE[3])
    assert len(evidence.joined(Evidence(reruns=(elsewhere,)), second).reruns) == 2
    assert evidence.newest(first.reruns) == first.reruns[0].sides[1].began[-1]
    assert finding.anchor == LINE[19]


def test_a_file_is_bounded_and_says_what_there_was_no_room_for(tmp_path):
    _, kept = confirmed()
    whole = kept.reruns[0]
    large = replace(whole, sides=tuple(_repeated(side, 8) for side in whole.sides), looks=whole.looks * 4)
    many = [
        replace(large, identity=nights.identity(case=f"float32-{number}M"), reason="x" * evidence.MOST_TEXT)
        for number in range(100)
    ]
    weak = replace(whole, looks=(replace(whole.looks[0], ratio=1.0001),))
    path = evidence_store.add(tmp_path, "id", MACHINE, Evidence(reruns=(weak, *many)))
    ((machine, again),) = evidence_store.read(tmp_path, "id")[0].items()
    assert (machine, len(again.reruns), again.left_out) == (MACHINE, MOST_RERUNS, 101 - MOST_RERUNS)
    assert all(item.effect == large.effect for item in again.reruns)
    assert path.stat().st_size < 400_000


def _repeated(side, times):
    return replace(
        side,
        began=side.began * times,
        seconds=side.seconds * times,
        flags=side.flags * times,
        adjusted=side.adjusted * times,
    )


@pytest.mark.parametrize("make", [confirmed, bisected, lambda: confirmed(mood=0.05)])
def test_what_is_written_is_read_again(tmp_path, make):
    finding, kept = make()
    path = evidence_store.add(tmp_path, finding.id, MACHINE, kept)
    assert path == tmp_path / "findings" / "evidence" / finding.id / "box.json"
    first, problems = evidence_store.read(tmp_path, finding.id)
    assert problems == ()
    text = path.read_text()
    assert evidence_store.as_text(first[MACHINE]) == text  # rounded once, and no further
    assert [item.answer for item in first[MACHINE].reruns] == [
        item.answer for item in evidence.joined(kept, kept).reruns
    ]
    evidence_store.add(tmp_path, finding.id, MACHINE, kept)
    assert path.read_text() == text


def test_of_a_finding_without_evidence_nothing_is_read(tmp_path):
    assert evidence_store.read(tmp_path, "none") == ({}, ())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda raw: raw.update(format=2), "format: 1, or a newer kernel-velocity, is wanted, got 2"),
        (lambda raw: raw.update(reruns={}), "reruns: a list of objects is wanted, got {}"),
        (lambda raw: raw["reruns"].append(3), "reruns[1].(reruns[1]): an object is wanted, got '3'"),
        (lambda raw: raw["reruns"][0].pop("before"), "reruns[0].before: a text is wanted, got nothing"),
        (lambda raw: raw["reruns"][0].update(answer="no"), "reruns[0].answer: one of the words"),
        (lambda raw: raw["reruns"][0].update(code=[1, 2]), "reruns[0].code: a list of two hashes"),
        (lambda raw: raw["reruns"][0]["looks"][0].update(p="x"), "reruns[0].looks[0].p: a number is wanted, got 'x'"),
        (
            lambda raw: raw["reruns"][0]["looks"][0].update(ratio=0),
            "looks[0].ratio: a number from 1e-12 to 1e+11 is wanted",
        ),
        (lambda raw: raw["reruns"][0]["sides"].pop(), "reruns[0].sides: two sides"),
        (lambda raw: raw["reruns"][0]["sides"][0]["seconds"].pop(), "sides[0].seconds: as many rounds"),
        (lambda raw: raw["reruns"][0]["sides"][1].update(began=["now"]), "sides[1].began: a list of numbers from"),
        (lambda raw: raw["reruns"][0]["sides"][1].update(began=[1e300] * 8), "sides[1].began: a list of numbers from"),
        (lambda raw: raw["reruns"][0]["sides"][1].update(seconds=[1e-320] * 8), "sides[1].seconds: a list of numbers"),
        (lambda raw: raw.update(left_out=-1), "left_out: a whole number is wanted, got -1"),
    ],
)
def test_an_entry_that_says_something_else_is_refused_by_its_place(tmp_path, change, said):
    finding, kept = confirmed()
    path = evidence_store.add(tmp_path, finding.id, MACHINE, kept)
    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))
    found, (problem,) = evidence_store.read(tmp_path, finding.id)
    assert found == {} and problem.startswith(f"{path}: ") and said in problem and "\n" not in problem
    with pytest.raises(ResultsError):
        evidence_store.add(tmp_path, finding.id, MACHINE, kept)
    assert json.loads(path.read_text()) == raw  # not replaced


@pytest.mark.parametrize("text", ["", "{", "\x00", "<<<<<<< HEAD\n"])
def test_what_is_no_json_is_named(tmp_path, text):
    path = evidence_store.path_of(tmp_path, "id", MACHINE)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    _, (problem,) = evidence_store.read(tmp_path, "id")
    assert str(path) in problem and "remove it" in problem


def test_a_night_keeps_what_is_a_findings_and_tells_of_a_file_that_it_cannot_read(tmp_path):
    finding, kept = confirmed()
    assert conclude.keep(tmp_path, MACHINE, [finding, nights.finding()], kept) == []
    assert [path.parent.name for path in tmp_path.rglob("*.json")] == [finding.id]
    evidence_store.path_of(tmp_path, finding.id, MACHINE).write_text("[")
    (line,) = conclude.keep(tmp_path, MACHINE, [finding], kept)
    assert "not JSON" in line and line.endswith("is not kept")


def test_a_full_disk_is_told_and_takes_no_verdict_away(tmp_path, monkeypatch):
    found, kept = confirmed()
    assert conclude.write(tmp_path, MACHINE, [found], kept, []) == ([], [])
    assert store.path_of(tmp_path, found).exists()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(conclude.store, "write", full)
    evidence_store.path_of(tmp_path, found.id, MACHINE).write_text("[")
    before = [replace(found, subject="as it was")]
    (blocked,), (unwritten,) = conclude.write(tmp_path, MACHINE, [found], kept, before)
    assert "not JSON" in blocked
    assert "No space left on device" in unwritten and "the next start" in unwritten
