"""`HostTorch`: asv's environment of one commit, which switches commits in milliseconds.

PyTorch is gigabytes and takes minutes to install, so it is never installed here. The environment is a bare `venv` of
the running interpreter that sees the host's packages through one path file. The file's first line is the folder with
what the commit's build made. Then come the folder of this package, whose engine measures, and the host's site folders.
Python puts them on `sys.path` in this order, so the commit's package wins over a copy that the host may have.
Installing another commit rewrites the first line. Measuring processes find the folder in KV_ARTEFACTS, too.

Every commit is built once, by the command of the section (config.py), into asv's build cache inside the environment's
folder. Wheels are unpacked there. A commit that changed nothing that a build depends on takes the build of one that is
built: links to its files. A failed build is recorded
(`asv-build-failed/<commit>`), and its error is repeated instead of the build. A build that is made again with other
compilers is set aside (`asv-build-before/<commit>`), and restored if the new one fails.

Where no GPU's driver is, nothing times CUDA code. `kv track` then builds with KV_CUDA=OFF what it times, and compiles
the CUDA code only for its figures: `compile_cuda`, of whose build the build-info.json alone is left. Such a build is
another code than the whole one, so its code hashes have a scheme of their own ("cpu:").

asv's documented extension point: a subclass of `asv.environment.Environment` with a `tool_name`, loaded by the
`plugins` entry of asv.conf.json.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
import venv
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

from asv import util
from asv.console import log
from asv.environment import Environment, EnvironmentUnavailable

from kernel_velocity import documents, lock
from kernel_velocity.engine.spool import append_line, spool_path
from kernel_velocity.errors import UsageError
from kernel_velocity.files import naming, replace_text, replacement
from kernel_velocity.processes import variable
from kernel_velocity.results import sessions
from kernel_velocity.runner import code_identity, fingerprint
from kernel_velocity.runner.host import (
    NO_COMPILER,
    has_compiler,
    has_driver,
    host_site_folders,
    lines_of_path_files,
    measuring_command,
    measuring_variables,
    torch_version,
)
from kernel_velocity.suite import config
from kernel_velocity.suite.under_test import ARTEFACTS, WHOLE, WHOLE_INFO, find_info, with_cuda

PATH_FILE = "kernel-velocity.pth"
# Of a path file: who asks Python for its site folders gets the host's, too. NVIDIA's packages look for each other's
# libraries there (cuda-pathfinder). Python itself, which would read path files of editable installs, asks otherwise.
_LISTED = "import site; site.getsitepackages = (lambda of: lambda *a: of(*a) + ([] if a else {}))(site.getsitepackages)"
OURS = Path(__file__).resolve().parents[2]  # the folder that this package is imported from, in a checkout or installed
FAILED_FOLDER = "asv-build-failed"
BACKUP_FOLDER = "asv-build-before"  # outside asv's cache, which removes what has no time stamp after every build
TOOLCHAIN_FILE = "toolchain.txt"  # beside a build: `fingerprint.toolchain` of its build
COMMAND_FILE = "command.txt"  # beside a build: the section's command
INFO_FILE = "build-info.crc"  # beside a build: the checksum of its build-info.json, whose figures are recorded
FILES = "files.crc"  # beside a build: the checksum and the name of each of its files
CPU_PART = "; without CUDA code"  # ends the toolchain of a build whose CUDA code was left out
CUDA = "-cuda"  # part of a build: what was left out, in names of files
CPU_SCHEME = "cpu:"  # begins the code hashes of such a build, which say nothing of the CUDA code
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# The cause of a failed build, most specific pattern first. pip's own "error: ..." lines only say that it failed.
_CAUSES = (
    re.compile(r"^\S+:\d+(:\d+)?: (fatal )?error: "),  # GCC and Clang
    re.compile(r"\): (fatal )?error( #?\w+)?: "),  # nvcc
    re.compile(r"^CMake Error"),
    re.compile(r"(?<!^)\berror\b", re.IGNORECASE),
)
# The machine's fault, or somebody's who killed it: the commit is built again by the next run
_CUT_OFF = re.compile(
    r"^.*(No space left on device|Disk quota exceeded|File too large|Read-only file system|\bKilled\b).*$", re.MULTILINE
)
_NO_COMPILER_FOUND = re.compile(r"No CMAKE_CXX_COMPILER could be found|CMAKE_CXX_COMPILER not set")


_write_json = util.write_json


def _replace_json(path: str, *args: Any, **kwargs: Any) -> None:
    """Write a file as asv does, but whole or not at all: a full disk, or a kill, would leave a half one for ever."""
    with replacement(Path(path)) as temporary:
        _write_json(str(temporary), *args, **kwargs)


util.write_json = _replace_json  # what this module is imported for begins with it, in asv and in our commands


def first_error_line(log_text: str) -> str:
    """Return the line of a build's log that names the cause: the compiler's first error, else the last line."""
    lines = [line.strip() for line in log_text.splitlines() if line.strip()]
    for cause in _CAUSES:
        for number, line in enumerate(lines):
            if cause.search(line):  # CMake breaks its sentences: "CMake Error at ...:" and the text on the next line
                return " ".join(lines[number : number + 2]) if line.endswith(":") else line
    return lines[-1] if lines else "the build printed nothing"


def _link(source: str, target: str) -> None:
    """Make a file a second name of another, or its copy where the file system has no such links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _checksum(path: Path | None) -> str:
    return "none" if path is None else f"{zlib.crc32(path.read_bytes()):08x}"


def _files(build: Path) -> list[str]:
    """Return the checksum and the name of each file of a build, without what Python compiles there when it runs."""
    files = (path for path in sorted(build.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    return [f"{_checksum(path)} {path.relative_to(build).as_posix()}" for path in files]


def _leave_only_cpu(info: Path) -> bool:
    """Say in a build-info.json that its code hashes are of code for the CPU. Return whether it has no other.

    False too for a build that does not say for which CUDA architectures it has code, so that KV_CUDA may mean nothing.
    """
    try:
        facts = documents.read(info)
        if facts.get("cuda_architectures") != []:
            return False
        for entry in facts["kernels"].values():
            entry["code_hash"] = f"{CPU_SCHEME}{entry['code_hash']}"
    except (documents.DamagedError, LookupError, TypeError, AttributeError):
        return False
    replace_text(info, json.dumps(facts, indent=1, sort_keys=True) + "\n")
    return True


def _git_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of git's settings for checking out submodules of the current folder's repository."""
    listed = util.check_output(
        ["git", "config", "--null", "--get-regexp", r"^submodule\..*\.url$"],
        valid_return_codes=(0, 1),  # 1: there is none
        display_error=False,
        dots=False,
    )
    urls = (entry.partition("\n") for entry in listed.split("\0")[:-1])
    settings = {name: url for name, _, url in urls if not url.startswith("./") and not url.startswith("../")}
    settings["protocol.file.allow"] = "always"
    first = int(environ.get("GIT_CONFIG_COUNT") or 0)
    variables = {"GIT_CONFIG_COUNT": str(first + len(settings))}
    for number, (name, text) in enumerate(settings.items(), start=first):
        variables |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": text}
    return variables


def _python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def hold_locks() -> ExitStack | None:
    """Hold the locks of measuring, for an environment of asv. None: the run of kv that started asv holds them.

    Raises:
        asv.util.UserError: another run measures, or Ctrl-C ended the waiting.
    """
    try:
        return lock.take(Path.cwd())
    except UsageError as error:
        raise util.UserError(str(error)) from None
    except KeyboardInterrupt:
        if os.environ.get(lock.HOLDER):
            raise  # a run of kv, which holds the locks and did not wait here
        raise util.UserError("Interrupted.") from None


class CommitNotBuilt(util.ProcessError):  # type: ignore[misc]  # asv ships no types
    """A commit could not be built. asv takes a `ProcessError` for a failed build."""

    def __init__(self, commit: str, reason: str, log_path: Path) -> None:
        super().__init__(["build", commit], 1, "", reason)
        self.commit, self.reason, self.log_path = commit, reason, log_path

    def __str__(self) -> str:
        return f"commit {self.commit[:8]} does not build: {self.reason} (log: {self.log_path})"


class HostTorch(Environment):  # type: ignore[misc]  # asv ships no types
    """A bare virtual environment of the running interpreter that sees the host's packages, torch among them.

    Its name holds the versions of Python and torch, so that two torch versions never share a series.
    """

    tool_name = "host"  # the first part of the name of every recorded environment; it can never change
    matches_python_fallback = False
    leaves_cuda = False  # whether a build leaves its CUDA code to `compile_cuda`

    def __init__(self, conf: Any, python: str, requirements: dict[str, str], tagged_env_vars: Any) -> None:
        """Make asv's object of the environment.

        Raises:
            EnvironmentUnavailable: `python` is not the running version, torch is missing, or a setting is malformed.
        """
        if not self.matches(python):
            raise EnvironmentUnavailable(
                f"environment type '{self.tool_name}' offers {_python()} only, got python {python}"
            )
        if set(":\r\n").intersection(str(Path.cwd())):
            wanted = (
                "a path without colons and line breaks is wanted: Python and git have none such; move the repository"
            )
            raise EnvironmentUnavailable(f"{str(Path.cwd())!r}: {wanted}")
        torch = torch_version()
        if torch is None:
            raise EnvironmentUnavailable(f"torch is not installed for {sys.executable}: install it, or run `make venv`")
        self._python = python
        self._requirements = {**requirements, "torch": torch}
        try:
            self._measuring = measuring_variables(os.environ.get("KV_THREADS") or None)
            self._section = config.project(Path())
        except UsageError as error:
            raise EnvironmentUnavailable(str(error)) from None
        super().__init__(conf, python, self._requirements, tagged_env_vars)
        self._logs = Path.cwd() / ".asv" / "logs"
        self._lock: ExitStack | None = None  # held until the process ends
        self._began = time.time()
        self._noted: set[str] = set()  # commits with the machine's facts in the spool

    @classmethod
    def matches(cls, python: str) -> bool:
        """Return whether `python`, such as "3.11", is the running version."""
        return bool(python == _python())

    @property
    def folder(self) -> Path:
        """The environment's folder, which holds everything that its processes may import of a commit."""
        return Path(self._path)

    def create(self) -> None:
        """Make the environment if it is missing, and link it to the host's current packages.

        Raises:
            asv.util.UserError: `hold_locks`.
        """
        self._lock = self._lock or hold_locks()
        if not self.check_presence():
            self._setup()
        self.save_info_file(self._path)
        self._link(self._get_installed_commit_hash())

    def check_presence(self) -> bool:
        """Return whether the environment exists, with the host's interpreter. asv's own check requires a pip too."""
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
        """Return the folder with what a commit's build made."""
        return Path(self._cache._get_cache_dir(commit)[0]) / "unpacked"

    def _link(self, commit: str | None) -> None:
        """Write the path file: what a commit's build made unless None, this package, the host's packages."""
        build, folders = [] if commit is None else [self.unpacked(commit)], host_site_folders(sys.path)
        listing = _LISTED.format(list(map(str, folders)))
        of_wheels = chain.from_iterable(map(lines_of_path_files, folders))
        lines = dict.fromkeys([*build, OURS, *folders, listing, *of_wheels])
        replace_text(self._path_file(), "".join(f"{line}\n" for line in lines))

    def run(self, args: list[str], **kwargs: Any) -> Any:
        """Run the environment's Python as a measuring process."""
        commit = self._get_installed_commit_hash()
        built = {} if commit is None else {ARTEFACTS: str(self.unpacked(commit))}
        kwargs["env"] = {**kwargs.get("env", os.environ), **self._measuring, **built}
        return self.run_executable("python", measuring_command(args), **kwargs)

    def checkout_project(self, repo: Any, commit_hash: str) -> None:
        """Check out a commit with its submodules, each from the address that the user's clone has it from.

        asv clones the user's clone. Then an address relative to the repository's would name a folder beside that
        clone, and git would refuse a submodule in a folder in asv's first checkout, though not in later ones.
        """
        with ExitStack() as variables:
            for name, text in _git_settings(os.environ).items():
                variables.enter_context(variable(name, text))
            super().checkout_project(repo, commit_hash)

    def install_project(self, conf: Any, repo: Any, commit_hash: str) -> None:
        """Make the environment import a commit, which is built first if it was never built.

        Raises:
            CommitNotBuilt: the build fails, or failed before.
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
        """Write the machine's facts to the spool, once a run and commit. A/B rounds (KV_SPOOL) are no history."""
        if commit not in self._noted and not os.environ.get("KV_SPOOL"):
            self._noted.add(commit)
            facts = fingerprint.session(self._began, self.unpacked(commit), os.environ)
            append_line(sessions.spool_path(Path.cwd(), self.name, commit), sessions.encode(facts))

    def _get_installed_commit_hash(self) -> str | None:
        """Return asv's record of the commit that the environment imports. None where it is damaged."""
        try:
            commit = super()._get_installed_commit_hash()
        except (ValueError, TypeError, AttributeError, RecursionError):
            return None
        return commit if isinstance(commit, str) and _SHA.fullmatch(commit) else None

    @property
    def installed_commit_hash(self) -> str | None:
        """The commit that the environment imports. None after its build was removed."""
        commit: str | None = self._get_installed_commit_hash()
        return commit if commit is not None and self.is_built(commit) else None

    def leave_cuda(self) -> None:
        """Leave CUDA code out of what is built from now on, if nothing here could run it and KV_CUDA does not say."""
        self.leaves_cuda = not (has_driver() or os.environ.get("KV_CUDA") or fingerprint.nvcc(os.environ) is None)

    def is_built(self, commit: str) -> bool:
        """Return whether the commit's build is in the build cache, and its build-info.json as it was written.

        One without its CUDA code counts where that is left out, and for the processes of a run, which looked itself.
        """
        build = self.unpacked(commit)
        if self._cache.get_cache_dir(commit) is None or not build.is_dir():
            return False
        if not (self.leaves_cuda or lock.belongs_to_a_run()) and self._lacks_cuda(commit):
            return False
        checksum = build.with_name(INFO_FILE)
        return not checksum.exists() or checksum.read_bytes() == _checksum(find_info(build)).encode()

    def forget_changed(self, commits: Sequence[str]) -> list[str]:
        """Remove builds of which a file was changed since they were made: what they run is not what they say.

        A disk did it, or code that writes beside itself. That changes all builds that share the file.

        Returns:
            their commits.
        """
        changed = [commit for commit in commits if self.is_built(commit) and not self._is_intact(commit)]
        for commit in changed:
            self.forget_build(commit)
        return changed

    def _is_intact(self, commit: str) -> bool:
        """Return whether the files of a build are as they were made. True too where an earlier version made them."""
        build = self.unpacked(commit)
        listed = build.with_name(FILES)
        return not listed.exists() or {*listed.read_text("utf-8", "replace").split("\n")[:-1]} <= {*_files(build)}

    def _toolchain_of(self, commit: str) -> str:
        """Return the toolchain that built a commit. "": unknown."""
        path = self.unpacked(commit).with_name(TOOLCHAIN_FILE)
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def _lacks_cuda(self, commit: str) -> bool:
        return self._toolchain_of(commit).endswith(CPU_PART)

    def _figures(self, commit: str) -> Path | None:
        """Return the build-info.json of a built commit with its CUDA code. None: that was left out, or is damaged."""
        build = self.unpacked(commit)
        if not self._lacks_cuda(commit):
            return find_info(build)
        info, checksum = build.with_name(WHOLE_INFO), build.with_name(f"{WHOLE_INFO}.crc")
        is_whole = info.exists() and checksum.exists() and checksum.read_bytes() == _checksum(info).encode()
        return info if is_whole and with_cuda(build) != build else None  # older versions kept no more than it

    def lacks_figures(self, commit: str) -> bool:
        """Return whether a built commit has no figures of its CUDA code, because that was left out."""
        return self._lacks_cuda(commit) and self._figures(commit) is None

    def build(self, repo: Any, commit: str) -> str | None:
        """Build a commit in the build cache, or take the build of another one that it would repeat.

        Returns:
            the other one. None: the commit was built.

        Raises:
            CommitNotBuilt: with the compiler's first error and the path of the log.
        """
        # Note: tried to build several commits beside each other, in checkouts of their own. Left, because code that
        # names its folder, as gcc's assert does, has another code hash in each. Tried ccache 4.14: .41 of the processor
        # time of the next commit's CPU build (7.7 of 18.9 s, a twelfth of what a commit takes), none of nvcc's. It
        # needs a base folder, which changes such names too.
        self._begin(commit)
        toolchain = fingerprint.toolchain(os.environ, self._section)
        for twin in self._twins(commit, toolchain):
            if (self.leaves_cuda or not self._lacks_cuda(twin)) and not self._names_itself(twin):
                cache = Path(self._cache.create_cache_dir(commit))
                copied = self.unpacked(twin).parent
                shutil.copytree(copied, cache, symlinks=True, copy_function=_link, dirs_exist_ok=True)
                self._cache.finalize_cache_dir(commit)
                return twin
        self._check_out(repo, commit)
        cache = self._cache.create_cache_dir(commit)
        self._set_build_dirs(self._build_root, cache)
        out = self.unpacked(commit)
        self._make(commit, out, {"KV_CUDA": "OFF"} if self.leaves_cuda else {})
        named = (
            kernel for kernel in self._section.kernels if self._section.symbols_of(kernel)
        )  # with a benchmark or not
        code_identity.write_code_hashes(
            out, self._section, dict.fromkeys((*config.suite(Path.cwd()).modules(), *named))
        )
        info = find_info(out)
        if self.leaves_cuda and info is not None and _leave_only_cpu(info):
            toolchain += CPU_PART
        replace_text(Path(cache, TOOLCHAIN_FILE), toolchain)
        replace_text(Path(cache, COMMAND_FILE), self._command)
        replace_text(Path(cache, INFO_FILE), _checksum(info))
        replace_text(Path(cache, FILES), "".join(f"{line}\n" for line in _files(out)))
        self._cache.finalize_cache_dir(commit)
        return None

    def compile_cuda(self, repo: Any, commit: str) -> str | None:
        """Keep a build of a built commit's CUDA code, which was left out, for figures: another one of the same files.

        Returns:
            the commit that has such a build. None: this one was built again, with its CUDA code.

        Raises:
            CommitNotBuilt: with the compiler's first error and the path of the log.
        """
        self._begin(commit, CUDA)
        twins = self._twins(commit, fingerprint.toolchain(os.environ, self._section))
        twin, info = next(((other, path) for other in twins if (path := self._figures(other))), (None, None))
        whole = self.unpacked(commit).with_name(WHOLE)
        shutil.rmtree(whole, ignore_errors=True)
        try:
            if info is None or twin is None:
                self._check_out(repo, commit, CUDA)
                self._make(commit, whole, {}, CUDA)
                info = find_info(whole)
            else:
                shutil.copytree(with_cuda(self.unpacked(twin)), whole, symlinks=True, copy_function=_link)
            if info is not None:
                text = info.read_text(encoding="utf-8")
                replace_text(whole.with_name(WHOLE_INFO), text)
                replace_text(whole.with_name(f"{WHOLE_INFO}.crc"), _checksum(whole.with_name(WHOLE_INFO)))
        except BaseException:
            shutil.rmtree(whole, ignore_errors=True)
            raise
        return twin

    def _begin(self, commit: str, part: str = "") -> None:
        """Begin to build a commit, or a part of it: nothing is installed meanwhile. Repeat the error of one before."""
        path = self._failure_path(commit + part)
        if path.exists():
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            reason = lines[0] if lines else "its record is empty; `kv track --again 1` tries it again"
            raise self._announced(CommitNotBuilt(commit, reason, self._log_path(commit, part)))
        self._set_installed_commit_hash(None)
        self._link(None)  # the build must not see another commit's package

    def _check_out(self, repo: Any, commit: str, part: str = "") -> None:
        try:
            self.checkout_project(repo, commit)
        except util.ProcessError as error:  # an unavailable submodule, a full disk: not the commit's fault
            log_path = self._log_path(commit, part)
            replace_text(log_path, f"{error.stdout}\n{error.stderr}\n")
            reason = f"it cannot be checked out: {first_error_line(error.stderr or str(error))}"
            raise self._announced(CommitNotBuilt(commit, reason, log_path)) from None

    def _make(self, commit: str, out: Path, settings: Mapping[str, str], part: str = "") -> None:
        """Make what the checkout builds in a new folder.

        Args:
            settings: variables for the command. part: of the build, for the names of its log and of its failure.
        """
        out.mkdir()
        output, status = self._run_build(out, settings)
        if status == 0 and not any(out.iterdir()):
            output, status = f"{output}\nerror: the build leaves nothing in {config.OUT}: {self._section.build}\n", 1
        log_path = self._log_path(commit, part)
        replace_text(log_path, output)
        if status != 0:
            self._remember_failure(commit, output, log_path, part, is_cut_off=status < 0)
        for path in sorted(out.glob("*.whl")):
            with naming(out), zipfile.ZipFile(path) as wheel:
                wheel.extractall(out)
            path.unlink()

    def _log_path(self, commit: str, part: str) -> Path:
        return self._logs / f"build-{commit[:8]}{part}.log"

    @property
    def _command(self) -> str:
        """The command of the section, whatever folder it builds into."""
        return self._section.build_command(Path(config.OUT))

    def _twins(self, commit: str, toolchain: str) -> Iterator[str]:
        """Yield the built commits with the same files to build as a commit, by the same command and toolchain."""
        from kernel_velocity.results import git  # noqa: PLC0415 - GitPython takes a sixth of each start of asv

        for other in filter(_SHA.fullmatch, self._cache._get_cache_contents()):
            command = self.unpacked(other).with_name(COMMAND_FILE)
            if (
                self.is_built(other)
                and self._toolchain_of(other).removesuffix(CPU_PART) == toolchain
                and command.is_file()
                and command.read_bytes() == self._command.encode()
                and git.is_same(Path.cwd(), other, commit, self._section.built_from)
                and self._is_intact(other)
            ):
                yield str(other)

    def _names_itself(self, commit: str) -> bool:
        """Return whether a commit's build names its own folder, which the cache may remove."""
        build = self.unpacked(commit)
        return any(os.fsencode(build) in path.read_bytes() for path in build.rglob("*") if path.is_file())

    def _run_build(self, out: Path, settings: Mapping[str, str]) -> tuple[str, int]:
        """Run the build command in the checkout, the environment's programs first. Return its output and status."""
        try:
            command = self._section.build_command(out)
        except UsageError as error:
            raise util.UserError(str(error)) from None
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        programs = f"{self.folder / 'bin'}{os.pathsep}{variables.get('PATH', os.defpath)}"
        output, _, status = util.check_output(
            ["/bin/sh", "-c", command],
            env={**variables, **self.build_env_vars, **settings, "PATH": programs, "PIP_USER": "false"},
            cwd=self._build_root,
            timeout=self._install_timeout,
            display_error=False,
            dots=False,
            return_stderr=True,
            redirect_stderr=True,
            valid_return_codes=None,
        )
        return output, status

    def _failure_path(self, build: str) -> Path:
        """Return where the failure of a commit's build is recorded, or of a part of one: "<commit>-cuda"."""
        return self.folder / FAILED_FOLDER / build

    def _remember_failure(
        self, commit: str, output: str, log_path: Path, part: str = "", *, is_cut_off: bool = False
    ) -> None:
        """Raise the error of a failed build. Record it unless it was killed, or lacks a compiler or room."""
        if _NO_COMPILER_FOUND.search(output) or not has_compiler():
            reason = NO_COMPILER
        elif line := _CUT_OFF.search(output):
            reason = line[0].strip()
        elif odd := sorted(set(";|").intersection(str(Path.cwd()))):
            why = f"the path of this repository has {' and '.join(odd)}, which CMake takes for its own: move it"
            reason = f"{first_error_line(output)}; {why}"
        elif is_cut_off:
            reason = "it was killed"
        else:
            reason = first_error_line(output)
            replace_text(self._failure_path(commit + part), f"{reason}\n")
        raise self._announced(CommitNotBuilt(commit, reason, log_path))

    def _announced(self, error: CommitNotBuilt) -> CommitNotBuilt:
        """Log an error, and touch the commit's spool: asv now writes nulls for its values, which ingest restores."""
        log.error(str(error))
        spool = spool_path(Path.cwd(), self.name, error.commit)
        spool.parent.mkdir(parents=True, exist_ok=True)
        spool.touch()
        return error

    def other_toolchain(self, commit: str) -> str | None:
        """Return the toolchain that built a commit, "" for unknown, where it differs from today's. Else None.

        Also None where the commit is not built, or there is no compiler to build it again.
        """
        if not self.is_built(commit) or not has_compiler():
            return None
        toolchain = self._toolchain_of(commit).removesuffix(CPU_PART)
        return None if toolchain == fingerprint.toolchain(os.environ, self._section) else toolchain

    def set_build_aside(self, commit: str) -> None:
        """Move a commit's build out of the cache, so that it is built again. `settle_build` must follow."""
        backup = self._backup_path(commit)
        backup.parent.mkdir(parents=True, exist_ok=True)
        self.unpacked(commit).parent.rename(backup)
        self.forget_build(commit)  # its time stamp

    def settle_build(self, commit: str) -> bool:
        """Restore a commit's build that was set aside if no new one exists, else remove it.

        Returns:
            whether it was restored.
        """
        backup = self._backup_path(commit)
        if not backup.is_dir():
            return False
        if self.is_built(commit):
            shutil.rmtree(backup)
            return False
        self.forget_build(commit)  # the remains of the failed one
        build = self.unpacked(commit).parent
        build.parent.mkdir(parents=True, exist_ok=True)
        # asv's time stamp, before the folder: an interruption in between leaves no build that asv takes for half made
        build.with_name(f"{build.name}.timestamp").touch()
        backup.rename(build)
        return True

    def _backup_path(self, commit: str) -> Path:
        return self.folder / BACKUP_FOLDER / commit

    def forget_build(self, commit: str) -> None:
        """Remove a commit's wheel from the cache, so that it is built again."""
        self._cache._remove_cache_dir(commit)

    def failed_before(self, commit: str) -> bool:
        """Return whether a failed build of a commit is recorded."""
        return self._failure_path(commit).exists()

    def forget_failures(self, commits: Sequence[str]) -> None:
        """Remove the records of failed builds, so that these commits are built again."""
        for commit in commits:
            for build in (commit, commit + CUDA):
                self._failure_path(build).unlink(missing_ok=True)
