"""Change points are those of each series by itself, whoever is asked for which; what was found is kept."""

import sqlite3

import pytest

from kernel_velocity.series import change_points
from kernel_velocity.series.cache import NAME
from kernel_velocity.series.change_points import Finder
from kernel_velocity.stats.changepoints import incremental
from tests.series import test_series_changes
from tests.stepped_series import stepped

SERIES = {
    name: test_series_changes.series(stepped(-7.0, -7.0 + effect, seed=seed))
    for seed, (name, effect) in enumerate({"a": 0.2, "b": -0.1, "c": 0.0, "d": 0.3, "e": 0.15}.items())
}
EXPECTED = {name: change_points.of(each) for name, each in SERIES.items()}


@pytest.fixture
def searches(monkeypatch):
    """The values of each series that was looked at."""
    looked = []
    original = incremental.found
    monkeypatch.setattr(
        incremental,
        "found",
        lambda values, known=None: looked.append(values.tobytes()) or original(values, known),
    )
    return looked


def finder(folder=None, names=SERIES):
    return Finder(tuple(names), SERIES.__getitem__, folder)


def stored(folder):
    """Return the stored answers by key."""
    with sqlite3.connect(folder / NAME) as connection:
        return dict(connection.execute("SELECT key, value FROM answer").fetchall())


@pytest.mark.parametrize("asked", [["abcde"], ["e", "dcba"], ["aa", "ab", "ba", "cde"]])
@pytest.mark.parametrize("block", [2, 512])
def test_however_they_are_asked_for(monkeypatch, searches, asked, block):
    monkeypatch.setattr(change_points, "BLOCK", block)
    ours = finder()
    for names in asked:
        assert ours.of(names) == {name: EXPECTED[name] for name in names}
    assert len(searches) == len(set(searches)) == len(SERIES)
    assert len(EXPECTED["d"]) == 1


def test_what_two_found_is_kept_by_one(tmp_path, searches):
    finder(tmp_path).save({})
    assert not list(tmp_path.iterdir())  # nothing was found
    whole = finder(tmp_path / "one")
    whole.of("abcde")
    whole.save({})
    ours, theirs = finder(tmp_path / "two"), finder(tmp_path / "two")
    ours.of("ac")
    theirs.of("bde")
    ours.save(theirs.new)
    assert stored(tmp_path / "two") == stored(tmp_path / "one")
    assert len(stored(tmp_path / "two")) == len(SERIES)
    searches.clear()
    assert finder(tmp_path / "two").of("abcde") == EXPECTED
    assert not searches


def test_of_those_that_nobody_asked_for_it_keeps_what_there_is(tmp_path, searches, monkeypatch):
    first = finder(tmp_path)
    first.of("abc")
    first.save({})
    before = stored(tmp_path)
    changed = SERIES | {"a": SERIES["d"], "b": SERIES["e"]}
    monkeypatch.setattr("tests.series.test_change_points.SERIES", changed)
    second = finder(tmp_path)
    second.of("a")
    second.save({})
    after = stored(tmp_path)
    changed_one = {name for name in before if "'a'" in name}
    assert len(changed_one) == 1 and after.keys() == before.keys()
    assert {name for name in before if after[name] != before[name]} == changed_one


def test_nothing_new_leaves_the_file_alone_and_something_forgets_the_series_that_are_gone(tmp_path):
    first = finder(tmp_path, "abcd")
    first.of("abcd")
    first.save({})
    written = (tmp_path / NAME).stat().st_mtime_ns
    fewer = finder(tmp_path, "ab")
    fewer.of("ab")
    fewer.save({})
    assert (tmp_path / NAME).stat().st_mtime_ns == written
    others = finder(tmp_path, "abe")
    others.of("abe")
    others.save({})
    assert len(stored(tmp_path)) == 3


def damage(folder, statement):
    with sqlite3.connect(folder / NAME) as connection:
        connection.execute(statement)


@pytest.mark.parametrize(
    ("statement", "again"),
    [
        ("UPDATE answer SET value = zeroblob(length(value)) WHERE rowid = 2", 1),
        ("UPDATE answer SET value = x'' WHERE rowid = 2", 1),
        ("UPDATE made SET identity = 'other code'", len(SERIES)),
        ("PRAGMA user_version = 99", len(SERIES)),
        ("DROP TABLE answer", len(SERIES)),
    ],
)
def test_damaged_answers_are_found_again(tmp_path, searches, statement, again):
    first = finder(tmp_path)
    assert first.of("abcde") == EXPECTED
    first.save({})
    damage(tmp_path, statement)
    searches.clear()
    second = finder(tmp_path)
    assert second.of("abcde") == EXPECTED and len(searches) == again
    second.save({})  # where the file cannot be used, nothing is stored


def test_a_folder_that_cannot_be_used_is_no_obstacle(tmp_path):
    (tmp_path / "file").write_text("")
    ours = finder(tmp_path / "file")
    assert ours.of("abcde") == EXPECTED
    ours.save({})
    assert (tmp_path / "file").read_text() == ""
