"""The source of kernels in the repository: the commits that changed it, and its versions. `config.Project` names it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath

import git

from kernel_velocity.config import Project
from kernel_velocity.results.git import commit_of, opened
from kernel_velocity.results.records import Commit

# Of files of a folder, in the order shown: the kernels, their parts, then what calls them
SUFFIXES = (".cu", ".cpp", ".cc", ".c", ".cuh", ".hpp", ".h", ".py")
MOST_VERSIONS = 100  # with them the data beside a page stays at a few MB, whatever the history
_COMMIT = "commit "  # begins the line of a commit in git's log; other lines are paths


@dataclass(frozen=True, kw_only=True)
class Version:
    """A kernel's files from one commit on, until the next version's."""

    commit: Commit  # of the first-parent line, which brought this version; measured or not
    files: tuple[tuple[str, str], ...]  # name, text


def changes(repository: Path, project: Project, kernels: Collection[str]) -> Mapping[str, Sequence[str]]:
    """Return the commits of the first-parent line that changed the source of a kernel, by kernel.

    One call for all kernels: git goes through the whole history each time.

    Raises:
        HistoryError: git cannot read it.
    """
    sources = dict.fromkeys(source for kernel in kernels for source in project.sources_of(kernel))
    if not sources:
        return {}
    with opened(repository, f"the commits of {', '.join(sources)}") as repo:
        log = repo.git(c=["log.showRoot=true", "core.quotePath=false"]).log(
            *("HEAD", "--first-parent", "--diff-merges=first-parent", "--no-renames", "--name-only"),
            *(f"--format={_COMMIT}%H", "--", *(f":(top){source}" for source in sources)),
        )
    commits: dict[str, dict[str, None]] = {}
    owners, sha = project.owners(kernels), ""
    for line in log.splitlines():
        if line.startswith(_COMMIT):
            sha = line.removeprefix(_COMMIT)
        for kernel in owners(line):
            commits.setdefault(kernel, {})[sha] = None
    return {kernel: tuple(shas) for kernel, shas in commits.items()}


def versions(
    repository: Path,
    sources: Sequence[str],
    changed: Iterable[str],
    measured: Sequence[int],
    order: Mapping[str, int],
) -> tuple[Version, ...]:
    """Return the newest MOST_VERSIONS versions that measured commits had, oldest first.

    Args:
        repository: a folder inside the working tree. sources: files and folders of the kernel.
        changed: the commits that changed them (`changes`).
        measured: the positions of commits on the first-parent line, ascending.
        order: commit -> its position on that line. Others are left out.

    Raises:
        HistoryError: git cannot read it.
    """
    along = sorted((sha for sha in changed if sha in order), key=order.__getitem__)
    starts = [bisect_left(measured, order[sha]) for sha in along]
    # the changes with a measured commit at or after them, before the next one
    stretches = pairwise([*starts, len(measured)])
    used = [sha for sha, (start, end) in zip(along, stretches, strict=True) if start < end]
    if not used:
        return ()
    with opened(repository, f"{', '.join(sources)} of a measured commit") as repo:
        shas = used[-MOST_VERSIONS:]
        versions = ((commit_of(repo, sha), _files(repo, sha, sources)) for sha in shas)
        return tuple(Version(commit=commit, files=files) for commit, files in versions if commit and files)


def _files(repo: git.Repo, sha: str, sources: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the names and texts of a kernel's sources at a commit: of folders the files that SUFFIXES lists."""
    blobs: list[git.Blob] = []
    for source in sources:
        with suppress(KeyError):  # the commit has no such file
            entry = repo.commit(sha).tree / source
            if isinstance(entry, git.Blob):
                blobs.append(entry)
            elif isinstance(entry, git.Tree):
                listed = [blob for blob in entry.blobs if PurePosixPath(blob.name).suffix in SUFFIXES]
                blobs += sorted(listed, key=lambda blob: (SUFFIXES.index(PurePosixPath(blob.name).suffix), blob.name))
    return tuple((blob.name, blob.data_stream.read().decode("utf-8", "replace")) for blob in blobs)
