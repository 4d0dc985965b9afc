"""What a series did between two commits: one answer, one number, and few false ones over many series."""

import math
import types

import numpy as np
import pytest

from kernel_velocity.direction import Better
from kernel_velocity.past import past
from kernel_velocity.results import lines
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.stats.changepoints.search import Noise
from kernel_velocity.stats.changepoints.values import ChangePoint
from kernel_velocity.verdict import moves, verdicts
from kernel_velocity.verdict.verdicts import Levels, Verdict, Verdicts, Word
from lab import platforms
from tests import large_tree
from tests.site import pages

SHAPE, AT = large_tree.Shape(commits=40, series=20), 20
NATIVE = large_tree.PAIRS.index(("native", "float32-1M"))


def point(index, before, after, **more):
    ratio = math.exp(after - before)
    return ChangePoint(index=index, before=before, after=after, low=ratio * 0.99, high=ratio * 1.01, p=1e-9, **more)


NOISE = Noise(sigma=0.005, freedom=20)


def levels(*points, doubt=None, noise=NOISE, **more):
    within = (verdicts.least_steps(noise, 20, 1e-6),) * (len(points) + 1)
    return Levels(points=points, values=np.ones(50), within=within, doubt=doubt, **more)


def test_change_is_the_product_of_the_steps_between():
    series = levels(point(10, 0.0, 0.1), point(20, 0.1, 0.3), point(30, 0.3, 0.0))
    whole = series.between(0, 25)
    assert (whole.word, whole.ratio) == (Word.SLOWER, pytest.approx(math.exp(0.3)))
    assert whole.low < whole.ratio < whole.high
    assert series.between(10, 49).word is Word.FASTER  # the level that begins at 10 is the old one
    assert series.between(9, 10).word is Word.SLOWER
    assert series.between(0, 49).word is Word.UNCHANGED  # and back


@pytest.mark.parametrize(
    ("values", "better", "wanted"),
    [
        ([0, 0, 0, 8, 8], Better.LOWER, (Word.SLOWER, (0, 8))),
        ([8, 8, 8, 0, 0], Better.LOWER, (Word.FASTER, (8, 0))),
        ([0, 0, 0, 0, 8], Better.HIGHER, (Word.FASTER, (0, 8))),
        ([-1, -1, -1, -2], Better.NEITHER, (Word.LOWER, (-1, -2))),
        ([0, 0, 0, 0], Better.LOWER, (Word.UNCHANGED, None)),
        ([0, 1, 0, 8, 8], Better.LOWER, (Word.UNDECIDED, None)),  # it scatters
        ([0, 0, 0, 8, 9], Better.LOWER, (Word.UNDECIDED, None)),
        ([0, 8], Better.LOWER, (Word.UNDECIDED, None)),
    ],
)
def test_counts_that_begin_or_end_at_zero(values, better, wanted):
    columns = types.SimpleNamespace(seconds=np.array(values, float), better=better)
    verdict = verdicts.of_constants(columns, np.arange(len(values)), 0, len(values) - 1)
    assert (verdict.word, verdict.ends) == wanted


def test_unchanged_says_what_would_have_been_seen():
    long, short = levels().between(20, 30), levels().between(20, 49)
    assert (long.word, long.ratio) == (Word.UNCHANGED, 1.0)
    assert 0.01 < long.within < 0.1
    assert levels(noise=Noise(sigma=0.02, freedom=20)).between(20, 30).within > 3 * long.within
    assert short.word is Word.UNCHANGED and short.within > long.within  # a change of the newest commit has one value
    assert levels().between(0, 30).within > long.within  # as has the level before one of the second commit


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
    if series.within[0]:
        assert series.between(0, 20).word is series.between(35, 40).word is Word.UNCHANGED


def opened(folder, *steps):
    """Return the past of a tree whose series ONE has steps (commit, factor), and the tree's commits."""
    truth = [large_tree.Change(at=at, factor=factor, series=(NATIVE,)) for at, factor in steps]
    commits = large_tree.build(folder, SHAPE, truth)
    return past.open(folder / "results", folder / "repository"), commits


def key_of(recorded):
    (key,) = [key for key in recorded.keys if (key.implementation, key.case) == large_tree.PAIRS[NATIVE]]
    return key


def test_step_as_of_controls_of_the_machine_is_undecided(tmp_path):
    visits = [(number, at) for number in range(10) for at in (3 + 2 * number, 9 + 2 * number)]  # eager and compile
    truth = [
        large_tree.Change(at=at, factor=1.1 ** (-1) ** turn, series=(number,))
        for turn, (number, at) in enumerate(visits)
    ]
    large_tree.build(tmp_path, SHAPE, [*truth, large_tree.Change(at=AT, factor=1.1, series=(NATIVE,))])
    recorded = past.open(tmp_path / "results", tmp_path / "repository")
    key, guilty = key_of(recorded), frozenset({recorded.line[AT]})
    (step,) = Verdicts(recorded)[key].points
    assert step.is_unsteady and Verdicts(recorded)[key].between(AT - 1, AT).word is Word.UNDECIDED
    assert Verdicts(recorded, {(key, False): guilty})[key].points == (step,)
    confirmed = Verdicts(recorded, {(key, True): guilty})[key]
    assert confirmed.between(AT - 1, AT).word is Word.SLOWER and not confirmed.points[0].warnings


@pytest.mark.parametrize(
    ("changed_at", "after", "position", "is_same_code"),
    [
        (AT + 2, "b", AT + 2, False),
        (AT, "b", AT, False),
        (None, "b", AT, True),
        (AT, "2:a", AT, False),
        (AT + 2, "2:a", AT, True),
    ],
    ids=["later", "there", "never", "hashed in another way there", "hashed in another way later"],
)
def test_step_is_blamed_on_the_nearest_change_of_code(tmp_path, changed_at, after, position, is_same_code):
    recorded, commits = opened(tmp_path, (AT, 1.1))
    key = key_of(recorded)
    for index, sha in enumerate(commits):
        code = after if changed_at is not None and index >= changed_at else "a"
        path = tmp_path / "results" / key.machine / f"{sha[:8]}-{key.environment}.json"
        lines.append_session(path, SessionFacts(began=100.0 + index, code={"kernel_000": code}))
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


# Of 120 random draws, 2 take a change back (young histories, whose scatter one more value shows to be unsure)
@pytest.mark.parametrize(
    ("seed", "before", "effect"), [(9160, 30, -0.06), (1600, 15, 0.04), (7, 5, 0.06), (8, 22, -0.04)]
)
def test_change_is_not_taken_back_while_its_evidence_grows(seed, before, effect):
    sigma, most = 0.005, before + 24
    values = np.random.default_rng(seed).normal(0, sigma, (12, most))
    values[0, before:] += effect
    was_named, evidence = False, 0.0
    for size in range(before + 1, most + 1):
        old, new = values[0, :before], values[0, before:size]
        (changed, *_) = platforms.platform(values[:8, :size], values[8:, :size])
        named = any(abs(point.index - before) <= 1 and point.is_blamed for point in changed.points)
        lowered, evidence = evidence, abs(new.mean() - old.mean()) / sigma / math.sqrt(1 / old.size + 1 / new.size)
        assert named or not was_named or evidence < lowered
        was_named = named
    assert was_named
