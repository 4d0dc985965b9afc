"""What a commit is built with: the compilers and the settings of the build, as one line of text.

What code a series runs at a commit, read from the unpacked wheel: equal texts, equal machine code.

A wheel tells the hash of each kernel in its build-info.json (contract: machine code of host object and cubin, the
kernel's Python files, flags). What all kernels share, the Python files of `kernels/` and `kernels/_native/`, is
hashed with it here: a slower call there slows them all.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

DEFAULT_CUDA = "/usr/local/cuda"
SETTINGS = ("KV_CUDA", "KV_CUDA_ARCHITECTURES", "CXXFLAGS", "CUDAFLAGS")

BUILD_INFO = Path("kernels", "_native", "build-info.json")


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


def code_hash(unpacked: Path, kernel: str) -> str | None:
    """Return the hash of a kernel in an unpacked wheel; None where the wheel does not tell.

    Args:
        unpacked: the folder that holds the package `kernels`. kernel: as it begins the name of a benchmark.
    """
    try:
        info = json.loads((unpacked / BUILD_INFO).read_text(encoding="utf-8"))
        own = info["kernels"][kernel]["code_hash"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    if not isinstance(own, str):
        return None
    digest = hashlib.sha256(own.encode())
    for path in sorted([*(unpacked / "kernels").glob("*.py"), *(unpacked / BUILD_INFO).parent.glob("*.py")]):
        digest.update(f"{path.relative_to(unpacked)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()
