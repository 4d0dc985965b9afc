"""The node's launcher: what it finds, what it refuses, each with one line and status 2."""

import ast
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_velocity.harness.documents import with_checksum
from kernel_velocity.harness.sampling import ROUNDS
from kernel_velocity.offline.node import launch

NODE = Path(launch.__file__).parent
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def packed(tmp_path):
    """A pack without wheels: enough for everything that comes before they are installed."""
    folder = tmp_path / "pack"
    folder.mkdir()
    for name in ("run", "launch.py"):
        (folder / name).write_bytes((NODE / name).read_bytes())
    (folder / "wheel").write_text("12345")
    write_manifest(folder)
    return folder


def write_manifest(folder, **more):
    manifest = {"pythons": [VERSION], "platform": platform.machine(), "head": "0" * 40, "files": {"wheel": 5}}
    (folder / "manifest.json").write_text(with_checksum(json.dumps(manifest | more)))


@pytest.fixture
def error(packed, tmp_path):
    """Return a function that launches with an empty environment, and returns the one line that tells what is wrong."""

    def error(*arguments, out=tmp_path / "out", **variables):
        command = ["env", "-i", *(f"{key}={value}" for key, value in variables.items())]
        command += ["sh", str(packed / "run"), str(out), *map(str, arguments)]
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 2, done.stdout + done.stderr
        (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        return line

    return error


def script(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


def python_with_torch(folder):
    """A Python that says that it has torch."""
    site = folder / "site"
    (site / "torch-9.9.dist-info").mkdir(parents=True)
    (site / "torch-9.9.dist-info" / "METADATA").write_text("Name: torch\nVersion: 9.9\n")
    return script(folder / "python3", f'#!/bin/sh\nPYTHONPATH="{site}" exec "{sys.executable}" "$@"\n')


def test_copy_that_broke_off_is_refused(packed, error, tmp_path):
    (packed / "wheel").write_text("123")
    assert "5 bytes wanted, got 3 bytes" in error() and "copy it again" in error()
    (packed / "wheel").unlink()
    assert "5 bytes wanted, got nothing" in error()
    assert "5 bytes wanted" in (tmp_path / "out" / "node.log").read_text()  # nobody sits at the terminal


def test_folder_that_is_no_pack_is_refused(packed, error):
    (packed / "manifest.json").write_text("{}")
    assert "no pack here" in error()


def test_another_processor_is_refused(packed, error):
    write_manifest(packed, platform="m68k")
    assert f"this node is {platform.machine()}, the pack is for m68k" in error()


def test_without_torch_the_places_are_named(error, tmp_path):
    bare = tmp_path / "bare" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare.parents[1]], check=True)
    line = error("--python", bare)
    assert "no PyTorch to measure with" in line and f"{bare} (no torch)" in line and "--python" in line
    assert "/nowhere/python (does not run)" in error("--python", "/nowhere/python")


def test_torch_of_a_python_that_was_not_packed_for_is_refused(packed, error, tmp_path):
    write_manifest(packed, pythons=["3.99"])
    line = error("--python", python_with_torch(tmp_path))
    assert f"torch 9.9, but Python {VERSION}; packed for 3.99: pack again with --pythons" in line


def test_without_git_no_clone_is_made(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        launch.check_out(tmp_path / "repository", "0" * 40, {"PATH": str(tmp_path)})
    assert ended.value.code == 2 and "git is not installed on this node" in capsys.readouterr().err
    assert not (tmp_path / "repository").exists()


def test_too_little_disk_is_refused(packed, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(launch, "HERE", packed)
    monkeypatch.setattr(launch, "NEEDED", 1 << 70)
    monkeypatch.setattr(launch, "log", launch.log)
    monkeypatch.setattr(sys, "argv", ["launch.py", str(tmp_path / "out")])
    with pytest.raises(SystemExit):
        launch.main()
    assert "needed: name another folder with --work" in capsys.readouterr().err


def test_out_that_cannot_be_made_is_refused(error, tmp_path):
    (tmp_path / "file").write_text("")
    assert "Not a directory" in error(out=tmp_path / "file" / "out")


def test_one_run_at_a_time_in_a_work_folder(error, tmp_path):
    (tmp_path / "out" / "work").mkdir(parents=True)
    launch.take_lock(tmp_path / "out" / "work")
    assert "another run is at work here" in error()


def test_active_environment_comes_first(tmp_path, monkeypatch):
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    assert launch.candidates(None)[0] == str(tmp_path / "bin" / "python3")
    monkeypatch.chdir(tmp_path / "bin")
    assert launch.candidates("./python3") == [str(tmp_path / "bin" / "python3")]  # and not what the link leads to


def test_bare_environment_is_made_whole(tmp_path, monkeypatch):
    for name in ("HOME", "USER", "PATH"):
        monkeypatch.delenv(name, raising=False)
    for name in ("ASV_PYTHONPATH", "PIP_CONSTRAINT", "PIP_USER"):  # an image's would make an installation impossible
        monkeypatch.setenv(name, "x")
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text("")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert launch.cuda_home() != str(tmp_path)  # it cannot be run
    script(nvcc, "")
    result = launch.variables(tmp_path, "/opt/x/bin/python3", "/base")
    assert Path(result["HOME"]).is_dir() and result["USER"] and result["CUDA_HOME"] == str(tmp_path)
    assert result["PATH"].startswith(f"/opt/x/bin:{nvcc.parent}")
    assert not {"ASV_PYTHONPATH", "PIP_CONSTRAINT", "PIP_USER"} & result.keys()
    assert result["PIP_CONFIG_FILE"] == "/dev/null"


def test_torch_in_the_users_own_packages_is_found(tmp_path, monkeypatch):
    info = tmp_path / "lib" / f"python{VERSION}" / "site-packages" / "torch-9.9.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: torch\nVersion: 9.9\n")
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path))
    base = str(Path(sys.executable).resolve())  # in a virtual environment there is no user site
    assert launch.find_python(base, [VERSION]) == (base, str(tmp_path))


def test_what_a_killed_git_left_is_removed(tmp_path, monkeypatch):
    def git(*args):
        who = ["-c", "user.name=A", "-c", "user.email=a@b"]
        done = subprocess.run(["git", *who, *args], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q", ".")
    git("commit", "-q", "--allow-empty", "-m", "x")
    git("bundle", "create", "-q", "repository.bundle", "HEAD")
    repo, head = tmp_path / "repo", git("rev-parse", "HEAD")
    monkeypatch.setattr(launch, "HERE", tmp_path)
    launch.check_out(repo, head, dict(os.environ))
    (repo / ".git" / "index.lock").write_text("")
    (repo / "results").mkdir()
    launch.check_out(repo, head, dict(os.environ))
    assert git("-C", str(repo), "rev-parse", "HEAD") == head and (repo / "results").is_dir()


def test_launcher_runs_under_an_old_python():
    """Any Python 3.8 may start it. The one with torch is looked for from there."""
    ast.parse((NODE / "launch.py").read_text(), feature_version=(3, 8))


def test_options_do_not_depend_on_the_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    args = launch.arguments(["--minutes", "60", "out", "--resume-from", "a.tar.xz"])
    assert (args.out, args.minutes, args.rounds) == (Path("out"), 60.0, ROUNDS)
    assert args.resume_from == str(tmp_path / "a.tar.xz")
