"""Every exit status, and every report of a verdict: golden files, well-formedness, hostile text."""

import dataclasses
import itertools
import json
import re
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.findings import verdict_formats, verdict_text
from kernel_velocity.findings.finding import Affected, Decision, Kind, State
from kernel_velocity.findings.verdict import Failed, SeriesComparison, Verdict, exit_status
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.records import Commit
from kernel_velocity.series.silence import Stale, Superseded
from kernel_velocity.stats.sequential import Answer
from tests.findings.nights import LINE, WHEN, case, finding, identity
from tests.golden import check_golden

GOLDEN = Path(__file__).parent / "golden" / "verdict"
FEED = "https://example.org/kernel-velocity/feed.atom"
HOSTILE = "Fix <script>alert(1)</script> `x` | ]]> & [a](javascript:b) @everyone #1 \x1b[31m\x00\ud800\n\n## not a head"
FAILED = Failed(what="matmul.Cpu.time_hot native float32-5M", why="WrongResultError: max_error 3")


def verdict(**changed):
    return Verdict(**({"title": "nightly on bench-1", "when": WHEN, "measured": 64} | changed))


def commit(sha, subject="Unroll the inner loop", author="Ada"):
    return Commit(sha=sha, parents=(), author=author, date=WHEN, committed=WHEN, message=subject)


def compared(answer, **changed):
    known = (
        {} if answer is Answer.UNKNOWN else {"ratio": 1.031, "low": 1.024, "high": 1.038, "p": 0.00016, "rounds": 16}
    )
    return SeriesComparison(identity=identity(), answer=answer, **(known | changed))


def environment():
    affected = tuple(Affected(identity=identity(case=f"float32-{size}M"), ratio=1.02) for size in (1, 5))
    return finding(
        kind=Kind.ENVIRONMENT,
        state=State.ENVIRONMENT,
        id="bench-1-cpu-environment-20261122-030000",
        commits=(),
        subject="bench-1",
        anchor=None,
        how="2 series moved at once, in the middle by a factor of 1.02",
        ruled_out=(),
        changes={"driver": ("550", "560")},
        affected=affected,
    )


REGRESSION = finding()
SUSPECT = finding(state=State.SUSPECT, id="matmul-regression-s")
BETTER_SUSPECT = finding(kind=Kind.IMPROVEMENT, state=State.SUSPECT, id="matmul-improvement-s")
VANISHED = finding(kind=Kind.VANISHED, state=State.NEW, id="matmul-vanished-1")
IMPROVEMENT = finding(kind=Kind.IMPROVEMENT)
# Each exit status with what brings it about, in the contract's order.
CAUSES = {
    2: {"errors": ("results/bench-1/x.json: not JSON",)},
    22: {"measured": 0},
    10: {"findings": (REGRESSION,)},
    21: {"failed_builds": (Failed(what=LINE[30][:SHORT], why="kernel.cpp:3:1: error: expected ';'"),)},
    20: {"failures": (FAILED,)},
    11: {"findings": (SUSPECT,)},
    30: {"findings": (environment(),)},
}


@pytest.mark.parametrize("status", CAUSES)
def test_each_exit_status_has_its_cause(status):
    assert exit_status(verdict(**CAUSES[status])) == status


@pytest.mark.parametrize(("first", "second"), tuple(itertools.combinations(CAUSES, 2)))
def test_of_two_exit_statuses_the_first_of_the_contract_holds(first, second):
    both = {
        key: CAUSES[first].get(key, ()) + CAUSES[second].get(key, ())
        for key in {*CAUSES[first], *CAUSES[second]} - {"measured"}
    }
    nothing = {"measured": 0} if 22 in (first, second) else {}
    assert exit_status(verdict(**both, **nothing)) == first


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({}, 0),
        ({"findings": (IMPROVEMENT,)}, 0),
        ({"findings": (BETTER_SUSPECT,)}, 0),
        ({"findings": (VANISHED,)}, 11),
        ({"comparisons": (compared(Answer.UNKNOWN),)}, 0),
        ({"comparisons": (compared(Answer.SAME), compared(Answer.DIFFERENT))}, 0),  # what differs is a finding's to say
        ({"notes": ("a note",)}, 0),
        *(({"findings": (finding(state=state),)}, 0) for state in (State.EXPECTED, State.ACKNOWLEDGED, State.RESOLVED)),
        ({"findings": (finding(state=State.METHOD),)}, 0),
        ({"findings": (finding(state=State.NEW),)}, 11),
    ],
)
def test_what_is_clean_and_what_waits(changed, status):
    found = verdict(**changed)
    assert exit_status(found) == status
    assert verdict_text.summary(found).startswith("clean") == (status == 0)


@pytest.mark.parametrize(
    ("findings", "said"),
    [
        ((BETTER_SUSPECT,), "clean, 1 unconfirmed improvement"),
        ((BETTER_SUSPECT, IMPROVEMENT), "clean, 1 confirmed improvement, 1 unconfirmed improvement"),
        ((SUSPECT, BETTER_SUSPECT), "1 suspect, 1 unconfirmed improvement"),
    ],
)
def test_what_may_be_an_improvement_makes_no_clean_night_suspect(findings, said):
    assert verdict_text.summary(verdict(findings=findings)) == said


@given(names=st.lists(st.sampled_from([2, 22, 10, 21, 20, 11, 30]), unique=True))
def test_the_summary_is_never_empty_and_says_nothing_measured(names):
    changed = {}
    for name in names:
        for key, value in CAUSES[name].items():
            changed[key] = value if key == "measured" else changed.get(key, ()) + value
    text = verdict_text.summary(verdict(**changed))
    assert text and ("nothing was measured" in text) == (22 in names)


def whole():
    """Return a verdict with something of everything, the worst not first."""
    many = tuple(
        case(ratio=1.03 + 0.01 * number, machine=machine, case=f"float32-{number + 1}M").affected
        for machine in ("bench-1", "bench-2")
        for number in range(5)
    )
    small = finding(id="matmul-regression-small", commits=LINE[31:34], affected=(case(ratio=1.021, p=None).affected,))
    acknowledged = finding(
        id="matmul-regression-old",
        state=State.ACKNOWLEDGED,
        decisions=(Decision(when=WHEN, who="Ada", state=State.ACKNOWLEDGED, reason="wait", until=date(2027, 1, 1)),),
    )
    return verdict(
        findings=(
            small,
            dataclasses.replace(REGRESSION, affected=many),
            SUSPECT,
            BETTER_SUSPECT,
            VANISHED,
            IMPROVEMENT,
            environment(),
            acknowledged,
            finding(id="matmul-regression-gone", state=State.RESOLVED),
        ),
        comparisons=tuple(map(compared, Answer)),
        failures=(FAILED,),
        failed_builds=CAUSES[21]["failed_builds"],
        stale=(Stale(machine="bench-3", series=(identity(machine="bench-3"),), days=9.04, whole=True),),
        superseded=(Superseded(old=identity(), new=identity(method="n"), what="method"),),
        errors=CAUSES[2]["errors"],
        notes=("the clone is shallow",),
        commits={
            LINE[30]: commit(LINE[30]),
            LINE[31]: commit(LINE[31], "Name | the `tiles`"),
            LINE[32]: commit(LINE[32]),
        },
    )


FORMATS = {
    "clean.md": lambda: verdict_text.as_markdown(verdict(comparisons=(compared(Answer.SAME),))),
    "nothing.md": lambda: verdict_text.as_markdown(verdict(measured=0)),
    "whole.md": lambda: verdict_text.as_markdown(whole()),
    "whole.json": lambda: verdict_formats.as_json(whole()),
    "whole.junit.xml": lambda: verdict_formats.as_junit(whole()),
    "whole.atom": lambda: verdict_formats.as_atom(whole(), feed=FEED, site="https://example.org/"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_reports_are_as_they_were_accepted(name, accept):
    check_golden(GOLDEN / name, FORMATS[name](), accept=accept)


def hostile():
    said = finding(
        subject=HOSTILE,
        how=HOSTILE,
        ruled_out=(HOSTILE,),
        changes={HOSTILE: (HOSTILE, HOSTILE)},
        affected=(dataclasses.replace(case().affected, identity=identity(machine=HOSTILE, case=HOSTILE)),) * 2,
        decisions=(Decision(when=WHEN, who=HOSTILE, state=State.CONFIRMED, reason=HOSTILE),),
    )
    states = (State.CONFIRMED, State.SUSPECT, State.EXPECTED, State.RESOLVED)
    return verdict(
        title=HOSTILE,
        findings=tuple(dataclasses.replace(said, state=state, id=f"h-{state.value}") for state in states),
        comparisons=(dataclasses.replace(compared(Answer.SAME), identity=identity(case=HOSTILE)),),
        failures=(Failed(what=HOSTILE, why=HOSTILE),),
        failed_builds=(Failed(what=HOSTILE, why=HOSTILE),),
        errors=(HOSTILE,),
        notes=(HOSTILE,),
        commits={LINE[30]: commit(LINE[30], HOSTILE, HOSTILE)},
    )


def test_hostile_text_is_no_markup_in_markdown():
    text = verdict_text.as_markdown(hostile())
    assert "\n## not" not in text
    outside = re.sub("<code>.*?</code>", "", text)
    for mark in ("<script", "@everyone", "](", "\x1b", "\x00", "\ud800"):
        assert mark not in outside
    assert "<script" not in text
    text.encode()


@pytest.mark.parametrize("found", [whole(), hostile(), verdict(), verdict(measured=0)])
def test_xml_is_well_formed_and_json_is_json(found):
    feed = ElementTree.fromstring(verdict_formats.as_atom(found, feed=FEED))
    suite = ElementTree.fromstring(verdict_formats.as_junit(found))
    assert suite.tag == "testsuite" and feed.tag == "{http://www.w3.org/2005/Atom}feed"
    data = json.loads(verdict_formats.as_json(found))
    assert (data["exit_status"], data["title"]) == (exit_status(found), found.title)


def test_the_feed_has_what_atom_wants_and_no_id_twice():
    feed = ElementTree.fromstring(verdict_formats.as_atom(whole(), feed=FEED))
    atom = {"a": "http://www.w3.org/2005/Atom"}
    for name in ("a:id", "a:title", "a:updated", "a:author/a:name"):
        assert feed.find(name, atom).text
    entries = feed.findall("a:entry", atom)
    ids = [entry.find("a:id", atom).text for entry in entries]
    assert len(set(ids)) == len(whole().findings) == len(entries)
    for entry in entries:
        assert datetime.fromisoformat(entry.find("a:updated", atom).text).tzinfo is not None


def test_the_feed_is_in_order_of_time_whatever_the_zone():
    late = Decision(when=WHEN, who="a", state=State.CONFIRMED, reason="r")  # 03:00 UTC
    early = dataclasses.replace(late, when=datetime(2026, 11, 22, 4, 0, tzinfo=timezone(timedelta(hours=2))))
    items = finding(id="a-early", decisions=(early,)), finding(id="b-late", decisions=(late,))
    feed = verdict_formats.as_atom(verdict(findings=items), feed=FEED)
    assert feed.index("b-late") < feed.index("a-early")
    assert "<updated>2026-11-22T02:00:00+00:00</updated>" in feed


def test_junit_counts_what_it_holds_and_fails_for_every_bad_status():
    for status, changed in CAUSES.items():
        suite = ElementTree.fromstring(verdict_formats.as_junit(verdict(**changed)))
        bad = int(suite.get("failures")) + int(suite.get("errors"))
        assert bool(bad) == (status in (2, 22, 10, 21, 20)), status
        assert int(suite.get("skipped")) == (status == 11)
        assert int(suite.get("tests")) == len(suite.findall("testcase")) == 1


def test_worst_first_and_never_too_long():
    items = tuple(
        finding(id=f"matmul-regression-{number:03}", affected=(case(ratio=1.01 + number / 1000).affected,))
        for number in range(60)
    )
    text = verdict_text.as_markdown(verdict(findings=items))
    assert text.index("matmul-regression-059") < text.index("matmul-regression-058")
    assert "and 35 more." in text and "matmul-regression-000" not in text
    assert len(text) < 65_536


def test_unknown_facts_are_left_out():
    bare = finding(anchor=None, how="", ruled_out=(), commits=LINE[30:32], affected=(), decisions=())
    text = verdict_text.as_markdown(verdict(findings=(bare,)))
    assert "no series known" in text and "confirmed:" not in text
    assert "one of 2 commits: `0000002e`; `0000002f`" in text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.0, "unchanged"),
        (1.03, "+3.00%"),
        (0.8, "-20.0%"),
        (1.00001, "+0.00100%"),
        (12.5, "x12.5"),
        (0.05, "x0.0500"),
        (9.99, "+899%"),
    ],
)
def test_a_change_is_never_rounded_to_nothing(ratio, text):
    from kernel_velocity.findings.text import change

    assert change(ratio) == text


def test_when_has_a_zone():
    assert "03:00 UTC" in verdict_text.as_markdown(verdict(when=datetime(2026, 11, 22, 3, tzinfo=UTC)))
