"""TODO."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from kernel_velocity.errors import HistoryError, UsageError
from kernel_velocity.results.working_tree import BUILT_FROM

DEFAULT_COMMITS = 3
EXAMPLES = "for example RANGE=HEAD~3..HEAD for three commits, RANGE=HEAD for one"
_ASKS_FOR_SET = re.compile(r"\.\.|\^[!@-]|^\^")  # what makes a git revision a set of commits


def git(repository: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run git in a repository; the caller looks at the status.

    Raises:
        HistoryError: there is no git.
    """
    try:
        return subprocess.run(["git", *args], cwd=repository, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise HistoryError("git is not installed: the commits to measure are taken from a git clone") from None


def check_clone(repository: Path) -> list[str]:
    """Return what a user should know about the clone, one line each.

    Raises:
        HistoryError: no git repository, or one without a commit.
    """
    asked = git(repository, "rev-parse", "--git-dir")
    if asked.returncode != 0:
        raise HistoryError(_refusal(repository, asked.stderr))
    if git(repository, "rev-parse", "--verify", "-q", "HEAD").returncode != 0:
        raise HistoryError(f"{repository.absolute()}: the repository has no commit yet; commit something to measure")
    notes = []
    if git(repository, "rev-parse", "--is-shallow-repository").stdout.strip() == "true":
        count = git(repository, "rev-list", "--count", "HEAD").stdout.strip()
        notes.append(f"shallow clone: only {count} commits are known here; `git fetch --unshallow` brings the rest")
    changed = git(repository, "status", "--porcelain", "--", *BUILT_FROM).stdout.splitlines()
    if changed:
        name = changed[0][3:]
        notes.append(f"uncommitted changes are not measured, commits are: {name}{' and more' if changed[1:] else ''}")
    return notes


def _refusal(repository: Path, said: str) -> str:
    """Return why git does not take a folder for a repository, in its words where it is one (another user's)."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if not lines or "not a git repository" in lines[0]:
        return f"{repository.absolute()}: no git repository; `make track` measures commits of a clone"
    cures = [f"; run `{line}`" for line in lines if line.startswith("git config ")]
    return f"{repository.absolute()}: git says: {lines[0]}{''.join(cures)}"


def commits(repository: Path, wanted: str | None, *, most: int = DEFAULT_COMMITS) -> tuple[str, ...]:
    """Return the commits to measure, newest first, along first parents (asv's trends show no others).

    Args:
        repository: a folder of the clone. wanted: a git range, or revisions for themselves alone; None: the
            last commits that changed what kernels are built from, `most` of them at most.

    Raises:
        UsageError: `wanted` names no commit.
    """
    if wanted is None:
        found = _listed(repository, f"-{most}", "HEAD", "--", *BUILT_FROM)
        return found or _listed(repository, "-1", "HEAD", "--")
    words = wanted.split()
    alone = not any(map(_ASKS_FOR_SET.search, words))
    if any(word.startswith("-") for word in words):
        raise UsageError(f"RANGE={wanted!r} is an option of git; a range is wanted, {EXAMPLES}")
    found = _listed(repository, *(["--no-walk"] if alone else []), *words, "--")
    if not found:
        raise UsageError(f"RANGE={wanted!r} names no commit of this repository; a git range is wanted, {EXAMPLES}")
    return found


def newest(repository: Path, most: int) -> tuple[str, ...]:
    """Return the newest commits along the first parents of HEAD, newest first, whatever they changed."""
    return _listed(repository, f"-{most}", "HEAD", "--")


def _listed(repository: Path, *args: str) -> tuple[str, ...]:
    done = git(repository, "rev-list", "--first-parent", *args)
    return tuple(done.stdout.split()) if done.returncode == 0 else ()
