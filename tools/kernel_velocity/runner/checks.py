"""What `gate` and `bisect` share: a budget, a place, and a look at everything that measuring takes."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from kernel_velocity import config, lock
from kernel_velocity.errors import UsageError
from kernel_velocity.harness import gpu, timing
from kernel_velocity.results import git
from kernel_velocity.runner.host import measuring_variables, torch_version


def add_measuring_arguments(parser: argparse.ArgumentParser, budget: float) -> None:
    """Declare the arguments; `budget` is the default, minutes."""
    parser.add_argument(
        "--budget", metavar="MINUTES", default=f"{budget:g}", help=f"of measuring, builds apart (default {budget:g})"
    )
    parser.add_argument(
        "--again", action="store_true", help="measure again what was measured, build again what could not be built"
    )
    parser.add_argument("--root", type=Path, default=Path(), help="the folder of asv.conf.json (default: here)")


def seconds(minutes: str) -> float:
    """Return a budget, s.

    Raises:
        UsageError: no positive number of minutes.
    """
    with contextlib.suppress(ValueError):
        if 0 < float(minutes) < math.inf:
            return 60 * float(minutes)
    raise UsageError(f"--budget {minutes!r}: a positive number of minutes is wanted, such as --budget 10")


@contextlib.contextmanager
def measuring(root: Path, err: TextIO, *, worktree: bool = False) -> Iterator[None]:
    """Be in a clone's folder and hold its lock, once everything that measuring takes has been looked at.

    Args:
        root: the folder of asv.conf.json. err: for notes on the clone, a line each: a shallow one, uncommitted changes.
        worktree: whether uncommitted changes are measured, so that nothing is to be said of them.

    Raises:
        KernelVelocityError: something is missing, or a setting makes no sense.
    """
    config.check(root)
    measuring_variables(os.environ.get("KV_THREADS") or None)
    try:
        timing.method(os.environ)
        gpu.interval(os.environ)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if torch_version() is None:
        raise UsageError("torch is not installed for this Python: `make venv` installs it (TORCH=, TORCH_INDEX=)")
    with contextlib.chdir(root), lock.held(Path()):
        for note in git.check_clone(Path()):
            if not (worktree and note.startswith("uncommitted")):
                print(f"note: {note}", file=err)
        yield
