"""`kv findings`: list, show, acknowledge, expect, reopen."""

import io
import json
from datetime import UTC, datetime, timedelta

import pytest

from kernel_velocity.__main__ import main
from kernel_velocity.findings import store
from kernel_velocity.findings.finding import Kind, State
from tests import synthetic
from tests.findings.nights import finding

TOMORROW = (datetime.now(UTC) + timedelta(days=1)).date().isoformat()


@pytest.fixture
def stored(tmp_path):
    """Results with an open regression, an open improvement, and one that is over; return their folder."""
    for item in (
        finding(),
        finding(kind=Kind.IMPROVEMENT, id="matmul-improvement-1"),
        finding(state=State.RESOLVED, id="matmul-regression-2"),
    ):
        store.write(tmp_path, item)
    return tmp_path


def run(results, *argv):
    out, err = io.StringIO(), io.StringIO()
    status = main(["findings", "--results", str(results), *argv], out, err)
    return status, out.getvalue(), err.getvalue()


def stored_one(results):
    """Return what is stored of the open regression."""
    (found,) = [item for item in store.read(results).findings if item.id == finding().id]
    return found


def test_the_list_has_what_waits_for_somebody(stored):
    for argv in ((), ("list",)):
        status, out, err = run(stored, *argv)
        assert (status, err) == (0, "")
        assert out.splitlines()[1].split()[:4] == ["matmul-improvement-1", "confirmed", "improvement", "time"]
        assert "+10.0%" in out and "-20.0%" in out
        assert "matmul-regression-2" not in out
        assert out.splitlines()[-1] == "1 finding expected, acknowledged or over: --all lists all"
    assert "resolved" in run(stored, "list", "--all")[1]


def test_an_empty_list_says_so(tmp_path):
    assert run(tmp_path, "list") == (0, "no finding waits for anybody\n", "")


def test_the_list_as_json(stored):
    found = json.loads(run(stored, "list", "--json", "--all")[1])
    assert [item["id"] for item in found] == [item.id for item in store.read(stored).findings]
    assert found[1]["series"][0]["ratio"] == 1.1 and found[1]["culprit"] == finding().commits[0]


def test_show_tells_everything_and_takes_the_beginning_of_an_id(stored):
    status, out, _ = run(stored, "show", "matmul-regression-0")
    assert status == 0
    for text in ("time +10.0%", "p 1e-05, 16 rounds a side", "eager and compile stood still", "nightly: confirmed"):
        assert text in out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("show", "nothing"), "no finding 'nothing': `kv findings list --all` names them"),
        (("show", "matmul"), "'matmul' begins several ids: matmul-improvement-1, "),
        (
            ("acknowledge", "matmul-improvement", "--reason", "r", "--until", "soon"),
            "a day such as 2026-12-24 is wanted",
        ),
        (("acknowledge", "matmul-improvement", "--reason", "r", "--until", "2001-01-01"), "2001-01-01 is over"),
        (("acknowledge", "matmul-improvement", "--reason", " ", "--until", TOMORROW), "a reason is wanted"),
        (("acknowledge", "matmul-regression-2", "--reason", "r", "--until", TOMORROW), "only what is open"),
        (("acknowledge", "matmul-improvement", "--until", TOMORROW), "required: --reason"),
        (("reopen", "matmul-improvement"), "it is open already"),
        (("dance",), "invalid choice"),
    ],
)
def test_bad_input_is_one_line(stored, argv, message):
    before = store.read(stored)
    status, out, err = run(stored, *argv)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert store.read(stored) == before


def test_results_that_are_not_there_are_refused(tmp_path):
    status, _, err = run(tmp_path / "none", "list")
    assert status == 2 and "no such directory, asv's results_dir is wanted" in err


def test_a_broken_file_is_named_and_the_others_are_listed(stored):
    (stored / "findings" / "bad.toml").write_text("id = 5\n")
    status, out, err = run(stored, "list")
    assert status == 2
    assert err == f"error: {stored}/findings/bad.toml:1:1: id: a text is wanted, got 5\n"
    assert "matmul-improvement-1" in out


def test_acknowledge_and_reopen_are_kept_with_who_and_why(stored):
    name = finding().id
    status, out, _ = run(stored, "acknowledge", name, "--reason", "wait", "--until", TOMORROW, "--by", "Ada")
    assert (status, out) == (0, f"{name}: confirmed -> acknowledged; commit {stored}/findings/{name}.toml\n")
    assert f"acknowledged until {TOMORROW}" in run(stored, "list", "--all")[1]
    assert name not in run(stored, "list")[1]
    run(stored, "reopen", name, "--by", "Bob", "--reason", "worse")
    found = stored_one(stored)
    assert found.state is State.CONFIRMED
    assert [(item.who, item.state.value, item.reason) for item in found.decisions[1:]] == [
        ("Ada", "acknowledged", "wait"),
        ("Bob", "confirmed", "worse"),
    ]


def test_a_reason_in_another_encoding_is_kept_as_far_as_it_can_be(stored):
    status, _, _ = run(
        stored, "acknowledge", finding().id, "--reason", "f\udcfcr 2.0", "--until", TOMORROW, "--by", "A"
    )
    assert status == 0 and stored_one(stored).decisions[-1].reason == "f?r 2.0"


def test_an_acknowledgement_that_is_over_is_listed_as_open(stored):
    name = finding().id
    run(stored, "acknowledge", name, "--reason", "wait", "--until", TOMORROW)
    path = stored / "findings" / f"{name}.toml"
    path.write_text(path.read_text().replace(TOMORROW, "2001-01-01"))
    assert name in run(stored, "list")[1]
    assert "acknowledged until 2001-01-01, which is over" in run(stored, "show", name)[1]


def test_who_decides_is_the_user_of_git(stored):
    repository = stored / "repository"
    synthetic.make_repository(repository, ["One"], "Ada")
    with (repository / ".git" / "config").open("a") as stream:
        stream.write("[user]\nname = Grace Hopper\n")
    run(stored, "acknowledge", finding().id, "--reason", "r", "--until", TOMORROW, "--repository", str(repository))
    assert stored_one(stored).decisions[-1].who == "Grace Hopper"


def test_expect_is_recorded_and_applied_to_what_is_open(stored):
    repository = stored / "repository"
    shas = synthetic.make_repository(repository, ["One", "Two", "Three"], "Ada")
    store.write(stored, finding(commits=(shas[1],), id="matmul-regression-3"))
    argv = ("--repository", str(repository), "--reason", "wanted", "--by", "Ada")
    status, out, _ = run(stored, "expect", "HEAD~2..HEAD", "--bench", "matmul.*native", *argv)
    assert status == 0
    assert out.startswith("2 commits may change matmul.*native; commit ")
    assert "matmul-regression-3: confirmed -> expected" in out
    (wanted,) = store.read(stored).expectations
    assert (wanted.commits, wanted.bench, wanted.reason, wanted.who) == (shas[1:], "matmul.*native", "wanted", "Ada")
    assert stored_one(stored).state is State.CONFIRMED  # of other commits
    assert run(stored, "expect", "HEAD", *argv)[1].startswith("1 commit may change every series; commit ")
    for bench in ("matmul", "quantize"):  # within one second
        run(stored, "expect", "HEAD", "--bench", bench, *argv)
    assert len(store.read(stored).expectations) == 4


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("HEAD~9..HEAD",), "RANGE 'HEAD~9..HEAD' names no commit of this repository"),
        (("--", "--all"), "names no commit of this repository"),
        (("HEAD", "--bench", "("), "--bench '(' is not a regular expression"),
    ],
)
def test_a_bad_range_or_expression_records_nothing(stored, argv, message):
    repository = stored / "repository"
    synthetic.make_repository(repository, ["One"], "Ada")
    status, _, err = run(stored, "expect", "--repository", str(repository), "--reason", "r", *argv)
    assert status == 2 and message in err
    assert store.read(stored).expectations == ()
