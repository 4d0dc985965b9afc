"""Write the site in a fresh process. It has no threads, so it may fork, which halves the time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from kernel_velocity.errors import KernelVelocityError

_NOTE, _ERROR = "note: ", "error: "  # prefixes of the lines of `kv report` on stderr


def write_site(*, results: Path, repository: Path, out: Path) -> tuple[str, ...]:
    """Write the site by `kv report`. Return its notes on unreadable entries.

    Raises:
        KernelVelocityError: with the error of `kv report`, or how its process ended.
    """
    folders = {"--results": results, "--repository": repository, "--out": out}
    options = [f"{name}={folder.absolute()}" for name, folder in folders.items()]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kernel_velocity", "report", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="backslashreplace",
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        check=False,
    )
    lines = done.stderr.splitlines()
    if done.returncode:
        raise KernelVelocityError(_reason(done.returncode, lines))
    return tuple(line.removeprefix(_NOTE) for line in lines if line.startswith(_NOTE))


def _reason(status: int, lines: list[str]) -> str:
    errors = [line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)]
    if errors:
        return errors[-1]
    ended = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    return "\n".join([f"the process that writes the site {ended}", *lines])
