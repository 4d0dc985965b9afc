"""Nights on a small repository, end to end: what they find and exit with, and how they go on after being cut off."""

import json
import tomllib

import pytest

from tests.faults.test_faults import lines_with
from tests.faults.tiny import GOOD, SLOWER, rounds_begun

pytestmark = pytest.mark.timeout(900)
WRONG = "def scale(x):\n    return 3\n"


def plant(tiny):
    """Commit an innocent change, one that is 10% slower, and another innocent one; return the slow one."""
    tiny.commit("Innocent", kernel=f"{GOOD}# twice\n")
    slow = tiny.commit("Slow", kernel=SLOWER)
    tiny.commit("Innocent again", kernel=f"{SLOWER}# twice\n")
    return slow


def findings(tiny):
    return [tomllib.loads(path.read_text()) for path in sorted((tiny.root / "results" / "findings").glob("*.toml"))]


def test_a_first_night_without_a_regression_is_clean_and_the_next_has_a_heartbeat(tiny):
    first = tiny.nightly(KV_ROUNDS="2")
    assert first.returncode == 0, first.stdout
    assert lines_with(first.stdout, "tonight: ", "(new)")
    assert first.stdout.splitlines()[-1] == "nightly on box: clean (1 series measured)"
    kept = tomllib.loads((tiny.root / "results" / "findings" / "nights" / "box.toml").read_text())
    assert (kept["summary"], kept["exit_status"], kept["measured"]) == ("clean", 0, 1)
    second = tiny.nightly(KV_ROUNDS="2")
    assert second.returncode == 0, second.stdout
    assert lines_with(second.stdout, "tonight: ", "(heartbeat)")
    assert second.stdout.splitlines()[-1] == "nightly on box: clean (1 series measured)"
    assert findings(tiny) == []


@pytest.mark.slow
def test_a_regression_is_found_at_its_commit_until_somebody_decides(tiny):
    slow = plant(tiny)
    paths = [f"--{name}={tiny.root.parent / name}" for name in ("markdown", "json", "junit")]
    done = tiny.nightly(*paths)
    assert done.returncode == 10, done.stdout
    (found,) = findings(tiny)
    assert (found["kind"], found["state"], found["commits"]) == ("regression", "confirmed", [slow])
    assert found["series"][0]["ratio"] == pytest.approx(1.1, abs=0.01)
    for name in ("markdown", "json", "junit"):
        assert slow[:8] in (tiny.root.parent / name).read_text()
    assert json.loads((tiny.root.parent / "json").read_text())
    again = tiny.nightly()
    assert again.returncode == 10 and not lines_with(again.stdout, "looking again"), again.stdout
    (same,) = findings(tiny)
    assert same == found
    said = ["--reason", "wanted", "--until", "2999-01-01"]
    assert tiny.run("kernel_velocity", "findings", "acknowledge", found["id"], *said).returncode == 0
    assert tiny.nightly().returncode == 0


@pytest.mark.slow
def test_a_night_says_of_which_finding_the_commit_was_rebased_away(tiny):
    slow = plant(tiny)
    assert tiny.nightly().returncode == 10
    (found,) = findings(tiny)
    tiny.git("reset", "-q", "--hard", f"{slow}~1")
    tiny.commit("Without the slow one", kernel=f"{GOOD}# three times\n")
    done = tiny.nightly(f"--json={tiny.root.parent / 'json'}")
    assert done.returncode == 10, done.stdout
    notes = json.loads((tiny.root.parent / "json").read_text())["notes"]
    assert [found["id"] in note for note in notes if "not on this line" in note] == [True], notes


@pytest.mark.slow
def test_a_suspect_that_there_was_no_time_for_is_called_so_and_looked_at_by_the_next_night(tiny):
    assert tiny.nightly("--no-ceilings", KV_ROUNDS="2").returncode == 0
    slow = tiny.commit("Slow", kernel=SLOWER)
    done = tiny.nightly("--no-ceilings", "--budget=.001", KV_ROUNDS="2")  # over before it is measured
    assert done.returncode == 11, done.stdout
    (found,) = findings(tiny)
    assert (found["kind"], found["state"], found["commits"]) == ("regression", "suspect", [slow])
    assert tiny.nightly("--no-ceilings", KV_ROUNDS="2").returncode == 10
    (found,) = findings(tiny)
    assert (found["state"], found["commits"]) == ("confirmed", [slow])


@pytest.mark.slow
def test_a_machine_that_is_slower_accuses_no_commit(tiny):
    tiny.commit("Innocent", kernel=f"{GOOD}# twice\n")
    assert tiny.nightly(KV_BENCH="1k").returncode == 0
    done = tiny.nightly(KV_BENCH="1k", TINY_PACE="1.1")
    assert done.returncode == 30, done.stdout
    (found,) = findings(tiny)
    assert (found["kind"], found["commits"]) == ("environment", [])
    assert not lines_with(done.stdout, "looking again")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "source", "status", "said"),
    [
        (GOOD, "int f( {", 21, "failed build: "),
        (WRONG, None, 20, "is wrong: got 3, wanted 2"),
    ],
)
def test_what_failed_is_said_and_the_rest_is_judged(tiny, kernel, source, status, said):
    assert tiny.nightly(KV_ROUNDS="2").returncode == 0
    tiny.commit("Bad", kernel=f"{kernel}# bad\n", source=source)
    tiny.commit("Good", kernel=f"{GOOD}# good\n", source=None)
    done = tiny.nightly(KV_ROUNDS="2")
    assert done.returncode == status, done.stdout
    assert lines_with(done.stdout, said)
    assert not lines_with(done.stdout, "nothing was measured")


@pytest.mark.slow
def test_a_night_that_measured_nothing_says_so(tiny):
    tiny.commit("Bad", source="int f( {")
    tiny.git("reset", "-q", "--soft", tiny.git("rev-list", "--max-parents=0", "HEAD"))
    tiny.git("commit", "-q", "--amend", "-m", "The only one, and bad")
    done = tiny.nightly(KV_ROUNDS="2")
    assert done.returncode == 22, done.stdout
    assert "nothing was measured" in done.stdout.splitlines()[-1]


def set_clock_back(tiny, seconds=86400):
    """Have everything that is recorded say that it was measured so much later."""
    for path in tiny.results.rglob("*.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(f"{json.dumps(line | {'t': line['t'] + seconds})}\n" for line in lines))
    for path in tiny.results.glob("*-host-*.json"):
        data = json.loads(path.read_text())
        place = data["result_columns"].index("started_at")
        for row in data["results"].values():
            row[place] += 1000 * seconds
        path.write_text(json.dumps(data))


def plant_foreign_results(tiny):
    """Put beside ours what another project, another asv and people could leave in results/."""
    ours = json.loads(next(tiny.results.glob("*-host-*.json")).read_text())
    other = tiny.root / "results" / "other"
    other.mkdir()
    (other / "machine.json").write_text("{")
    foreign = ours | {"commit_hash": "f" * 40, "results": {"suite.time_it": [[1e-3], [], "1"]}}
    for name, said in {"ffffffff-conda": foreign, "eeeeeeee-conda": ours | {"version": 99}}.items():
        (other / f"{name}.json").write_text(json.dumps(said))
    (tiny.results / "notes.json").write_text("[]")


@pytest.mark.slow
def test_records_that_are_damaged_or_from_the_future_do_not_stop_a_night_or_pass_for_one(tiny):
    old = tiny.git("rev-parse", "HEAD")
    tiny.commit("Innocent", kernel=f"{GOOD}# twice\n")
    settings = {"KV_ROUNDS": "2", "TINY_ROUNDS": str(tiny.root.parent / "rounds")}
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
    assert done.stdout.splitlines()[-1] == "nightly on box: 1 data error (1 series measured)"
    (newest,) = tiny.results.glob(f"{new[:8]}-host-*.json")
    broken.write_text(newest.read_text().replace("scale.Cpu.", "scale.Cuda."))  # as if this machine had had a GPU
    done = tiny.nightly("--no-ceilings", **settings)
    assert done.returncode == 22 and rounds_begun(tiny).total() == 8, done.stdout
    assert lines_with(done.stdout, "error: box: nothing was measured: the GPU that was measured here 0.0 days ago")
    done = tiny.nightly("--no-ceilings", "--device=cpu", **settings)
    assert done.returncode == 0 and rounds_begun(tiny).total() == 10, done.stdout
    done = tiny.nightly("--no-ceilings", **settings, KV_MACHINE="new-box")
    assert done.returncode == 0 and lines_with(done.stdout, "note: new-box: ", "--machine box goes on with"), (
        done.stdout
    )


@pytest.mark.parametrize("option", ["--budget=0", "--budget=nan", "--json=-", "--json=.", "--junit=no/such/folder"])
def test_what_makes_no_sense_is_one_line_before_anything_is_measured(tiny, option):
    done = tiny.nightly(option)
    assert done.returncode == 2
    assert lines_with(done.stdout, f"error: {option.partition('=')[0]} ") and len(done.stdout.splitlines()) == 1


@pytest.mark.slow
def test_a_findings_file_with_an_error_is_named_and_the_night_goes_on(tiny):
    broken = tiny.root / "results" / "findings" / "x.toml"
    broken.parent.mkdir(parents=True)
    broken.write_text("id = 3\n")
    done = tiny.nightly(KV_ROUNDS="2")
    assert done.returncode == 2, done.stdout
    assert lines_with(done.stdout, "x.toml", "1:")
    assert broken.read_text() == "id = 3\n"
