"""The host, asv's machine and environment, and builds that fail."""

import errno
import io
import json
import os
import platform
import re
import subprocess
import sys
import venv
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
from asv.build_cache import BuildCache
from asv.config import Config
from asv.machine import Machine, MachineCollection
from asv.repo import get_repo
from asv.util import UserError

from kernel_velocity.ab import session
from kernel_velocity.ab.session import AsvRunner
from kernel_velocity.counts import compiled
from kernel_velocity.errors import UsageError
from kernel_velocity.results import sessions
from kernel_velocity.runner import asv, environment, fingerprint, host
from kernel_velocity.runner.environment import CommitNotBuilt, HostTorch, first_error_line
from kernel_velocity.suite.config import Project
from kernel_velocity.suite.under_test import with_cuda
from tests.commands import git

ANY_FOLDER = ("-c", "protocol.file.allow=always")  # of git: submodules in folders
GXX = """
CMake Warning: nothing of interest
/tmp/x/matmul.cpp:3:10: error: expected ';' before '}' token
    3 | int f() {
/tmp/x/matmul.cpp:9:1: error: another one
  error: subprocess-exited-with-error
ERROR: Failed to build one or more wheels
"""
NVCC = 'building\n/x/matmul.cu(12): error: identifier "foo" is undefined\nERROR: Failed building wheel\n'
CMAKE = "-- configuring\nCMake Error at CMakeLists.txt:9 (message):\n  KV_CUDA=ON, but no nvcc\nerror: subprocess\n"


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (GXX, "/tmp/x/matmul.cpp:3:10: error: expected ';' before '}' token"),
        (NVCC, '/x/matmul.cu(12): error: identifier "foo" is undefined'),
        (CMAKE, "CMake Error at CMakeLists.txt:9 (message): KV_CUDA=ON, but no nvcc"),
        ("one\nNo module named pip\n\n", "No module named pip"),
        ("", "the build printed nothing"),
    ],
    ids=["g++", "nvcc", "cmake", "last", "nothing"],
)
def test_first_error_line_names_the_cause(log, line):
    assert first_error_line(log) == line


def test_files_of_asv_are_replaced_whole(tmp_path, monkeypatch):
    path = tmp_path / "machines.json"
    MachineCollection.save("box", {"cpu": "c"}, _path=str(path))
    before = path.read_text()

    def full(*_args, **_options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(json, "dump", full)
    with pytest.raises(OSError, match=r"No space left on device: .*machines.json"):
        MachineCollection.save("other", {}, _path=str(path))
    assert path.read_text() == before and list(tmp_path.iterdir()) == [path]


def test_host_site_folders_exist_in_order_without_duplicates(tmp_path):
    site, dist = tmp_path / "a" / "site-packages", tmp_path / "b" / "dist-packages"
    for folder in (site, dist, tmp_path / "checkout"):
        folder.mkdir(parents=True)
    paths = ["", str(tmp_path / "checkout"), str(dist), str(site), str(dist), str(tmp_path / "no" / "site-packages")]
    assert host.host_site_folders(paths) == (dist, site)


@pytest.mark.parametrize("threads", ["", "0", "²"])
def test_malformed_threads_are_refused(threads):
    with pytest.raises(UsageError, match="KV_THREADS"):
        host.measuring_variables(threads)


def test_allocator_keeps_freed_memory():
    """Without the settings, each of five 100 MB buffers costs a page fault per 4 KB (or per huge page)."""
    count = (
        "import ctypes, resource\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.malloc.restype = ctypes.c_void_p\n"
        "def touch():\n"
        "    block = libc.malloc(ctypes.c_size_t(100 << 20))\n"
        "    ctypes.memset(ctypes.c_void_p(block), 1, 100 << 20)\n"
        "    libc.free(ctypes.c_void_p(block))\n"
        "touch()\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "for _ in range(5): touch()\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)\n"
    )

    def faults(variables):
        done = subprocess.run(
            [sys.executable, "-c", count], env={**os.environ, **variables}, capture_output=True, check=True
        )
        return int(done.stdout)

    assert faults({}) > 100  # this machine has the problem
    assert faults(host.measuring_variables(None)) < 20


@pytest.mark.parametrize(
    ("names", "cxx", "compiler"),
    [
        ((), "", None),
        (("g++", "mycxx"), "", "g++"),
        (("mycxx",), "", None),
        (("g++", "mycxx"), "mycxx -O2", "mycxx"),
        (("mycxx",), "g++", None),
    ],
)
def test_compiler_is_the_one_of_cxx_else_a_usual_name(tmp_path, monkeypatch, names, cxx, compiler):
    for name in names:
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", cxx)
    assert host.compiler({"CXX": cxx}) == (None if compiler is None else str(tmp_path / compiler))
    assert host.has_compiler() is (compiler is not None)


def conf(environment_type="host"):
    config = Config()
    config.environment_type = environment_type
    return config


def test_unavailable_environment_names_the_cause(monkeypatch):
    monkeypatch.setattr(environment, "torch_version", lambda: None)
    with pytest.raises(UsageError, match="torch is not installed for"):
        asv.environment_of(conf())
    with pytest.raises(UsageError, match="environment_type is 'virtualenv'; `host` is wanted"):
        asv.environment_of(conf(environment_type="virtualenv"))


@pytest.mark.parametrize("name", ["a:b", "a\nb"])
def test_folder_that_python_or_git_cannot_use_is_refused(tmp_path, monkeypatch, name):
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    Path("pyproject.toml").write_text('[tool.kernel-velocity]\nbuilt-from = ["kernels"]\n')
    with pytest.raises(UsageError, match="a path without colons and line breaks is wanted") as error:
        asv.environment_of(conf())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("name", "is_recorded"), [("a;b|c", False), ("a b", True)])
def test_failed_build_in_a_folder_with_marks_of_cmake_names_them(tmp_path, monkeypatch, rebuilt, name, is_recorded):
    env, _ = rebuilt
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    monkeypatch.setattr(env, "_announced", lambda error: error)
    with pytest.raises(CommitNotBuilt) as error:
        env._remember_failure(COMMIT, "x.cpp:1: error: y\n", Path("build.log"))
    why = "the path of this repository has ; and |, which CMake takes for its own: move it"
    assert error.value.reason == ("x.cpp:1: error: y" if is_recorded else f"x.cpp:1: error: y; {why}")
    assert env.failed_before(COMMIT) is is_recorded


@pytest.mark.parametrize(
    ("output", "has_compiler", "reason"),
    [
        ("x.cpp:1: error: y\n", False, environment.NO_COMPILER),
        ("CMake Error: CMAKE_CXX_COMPILER not set, after EnableLanguage\n", True, environment.NO_COMPILER),
        ("fatal error: error writing to a.o: No space left on device\n", True, "No space left on device"),
    ],
)
def test_failed_build_by_fault_of_the_machine_is_tried_again(
    tmp_path, monkeypatch, rebuilt, *, output, has_compiler, reason
):
    env, _ = rebuilt
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(environment, "has_compiler", lambda: has_compiler)
    monkeypatch.setattr(env, "_announced", lambda error: error)
    with pytest.raises(CommitNotBuilt) as error:
        env._remember_failure(COMMIT, output, Path("build.log"))
    assert reason in error.value.reason and not env.failed_before(COMMIT)


def test_path_files_count_of_wheels_and_not_of_checkouts(rebuilt, tmp_path, monkeypatch):
    """CuTe DSL lies where such a file says, and what looks for libraries beside it asks for the site folders."""
    env, _ = rebuilt
    site = tmp_path / "host" / "site-packages"
    for name, editable in (("wheel", False), ("mine", True)):
        described = site / f"{name}-1.dist-info"
        described.mkdir(parents=True)
        (described / "METADATA").write_text(f"Name: {name}\nVersion: 1\n")
        (described / "RECORD").write_text(f"{name}.pth,,\n")
        (described / "direct_url.json").write_text(json.dumps({"url": "file:///", "dir_info": {"editable": editable}}))
        (site / f"{name}.pth").write_text(f"# of {name}\nimport sys; sys.path.append('{name}')\n\nof-{name}\n")
        (site / f"of-{name}").mkdir()
    (site / "by-hand.pth").write_text(f"{tmp_path}\n")
    monkeypatch.setattr(sys, "path", [str(site)])
    venv.create(env.folder)
    env._link(None)
    program = "import site, sys; print(sys.path, '|', site.getsitepackages())"
    done = subprocess.run([env.folder / "bin" / "python", "-c", program], capture_output=True, text=True, check=True)
    paths, _, sites = done.stdout.partition("|")
    assert set(re.findall(r"'([^']*(?:wheel|mine))'", paths)) == {"wheel", f"{site}/of-wheel"}
    assert f"'{tmp_path}'" not in paths and f"'{site}'" in sites


def test_build_whose_figures_were_changed_is_built_again(rebuilt):
    env, _ = rebuilt
    path = env.unpacked(COMMIT) / "kernels" / "build-info.json"
    path.parent.mkdir()
    path.write_text('{"kernels": {}}')
    assert env.is_built(COMMIT)  # by a version that wrote no checksum
    path.parents[2].joinpath(environment.INFO_FILE).write_text(environment._checksum(path))
    assert env.is_built(COMMIT)
    path.write_text('{"kernels": []}')
    assert not env.is_built(COMMIT)


@pytest.mark.parametrize("text", ["", "[]", "\xff", '{"version": "1"}', '{"version": 1, "commit_hash": []}'])
def test_damaged_record_of_the_installed_commit_means_none(rebuilt, monkeypatch, text):
    env, _ = rebuilt
    monkeypatch.setattr(HostTorch, "_get_install_checksum", lambda self: None)
    (env.folder / "asv-install-status.json").write_text(text, encoding="latin-1")
    assert env._get_installed_commit_hash() is None
    whole = {"version": 1, "commit_hash": COMMIT, "install_checksum": None}
    (env.folder / "asv-install-status.json").write_text(json.dumps(whole))
    assert env._get_installed_commit_hash() == COMMIT


def test_submodule_with_an_address_relative_to_the_repositorys(tmp_path, monkeypatch):
    """A clone of the clone would look for it beside the clone."""
    for name in ("lib", "kernels"):
        folder = tmp_path / "host" / name
        folder.mkdir(parents=True)
        (folder / "a.h").write_text(f"{name}\n")
        git(folder, "init", "-q")
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", name)
    git(folder, *ANY_FOLDER, "submodule", "--quiet", "add", "../lib", "lib")
    git(folder, "commit", "-qam", "Use it")
    clone = tmp_path / "clone"
    git(tmp_path, *ANY_FOLDER, "clone", "-q", "--recursive", str(folder), str(clone))
    monkeypatch.chdir(clone)
    checkout = tmp_path / "checkout"
    env = object.__new__(HostTorch)
    env._build_root, env._global_env_vars = str(checkout), {}
    env.checkout_project(
        get_repo(Config.from_json({"project": "kernels", "repo": "."})), git(clone, "rev-parse", "HEAD")
    )
    assert (checkout / "lib" / "a.h").read_text() == "lib\n"
    assert not [name for name in os.environ if name.startswith("GIT_CONFIG_")]


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Return a folder with a repository whose builds count themselves, and a function that builds its newest commit."""
    folder, log = tmp_path / "repository", tmp_path / "builds.log"
    (folder / "benchmarks").mkdir(parents=True)
    conf = {"version": 1, "project": "lib", "repo": ".", "environment_type": "host", "build_cache_size": 10}
    (folder / "asv.conf.json").write_text(json.dumps(conf))
    git(folder, "init", "-q")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(environment, "hold_locks", ExitStack)
    monkeypatch.setattr(environment, "torch_version", lambda: "9.9.0")
    command = f"cp lib.c {{out}}; echo built >> {log}"
    twins = []

    def build(change, command=command):
        (folder / change[0]).write_text(change[1])
        toml = f"build = '{command}'\nbuilt-from = ['lib.c', 'lib.cu']\n"
        (folder / "kernel-velocity.toml").write_text(toml)
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "Change it")
        conf, sha = asv.settings(), git(folder, "rev-parse", "HEAD")
        env = asv.environment_of(conf)
        env.create()
        twins.append((sha, env.build(get_repo(conf), sha)))
        return env.unpacked(sha).joinpath("lib.c").read_text(), len(log.read_text().splitlines())

    return build, twins, command


def test_commit_takes_the_build_of_the_same_files(repository):
    build, twins, command = repository
    assert build(("lib.c", "one")) == ("one", 1)
    assert build(("README.md", "words")) == ("one", 1)
    assert build(("lib.c", "two")) == ("two", 2)
    assert build(("lib.c", "one")) == ("one", 2)  # a revert
    assert [twin is not None for _, twin in twins] == [False, True, False, True]
    assert twins[1][1] == twins[0][0]
    assert build(("README.md", "other flags"), f"{command} # -O3") == ("one", 3)


def test_build_that_names_its_folder_serves_no_other_commit(repository):
    build, _, command = repository
    build(("lib.c", "one"), f"{command}; echo {{out}} > {{out}}/where")
    assert build(("README.md", "words"), f"{command}; echo {{out}} > {{out}}/where") == ("one", 2)


def test_build_whose_files_were_changed_is_made_again(repository):
    build, twins, _ = repository
    build(("lib.c", "one"))
    build(("README.md", "words"))
    env = asv.environment_of(asv.settings())
    first, second = (sha for sha, _ in twins)
    assert env.forget_changed([first, second]) == []
    (env.unpacked(first) / "made-when-it-ran").touch()
    assert env.forget_changed([first, second]) == []
    (env.unpacked(first) / "lib.c").write_text("two")  # the other's too: they share the file
    assert build(("README.md", "more words")) == ("one", 2)  # takes none of these
    assert env.forget_changed([first, second]) == [first, second] and not env.is_built(first)


INFO = """{"cuda_architectures": [%s], "kernels": {"k": {"code_hash": "%s", "ptxas": [%s]}}}"""
PTXAS = """{"architecture": "sm_90", "registers": 40, "spill_store_bytes": 0, "spill_load_bytes": 0}"""


@pytest.fixture
def parts(repository, tmp_path, monkeypatch):
    """Return the environment of a repository with CUDA code, asv's object of that, its commit, and how to add one."""
    build, twins, _ = repository
    (tmp_path / "cpu.json").write_text(INFO % ("", "c1", ""))
    (tmp_path / "whole.json").write_text(INFO % ('"sm_90"', "c2", PTXAS))
    monkeypatch.setattr(environment, "has_driver", lambda: False)
    monkeypatch.setattr(environment.fingerprint, "nvcc", lambda environ: "/bin/true")
    monkeypatch.delenv("KV_CUDA", raising=False)
    monkeypatch.setattr(asv.HostTorch, "leaves_cuda", True)
    name = f"{tmp_path}/$(test -z $KV_CUDA && echo whole || echo cpu).json"
    command = f"cp lib.c {{out}}; test -e lib.c -a ! -e {tmp_path}/broken && cp {name} {{out}}/build-info.json"

    def commit(change):
        build(change, f"echo built >> {tmp_path}/builds.log; {command}")
        return twins[-1][0]

    sha, conf = commit(("lib.c", "one")), asv.settings()
    env = asv.environment_of(conf)
    env.leave_cuda()
    return env, get_repo(conf), sha, commit


def number_of_builds(tmp_path):
    return len((tmp_path / "builds.log").read_text().splitlines())


def test_cuda_code_is_compiled_for_its_figures_alone(parts, tmp_path):
    env, repo, sha, commit = parts
    code = fingerprint.code_hashes(env.unpacked(sha))
    assert env.lacks_figures(sha) and code["k"].startswith("cpu:")
    assert not fingerprint.session(0.0, env.unpacked(sha), {}).ptxas
    assert env.compile_cuda(repo, sha) is None and not env.lacks_figures(sha)
    assert fingerprint.session(0.0, env.unpacked(sha), {}).ptxas == {"k": "sm_90: 40 registers, 0 bytes spilled"}
    assert fingerprint.code_hashes(env.unpacked(sha)) == code  # of what is timed
    again = commit(("README.md", "words"))
    assert not env.lacks_figures(again) and number_of_builds(tmp_path) == 2
    for whole in (with_cuda(env.unpacked(sha)), with_cuda(env.unpacked(again))):  # its GPU code is counted
        assert "40" in (whole / "build-info.json").read_text() and whole not in map(env.unpacked, (sha, again))


def test_gate_compiles_cuda_code_where_a_file_of_it_changed(parts, tmp_path, monkeypatch):
    env, _, first, commit = parts
    same, other, last = (commit(change) for change in (("lib.c", "two"), ("lib.cu", "two"), ("lib.cu", "three")))
    monkeypatch.setattr(asv.HostTorch, "leaves_cuda", False)
    runner, figures = AsvRunner(Path(), device="cpu", err=io.StringIO()), {"k": "sm_90: 40 registers, 0 bytes spilled"}
    assert runner.is_prepared(first)
    env.compile_cuda(get_repo(asv.settings()), first)  # as `kv track` did
    for before, after, wanted, builds in ((first, same, {}, 5), (same, other, figures, 7), (other, other, {}, 7)):
        assert [compiled.ptxas_of(build) for build in runner.read_builds(before, after)] == [wanted] * 2
        assert number_of_builds(tmp_path) == builds
    (tmp_path / "broken").touch()
    with pytest.raises(CommitNotBuilt):
        runner.read_builds(other, last)
    assert not AsvRunner(Path(), device="cpu", err=io.StringIO(), with_cuda=True).is_prepared(first)


def test_gpu_takes_no_build_without_cuda_code(parts, monkeypatch):
    env, repo, sha, _ = parts
    assert env.is_built(sha) and env.other_toolchain(sha) is None
    monkeypatch.setattr(environment, "has_driver", lambda: True)
    env.leave_cuda()
    assert not env.is_built(sha)
    env.build(repo, sha)
    assert env.is_built(sha) and not env.lacks_figures(sha)
    assert ":" not in fingerprint.code_hashes(env.unpacked(sha))["k"]
    monkeypatch.setattr(environment, "has_driver", lambda: False)
    env.leave_cuda()
    assert env.is_built(sha)  # more than is wanted is no reason to build again


@pytest.mark.parametrize("name", [environment.WHOLE_INFO, f"{environment.WHOLE_INFO}.crc"])
def test_damaged_figures_of_cuda_code_are_compiled_again(parts, tmp_path, name):
    env, repo, sha, _ = parts
    env.compile_cuda(repo, sha)
    env.unpacked(sha).with_name(name).write_text("{")
    left = with_cuda(env.unpacked(sha)) / "left"
    left.touch()  # by a killed run
    assert env.lacks_figures(sha)
    env.compile_cuda(repo, sha)
    assert not env.lacks_figures(sha) and number_of_builds(tmp_path) == 3 and not left.exists()


def test_cuda_code_that_does_not_compile_is_tried_once(parts, tmp_path):
    env, repo, sha, _ = parts
    (tmp_path / "broken").touch()
    for _ in range(2):
        with pytest.raises(CommitNotBuilt):
            env.compile_cuda(repo, sha)
    assert number_of_builds(tmp_path) == 2 and env.is_built(sha) and not env.failed_before(sha)
    assert [path.name for path in (env.folder / environment.FAILED_FOLDER).iterdir()] == [f"{sha}-cuda"]
    (tmp_path / "broken").unlink()
    env.forget_failures([sha])
    assert env.compile_cuda(repo, sha) is None


@pytest.fixture
def machines(tmp_path, monkeypatch):
    """asv's file of machines."""
    path = tmp_path / "machines.json"
    monkeypatch.setattr(MachineCollection, "get_machine_file_path", staticmethod(lambda: str(path)))
    return path


@pytest.mark.parametrize("before", [None, {"box": {"machine": "box"}, "version": 1}])
def test_machine_entry_is_completed(machines, before):
    if before is not None:
        machines.write_text(json.dumps(before))
    assert asv.machine("box") == "box"
    stored = json.loads(machines.read_text())["box"]
    assert stored["machine"] == "box" and stored["cpu"] and stored["arch"] == platform.machine()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "empty"),
        ('{"version": 2}', "version: 1 is wanted, got '2'"),
        ('{"box": {"machine": "box", "cpu": null}, "version": 1}', "'box': cpu: a text is wanted, got 'None'"),
        ('{"box": {"cpu": "c"}, "version": 1}', "'box': machine: the name of the machine is wanted"),
    ],
)
def test_damaged_file_of_machines_is_named_and_kept(machines, text, what):
    machines.write_text(text)
    with pytest.raises(UsageError) as error:
        asv.machine("box")
    assert str(error.value).startswith(f"{machines}: {what}") and "remove it: asv then asks" in str(error.value)
    assert machines.read_text() == text


def test_machine_entry_of_asv_is_kept(machines):
    machines.write_text(json.dumps({"box": {"machine": "box", "cpu": "mine"}, "version": 1}))
    assert asv.machine("box") == "box"
    assert json.loads(machines.read_text())["box"] == {"machine": "box", "cpu": "mine"}


def test_host_named_like_a_reserved_folder_is_refused(machines, monkeypatch):
    monkeypatch.setattr(Machine, "get_unique_machine_name", staticmethod(lambda: "findings"))
    with pytest.raises(UsageError, match=r"asv calls this machine 'findings'.*MACHINE=bench-2"):
        asv.machine(None)
    assert not machines.exists()
    assert asv.machine("kv-ab") == "kv-ab"  # as A/B runs name it


def test_machine_facts_are_spooled_once_a_commit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    host_torch = SimpleNamespace(
        _noted=set(), _began=12.0, name="host-py3.11", unpacked=lambda commit: tmp_path / commit
    )
    for commit in ("a" * 40, "b" * 40, "a" * 40):
        HostTorch._note_facts(host_torch, commit)
    monkeypatch.setenv("KV_SPOOL", "elsewhere")
    HostTorch._note_facts(host_torch, "c" * 40)
    lines = {path.name[0]: path.read_text().splitlines() for path in tmp_path.glob(".asv/spool/host-py3.11/*")}
    assert sorted(lines) == ["a", "b"]
    (line,) = lines["a"]
    facts = sessions.decode(line)
    assert (facts.began, facts.facts["python"]) == (12.0, platform.python_version())


COMMIT = "c0ffee00" + "0" * 32


class FakeCompiler(HostTorch):
    """The environment with asv's own build cache, and a compiler that a test replaces."""

    def __init__(self, folder, build):
        self._path = str(folder)
        self._cache = BuildCache(None, self._path)
        self._cache._cache_size = 10
        self._compile = build
        self._section = Project()

    def create(self):
        pass

    def build(self, repo, commit):
        self._make(commit, "before")
        self._compile()
        self._make(commit, "new")
        self._cache.finalize_cache_dir(commit)

    def _make(self, commit, text):
        folder = Path(self._cache.create_cache_dir(commit), "unpacked")
        folder.mkdir()
        (folder / "code.txt").write_text(text)
        folder.with_name(environment.TOOLCHAIN_FILE).write_text("here" if text == "new" else "old")

    def code(self):
        return (self.unpacked(COMMIT) / "code.txt").read_text() if self.is_built(COMMIT) else None


def fails():
    raise CommitNotBuilt(COMMIT, "x.cpp:1: error: y", Path("build.log"))


@pytest.fixture
def rebuilt(tmp_path, monkeypatch):
    """Return an environment with a build of an old compiler, and an A/B runner of it."""
    monkeypatch.setattr(environment, "has_compiler", lambda: True)
    monkeypatch.setattr(environment.fingerprint, "toolchain", lambda environ, project: "here")
    monkeypatch.setattr(session, "get_repo", lambda conf: None)
    env = FakeCompiler(tmp_path, lambda: None)
    env._make(COMMIT, "old")
    env._cache.finalize_cache_dir(COMMIT)
    runner = object.__new__(AsvRunner)
    runner._conf, runner._environment, runner._created = None, env, False
    runner.again, runner.err = False, io.StringIO()
    return env, runner


def backups(env):
    return list((env.folder / environment.BACKUP_FOLDER).glob("*"))


def test_rebuild_replaces_the_old_build(rebuilt):
    env, runner = rebuilt
    assert runner.prepare(COMMIT) is None
    assert (env.code(), backups(env)) == ("new", [])
    assert "was built with old" in runner.err.getvalue() and "put back" not in runner.err.getvalue()


def test_failed_rebuild_restores_the_old_build(rebuilt):
    env, runner = rebuilt
    env._compile = fails
    assert "error: y" in runner.prepare(COMMIT)
    assert (env.code(), backups(env)) == ("old", [])
    assert env.other_toolchain(COMMIT) == "old"
    assert runner.err.getvalue().splitlines()[-1] == (
        "note: c0ffee00 is not built again: its earlier build is restored"
    )
    env._cache.finalize_cache_dir("absent")  # asv's cleaning up
    assert env.code() == "old"


def test_build_set_aside_by_a_killed_run_is_restored(rebuilt):
    env, runner = rebuilt
    env.set_build_aside(COMMIT)
    env._make(COMMIT, "half")
    assert env.code() is None
    env._compile = fails
    assert runner.prepare(COMMIT) is not None
    assert (env.code(), backups(env)) == ("old", [])


@pytest.mark.parametrize(("holder", "error"), [("1", KeyboardInterrupt), ("", UserError)])
def test_interrupt_at_the_locks_is_an_error_of_asv_alone(monkeypatch, holder, error):
    def interrupted(_root):
        raise KeyboardInterrupt

    monkeypatch.setattr(environment.lock, "take", interrupted)
    monkeypatch.setenv("KV_LOCK_HOLDER", holder)
    with pytest.raises(error):
        environment.hold_locks()
