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
    result = model.read(tree.results, tree.repository)
    assert {where.machine for where in result.platforms} - {"odd"} == {names.machine, names.other}
    assert {key.benchmark.partition(".")[2] for key in result.keys} == {
        "Cpu.time_hot",
        "Cpu.time_cold",
        "Cuda.time_hot",
    }
    assert {finding.kind for finding in result.findings} == set(Kind)
    assert {finding.state for finding in result.findings} == set(State)
    assert [result.tags[sha] for sha in tree.commits[1:3]] == [(tag,) for tag in names.tags]
    by_machine = {where.machine: where for where in result.platforms}
    assert result.roofs(by_machine[names.machine], "Cpu").peaks["float32"] == pytest.approx(90e9, rel=0.05)
    assert result.roofs(by_machine[names.other], "Cuda").peaks["tf32"] == pytest.approx(400e12, rel=0.05)
    files = [file for file in recorded(tree.results).files if file.machine != "odd"]
    assert all(file.sessions for file in files)
    assert any(value.benchmark.endswith("track_max_error") for file in files for value in file.tracked)
    assert any(failure.error == names.error for file in files for group in file.failures.values() for failure in group)
    rounds = [round_ for file in files for group in file.rounds.values() for round_ in group]
    assert any(round_.gpu is not None for round_ in rounds)
    assert all(round_.half_width is not None for round_ in rounds)


def test_nothing_of_a_whole_tree_is_left_out(whole_tree):
    assert model.read(whole_tree.results, whole_tree.repository).notes == ()


def test_names_that_want_to_be_code_are_everywhere(hostile_tree):
    tree, result = hostile_tree, model.read(hostile_tree.results, hostile_tree.repository)
    spelled = dict(HOSTILE.spelled)
    cases = {member.identity.case for finding in result.findings for member in finding.affected}
    assert spelled["float32-5M"] in cases & {key.case for key in result.keys}
    assert spelled["triton"] in {key.implementation for key in result.keys}
    assert len(store.read(tree.results).problems) == 0
    assert result.commits[tree.commits[0]].author == HOSTILE.author
    (odd,) = [where for where in result.platforms if where.machine == "odd"]
    assert {len(result.series(key)) for key in result.keys_at(odd)} == {1}
    assert any("'inf'" in note for note in result.notes)


def test_further_commits_follow_the_planted_ones(tmp_path):
    tree = synthetic_extras.whole(tmp_path, further=1)
    assert len(tree.commits) == len(synthetic.MESSAGES) + 1
    assert model.read(tree.results, tree.repository).measured == tree.commits
