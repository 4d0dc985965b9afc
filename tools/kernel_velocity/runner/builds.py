"""A commit's build, kept while it is made again with other compilers: a new one that fails leaves the old one.

    <environment>/asv-build-cache/<commit>  ->  <environment>/asv-build-before/<commit>  and, where that fails, back

Outside the cache, because asv removes from it what has no time stamp whenever a build ends.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from kernel_velocity.runner.environment import HostTorch

FOLDER = "asv-build-before"


def keep(environment: HostTorch, commit: str) -> None:
    """Take a commit's build out of the cache, so that it is built again."""
    aside = _aside(environment, commit)
    aside.parent.mkdir(parents=True, exist_ok=True)
    environment.unpacked(commit).parent.rename(aside)
    environment.forget_build(commit)  # its time stamp


def settle(environment: HostTorch, commit: str) -> bool:
    """Put a build back where there is no new one, else forget it; return whether it was put back."""
    aside = _aside(environment, commit)
    if not aside.is_dir():
        return False
    if environment.is_built(commit):
        shutil.rmtree(aside)
        return False
    environment.forget_build(commit)  # what the failed one left
    build = environment.unpacked(commit).parent
    build.parent.mkdir(parents=True, exist_ok=True)
    # asv's time stamp; before the folder: whoever interrupts this leaves no build that asv takes for half made
    build.with_name(f"{build.name}.timestamp").touch()
    aside.rename(build)
    return True


def _aside(environment: HostTorch, commit: str) -> Path:
    return environment.folder / FOLDER / commit
