"""What is under test: asv's folder, what the build of the commit made, and the figures of its code.

KV_ARTEFACTS names the folder of the build to measuring processes. Outside asv it is the working tree's, if any. Under
`asv run --python=same` it is the working tree itself.

Figures (registers, shared memory, spills, size of the code) are read from a build-info.json in that folder, which the
build writes, so no GPU is needed. A test case of these series is a target of the compiler: an instruction set of the
CPU, or a GPU's architecture.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import pkgutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kernel_velocity import documents
from kernel_velocity.documents import DamagedError

ARTEFACTS = "KV_ARTEFACTS"  # the environment variable


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


# Figures of the compiled code -----------------------------------------------------------------------------------------

INFO_NAME = "build-info.json"
_PTXAS: Mapping[str, Callable[[list[Mapping[str, int]]], int]] = {
    "registers": lambda functions: max(function["registers"] for function in functions),
    "shared_bytes": lambda functions: max(function["shared_bytes"] for function in functions),
    "spill_bytes": lambda functions: sum(f["spill_store_bytes"] + f["spill_load_bytes"] for f in functions),
}


def find_info(build: Path) -> Path | None:
    """Return the build-info.json of a build, or None. Of a working tree it is the one of a package."""
    candidates = []
    for folder, names, files in os.walk(build):
        names[:] = [name for name in names if not name.startswith(".")]  # a working tree has environments in some
        candidates += [Path(folder, INFO_NAME)] if INFO_NAME in files else []
    return min(candidates, key=lambda path: (not (path.parent / "__init__.py").exists(), len(path.parts)), default=None)


def figure(info: Mapping[str, Any], kernel: str, name: str, target: str) -> int:
    """Return a figure of a kernel's code.

    Args:
        info: a build-info.json.
        kernel: its name.
        name: of cases.FIGURES.
        target: of cases.TARGETS.

    Raises:
        NotImplementedError: the build has no such kernel, or no code of it for the target.
        DamagedError: what it says of the kernel is no whole number.
    """
    try:
        figures = info.get("kernels", {}).get(kernel, {})
        if name in _PTXAS:
            functions = [function for function in figures.get("ptxas", ()) if function["architecture"] == target]
            value = _PTXAS[name](functions) if functions else None
        else:
            value = figures.get(name, {}).get(target)
    except (LookupError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise DamagedError(f"{INFO_NAME}: kernels.{kernel}: no figures of a kernel: {why}") from None
    if value is not None and not (type(value) is int and value >= 0):
        raise DamagedError(f"{INFO_NAME}: kernels.{kernel}: {name}: a whole number is wanted, got {str(value)[:60]!r}")
    if value is not None:
        return value
    raise NotImplementedError(f"the build of this commit has no {kernel} for {target}")


def build_info() -> dict[str, Any]:
    """Return the build-info.json of the build under test.

    Raises:
        NotImplementedError: there is none: the commit is from before builds had one.
        WrongPackageError: a package is not the one of the commit under test.
        DamagedError: the file is damaged.
    """
    check_package(os.environ)
    folder = os.environ.get(ARTEFACTS)
    path = None if folder is None else find_info(Path(folder))
    if path is None:
        raise NotImplementedError("the build of this commit has no build-info.json")
    try:
        return documents.read(path)
    except DamagedError as error:
        raise DamagedError(f"{path}: {error}; `kv track --again 1` builds the commit anew") from None
