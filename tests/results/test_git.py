"""The commits of a range, and the notes on a clone."""

import functools
import subprocess
from pathlib import Path

import pytest

from kernel_velocity.errors import HistoryError, UsageError
from kernel_velocity.results import git as results_git
from tests.commands import git


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


def test_idle_commits_touch_nothing_that_a_build_depends_on(clone):
    folder, shas = clone
    assert results_git.idle(folder) == {shas["docs"], shas["more docs"]}  # not the merge: it brought a kernel's change
    assert results_git.idle(folder, f"{shas['docs']}..HEAD") == {shas["more docs"]}
    (folder / "kernel-velocity.toml").unlink()
    assert results_git.idle(folder) == frozenset()  # every file may count


def test_side_commits_were_brought_by_a_merge(clone):
    folder, shas = clone
    git(folder, "checkout", "-q", "-b", "later")
    git(folder, "commit", "-q", "--allow-empty", "-m", "later")
    later = git(folder, "rev-parse", "HEAD")
    git(folder, "checkout", "-q", "main")
    git(folder, "merge", "-q", "--no-ff", "--no-edit", "later")
    wanted = [shas["branch"], later, shas["two"], "a" * 40]
    assert results_git.side_commits(folder, wanted) == {
        shas["branch"]: results_git.SideCommit(fork=2, merge=4, is_merge_alike=False),
        later: results_git.SideCommit(fork=5, merge=6, is_merge_alike=True),
    }


def test_range_and_single_revision(clone):
    folder, shas = clone
    assert results_git.commits(folder, "HEAD~2..HEAD") == (shas["cmake"], shas["merge"])
    assert results_git.commits(folder, "HEAD") == (shas["cmake"],)
    assert results_git.commits(folder, "topic") == (shas["branch"],)
    assert results_git.commits(folder, "HEAD^!") == (shas["cmake"],)
    assert results_git.commits(folder, f"{shas['docs']} ^{shas['one']}") == (shas["docs"],)


def test_commits_of_a_range_that_change_what_is_built(clone):
    folder, shas = clone
    changing = functools.partial(results_git.commits, folder, changing=True)
    assert changing(f"{shas['one']}..HEAD") == (shas["cmake"], shas["merge"], shas["two"])
    assert changing(f"{shas['two']}..{shas['more docs']}") == (shas["more docs"],)  # none did: the newest
    assert set(changing(f"{shas['docs']} {shas['two']}")) == {shas["two"], shas["docs"]}  # each was named


def test_changed_files_of_a_folder(clone, tmp_path_factory):
    folder, shas = clone
    assert results_git.changed_files(folder, shas["one"], shas["merge"], folder / "kernels") == (
        "kernels/a",
        "kernels/b",
    )
    assert results_git.changed_files(folder, shas["merge"], shas["cmake"], folder / "kernels") == ()
    assert results_git.changed_files(folder, shas["one"], shas["cmake"], tmp_path_factory.mktemp("outside")) == ()


def test_several_revisions(clone):
    folder, shas = clone
    assert set(results_git.commits(folder, f"{shas['one']} {shas['cmake']}")) == {shas["one"], shas["cmake"]}


@pytest.mark.parametrize("unknown", ["nope", "nope..HEAD", "HEAD..HEAD", "--all", "HEAD~99", "README", "kernels"])
def test_unknown_range_is_refused(clone, unknown):
    with pytest.raises(UsageError, match=r"RANGE=HEAD~3\.\.HEAD") as caught:
        results_git.commits(clone[0], unknown)
    assert repr(unknown) in str(caught.value) and "\n" not in str(caught.value)


def test_shallow_clone_is_the_cause_and_has_its_cure(clone, tmp_path_factory):
    folder, shas = clone
    shallow = tmp_path_factory.mktemp("clones") / "shallow"
    git(folder, "clone", "-q", "--depth", "1", f"file://{folder}", str(shallow))
    git(shallow, "fetch", "-q", "--depth", "1", "origin", shas["one"])
    for refused in (
        lambda: results_git.commits(shallow, "HEAD~3..HEAD"),
        lambda: results_git.resolve(shallow, "BASE", "HEAD~1"),
        lambda: results_git.check_ancestors(shallow, [shas["one"]]),
        lambda: results_git.between(shallow, shas["one"], shas["cmake"]),
        lambda: results_git.between(shallow, shas["cmake"], shas["cmake"]),
    ):
        with pytest.raises(UsageError, match=r"this clone is shallow: `git fetch --unshallow`.*`fetch-depth: 0`"):
            refused()


def test_branch_that_only_the_remote_has_is_named(clone, tmp_path_factory):
    """A pull request's clone: detached, without a branch."""
    folder, shas = clone
    pull = tmp_path_factory.mktemp("clones") / "pull"
    git(folder, "clone", "-q", str(folder), str(pull))
    git(pull, "checkout", "-q", "--detach")
    git(pull, "branch", "-qD", "main")
    with pytest.raises(UsageError, match=r"BASE='main' names no commit.*; origin/main is here: name that"):
        results_git.resolve(pull, "BASE", "main")
    assert results_git.resolve(pull, "BASE", "origin/main") == shas["cmake"]
    with pytest.raises(UsageError, match=r"BASE='' names no commit.*a branch, a tag or a SHA is wanted$"):
        results_git.resolve(pull, "BASE", "")


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


def test_bare_clone_without_a_config_is_told_its_cure(tmp_path):
    folder = tmp_path / "bare"
    subprocess.run(["git", "init", "-q", "--bare", str(folder)], check=True)
    (folder / "config").unlink()
    with pytest.raises(HistoryError, match=r"a bare clone without a config; `git init --bare .*bare` writes it again"):
        results_git.read(folder, ())


def test_names_and_messages_in_another_encoding_are_read(tmp_path):
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "x")
    raw = subprocess.run(["git", "cat-file", "commit", "HEAD"], cwd=tmp_path, capture_output=True, check=True).stdout
    raw = raw.replace(b"author A ", b"author Ren\xe9 ").replace(b"\n\nx", b"\n\ncaf\xe9")
    write = ["git", "hash-object", "-w", "-t", "commit", "--stdin"]
    sha = subprocess.run(write, cwd=tmp_path, input=raw, capture_output=True, check=True).stdout.decode().strip()
    git(tmp_path, "update-ref", "HEAD", sha)
    assert results_git.output(tmp_path, "log", "-1", "--format=%an: %s", "--encoding=none") == "Ren\ufffd: caf\ufffd"
