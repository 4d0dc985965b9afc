"""`HostTorch`: asv's environment of one commit, light enough to switch commits in milliseconds.

PyTorch is gigabytes and takes minutes to install, so it is never installed here: the environment is a bare `venv` of
the running interpreter that sees the host's packages. One path file does it all. Its first line is the unpacked wheel
of the commit under test, the rest are the folder of this package, whose harness measures, and the host's site folders;
Python puts them on `sys.path` in this order, so the commit's `kernels` always wins over a copy that the host may have.
Installing another commit rewrites that one line.

Every commit is built once, into asv's build cache inside the environment's folder. A commit that cannot be
built is remembered (`asv-build-failed/<commit>`), and its complaint repeated instead of its build.

Documented doors of asv used here: a subclass of `asv.environment.Environment` with a `tool_name`, loaded by
the `plugins` entry of asv.conf.json.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
import venv
import zipfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from asv import util
from asv.console import log
from asv.environment import Environment, EnvironmentUnavailable

from kernel_velocity import lock
from kernel_velocity.errors import UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.harness.spool import append_line, spool_path
from kernel_velocity.results import sessions
from kernel_velocity.runner import build_info, fingerprint
from kernel_velocity.runner.host import NO_COMPILER, has_compiler, host_site_folders, measuring_variables, torch_version

PATH_FILE = "kernel-velocity.pth"
OURS = Path(__file__).resolve().parents[2]  # the folder that this package is imported from, in a checkout or installed
FAILED_FOLDER = "asv-build-failed"
TOOLCHAIN_FILE = "toolchain.txt"  # beside a wheel: what it was built with
LOG_TAIL = 40  # lines of a build's log kept with its failure
# What names the cause of a failed build, the most telling first. pip's own "error: ..." lines only say that it failed.
_CAUSES = (
    re.compile(r"^\S+:\d+(:\d+)?: (fatal )?error: "),  # GCC and Clang
    re.compile(r"\): (fatal )?error( #?\w+)?: "),  # nvcc
    re.compile(r"^CMake Error"),
    re.compile(r"(?<!^)\berror\b", re.IGNORECASE),
)
_NO_COMPILER_FOUND = re.compile(r"No CMAKE_CXX_COMPILER could be found|CMAKE_CXX_COMPILER not set")


def first_error_line(log_text: str) -> str:
    """Return the line of a build's log that names the cause: the compiler's first error, else the last line."""
    lines = [line.strip() for line in log_text.splitlines() if line.strip()]
    for cause in _CAUSES:
        for place, line in enumerate(lines):
            if cause.search(line):  # CMake breaks its sentences: "CMake Error at ...:" and the text on the next line
                return " ".join(lines[place : place + 2]) if line.endswith(":") else line
    return lines[-1] if lines else "the build printed nothing"


def _python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


class CommitNotBuilt(util.ProcessError):  # type: ignore[misc]  # asv ships no types
    """A commit's wheel could not be built: a `ProcessError`, because asv takes that for a failed build."""

    def __init__(self, commit: str, reason: str, log_path: Path) -> None:
        super().__init__(["build", commit], 1, "", reason)
        self.commit, self.reason, self.log_path = commit, reason, log_path

    def __str__(self) -> str:
        return f"commit {self.commit[:8]} does not build: {self.reason} (log: {self.log_path})"


class HostTorch(Environment):  # type: ignore[misc]  # asv ships no types
    """A bare virtual environment of the running interpreter that sees the host's packages, torch among them.

    Its name holds the versions of Python and of torch, so that two torch versions never fall into one series.
    """

    tool_name = "host"  # begins the name of every stored environment, for ever
    matches_python_fallback = False

    def __init__(self, conf: Any, python: str, requirements: dict[str, str], tagged_env_vars: Any) -> None:
        """Take what asv gives every environment.

        Raises:
            EnvironmentUnavailable: another Python than the running one is asked for, or it has no torch.
        """
        if not self.matches(python):
            raise EnvironmentUnavailable(
                f"environment type '{self.tool_name}' offers {_python()} only, got python {python}"
            )
        torch = torch_version()
        if torch is None:
            raise EnvironmentUnavailable(f"torch is not installed for {sys.executable}: install it, or run `make venv`")
        self._python = python
        self._requirements = {**requirements, "torch": torch}
        try:
            self._measuring = measuring_variables(os.environ.get("KV_THREADS") or None)
        except UsageError as error:
            raise EnvironmentUnavailable(str(error)) from None
        super().__init__(conf, python, self._requirements, tagged_env_vars)
        self._logs = Path.cwd() / ".asv" / "logs"
        self._lock: ExitStack | None = None  # held until the process ends
        self._began = time.time()
        self._noted: set[str] = set()  # commits of which the spool says what the machine is

    @classmethod
    def matches(cls, python: str) -> bool:
        """Return whether this environment can offer that Python: the running one, as "3.11"."""
        return bool(python == _python())

    @property
    def folder(self) -> Path:
        """The environment's folder: everything that its processes may import of a commit lies below it."""
        return Path(self._path)

    def create(self) -> None:
        """Make the environment if it is not there, and point it at today's packages of the host.

        Raises:
            asv.util.UserError: another run is measuring in this clone.
        """
        try:
            self._lock = self._lock or lock.take(Path.cwd())
        except UsageError as error:
            raise util.UserError(str(error)) from None
        if not self.check_presence():
            self._setup()
        self.save_info_file(self._path)
        self._link(self._get_installed_commit_hash())

    def check_presence(self) -> bool:
        """Return whether the environment is there, with the host's interpreter (asv's own check wants a pip too)."""
        python = self.folder / "bin" / "python"
        return (
            python.exists() and python.resolve() == Path(sys.executable).resolve() and self._path_file().parent.is_dir()
        )

    def _setup(self) -> None:
        # The build cache, in the same folder, outlives a change of interpreter: wheels serve any Python.
        for name in ("bin", "lib", "include"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        log.info(f"Creating environment {self.name}")
        venv.EnvBuilder(symlinks=True, with_pip=False).create(self.folder)

    def _path_file(self) -> Path:
        return self.folder / "lib" / f"python{_python()}" / "site-packages" / PATH_FILE

    def unpacked(self, commit: str) -> Path:
        """Return the folder of a built commit's unpacked wheel."""
        return Path(self._cache._get_cache_dir(commit)[0]) / "unpacked"

    def _link(self, commit: str | None) -> None:
        """Point the environment at a commit's unpacked wheel (None: at none), then at ours and the host's packages."""
        first = [] if commit is None else [self.unpacked(commit)]
        folders = dict.fromkeys([*first, OURS, *host_site_folders(sys.path)])
        replace_text(self._path_file(), "".join(f"{path}\n" for path in folders))

    def run(self, args: list[str], **kwargs: Any) -> Any:
        """Run the environment's Python as a measuring process."""
        kwargs["env"] = {**kwargs.get("env", os.environ), **self._measuring}
        return self.run_executable("python", args, **kwargs)

    def install_project(self, conf: Any, repo: Any, commit_hash: str) -> None:
        """Make a commit the one that the environment imports; it is built, or fails to build, only once.

        Raises:
            CommitNotBuilt: it cannot be built, or could not be when it was last tried.
        """
        del conf
        if not self.is_built(commit_hash):
            self.build(repo, commit_hash)
        if self._get_installed_commit_hash() != commit_hash:
            self._set_installed_commit_hash(None)  # an interruption between these lines leaves nothing installed
            self._link(commit_hash)
            self._set_installed_commit_hash(commit_hash)
        self._set_commit_hash(commit_hash)
        self._set_build_dirs(None, None)
        self._note_facts(commit_hash)

    def _note_facts(self, commit: str) -> None:
        """Leave in the spool what the machine is, once a run; an A/B session's rounds are no history's."""
        if commit not in self._noted and not os.environ.get("KV_SPOOL"):
            self._noted.add(commit)
            found = fingerprint.session(self._began, self.unpacked(commit), os.environ)
            append_line(sessions.spool_path(Path.cwd(), self.name, commit), sessions.encode(found))

    @property
    def installed_commit_hash(self) -> str | None:
        """The commit that the environment imports; None after its build was thrown away."""
        commit: str | None = self._get_installed_commit_hash()
        return commit if commit is not None and self.is_built(commit) else None

    def is_built(self, commit: str) -> bool:
        """Return whether the commit's wheel is in the build cache."""
        return self._cache.get_cache_dir(commit) is not None and self.unpacked(commit).is_dir()

    def build(self, repo: Any, commit: str) -> None:
        """Build a commit's wheel and unpack it in the build cache.

        Raises:
            CommitNotBuilt: with the compiler's first complaint, and where the log is.
        """
        log_path = self._logs / f"build-{commit[:8]}.log"
        self._complain_again(commit, log_path)
        self._set_installed_commit_hash(None)
        self._link(None)  # the build must not see another commit's package
        try:
            self.checkout_project(repo, commit)
        except util.ProcessError as error:  # a submodule that cannot be had, a full disk: not the commit's fault
            replace_text(log_path, f"{error.stdout}\n{error.stderr}\n")
            reason = f"it cannot be checked out: {first_error_line(error.stderr or str(error))}"
            raise self._announced(CommitNotBuilt(commit, reason, log_path)) from None
        cache = self._cache.create_cache_dir(commit)
        self._set_build_dirs(self._build_root, cache)
        output, status = self._run_build()
        replace_text(log_path, output)
        wheels = sorted(Path(cache).glob("*.whl"))
        if status != 0 or len(wheels) != 1:
            self._remember_failure(commit, output, log_path)
        with zipfile.ZipFile(wheels[0]) as wheel:
            wheel.extractall(self.unpacked(commit))
        replace_text(Path(cache, TOOLCHAIN_FILE), build_info.describe(os.environ))
        self._cache.finalize_cache_dir(commit)

    def _run_build(self) -> tuple[str, int]:
        """Run the build commands of asv.conf.json; return what they printed and the first status but 0."""
        printed = ""
        for command, variables, _, folder in self._interpolate_commands(self._build_command):
            output, _, status = self.run_executable(
                command[0],
                command[1:],
                env={**os.environ, **self.build_env_vars, **variables},
                cwd=folder or self._build_root,
                display_error=False,
                dots=False,
                return_stderr=True,
                redirect_stderr=True,
                valid_return_codes=None,
            )
            printed += output
            if status != 0:
                return printed, status
        return printed, 0

    def _failure_path(self, commit: str) -> Path:
        return self.folder / FAILED_FOLDER / commit

    def _complain_again(self, commit: str, log_path: Path) -> None:
        if self._failure_path(commit).exists():
            reason = self._failure_path(commit).read_text(encoding="utf-8").splitlines()[0]
            raise self._announced(CommitNotBuilt(commit, reason, log_path))

    def _remember_failure(self, commit: str, output: str, log_path: Path) -> None:
        """Raise the failure of a build, and note it unless it is the machine's and not the commit's."""
        if _NO_COMPILER_FOUND.search(output) or not has_compiler():
            reason = NO_COMPILER
        else:
            reason = first_error_line(output)
            tail = "\n".join(output.splitlines()[-LOG_TAIL:])
            replace_text(self._failure_path(commit), f"{reason}\n{tail}\n")
        raise self._announced(CommitNotBuilt(commit, reason, log_path))

    def _announced(self, error: CommitNotBuilt) -> CommitNotBuilt:
        """Print the one line, and have ingest look at this commit: asv now replaces all of its values by nulls."""
        log.error(str(error))
        spool_path(Path.cwd(), self.name, error.commit).parent.mkdir(parents=True, exist_ok=True)
        spool_path(Path.cwd(), self.name, error.commit).touch()
        return error

    def other_toolchain(self, commit: str) -> str | None:
        """Return what a commit in the build cache was built with, "" for unknown, if that is not what is here now.

        Without a compiler there is nothing to build it with again: None.
        """
        if not self.is_built(commit) or not has_compiler():
            return None
        path = self.unpacked(commit).with_name(TOOLCHAIN_FILE)
        then = path.read_text(encoding="utf-8") if path.exists() else ""
        return None if then == build_info.describe(os.environ) else then

    def failed_before(self, commit: str) -> bool:
        """Return whether a commit could not be built, by what is kept of it."""
        return self._failure_path(commit).exists()

    def forget_build(self, commit: str) -> None:
        """Let a commit be built again although its wheel is in the cache."""
        self._cache._remove_cache_dir(commit)

    def forget_failures(self, commits: Sequence[str]) -> None:
        """Let these commits be built again although they could not be built before."""
        for commit in commits:
            self._failure_path(commit).unlink(missing_ok=True)
