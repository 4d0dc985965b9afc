"""Read what a repository tracks: asv.conf.json, and the section of kernel-velocity.

The section is `[tool.kernel-velocity]` of pyproject.toml, or the whole of kernel-velocity.toml where there is one:

    build = "make libnorm.so && cp libnorm.so {out}/"   a shell command in a checkout of the commit, which puts
                                            libraries, Python files or wheels into {out}. Default: copies `built-from`
    built-from = ["norm.c", "Makefile"]     the files and folders that a build depends on
    toolchain = ["gcc --version"]           commands whose output tells builds of one commit apart
    sources = ["src/{kernel}"]              the source of a kernel, {kernel} being its name

    [kernels.layernorm]                     of one kernel
    sources = ["norm.c"]
    symbols = ["libnorm.so:layernorm"]      its functions in a library, from which its code hash is made

    [counts]                                what `kv gate --counts` says of figures that differ (counts/changes.py)
    regression = ["spill_bytes", "occupancy"]  those that must not become worse
    suspect = ["instructions", "mix"]       those that are suspects where they do
    percent = 1.0                           by how much counts of a call must rise for either

    [better]                                which values are better, by patterns of names, the first first
    "*.track_score" = "higher"              "higher", "lower", or "neither"
"""

from __future__ import annotations

import difflib
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

import json5

from kernel_velocity import documents, fields
from kernel_velocity.bounds import is_number
from kernel_velocity.counts.changes import Rules
from kernel_velocity.direction import Better
from kernel_velocity.errors import ResultsError, UsageError
from kernel_velocity.fields import KEY, Rule

if TYPE_CHECKING:
    from kernel_velocity.suite.suite import Suite

NAME = "asv.conf.json"
OWN_FILE, PROJECT_FILE, SECTION = "kernel-velocity.toml", "pyproject.toml", "kernel-velocity"
OUT = "{out}"
ALIKE = 0.8  # of difflib: an unknown setting so near to one of asv's is a slip of the pen


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _are_expressions(value: object) -> bool:
    try:
        return isinstance(value, dict) and all(re.compile(key) for key in value)
    except (re.error, RecursionError, OverflowError):
        return False


_METHODS = (None, "auto", "spawn", "forkserver")
_SETTINGS: Mapping[str, Rule] = {  # of asv 0.6, by name
    name: Rule(wanted, holds)
    for wanted, holds, names in (
        ("a whole number", lambda value: type(value) is int and value >= 0, "version hash_length build_cache_size"),
        ("a whole number", lambda value: type(value) is int and value >= 0, "wheel_cache_size"),
        ("a text", lambda value: value is None or _is_text(value), "project project_url show_commit_url repo_subdir"),
        ("a text", lambda value: value is None or _is_text(value), "dvcs environment_type conda_environment_file"),
        ("a path", lambda value: _is_text(value) and value.strip(), "repo benchmark_dir env_dir results_dir html_dir"),
        ("a list of texts", _are_texts, "branches pythons plugins conda_channels"),
        (
            "a command, or a list of commands",
            lambda value: value is None or _is_text(value) or _are_texts(value),
            "build_command install_command uninstall_command",
        ),
        (
            "a time in seconds",
            lambda value: is_number(value) and value > 0,
            "install_timeout default_benchmark_timeout",
        ),
        ("an object", lambda value: isinstance(value, dict), "matrix"),
        ("a list of objects", lambda v: isinstance(v, list) and all(isinstance(x, dict) for x in v), "include exclude"),
        ("an object of regular expressions", _are_expressions, "regressions_first_commits regressions_thresholds"),
        ("auto, spawn or forkserver", _METHODS.__contains__, "launch_method"),
    )
    for name in names.split()
}

Name = Annotated[str, Rule("a text that is not empty", lambda text: text.strip("/ ") and "\0" not in text)]
Symbol = Annotated[str, Rule("a symbol such as libnorm.so:layernorm", re.compile(r"[^:\0]+:[^\0]+").fullmatch)]
Command = Annotated[str, Rule(f"a shell command that puts what it builds into {OUT}", lambda text: OUT in text)]


@dataclass(frozen=True)
class OfKernel:
    """What the section says of one kernel."""

    sources: tuple[Name, ...] | None = None  # files and folders. None: those of the section
    symbols: tuple[Symbol, ...] = ()  # functions, as "library:function"


@dataclass(frozen=True)
class Project:
    """What the section of a repository says. Paths are relative to the folder of asv.conf.json."""

    build: Command | None = None
    built_from: tuple[Name, ...] = field(default=(), metadata={KEY: "built-from"})  # files, folders. Empty: every file
    toolchain: tuple[Name, ...] = ()  # shell commands
    sources: tuple[Name, ...] = ()  # files and folders, with {kernel} for the name of a kernel
    kernels: Mapping[str, OfKernel] = field(default_factory=dict)
    better: Mapping[str, Better] = field(default_factory=dict)  # by patterns of benchmarks' names
    counts: Rules = field(default_factory=Rules)

    def better_of(self, benchmark: str) -> Better | None:
        """Return which values of a benchmark are better. None: the section does not say it."""
        return next((better for pattern, better in self.better.items() if fnmatchcase(benchmark, pattern)), None)

    @property
    def command(self) -> str:
        """Return the shell command that builds into {out}. "" where the section has neither a command nor files."""
        return self.build or (f"cp -R -- {shlex.join(self.built_from)} {OUT}/" if self.built_from else "")

    def build_command(self, out: Path) -> str:
        """Return the shell command that builds a checkout into a folder.

        Raises:
            UsageError: the section has neither a command nor files.
        """
        if not self.command:
            raise UsageError(
                f"nothing says how to build a commit: fill in build, or the files of built-from, in {OWN_FILE} or in "
                f"[tool.{SECTION}] of {PROJECT_FILE}; `kv init` writes that file where there is none"
            )
        return self.command.replace(OUT, shlex.quote(str(out)))

    def sources_of(self, kernel: str) -> tuple[str, ...]:
        """Return the files and folders that hold the source of a kernel."""
        named = self.kernels.get(kernel, OfKernel()).sources
        patterns = self.sources if named is None else named
        return tuple(pattern.replace("{kernel}", kernel).rstrip("/") for pattern in patterns)

    def owners(self, kernels: Iterable[str]) -> Callable[[str], Collection[str]]:
        """Return a function that names those of the kernels that a file of the repository is the source of."""
        names: dict[str, list[str]] = {}
        for kernel in kernels:
            for source in self.sources_of(kernel):
                names.setdefault(source, []).append(kernel)
        return lambda path: {name for above in _and_above(path) for name in names.get(above, ())}

    def symbols_of(self, kernel: str) -> tuple[str, ...]:
        """Return the functions of a kernel, as "library:function"."""
        return self.kernels.get(kernel, OfKernel()).symbols

    def builds_from(self, path: str) -> bool:
        """Return whether a build depends on a file of the repository."""
        return not self.built_from or any(above in self.built_from for above in _and_above(path))


def _and_above(path: str) -> tuple[str, ...]:
    """Return a path and the folders above it."""
    return (path, *map(str, PurePosixPath(path).parents))


def check(root: Path) -> None:
    """Raise a UsageError if a folder has no asv.conf.json."""
    if not (root / NAME).is_file():
        raise UsageError(
            f"{root.absolute()}: no {NAME} here; run this in the repository, or give --root; `kv init` writes one"
        )


def asv_settings(root: Path) -> dict[str, Any]:
    """Return the settings in asv.conf.json, {} where there is none.

    Raises:
        UsageError: it is no JSON, or a setting of asv is of another type.
    """
    path = root / NAME
    if not path.is_file():
        return {}
    try:
        text = documents.text_of(path)
        settings: Any = json5.loads(text, object_pairs_hook=documents.without_duplicates)
        json.dumps(settings, ensure_ascii=False).encode("utf-8")  # no half of a surrogate pair
    except UnicodeEncodeError:
        raise UsageError(f"{path}: a text has half of a surrogate pair") from None
    except RecursionError:
        raise UsageError(f"{path}: nested too deeply: no settings of asv") from None
    except ValueError as error:
        raise UsageError(f"{path}: {' '.join(str(error).split())}") from None
    if not isinstance(settings, dict):
        raise UsageError(f"{path}: an object of settings is wanted, got {repr(settings)[:60]}")
    for name, value in settings.items():
        _check_setting(path, name, value)
    if settings.get("version", 1) != 1:
        raise UsageError(f'{path}: "version": 1 is wanted, got {repr(settings.get("version"))[:60]}')
    return settings


def _check_setting(path: Path, name: str, value: Any) -> None:
    """Raise a UsageError unless a setting is one of asv's and has its type. Settings of plugins pass."""
    if name not in _SETTINGS:
        if meant := difflib.get_close_matches(name, _SETTINGS, n=1, cutoff=ALIKE):
            raise UsageError(f"{path}: {name!r} is no setting of asv: {meant[0]} is wanted")
    elif not _SETTINGS[name].holds(value):
        raise UsageError(f"{path}: {name}: {_SETTINGS[name].wanted} is wanted, got {repr(value)[:60]}")


def suite(root: Path) -> Suite:
    """Return the suite in the folder that `benchmark_dir` names.

    Raises:
        UsageError: asv.conf.json is missing or malformed, or the folder is missing.
    """
    check(root)
    name: str = asv_settings(root).get("benchmark_dir", "benchmarks")  # asv's default
    if not (root / name).is_dir():
        lacking = (
            "it is a file" if (root / name).exists() else "there is none; make it, or let `kv init` write an example"
        )
        raise UsageError(f"{root / NAME}: benchmark_dir: a folder is wanted, got {name!r}: {lacking}")
    from kernel_velocity.suite.suite import Suite  # noqa: PLC0415 - a report needs none of what measures

    return Suite((root / name).resolve())


def results_dir(root: Path) -> str:
    """Return the folder of results that asv.conf.json names, "results" where it names none: asv's default."""
    return str(asv_settings(root).get("results_dir", "results"))


def project(root: Path) -> Project:
    """Return what the section of a repository says. Without a section, every setting has its default.

    Raises:
        UsageError: the file is no TOML, or a setting is unknown or of another type.
    """
    own_file, shared = root / OWN_FILE, root / PROJECT_FILE
    path = own_file if own_file.is_file() else shared
    if not path.is_file():
        return Project()
    section: Any = toml(path)
    if path != own_file:
        tools = section.get("tool", {})
        section = tools.get(SECTION, {}) if isinstance(tools, dict) else tools
    try:
        where = path if path == own_file else f"{path}, tool.{SECTION}"
        project = fields.parse(Project, section, where)
    except ResultsError as error:
        raise UsageError(str(error)) from None
    return replace(project, built_from=tuple(name.rstrip("/") for name in project.built_from))


def toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file.

    Raises:
        UsageError: it is no TOML.
    """
    try:
        return tomllib.loads(documents.text_of(path))
    except RecursionError:
        raise UsageError(f"{path}: no TOML: nested too deeply") from None
    except ValueError as error:  # not UTF-8, no TOML, or a whole number of thousands of digits
        raise UsageError(f"{path}: {error}") from None
