"""The checks before a command measures, and the arguments that `gate` and `bisect` share."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

from kernel_velocity import config, lock
from kernel_velocity.errors import UsageError
from kernel_velocity.harness import isolation, timing
from kernel_velocity.runner import clocks
from kernel_velocity.runner.host import measuring_variables, torch_version

LIBRARY = Path("_native", "libkernel_velocity.so")  # in the folder of `kernels`


def add_measuring_arguments(parser: argparse.ArgumentParser, budget: float) -> None:
    """Declare --budget (default `budget`, minutes), --again, --root, --lock-clocks and --wait."""
    parser.add_argument(
        "--budget",
        metavar="MINUTES",
        default=f"{budget:g}",
        help=f"time for measuring, builds not counted (default {budget:g})",
    )
    parser.add_argument("--again", action="store_true", help="measure again, and retry builds that failed")
    parser.add_argument("--root", type=Path, default=Path(), help="the folder of asv.conf.json (default: here)")
    clocks.add_argument(parser)
    lock.add_wait(parser)


def seconds(minutes: str) -> float:
    """Return a budget of minutes in seconds.

    Raises:
        UsageError: it is not a positive number.
    """
    with contextlib.suppress(ValueError):
        if 0 < float(minutes) < math.inf:
            return 60 * float(minutes)
    raise UsageError(f"--budget must be a positive number of minutes (got {minutes!r}), for example --budget 10")


def check_settings(environ: Mapping[str, str]) -> None:
    """Check KV_THREADS and the settings of the timing.

    Raises:
        UsageError: one of them is malformed.
    """
    measuring_variables(environ.get("KV_THREADS") or None)
    try:
        timing.method(environ)
        isolation.is_shared(environ, "cpu")
    except ValueError as error:
        raise UsageError(str(error)) from None


def installed_torch() -> str:
    """Return the version of the installed torch.

    Raises:
        UsageError: it is not installed.
    """
    version = torch_version()
    if version is None:
        raise UsageError("torch is not installed for this Python: `make venv` installs it (TORCH=, TORCH_INDEX=)")
    return version


@contextlib.contextmanager
def measuring(
    root: Path, err: TextIO, *, wait: bool, lock_clocks: str | None, worktree: bool = False
) -> Iterator[None]:
    """Check the requirements of measuring, then enter a clone's folder, hold its lock, and lock the GPU's clocks.

    Args:
        root: the folder of asv.conf.json. err: gets notes on a shallow clone and on uncommitted changes.
        wait: whether to wait for another run that measures. lock_clocks: see `clocks.locked`.
        worktree: whether uncommitted changes are measured, so that they need no note.

    Raises:
        KernelVelocityError: a requirement is missing, a setting is malformed, or another run is measuring.
    """
    from kernel_velocity.results import git  # noqa: PLC0415 - imports GitPython, which asv's plugin does without

    config.check(root)
    check_settings(os.environ)
    installed_torch()
    with contextlib.chdir(root), lock.held(Path(), wait=wait), clocks.locked(lock_clocks, err):
        for note in git.check_clone(Path()):
            if not (worktree and note.startswith("uncommitted")):
                print(f"note: {note}", file=err)
        yield


def check_build(kernels: Path, kernel: str) -> None:
    """Check the library in a folder of kernels against the sources of one of them, and what these may include.

    Without `make build` after an edit, the old code would be timed and verified. An installed wheel has no
    sources, and loading fails with a message of its own in a tree without a library.

    Raises:
        UsageError: a source was changed after the library was built.
    """
    library = kernels / LIBRARY
    if not library.is_file():
        return
    kinds = [f"{folder}/*.{ending}" for folder in (kernel, "_native") for ending in ("cpp", "cu")]
    sources = [path for kind in (*kinds, "*/*.h") for path in kernels.glob(kind)]
    newest = max(sources, key=lambda path: path.stat().st_mtime_ns, default=library)
    if newest.stat().st_mtime_ns > library.stat().st_mtime_ns:
        raise UsageError(
            f"{newest.relative_to(kernels.parent)} was changed after the native library was built: run `make build`, "
            "or the old code is measured"
        )
