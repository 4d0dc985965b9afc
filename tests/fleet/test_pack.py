"""Packing: what is in the folder, and what is refused before anything is written."""

import io
import json
import zipfile

import pytest

from kernel_velocity import __main__
from kernel_velocity.fleet import pack
from tests.commands import git


def wheel(folder, name, size=10):
    """A wheel that pip takes."""
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as stream:
        stream.writestr(f"{name}.py", "x" * size)
        stream.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        stream.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        stream.writestr(f"{info}/RECORD", "")


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A repository of two commits whose extra `node` is two wheels that lie in a folder."""
    wheels, root = tmp_path / "wheels", tmp_path / "clone"
    wheels.mkdir()
    for name in ("alpha", "beta", "virtualenv"):
        wheel(wheels, name)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    (root / "kernels").mkdir(parents=True)
    (root / "tools").mkdir()
    (root / "tools" / "pyproject.toml").write_text(
        '[project]\nname = "x"\n[project.optional-dependencies]\nnode = ["alpha", "beta>=1", "virtualenv"]\n'
    )
    git(root, "init", "-q", "-b", "main")
    for number in (1, 2):
        (root / "kernels" / "a").write_text(str(number))
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", f"Commit {number}")
    return root


def packed(root, folder, *arguments):
    """Run the command. Return its status and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    status = __main__.main(
        ["offline", "pack", str(folder), "--root", str(root), "--pythons", "3.12", *arguments], out, err
    )
    return status, out.getvalue() + err.getvalue()


def test_pack_has_all_that_a_node_needs(clone, tmp_path):
    status, text = packed(clone, tmp_path / "pack")
    assert status == 0, text
    manifest = json.loads((tmp_path / "pack" / "manifest.json").read_text())
    newest, oldest = git(clone, "rev-list", "HEAD").split()
    assert (manifest["head"], manifest["root"], manifest["commits"]) == (newest, oldest, [newest, oldest])
    files = {str(path.relative_to(tmp_path / "pack")) for path in (tmp_path / "pack").rglob("*") if path.is_file()}
    sums = dict(line.split("  ")[::-1] for line in (tmp_path / "pack" / "SHA256SUMS").read_text().splitlines())
    assert files == sums.keys() | {"SHA256SUMS"}
    assert {"run", "manifest.json", "repository.bundle", "wheels/requirements-3.12.txt"} <= files
    assert (tmp_path / "pack" / "wheels" / "requirements-3.12.txt").read_text() == "alpha==1.0\nbeta==1.0\n"
    assert not any("virtualenv" in name for name in files)  # asv asks for it, nothing here needs it
    assert "2 commits" in text and "MB" in text
    git(tmp_path, "init", "-q", "other")
    git(tmp_path / "other", "fetch", "-q", str(tmp_path / "pack" / "repository.bundle"), "HEAD")
    assert git(tmp_path / "other", "rev-list", "FETCH_HEAD") == git(clone, "rev-list", "HEAD")


def test_older_pack_is_replaced_and_anything_else_is_not(clone, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("dear")
    status, text = packed(clone, tmp_path / "mine")
    assert status == 2 and "is no pack of ours" in text and (tmp_path / "mine" / "letter").exists()
    assert packed(clone, tmp_path / "pack")[0] == 0
    (tmp_path / "pack" / "stale").write_text("")
    assert packed(clone, tmp_path / "pack", "--range", "HEAD")[0] == 0
    assert not (tmp_path / "pack" / "stale").exists()
    assert len(json.loads((tmp_path / "pack" / "manifest.json").read_text())["commits"]) == 1
    assert not list(tmp_path.glob(".pack*"))


def test_missing_wheel_leaves_nothing(clone, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    status, text = packed(clone, tmp_path / "pack")
    assert status == 2
    assert text.splitlines()[-1].startswith("error: wheels for Python 3.12 on ") and "alpha" in text
    assert not (tmp_path / "pack").exists() and not list(tmp_path.glob(".pack*"))


def test_pack_that_is_too_large_is_refused(clone, tmp_path, monkeypatch):
    monkeypatch.setattr(pack, "LIMIT", 1000)
    status, text = packed(clone, tmp_path / "pack")
    assert status == 2 and "at most 0 are allowed; largest: " in text and "Name fewer --pythons" in text
    assert not (tmp_path / "pack").exists()


def test_shallow_clone_is_refused(clone, tmp_path):
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{clone}", "shallow")
    status, text = packed(tmp_path / "shallow", tmp_path / "pack")
    assert status == 2 and "git fetch --unshallow" in text


def test_commit_that_the_bundle_would_not_have_is_refused(clone, tmp_path):
    git(clone, "checkout", "-q", "-b", "aside", "HEAD~1")
    git(clone, "commit", "-q", "--allow-empty", "-m", "Aside")
    git(clone, "checkout", "-q", "main")
    status, text = packed(clone, tmp_path / "pack", "--range", "aside")
    assert status == 2 and "is no ancestor of HEAD" in text


def test_uncommitted_changes_are_noted(clone, tmp_path):
    (clone / "kernels" / "a").write_text("3")
    status, text = packed(clone, tmp_path / "pack")
    assert status == 0 and "note: uncommitted changes do not travel, only commits: kernels/a" in text


@pytest.mark.parametrize("pythons", ["3.10", "3.12,2.7"])
def test_pythons_that_make_no_sense_are_refused(clone, tmp_path, pythons):
    status, text = packed(clone, tmp_path / "pack", "--pythons", pythons)
    assert status == 2 and text.splitlines()[-1].startswith("error: --pythons") and "3.11" in text
    assert not (tmp_path / "pack").exists()
