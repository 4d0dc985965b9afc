"""The tar is whole. Only a node's tars are read, and none that does harm."""

import io
import json
import lzma
import shutil
import tarfile

import pytest

from kernel_velocity import documents
from kernel_velocity.counts import listing
from kernel_velocity.errors import NothingMeasured, ResultsError, UsageError
from kernel_velocity.fleet import archive
from kernel_velocity.fleet.archive import MANIFEST_FORMAT
from tests.fleet import node
from tests.fleet.node import contents

COMMITS = ("a" * 40, "b" * 40)


@pytest.fixture
def folder(tmp_path):
    return node.lay_out(tmp_path / "out", COMMITS)


@pytest.fixture
def path(tmp_path):
    return tmp_path / archive.TAR_NAME


@pytest.fixture
def into(tmp_path):
    (tmp_path / "into").mkdir()
    return tmp_path / "into"


def names(path):
    with tarfile.open(path) as tar:
        return tar.getnames()


def test_tar_round_trip(folder, path, into):
    path.write_bytes(archive.of_folder(folder))
    assert archive.of_folder(folder) == path.read_bytes()
    assert archive.read(path, into) == node.manifest(COMMITS)
    assert contents(into) == contents(folder)
    assert names(path)[0] == "manifest.json"
    with tarfile.open(path) as tar:
        assert {member.uname + member.gname for member in tar} == {""}


@pytest.mark.parametrize("cut", [1, 900])
def test_tar_that_is_cut_off_is_refused(folder, path, into, cut):
    path.write_bytes(archive.of_folder(folder))
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(ResultsError, match=r"not a whole .*copy kernel-velocity-node.tar.xz from the node again"):
        archive.read(path, into)


@pytest.mark.parametrize("data", [b"hello", lzma.compress(b"hello" * 1000)])
def test_file_that_is_no_tar_is_refused(path, into, data):
    path.write_bytes(data)
    with pytest.raises(ResultsError, match=archive.TAR_NAME):
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
        member("run/link", tarfile.SYMTYPE, "/etc"),
        member("run/hard", tarfile.LNKTYPE, "/etc/motd"),
        member("run/device", tarfile.CHRTYPE),
    ],
)
def test_member_that_leaves_the_folder_refuses_the_tar(path, into, bad):
    planted(path, bad)
    with pytest.raises(ResultsError, match=r"not a whole \.tar\.xz"):
        archive.read(path, into)
    assert not (into.parent / "motd").exists()


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([archive.MANIFEST], "'manifest.json' is in it twice"),
        (["run/a", "./run//a"], "'run/a' is in it twice"),
        (["run/" + "a/" * 5000 + "b"], "'run/a/a/.*: below more than 16 levels of folders"),
        (["run/1", "run/2", "run/3"], "more than 3 files"),
    ],
    ids=["manifest", "twice", "deep", "many"],
)
def test_members_that_no_run_writes_refuse_the_tar(path, into, names, words, monkeypatch):
    monkeypatch.setattr(archive, "MOST_MEMBERS", 3)
    planted(path, *(member(name) for name in names))
    with pytest.raises(ResultsError, match=words):
        archive.read(path, into)
    assert not any(into.iterdir())


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
        changed(project="numpy"),
        changed(root="HEAD"),
        changed(head="--output=x"),
        changed(machine="../.."),
        changed(written=1e30),
    ],
)
def test_manifest_that_is_not_ours_is_one_line(path, into, text):
    with pytest.raises(ResultsError, match=r"manifest\.json is not of a node of kernel-velocity") as caught:
        archive.read(planted(path, manifest=text), into)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)


def test_manifest_of_a_newer_format_asks_for_an_update(path, into):
    with pytest.raises(ResultsError, match="format 2: this kernel-velocity reads 1 at most: update it"):
        archive.read(planted(path, manifest=changed(format=MANIFEST_FORMAT + 1)), into)


def test_tar_without_a_manifest_is_refused(path, into):
    with tarfile.open(path, "w:xz") as tar:
        tar.addfile(tarfile.TarInfo("results"), io.BytesIO())
    with pytest.raises(ResultsError, match=r"no manifest\.json in it"):
        archive.read(path, into)


def test_node_writes_what_its_clone_recorded(tmp_path, home, monkeypatch):
    """The results of its machine, what describes the run, and the identity of both."""
    pack, describing = tmp_path / "pack.json", tmp_path / "run"
    names = {"root": home.commits[0], "head": home.commits[-1], "commits": home.commits}
    pack.write_text(documents.with_checksum(json.dumps(names)))
    describing.mkdir()
    (describing / "tests.txt").write_text("3 passed")
    answers = [{"gpus": [node.GPU], "torch": "2.13.0"}]  # asked once
    monkeypatch.setattr(archive.doctor, "probe", answers.pop)
    monkeypatch.chdir(home.root)
    command = [str(pack), str(describing), str(tmp_path / "tar"), "--machine=node", f"--pytorch={tmp_path / 'pytorch'}"]
    with pytest.raises(NothingMeasured, match="nothing is recorded of node"):
        archive.main(command, io.StringIO())
    (tmp_path / "text").mkdir()
    archive.read(tmp_path / "tar", tmp_path / "text")
    assert set(contents(tmp_path / "text")) == {"manifest.json", "run/tests.txt"}  # what the steps before printed
    shutil.copytree(node.lay_out(tmp_path / "laid", home.commits) / "results", "results")
    listing.store("kernel:", home.results / "node" / "code")
    assert archive.main(command, io.StringIO()) == 0
    (tmp_path / "into").mkdir()
    manifest = archive.read(tmp_path / "tar", tmp_path / "into")
    assert (manifest.node.device, manifest.node.gpus, manifest.commits) == ("cuda", (node.GPU,), home.commits)
    assert contents(tmp_path / "into" / "results") == contents(home.results)
    assert (tmp_path / "into" / "run" / "tests.txt").read_text() == "3 passed"
    pack.write_text('{"commits": ')
    with pytest.raises(UsageError, match="make a pack with `kv offline pack DIR`"):
        archive.main(command, io.StringIO())
