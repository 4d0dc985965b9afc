"""What pages say is held against what is true (tests/site/truth.py), on a tree that takes seconds."""

import pytest

from tests.large_tree import Shape
from tests.site import truth


@pytest.fixture
def wide_tab(chromium):
    context = chromium.new_context(offline=True, viewport={"width": 1300, "height": 1400})
    yield context.new_page()
    context.close()


def test_pure_noise_is_coloured_nowhere(tmp_path, wide_tab):
    tree = truth.make(tmp_path, Shape(commits=30, series=100, telemetry=True), [], "commits")
    score = truth.Score()
    for claims in [truth.home(tree, wide_tab), *truth.commit_pages(tree, wide_tab)]:
        score.add(tree, claims)
    assert score.series == 31 * 100 and score.false <= score.series / 1000


@pytest.mark.slow
def test_planted_changes_are_on_the_first_screen(tmp_path, wide_tab):
    shape = Shape(commits=100, series=200, telemetry=True)
    tree = truth.make(tmp_path, shape, truth.planted(shape), "rounds")
    claims = truth.home(tree, wide_tab)
    planted = list(truth.recent(tree))
    assert len(planted) == 8
    assert all(truth.is_named(change, [claim for claim in claims if claim.is_first]) for change in planted)
    assert all(tree.is_true(claim) for claim in claims)
