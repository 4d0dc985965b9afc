"""Findings as files: what is written is read again, errors name line and column, branches merge."""

import dataclasses
import subprocess
import tomllib
from datetime import UTC, date, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.errors import ResultsError
from kernel_velocity.findings import store
from kernel_velocity.findings.decisions import Expectation
from kernel_velocity.findings.finding import Decision, Kind, State
from kernel_velocity.nightly.cases import from_cases
from tests.findings.nights import FACTS, LINE, WHEN, case, finding

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def expectation(**changed):
    whole = {"id": "expect-1", "commits": LINE[1:3], "bench": "matmul", "reason": "r", "who": "ada", "when": WHEN}
    return Expectation(**(whole | changed))


def full(**changed):
    """Return a finding with everything that a finding can have."""
    decided = Decision(when=WHEN, who="ada", state=State.ACKNOWLEDGED, reason="wait", until=date(2027, 1, 1))
    whole = finding()
    return dataclasses.replace(
        whole,
        state=State.ACKNOWLEDGED,
        changes={"driver": ("550", "560")},
        decisions=(*whole.decisions, decided),
        **changed,
    )


@pytest.mark.parametrize("item", [finding(), full(), finding(commits=(), anchor=None, affected=(), decisions=())])
def test_what_is_written_is_read_again(tmp_path, item):
    path = store.write(tmp_path, item)
    assert path == tmp_path / "findings" / f"{item.id}.toml"
    assert store.read(tmp_path) == store.Stored(findings=(item,), expectations=(), problems=())


@settings(max_examples=40)
@given(who=TEXT, reason=TEXT, how=TEXT, name=TEXT)
def test_any_text_comes_back_as_it_was(tmp_path_factory, who, reason, how, name):
    said = Decision(when=WHEN, who=who, state=State.NEW, reason=reason)
    item = finding(how=how, ruled_out=(reason,), decisions=(said,), changes={name: (who, how)})
    path = tmp_path_factory.mktemp("any") / f"{item.id}.toml"
    assert store.parse_finding(store.finding_text(item), path) == item


@pytest.mark.parametrize("most", [None, 1.03])
def test_an_expectation_is_read_again(tmp_path, most):
    item = expectation(most=most)
    assert store.write(tmp_path, item) == tmp_path / "findings" / "expected" / "expect-1.toml"
    assert store.read(tmp_path).expectations == (item,)


def test_the_file_is_plain_and_its_keys_have_an_order(tmp_path):
    lines = store.write(tmp_path, full()).read_text().splitlines()
    assert lines[:3] == [f'id = "matmul-regression-{LINE[30][:8]}"', 'kind = "regression"', 'state = "acknowledged"']
    keys = [line.split(" = ")[0] for line in lines if " = " in line or line.startswith("[")]
    assert keys[:9] == ["id", "kind", "state", "subject", "found", "commits", "anchor", "how", "ruled_out"]
    heads = [key for key in keys if key.startswith("[")]
    assert heads == ["[changes]", "[[decisions]]", "[[decisions]]", "[[series]]"]


def test_a_decision_is_all_that_differs_in_the_file():
    before = store.finding_text(finding()).splitlines()
    after = store.finding_text(dataclasses.replace(full(), changes=None)).splitlines()
    gone, come = [line for line in before if line not in after], [line for line in after if line not in before]
    assert gone == []  # the state before stands in the first decision, too
    assert come == [
        *('state = "acknowledged"', 'who = "ada"', 'state = "acknowledged"', 'reason = "wait"', "until = 2027-01-01")
    ]


def test_writing_the_same_again_leaves_the_file_alone(tmp_path):
    path = store.write(tmp_path, finding())
    before = path.stat().st_ino
    store.write(tmp_path, finding())
    assert path.stat().st_ino == before


def test_a_write_that_is_cut_off_leaves_the_old_file(tmp_path, monkeypatch):
    path = store.write(tmp_path, finding())
    old = path.read_text()

    def full_disk(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(path), "replace", full_disk)
    with pytest.raises(OSError, match="No space left"):
        store.write(tmp_path, full())
    assert path.read_text() == old


GOOD = store.finding_text(full())


ERRORS = [
    ('kind = "regression"', 'kind = "regresion"', "2:1: kind: one of regression, improvement, environment, vanished"),
    ('state = "acknowledged"\nsubject', 'state = "Open"\nsubject', "3:1: state: one of new, suspect"),
    ('id = "', 'id = "other-', "1:1: id: the file's name"),
    ("found = 2026-11-22 03:00:00+00:00", "found = 2026-11-22 03:00:00", "5:1: found: a time with its zone"),
    ("found = 2026", "found = = 2026", "5:9: not TOML: Invalid value"),
    ("subject = ", "subjekt = ", "4:1: subjekt: one of anchor, changes"),
    ('subject = "matmul"\n', "", "1:1: subject: a text is wanted, got nothing"),
    ('    "0000002e', '    "xyz', "6:1: commits: a list of full hashes of commits is wanted"),
    ("driver = [", "driver = [ 5,", "15:1: changes: a table of lists [before, after]"),
    ("[[decisions]]", "[[decision]]", "21:1: decision: one of"),
    ("until = 2027-01-01", 'until = "soon"', "32:1: [[decisions]] until: a day"),
    ('machine = "bench-1"\n', "", "34:1: [[series]] machine: a text is wanted, got nothing"),
    ("ratio = 1.1\n", "ratio = -1.1\n", "42:1: [[series]] ratio: a positive number"),
    ("ratio = 1.1\n", "  ratio = nan\n", "42:3: [[series]] ratio: a number"),
    ("rounds = 16", "rounds = true", "46:1: [[series]] rounds: a whole number is wanted, got True"),
]


@pytest.mark.parametrize(("old", "new", "wanted"), ERRORS)
def test_errors_name_line_and_column(tmp_path, old, new, wanted):
    assert old in GOOD
    path = store.path_of(tmp_path, full())
    path.parent.mkdir(parents=True)
    path.write_text(GOOD.replace(old, new))
    stored = store.read(tmp_path)
    assert stored.findings == ()
    (problem,) = stored.problems
    assert problem.startswith(f"{path}:{wanted}")
    assert "\n" not in problem


def test_a_broken_file_costs_no_other(tmp_path):
    store.write(tmp_path, finding())
    (tmp_path / "findings" / "a.toml").write_bytes(b"\xff")
    (tmp_path / "findings" / "b.toml").write_text("id = 'b'\n<<<<<<< HEAD\n")
    (tmp_path / "findings" / "c.toml").write_text("id = 'c")
    stored = store.read(tmp_path)
    assert stored.findings == (finding(),)
    first, second, third = (text.partition("findings/")[2] for text in stored.problems)
    assert first == "a.toml: not UTF-8 at byte 0"
    assert second == "b.toml:2:1: not TOML: Invalid statement: a merge was left unfinished here"
    assert third.startswith("c.toml:1:8: not TOML: ")  # the end of the file


def test_a_bad_expression_of_an_expectation_is_refused(tmp_path):
    path = store.write(tmp_path, expectation())
    with pytest.raises(ResultsError, match=r"expect-1\.toml:6:1: bench: a regular expression"):
        store.parse_expectation(path.read_text().replace('"matmul"', '"("'), path)


def git(folder, *args):
    command = ["git", "-c", "user.name=Ada", "-c", "user.email=a@example.org", *args]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def test_branches_that_each_added_a_finding_merge_without_a_conflict(tmp_path):
    git(tmp_path, "init", "-q", "-b", "main")
    store.write(tmp_path, finding())
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "one")
    for branch, commits in (("a", LINE[40:41]), ("b", LINE[41:42])):
        git(tmp_path, "checkout", "-q", "-b", branch, "main")
        cases = [case(commits=commits)]
        order = {sha: place for place, sha in enumerate(LINE)}
        (new,) = from_cases(cases, state=State.CONFIRMED, order=order, when=WHEN, who="nightly")
        store.write(tmp_path, new)
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-qm", branch)
    git(tmp_path, "merge", "-q", "a")
    assert git(tmp_path, "status", "--porcelain") == ""
    stored = store.read(tmp_path)
    assert (len(stored.findings), stored.problems) == (3, ())


def test_a_decision_and_a_new_series_of_one_finding_merge_without_a_conflict(tmp_path):
    git(tmp_path, "init", "-q", "-b", "main")
    before = finding()
    store.write(tmp_path, before)
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "one")
    for branch, item in (
        ("a", dataclasses.replace(full(), changes=None)),
        ("b", dataclasses.replace(before, affected=(*before.affected, case(machine="bench-2").affected))),
    ):
        git(tmp_path, "checkout", "-q", "-b", branch, "main")
        store.write(tmp_path, item)
        git(tmp_path, "commit", "-qam", branch)
    git(tmp_path, "merge", "-q", "a")
    (merged,) = store.read(tmp_path).findings
    assert (merged.state, merged.machines) == (State.ACKNOWLEDGED, ("bench-1", "bench-2"))


def test_an_environment_has_its_facts_in_the_file(tmp_path):
    item = finding(kind=Kind.ENVIRONMENT, commits=(), changes={name: (text, "new") for name, text in FACTS.items()})
    text = store.write(tmp_path, item).read_text()
    assert tomllib.loads(text)["changes"] == {"driver": ["550", "new"], "governor": ["performance", "new"]}
    assert store.read(tmp_path).findings[0].found == datetime(2026, 11, 22, 3, tzinfo=UTC)
