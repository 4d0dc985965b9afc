"""From a results directory to histories and verdicts: identity, what was measured when, in what, of what code."""

import dataclasses
import json
import math
import shutil

import pytest
from git import Repo

from kernel_velocity.findings import finding
from kernel_velocity.harness.telemetry import parse
from kernel_velocity.nightly import moves, suspects
from kernel_velocity.results import failures, identity, lines
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.series import history, past, silence
from tests import synthetic

COMMITS = 12
BEGAN = 1_767_225_600.0  # Unix time at which the synthetic tree was measured, s
NIGHT = BEGAN + COMMITS * 86400
FACTS = {"driver": "550"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A tree of so many commits, each measured a day after the one before. Code changes at every commit."""
    folder = tmp_path_factory.mktemp("built")
    repository, results = folder / "repository", folder / "results"
    shas = synthetic.make_repository(repository, [f"Commit {number}" for number in range(COMMITS)], "Ada")
    synthetic.write_json(results / "benchmarks.json", synthetic.benchmarks_json())
    synthetic.write_json(results / synthetic.MACHINE / "machine.json", synthetic.machine_json(synthetic.MACHINE))
    for number, sha in enumerate(shas):
        path = synthetic.write_commit(results, sha, 10 + number)
        scale(path, 1.0, later=(number + 1) * 86400)
        code = {"matmul": f"m{number}", "add_mul_exp": f"a{number}"}
        lines.append_session(path, SessionFacts(began=0.0, facts=FACTS, code=code))
    return synthetic.Tree(repository=repository, results=results, commits=shas)


@pytest.fixture
def nightly(built, tmp_path):
    """The tree with results that a test may change."""
    results = shutil.copytree(built.results, tmp_path / "results")
    return dataclasses.replace(built, results=results)


def scale(path, factor, later=0.0, only=lambda benchmark, implementation: True):
    """Multiply the times of a results file and of its telemetry, and shift when they were measured, s."""
    data = json.loads(path.read_text())
    for name, row in data["results"].items():
        implementations = [item.strip("'") for item in row[1][0] for _ in row[1][1]]
        for column in (0, 5, 6):
            row[column] = [
                value * factor if value is not None and only(name, implementation) else value
                for value, implementation in zip(row[column], implementations, strict=True)
            ]
        row[3] += later * 1000
    path.write_text(json.dumps(data))
    beside = path.parent / "telemetry" / f"{path.stem}.jsonl"
    lines = [parse(line) for line in beside.read_text().splitlines()]
    for line in lines:
        line["e"] *= factor if only(line["b"], line["p"][0]) else 1.0
        line["t"] += later
    beside.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def read(tree):
    """Return what a results directory says: the histories, what is absent, the line and its order."""
    found = past.open(tree.results, tree.repository)
    histories = found.histories()
    return histories.series, histories.absent, found.line, found.order


def newest_path(tree):
    return tree.results / synthetic.MACHINE / f"{tree.commits[-1][:8]}-{synthetic.ENVIRONMENT}.json"


def one(items, implementation="native", benchmark="matmul.Cpu.time_hot"):
    found = [item for item in items if item.identity.implementation == implementation]
    return next(item for item in found if item.identity.benchmark == benchmark)


def test_a_history_has_the_commits_in_order_with_when_where_and_what(nightly):
    items, absent, _, _ = read(nightly)
    found = one(items)
    assert [(item.commit, item.place) for item in found.observations] == [(c, n) for n, c in enumerate(nightly.commits)]
    assert found.newest.value == pytest.approx(math.log(2 * 256**3 / 5e9 / synthetic.STEP), abs=0.01)
    assert found.newest.measured == BEGAN + COMMITS * 86400 + 1000 * (COMMITS + 9) + 7  # its last round
    assert (found.newest.code, found.newest.facts) == (f"m{COMMITS - 1}", FACTS)
    assert one(items, "eager").newest.code is None  # no code of ours
    assert absent == {}


def test_torch_is_identity_for_what_it_computes_and_not_for_native(nightly):
    items, _, _, _ = read(nightly)
    assert one(items).identity.environment == "hosttorch-py3.11"
    assert "torch2.13.0" in one(items, "eager").identity.environment
    assert "torch2.13.0" in one(items, "triton").identity.environment


def test_values_of_track_are_series_too(nightly):
    path = newest_path(nightly)
    data = json.loads(path.read_text())
    data["results"]["device.Cpu.track_dram_copy_bandwidth"] = [[9e9], [], "2", 1767225600000, 1.0, [None], [None]]
    axes = [["'eager'", "'native'"], ["'float32-1M'"]]
    data["results"]["matmul.Cpu.track_max_error"] = [[float("nan"), 0.0], axes, "1", 1767225600000, 1.0, None, None]
    spills = [[0, 16], [["'native'"], ["'sm_80'", "'sm_90'"]], "1", 1767225600000, 1.0, None, None]
    data["results"]["matmul.Cuda.track_spill_bytes"] = spills
    path.write_text(json.dumps(data))
    items, _, _, _ = read(nightly)
    ceiling = one(items, "", "device.Cpu.track_dram_copy_bandwidth")
    assert ceiling.newest.value == pytest.approx(math.log(9e9)) and ceiling.identity.is_control
    assert ceiling.newest.measured == BEGAN
    error = one(items, "native", "matmul.Cpu.track_max_error")
    assert error.newest.value == math.log(history.LEAST_ERROR) and error.newest.code == f"m{COMMITS - 1}"
    found = {item.identity.case: item.newest for item in items if item.identity.is_figure}
    assert {target: item.value for target, item in found.items()} == {"sm_80": 0.0, "sm_90": math.log(16)}
    assert found["sm_90"].code == f"m{COMMITS - 1}"
    assert not [item for item in items if item.identity.is_error and item.identity.implementation == "eager"]


def test_a_row_of_track_without_a_value_for_each_combination_is_named(nightly):
    path = newest_path(nightly)
    data = json.loads(path.read_text())
    data["results"]["matmul.Cpu.track_max_error"] = [
        [1.0],
        [["'eager'", "'native'"], ["'a'"]],
        "1",
        None,
        None,
        None,
        None,
    ]
    path.write_text(json.dumps(data))
    (note,) = past.open(nightly.results, nightly.repository).notes
    assert "matmul.Cpu.track_max_error: result: a list of 2" in note


def test_another_version_is_another_series_and_said_so(nightly):
    items, _, _, _ = read(nightly)
    old = one(items)
    new = dataclasses.replace(
        old,
        identity=dataclasses.replace(old.identity, method="other"),
        observations=(dataclasses.replace(old.newest, measured=NIGHT + 86400),),
    )
    (found,) = silence.superseded([*items, new])
    assert (found.old, found.new, found.what) == (old.identity, new.identity, "method")


def test_a_floor_is_of_identical_code_and_of_enough_sessions(nightly):
    items, _, _, _ = read(nightly)
    own, control = (moves.prepared(one(items, name), NIGHT - 3600) for name in ("native", "eager"))
    assert own.floor is None  # every commit changed the code
    assert 0.005 < control.floor < 0.03  # .5% a round, the middle of 8 rounds, 11 sessions
    assert moves.prepared(one(items, "eager"), BEGAN + 5 * 86400).floor is None  # four are too few


def test_a_move_does_not_raise_the_floor_that_it_is_held_against(nightly):
    before = moves.prepared(one(read(nightly)[0], "eager"), NIGHT - 3600).floor
    scale(newest_path(nightly), 1.5)
    assert moves.prepared(one(read(nightly)[0], "eager"), NIGHT - 3600).floor == before


def test_a_known_step_does_not_raise_the_floor_for_ever(nightly):
    items, _, _, _ = read(nightly)
    eager = one(items, "eager")
    step = finding.Step(identity=eager.identity, effect=0.3, since=BEGAN + 7 * 86400)
    moved = [
        dataclasses.replace(item, value=item.value + (0.3 if item.measured >= step.since else 0))
        for item in eager.observations
    ]
    after = dataclasses.replace(eager, observations=tuple(moved))
    assert moves.prepared(after, NIGHT + 9e9, [step]).floor < 0.03
    assert moves.prepared(after, NIGHT + 9e9).floor > 0.3


def test_a_series_that_no_longer_applies_vanished_at_that_commit(nightly):
    path = newest_path(nightly)
    data = json.loads(path.read_text())
    values = data["results"]["matmul.Cpu.time_hot"][0]
    values[2:4] = [float("nan")] * 2  # native
    path.write_text(json.dumps(data))
    items, absent, _, order = read(nightly)
    assert silence.vanished(items, absent, order) == ()  # nobody asked for it: another tier
    said = [
        failures.Failure(benchmark="matmul.Cpu.time_hot", params=("native", case), time=NIGHT, error="no", skipped=True)
        for case in synthetic.CASES["matmul.Cpu.time_hot"]
    ]
    beside = path.parent / "telemetry" / f"{path.stem}{failures.SUFFIX}"
    beside.write_text("".join(f"{failures.encode(item)}\n" for item in said))
    items, absent, _, order = read(nightly)
    found = silence.vanished(items, absent, order)
    assert {str(item.identity).rpartition(" ")[0] for item in found} == {"matmul.Cpu.time_hot native"}
    assert {(item.last, item.commit) for item in found} == {(nightly.commits[-2], nightly.commits[-1])}


@pytest.mark.parametrize(("days", "number"), [(6.9, 0), (8.1, 1), (89.0, 1), (91.0, 0)])
def test_a_machine_without_values_for_a_week_is_stale(nightly, days, number):
    items, _, _, _ = read(nightly)
    last = max(item.last_measured for item in items)
    found = silence.stale(items, last + days * 86400)
    assert len(found) == number
    for item in found:
        assert (item.machine, item.whole, len(item.series)) == (synthetic.MACHINE, True, 12)
        assert item.days == pytest.approx(days)


def test_a_clock_that_was_set_back_is_named(nightly):
    items, _, _, _ = read(nightly)
    last = max(item.last_measured for item in items)
    assert silence.from_the_future(items, last - 60) == ()
    (note,) = silence.from_the_future(items, last - 7200)
    assert note.startswith("bench-1: has values measured 2.0 hours after now: a clock was set back")
    (note,) = silence.from_the_future(items, last - 90, synthetic.MACHINE)  # whose own clock it is
    assert note.startswith("bench-1: has values measured 1.5 minutes after now")
    assert silence.from_the_future(items, last - 30, synthetic.MACHINE) == ()


def test_what_was_measured_after_now_is_of_no_night(nightly):
    items, _, line, _ = read(nightly)
    last = max(item.last_measured for item in items)
    assert suspects.screened(items, line=line, since=last - 86400).judged
    assert history.undated(items, last) == items
    later = history.undated(items, last - 86400)
    assert not suspects.screened(later, line=line, since=last - 86400).judged
    assert [[one.value for one in item.observations] for item in later] == [
        [one.value for one in item.observations] for item in items
    ]


def test_values_are_adjusted_where_they_can_be(nightly):
    (newest_path(nightly).parent / "telemetry" / f"{newest_path(nightly).stem}.jsonl").unlink()
    found = past.open(nightly.results, nightly.repository)
    values = {
        (item.identity.slot, each.commit): each.value for item in found.histories().series for each in item.observations
    }
    items = [item for sha in nightly.commits for item in found.at(sha) if item.seconds is not None]
    assert 0 < sum(item.adjusted is None for item in items) < len(items)
    for item in items:
        seconds = item.seconds if item.adjusted is None else item.adjusted.seconds
        assert values[identity.of(item.key, item.method).slot, item.commit] == math.log(seconds)


def test_commits_beside_the_line_are_left_out(nightly):
    with Repo(nightly.repository) as repository:
        repository.git.checkout("--detach", nightly.commits[0])
        try:
            items, *_ = read(nightly)
        finally:
            repository.git.checkout("-")
    assert {len(item.observations) for item in items} == {1}
