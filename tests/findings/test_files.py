"""The files of findings, expectations, evidence and verdicts: round trips, errors that name the field, merges."""

import dataclasses
import json
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.errors import ResultsError
from kernel_velocity.findings import evidence, store
from kernel_velocity.findings.decisions import Expectation
from kernel_velocity.findings.evidence import MOST_RERUNS, Evidence
from kernel_velocity.findings.finding import Decision, Finding, State
from kernel_velocity.findings.verdict import Failed, NightVerdict
from tests.commands import git
from tests.findings import evidenced
from tests.findings.nights import LINE, WHEN, case, finding, identity

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
ACKNOWLEDGED = Decision(when=WHEN, who="ada", state=State.ACKNOWLEDGED, reason="wait", until=date(2027, 1, 1))


def full(**changed):
    """Return a finding with every field."""
    whole = {"state": State.ACKNOWLEDGED, "changes": {"driver": ("550", "560")}}
    whole |= {"decisions": (*finding().decisions, ACKNOWLEDGED)}
    return finding(**(whole | changed))


def expectation(**changed):
    whole = {"id": "expect-1", "commits": LINE[1:3], "bench": "matmul", "reason": "r", "who": "ada", "when": WHEN}
    return Expectation(**(whole | changed))


@pytest.mark.parametrize(
    "record",
    [
        finding(),
        full(among=(6, 2)),
        finding(commits=(), anchor=None, affected=(), decisions=()),
        expectation(),
        expectation(most=1.03),
    ],
)
def test_record_is_read_as_it_was_written(tmp_path, record):
    path = store.write(tmp_path, record)
    folder = "findings" if isinstance(record, Finding) else "findings/expected"
    assert path == tmp_path / folder / f"{record.id}.toml"
    stored = store.read(tmp_path)
    assert ([*stored.findings, *stored.expectations], stored.problems) == ([record], ())
    inode = path.stat().st_ino
    store.write(tmp_path, record)
    assert path.stat().st_ino == inode  # an unchanged file is left alone


@settings(max_examples=40)
@given(who=TEXT, reason=TEXT, how=TEXT, name=TEXT)
def test_any_text_is_read_as_it_was_written(who, reason, how, name):
    decision = Decision(when=WHEN, who=who, state=State.NEW, reason=reason)
    record = finding(how=how, ruled_out=(reason,), decisions=(decision,), changes={name: (who, how)})
    assert store.parse(Finding, store.as_text(record), Path(f"{record.id}.toml")) == record


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('kind = "regression"', 'kind = "regresion"', "kind: one of regression, improvement, environment, vanished is"),
        ('id = "', 'id = "other-', "id: the file's name, "),
        ('id = "', 'id = "A', "id: an id of lower case letters"),
        ("found = 2026-11-22 03:00:00+00:00", "found = 2026-11-22 03:00:00", "found: a time with its zone"),
        ("subject = ", "subjekt = ", "subject: a text is wanted, got nothing"),
        ("how = ", "why = ", "why: one of among, anchor, bad, changes"),
        ('    "0000002e', '    "xyz', "commits[0]: a full hash of a commit is wanted, got 'xyz"),
        ("driver = [", "driver = [ 5,", "changes.driver: a list of 2 is wanted, got [5, '550', '560']"),
        ("[[decisions]]", "[decisions]", "not TOML"),
        ("until = 2027-01-01", 'until = "soon"', "decisions[1].until: a day, such as 2026-12-24, is wanted"),
        ('machine = "bench-1"\n', "", "series[0].machine: a text is wanted, got nothing"),
        ("ratio = 1.1\n", "ratio = -1.1\n", "series[0].ratio: a positive number"),
        ("rounds = 16", "rounds = true", "series[0].rounds: a whole number is wanted, got True"),
    ],
)
def test_error_names_the_field(tmp_path, old, new, problem):
    text = store.as_text(full())
    assert old in text
    path = store.path_of(tmp_path, full())
    path.parent.mkdir(parents=True)
    path.write_text(text.replace(old, new))
    stored = store.read(tmp_path)
    assert stored.findings == () and len(stored.problems) == 1
    assert stored.problems[0].startswith(f"{path}: {problem}")
    assert "\n" not in stored.problems[0]


def test_error_of_an_expectation_is_a_bad_expression(tmp_path):
    path = store.write(tmp_path, expectation())
    path.write_text(path.read_text().replace('"matmul"', '"("'))
    assert store.read(tmp_path).problems == (f"{path}: bench: a regular expression is wanted, got '('",)


MEMORY = store.Memory(refuted=(store.Noted(identity=finding().affected[0].identity, commit="a" * 40, ratio=1.03),))


def test_bad_file_costs_no_other(tmp_path):
    store.write(tmp_path, finding())
    night = store.night_record(NightVerdict(title="t", when=WHEN, measured=12, findings=(finding(),)), "good", MEMORY)
    for folder in (tmp_path / "findings", store.write_night(tmp_path, night).parent):
        (folder / "a.toml").write_bytes(b"\xff")
        (folder / "b.toml").write_text("id = 'b'\n<<<<<<< HEAD\n")
        (folder / "c.toml").write_text('machine = "m"\ncolour = "red"\n')
    records, stored = store.read_nights(tmp_path), store.read(tmp_path)
    assert (records[0], stored.findings) == ((night,), (finding(),))
    for problems in (records[1], stored.problems):
        first, second, third = (text.rpartition("/")[2] for text in problems)
        assert first == "a.toml: not UTF-8 at byte 0"
        assert second.startswith("b.toml: not TOML: Invalid statement (at line 2, column 1): a merge was left unfinish")
        assert third.startswith("c.toml: ")


def test_decision_and_new_series_merge_without_conflict(tmp_path):
    git(tmp_path, "init", "-q", "-b", "main")
    before = finding()
    store.write(tmp_path, before)
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "one")
    wider = dataclasses.replace(before, affected=(*before.affected, case(machine="bench-2").affected))
    for branch, record in (("a", full(changes=None)), ("b", wider)):
        git(tmp_path, "checkout", "-q", "-b", branch, "main")
        store.write(tmp_path, record)
        git(tmp_path, "commit", "-qam", branch)
    git(tmp_path, "merge", "-q", "a")
    (merged,) = store.read(tmp_path).findings
    assert (merged.state, merged.machines) == (State.ACKNOWLEDGED, ("bench-1", "bench-2"))


def write_night(results, machine, memory=store.NO_MEMORY, **changed):
    verdict = NightVerdict(**({"title": "t", "when": WHEN, "measured": 1} | changed))
    return store.write_night(results, store.night_record(verdict, machine, memory))


def test_verdict_of_a_later_night_replaces_that_of_its_machine(tmp_path):
    assert store.read_nights(tmp_path) == ((), ())
    for machine, day in (("a", 22), ("b", 23), ("a", 24)):
        path = write_night(tmp_path, machine, when=WHEN.replace(day=day))
    assert path == tmp_path / "findings" / "nights" / "a.toml"
    records, _ = store.read_nights(tmp_path)
    assert [(record.machine, record.when.day, record.summary) for record in records] == [
        ("a", 24, "clean"),
        ("b", 23, "clean"),
    ]


def test_memory_is_of_the_machines_night_before(tmp_path):
    began = WHEN.timestamp() + 3600
    write_night(tmp_path, "m", MEMORY)
    path = write_night(tmp_path, "other")
    assert store.memory_of(tmp_path, "m", began) == (MEMORY, ())
    assert store.memory_of(tmp_path, "other", began) == (store.NO_MEMORY, ())
    assert store.memory_of(tmp_path, "m", began - 7200) == (store.NO_MEMORY, ())  # written by this very night
    path.write_text("machine = 3\n")
    memory, (problem,) = store.memory_of(tmp_path, "m", began)
    assert memory == MEMORY and "other.toml" in problem


def test_verdict_names_a_limited_number_of_failures(tmp_path):
    failures = tuple(Failed(what=f"case {number}", why="wrong \ud800") for number in range(30))
    write_night(tmp_path, "m", failures=failures)
    ((record,), _) = store.read_nights(tmp_path)
    assert len(record.failures) == store.LISTED_FAILURES and record.failures[0] == "case 0: wrong ?"
    assert (record.summary, record.exit_status, record.measured) == ("30 failed benchmarks", 20, 1)


@pytest.fixture(scope="module")
def bisected(built):
    """The evidence of a bisected regression: two re-runs, the check of the culprit, and the path."""
    return evidenced.regression(built)[1]


def test_evidence_is_rounded_once(tmp_path, bisected):
    path = evidence.add(tmp_path, "id", "box", bisected)
    assert path == tmp_path / "findings" / "evidence" / "id" / "box.json"
    text = path.read_text()
    records, problems = evidence.read(tmp_path, "id")
    record = records["box"]
    assert problems == ()
    assert evidence.as_text(record) == text and len(text.splitlines()) == 10
    assert (len(record.reruns), len(record.paths)) == (3, 1)
    assert record.reruns[0].sides[0].seconds == pytest.approx(bisected.reruns[0].sides[0].seconds, rel=1e-6)
    steps = [
        [(step.commit, step.slow, step.comparison.p) for step in entry.paths[0].tried] for entry in (record, bisected)
    ]
    assert steps[0] == steps[1] and record.paths[0].left == bisected.paths[0].left
    evidence.add(tmp_path, "id", "box", bisected)
    assert path.read_text() == text
    assert evidence.read(tmp_path, "none") == ({}, ())


def test_evidence_of_a_finding_is_bounded(tmp_path, bisected):
    rerun = bisected.reruns[0]
    sides = tuple(
        dataclasses.replace(side, **{field.name: getattr(side, field.name) * 8 for field in dataclasses.fields(side)})
        for side in rerun.sides
    )
    large = [
        dataclasses.replace(
            rerun, identity=identity(case=f"float32-{number}M"), sides=sides, looks=rerun.looks * 4, reason="x" * 1000
        )
        for number in range(100)
    ]
    weak = dataclasses.replace(rerun, looks=(dataclasses.replace(rerun.looks[0], ratio=1.0001),))
    path = evidence.add(tmp_path, "id", "box", Evidence(reruns=(weak, *large)))
    record = evidence.read(tmp_path, "id")[0]["box"]
    assert (len(record.reruns), record.left_out) == (MOST_RERUNS, 101 - MOST_RERUNS)
    assert all(rerun.effect == large[0].effect for rerun in record.reruns)
    assert path.stat().st_size < 400_000


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda raw: raw.update(format=4), "format 4: this kernel-velocity reads 3 at most: update it"),
        (lambda raw: raw.update(format=2), "its checksum (#) is missing"),
        (lambda raw: raw["reruns"][0].pop("before"), "reruns[0].before: a text is wanted, got nothing"),
        (lambda raw: raw["reruns"][0]["looks"][0].update(ratio=0), "looks[0].ratio: a number from 1e-12 to 1e+11 is"),
        (lambda raw: raw["reruns"][0]["sides"][0]["seconds"].pop(), "reruns[0].sides: as many rounds"),
        (lambda raw: raw["reruns"][0]["sides"][1].update(began=[1e300] * 8), "sides[1].began[0]: a number from"),
        (lambda raw: raw.update(left_out=-1), "left_out: a whole number is wanted, got -1"),
        (None, "not JSON"),
    ],
)
def test_evidence_with_an_error_is_refused_and_not_replaced(tmp_path, bisected, change, problem):
    path = evidence.add(tmp_path, "id", "box", bisected)
    raw = json.loads(path.read_text()) | {"format": 1}  # from before there were checksums
    del raw["#"]
    if change is not None:
        change(raw)
    path.write_text("<<<<<<< HEAD\n" if change is None else json.dumps(raw))
    before = path.read_text()
    records, (line,) = evidence.read(tmp_path, "id")
    assert records == {} and line.startswith(f"{path}: ") and problem in line and "\n" not in line
    assert "remove it" in line
    with pytest.raises(ResultsError):
        evidence.add(tmp_path, "id", "box", bisected)
    assert path.read_text() == before
