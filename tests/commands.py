"""Commands that tests run: `kv` in this process, and git as somebody who has a name."""

import io
import subprocess

from kernel_velocity.__main__ import main


def kv(*argv, main=main):
    """Run a command. Return its exit status, and what it printed to each stream."""
    out, err = io.StringIO(), io.StringIO()
    status = main([*map(str, argv)], out, err)
    return status, out.getvalue(), err.getvalue()


def git(folder, *args):
    """Run git in a folder. Return what it printed."""
    who = ["-c", "user.name=A", "-c", "user.email=a@b"]
    return subprocess.run(["git", *who, *args], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()
