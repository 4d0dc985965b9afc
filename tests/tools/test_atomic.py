"""Files that are replaced whole or not at all."""

import os
import subprocess
import sys

import pytest

from tools.atomic import remove_left, replace_bytes, replace_text


def test_a_text_is_replaced_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "new" / "a.txt"
    for text in ("one", "two"):
        replace_text(path, text)
    assert path.read_text() == "two"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(("text", "error"), [("text", OSError), ("\ud800", UnicodeEncodeError)])
def test_what_cannot_be_written_leaves_no_temporary_file(tmp_path, text, error):
    folder = tmp_path / "a"
    folder.mkdir()
    with pytest.raises(error):
        replace_text(folder, text)
    assert list(tmp_path.iterdir()) == [folder]


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (tmp_path / "deep").mkdir()
    left = [tmp_path / f".a.json.{ended.pid}", tmp_path / "deep" / f".b.{ended.pid}"]
    kept = [tmp_path / name for name in (f".a.json.{os.getpid()}", ".gitignore", "a.json", f".x.{10**30}", "a.1")]
    for path in (*left, *kept):
        path.write_text("")
    assert sorted(remove_left(tmp_path)) == sorted(left)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(kept)
    assert remove_left(tmp_path / "nowhere") == []


def test_bytes_are_replaced_alike(tmp_path):
    path = tmp_path / "new" / "a.png"
    for contents in (b"\x00\xff", b"two"):
        replace_bytes(path, contents)
    assert path.read_bytes() == b"two"
    assert list(path.parent.iterdir()) == [path]
