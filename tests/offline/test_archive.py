"""The tar is whole or not there, stays within its limit, and only this project's tars are read."""

import errno
import io
import lzma
import os
import random
import re
import shutil
import subprocess
import tarfile

import pytest

from kernel_velocity.errors import ResultsError
from kernel_velocity.offline import archive
from tests.offline import node

COMMITS = ("a" * 40, "b" * 40)


def noise(size, seed=0):
    """Return bytes that do not compress."""
    return random.Random(seed).randbytes(size)


@pytest.fixture
def folder(tmp_path):
    return node.lay_out(tmp_path / "out", COMMITS)


@pytest.fixture
def path(tmp_path):
    return tmp_path / archive.NAME


@pytest.fixture
def into(tmp_path):
    (tmp_path / "into").mkdir()
    return tmp_path / "into"


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def names(path):
    with tarfile.open(path) as tar:
        return tar.getnames()


def test_what_is_written_is_read(folder, path, into):
    assert archive.write(path, folder) == []
    assert archive.read(path, into) == node.manifest(COMMITS)
    assert contents(into) == contents(folder)
    assert names(path)[0] == "manifest.json"
    with tarfile.open(path) as tar:
        assert {member.uname + member.gname for member in tar} == {""}


@pytest.mark.skipif(shutil.which("xz") is None, reason="there is no xz to read it with")
def test_it_is_a_tar_xz_to_everybody_else_too(folder, path, into):
    archive.write(path, folder)
    subprocess.run(["tar", "-xJf", str(path), "-C", str(into)], check=True)
    assert contents(into) == contents(folder)


def test_two_of_the_same_folder_are_the_same(folder, path):
    archive.write(path, folder)
    first = path.read_bytes()
    archive.write(path, folder)
    assert path.read_bytes() == first


def test_a_tar_inside_the_folder_does_not_pack_itself(folder, into):
    path = folder / archive.NAME
    for _ in range(2):
        archive.write(path, folder)
        assert archive.NAME not in names(path)


def test_what_is_over_the_limit_goes_largest_trace_first_then_logs(folder, path):
    for name, size in {"traces/a": 30_000, "traces/b": 50_000, "logs/c": 90_000, "logs/d": 1000}.items():
        (folder / name).write_bytes(noise(size, name))
    (folder / "traces" / "z").write_bytes(bytes(200_000))  # large, but it takes nothing in the tar
    (folder / "run" / "big").write_bytes(noise(60_000))
    archive.write(path, folder)
    whole, everything = path.stat().st_size, set(names(path))
    lines = archive.write(path, folder, whole - 1)
    assert everything - set(names(path)) == {"traces/b"} and path.stat().st_size < whole
    assert len(lines) == 1
    assert re.fullmatch(r"left out of the tar, 1 bytes over: traces/b \(50,\d{3} bytes of it\)", lines[0])
    archive.write(path, folder, whole - 60_000)
    assert everything - set(names(path)) == {"traces/a", "traces/b"}
    lines = archive.write(path, folder, whole - 85_000)
    gone = everything - set(names(path))
    assert gone == {"traces/a", "traces/b", "traces/hot.json", "traces/z", "logs/c"}
    assert len(lines) == len(gone) and path.stat().st_size <= whole - 85_000


def test_a_tar_just_at_the_limit_is_whole(folder, path):
    (folder / "traces" / "a").write_bytes(noise(9000))
    archive.write(path, folder)
    assert archive.write(path, folder, path.stat().st_size) == []


def test_what_must_be_kept_is_never_left_out(folder, path):
    archive.write(path, folder)
    before = path.read_bytes()
    (folder / "run" / "big").write_bytes(noise(60_000))
    with pytest.raises(ResultsError, match=rf"at most 50000 may leave.*everything lies in {folder}"):
        archive.write(path, folder, 50_000)
    assert path.read_bytes() == before
    assert not list(path.parent.glob(".*"))
    assert (folder / "run" / "big").exists()


@pytest.mark.parametrize("where", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_the_earlier_tar(folder, path, monkeypatch, where):
    archive.write(path, folder)
    before = path.read_bytes()
    (folder / "logs" / "more.log").write_text("more")

    def full(*_args):
        raise OSError(errno.ENOSPC, "No space left on device")

    if where == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    elif where == "replace":
        monkeypatch.setattr(type(path), "replace", full)
    else:
        monkeypatch.setattr(type(path), "open", lambda *_args, **_named: Full(full))
    with pytest.raises(OSError, match="No space left"):
        archive.write(path, folder)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [item.name for item in path.parent.iterdir() if item.name.startswith(".")] == []


class Full(io.BytesIO):
    """A file on a full disk."""

    def __init__(self, complain):
        super().__init__()
        self.write = complain


def test_what_a_killed_writer_left_is_overwritten(folder, path):
    path.with_name(f".{path.name}.new").write_bytes(b"half")
    archive.write(path, folder)
    assert [item.name for item in path.parent.iterdir() if item.is_file()] == [path.name]


@pytest.mark.parametrize("cut", [1, 12, 40, 2000])
def test_a_tar_that_is_cut_off_is_refused(folder, path, into, cut):
    archive.write(path, folder)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(ResultsError, match=r"not a whole .*copy kernel-velocity-node.tar.xz from the node again"):
        archive.read(path, into)
    assert contents(into) == {}


def test_a_tar_that_is_cut_between_two_streams_is_refused(folder, path, into):
    """A cut between two streams leaves a good .xz of half a tar: only the tar's own end says so."""
    archive.write(path, folder)
    end = len(archive._compressed(bytes(1024)))
    path.write_bytes(path.read_bytes()[:-end])
    with pytest.raises(ResultsError, match="not a whole tar"):
        archive.read(path, into)
    assert contents(into) == {}


def test_a_flipped_bit_is_seen(folder, path, into):
    (folder / "traces" / "noise").write_bytes(noise(5000))
    archive.write(path, folder)
    data = bytearray(path.read_bytes())
    data[-2000] ^= 1
    path.write_bytes(data)
    with pytest.raises(ResultsError, match=r"not a whole \.tar\.xz"):
        archive.read(path, into)


@pytest.mark.parametrize("data", [b"", b"hello", lzma.compress(b"hello" * 1000)])
def test_what_is_no_tar_is_refused(path, into, data):
    path.write_bytes(data)
    with pytest.raises(ResultsError, match=archive.NAME):
        archive.read(path, into)


def test_a_path_without_a_file_is_one_line(path, into):
    with pytest.raises(ResultsError, match=r"no such file; the kernel-velocity-node.tar.xz that the node wrote"):
        archive.read(path, into)
