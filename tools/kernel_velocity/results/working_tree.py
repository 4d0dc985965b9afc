"""The working tree as a commit that no branch knows, so that what is not committed yet can be built and measured.

`git add` and `git commit` would touch the user's index and branch, `git stash create` leaves new files out. So a second
index, in a file of our own (GIT_INDEX_FILE), takes the tree of HEAD and whatever differs from it, and `git commit-tree`
makes an object of that. Nothing refers to it: `git gc` removes it after two weeks. Its dates are those of HEAD, so that
the same content is the same commit, whose wheel and rounds are found again.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from kernel_velocity.errors import HistoryError

MESSAGE = "Working tree, uncommitted"
BUILT_FROM = ("kernels", "CMakeLists.txt")  # pyproject.toml changes mostly for other reasons than the build
NOT_BUILT_FROM = "results"  # what was recorded changes no build
INDEX = "kernel-velocity-index"
_WHO = {"NAME": "kernel-velocity", "EMAIL": "kernel-velocity@localhost"}


def commit(root: Path) -> str:
    """Return the SHA of a commit with the content of the working tree: HEAD's own where nothing differs.

    What git ignores is left out, what it does not know yet is in.

    Args:
        root: the folder of asv.conf.json; a temporary index is written beside the user's, in git's own folder.

    Raises:
        HistoryError: git cannot do that, in its words.
    """
    index = root.absolute() / _git(root, {}, "rev-parse", "--git-path", f"{INDEX}-{os.getpid()}")
    variables = {"GIT_INDEX_FILE": str(index)}
    try:
        _git(root, variables, "read-tree", "HEAD")
        _git(root, variables, "add", "--all", "--", ":/")
        # Not by `:(exclude)`: git fails where what is excluded is ignored as well
        _git(root, variables, "reset", "--quiet", "HEAD", "--", f":/{NOT_BUILT_FROM}")
        tree = _git(root, variables, "write-tree")
    finally:
        for path in (index, index.with_name(f"{index.name}.lock")):
            path.unlink(missing_ok=True)
    if tree == _git(root, {}, "rev-parse", "HEAD^{tree}"):
        return _git(root, {}, "rev-parse", "HEAD")
    date = _git(root, {}, "show", "-s", "--format=%cI", "HEAD")
    who = {
        f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in {**_WHO, "DATE": date}.items()
    }
    return _git(root, who, "commit-tree", tree, "-p", "HEAD", "-m", MESSAGE)


def _git(root: Path, variables: dict[str, str], *args: str) -> str:
    done = subprocess.run(
        ["git", *args], cwd=root, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = next((line for line in done.stderr.splitlines() if line.strip()), "nothing")
        raise HistoryError(f"the working tree cannot be made a commit: git {args[0]} says: {said}")
    return done.stdout.strip()
