"""What a commit is built with: the compilers and the settings of the build, as one line of text."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

DEFAULT_CUDA = "/usr/local/cuda"
SETTINGS = ("KV_CUDA", "KV_CUDA_ARCHITECTURES", "CXXFLAGS", "CUDAFLAGS")


def describe(environ: Mapping[str, str]) -> str:
    """Return the line: equal lines build the same from the same commit, and "no nvcc" means no CUDA code."""
    named = environ.get("CXX", "").split()[:1] or ["c++", "g++", "clang++"]
    compiler = next((path for name in named if (path := shutil.which(name))), None)
    parts = [_version(compiler, 0) if compiler else "no C++ compiler"]
    nvcc = _nvcc(environ)
    parts.append(_version(nvcc, -1) if nvcc else "no nvcc")
    parts += [f"{name}={environ[name]}" for name in SETTINGS if environ.get(name)]
    return "; ".join(parts)


def _nvcc(environ: Mapping[str, str]) -> str | None:
    """Return the nvcc that CMakeLists.txt finds; None where there is none."""
    hints = [environ[name] for name in ("CUDACXX", "CUDA_HOME", "CUDA_PATH") if environ.get(name)]
    for hint in [*hints, DEFAULT_CUDA]:
        for path in (Path(hint), Path(hint, "nvcc"), Path(hint, "bin", "nvcc")):
            if path.is_file() and os.access(path, os.X_OK):
                return str(path)
    return shutil.which("nvcc")


def _version(program: str, line: int) -> str:
    """Return a line of what `program --version` prints; the program's path where it prints nothing."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return (done.stdout.strip().splitlines() or [program])[line].strip()
