"""The tar is whole or not there, stays within its limit, and only this project's tars are read."""

import errno
import io
import json
import lzma
import os
import random
import re
import shutil
import subprocess
import tarfile

import pytest

from tests.tools.offline import node
from tools.errors import ResultsError
from tools.offline import archive
from tools.offline.manifest import FORMAT, Manifest

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


def test_a_header_that_is_garbage_does_not_end_the_tar(path, into):
    """tarfile takes it for the end."""
    planted(path, member("run/one"), member("run/two"))
    data = bytearray(lzma.decompress(path.read_bytes()))
    data[data.index(b"run/one") + 200] ^= 1
    path.write_bytes(lzma.compress(bytes(data)))
    with pytest.raises(ResultsError, match="its end is missing"):
        archive.read(path, into)


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


def planted(path, *members, manifest=None):
    """Write a tar with a manifest and members that no writer of ours makes."""
    with tarfile.open(path, "w:xz") as tar:
        text = (node.manifest(COMMITS).to_json() if manifest is None else manifest).encode()
        for info, data in [(tarfile.TarInfo("manifest.json"), text), *members]:
            info.size = len(data) if info.isreg() else 0
            tar.addfile(info, io.BytesIO(data))
    return path


def member(name, kind=tarfile.REGTYPE, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b"data"


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        (member("/etc/motd"), "lies outside"),
        (member("../motd"), "lies outside"),
        (member("run/../../motd"), "lies outside"),
        (member("run/link", tarfile.SYMTYPE, "/etc"), "a link or a device"),
        (member("run/link", tarfile.SYMTYPE, "summary.md"), "a link or a device"),
        (member("run/hard", tarfile.LNKTYPE, "manifest.json"), "a link or a device"),
        (member("run/device", tarfile.CHRTYPE), "a link or a device"),
        (member("run/pipe", tarfile.FIFOTYPE), "a link or a device"),
        (member("manifest.json"), "stands there twice"),
    ],
)
def test_a_member_that_could_leave_the_folder_refuses_the_whole_tar(path, into, bad, complaint):
    planted(path, member("run/good"), bad)
    with pytest.raises(ResultsError, match=complaint):
        archive.read(path, into)
    assert list(into.rglob("*")) == []


def test_a_tar_of_a_bomb_is_refused_before_it_is_on_the_disk(path, into):
    planted(path, (tarfile.TarInfo("run/zeros"), bytes(3_000_000)))
    assert path.stat().st_size < 10_000
    with pytest.raises(ResultsError, match=r"more than 2\.0 MB unpacked"):
        archive.read(path, into, limit=2_000_000)
    assert list(into.rglob("*")) == []
    assert archive.read(path, into) == node.manifest(COMMITS)


def test_a_bomb_that_is_no_tar_is_refused_before_it_is_unpacked(path, into):
    path.write_bytes(lzma.compress(bytes(3_000_000)))
    with pytest.raises(ResultsError, match=r"more than 2\.0 MB unpacked"):
        archive.read(path, into, limit=2_000_000)


def test_a_member_that_claims_to_be_larger_than_the_tar_is_refused(path, into):
    """A sparse file of a tera is a few bytes in the tar."""
    info = tarfile.TarInfo("run/sparse")
    info.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.size": str(10**12)}
    info.pax_headers |= {"GNU.sparse.map": "0,4", "GNU.sparse.numblocks": "1"}
    planted(path, (info, b"data"))
    with pytest.raises(ResultsError, match=r"more than 1,000\.0 MB unpacked"):
        archive.read(path, into)
    assert list(into.rglob("*")) == []


def changed(**changes):
    data = json.loads(node.manifest(COMMITS).to_json()) | changes
    return json.dumps({key: value for key, value in data.items() if value is not None})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "manifest.json: not JSON"),
        ("[]", "project 'kernel-velocity' is wanted"),
        (changed(project="numpy"), "project 'kernel-velocity' is wanted, got 'numpy'"),
        (changed(project=None), "project 'kernel-velocity' is wanted, got 'None'"),
        (changed(format=FORMAT + 1), "written in format 2 by a newer .* update this clone"),
        (changed(format="1"), "format: a number"),
        (changed(format=True), "format: a number"),
        (changed(format=0), "format: a number"),
        (changed(root="HEAD"), "root: 'HEAD' makes no sense"),
        (changed(root=None), "root: 'nothing' makes no sense"),
        (changed(head="--output=x"), "head: "),
        (changed(commits="abc"), "commits: "),
        (changed(commits=["abc"]), "commits: "),
        (changed(machine="../.."), "machine: "),
        (changed(machine=""), "machine: "),
        (changed(node=[1]), "node: "),
        (changed(written="today"), "written: "),
        (changed(written=float("nan")), "written: "),
        (changed(written=1e30), "written: "),
        (changed(written=True), "written: "),
    ],
)
def test_a_manifest_that_is_not_ours_is_one_line(path, into, text, complaint):
    planted(path, manifest=text)
    with pytest.raises(ResultsError, match=complaint) as caught:
        archive.read(path, into)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    assert list(into.rglob("*")) == []


def test_a_tar_without_a_manifest_is_refused(path, into):
    with tarfile.open(path, "w:xz") as tar:
        tar.addfile(tarfile.TarInfo("results"), io.BytesIO())
    with pytest.raises(ResultsError, match=r"no manifest\.json in it"):
        archive.read(path, into)


def test_a_folder_named_manifest_is_none(path, into):
    with tarfile.open(path, "w:xz") as tar:
        info = tarfile.TarInfo("manifest.json")
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    with pytest.raises(ResultsError, match=r"no manifest\.json in it"):
        archive.read(path, into)


def test_the_manifest_survives_its_text():
    found = node.manifest(COMMITS)
    assert Manifest.from_json(found.to_json(), "x") == found
    assert found.stamp == node.STAMP
    assert found.gpus == {node.GPU}
    assert node.manifest(COMMITS, node={}).gpus == frozenset()
