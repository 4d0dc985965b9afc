"""The source of a kernel at the measured commits, from a repository with a history of it."""

import git
import pytest

from kernel_velocity.errors import HistoryError
from kernel_velocity.site.pages import kernel_source

STEPS = (
    {"kernels/matmul/matmul.cpp": "// one\n", "kernels/matmul/__init__.py": "ONE = 1\n", "README.md": "x"},
    {"README.md": "y"},
    {"kernels/matmul/matmul.cpp": "// two\n", "kernels/other/other.cpp": "// not mine\n"},
    {
        "kernels/matmul/matmul.cu": "// </script><b>\n",
        "kernels/matmul/tiles.h": "// of matmul.cu\n",
        "kernels/matmul/notes.txt": "left out\n",
    },
    {"README.md": "z"},
)


@pytest.fixture
def repository(tmp_path):
    """Return a folder and its commits, oldest first."""
    shas = []
    with git.Repo.init(tmp_path, initial_branch="main") as repo:
        for number, files in enumerate(STEPS):
            for name, text in files.items():
                path = tmp_path / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
                repo.index.add([name])
            shas.append(repo.index.commit(f"Step {number}").hexsha)
    return tmp_path, shas


def versions(repository, measured=None):
    folder, shas = repository
    order = {sha: place for place, sha in enumerate(shas)}
    changed = kernel_source.changes(folder).get("matmul", ())
    return kernel_source.versions(folder, "matmul", changed, shas if measured is None else measured, order)


def test_every_kernel_has_the_commits_that_git_says_of_its_folder(repository):
    """Also of a merge, of a name that git would quote, and where a user's settings leave out what the root brought."""
    folder, _ = repository
    with git.Repo(folder) as repo:
        repo.config_writer().set_value("log", "showRoot", "false").release()
        repo.git.checkout("-b", "side", "HEAD~2")
        for name in ("matmul/side.h", "n\u00e4 me/x y.cpp"):
            path = folder / "kernels" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("//\n")
        repo.git.add("kernels")
        repo.git.commit("-m", "Aside")
        repo.git.checkout("main")
        repo.git.merge("side", "-m", "Merge", "--no-ff")
        found = kernel_source.changes(folder)
        assert found.keys() == {"matmul", "other", "n\u00e4 me"}
        for kernel, commits in found.items():
            assert list(commits) == repo.git.rev_list("HEAD", "--first-parent", "--", f"kernels/{kernel}").split()
        assert found["n\u00e4 me"] == (repo.head.commit.hexsha,)


def test_each_version_is_there_once_with_the_commit_that_brought_it(repository):
    found = versions(repository)
    assert [version.commit.subject for version in found] == ["Step 0", "Step 2", "Step 3"]
    assert dict(found[1].files) == {"matmul.cpp": "// two\n", "__init__.py": "ONE = 1\n"}
    assert [name for name, _ in found[2].files] == ["matmul.cu", "matmul.cpp", "tiles.h", "__init__.py"]


def test_only_versions_that_were_measured_are_there(repository):
    _, shas = repository
    assert [version.commit.subject for version in versions(repository, [shas[1], shas[4]])] == ["Step 0", "Step 3"]
    assert versions(repository, ["e" * 40]) == ()


def test_a_version_counts_from_its_commit_on_where_that_was_not_measured(repository):
    _, shas = repository
    (version,) = versions(repository, [shas[4]])
    assert version.commit.sha == shas[3]


def test_the_newest_are_kept_where_there_are_many(repository, monkeypatch):
    monkeypatch.setattr(kernel_source, "MOST", 2)
    assert [version.commit.subject for version in versions(repository)] == ["Step 2", "Step 3"]


def test_a_kernel_that_the_repository_never_had_has_no_source(repository):
    folder, shas = repository
    assert kernel_source.versions(folder, "gone", (), shas, {sha: place for place, sha in enumerate(shas)}) == ()
    assert list(kernel_source.files("gone", ())) == []


def test_a_kernel_that_was_removed_shows_what_it_was(repository):
    folder, shas = repository
    with git.Repo(folder) as repo:
        repo.git.rm("-r", "kernels/matmul")
        shas.append(repo.index.commit("Remove it").hexsha)
    assert [version.commit.subject for version in versions(repository)][-1] == "Step 3"


def test_bytes_that_are_no_text_are_shown_as_far_as_they_are(repository):
    folder, shas = repository
    (folder / "kernels/matmul/matmul.cpp").write_bytes(b"// \xff\xfe\n")
    with git.Repo(folder) as repo:
        repo.index.add(["kernels/matmul/matmul.cpp"])
        shas.append(repo.index.commit("Odd bytes").hexsha)
    assert dict(versions(repository)[-1].files)["matmul.cpp"] == "// \ufffd\ufffd\n"


def test_the_data_file_holds_each_text_once(repository):
    (made,) = kernel_source.files("matmul", versions(repository))
    assert made.name == "source-matmul"
    assert len(made.value["texts"]) == len(set(made.value["texts"])) == 5
    last = made.value["versions"][-1]
    assert made.value["texts"][last["files"]["matmul.cu"]] == "// </script><b>\n"
    assert last["commit"] == repository[1][3]


def test_a_damaged_repository_is_one_line_that_says_what_to_do(repository):
    folder, shas = repository
    with git.Repo(folder) as repo:
        blob = (repo.commit(shas[3]).tree / "kernels/matmul/matmul.cu").hexsha
    lost = folder / ".git" / "objects" / blob[:2] / blob[2:]
    lost.chmod(0o600)
    lost.unlink()
    with pytest.raises(HistoryError, match=r"git cannot read kernels/matmul .*git fsck"):
        versions(repository)
