"""The tar is whole or not there and stays within its limit. Only a node's tars are read, and none that does harm."""

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

from kernel_velocity.errors import ResultsError
from kernel_velocity.offline import archive
from kernel_velocity.offline.archive import FORMAT, Manifest
from tests.offline import node
from tests.offline.node import contents

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


def names(path):
    with tarfile.open(path) as tar:
        return tar.getnames()


def test_tar_round_trip(folder, path, into):
    path.with_name(f".{path.name}.99").write_bytes(b"half")  # of a writer that was killed
    assert archive.write(path, folder) == []
    first = path.read_bytes()
    archive.write(path, folder)
    assert path.read_bytes() == first
    assert [file.name for file in path.parent.iterdir() if file.is_file()] == [path.name]
    assert archive.read(path, into) == node.manifest(COMMITS)
    assert contents(into) == contents(folder)
    assert names(path)[0] == "manifest.json"
    with tarfile.open(path) as tar:
        assert {member.uname + member.gname for member in tar} == {""}


@pytest.mark.skipif(shutil.which("xz") is None, reason="there is no xz to read it with")
def test_tar_is_one_for_other_programs(folder, path, into):
    archive.write(path, folder)
    subprocess.run(["tar", "-xJf", str(path), "-C", str(into)], check=True)
    assert contents(into) == contents(folder)


def test_tar_above_the_limit_lacks_traces_then_logs(folder, path):
    for name, size in {"traces/a": 30_000, "traces/b": 50_000, "logs/c": 90_000, "logs/d": 1000}.items():
        (folder / name).write_bytes(noise(size, name))
    (folder / "traces" / "z").write_bytes(bytes(200_000))  # large, but it takes nothing in the tar
    (folder / "run" / "big").write_bytes(noise(60_000))
    archive.write(path, folder)
    whole, everything = path.stat().st_size, set(names(path))
    assert archive.write(path, folder, whole) == []
    lines = archive.write(path, folder, whole - 1)
    assert everything - set(names(path)) == {"traces/b"} and path.stat().st_size < whole
    assert re.fullmatch(r"left out of the tar, 1 bytes over: traces/b \(50,\d{3} bytes of it\)", *lines)
    archive.write(path, folder, whole - 60_000)
    assert everything - set(names(path)) == {"traces/a", "traces/b"}
    lines = archive.write(path, folder, whole - 85_000)
    gone = everything - set(names(path))
    assert gone == {"traces/a", "traces/b", "traces/hot.json", "traces/z", "logs/c"}
    assert len(lines) == len(gone) and path.stat().st_size <= whole - 85_000
    before = path.read_bytes()
    with pytest.raises(ResultsError, match=rf"at most 50000 may leave.*copy {folder} instead"):
        archive.write(path, folder, 50_000)
    assert path.read_bytes() == before


def test_full_disk_leaves_the_earlier_tar(folder, path, monkeypatch):
    archive.write(path, folder)
    before = path.read_bytes()
    (folder / "logs" / "more.log").write_text("more")

    def full(*_args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        archive.write(path, folder)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir() if file.name.startswith(".")] == []


@pytest.mark.parametrize("cut", [1, 12, 2000, len(lzma.compress(archive.END))])  # the last one is between two streams
def test_tar_that_is_cut_off_is_refused(folder, path, into, cut):
    archive.write(path, folder)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(ResultsError, match=r"not a whole .*copy kernel-velocity-node.tar.xz from the node again"):
        archive.read(path, into)


@pytest.mark.parametrize("data", [b"", b"hello", lzma.compress(b"hello" * 1000)])
def test_file_that_is_no_tar_is_refused(path, into, data):
    path.write_bytes(data)
    with pytest.raises(ResultsError, match=archive.NAME):
        archive.read(path, into)


def test_missing_tar_is_one_line(path, into):
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
    "bad",
    [
        member("../motd"),
        member("run/../../motd"),
        member("run/link", tarfile.SYMTYPE, "/etc"),
        member("run/link", tarfile.SYMTYPE, "../../motd"),
        member("run/hard", tarfile.LNKTYPE, "/etc/motd"),
        member("run/device", tarfile.CHRTYPE),
    ],
)
def test_member_that_leaves_the_folder_refuses_the_tar(path, into, bad):
    planted(path, bad)
    with pytest.raises(ResultsError, match=r"not a whole \.tar\.xz"):
        archive.read(path, into)
    assert not (into.parent / "motd").exists()


def test_absolute_member_lands_in_the_folder(path, into):
    archive.read(planted(path, member("/etc/motd")), into)
    assert (into / "etc" / "motd").read_bytes() == b"data"


def test_tar_that_unpacks_to_too_much_is_refused(path, into, monkeypatch):
    planted(path, (tarfile.TarInfo("run/zeros"), bytes(3_000_000)))
    archive.read(path, into)
    info = tarfile.TarInfo("run/sparse")  # a tera in a few bytes
    info.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.size": str(10**12)}
    info.pax_headers |= {"GNU.sparse.map": "0,4", "GNU.sparse.numblocks": "1"}
    with pytest.raises(ResultsError, match=r"more than 1,000 MB unpacked"):
        archive.read(planted(path.with_name("sparse"), (info, b"data")), into)
    monkeypatch.setattr(archive, "UNPACKED_LIMIT", 2_000_000)
    with pytest.raises(ResultsError, match=r"more than 2 MB unpacked"):
        archive.read(path, into)


def changed(**changes):
    data = json.loads(node.manifest(COMMITS).to_json()) | changes
    return json.dumps({key: value for key, value in data.items() if value is not None})


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        changed(project="numpy"),
        changed(project=None),
        changed(root="HEAD"),
        changed(head="--output=x"),
        changed(machine="../.."),
        changed(node=[1]),
        changed(written=1e30),
    ],
)
def test_manifest_that_is_not_ours_is_one_line(path, into, text):
    with pytest.raises(ResultsError, match=r"manifest\.json is not of a node of kernel-velocity") as caught:
        archive.read(planted(path, manifest=text), into)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)


def test_manifest_of_a_newer_format_asks_for_an_update(path, into):
    with pytest.raises(ResultsError, match="format 2: this kernel-velocity reads 1 at most: update it"):
        archive.read(planted(path, manifest=changed(format=FORMAT + 1)), into)


def test_tar_without_a_manifest_is_refused(path, into):
    with tarfile.open(path, "w:xz") as tar:
        tar.addfile(tarfile.TarInfo("results"), io.BytesIO())
    with pytest.raises(ResultsError, match=r"no manifest\.json in it"):
        archive.read(path, into)


def test_manifest_round_trip():
    manifest = node.manifest(COMMITS)
    assert Manifest.from_json(manifest.to_json(), "x") == manifest
    assert manifest.stamp == node.STAMP and manifest.to_json().count("\n") == 1
