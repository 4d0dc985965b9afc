"""What a series did between two commits: one answer, one number, and few false ones over many series."""

import math

import numpy as np
import pytest

from kernel_velocity.past import past
from kernel_velocity.results import lines
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.stats.changepoints.values import ChangePoint
from kernel_velocity.stats.changepoints.young import Noise
from kernel_velocity.verdict import moves, verdicts
from kernel_velocity.verdict.verdicts import Levels, Verdict, Verdicts, Word
from tests import large_tree
from tests.site import pages

SHAPE, AT = large_tree.Shape(commits=40, series=20), 20
NATIVE = large_tree.PAIRS.index(("native", "float32-1M"))


def point(index, before, after, **more):
    ratio = math.exp(after - before)
    return ChangePoint(index=index, before=before, after=after, low=ratio * 0.99, high=ratio * 1.01, p=1e-9, **more)


NOISE = Noise(sigma=0.005, freedom=20)


def levels(*points, doubt=None, noise=NOISE):
    return Levels(
        points=points, is_measured=np.ones(50, np.bool_), noises=(noise,) * (len(points) + 1), doubt=doubt, p=1e-6
    )  # fmt: skip


def test_change_is_the_product_of_the_steps_between():
    series = levels(point(10, 0.0, 0.1), point(20, 0.1, 0.3), point(30, 0.3, 0.0))
    whole = series.between(0, 25)
    assert (whole.word, whole.ratio) == (Word.SLOWER, pytest.approx(math.exp(0.3)))
    assert whole.low < whole.ratio < whole.high
    assert series.between(10, 49).word is Word.FASTER  # the level that begins at 10 is the old one
    assert series.between(9, 10).word is Word.SLOWER
    assert series.between(0, 49).word is Word.UNCHANGED  # and back


def test_unchanged_says_what_would_have_been_seen():
    long, short = levels().between(40, 49), levels().between(40, 41)
    assert (long.word, long.ratio) == (Word.UNCHANGED, 1.0)
    assert 0.01 < long.within < 0.1
    assert levels(noise=Noise(sigma=0.05, freedom=20)).between(40, 49).within > 3 * long.within
    assert levels().between(0, 1).within > long.within  # of a level of one value
    assert short.word is Word.UNCHANGED


@pytest.mark.parametrize(
    "series",
    [
        levels(doubt=point(30, 0.0, 0.05)),
        levels(point(30, 0.0, 0.05, is_unsteady=True)),
        levels(point(30, 0.0, 0.05, is_same_code=True)),
        levels(noise=None),
    ],
    ids=["doubt", "unsteady", "same code", "nothing tells the scatter"],
)
def test_undecided(series):
    assert series.between(20, 40) == Verdict(word=Word.UNDECIDED)
    if series.noises[0] is not None:
        assert series.between(0, 20).word is series.between(35, 40).word is Word.UNCHANGED


def opened(folder, *steps):
    """Return the past of a tree whose series ONE has steps (commit, factor), and the tree's commits."""
    truth = [large_tree.Change(at=at, factor=factor, series=(NATIVE,)) for at, factor in steps]
    commits = large_tree.build(folder, SHAPE, truth)
    return past.open(folder / "results", folder / "repository"), commits


def key_of(recorded):
    (key,) = [key for key in recorded.keys if (key.implementation, key.case) == large_tree.PAIRS[NATIVE]]
    return key


@pytest.mark.parametrize(
    ("changed_at", "position", "is_same_code"), [(AT + 2, AT + 2, False), (AT, AT, False), (None, AT, True)]
)
def test_step_is_blamed_on_the_nearest_change_of_code(tmp_path, changed_at, position, is_same_code):
    recorded, commits = opened(tmp_path, (AT, 1.1))
    key = key_of(recorded)
    for index, sha in enumerate(commits):
        code = "b" if changed_at is not None and index >= changed_at else "a"
        path = tmp_path / "results" / key.machine / f"{sha[:8]}-{key.environment}.json"
        lines.append_session(path, SessionFacts(began=100.0 + index, code={"kernel_000": code * 64}))
    again = past.open(tmp_path / "results", tmp_path / "repository")
    (step,) = Verdicts(again)[key].points
    assert (Verdicts(recorded)[key].points[0].index, step.index) == (AT, position)
    assert step.is_same_code is is_same_code
    assert Verdicts(again)[key].between(0, 39).word is (Word.UNDECIDED if is_same_code else Word.SLOWER)


def test_beginning_of_recorded_code_is_no_change_of_it(tmp_path):
    recorded, commits = opened(tmp_path, (AT, 1.1))
    key = key_of(recorded)
    for index, sha in enumerate(commits[AT - 3 :]):
        path = tmp_path / "results" / key.machine / f"{sha[:8]}-{key.environment}.json"
        lines.append_session(path, SessionFacts(began=100.0 + index, code={"kernel_000": "a" * 64}))
    (step,) = Verdicts(past.open(tmp_path / "results", tmp_path / "repository"))[key].points
    assert (step.index, step.is_same_code) == (AT, True)


def test_noise_alone_changes_no_series(tmp_path):
    shape = large_tree.Shape(commits=12, series=400)
    large_tree.build(tmp_path, shape, [])
    recorded = past.open(tmp_path / "results", tmp_path / "repository")
    levels = Verdicts(recorded)
    words = [levels[key].between(0, len(recorded.columns(key)) - 1).word for key in recorded.keys]
    assert len(words) == 400 and not {Word.SLOWER, Word.FASTER} & {*words}


def test_newest_step_is_doubted_where_it_is_one_of_many_tests(tmp_path, monkeypatch):
    recorded, _ = opened(tmp_path, (39, 1.06))
    key = key_of(recorded)
    assert Verdicts(recorded)[key].between(38, 39).word is Word.SLOWER
    monkeypatch.setattr(moves, "FALSE_DISCOVERIES", 1e-12)
    monkeypatch.setattr(verdicts, "DOUBTED", 1e-2)
    strict = Verdicts(past.open(tmp_path / "results", tmp_path / "repository"))[key]
    assert (strict.points, strict.between(38, 39).word) == ((), Word.UNDECIDED)


def test_one_event_has_one_number_on_every_page(tmp_path):
    recorded, commits = opened(tmp_path, (AT, 1.08))
    verdict = Verdicts(recorded)[key_of(recorded)].between(AT - 1, AT)
    words = pages.home_page.pages.verdict(verdict)
    tree = pages.synthetic.Tree(tmp_path / "repository", tmp_path / "results", commits)
    (card,) = pages.home(tree).cards
    (row,) = pages.commit(tree, commits[AT]).rows
    assert {card.change, pages.row_of(pages.home(tree), card.case).changes[0].text, row.change.text} == {words}
    assert words.endswith("% slower")
