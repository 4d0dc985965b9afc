"""The commits that a user names on the command line: looked up, and listed. Reads the repository through git."""

from __future__ import annotations

from pathlib import Path

from kernel_velocity.errors import UsageError
from kernel_velocity.results.clone import git


def resolve(repository: Path, role: str, revision: str) -> str:
    """Return the SHA of the commit that a revision names.

    Args:
        role: what the commit is here, for the message, such as "BASE".

    Raises:
        UsageError: it names none.
    """
    done = git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    sha = done.stdout.strip()
    if done.returncode != 0 or not sha:
        raise UsageError(f"{role}={revision!r} names no commit of this repository; a branch, a tag or a SHA is wanted")
    return sha


def between(repository: Path, good: str, bad: str) -> tuple[str, ...]:
    """Return the commits after `good` up to `bad`, oldest first, along first parents.

    Raises:
        UsageError: `good` is no ancestor of `bad`, or the same.
    """
    if good == bad:
        raise UsageError(f"GOOD and BAD are the same commit ({good[:10]})")
    if git(repository, "merge-base", "--is-ancestor", good, bad).returncode != 0:
        raise UsageError(f"GOOD ({good[:10]}) is no ancestor of BAD ({bad[:10]}); a commit before BAD is wanted")
    listed = git(repository, "rev-list", "--first-parent", "--reverse", f"{good}..{bad}").stdout.split()
    return tuple(listed)
