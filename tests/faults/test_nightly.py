"""Nights on a small repository, end to end: what they find and exit with, and what damage they survive."""

import json
import tomllib

import pytest

from kernel_velocity.engine.telemetry import parse
from tests.faults.tiny import GOOD, SLOWER, WRONG, lines_with, rounds_begun


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
def test_regression_is_confirmed_and_acknowledged(tiny):
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
    decision = ["--reason", "wanted", "--until", "2999-01-01"]
    assert tiny.run("kernel_velocity", "findings", "acknowledge", result["id"], *decision).returncode == 0
    assert tiny.nightly("--no-ceilings", **rounds).returncode == 0


@pytest.mark.slow
def test_slower_machine_accuses_no_commit(tiny):
    tiny.commit("Innocent", kernel=f"{GOOD}# twice\n")
    assert tiny.nightly(KV_BENCH="1k", KV_ROUNDS="2").returncode == 0
    done = tiny.nightly(KV_BENCH="1k", KV_ROUNDS="2", TINY_PACE="1.1")
    assert done.returncode == 30, done.stdout
    (result,) = findings(tiny)
    assert (result["kind"], result["commits"]) == ("environment", [])
    assert {round(series["ratio"], 2) for series in result["series"]} == {1.1}


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
def test_night_that_measured_nothing_says_so(tiny):
    tiny.commit("Bad", source="int f( {")
    tiny.git("reset", "-q", "--soft", tiny.git("rev-list", "--max-parents=0", "HEAD"))
    tiny.git("commit", "-q", "--amend", "-m", "The only one, and bad")
    done = tiny.nightly(KV_ROUNDS="2")
    assert done.returncode == 22, done.stdout
    assert "nothing was measured" in done.stdout.splitlines()[-1]


def set_clock_back(tiny, seconds=86400):
    """Have everything that is recorded say that it was measured so much later."""
    for path in tiny.results.rglob("*.jsonl"):
        lines = [parse(line) for line in path.read_text().splitlines()]
        path.write_text("".join(f"{json.dumps(line | {'t': line['t'] + seconds})}\n" for line in lines))
    for path in tiny.results.glob("*-host-*.json"):
        data = json.loads(path.read_text())
        index = data["result_columns"].index("started_at")
        for row in data["results"].values():
            row[index] += 1000 * seconds
        path.write_text(json.dumps(data))


def plant_foreign_results(tiny):
    """Put beside ours what another project, another asv and people could leave in results/."""
    ours = json.loads(next(tiny.results.glob("*-host-*.json")).read_text())
    other = tiny.root / "results" / "other"
    other.mkdir()
    (other / "machine.json").write_text("{")
    foreign = ours | {"commit_hash": "f" * 40, "results": {"suite.time_it": [[1e-3], [], "1"]}}
    for name, data in {"ffffffff-conda": foreign, "eeeeeeee-conda": ours | {"version": 99}}.items():
        (other / f"{name}.json").write_text(json.dumps(data))
    (tiny.results / "notes.json").write_text("[]")


@pytest.mark.slow
def test_damaged_and_future_records_stop_no_night(tiny):
    old = tiny.git("rev-parse", "HEAD")
    tiny.commit("Innocent", kernel=f"{GOOD}# twice\n")
    settings = {"KV_ROUNDS": "2"}
    assert tiny.nightly("--no-ceilings", **settings).returncode == 0
    assert rounds_begun(tiny).total() == 4
    set_clock_back(tiny)
    plant_foreign_results(tiny)
    done = tiny.nightly("--no-ceilings", **settings)
    assert done.returncode == 0 and rounds_begun(tiny).total() == 6, done.stdout  # a heartbeat of its own
    assert lines_with(done.stdout, "note: box: has values measured 24.0 hours after now")
    for name in ("other/machine.json", "other/eeeeeeee-conda.json", "box/notes.json"):
        assert len(lines_with(done.stdout, f"note: {name}: ")) == 1, done.stdout
    (broken,) = tiny.results.glob(f"{old[:8]}-host-*.json")
    broken.write_text("{")
    with next((tiny.results / "telemetry").glob(f"*{tiny.environment}.jsonl")).open("ab") as telemetry:
        telemetry.write(b'{"b": "\xff"}\n')
    new = tiny.commit("Innocent again", kernel=f"{GOOD}# thrice\n")
    done = tiny.nightly("--no-ceilings", **settings)
    assert done.returncode == 2 and rounds_begun(tiny)[new] == 2, done.stdout
    assert lines_with(done.stdout, f"not measured: {old[:8]}: ", broken.name, "move that file away")
    assert broken.read_text() == "{"
    assert done.stdout.splitlines()[-1] == "nightly on box: 1 data error (1 series measured)"
