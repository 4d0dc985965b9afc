"""``python -P make_venv.py .venv``: make the virtual environment of `make track`, with --all of `make test`.

It runs under a bare Python from 3.11 on, so it imports nothing of this package. If that Python has PyTorch, a path file
lends it: a virtual environment made from inside another one (where GPU images have PyTorch) does not see the packages
of that one by itself. Else PyTorch is installed. `kernel_velocity` is installed editable. The package under test is not
installed, because `make track` measures its commits.

Without a network, `--wheels DIR` installs the packages of DIR/requirements-<Python>.txt, pip too, from wheels in that
folder (offline/pack.py makes it), and a path file names the folder of `kernel_velocity`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[1]  # the folder of this distribution; its parent has the package under test
EXTRAS = "[test,docs,fleet]"  # of this distribution, which measuring here does not need
BUILD = "build"  # of the package under test
PATH_FILE = "host-packages.pth"


def extra(folder: Path, name: str) -> list[str]:
    """Return the requirements of an extra in the pyproject.toml of a folder."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements: list[str] = project["optional-dependencies"][name]
    return requirements


def wanted(extras: str = "") -> list[str]:
    """Return pip's arguments that install `kernel_velocity`, editable, and what builds the package under test."""
    return ["-e", f"{TOOLS}{extras}", *extra(TOOLS.parent, BUILD)]


def borrowed_folders(paths: Sequence[str], target: Path) -> list[str]:
    """Return the existing site folders of `paths` (a `sys.path`) outside of `target`."""
    named = [Path(path) for path in paths if Path(path).name in ("site-packages", "dist-packages")]
    real = [path.resolve() for path in named if path.is_dir()]
    return [str(path) for path in dict.fromkeys(real) if not path.is_relative_to(target.resolve())]


def has_torch() -> bool:
    """Return whether the running Python has PyTorch, without importing it."""
    return any(True for _ in importlib.metadata.distributions(name="torch"))


def same_numpy() -> list[str]:
    """Return the requirement of the NumPy beside a borrowed torch, which may be compiled for that version."""
    versions = [numpy.version for numpy in importlib.metadata.distributions(name="numpy")]
    return [f"numpy=={version}" for version in versions[:1] if re.fullmatch(r"\d+(\.\d+)*", version)]


def is_ours(target: Path) -> bool:
    """Return whether `target` is a working virtual environment of the running Python's version."""
    site = target / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    return (target / "bin" / "python").exists() and (site / "pip").is_dir()


def make(target: Path, torch: str, torch_index: str, wheels: Path | None = None, extras: str = "") -> None:
    """Make or update the environment.

    Args:
        target: its folder.
        torch: the requirement to install where this Python has no PyTorch, such as "torch==2.13.0". "" for none (tests
            that do not need it still run).
        torch_index: the package index of PyTorch, "" for pip's own.
        wheels: a folder of wheels with its lists of requirements, for no network. None: pip's index.
        extras: of `kernel_velocity`, "[test]".

    Raises:
        subprocess.CalledProcessError: pip failed and printed why.
    """
    python = target / "bin" / "python"
    if not is_ours(target):
        print(f"making {target} with {sys.executable}", flush=True)  # noqa: T201
        venv.EnvBuilder(with_pip=wheels is None, symlinks=True, clear=True).create(target)
    site = Path(
        subprocess.check_output(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            text=True,
            errors="surrogateescape",
        ).strip()
    )
    # Without the path file pip sees no borrowed package: a borrowed asv or ruff would lack its command.
    (site / PATH_FILE).unlink(missing_ok=True)
    if wheels is not None:
        _pip_from(wheels, python)
    if wheels is not None and not has_torch():
        raise SystemExit(f"error: {sys.executable} has no PyTorch to borrow")
    if has_torch():
        if wheels is None:
            _pip(python, [*wanted(extras), *same_numpy()])
        folders = [*([] if wheels is None else [str(TOOLS)]), *borrowed_folders(sys.path, target)]
        (site / PATH_FILE).write_text("".join(f"{folder}\n" for folder in folders), encoding="utf-8")
        print(f"torch {importlib.metadata.version('torch')} of {sys.executable} is used", flush=True)  # noqa: T201
        return
    if torch:
        _pip(python, [*(["--index-url", torch_index] if torch_index else []), torch])
    else:
        print("TORCH is empty: nothing can be measured here, tests that need PyTorch are skipped", flush=True)  # noqa: T201
    _pip(python, wanted(extras))


def add_nvcc(target: Path) -> Path:
    """Install CUDA's compiler from pip's index into an environment. Return the command in its `bin` that runs it.

    Raises:
        subprocess.CalledProcessError: pip failed and printed why.
        SystemExit: the installed package has no nvcc in the expected place.
    """
    _pip(target / "bin" / "python", extra(TOOLS, "nvcc"))
    compilers = sorted(target.absolute().glob("lib/python*/site-packages/nvidia/cu*/bin/nvcc"))
    if not compilers:
        raise SystemExit(f"error: pip installed no nvidia/cu*/bin/nvcc in {target}: another version packs it elsewhere")
    command = target / "bin" / "nvcc"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(str(compilers[-1]))} "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    return command


def _pip(python: Path, arguments: Sequence[str], **variables: str) -> None:
    # Python compiles what it imports: a third of PyTorch's files. pip compiles all (38 s of processor time, 11 without)
    compiles = [] if sys.dont_write_bytecode else ["--no-compile"]
    options = ["--disable-pip-version-check", "install", "-q", *compiles]
    command: list[str | Path] = [python, "-m", "pip", *options, *arguments]
    subprocess.run(command, check=True, env={**os.environ, **variables})


def _pip_from(wheels: Path, python: Path) -> None:
    """Install the list of requirements for this Python. Pip itself runs from its wheel, which is a zip file."""
    listed = wheels / f"requirements-{sys.version_info.major}.{sys.version_info.minor}.txt"
    (pip,) = wheels.glob("pip-*.whl")
    offline = ["--no-index", "--no-deps", "--no-cache-dir", "--find-links", str(wheels), "-r", str(listed)]
    _pip(python, offline, PYTHONPATH=str(pip))


def main() -> int:
    """Make the environment that the command line names. Return the exit status."""
    parser = argparse.ArgumentParser(description="Make a virtual environment for kernel-velocity.")
    parser.add_argument("target", type=Path)
    parser.add_argument("--torch", default="torch")
    parser.add_argument("--torch-index", default="")
    parser.add_argument("--wheels", type=Path)
    parser.add_argument("--nvcc", action="store_true")
    parser.add_argument("--all", action="store_true", help="with what tests, documentation and fleets need")
    args = parser.parse_args()
    if args.wheels is None and importlib.util.find_spec("ensurepip") is None:
        return _failed(f"{sys.executable} has no ensurepip: install it, for example `apt install python3-venv`")
    try:
        make(args.target, args.torch, args.torch_index, args.wheels, EXTRAS if args.all else "")
        if args.nvcc:
            print(f"CUDA's compiler: {add_nvcc(args.target)}", flush=True)  # noqa: T201
    except subprocess.CalledProcessError as error:
        return _failed(f"{' '.join(map(str, error.cmd))}: status {error.returncode}; see the output of pip above")
    return 0


def _failed(line: str) -> int:
    print(f"error: {line}", file=sys.stderr)  # noqa: T201
    return 2


if __name__ == "__main__":
    sys.exit(main())
