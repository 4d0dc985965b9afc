"""What is under test: asv's folder, what the build of the commit made, and its build-info.json.

KV_ARTEFACTS names the folder of the build to measuring processes. Outside asv it is the working tree's, if any. Under
`asv run --python=same` it is the working tree itself.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernel_velocity import documents
from kernel_velocity.counts.compiled import INFO_NAME
from kernel_velocity.documents import DamagedError

ARTEFACTS = "KV_ARTEFACTS"  # the environment variable
# Beside a build without its CUDA code, of a build with it: what it made, and its build-info.json, which is written last
WHOLE, WHOLE_INFO = "whole", "whole-build-info.json"


class WrongPackageError(RuntimeError):
    """A package of the commit under test is imported from elsewhere."""


def artefact(name: str) -> Path:
    """Return the path of a file that the build of the commit under test made, such as "libnorm.so".

    Raises:
        NotImplementedError: the build made no such file, or nothing is built here: n/a.
    """
    folder = os.environ.get(ARTEFACTS)
    if folder is None:
        raise NotImplementedError(f"no build here has made {name}: {ARTEFACTS} names no folder")
    path = Path(folder, name)
    if not path.exists():
        raise NotImplementedError(f"the build of this commit made no {name}")
    return path


def c_function(library: str, symbol: str) -> Any:
    """Return a C function of a library that the build under test made.

    Rounding and the treatment of subnormal numbers are restored: loading a library built with -Ofast changes them.

    Raises:
        NotImplementedError: the build has no such library, or the library no such function: n/a.
    """
    path, libm = artefact(library), ctypes.CDLL("libm.so.6")
    saved = ctypes.create_string_buffer(256)  # larger than any fenv_t
    libm.fegetenv(saved)
    try:
        return getattr(ctypes.CDLL(str(path)), symbol)
    except AttributeError:
        raise NotImplementedError(f"{library} of this commit has no function {symbol}") from None
    finally:
        libm.fesetenv(saved)


def root_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of asv.conf.json: asv names it to measuring processes, else it is the current one."""
    return Path(environ.get("ASV_CONF_DIR") or Path.cwd())


def check_package(environ: Mapping[str, str]) -> None:
    """Check that this process imports every package of the build under test from that build.

    Raises:
        WrongPackageError: one comes from elsewhere.
    """
    if (named := environ.get(ARTEFACTS)) is None:
        return
    folder = Path(named).resolve()
    for module in pkgutil.iter_modules([str(folder)]):
        spec = importlib.util.find_spec(module.name)
        if spec is not None and spec.origin is not None and not Path(spec.origin).resolve().is_relative_to(folder):
            raise WrongPackageError(
                f"{module.name} comes from {spec.origin}, not from the build of the commit under test "
                f"({folder}): remove that copy, and run one asv at a time in a clone"
            )


def is_imported(environ: Mapping[str, str]) -> bool:
    """Return whether this process has imported a package of the build under test. Without a named build it may have."""
    folder = environ.get(ARTEFACTS)
    return folder is None or any(module.name in sys.modules for module in pkgutil.iter_modules([folder]))


def find_info(build: Path) -> Path | None:
    """Return the build-info.json of a build, or None. Of a working tree it is the one of a package."""
    candidates = []
    for folder, names, files in os.walk(build):
        names[:] = [name for name in names if not name.startswith(".")]  # a working tree has environments in some
        candidates += [Path(folder, INFO_NAME)] if INFO_NAME in files else []
    return min(candidates, key=lambda path: (not (path.parent / "__init__.py").exists(), len(path.parts)), default=None)


def described(build: Path) -> Path | None:
    """Return the build-info.json with the figures of a build: with those of CUDA code that it was left without."""
    whole = build.absolute().parent / WHOLE_INFO
    return whole if whole.exists() else find_info(build)


def with_cuda(build: Path) -> Path:
    """Return the folder of what a build made with its CUDA code: the one beside a build that was left without it."""
    whole = build.absolute().with_name(WHOLE)
    return whole if whole.is_dir() and whole.with_name(WHOLE_INFO).exists() else build


def build_info() -> dict[str, Any]:
    """Return the build-info.json of the build under test.

    Raises:
        NotImplementedError: there is none: the commit is from before builds had one.
        WrongPackageError: a package is not the one of the commit under test.
        DamagedError: the file is damaged.
    """
    check_package(os.environ)
    folder = os.environ.get(ARTEFACTS)
    path = None if folder is None else described(Path(folder))
    if path is None:
        raise NotImplementedError("the build of this commit has no build-info.json")
    try:
        return documents.read(path)
    except DamagedError as error:
        raise DamagedError(f"{path}: {error}; `kv track --again 1` builds the commit anew") from None
