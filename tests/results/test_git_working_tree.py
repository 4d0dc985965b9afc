"""The working tree as a commit: all that would be built, and nothing of the user's is touched."""

import pytest

from kernel_velocity.errors import HistoryError
from kernel_velocity.results import git as working_tree
from tests.commands import git


@pytest.fixture
def clone(tmp_path):
    for name in ("kernels/a.py", "kernels/gone.py", "results/box/machine.json", ".gitignore"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("build/\n" if name == ".gitignore" else "old\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "First")
    return tmp_path


def change(clone):
    (clone / "kernels" / "a.py").write_text("new\n")
    (clone / "kernels" / "b.py").write_text("unknown to git\n")
    (clone / "kernels" / "gone.py").unlink()
    (clone / "build").mkdir()
    (clone / "build" / "junk").write_text("ignored\n")
    (clone / "results" / "box" / "machine.json").write_text("recorded since\n")


def test_working_tree_commit_has_the_differences(clone):
    change(clone)
    sha = working_tree.working_tree(clone)
    assert git(clone, "diff", "--name-status", "HEAD", sha).split() == [
        *("M", "kernels/a.py"),
        *("A", "kernels/b.py"),
        *("D", "kernels/gone.py"),
    ]
    assert git(clone, "show", f"{sha}:kernels/b.py") == "unknown to git"
    assert git(clone, "log", "-1", "--format=%s", sha) == working_tree.MESSAGE
    assert git(clone, "rev-parse", f"{sha}^") == git(clone, "rev-parse", "HEAD")


def test_working_tree_commit_changes_nothing_else(clone):
    (clone / "kernels" / "a.py").write_text("staged\n")
    git(clone, "add", "kernels/a.py")
    change(clone)
    index, head = (clone / ".git" / "index").read_bytes(), git(clone, "rev-parse", "HEAD")
    status = git(clone, "status", "--porcelain")
    index = (clone / ".git" / "index").read_bytes()  # `git status` may have refreshed it
    sha = working_tree.working_tree(clone)
    assert (clone / ".git" / "index").read_bytes() == index
    assert git(clone, "rev-parse", "HEAD") == head
    assert git(clone, "status", "--porcelain") == status
    assert not git(clone, "for-each-ref", "--contains", sha)
    assert not list((clone / ".git").glob(f"{working_tree.INDEX}*"))
    assert git(clone, "show", f"{sha}:kernels/a.py") == "new"


def test_same_contents_are_the_same_commit(clone):
    change(clone)
    assert working_tree.working_tree(clone) == working_tree.working_tree(clone)


def test_clean_working_tree_is_head(clone):
    (clone / "results" / "box" / "machine.json").write_text("recorded since\n")
    (clone / ".asv").mkdir()
    (clone / ".asv" / "lock").write_text("")  # a repository that does not ignore it
    assert working_tree.working_tree(clone) == git(clone, "rev-parse", "HEAD")


def test_working_tree_without_results(clone):
    git(clone, "rm", "-rq", "results")
    (clone / ".gitignore").write_text("build/\nresults/\n")
    git(clone, "commit", "-qam", "Keep no results")
    change_one(clone)
    assert git(clone, "diff", "--name-only", "HEAD", working_tree.working_tree(clone)) == "kernels/a.py"
    (clone / "results").mkdir()
    (clone / "results" / "new.json").write_text("recorded\n")
    assert git(clone, "diff", "--name-only", "HEAD", working_tree.working_tree(clone)) == "kernels/a.py"


def change_one(clone):
    (clone / "kernels" / "a.py").write_text("new\n")


@pytest.fixture
def submodules(clone):
    """The clone with a submodule, which has one of its own."""
    for name, inner in (("nest", None), ("lib", "nest")):
        folder = clone.parent / f"{clone.name}-{name}"
        folder.mkdir()
        (folder / f"{name}.h").write_text("old\n")
        (folder / ".gitignore").write_text("*.h\n")
        git(folder, "init", "-q")
        if inner:
            add_submodule(folder, f"{clone.parent}/{clone.name}-{inner}", inner)
        git(folder, "add", "-Af")
        git(folder, "commit", "-q", "-m", name)
    add_submodule(clone, f"{clone.parent}/{clone.name}-lib", "third_party/lib")
    git(clone, "-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init", "--recursive")
    git(clone, "commit", "-qam", "Use a submodule")
    return clone / "third_party" / "lib"


def add_submodule(folder, source, name):
    git(folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", source, name)


def listed(clone, sha):
    return git(clone, "ls-tree", "-r", "--name-only", sha, "third_party").split()


@pytest.mark.parametrize("edited", ["lib.h", "nest/nest.h"])
def test_edit_inside_a_submodule_is_in_the_commit(clone, submodules, edited):
    (submodules / edited).write_text("new\n")
    (submodules / "more.c").write_text("unknown to git\n")
    (submodules / "junk.h").write_text("ignored\n")
    before = git(clone, "status", "--porcelain")
    sha = working_tree.working_tree(clone)
    inside = [".gitignore", ".gitmodules", "lib.h", "more.c", "nest/.gitignore", "nest/nest.h"]
    assert listed(clone, sha) == [f"third_party/lib/{name}" for name in inside]
    assert git(clone, "show", f"{sha}:third_party/lib/{edited}") == "new"
    assert git(clone, "status", "--porcelain") == before
    git(submodules, "checkout", "-q", "--recurse-submodules", "-f", "HEAD")
    (submodules / "more.c").unlink()
    assert working_tree.working_tree(clone) == git(clone, "rev-parse", "HEAD")


def test_deleted_file_of_a_submodule_is_not_in_the_commit(clone, submodules):
    (submodules / "lib.h").unlink()
    sha = working_tree.working_tree(clone)
    assert "third_party/lib/lib.h" not in listed(clone, sha) and "third_party/lib/nest/nest.h" in listed(clone, sha)


def test_submodule_that_moved_is_in_the_commit(clone, submodules):
    """Its commit may be nowhere else, where a build would look for it."""
    (submodules / "lib.h").write_text("new\n")
    git(submodules, "commit", "-qam", "Moved")
    sha = working_tree.working_tree(clone)
    assert git(clone, "show", f"{sha}:third_party/lib/lib.h") == "new"


def test_submodule_that_was_never_checked_out_stays(clone, submodules):
    (submodules / "lib.h").write_text("new\n")
    git(submodules, "submodule", "--quiet", "deinit", "-f", "nest")
    inside = [".gitignore", ".gitmodules", "lib.h"]
    assert listed(clone, working_tree.working_tree(clone)) == [f"third_party/lib/{name}" for name in inside]
    git(clone, "submodule", "--quiet", "deinit", "-f", ".")
    assert working_tree.working_tree(clone) == git(clone, "rev-parse", "HEAD")


def test_working_tree_error_is_gits_message(tmp_path):
    with pytest.raises(HistoryError, match="git rev-parse: fatal: not a"):
        working_tree.working_tree(tmp_path)
