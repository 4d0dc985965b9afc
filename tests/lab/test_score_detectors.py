"""Scoring detectors: what is played to them, what is counted, and what is printed."""

import gzip
import io
import json
import math
from pathlib import Path

import numpy as np
import pytest

from kernel_velocity.__main__ import main
from kernel_velocity.lab import detector_data, detector_jobs, detectors
from kernel_velocity.lab.contenders import (
    CONFIRMED,
    CONTENDERS,
    DRIFT,
    SPARE,
    VOTE,
    Alarm,
    AsvSteps,
    Confirmed,
    Contender,
    Perfherder,
    Scene,
)
from kernel_velocity.lab.detector_data import SYNTHETIC, RealSeries, RealSet
from kernel_velocity.lab.detector_jobs import (
    AFTER,
    BEFORE,
    Found,
    Plan,
    Scores,
    Silence,
    merged,
    reported,
    scene,
    search,
    silence,
)
from tests.golden import check_golden
from tests.stepped_series import stepped

GOLDEN = Path(__file__).with_name("golden")


def quiet(rng, size):
    return 0.01 * rng.standard_normal(size)


def still(values, spare=None):
    values = np.asarray(values, dtype=float)
    noise = 0.005 * np.random.default_rng(1).standard_normal(SPARE) if spare is None else spare
    return Scene(logs=tuple(values.tolist()), levels=np.zeros(values.size), spare=noise)


class Scripted:
    """A contender that reports what the test says, by the number of commits it has seen."""

    def __init__(self, script):
        self.script = script

    def look(self, size):
        return [Alarm(index=index, rises=rises) for index, rises in self.script.get(size, [])]


def scripted(script, **named):
    return Contender(watch=lambda scene: Scripted(script), **named)


def always(*alarms, since=1, until=1000):
    return {size: list(alarms) for size in range(since, until)}


@pytest.mark.parametrize(
    ("script", "alarms"),
    [
        ({}, 0),
        (always((20, True), since=25), 1),
        ({30: [(20, True)], 31: [(24, True)], 32: [(28, True)]}, 1),  # one report that moves
        ({30: [(20, True)], 40: [(26, True)]}, 2),
        ({30: [(20, True), (40, False)]}, 2),
        ({30: [(20, True)], 50: [(20, True)]}, 1),  # forgotten in between, and known again
    ],
)
def test_an_alarm_is_counted_once(script, alarms):
    found = silence(scripted(script), still(np.zeros(60)))
    assert found == Silence(commits=60, alarms=alarms, reruns=None)


def test_looking_every_fourth_commit():
    assert silence(scripted({30: [(20, True)]}, stride=4), still(np.zeros(60))).alarms == 0
    assert silence(scripted({32: [(20, True)]}, stride=4), still(np.zeros(60))).alarms == 1


def test_histories_add_up():
    one, two = Silence(commits=10, alarms=1, reruns=3), Silence(commits=20, alarms=2, reruns=4)
    assert merged([one, two]) == Silence(commits=30, alarms=3, reruns=7)
    assert merged([one, Silence(commits=1, alarms=0, reruns=None)]).reruns is None


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ({}, Found(delay=None, error=None)),
        (always((BEFORE, True), since=BEFORE + 4), Found(delay=3, error=0)),
        (always((BEFORE + 5, True), since=BEFORE + 4), Found(delay=3, error=5)),
        (always((BEFORE + 6, True), since=BEFORE + 4), Found(delay=None, error=None)),  # another place
        (always((BEFORE, False), since=BEFORE + 4), Found(delay=None, error=None)),  # another direction
        (always((BEFORE, True), since=BEFORE + 4, until=BEFORE + 8), Found(delay=3, error=None)),  # withdrawn
    ],
)
@pytest.mark.parametrize("stride", [1, 4])
def test_when_and_where_a_step_is_found(script, found, stride):
    assert search(scripted(script, stride=stride), quiet, (0, 1, 2), 0.02) == found


def test_a_suspect_has_no_place_but_must_not_come_before_the_step():
    early, late = always((BEFORE - 1, True)), always((BEFORE + 20, True), since=BEFORE + 21)
    assert search(scripted(early, localises=False), quiet, (0,), 0.02) == Found(delay=None, error=None)
    assert search(scripted(late, localises=False), quiet, (0,), 0.02) == Found(delay=20, error=None)


def test_histories_share_their_noise():
    plain, raised = (scene(quiet, (0, 1), 100, step, 60) for step in (0.0, 0.10))
    assert raised.logs[:60] == plain.logs[:60]
    assert np.subtract(raised.logs[60:], plain.logs[60:]) == pytest.approx(math.log(1.1))
    assert raised.levels[[59, 60]].tolist() == [0.0, math.log1p(0.10)]
    assert plain.spare.size == SPARE
    assert (plain.spare == raised.spare).all()
    assert scene(quiet, (0, 2), 100).logs != plain.logs


@pytest.mark.parametrize("name", SYNTHETIC)
def test_a_family_is_seeded_and_about_a_percent_wide(name):
    first, again = (SYNTHETIC[name](np.random.default_rng(5), 4000) for _ in range(2))
    assert (first == again).all()
    assert first.shape == (4000,)
    low, high = np.quantile(first, (0.16, 0.84))
    assert 0.004 < (high - low) / 2 < 0.014
    halves = np.median(first[:2000]), np.median(first[2000:])
    assert abs(halves[0] - halves[1]) < 0.01  # no level but one


def test_families_are_what_their_names_say():
    draw = {name: family(np.random.default_rng(0), 4000) for name, family in SYNTHETIC.items()}

    def neighbours(values):
        return np.corrcoef(values[1:], values[:-1])[0, 1]

    assert abs(neighbours(draw["normal"])) < 0.05
    assert neighbours(draw["AR(1)"]) == pytest.approx(0.6, abs=0.05)
    assert neighbours(draw["bimodal"]) == pytest.approx(1 / 3, abs=0.08)
    assert len(set(np.round(draw["quantised"], 9))) < 8
    assert (draw["spikes"] > 0.08).mean() == pytest.approx(0.05 * math.exp(-0.08 / 0.2), abs=0.015)
    assert 0.5 * (draw["bursts"] > 0.03).mean() == pytest.approx(1 / 50, abs=0.006)
    creeping = detector_data.drifting(np.random.default_rng(0), 121)
    assert creeping[61:].mean() - creeping[:60].mean() == pytest.approx(0.03, abs=0.006)


def test_real_noise_is_that_of_the_series_without_its_steps():
    series = stepped(0.0, 0.5, 0.2, sigma=0.004)
    family = detector_data.resampled([series])
    drawn = family(np.random.default_rng(0), 2000)
    assert drawn.std() == pytest.approx(0.004, rel=0.2)
    assert (family(np.random.default_rng(0), 2000) == drawn).all()
    (residuals,) = family.residuals
    place = np.flatnonzero(residuals == drawn[0])[0]
    assert drawn[:5].tolist() == residuals[place : place + 5].tolist()  # in blocks


def test_counters_and_short_series_are_no_noise():
    counter = np.repeat([1.0, 2.0, 3.0], 20)
    assert detector_data.resampled([counter, np.arange(10.0)]) is None
    usable = detector_data.resampled([counter, stepped(0.0), np.arange(10.0)])
    assert len(usable.residuals) == 1


@pytest.mark.parametrize("name", [name for name, contender in CONTENDERS.items() if contender.localises])
def test_every_detector_finds_a_plain_step(name):
    found = reported(CONTENDERS[name], still(stepped(0.0, 0.1)))
    assert len(found) == 1
    assert abs(found[0] - 40) <= 1


@pytest.mark.parametrize("name", CONTENDERS)
def test_missing_values_are_no_trouble(name):
    logs = stepped(0.0, 0.1).tolist()
    logs[0] = logs[10] = logs[50] = None
    played = Scene(logs=tuple(logs), levels=np.zeros(80), spare=np.random.default_rng(0).standard_normal(SPARE))
    silence(CONTENDERS[name], played)


def test_perfherders_rule_by_hand():
    values = [1.0, 2.0] * 6 + [5.0, 6.0] * 6
    watcher = Perfherder(still(np.log(values)))
    assert watcher.look(23) == []
    assert watcher.look(24) == [Alarm(index=12, rises=True)]
    weights = np.arange(12, 0, -1) / 78
    means = [float(weights @ np.array(part)) for part in (values[11::-1], values[12:])]
    squares = [
        sum((value - mean) ** 2 for value in part) for part, mean in zip((values[:12], values[12:]), means, strict=True)
    ]
    assert watcher._t[12] == pytest.approx((means[1] - means[0]) / math.sqrt(sum(squares) / 11 / 12))
    assert Perfherder(still(-np.log(values))).look(24) == [Alarm(index=12, rises=False)]


def test_asvs_steps_are_asvs():
    assert AsvSteps(still(stepped(0.0, -0.1))).look(80) == [Alarm(index=40, rises=False)]
    assert AsvSteps(Scene(logs=(None, None), levels=np.zeros(2), spare=np.empty(0))).look(2) == []


def confirmation(levels, *, jump_at=50, moved=0.05):
    """Return a confirming watcher on a history whose values jump, and whose truth is given."""
    values = 0.003 * np.random.default_rng(0).standard_normal(80)
    values[jump_at:] += moved
    spare = 0.003 * np.random.default_rng(1).standard_normal(SPARE)
    return Confirmed(Scene(logs=tuple(values.tolist()), levels=levels, spare=spare))


def test_a_jump_that_the_code_did_not_make_is_not_confirmed():
    watcher = confirmation(np.zeros(80))
    assert [watcher.look(size) for size in range(1, 61)] == [[]] * 60
    assert watcher.reruns >= 16


def test_a_jump_that_the_code_made_is_confirmed_and_then_is_old_news():
    levels = np.where(np.arange(80) < 50, 0.0, 0.05)
    watcher = confirmation(levels)
    found = [watcher.look(size) for size in range(1, 81)]
    assert found[49] == []
    assert found[50] == [Alarm(index=50, rises=True)] == found[79]


def test_a_true_change_of_half_a_percent_is_not_worth_a_word():
    watcher = confirmation(np.where(np.arange(80) < 50, 0.0, 0.005))
    assert [watcher.look(size) for size in range(1, 61)][-1] == []


@pytest.mark.parametrize(("apart", "reruns"), [(0.0, 16), (0.0045, 32), (0.0075, 32), (0.0125, 16)])
def test_a_rerun_that_leaves_it_open_is_repeated(apart, reruns):
    side = np.arange(8) * 0.001
    night = np.empty(16)
    night[np.arange(16) % 4 % 3 == 0], night[np.arange(16) % 4 % 3 != 0] = side, side + apart + 0.005
    played = still([0.0, 0.003] * 20 + [0.05], np.tile(night, SPARE // 16))
    played.levels[40] = -0.005
    watcher = Confirmed(played)
    watcher.look(41)
    assert watcher.reruns == reruns


def test_the_vote_is_silent_where_asv_is_not():
    spiky = [scene(SYNTHETIC["spikes"], (0, number), 100) for number in range(3)]
    assert merged([silence(CONTENDERS[VOTE], each) for each in spiky]).alarms == 0
    assert merged([silence(CONTENDERS["asv steps"], each) for each in spiky]).alarms > 0


def test_only_the_check_for_drift_sees_a_slow_one():
    creeping = scene(lambda rng, size: quiet(rng, size) + 0.02 / 60 * np.arange(size), (0,), 100)
    assert silence(CONTENDERS[DRIFT], creeping).alarms > 0
    assert silence(CONTENDERS["two-window"], creeping).alarms == 0


@pytest.fixture
def data(tmp_path):
    """Write a file of annotated series and one of plain ones."""
    annotated = {
        f"id_{number}_split1": {"values": np.exp(stepped(0.0, 0.1, seed=number)).tolist(), "annotations": {"a": [40]}}
        for number in (3, 1, 2)
    }
    plain = {"x": np.exp(stepped(0.0, seed=9)).tolist()}
    paths = [tmp_path / "people.json", tmp_path / "machine.json.gz"]
    paths[0].write_text(json.dumps(annotated))
    paths[1].write_bytes(gzip.compress(json.dumps(plain).encode()))
    return paths


def run(monkeypatch, *argv, processes=1):
    monkeypatch.setattr(detectors, "SERIES", 1)
    monkeypatch.setattr(detectors, "COMMITS", 30)
    monkeypatch.setattr(detectors, "PLANTED", 1)
    monkeypatch.setattr(detector_jobs.os, "cpu_count", lambda: processes)
    out, err = io.StringIO(), io.StringIO()
    status = main(["lab", "score-detectors", *map(str, argv)], out, err)
    return status, out.getvalue(), err.getvalue()


def test_the_command_prints_its_tables(monkeypatch, data):
    monkeypatch.setattr(detector_jobs, "STEPS", (0.10,))
    monkeypatch.setattr(detectors, "STEPS", (0.10,))
    monkeypatch.setattr(detector_jobs, "SEARCHED", ())
    status, out, err = run(monkeypatch, *data)
    assert (status, err) == (0, "")
    for title in ("false alarms", "re-runs", "power, real: machine", "localisation", "annotated, people"):
        assert f"\n{title}: " in f"\n{out}"
    assert "3 series, and the two halves of their ids in turn (2 and 1)" in out
    annotated = out[out.index("annotated, people") :]
    (vote,) = [line.split() for line in annotated.splitlines() if line.startswith(VOTE)]
    assert vote[-3:] == ["1.000"] * 3
    (nothing,) = [line.split() for line in annotated.splitlines() if line.startswith("report nothing")]
    assert nothing[-3:] == ["0.667"] * 3


@pytest.mark.slow
def test_more_processes_and_the_same_seed_give_the_same_tables(monkeypatch, data):
    alone, again, together = (run(monkeypatch, *data, processes=processes)[1] for processes in (1, 1, 2))
    assert alone == again == together
    assert run(monkeypatch, *data, "--seed", "1")[1] != alone


@pytest.mark.parametrize("argv", [["--seed", "-1"], ["none.json"]])
def test_bad_input_is_one_line_and_status_2(monkeypatch, argv):
    status, out, err = run(monkeypatch, *argv)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_two_files_of_one_name_are_refused(monkeypatch, data):
    other = data[0].parent / "other"
    other.mkdir()
    copy = other / "people.json"
    copy.write_bytes(data[0].read_bytes())
    status, _, err = run(monkeypatch, data[0], copy)
    assert status == 2
    assert "two files of one name" in err


def test_the_full_score_plays_ten_times_as_many():
    default, full = detectors.plan(3, full=False), detectors.plan(3, full=True)
    assert (full.series, full.seed, full.commits) == (10 * default.series, 3, default.commits)
    assert full.planted > default.planted


def test_series_cut_from_one_are_in_one_half():
    names = dict.fromkeys(["sap_9_split1", "sap_10_split1", "sap_9_split2", "sap_2_split1", "x", "y"], 0.0)
    halves = detectors.half_of(names)
    assert halves["sap_9_split1"] == halves["sap_9_split2"] != halves["sap_10_split1"] == halves["sap_2_split1"]
    assert halves["x"] != halves["y"]


def test_what_a_score_looks_like(request):
    silences = {
        (name, family): Silence(commits=2000, alarms=place % 3, reruns=64 * place if name == CONFIRMED else None)
        for place, name in enumerate(CONTENDERS)
        for family in ("normal", detector_jobs.CREEPING)
    }
    found = {
        (name, "normal", step): tuple(
            Found(delay=delay if delay * step < 2 else None, error=delay // 4) for delay in (3, 8, 14)
        )
        for name in CONTENDERS
        for step in detector_jobs.STEPS
    }
    measures = {
        ("report nothing", "people"): {"s1": 0.5, "s2": 0.75},
        (VOTE, "people"): {"s1": 1.0, "s2": 0.875},
    }
    plan = Plan(seed=0, series=20, commits=100, planted=3)
    scores = Scores(plan=plan, families=("normal",), silences=silences, found=found, f_measures=measures)
    check_golden(
        GOLDEN / "score_detectors.txt",
        detectors.text(scores),
        accept=request.config.getoption("--accept-golden"),
    )


def test_sets_without_usable_noise_are_scored_all_the_same():
    series = RealSeries(name="s", logs=(0.0, 0.1), annotations=(frozenset({1}),))
    assert set(detector_jobs.families([RealSet(name="short", series=(series,))])) == set(SYNTHETIC)
    assert AFTER > 10
