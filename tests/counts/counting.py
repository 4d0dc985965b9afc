"""Small C libraries whose calls are counted."""

import ctypes
import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_velocity.counts import c_call, callgrind
from kernel_velocity.counts.c_call import NotCountedError


def can_count():
    """Return why nothing can be counted here. "" where it can."""
    try:
        callgrind.check()
    except NotCountedError as error:
        return str(error)
    return "" if shutil.which("gcc") else "no gcc"


TOOLS = Path(__file__).parents[2] / "tools"
COUNTS = pytest.mark.skipif(bool(can_count()), reason=can_count() or "can count")

# Of a kernel {name} of libscale.so
DEFINITION = """
import kernel_velocity as kv

@kv.benchmark(cases=["float32-1k"], counts=["float32-1k"], devices=["cpu"])
class {name}:
    def inputs(n):
        import torch
        return torch.randn(n)

    def reference(x):
        return 2 * x

    native = kv.native("libscale.so", "int {name}(float* out, const float* x, int n)")
"""


class Memory:
    """Stands for a tensor: bytes at an address."""

    def __init__(self, size):
        self._bytes = ctypes.create_string_buffer(size)
        self.nbytes = size

    def data_ptr(self):
        return ctypes.addressof(self._bytes)


def compiled(folder: Path, source: str, *options: str, name: str = "libsmall.so") -> Path:
    """Compile C into a library in a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    command = ["gcc", *(options or ("-O2",)), "-shared", "-fPIC", "-x", "c", "-", "-o", str(path)]
    subprocess.run(command, input=source, text=True, check=True)
    return path


def call(library: Path, name: str, *arguments, result=ctypes.c_int, inputs=(), outputs=()):
    """Return the call of a function of a library."""
    function = ctypes.CDLL(str(library))[name]
    function.restype = result
    return c_call.read(functools.partial(function, *arguments), inputs, outputs)


def pointer(memory, offset=0):
    return ctypes.c_void_p(memory.data_ptr() + offset)


def repository_of(folder: Path, build: str, source: str, texts, definitions) -> Path:
    """Write a repository into an empty folder, with a commit for each text of a source. Return the folder.

    Args:
        build: the command. source: the file that is built. definitions: name -> text of a file of benchmarks.
    """
    settings = {"version": 1, "project": "counted", "repo": ".", "branches": ["HEAD"], "environment_type": "host"}
    settings |= {"plugins": [".kernel_velocity.asv_plugin"], "env_dir": ".asv/env", "launch_method": "forkserver"}
    (folder / "asv.conf.json").write_text(json.dumps(settings))
    (folder / "kernel-velocity.toml").write_text(f'build = "{build}"\nbuilt-from = ["{source}"]\n')
    (folder / ".gitignore").write_text(".asv\n")
    (folder / "benchmarks").mkdir()
    for name, text in {"__init__": "", **definitions}.items():
        (folder / "benchmarks" / f"{name}.py").write_text(text)
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=folder, check=True)
    for text in texts:
        (folder / source).write_text(text)
        subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
        who = ["-c", "user.name=A", "-c", "user.email=a@b"]
        subprocess.run(["git", *who, "commit", "-q", "-m", "Change"], cwd=folder, check=True)
    return folder


def gate(folder: Path, *args: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run `kv gate --counts` in a repository. `more`: variables."""
    environ = {name: value for name, value in os.environ.items() if name not in ("KV_LOCK_HOLDER", "KV_ARTEFACTS")}
    command = [sys.executable, "-P", "-m", "kernel_velocity", "gate", "--counts", *args]
    environ |= {"PYTHONPATH": str(TOOLS), **more}
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
