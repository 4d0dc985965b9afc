"""What is under test: asv's folder, and the `kernels` package, which must be the one of the commit that asv names."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path


class WrongPackageError(RuntimeError):
    """`kernels` was not imported from the environment of the commit under test."""


def root_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of asv.conf.json: asv names it to measuring processes, else it is the current one."""
    return Path(environ.get("ASV_CONF_DIR") or Path.cwd())


def check_package(environ: Mapping[str, str]) -> None:
    """Look whether `kernels` comes from asv's environment (-E existing has none to compare with).

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
    # Where builds are cached by commit (runner/environment.py), the path must name the commit that asv says it
    # measures.
    commit = environ.get("ASV_COMMIT")
    if "asv-build-cache" in origin.parts and commit not in origin.parts:
        raise WrongPackageError(
            f"kernels comes from {origin}, which is not commit {commit}: another run switched this environment; "
            "run one at a time in a clone"
        )
