"""Runs a script in a process of one thread, which may fork: a process of tests has pytest's threads and numpy's."""

import os
import subprocess
import sys
from pathlib import Path

from kernel_velocity.__main__ import THREADS
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[1]


def run(script, *arguments, status=0):
    """Run a script that is to end with a status. Return the process as it ended."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | dict.fromkeys(THREADS, "1"),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done
