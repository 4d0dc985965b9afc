"""Only this project's tars are read, and none that could do harm: nothing of the others is extracted."""

import io
import json
import lzma
import tarfile

import pytest

from kernel_velocity.errors import ResultsError
from kernel_velocity.offline import archive
from kernel_velocity.offline.pack import FORMAT, Manifest
from tests.offline import node

COMMITS = ("a" * 40, "b" * 40)


@pytest.fixture
def path(tmp_path):
    return tmp_path / archive.NAME


@pytest.fixture
def into(tmp_path):
    (tmp_path / "into").mkdir()
    return tmp_path / "into"


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


def test_a_header_that_is_garbage_does_not_end_the_tar(path, into):
    """tarfile takes it for the end."""
    planted(path, member("run/one"), member("run/two"))
    data = bytearray(lzma.decompress(path.read_bytes()))
    data[data.index(b"run/one") + 200] ^= 1
    path.write_bytes(lzma.compress(bytes(data)))
    with pytest.raises(ResultsError, match="its end is missing"):
        archive.read(path, into)


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
