"""Reading the repository."""

import subprocess

import git
import pytest

from kernel_velocity.errors import HistoryError
from kernel_velocity.nightly import conclude
from kernel_velocity.results import git as history
from tests import synthetic


def test_line_is_oldest_first(tree):
    found = history.read(tree.repository, tree.commits)
    assert found.line == tree.commits
    assert found.shallow is False
    commit = found.commits[tree.commits[2]]
    assert commit.subject == "Vectorise the inner loops"
    assert commit.message == synthetic.MESSAGES[2]
    assert (commit.author, commit.parents) == ("Ada Lovelace", (tree.commits[1],))
    assert commit.date.isoformat() == "2026-03-03T12:00:00+00:00"


def test_merged_commits_are_not_on_the_line(tree):
    with git.Repo(tree.repository) as repo:
        main = repo.head.commit
        side = repo.index.commit("Side", parent_commits=[main], head=False)
        repo.index.commit("Merge", parent_commits=[main, side])
    found = history.read(tree.repository, [side.hexsha])
    assert side.hexsha in found.commits
    assert side.hexsha not in found.line
    assert len(found.line) == 6


def test_commits_of_merges_by_a_line_of_the_message(tree):
    with git.Repo(tree.repository) as repo:
        main = repo.head.commit
        said = repo.index.commit("Side\n\nperf-Expected: m any", parent_commits=[main], head=False)
        silent = repo.index.commit("Not Perf-Expected: m any", parent_commits=[said], head=False)
        merge = repo.index.commit("Merge\n\nPerf-Expected: m any", parent_commits=[main, silent])
    commits = history.read(tree.repository, [main.hexsha, merge.hexsha]).commits
    found = history.merged(tree.repository, commits.values(), saying="Perf-Expected")
    assert {sha: [item.sha for item in items] for sha, items in found.items()} == {merge.hexsha: [said.hexsha]}
    expected, _ = conclude.expectations(tree.repository, commits.values())
    assert [(item.commits, item.id[:8]) for item in expected] == [
        ((merge.hexsha,), merge.hexsha[:8]),
        ((merge.hexsha,), said.hexsha[:8]),
    ]
    between = history.announcing(tree.repository, main.hexsha, merge.hexsha, saying="Perf-Expected")
    assert {item.sha for item in between} == {merge.hexsha, said.hexsha}
    assert history.announcing(tree.repository, merge.hexsha, main.hexsha, saying="Perf-Expected") == ()


@pytest.mark.parametrize("sha", ["f" * 40, "0" * 40])
def test_missing_commit_is_absent(tree, sha):
    assert history.read(tree.repository, [sha]).commits == {}


def test_object_other_than_a_commit_is_absent(tree):
    with git.Repo(tree.repository) as repo:
        sha = repo.head.commit.tree.hexsha
    assert history.read(tree.repository, [sha]).commits == {}


def test_history_from_a_subfolder(tree):
    (tree.repository / "deep").mkdir()
    assert history.read(tree.repository / "deep", []).line == tree.commits


def test_shallow_clone_is_noted(tree, tmp_path):
    source = tree.repository.as_uri()
    subprocess.run(["git", "clone", "-q", "--depth", "2", source, str(tmp_path / "clone")], check=True)
    found = history.read(tmp_path / "clone", tree.commits)
    assert found.shallow
    assert found.line == tree.commits[-2:]
    assert set(found.commits) == set(tree.commits[-2:])


def test_history_without_a_repository(tmp_path):
    with pytest.raises(HistoryError, match="no git repository, a clone"):
        history.read(tmp_path, [])
    with pytest.raises(HistoryError, match="no git repository, a clone"):
        history.read(tmp_path / "nowhere", [])


def test_history_without_a_commit(tmp_path):
    git.Repo.init(tmp_path).close()
    with pytest.raises(HistoryError, match=r"git cannot list the commits of HEAD: .*HEAD"):
        history.read(tmp_path, [])


def test_tags_by_commit(tree):
    sha = tree.commits[2]
    with git.Repo(tree.repository) as repo:
        repo.create_tag("v1", ref=sha)
        repo.create_tag("v1-annotated", ref=sha, message="said")
        repo.create_tag("of-a-tree", ref=f"{sha}^{{tree}}")
    assert history.read(tree.repository, []).tags == {sha: ("v1", "v1-annotated")}
