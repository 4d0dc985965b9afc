"""Nights on a small repository, end to end: what they find and exit with, and what damage they survive."""

import json
import tomllib

import pytest

from tests.faults.tiny import GOOD, SLOWER, WRONG, lines_with, rounds_begun

pytestmark = pytest.mark.timeout(900)


def plant(tiny):
    """Commit an innocent change, one that is 10% slower, and another innocent one. Return the slow one."""
    tiny.commit("Innocent", kernel=f"{GOOD}# twice\n")
    slow = tiny.commit("Slow", kernel=SLOWER)
    tiny.commit("Innocent again", kernel=f"{SLOWER}# twice\n")
    return slow


def findings(tiny):
    return [tomllib.loads(path.read_text()) for path in sorted((tiny.root / "results" / "findings").glob("*.toml"))]


def test_first_night_is_clean_and_the_next_has_a_heartbeat(tiny):
    for why in ("(new)", "(heartbeat)"):
        done = tiny.nightly(KV_ROUNDS="2")
        assert done.returncode == 0, done.stdout
        assert lines_with(done.stdout, "tonight: ", why)
        assert done.stdout.splitlines()[-1] == "nightly on box: clean (1 series measured)"
    night = tomllib.loads((tiny.root / "results" / "findings" / "nights" / "box.toml").read_text())
    assert (night["summary"], night["exit_status"], night["measured"]) == ("clean", 0, 1)
    assert findings(tiny) == []


@pytest.mark.slow
def test_regression_is_confirmed_and_stays_open_until_decided(tiny):
    rounds = {"KV_ROUNDS": "2"}
    assert tiny.nightly("--no-ceilings", **rounds).returncode == 0
    slow = tiny.commit("Slow", kernel=SLOWER)
    reports = {name: tiny.root.parent / name for name in ("markdown", "json", "junit")}
    options = [f"--{name}={path}" for name, path in reports.items()]
    for budget, status, state in ((".001", 11, "suspect"), ("120", 10, "confirmed")):  # the first is over at once
        done = tiny.nightly("--no-ceilings", f"--budget={budget}", *options, **rounds)
        assert done.returncode == status, done.stdout
        (result,) = findings(tiny)
        assert (result["kind"], result["state"], result["commits"]) == ("regression", state, [slow])
    assert all(slow[:8] in path.read_text() for path in reports.values())
    assert result["series"][0]["ratio"] == pytest.approx(1.1, abs=0.01)
    tiny.git("reset", "-q", "--hard", f"{slow}~1")  # a rebase takes the commit away
    tiny.commit("Without the slow one", kernel=f"{GOOD}# three times\n")
    done = tiny.nightly("--no-ceilings", f"--json={reports['json']}", **rounds)
    assert done.returncode == 10, done.stdout
    assert findings(tiny) == [result]
    notes = json.loads(reports["json"].read_text())["notes"]
    assert [result["id"] in note for note in notes if "not on this line" in note] == [True], notes
    decision = ["--reason", "wanted", "--until", "2999-01-01"]
    assert tiny.run("kernel_velocity", "findings", "acknowledge", result["id"], *decision).returncode == 0
    assert tiny.nightly("--no-ceilings", **rounds).returncode == 0


@pytest.mark.slow
def test_failures_are_named_and_the_rest_is_judged(tiny):
    broken = tiny.root / "results" / "findings" / "x.toml"
    broken.parent.mkdir(parents=True)
    assert tiny.nightly(KV_ROUNDS="2").returncode == 0
    tiny.commit("Bad", kernel=f"{GOOD}# bad\n", source="int f( {")
    tiny.commit("Wrong", kernel=WRONG, source=None)
    tiny.commit("Good", kernel=f"{GOOD}# good\n")
    done = tiny.nightly(KV_ROUNDS="2")
    assert done.returncode == 21, done.stdout  # the first in the contract's order
    for text in ("failed build: ", "is wrong: got 3, wanted 2"):
        assert lines_with(done.stdout, text) and not lines_with(done.stdout, "nothing was measured")
    broken.write_text("id = 3\n")
    done = tiny.nightly(KV_ROUNDS="2")
    assert done.returncode == 2 and lines_with(done.stdout, "x.toml: id: a text is wanted, got 3"), done.stdout
    assert broken.read_text() == "id = 3\n"


@pytest.mark.slow
def test_damaged_results_file_stops_no_night(tiny):
    old = tiny.git("rev-parse", "HEAD")
    assert tiny.nightly("--no-ceilings", KV_ROUNDS="2").returncode == 0
    (broken,) = tiny.results.glob(f"{old[:8]}-host-*.json")
    broken.write_text("{")
    new = tiny.commit("Innocent", kernel=f"{GOOD}# twice\n")
    done = tiny.nightly("--no-ceilings", KV_ROUNDS="2")
    assert done.returncode == 2 and rounds_begun(tiny)[new] == 2, done.stdout
    assert lines_with(done.stdout, f"not measured: {old[:8]}: ", broken.name, "move that file away")
    assert broken.read_text() == "{"
    assert done.stdout.splitlines()[-1] == "nightly on box: 1 data error (1 series measured)"
