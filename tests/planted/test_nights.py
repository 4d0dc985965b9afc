"""The outcome of a run on the planted history."""

import pytest

from tests.planted import nights
from tests.planted.history import Kind, Planted

KINDS = {
    "a": Kind.START,
    "b": Kind.SLOWER,
    "c": Kind.UNBUILDABLE,
    "d": Kind.WRONG,
    "e": Kind.FASTER,
    "f": Kind.SAME_SPEED,
}
HISTORY = [Planted(commit=name, subject=kind.name, kind=kind, path="", factor=None) for name, kind in KINDS.items()]


def finding(*commits, kind="regression", state="confirmed"):
    culprit = commits[0] if len(commits) == 1 else None
    return {"kind": kind, "state": state, "commits": commits, "culprit": culprit, "series": [{"ratio": 1.1}]}


def outcome(**verdict):
    groups = ("regressions", "improvements", "resolved", "suspects", "environment", "failed_builds", "failures")
    whole = {key: [] for key in groups} | verdict
    return nights.outcome(HISTORY, [nights.Ended(status=status, seconds=90, verdict=whole) for status in (0, 10)])


@pytest.mark.parametrize(
    ("verdict", "result"),
    [
        ({"regressions": [finding("b")]}, "exactly"),
        ({"resolved": [finding("b")]}, "exactly"),
        ({"regressions": [finding("b", "c")]}, "among 2"),
        ({"suspects": [finding("b", state="suspect")]}, "suspected"),
        ({"improvements": [finding("b", kind="improvement")]}, "no"),
        ({}, "no"),
    ],
)
def test_outcome_of_a_planted_slow_down(verdict, result):
    assert outcome(**verdict)["found"]["SLOWER"] == result


def test_commits_without_a_time_are_named_or_not():
    failed = {"failed_builds": [{"what": "c", "why": ""}], "failures": [{"what": "matmul native", "why": ""}]}
    for verdict, word in (({}, "no"), (failed, "named")):
        result = outcome(**verdict)["found"]
        assert (result["UNBUILDABLE"], result["WRONG"]) == (word, word)


def test_innocent_commit_that_is_confirmed_is_accused():
    run = outcome(regressions=[finding("b"), finding("f")], improvements=[finding("e", "f", kind="improvement")])
    assert run["accused"] == ["regression confirmed ['f'] 1.100"]
    assert (run["status"], run["minutes"]) == ([0, 10], 3.0)
