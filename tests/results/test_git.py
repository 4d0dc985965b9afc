"""The commits of a range, and the notes on a clone."""

import subprocess
from pathlib import Path

import pytest

from kernel_velocity.errors import HistoryError, UsageError
from kernel_velocity.results import git as results_git


def git(folder, *args):
    who = ["-c", "user.name=A", "-c", "user.email=a@b"]
    return subprocess.run(["git", *who, *args], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def clone(tmp_path):
    """Six commits: kernels, docs, kernels, kernels (on a merged branch), merge, CMake."""
    git(tmp_path, "init", "-q", "-b", "main")
    shas = {}

    def commit(name, path):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(name)
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-q", "-m", name)
        shas[name] = git(tmp_path, "rev-parse", "HEAD")

    (tmp_path / "kernel-velocity.toml").write_text('built-from = ["kernels", "CMakeLists.txt"]\n')
    commit("one", "kernels/a")
    commit("docs", "README")
    commit("two", "kernels/a")
    git(tmp_path, "checkout", "-q", "-b", "topic")
    commit("branch", "kernels/b")
    git(tmp_path, "checkout", "-q", "main")
    commit("more docs", "README")
    git(tmp_path, "merge", "-q", "--no-edit", "topic")
    shas["merge"] = git(tmp_path, "rev-parse", "HEAD")
    commit("cmake", "CMakeLists.txt")
    return tmp_path, shas


def test_default_range_is_the_last_three_kernel_changes(clone):
    folder, shas = clone
    # the merge brought a change of the kernels to the line; the commit of its branch is not on it
    assert results_git.commits(folder, None) == (shas["cmake"], shas["merge"], shas["two"])


def test_default_range_without_kernel_changes_is_head(tmp_path):
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "x")
    assert results_git.commits(tmp_path, None) == (git(tmp_path, "rev-parse", "HEAD"),)


def test_range_and_single_revision(clone):
    folder, shas = clone
    assert results_git.commits(folder, "HEAD~2..HEAD") == (shas["cmake"], shas["merge"])
    assert results_git.commits(folder, "HEAD") == (shas["cmake"],)
    assert results_git.commits(folder, "topic") == (shas["branch"],)
    assert results_git.commits(folder, "HEAD^!") == (shas["cmake"],)
    assert results_git.commits(folder, f"{shas['docs']} ^{shas['one']}") == (shas["docs"],)


def test_several_revisions(clone):
    folder, shas = clone
    assert set(results_git.commits(folder, f"{shas['one']} {shas['cmake']}")) == {shas["one"], shas["cmake"]}


@pytest.mark.parametrize("unknown", ["nope", "nope..HEAD", "HEAD..HEAD", "--all", "HEAD~99", "README", "kernels"])
def test_unknown_range_is_refused(clone, unknown):
    with pytest.raises(UsageError, match=r"RANGE=HEAD~3\.\.HEAD") as caught:
        results_git.commits(clone[0], unknown)
    assert repr(unknown) in str(caught.value) and "\n" not in str(caught.value)


def test_no_repository(tmp_path):
    with pytest.raises(HistoryError, match="no git repository"):
        results_git.check_clone(tmp_path)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    with pytest.raises(HistoryError, match="no commit yet"):
        results_git.check_clone(tmp_path)


def test_dubious_ownership_quotes_git():
    message = (
        "fatal: detected dubious ownership in repository at '/x'\n"
        "To add an exception for this directory, call:\n\n\tgit config --global --add safe.directory /x\n"
    )
    line = results_git._refusal(Path("/x"), message)
    assert line == (
        "/x: git says: fatal: detected dubious ownership in repository at '/x'; "
        "run `git config --global --add safe.directory /x`"
    )


def test_no_git(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(HistoryError, match="git is not installed"):
        results_git.check_clone(tmp_path)


def test_uncommitted_kernels_are_noted(clone):
    folder, _ = clone
    assert results_git.check_clone(folder) == []
    (folder / "README").write_text("changed")  # not what kernels are built from
    assert results_git.check_clone(folder) == []
    (folder / "kernels" / "a").write_text("changed")
    (note,) = results_git.check_clone(folder)
    assert note == "uncommitted changes are not measured, commits are: kernels/a"
