"""The trees that the site's tests are made from: that all of what they are said to hold is really there."""

import pytest

from kernel_velocity.findings import store
from kernel_velocity.findings.finding import Kind, State
from kernel_velocity.site import model
from tests import synthetic
from tests.findings import synthetic_extras
from tests.findings.synthetic_extras import HOSTILE, Names
from tests.series.one_by_one import recorded


@pytest.mark.parametrize(("fixture", "names"), [("whole_tree", Names()), ("hostile_tree", HOSTILE)])
def test_a_whole_tree_has_all_that_the_pages_can_show(request, fixture, names):
    tree = request.getfixturevalue(fixture)
    found = model.read(tree.results, tree.repository)
    assert {place.machine for place in found.places} - {"odd"} == {names.machine, names.other}
    assert {key.benchmark.partition(".")[2] for key in found.keys} == {"Cpu.time_hot", "Cpu.time_cold", "Cuda.time_hot"}
    assert {item.kind for item in found.findings} == set(Kind)
    assert {item.state for item in found.findings} == set(State)
    assert [found.tags[sha] for sha in tree.commits[1:3]] == [(tag,) for tag in names.tags]
    by_machine = {place.machine: place for place in found.places}
    assert found.roofs(by_machine[names.machine], "Cpu").peaks["float32"] == pytest.approx(90e9, rel=0.05)
    assert found.roofs(by_machine[names.other], "Cuda").peaks["tf32"] == pytest.approx(400e12, rel=0.05)
    files = [file for file in recorded(tree.results).files if file.machine != "odd"]
    assert all(file.sessions for file in files)
    assert any(value.benchmark.endswith("track_max_error") for file in files for value in file.tracked)
    assert any(item.error == names.error for file in files for each in file.failures.values() for item in each)
    rounds = [item for file in files for each in file.rounds.values() for item in each]
    assert any(item.gpu is not None for item in rounds)
    assert all(item.half_width is not None for item in rounds)


def test_nothing_of_a_whole_tree_is_left_out(whole_tree):
    assert model.read(whole_tree.results, whole_tree.repository).notes == ()


def test_names_that_want_to_be_code_are_everywhere(hostile_tree):
    tree, found = hostile_tree, model.read(hostile_tree.results, hostile_tree.repository)
    spelled = dict(HOSTILE.spelled)
    cases = {item.identity.case for one in found.findings for item in one.affected}
    assert spelled["float32-5M"] in cases & {key.case for key in found.keys}
    assert spelled["triton"] in {key.implementation for key in found.keys}
    assert len(store.read(tree.results).problems) == 0
    assert found.commits[tree.commits[0]].author == HOSTILE.author
    (odd,) = [place for place in found.places if place.machine == "odd"]
    assert {len(found.series(key)) for key in found.keys_at(odd)} == {1}
    assert any("'inf'" in note for note in found.notes)


def test_further_commits_follow_the_planted_ones(tmp_path):
    tree = synthetic_extras.whole(tmp_path, further=1)
    assert len(tree.commits) == len(synthetic.MESSAGES) + 1
    assert model.read(tree.results, tree.repository).measured == tree.commits
