"""What is under test: asv's folder, the `kernels` package of the commit that asv names, and the figures of its code.

Figures (registers, shared memory, spills, size of the code) are read from the build-info.json inside the package.
kernels/_native/write_build_info.py writes it, so no GPU is needed. A test case of these series is a target of the
compiler: an instruction set of the CPU, or a GPU's architecture.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


class WrongPackageError(RuntimeError):
    """`kernels` was not imported from the environment of the commit under test."""


def root_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of asv.conf.json: asv names it to measuring processes, else it is the current one."""
    return Path(environ.get("ASV_CONF_DIR") or Path.cwd())


def check_package(environ: Mapping[str, str]) -> None:
    """Check that `kernels` comes from asv's environment (-E existing has none to compare with).

    Raises:
        WrongPackageError: it does not.
    """
    folder = environ.get("ASV_ENV_DIR")
    spec = importlib.util.find_spec("kernels")
    if folder is None or spec is None or spec.origin is None:
        return
    origin = Path(spec.origin).resolve()
    if not origin.is_relative_to(Path(folder).resolve()):
        raise WrongPackageError(
            f"kernels comes from {origin}, not from the environment of the commit under test ({folder}): "
            "remove that copy, or run asv from a clean environment"
        )
    # Where builds are cached by commit (runner/environment.py), the path must name the commit that asv measures.
    commit = environ.get("ASV_COMMIT")
    if "asv-build-cache" in origin.parts and commit not in origin.parts:
        raise WrongPackageError(
            f"kernels comes from {origin}, which is not commit {commit}: another run switched this environment; "
            "run one at a time in a clone"
        )


# Figures of the compiled code -----------------------------------------------------------------------------------------

_PTXAS: Mapping[str, Callable[[list[Mapping[str, int]]], int]] = {
    "registers": lambda functions: max(function["registers"] for function in functions),
    "shared_bytes": lambda functions: max(function["shared_bytes"] for function in functions),
    "spill_bytes": lambda functions: sum(f["spill_store_bytes"] + f["spill_load_bytes"] for f in functions),
}


def figure(info: Mapping[str, Any], kernel: str, name: str, target: str) -> int:
    """Return a figure of a kernel's code.

    Args:
        info: a build-info.json.
        kernel: its name.
        name: of cases.FIGURES.
        target: of cases.TARGETS.

    Raises:
        NotImplementedError: the build has no such kernel, or no code of it for the target.
    """
    known = info.get("kernels", {}).get(kernel, {})
    if name in _PTXAS:
        functions = [function for function in known.get("ptxas", ()) if function["architecture"] == target]
        if functions:
            return _PTXAS[name](functions)
    elif target in known.get(name, {}):
        return int(known[name][target])
    raise NotImplementedError(f"the build of this commit has no {kernel} for {target}")


def build_info() -> dict[str, Any]:
    """Return the build-info.json of the package under test.

    Raises:
        NotImplementedError: there is none: the commit is from before wheels had one.
        WrongPackageError: the package is not the one of the commit under test.
    """
    check_package(os.environ)
    spec = importlib.util.find_spec("kernels")
    if spec is None or spec.origin is None:
        raise NotImplementedError("there is no package kernels")
    path = Path(spec.origin).parent / "_native" / "build-info.json"
    if not path.exists():
        raise NotImplementedError("the build of this commit has no build-info.json")
    info: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return info
