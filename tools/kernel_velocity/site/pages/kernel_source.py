"""Reads the source of a kernel as it was at the measured commits: `kernels/<kernel>/` in the repository."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import git

from kernel_velocity.errors import HistoryError
from kernel_velocity.results import git as history
from kernel_velocity.results.records import Commit
from kernel_velocity.site.outputs import DataFile

SUFFIXES = (".cu", ".cpp", ".h", ".py")  # in the order shown: the kernels, their parts, then what calls them
FORMAT = 1  # of the data file
FOLDER = "kernels"
_COMMIT = "commit "  # begins the line of a commit; the others are paths
MOST = 100  # versions: with them the data beside a page stays at a few MB, whatever the history


@dataclass(frozen=True, kw_only=True)
class Version:
    """A kernel's files from one commit on, until the next version's."""

    commit: Commit  # of the first-parent line, which brought this version; measured or not
    files: tuple[tuple[str, str], ...]  # name, text


def changes(repository: Path) -> Mapping[str, Sequence[str]]:
    """Return the commits of the first-parent line that changed a kernel's folder, by its name.

    Asked once for all kernels: git goes through the whole history each time.

    Raises:
        HistoryError: git cannot read it.
    """
    with _repository(repository, FOLDER) as repo:
        said = repo.git(c=["log.showRoot=true", "core.quotePath=false"]).log(
            "HEAD",
            "--first-parent",
            "--diff-merges=first-parent",
            "--no-renames",
            "--name-only",
            f"--format={_COMMIT}%H",
            "--",
            f":(top){FOLDER}",
        )
    found: dict[str, dict[str, None]] = {}
    sha = ""
    for line in said.splitlines():
        if line.startswith(_COMMIT):
            sha = line.removeprefix(_COMMIT)
        elif line.startswith(f"{FOLDER}/"):
            found.setdefault(PurePosixPath(line).parts[1], {})[sha] = None
    return {kernel: tuple(commits) for kernel, commits in found.items()}


def versions(
    repository: Path, kernel: str, changed: Iterable[str], measured: Sequence[str], order: Mapping[str, int]
) -> tuple[Version, ...]:
    """Return the versions that measured commits had, oldest first, the newest MOST of them.

    Args:
        repository: a folder inside the working tree. kernel: the name of its folder.
        changed: the commits that changed it (`changes`). measured: commits.
        order: commit -> its place on the first-parent line; others are left out.

    Raises:
        HistoryError: git cannot read it.
    """
    along = sorted((sha for sha in changed if sha in order), key=order.__getitem__)
    wanted = _in_effect(along, measured, order)
    if not wanted:
        return ()
    folder = PurePosixPath(FOLDER, kernel)
    with _repository(repository, folder) as repo:
        found = ((history.commit_of(repo, sha), _files(repo, sha, folder)) for sha in wanted)
        return tuple(Version(commit=commit, files=texts) for commit, texts in found if commit and texts)


@contextmanager
def _repository(repository: Path, folder: object) -> Iterator[git.Repo]:
    """Open a repository; what goes wrong with it is a HistoryError."""
    try:
        with git.Repo(repository, search_parent_directories=True) as repo:
            yield repo
    except (git.GitError, OSError, ValueError) as error:
        reason = str(getattr(error, "stderr", "") or error).strip().partition("\n")[0]
        raise HistoryError(
            f"{repository}: git cannot read {folder} of a measured commit: {reason}: try `git fsck`"
        ) from None


def _in_effect(changed: Sequence[str], measured: Sequence[str], order: Mapping[str, int]) -> list[str]:
    """Return those of the commits that changed a kernel (oldest first) whose version a measured commit has."""
    places = [order[sha] for sha in changed]
    used = {bisect_right(places, order[sha]) - 1 for sha in measured if sha in order}
    return [changed[index] for index in sorted(used) if index >= 0][-MOST:]


def _files(repo: git.Repo, sha: str, folder: PurePosixPath) -> tuple[tuple[str, str], ...]:
    """Return the names and texts of a kernel's sources at a commit; empty where it has no such folder."""
    try:
        tree = repo.commit(sha).tree / str(folder)
    except KeyError:
        return ()
    blobs = [blob for blob in tree.blobs if PurePosixPath(blob.name).suffix in SUFFIXES]
    blobs.sort(key=lambda blob: (SUFFIXES.index(PurePosixPath(blob.name).suffix), blob.name))
    return tuple((blob.name, blob.data_stream.read().decode("utf-8", "replace")) for blob in blobs)


def data_name(kernel: str) -> str:
    """Return the name of the data file of a kernel's versions."""
    return f"source-{kernel}"


def files(kernel: str, found: Sequence[Version]) -> Iterator[DataFile]:
    """Yield the data file of a kernel's versions, oldest first, each text once; none without a version."""
    places: dict[str, int] = {}
    listed = [
        {
            "commit": version.commit.sha,
            "files": {name: places.setdefault(text, len(places)) for name, text in version.files},
        }
        for version in found
    ]
    if listed:
        yield DataFile(name=data_name(kernel), value={"format": FORMAT, "texts": list(places), "versions": listed})
