"""A tree that files are generated into, with this repository's settings of the tools, and the tools that look at it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COPIED = ("asv.conf.json", "pyproject.toml", ".clang-format", "kernels/__init__.py", "benchmarks/__init__.py")
CACHE = f".mypy_cache/{sys.version_info.major}.{sys.version_info.minor}"
STRICT = ("c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only")


def repository(root):
    """Make a folder that looks like the repository to `kv new`."""
    shutil.copytree(ROOT / "kernels/_native", root / "kernels/_native", ignore=shutil.ignore_patterns("*.so"))
    for folder in ("benchmarks", "tests/kernels"):
        (root / folder).mkdir(parents=True)
    for name in (*COPIED, "kernels/py.typed"):
        shutil.copy(ROOT / name, root / name)
    (root / "tools").symlink_to(ROOT / "tools")
    return root


def tool(root, *command):
    """Run a tool, which must succeed. Return what it prints."""
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


def check_types(root, sources):
    """Check types as `make lint` does, with what it remembers of PyTorch, which takes 20 s to read."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    if (ROOT / CACHE).is_dir():
        shutil.copytree(ROOT / CACHE, root / CACHE, dirs_exist_ok=True)
    tool(root, sys.executable, "-m", "mypy", *sources)
