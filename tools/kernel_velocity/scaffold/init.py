"""``kv init``: set up tracking in a git repository.

It writes what is missing of asv.conf.json, the section of kernel-velocity, an example benchmark and a line of
.gitignore. How a commit is built is guessed from the files at the top of the repository.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TextIO

from kernel_velocity.errors import UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.results import git
from kernel_velocity.suite import config

TEMPLATES = Path(__file__).with_name("init_templates")
WHEEL = "python -m pip --disable-pip-version-check wheel --no-deps{} -w {{out}} ."
# Libraries that are neither SHARED nor STATIC would be static, of which nothing can be loaded.
CONFIGURE = "cmake -S . -B build-kv -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON"
CMAKE = f"{CONFIGURE} && cmake --build build-kv --parallel && {{}}"
COPY_LIBRARIES = "find . -name '*.so' -exec cp {} {out}/ ';'"
SOURCES = {".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hpp", ".py", ".cmake"}
BUILD_FILES = ("CMakeLists.txt", "Makefile", "makefile", "GNUmakefile", "setup.py")
# Folders and files at the top of a repository that kernels are not built from.
NOT_BUILT_FROM = {
    *("benchmark", "benchmarks", "bench", "ci", "conftest.py", "doc", "docs", "example", "examples", "results"),
    *("scripts", "test", "tests", "tools"),
}
_LIBRARY = re.compile(r"^([\w./-]+\.so)\s*:(?!=)", re.MULTILINE)  # a target of a Makefile
# The lines of two settings in one way of writing them.
_BUILD = re.compile(r"""^(build *= *("([^"\\\n]|\\.)*"|'[^'\n]*')(?= *(#.*)?$)|# build: none.*$)""", re.MULTILINE)
_BUILT_FROM = re.compile(r"^built-from *= *\[[^\]]*\]", re.MULTILINE)
_CONFIGURED = re.compile(r"kernel_velocity\.asv_plugin")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--root", type=Path, default=Path(), help="the top folder of a git repository (default: here)")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Write the missing files, and print what was written and what comes next."""
    root: Path = args.root.absolute()
    _check_top(root)
    texts = files(root)
    for path, text in texts.items():
        print(f"{'added to' if (root / path).exists() else 'wrote'} {path}", file=out)
        replace_text(root / path, text)
    if not texts:
        print("nothing to do: this repository is set up", file=out)
        return 0
    section = config.project(root)
    if section.build is None and not section.built_from:
        print(f"note: {section_file(root)}: nothing here tells how kernels are built; fill in build", file=err)
    print("Look at what it says, then: kv track", file=out)
    return 0


def files(root: Path) -> dict[str, str]:
    """Return the new texts of the files that have to change, by path."""
    texts: dict[str, str] = {}
    benchmarks = _benchmarks(root, texts)
    if not list((root / benchmarks).glob("*.py")):
        texts[f"{benchmarks}/__init__.py"] = '"""Benchmarks: a module for each kernel."""\n'
        texts[f"{benchmarks}/example.py"] = (TEMPLATES / "example.py.txt").read_text(encoding="utf-8")
    path = section_file(root)
    before = (root / path).read_text(encoding="utf-8") if (root / path).is_file() else ""
    if path == config.OWN_FILE and not before:
        texts[path] = section(root)
    elif path == config.PROJECT_FILE and config.SECTION not in config.toml(root / path).get("tool", {}):
        texts[path] = f"{before.rstrip()}\n\n[tool.{config.SECTION}]\n{section(root)}"
    if git.run(root, "check-ignore", "--quiet", ".asv/env").returncode != 0:
        ignored = root / ".gitignore"
        try:
            lines = ignored.read_text(encoding="utf-8").rstrip("\n") + "\n" if ignored.is_file() else ""
        except UnicodeDecodeError as error:
            raise UsageError(f"{ignored}: not UTF-8 at byte {error.start}: add the line .asv/ to it") from None
        texts[".gitignore"] = f"{lines.lstrip()}.asv/\n"
    return texts


def section_file(root: Path) -> str:
    """Return the file that has, or is to have, the section."""
    has_own_file = (root / config.OWN_FILE).is_file() or not (root / config.PROJECT_FILE).is_file()
    return config.OWN_FILE if has_own_file else config.PROJECT_FILE


def section(root: Path) -> str:
    """Return the section's settings, as far as the files of the repository tell them."""
    listed = git.run(root, "ls-files").stdout.splitlines()
    tops = dict.fromkeys(
        PurePosixPath(name).parts[0] for name in listed if PurePosixPath(name).suffix in SOURCES or name in BUILD_FILES
    )
    built_from = [top for top in tops if top not in NOT_BUILT_FROM and not top.startswith(".")]
    command = _build(root)
    return (
        (TEMPLATES / "section.toml")
        .read_text(encoding="utf-8")
        .format(
            build=f"build = {_toml(command)}" if command else "# build: none, the files of built-from are copied",
            built_from=_toml(built_from),
        )
    )


def python_package(root: Path) -> str:
    """Return the package of a distribution that has Python code alone, "" for any other repository."""
    if _backend(root) is None or not (root / config.PROJECT_FILE).is_file():
        return ""
    if any(
        PurePosixPath(name).suffix in SOURCES - {".py", ".h"} for name in git.run(root, "ls-files").stdout.splitlines()
    ):
        return ""
    name = str(config.toml(root / config.PROJECT_FILE).get("project", {}).get("name", ""))
    return re.sub(r"\W", "_", name, flags=re.ASCII).lower()


def with_kernel(root: Path, source: PurePosixPath, name: str) -> tuple[dict[Path, str], str]:
    """Return the file of the section with what builds a kernel, and what that is. No file where it cannot be changed.

    The texts around the settings stay. A file whose settings are not written in one way that is known is left alone.

    Args:
        source: of the kernel's code, relative to the repository, without a suffix. name: of the libraries.
    """
    path, project = Path(section_file(root)), config.project(root)
    compiled = (
        f"if test -f {source}.cpp; then c++ -std=c++17 -O3 -shared -fPIC {source}.cpp -o {{out}}/{name}.so; "
        f"else touch {{out}}/no-{name}; fi && "
        f"if test -f {source}.cu && command -v nvcc >/dev/null; then "
        f"nvcc -O3 -shared -Xcompiler -fPIC {source}.cu -o {{out}}/{name}_cuda.so; fi"
    )
    build = " && ".join(filter(None, [project.command, compiled]))
    folder = source.parts[0]
    built_from = list(dict.fromkeys([*project.built_from, folder])) if project.built_from or not project.build else []
    sources = [f"{source}.{suffix}" for suffix in ("cpp", "cu")]
    settings = f"build = {_toml(build)}, built-from = {_toml(built_from)}"
    is_there = (root / path).is_file()
    raw = (root / path).read_bytes().decode("utf-8") if is_there else "# build: none\nbuilt-from = []\n"
    before, line_end = raw.replace("\r\n", "\n"), "\r\n" if "\r\n" in raw else "\n"
    table = "" if path.name == config.OWN_FILE else f"tool.{config.SECTION}."
    head, title, text = before.partition(f"[tool.{config.SECTION}]") if table else ("", "", before)
    text = _BUILD.sub(lambda _: f"build = {_toml(build)}", text, count=1)
    text = _BUILT_FROM.sub(lambda _: f"built-from = {_toml(built_from)}", text, count=1)
    text = f"{head}{title}{text}\n[{table}kernels.{name}]\nsources = {_toml(sources)}\n"
    wanted = tomllib.loads(before)
    section = wanted if not table else wanted.get("tool", {}).get(config.SECTION, {})
    section["build"], section["kernels"] = build, {**section.get("kernels", {}), name: {"sources": sources}}
    if built_from:
        section["built-from"] = built_from
    try:
        is_changed = tomllib.loads(text) == wanted and before.replace("\n", line_end) == raw  # one kind of line ends
    except tomllib.TOMLDecodeError:
        is_changed = False
    return ({path: text.replace("\n", line_end)} if is_changed else {}), settings


def _toml(value: str | Sequence[str]) -> str:
    """Return a text or a list of texts in TOML, which escapes as JSON does."""
    return json.dumps(value, ensure_ascii=False)


def _build(root: Path) -> str | None:
    """Return the build command. None for files that are only copied."""
    if (backend := _backend(root)) is not None:
        isolated = importlib.util.find_spec(backend) is None  # pip then fetches it for each build
        return WHEEL.format("" if isolated else " --no-build-isolation")
    if (root / "CMakeLists.txt").is_file():
        return CMAKE.format(COPY_LIBRARIES)
    for name in ("GNUmakefile", "makefile", "Makefile"):
        if (root / name).is_file():
            targets = _LIBRARY.findall((root / name).read_text(encoding="utf-8", errors="replace"))
            return (
                f"make {' '.join(targets)} && cp {' '.join(targets)} {{out}}/"
                if targets
                else f"make && {COPY_LIBRARIES}"
            )
    return None


def _backend(root: Path) -> str | None:
    """Return the top package of the build backend. None where the repository is no Python distribution."""
    path = root / config.PROJECT_FILE
    document = config.toml(path) if path.is_file() else {}
    if "build-system" not in document and "project" not in document and not (root / "setup.py").is_file():
        return None
    system = document.get("build-system", {})
    backend = system.get("build-backend", "setuptools.build_meta") if isinstance(system, dict) else None
    if not isinstance(backend, str):
        raise UsageError(f"{path}: build-system.build-backend must be a text (got {repr(backend)[:60]})")
    return backend.partition(".")[0].partition(":")[0]


def _benchmarks(root: Path, texts: dict[str, str]) -> str:
    """Return the folder of benchmarks. Add asv.conf.json to `texts` if there is none.

    Raises:
        UsageError: the one there is is not of kernel-velocity.
    """
    path = root / config.NAME
    if path.is_file():
        settings = config.asv_settings(root)
        if not _CONFIGURED.search(path.read_text(encoding="utf-8")):
            raise UsageError(
                f'{path}: is there without kernel-velocity; add "plugins": [".kernel_velocity.asv_plugin"] and '
                '"environment_type": "host", then run kv init again'
            )
        return str(settings.get("benchmark_dir", "benchmarks"))
    benchmarks = "kv_benchmarks" if (root / "benchmarks").exists() else "benchmarks"
    text = (TEMPLATES / config.NAME).read_text(encoding="utf-8")
    where = section_file(root)
    texts[config.NAME] = (
        text.replace('"PROJECT"', json.dumps(root.name)).replace("BENCHMARKS", benchmarks).replace("SECTION", where)
    )
    return benchmarks


def _check_top(root: Path) -> None:
    """Check that a folder is the top of a git repository.

    Raises:
        HistoryError: it is in no repository, or in one without a commit.
        UsageError: it is another folder of one, or its pyproject.toml is no TOML.
    """
    git.check_clone(root)
    top = Path(git.run(root, "rev-parse", "--show-toplevel").stdout.strip())
    if top.resolve() != root.resolve():
        raise UsageError(f"{root}: wanted the top folder of the repository: kv init --root {top}")
    if (root / config.PROJECT_FILE).is_file():
        config.toml(root / config.PROJECT_FILE)
    config.project(root)
