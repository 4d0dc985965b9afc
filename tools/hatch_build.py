"""Hatch's build hook: puts uPlot, the script of the interactive charts, into the package.

It comes from the npm registry, because PyPI has no maintained package of it. The files are pinned by their hashes, so
any mirror will do. The registry's address is npm's: `npm_config_registry`, else `registry=` in ~/.npmrc, else the
public one. Node is not needed. Files that are there already are not fetched again.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
import urllib.request
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VERSION = "1.6.32"
FOLDER = "kernel_velocity/site/charts/uplot"
FILES = {  # name in the package -> SHA-256
    "dist/uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "dist/uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}
PUBLIC = "https://registry.npmjs.org"
PATIENCE = 60  # s without an answer
CURE = "set npm_config_registry to an npm registry that this machine reaches"


class UPlot(BuildHookInterface):  # type: ignore[type-arg,misc,unused-ignore]
    """Adds the files to wheels, to source distributions and to an editable package's folder."""

    def initialize(self, _version: str, build_data: dict[str, Any]) -> None:
        """Fetch what is missing."""
        add(Path(self.root) / FOLDER)
        build_data["artifacts"].append(f"/{FOLDER}/*")  # git ignores them, and hatch what git ignores


def add(folder: Path, environment: dict[str, str] | None = None) -> None:
    """Put the files into a folder.

    Raises:
        SystemExit: the registry cannot be reached, or has other files. The message is one line.
    """
    paths = {name: folder / Path(name).name for name in FILES}
    if all(path.is_file() and _hash(path.read_bytes()) == FILES[name] for name, path in paths.items()):
        return
    url = f"{registry(dict(os.environ) if environment is None else environment)}/uplot/-/uplot-{VERSION}.tgz"
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            archive = answer.read()
        with tarfile.open(fileobj=io.BytesIO(archive)) as package:
            contents = {name: _read(package, f"package/{name}") for name in FILES}
    except (OSError, ValueError, tarfile.TarError) as error:
        raise SystemExit(f"error: {url}: cannot be fetched ({error}): {CURE}") from None
    for name, content in contents.items():
        if _hash(content) != FILES[name]:
            wanted = f"SHA-256 {_hash(content)}, wanted {FILES[name]}"
            raise SystemExit(f"error: {url}: {name} is not uPlot {VERSION}'s: got {wanted}: {CURE}")
    folder.mkdir(exist_ok=True)
    for name, path in paths.items():
        path.write_bytes(contents[name])


def registry(environment: dict[str, str]) -> str:
    """Return the address of the npm registry, without a slash at its end."""
    variables = {name.lower(): value for name, value in environment.items()}
    address = variables.get("npm_config_registry", "")
    settings = Path(variables.get("npm_config_userconfig") or Path(variables.get("home", "")) / ".npmrc")
    if not address and settings.is_file():
        lines = settings.read_text("utf-8", "replace").splitlines()
        named = [match[1] for line in lines if (match := re.match(r"\s*registry\s*=\s*[\"']?([^\"'\s]+)", line))]
        address = named[-1] if named else ""
    return (address or PUBLIC).rstrip("/")


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read(package: tarfile.TarFile, name: str) -> bytes:
    """Return a file of an archive. A missing one is b"", which has another hash."""
    member = package.extractfile(name) if name in package.getnames() else None
    return b"" if member is None else member.read()
