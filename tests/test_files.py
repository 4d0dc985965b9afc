"""Files that are replaced atomically."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_velocity.files import naming, remove_left, replace_bytes, replace_text, try_to_write


@pytest.mark.parametrize(("replace", "contents"), [(replace_text, "two"), (replace_bytes, b"\x00\xff")])
def test_file_is_replaced_without_leftovers(tmp_path, replace, contents):
    path = tmp_path / "new" / "a"
    for text in (contents[:1], contents):
        replace(path, text)
    assert path.read_bytes() == (contents.encode() if isinstance(contents, str) else contents)
    assert list(path.parent.iterdir()) == [path]


def test_error_of_a_full_disk_names_the_file(tmp_path):
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"), naming(Path("/dev/full")):
        Path("/dev/full").write_text("a")  # Python's own error has no path
    with pytest.raises(OSError, match=r"Broken pipe$"), naming(tmp_path):
        raise OSError(errno.EPIPE, os.strerror(errno.EPIPE))


def opened(descriptor):
    """Return the path of an open file."""
    return Path("/proc/self/fd", str(descriptor)).readlink()


def test_contents_reach_the_disk_before_the_name(tmp_path, monkeypatch):
    events, replace = [], Path.replace

    def synced(descriptor):
        path = opened(descriptor)
        events.append(path if path.is_dir() else path.read_text())

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", lambda path, to: events.append("named") or replace(path, to))
    replace_text(tmp_path / "a.txt", "text")
    assert events == ["text", "named", tmp_path]


def test_file_system_without_folder_sync(tmp_path, monkeypatch):
    def refused(descriptor, real=os.fsync):
        if opened(descriptor).is_dir():
            raise OSError(errno.EINVAL, "Invalid argument")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", refused)
    replace_text(tmp_path / "a.txt", "text")
    assert (tmp_path / "a.txt").read_text() == "text"


def test_full_disk_keeps_the_old_contents(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "a.txt"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_text(path, "new")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("text", "error"), [("text", OSError), ("\ud800", UnicodeEncodeError)])
def test_failed_write_leaves_no_temporary_file(tmp_path, text, error):
    folder = tmp_path / "a"
    folder.mkdir()
    with pytest.raises(error):
        replace_text(folder, text)
    assert list(tmp_path.iterdir()) == [folder]


def test_remove_left_removes_files_of_killed_processes_only(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (tmp_path / "deep").mkdir()
    left = [tmp_path / f".a.json.{ended.pid}", tmp_path / "deep" / f".b.{ended.pid}"]
    unrelated = [tmp_path / name for name in (f".a.json.{os.getpid()}", ".gitignore", "a.json", f".x.{10**30}", "a.1")]
    for path in (*left, *unrelated):
        path.write_text("")
    assert sorted(remove_left(tmp_path)) == sorted(left)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(unrelated)
    assert remove_left(tmp_path / "nowhere") == []


def test_try_to_write_changes_nothing(tmp_path):
    path = tmp_path / "a.txt"
    try_to_write(path)
    assert list(tmp_path.iterdir()) == []
    path.write_text("old")
    try_to_write(path)
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("path", ["/proc/new", "nowhere/new", "n" * 255], ids=["no place", "no folder", "long"])
def test_try_to_write_raises_as_writing_would(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError):
        try_to_write(Path(path))
