"""The verdict of a night: exit statuses, and every report: golden files, well-formedness, hostile text."""

import dataclasses
import itertools
import json
import re
from datetime import date
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kernel_velocity.findings.finding import Affected, Decision, Kind, State
from kernel_velocity.findings.report import as_json, as_junit, as_markdown
from kernel_velocity.findings.text import change
from kernel_velocity.findings.verdict import Failed, NightVerdict, as_report, exit_status, summary
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.records import Commit
from kernel_velocity.stats.sequential import Answer, Comparison
from kernel_velocity.verdict.silence import Stale, Superseded
from tests.findings.nights import LINE, WHEN, case, finding, identity
from tests.golden import check_golden

GOLDEN = Path(__file__).parent / "golden" / "verdict"
HOSTILE = "Fix <script>alert(1)</script> `x` | ]]> & [a](javascript:b) @everyone #1 \x1b[31m\x00\ud800\n\n## not a head"
FAILED = Failed(what="matmul.Cpu.time_hot native float32-5M", why="WrongResultError: max_error 3")


def verdict(**changed):
    return NightVerdict(**({"title": "nightly on bench-1", "when": WHEN, "measured": 64} | changed))


def commit(sha, subject="Unroll the inner loop", author="Ada"):
    return Commit(sha=sha, parents=(), author=author, date=WHEN, committed=WHEN, message=subject)


def compared(answer, **of):
    findings = (
        {} if answer is Answer.UNKNOWN else {"ratio": 1.031, "low": 1.024, "high": 1.038, "p": 0.00016, "rounds": 16}
    )
    return identity(**of), Comparison(answer=answer, reason="", **findings)


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
# Each exit status with its cause, in the contract's order (tests/test_statuses.py)
CAUSES = {
    2: {"errors": ("results/bench-1/x.json: not JSON",)},
    22: {"measured": 0},
    10: {"findings": (REGRESSION,)},
    21: {"failed_builds": (Failed(what=LINE[30][:SHORT], why="kernel.cpp:3:1: error: expected ';'"),)},
    20: {"failures": (FAILED,)},
    11: {"findings": (SUSPECT,)},
    30: {"findings": (environment(),)},
}


@pytest.mark.parametrize(("first", "second"), tuple(itertools.combinations_with_replacement(CAUSES, 2)))
def test_exit_status_is_the_first_of_the_contract(first, second):
    both = {
        key: value if key == "measured" else CAUSES[first].get(key, ()) + CAUSES[second].get(key, ())
        for key, value in (CAUSES[first] | CAUSES[second]).items()
    }
    assert exit_status(verdict(**both)) == first
    assert ("nothing was measured" in summary(verdict(**both))) == (22 in (first, second))


@pytest.mark.parametrize(
    ("changed", "status", "line"),
    [
        ({}, 0, "clean"),
        ({"findings": (IMPROVEMENT,)}, 0, "clean, 1 confirmed improvement"),
        ({"findings": (BETTER_SUSPECT,)}, 0, "clean, 1 unconfirmed improvement"),
        ({"findings": (SUSPECT, BETTER_SUSPECT)}, 11, "1 suspect, 1 unconfirmed improvement"),
        ({"findings": (VANISHED,)}, 11, "1 vanished series"),
        ({"findings": (finding(state=State.NEW),)}, 11, "1 suspect"),
        ({"comparisons": (compared(Answer.UNKNOWN), compared(Answer.DIFFERENT))}, 0, "clean, 1 unanswered comparison"),
        *(
            ({"findings": (finding(state=state),)}, 0, "clean")
            for state in (State.EXPECTED, State.ACKNOWLEDGED, State.RESOLVED, State.METHOD)
        ),
    ],
)
def test_summary_says_clean_where_the_status_is_0(changed, status, line):
    assert (exit_status(verdict(**changed)), summary(verdict(**changed))) == (status, line)


def whole():
    """Return a verdict with every part, the worst not first."""
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


REPORTS = {
    "nothing.md": lambda: as_markdown(as_report(verdict(measured=0))),
    "whole.md": lambda: as_markdown(as_report(whole())),
    "whole.json": lambda: as_json(as_report(whole())),
    "whole.junit.xml": lambda: as_junit(as_report(whole())),
}


@pytest.mark.parametrize("name", REPORTS)
def test_report_is_golden(name, accept):
    check_golden(GOLDEN / name, REPORTS[name](), accept=accept)


def hostile():
    attack = finding(
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
        findings=tuple(dataclasses.replace(attack, state=state, id=f"h-{state.value}") for state in states),
        comparisons=(compared(Answer.SAME, case=HOSTILE),),
        failures=(Failed(what=HOSTILE, why=HOSTILE),),
        failed_builds=(Failed(what=HOSTILE, why=HOSTILE),),
        errors=(HOSTILE,),
        notes=(HOSTILE,),
        commits={LINE[30]: commit(LINE[30], HOSTILE, HOSTILE)},
    )


def test_hostile_text_is_no_markup():
    text = as_markdown(as_report(hostile()))
    assert "\n## not" not in text
    outside = re.sub("<code>.*?</code>", "", re.sub("\n```text\n.*?\n```\n", "", text, flags=re.DOTALL))
    assert "```" not in outside
    for mark in ("<script", "@everyone", "](", "\x1b", "\x00", "\ud800"):
        assert mark not in outside
    text.encode()
    assert ElementTree.fromstring(as_junit(as_report(hostile()))).get("name").startswith("Fix <script>")
    assert json.loads(as_json(as_report(hostile())))["title"] == HOSTILE


def test_markdown_has_the_worst_first_and_is_never_too_long():
    findings = tuple(
        finding(id=f"matmul-regression-{number:03}", affected=(case(ratio=1.01 + number / 1000).affected,))
        for number in range(60)
    )
    text = as_markdown(as_report(verdict(findings=findings)))
    assert text.index("matmul-regression-059") < text.index("matmul-regression-058")
    assert "and 35 more." in text and "matmul-regression-000" not in text
    assert len(text) < 65_536


def test_change_is_never_rounded_to_nothing():
    texts = ["unchanged", "+3.00%", "-20.0%", "×12.5", "×0.0500"]
    assert list(map(change, (1.0, 1.03, 0.8, 12.5, 0.05))) == texts
