"""Reads the repository: the commits along the first-parent line of HEAD, and whether they are all there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import git

from kernel_velocity.errors import HistoryError
from kernel_velocity.results.records import Commit, History

SHORT = 8  # digits of a commit's hash, as asv names its files


def read(repository: Path, wanted: Iterable[str]) -> History:
    """Return the first-parent line of HEAD, and the wanted commits.

    Args:
        repository: a folder inside the working tree.
        wanted: full SHAs; those that the repository does not have are absent from `commits`.

    Raises:
        HistoryError: no git repository, or one without a commit.
    """
    try:
        with git.Repo(repository, search_parent_directories=True) as repo:
            line = repo.git.rev_list("HEAD", "--first-parent").split()
            shallow = Path(repo.common_dir, "shallow").exists()
            found = (commit(repo, sha) for sha in dict.fromkeys(wanted))
            commits = {item.sha: item for item in found if item is not None}
            tags = _tags(repo)
    except (git.InvalidGitRepositoryError, git.NoSuchPathError):
        raise HistoryError(
            f"{repository}: no git repository, a clone of the kernels' is wanted: name it with --repository"
        ) from None
    except git.GitCommandError as error:
        reason = str(error.stderr).strip().partition("\n")[0]
        raise HistoryError(f"{repository}: git cannot list the commits of HEAD: {reason}") from None
    return History(line=tuple(reversed(line)), commits=commits, shallow=shallow, tags=tags)


def merged(repository: Path, merges: Iterable[Commit], *, saying: str) -> dict[str, tuple[Commit, ...]]:
    """Return the commits that merges brought and whose messages have a line that begins so, by the merge's SHA.

    Args:
        repository: a folder inside the working tree. merges: commits; those of one parent bring none.
        saying: in any case; no regular expression.
    """
    ranges = {item.sha: f"{item.parents[0]}..{item.sha}" for item in merges if len(item.parents) > 1}
    found = {sha: _saying(repository, wanted, saying) for sha, wanted in ranges.items()}
    return {sha: tuple(item for item in items if item.sha != sha) for sha, items in found.items()}


def between(repository: Path, base: str, head: str, *, saying: str) -> tuple[Commit, ...]:
    """Return the commits of `head` that `base` does not have, and whose messages have a line that begins so."""
    return _saying(repository, f"{base}..{head}", saying)


def _saying(repository: Path, wanted: str, saying: str) -> tuple[Commit, ...]:
    """Return the commits of a range, newest first. git searches: a branch may bring thousands."""
    with git.Repo(repository, search_parent_directories=True) as repo:
        options = ("--regexp-ignore-case", "--basic-regexp", f"--grep=^{saying}")
        listed = repo.git.rev_list(*options, "--end-of-options", wanted, "--").split()
        return tuple(item for sha in listed if (item := commit(repo, sha)) is not None)


def touched(repository: Path, commits: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the files that commits changed, against their first parents, by full SHA.

    Args:
        repository: a folder inside the working tree. commits: full SHAs that the repository has.
    """
    if not commits:
        return {}
    options = ("--no-walk=unsorted", "--first-parent", "-m", "--root", "--no-renames", "--name-only", "-z")
    with git.Repo(repository, search_parent_directories=True) as repo:
        text: str = repo.git.log(*options, "--format=%x01%H", "--end-of-options", *commits, "--")
    found = {}
    for part in text.split("\x01")[1:]:
        sha, _, names = part.partition("\0")
        found[sha.strip()] = tuple(name for name in names.lstrip("\n").split("\0") if name)
    return found


def _tags(repo: git.Repo) -> dict[str, tuple[str, ...]]:
    """Return the names of the tags by the commit that they point at; a tag of anything else is left out."""
    listed = repo.git.for_each_ref(
        "refs/tags", format="%(*objectname) %(objectname) %(*objecttype) %(objecttype) %(refname:strip=2)"
    )
    found: dict[str, list[str]] = {}
    for line in listed.splitlines():
        peeled, own, *rest = line.split(" ")
        kinds, name = [kind for kind in rest[:-1] if kind], rest[-1]
        if kinds and kinds[0] == "commit":
            found.setdefault(peeled or own, []).append(name)
    return {sha: tuple(sorted(names)) for sha, names in found.items()}


def commit(repo: git.Repo, sha: str) -> Commit | None:
    """Return a commit, or None where the repository has none of that name."""
    try:
        found = repo.commit(sha)
        return Commit(
            sha=found.hexsha,
            parents=tuple(parent.hexsha for parent in found.parents),
            author=found.author.name or "unknown author",
            date=found.authored_datetime,
            committed=found.committed_datetime,
            message=_text(found.message),
        )
    except (git.BadName, ValueError):  # ValueError: not a commit; GitPython may notice at the first field only
        return None


def _text(message: str | bytes) -> str:
    """Return a message as text: GitPython hands out bytes where the encoding a commit names is unknown."""
    return message if isinstance(message, str) else message.decode("utf-8", "replace")
