"""`kv findings`: list, show, acknowledge, expect, reopen."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from kernel_velocity.findings import store
from kernel_velocity.findings.finding import Kind, State
from tests import synthetic
from tests.commands import kv
from tests.findings.nights import finding

TOMORROW = (datetime.now(UTC) + timedelta(days=1)).date().isoformat()
NAME = finding().id


@pytest.fixture
def stored(tmp_path):
    """Results with an open regression, an open improvement, one that is over, and an environment."""
    for record in (
        finding(),
        finding(kind=Kind.IMPROVEMENT, id="matmul-improvement-1"),
        finding(state=State.RESOLVED, id="matmul-regression-2"),
        finding(kind=Kind.ENVIRONMENT, state=State.ENVIRONMENT, id="box-environment", commits=()),
    ):
        store.write(tmp_path, record)
    return tmp_path


def run(results, *argv):
    return kv("findings", "--results", results, *argv)


def recorded(results, name=NAME):
    """Return a recorded finding."""
    (result,) = [record for record in store.read(results).findings if record.id == name]
    return result


@pytest.mark.parametrize("argv", [(), ("list",)])
def test_list_has_the_open_findings(stored, argv):
    status, out, err = run(stored, *argv)
    assert (status, err) == (0, "")
    assert out.splitlines()[1].split()[:4] == ["matmul-improvement-1", "confirmed", "improvement", "time"]
    assert "+10.0%" in out and "-20.0%" in out and "matmul-regression-2" not in out
    assert out.splitlines()[-1] == "2 findings expected, acknowledged or closed: --all lists all"
    assert "resolved" in run(stored, "list", "--all")[1]


def test_list_of_nothing_says_so(tmp_path):
    assert run(tmp_path, "list") == (0, "no finding is open\n", "")
    status, _, err = run(tmp_path / "none", "list")
    assert status == 2 and "no such directory, asv's results_dir is wanted" in err


def test_list_as_json_has_every_field(stored):
    data = {record["id"]: record for record in json.loads(run(stored, "list", "--json", "--all")[1])}
    assert list(data) == [record.id for record in store.read(stored).findings]
    assert data[NAME]["series"][0]["ratio"] == 1.1 and data[NAME]["culprit"] == finding().commits[0]


def test_clone_that_cannot_tell_is_named(stored, tmp_path_factory):
    where = tmp_path_factory.mktemp("no-clone")
    status, out, err = run(stored, "list", "--repository", str(where))
    assert status == 0 and "matmul-improvement-1" in out
    assert err == (
        f"note: whether today's values still hold the findings is unknown: {where}: no git repository, "
        "a clone of the kernels' is wanted: name it with --repository\n"
    )


def test_show_has_everything_and_takes_the_beginning_of_an_id(stored):
    status, out, _ = run(stored, "show", "matmul-regression-0")
    assert status == 0
    for text in ("time +10.0%", "p 1e-05, 16 rounds a side", "eager and compile stood still", "nightly: confirmed"):
        assert text in out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("show nothing", "no finding 'nothing': `kv findings list --all` lists all"),
        ("show matmul", "'matmul' is the beginning of several ids: matmul-improvement-1, "),
        ("acknowledge matmul-improvement --reason r --until soon", "a day such as 2026-12-24 is wanted"),
        ("acknowledge matmul-improvement --reason r --until 2001-01-01", "or later (got 2001-01-01)"),
        (f"acknowledge matmul-improvement --reason= --until {TOMORROW}", "the reason is missing"),
        (f"acknowledge matmul-regression-2 --reason r --until {TOMORROW}", "only what is open"),
        (f"acknowledge matmul-improvement --until {TOMORROW}", "required: --reason"),
        ("reopen matmul-improvement", "it is open already"),
        ("reopen box-environment", "is an environment finding: it blames no commit"),
        ("expect --reason r HEAD~9..HEAD", "RANGE='HEAD~9..HEAD' names no commit of this repository"),
        ("expect --reason r -- --all", "is an option of git"),
        ("expect --reason r HEAD --bench (", "--bench '(' is not a regular expression"),
        ("dance", "invalid choice"),
    ],
)
def test_bad_input_is_one_line_and_records_nothing(stored, monkeypatch, argv, message):
    before = store.read(stored)
    synthetic.make_repository(stored / "repository", ["One"], "Ada")
    monkeypatch.chdir(stored / "repository")
    status, out, err = run(stored, *argv.split())
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert store.read(stored) == before


def test_broken_file_is_named_and_the_others_are_listed(stored):
    (stored / "findings" / "bad.toml").write_text("id = 5\n")
    status, out, err = run(stored, "list")
    assert status == 2
    assert err == f"error: {stored}/findings/bad.toml: id: a text is wanted, got 5\n"
    assert "matmul-improvement-1" in out


def test_acknowledge_and_reopen_are_recorded_with_who_and_why(stored):
    argv = ("acknowledge", NAME, "--reason", "f\udcfcr 2.0", "--until", TOMORROW, "--by", "Ada")  # in another encoding
    status, out, _ = run(stored, *argv)
    assert (status, out) == (0, f"{NAME}: confirmed -> acknowledged; commit {stored}/findings/{NAME}.toml\n")
    assert f"acknowledged until {TOMORROW}" in run(stored, "list", "--all")[1]
    assert NAME not in run(stored, "list")[1]
    run(stored, "reopen", NAME, "--by", "Bob", "--reason", "worse")
    assert recorded(stored).state is State.CONFIRMED
    assert [(decision.who, decision.state.value, decision.reason) for decision in recorded(stored).decisions[1:]] == [
        ("Ada", "acknowledged", "f?r 2.0"),
        ("Bob", "confirmed", "worse"),
    ]


def test_list_has_an_acknowledgement_that_is_over_as_open(stored):
    run(stored, "acknowledge", NAME, "--reason", "wait", "--until", TOMORROW)
    path = stored / "findings" / f"{NAME}.toml"
    path.write_text(path.read_text().replace(TOMORROW, "2001-01-01"))
    assert NAME in run(stored, "list")[1]
    assert "acknowledged until 2001-01-01, which is over" in run(stored, "show", NAME)[1]


def test_user_of_git_decides(stored):
    repository = stored / "repository"
    synthetic.make_repository(repository, ["One"], "Ada")
    with (repository / ".git" / "config").open("a") as stream:
        stream.write("[user]\nname = Grace Hopper\n")
    run(stored, "acknowledge", NAME, "--reason", "r", "--until", TOMORROW, "--repository", str(repository))
    assert recorded(stored).decisions[-1].who == "Grace Hopper"


def test_expect_is_recorded_and_applied_to_open_findings(stored):
    repository = stored / "repository"
    shas = synthetic.make_repository(repository, ["One", "Two", "Three"], "Ada")
    store.write(stored, finding(commits=(shas[1],), id="matmul-regression-3"))
    argv = ("--repository", str(repository), "--reason", "wanted", "--by", "Ada")
    status, out, _ = run(stored, "expect", "HEAD~2..HEAD", "--bench", "matmul.*native", *argv)
    assert status == 0 and out.startswith("2 commits may change matmul.*native; commit ")
    assert "matmul-regression-3: confirmed -> expected" in out
    assert recorded(stored, "matmul-regression-3").state is State.EXPECTED
    assert recorded(stored).state is State.CONFIRMED  # of other commits
    (wanted,) = store.read(stored).expectations
    assert (wanted.commits, wanted.bench, wanted.reason, wanted.who) == (shas[1:], "matmul.*native", "wanted", "Ada")
    assert run(stored, "expect", "HEAD", *argv)[1].startswith("1 commit may change every series; commit ")
    for bench in ("matmul", "quantize"):  # within one second
        run(stored, "expect", "HEAD", "--bench", bench, *argv)
    assert len(store.read(stored).expectations) == 4
