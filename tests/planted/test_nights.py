"""What a run on the planted history is said to have found."""

import pytest

from tests.planted import nights
from tests.planted.history import Kind, Planted, Verdict

EMPTY = {"regressions": [], "improvements": [], "resolved": [], "suspects": [], "environment": []}


def planted(commit, kind, subject):
    return Planted(commit=commit, subject=subject, kind=kind, path="", factor=None, verdict=Verdict.CLEAN)


HISTORY = [
    planted("a", Kind.START, "start"),
    planted("b", Kind.SLOWER, "slower"),
    planted("c", Kind.UNBUILDABLE, "unbuildable"),
    planted("d", Kind.WRONG, "wrong"),
    planted("e", Kind.FASTER, "faster"),
    planted("f", Kind.SAME_SPEED, "innocent"),
]


def finding(*commits, kind="regression", state="confirmed"):
    culprit = commits[0] if len(commits) == 1 else None
    return {"kind": kind, "state": state, "commits": commits, "culprit": culprit, "series": [{"ratio": 1.1}]}


def outcome(**verdict):
    told = {**EMPTY, "failed_builds": [], "failures": [], **verdict}
    ended = [nights.Ended(status=status, seconds=90, verdict=told) for status in (0, 10)]
    return nights.outcome(HISTORY, ended)


@pytest.mark.parametrize(
    ("verdict", "found"),
    [
        ({"regressions": [finding("b")]}, "exactly"),
        ({"resolved": [finding("b")]}, "exactly"),
        ({"regressions": [finding("b", "c")]}, "among 2"),
        ({"suspects": [finding("b", state="suspect")]}, "suspected"),
        ({"improvements": [finding("b", kind="improvement")]}, "no"),
        ({}, "no"),
    ],
)
def test_a_slow_down_is_found_exactly_among_others_suspected_or_not(verdict, found):
    assert outcome(**verdict)["found"]["slower"] == found


def test_commits_without_a_time_are_named_or_not():
    assert outcome()["found"] | {"slower": "", "faster": ""} == {
        "slower": "",
        "faster": "",
        "unbuildable": "no",
        "wrong": "no",
    }
    named = outcome(failed_builds=[{"what": "c", "why": ""}], failures=[{"what": "matmul native", "why": ""}])
    assert (named["found"]["unbuildable"], named["found"]["wrong"]) == ("named", "named")


def test_who_is_innocent_and_confirmed_is_accused():
    told = outcome(regressions=[finding("b"), finding("f")], improvements=[finding("e", "f", kind="improvement")])
    assert told["accused"] == ["regression confirmed ['f'] 1.100"]
    assert told["status"] == [0, 10]
    assert told["minutes"] == 3.0
