"""The file of kept change points: what is in it comes back; a damaged, foreign or unwritable one is as none."""

import dataclasses

import pytest

from kernel_velocity.series import cache, change_points
from kernel_velocity.series.change_points import NAME, Finder, Known, Rewriting
from kernel_velocity.stats.changepoints import incremental
from tests.series.test_change_finder import EXPECTED, SERIES


def find(folder):
    finder = Finder(tuple(SERIES), SERIES.__getitem__, folder)
    points = finder.of(tuple(SERIES))
    finder.keep({})
    return points


@pytest.fixture
def searches(monkeypatch):
    """Return the list of how long the series were that were looked at."""
    looked = []
    original = incremental.found
    monkeypatch.setattr(
        incremental, "found", lambda values, known=None: looked.append(len(values)) or original(values, known)
    )
    return looked


def test_what_a_report_found_the_next_one_knows(tmp_path, searches):
    assert find(tmp_path) == EXPECTED and len(searches) == len(SERIES)
    written = (tmp_path / NAME).stat()
    assert find(tmp_path) == EXPECTED and len(searches) == len(SERIES)
    assert (tmp_path / NAME).stat().st_ino == written.st_ino  # as it was
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


@pytest.mark.parametrize("place", ["first byte", "record", "index", "end", "cut short", "empty"])
def test_a_damaged_file_is_as_none(tmp_path, searches, place):
    find(tmp_path)
    path = tmp_path / NAME
    whole = path.read_bytes()
    at = {"first byte": 0, "record": whole.index(b"{") + 5, "index": len(whole) - 40, "end": len(whole) - 1}
    if place in at:
        damaged = bytearray(whole)
        damaged[at[place]] ^= 1
        path.write_bytes(damaged)
    else:
        path.write_bytes(whole[: len(whole) // 2] if place == "cut short" else b"")
    searches.clear()
    assert find(tmp_path) == EXPECTED
    assert len(searches) == (1 if place == "record" else len(SERIES))
    assert path.read_bytes() == whole or place == "record"
    searches.clear()
    assert find(tmp_path) == EXPECTED and not searches


def test_a_file_of_other_code_or_libraries_is_as_none(tmp_path, searches, monkeypatch):
    find(tmp_path)
    monkeypatch.setattr(cache, "digest", lambda: "other")
    searches.clear()
    assert find(tmp_path) == EXPECTED and len(searches) == len(SERIES)
    monkeypatch.setattr(change_points.scipy, "__version__", "0.0")
    searches.clear()
    assert find(tmp_path) == EXPECTED and len(searches) == len(SERIES)


def test_a_folder_that_cannot_be_used_is_no_obstacle(tmp_path, searches):
    (tmp_path / "file").write_text("")
    assert find(tmp_path / "file") == EXPECTED
    (tmp_path / NAME).mkdir()
    assert find(tmp_path) == EXPECTED
    assert sorted(path.name for path in tmp_path.iterdir()) == [NAME, "file"]


def test_a_cache_that_can_only_be_read_is_read(tmp_path, searches, monkeypatch):
    find(tmp_path)
    searches.clear()

    def refused(self, folder):
        raise PermissionError(13, "read-only file system")

    monkeypatch.setattr(Rewriting, "_begun", refused)
    assert find(tmp_path) == EXPECTED and not searches
    longer = {name: dataclasses.replace(each, seconds=each.seconds * 2) for name, each in SERIES.items()}
    finder = Finder(tuple(longer), longer.__getitem__, tmp_path)
    assert finder.of(tuple(longer)) == {name: change_points.of(each) for name, each in longer.items()}
    finder.keep({})
    assert len(searches) == len(SERIES) and [path.name for path in tmp_path.iterdir()] == [NAME]


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    find(tmp_path)
    before = (tmp_path / NAME).read_bytes()
    known = Known(tmp_path)
    rewriting = Rewriting(tmp_path, known)
    rewriting.add("new", b"record")

    def full(folder):
        raise OSError(28, "no space left")

    monkeypatch.setattr(rewriting, "_begun", full)
    rewriting.add("newer", b"record")
    rewriting.finish()
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
    assert (tmp_path / NAME).read_bytes() == before


def test_two_reports_at_once_each_leave_a_whole_file(tmp_path, monkeypatch):
    first = Rewriting(tmp_path, Known(tmp_path))
    with monkeypatch.context() as other_process:
        other_process.setattr(change_points.os, "getpid", lambda: 1)
        first.add("a", b"1")
    find(tmp_path)
    assert len(Known(tmp_path).names()) == len(SERIES)
    first.add("b", b"22")
    first.finish()
    assert Known(tmp_path).names() == {"a", "b"} and Known(tmp_path).record("b") == b"22"
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
