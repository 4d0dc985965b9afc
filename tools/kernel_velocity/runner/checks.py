"""The checks before a command measures, the arguments that such commands share, and --lock-clocks.

A process of its own holds the lock of a GPU's clocks (`engine.gpu`). It unlocks when its input ends, as it does when
the command is killed. It has a session of its own, which Ctrl-C does not reach, and not the mark of what a run started
(`processes`), by which it would be killed.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

from kernel_velocity import lock
from kernel_velocity.engine import gpu, server, timing
from kernel_velocity.errors import UsageError
from kernel_velocity.processes import RUN, variable
from kernel_velocity.runner import host
from kernel_velocity.runner.host import measuring_variables, torch_version
from kernel_velocity.suite import config

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
    add_lock_clocks(parser)
    lock.add_wait(parser)


def seconds(minutes: str, option: str = "--budget") -> float:
    """Return the minutes of an option in seconds.

    Raises:
        UsageError: it is not a positive number.
    """
    with contextlib.suppress(ValueError):
        if 0 < float(minutes) < math.inf:
            return 60 * float(minutes)
    raise UsageError(f"{option} must be a positive number of minutes (got {minutes!r}), for example {option} 10")


def check_settings(environ: Mapping[str, str]) -> None:
    """Check KV_THREADS and the settings of the timing.

    Raises:
        UsageError: one of them is malformed.
    """
    measuring_variables(environ.get("KV_THREADS") or None)
    try:
        timing.method(environ)
        server.is_shared(environ, "cpu")
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
        wait: whether to wait for another run that measures. lock_clocks: see `locked_clocks`.
        worktree: whether uncommitted changes are measured, so that they need no note.

    Raises:
        KernelVelocityError: a requirement is missing, a setting is malformed, or another run is measuring.
    """
    from kernel_velocity.results import git  # noqa: PLC0415 - imports GitPython, which asv's plugin does without

    config.check(root)
    check_settings(os.environ)
    installed_torch()
    with contextlib.chdir(root), lock.held(Path(), wait=wait), locked_clocks(lock_clocks, err):
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


# A GPU's clocks -------------------------------------------------------------------------------------------------------


def add_lock_clocks(parser: argparse.ArgumentParser) -> None:
    """Declare --lock-clocks."""
    parser.add_argument(
        "--lock-clocks",
        nargs="?",
        const=gpu.BASE,
        metavar="MHZ",
        help="lock the GPU's clocks while measuring, without MHZ to its base clock; needs root",
    )


@contextlib.contextmanager
def locked_clocks(clock: str | None, err: TextIO) -> Iterator[None]:
    """Lock the clocks of the GPU that measures during the body. None for a clock: do nothing.

    They are part of the method, so measuring processes find the clock in KV_LOCK_CLOCKS.

    Args:
        clock: what --lock-clocks says. err: gets a line where the clocks could not be unlocked.

    Raises:
        UsageError: it is no clock, there is no GPU, or the driver refuses.
    """
    if clock is None:
        yield
        return
    try:
        gpu.clock_lock({gpu.CLOCKS: clock})
    except ValueError as error:
        raise UsageError(f"--lock-clocks {error}") from None
    uuid = host.gpu_uuid()
    if uuid is None:
        raise UsageError("--lock-clocks: PyTorch sees no GPU here, or does not say which it is")
    process = subprocess.Popen(
        [sys.executable, "-P", gpu.__file__, uuid, clock],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        env={name: value for name, value in os.environ.items() if name != RUN},
    )
    answer = process.stdout.readline().strip() if process.stdout else ""
    if answer != gpu.LOCKED:
        process.communicate()
        raise UsageError(f"--lock-clocks: the clocks are not locked: {answer}. Without the option they move freely")
    try:
        with variable(gpu.CLOCKS, clock):
            yield
    finally:
        output, _ = process.communicate()  # ends its input
        if process.returncode:
            print(f"the GPU's clocks may still be locked: {output.strip().rpartition(chr(10))[2]}", file=err)
