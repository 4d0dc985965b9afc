"""What the environment borrows from its host, and how a failed build is put into one line."""

import json
import os
import platform
import subprocess
import sys
from types import SimpleNamespace

import pytest
from asv.config import Config
from asv.machine import Machine, MachineCollection

from kernel_velocity.errors import UsageError
from kernel_velocity.results import sessions
from kernel_velocity.runner import asv, build_info, environment, host
from kernel_velocity.runner.environment import CommitNotBuilt, HostTorch, first_error_line

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


def test_a_commit_that_does_not_build_is_one_line(tmp_path):
    text = str(CommitNotBuilt("0123456789abcdef", "x.cpp:1: error: y", tmp_path / "build.log"))
    assert text == f"commit 01234567 does not build: x.cpp:1: error: y (log: {tmp_path / 'build.log'})"


def test_only_existing_site_folders_are_borrowed_in_order_and_once(tmp_path):
    site, dist = tmp_path / "a" / "site-packages", tmp_path / "b" / "dist-packages"
    for folder in (site, dist, tmp_path / "checkout"):
        folder.mkdir(parents=True)
    paths = ["", str(tmp_path / "checkout"), str(dist), str(site), str(dist), str(tmp_path / "no" / "site-packages")]
    assert host.host_site_folders(paths) == (dist, site)


def test_threads_are_one_unless_set():
    assert host.measuring_variables(None)["OMP_NUM_THREADS"] == "1"
    assert host.measuring_variables("4")["MKL_NUM_THREADS"] == "4"


@pytest.mark.parametrize("threads", ["", "0", "-1", "two", "1.5", "²"])
def test_threads_that_make_no_sense(threads):
    with pytest.raises(UsageError, match="KV_THREADS"):
        host.measuring_variables(threads)


def test_freed_memory_stays_with_a_measuring_process():
    """Without the settings, five 100 MB buffers cost a page fault per 4 KB (or per huge page) each time."""
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

    assert faults({}) > 100  # the trouble is real here
    assert faults(host.measuring_variables(None)) < 20


@pytest.mark.parametrize(("names", "found"), [((), False), (("g++",), True), (("mycxx",), False)])
def test_compiler_is_looked_up_by_its_usual_names(tmp_path, monkeypatch, names, found):
    for name in names:
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert host.has_compiler() is found


def test_compiler_that_cxx_names_is_the_one(tmp_path, monkeypatch):
    (tmp_path / "mycxx").write_text("")
    (tmp_path / "mycxx").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "mycxx -O2")
    assert host.has_compiler()
    monkeypatch.setenv("CXX", "g++")
    assert not host.has_compiler()


def test_a_toolchain_is_its_compilers_and_settings(tmp_path, monkeypatch):
    for name, said in (("g++", "g++ 12"), ("nvcc", "nvcc\nBuild 13.0")):
        (tmp_path / name).write_text(f"#!/bin/sh\nprintf '{said}\\n'\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(build_info, "DEFAULT_CUDA", str(tmp_path / "none"))
    assert build_info.describe({"KV_CUDA": "ON"}) == "g++ 12; Build 13.0; KV_CUDA=ON"
    (tmp_path / "nvcc").unlink()
    assert build_info.describe({"CXX": "no-such"}) == "no C++ compiler; no nvcc"


def conf(**changes):
    found = Config()
    found.environment_type = "host"
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def test_why_the_environment_cannot_be_had_is_said(monkeypatch):
    monkeypatch.setattr(environment, "torch_version", lambda: None)
    with pytest.raises(UsageError, match="torch is not installed for"):
        asv.environment_of(conf())
    with pytest.raises(UsageError, match="environment_type is 'virtualenv'; `host` is wanted"):
        asv.environment_of(conf(environment_type="virtualenv"))


@pytest.fixture
def machines(tmp_path, monkeypatch):
    """asv's file of machines."""
    path = tmp_path / "machines.json"
    monkeypatch.setattr(MachineCollection, "get_machine_file_path", staticmethod(lambda: str(path)))
    return path


@pytest.mark.parametrize("before", [None, {"box": {"machine": "box"}, "version": 1}])
def test_a_named_machine_is_described(machines, before):
    if before is not None:
        machines.write_text(json.dumps(before))
    assert asv.machine("box") == "box"
    known = json.loads(machines.read_text())["box"]
    assert known["machine"] == "box" and known["cpu"] and known["arch"] == platform.machine()


def test_what_is_known_of_a_machine_is_kept(machines):
    machines.write_text(json.dumps({"box": {"machine": "box", "cpu": "mine"}, "version": 1}))
    assert asv.machine("box") == "box"
    assert json.loads(machines.read_text())["box"] == {"machine": "box", "cpu": "mine"}


def test_a_host_that_is_called_as_a_folder_of_ours_is_refused(machines, monkeypatch):
    monkeypatch.setattr(Machine, "get_unique_machine_name", staticmethod(lambda: "findings"))
    with pytest.raises(UsageError, match=r"asv calls this machine 'findings'.*MACHINE=bench-2"):
        asv.machine(None)
    assert not machines.exists()
    assert asv.machine("kv-ab") == "kv-ab"  # asked for by our own A/B runs


def test_only_the_running_python_is_offered():
    assert HostTorch.matches(f"{sys.version_info.major}.{sys.version_info.minor}")
    assert not HostTorch.matches("2.7")


def test_the_name_that_begins_every_stored_environment_never_changes():
    assert HostTorch.tool_name == "host"
    assert environment.PATH_FILE.endswith(".pth")


def test_a_run_says_once_of_a_commit_what_the_machine_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = SimpleNamespace(_noted=set(), _began=12.0, name="host-py3.11", unpacked=lambda commit: tmp_path / commit)
    for commit in ("a" * 40, "b" * 40, "a" * 40):
        HostTorch._note_facts(asked, commit)
    monkeypatch.setenv("KV_SPOOL", "elsewhere")
    HostTorch._note_facts(asked, "c" * 40)
    lines = {path.name[0]: path.read_text().splitlines() for path in tmp_path.glob(".asv/spool/host-py3.11/*")}
    assert sorted(lines) == ["a", "b"]
    (line,) = lines["a"]
    found = sessions.decode(line)
    assert (found.began, found.facts["python"]) == (12.0, platform.python_version())
