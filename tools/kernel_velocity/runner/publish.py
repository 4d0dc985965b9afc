"""Writes the site in a process of its own: one without the caller's threads, which may fork and so is twice as fast."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from kernel_velocity.errors import KernelVelocityError

_NOTE, _ERROR = "note: ", "error: "  # begin the lines of `kv report` on stderr


def write_site(*, results: Path, repository: Path, out: Path) -> tuple[str, ...]:
    """Write the site as `report.write_site` does; return what could not be read, a line each.

    Raises:
        KernelVelocityError: what `report` ends with, in its words; or it was ended from outside, or by its own fault.
    """
    folders = {"--results": results, "--repository": repository, "--out": out}
    asked = [word for name, folder in folders.items() for word in (name, str(folder.absolute()))]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kernel_velocity", "report", *asked],
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
        raise KernelVelocityError(_why(done.returncode, lines))
    return tuple(line.removeprefix(_NOTE) for line in lines if line.startswith(_NOTE))


def _why(status: int, lines: list[str]) -> str:
    told = [line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)]
    if told:
        return told[-1]
    ended = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    return "\n".join([f"the process that writes the site {ended}", *lines])
