"""From a results directory to histories and verdicts: identity, what was measured when, in what, of what code."""

import dataclasses
import json
import math
import shutil

import pytest
from git import Repo

from kernel_velocity.engine.telemetry import parse
from kernel_velocity.findings import finding
from kernel_velocity.nightly import judge
from kernel_velocity.past import past
from kernel_velocity.results import identity, lines
from kernel_velocity.results.lines import FAILURES, Failure, encode_failure
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.verdict import history, ranges, silence
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
        implementations = [series.strip("'") for series in row[1][0] for _ in row[1][1]]
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
    opened = past.open(tree.results, tree.repository)
    histories = history.build(opened)
    return histories.series, histories.absent, opened.line, opened.order


def newest_path(tree):
    return tree.results / synthetic.MACHINE / f"{tree.commits[-1][:8]}-{synthetic.ENVIRONMENT}.json"


def the_history(histories, implementation="native", benchmark="matmul.Cpu.time_hot"):
    matching = [series for series in histories if series.identity.implementation == implementation]
    return next(series for series in matching if series.identity.benchmark == benchmark)


@pytest.mark.parametrize(
    ("before", "after", "is_same", "is_other"),
    [("a", "a", True, False), ("2:a", "2:b", False, True), ("a", "2:a", False, False), (None, "2:a", False, False)],
)
def test_hashes_of_two_schemes_say_nothing_of_the_code(before, after, is_same, is_other):
    assert (ranges.is_same_code(before, after), ranges.is_other_code(before, after)) == (is_same, is_other)


def test_history_has_observations_in_order(nightly):
    histories, absent, _, _ = read(nightly)
    native = the_history(histories)
    assert [(observation.commit, observation.position) for observation in native.observations] == [
        (c, n) for n, c in enumerate(nightly.commits)
    ]
    assert native.newest.value == pytest.approx(math.log(2 * 256**3 / 5e9 / synthetic.STEP), abs=0.01)
    assert native.newest.measured == BEGAN + COMMITS * 86400 + 1000 * (COMMITS + 9) + 7  # its last round
    assert (native.newest.code, native.newest.facts) == (f"m{COMMITS - 1}", FACTS)
    assert the_history(histories, "eager").newest.code is None  # no code of ours
    assert absent == {}


def test_torch_is_identity_for_its_own_implementations_only(nightly):
    histories, _, _, _ = read(nightly)
    assert the_history(histories).identity.environment == "hosttorch-py3.11"
    assert "torch2.13.0" in the_history(histories, "eager").identity.environment
    assert "torch2.13.0" in the_history(histories, "triton").identity.environment


def test_values_of_track_are_series_too(nightly):
    path = newest_path(nightly)
    data = json.loads(path.read_text())
    data["results"]["device.Cpu.track_dram_copy_bandwidth"] = [[9e9], [], "2", 1767225600000, 1.0, [None], [None]]
    axes = [["'eager'", "'native'"], ["'float32-1M'"]]
    data["results"]["matmul.Cpu.track_max_error"] = [[float("nan"), 0.0], axes, "1", 1767225600000, 1.0, None, None]
    spills = [[0, 16], [["'native'"], ["'sm_80'", "'sm_90'"]], "1", 1767225600000, 1.0, None, None]
    data["results"]["matmul.Cuda.track_spill_bytes"] = spills
    path.write_text(json.dumps(data))
    histories, _, _, _ = read(nightly)
    ceiling = the_history(histories, "", "device.Cpu.track_dram_copy_bandwidth")
    assert ceiling.newest.value == pytest.approx(math.log(9e9)) and ceiling.identity.is_control
    assert ceiling.newest.measured == BEGAN
    error = the_history(histories, "native", "matmul.Cpu.track_max_error")
    assert error.newest.value == math.log(history.LEAST_ERROR) and error.newest.code == f"m{COMMITS - 1}"
    figures = {series.identity.case: series.newest for series in histories if series.identity.is_figure}
    assert {target: series.value for target, series in figures.items()} == {"sm_80": 0.0, "sm_90": math.log(16)}
    assert figures["sm_90"].code == f"m{COMMITS - 1}"
    assert not [
        series for series in histories if series.identity.is_error and series.identity.implementation == "eager"
    ]


def test_incomplete_row_of_track_is_named(nightly):
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
    histories, _, _, _ = read(nightly)
    old = the_history(histories)
    new = dataclasses.replace(
        old,
        identity=dataclasses.replace(old.identity, method="other"),
        observations=(dataclasses.replace(old.newest, measured=NIGHT + 86400),),
    )
    (result,) = silence.superseded([*histories, new])
    assert (result.old, result.new, result.what) == (old.identity, new.identity, "method")


def test_a_floor_is_of_identical_code_and_of_enough_sessions(nightly):
    histories, _, _, _ = read(nightly)
    native, control = (judge.prepared(the_history(histories, name), NIGHT - 3600) for name in ("native", "eager"))
    assert native.floor is None  # every commit changed the code
    assert 0.005 < control.floor < 0.03  # .5% a round, the middle of 8 rounds, 11 sessions
    assert judge.prepared(the_history(histories, "eager"), BEGAN + 5 * 86400).floor is None  # four are too few


def test_a_move_does_not_raise_the_floor_that_it_is_held_against(nightly):
    before = judge.prepared(the_history(read(nightly)[0], "eager"), NIGHT - 3600).floor
    scale(newest_path(nightly), 1.5)
    assert judge.prepared(the_history(read(nightly)[0], "eager"), NIGHT - 3600).floor == before


def test_a_known_step_does_not_raise_the_floor_for_ever(nightly):
    histories, _, _, _ = read(nightly)
    eager = the_history(histories, "eager")
    step = finding.RecordedStep(identity=eager.identity, effect=0.3, since=BEGAN + 7 * 86400)
    moved = [
        dataclasses.replace(observation, value=observation.value + (0.3 if observation.measured >= step.since else 0))
        for observation in eager.observations
    ]
    after = dataclasses.replace(eager, observations=tuple(moved))
    assert judge.prepared(after, NIGHT + 9e9, [step]).floor < 0.03
    assert judge.prepared(after, NIGHT + 9e9).floor > 0.3


def test_a_series_that_no_longer_applies_vanished_at_that_commit(nightly):
    path = newest_path(nightly)
    data = json.loads(path.read_text())
    values = data["results"]["matmul.Cpu.time_hot"][0]
    values[2:4] = [float("nan")] * 2  # native
    path.write_text(json.dumps(data))
    histories, absent, _, order = read(nightly)
    assert silence.vanished(histories, absent, order) == ()  # nobody asked for it: another tier
    failed = [
        Failure(benchmark="matmul.Cpu.time_hot", params=("native", case), time=NIGHT, error="no", skipped=True)
        for case in synthetic.CASES["matmul.Cpu.time_hot"]
    ]
    beside = path.parent / "telemetry" / f"{path.stem}{FAILURES}"
    beside.write_text("".join(f"{encode_failure(failure)}\n" for failure in failed))
    histories, absent, _, order = read(nightly)
    result = silence.vanished(histories, absent, order)
    assert {str(series.identity).rpartition(" ")[0] for series in result} == {"matmul.Cpu.time_hot native"}
    assert {(series.last, series.commit) for series in result} == {(nightly.commits[-2], nightly.commits[-1])}


@pytest.mark.parametrize(("days", "number"), [(6.9, 0), (8.1, 1), (89.0, 1), (91.0, 0)])
def test_a_machine_without_values_for_a_week_is_stale(nightly, days, number):
    histories, _, _, _ = read(nightly)
    last = max(series.last_measured for series in histories)
    result = silence.stale(histories, last + days * 86400)
    assert len(result) == number
    for series in result:
        assert (series.machine, series.whole, len(series.series)) == (synthetic.MACHINE, True, 12)
        assert series.days == pytest.approx(days)


def test_a_clock_that_was_set_back_is_named(nightly):
    histories, _, _, _ = read(nightly)
    last = max(series.last_measured for series in histories)
    assert silence.from_the_future(histories, last - 60) == ()
    (note,) = silence.from_the_future(histories, last - 7200)
    assert note.startswith("bench-1: has values measured 2.0 hours after now: a clock was set back")
    (note,) = silence.from_the_future(histories, last - 90, synthetic.MACHINE)  # whose own clock it is
    assert note.startswith("bench-1: has values measured 1.5 minutes after now")
    assert silence.from_the_future(histories, last - 30, synthetic.MACHINE) == ()


def test_what_was_measured_after_now_is_of_no_night(nightly):
    histories, _, line, _ = read(nightly)
    last = max(series.last_measured for series in histories)
    assert judge.Night(histories, line=line, since=last - 86400, explained=()).suspicions().judged
    assert history.undated(histories, last) == histories
    later = history.undated(histories, last - 86400)
    assert not judge.Night(later, line=line, since=last - 86400, explained=()).suspicions().judged
    assert [[observation.value for observation in series.observations] for series in later] == [
        [observation.value for observation in series.observations] for series in histories
    ]


def test_values_are_adjusted_where_they_can_be(nightly):
    (newest_path(nightly).parent / "telemetry" / f"{newest_path(nightly).stem}.jsonl").unlink()
    opened = past.open(nightly.results, nightly.repository)
    values = {
        (series.identity.slot, observation.commit): observation.value
        for series in history.build(opened).series
        for observation in series.observations
    }
    histories = [
        measurement for sha in nightly.commits for measurement in opened.at(sha) if measurement.seconds is not None
    ]
    assert 0 < sum(measurement.adjusted is None for measurement in histories) < len(histories)
    for measurement in histories:
        seconds = measurement.seconds if measurement.adjusted is None else measurement.adjusted.seconds
        assert values[identity.of(measurement.key, measurement.method).slot, measurement.commit] == math.log(seconds)


def test_commits_beside_the_line_are_left_out(nightly):
    with Repo(nightly.repository) as repository:
        repository.git.checkout("--detach", nightly.commits[0])
        try:
            histories, *_ = read(nightly)
        finally:
            repository.git.checkout("-")
    assert {len(series.observations) for series in histories} == {1}
