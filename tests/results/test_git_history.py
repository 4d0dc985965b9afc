"""Reading the repository."""

import subprocess

import git
import pytest

from kernel_velocity.errors import HistoryError
from kernel_velocity.findings import decisions
from kernel_velocity.results import git as history
from tests import synthetic


def test_line_is_oldest_first(tree):
    result = history.read(tree.repository, tree.commits)
    assert result.line == tree.commits
    assert result.shallow is False
    commit = result.commits[tree.commits[2]]
    assert commit.subject == "Vectorise the inner loops"
    assert commit.message == synthetic.MESSAGES[2]
    assert (commit.author, commit.parents) == ("Ada Lovelace", (tree.commits[1],))
    assert commit.date.isoformat() == "2026-03-03T12:00:00+00:00"


def test_merged_commits_are_not_on_the_line(tree):
    with git.Repo(tree.repository) as repo:
        main = repo.head.commit
        side = repo.index.commit("Side", parent_commits=[main], head=False)
        repo.index.commit("Merge", parent_commits=[main, side])
    result = history.read(tree.repository, [side.hexsha])
    assert side.hexsha in result.commits
    assert side.hexsha not in result.line
    assert len(result.line) == 6


def test_commits_of_merges_by_a_line_of_the_message(tree):
    with git.Repo(tree.repository) as repo:
        main = repo.head.commit
        expecting = repo.index.commit("Side\n\nperf-Expected: m any", parent_commits=[main], head=False)
        silent = repo.index.commit("Not Perf-Expected: m any", parent_commits=[expecting], head=False)
        merge = repo.index.commit("Merge\n\nPerf-Expected: m any", parent_commits=[main, silent])
    commits = history.read(tree.repository, [main.hexsha, merge.hexsha]).commits
    result = history.merged(tree.repository, commits.values(), saying="Perf-Expected")
    assert {sha: [entry.sha for entry in entries] for sha, entries in result.items()} == {
        merge.hexsha: [expecting.hexsha]
    }
    expected, _ = decisions.expectations(commits.values(), result)
    assert [(expectation.commits, expectation.id[:8]) for expectation in expected] == [
        ((merge.hexsha,), merge.hexsha[:8]),
        ((merge.hexsha,), expecting.hexsha[:8]),
    ]
    between = history.announcing(tree.repository, f"{main.hexsha}..{merge.hexsha}", saying="Perf-Expected")
    assert {commit.sha for commit in between} == {merge.hexsha, expecting.hexsha}
    assert history.announcing(tree.repository, f"{merge.hexsha}..{main.hexsha}", saying="Perf-Expected") == ()


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
    result = history.read(tmp_path / "clone", tree.commits)
    assert result.shallow
    assert result.line == tree.commits[-2:]
    assert set(result.commits) == set(tree.commits[-2:])


def test_history_without_a_repository(tmp_path):
    with pytest.raises(HistoryError, match="no git repository, a clone"):
        history.read(tmp_path, [])
    with pytest.raises(HistoryError, match="no git repository, a clone"):
        history.read(tmp_path / "nowhere", [])


def test_history_without_a_commit(tmp_path):
    git.Repo.init(tmp_path).close()
    with pytest.raises(HistoryError, match=r"has no commit yet, or HEAD names none: make one"):
        history.read(tmp_path, [])


def test_tags_by_commit(tree):
    sha = tree.commits[2]
    with git.Repo(tree.repository) as repo:
        repo.create_tag("v1", ref=sha)
        repo.create_tag("v1-annotated", ref=sha, message="said")
        repo.create_tag("of-a-tree", ref=f"{sha}^{{tree}}")
    assert history.read(tree.repository, []).tags == {sha: ("v1", "v1-annotated")}
