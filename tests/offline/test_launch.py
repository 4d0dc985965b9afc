"""The node's launcher: what it finds, what it refuses, each with one line and status 2."""

import argparse
import ast
import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_velocity.offline import pack, time_slice
from kernel_velocity.offline.node import launch

NODE = Path(launch.__file__).parent


@pytest.fixture
def packed(tmp_path):
    """A pack without wheels: enough for everything that comes before they are installed."""
    folder = tmp_path / "pack"
    folder.mkdir()
    for name in pack.SCRIPTS:
        (folder / name).write_bytes((NODE / name).read_bytes())
    (folder / "wheel").write_text("12345")
    write_manifest(folder)
    return folder


def write_manifest(folder, **more):
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    known = {"pythons": [version], "platform": platform.machine(), "head": "0" * 40, "files": {"wheel": 5}}
    (folder / "manifest.json").write_text(json.dumps(known | more))


def launched(folder, *arguments, **variables):
    """Run the launcher with an empty environment."""
    return subprocess.run(
        ["env", "-i", *(f"{key}={value}" for key, value in variables.items()), "sh", str(folder / "run"), *arguments],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def the_error(done):
    """The one line that tells what is wrong."""
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    return line


def python_with_torch(folder, version="9.9"):
    """A Python that says that it has torch."""
    site = folder / "site"
    (site / f"torch-{version}.dist-info").mkdir(parents=True)
    (site / f"torch-{version}.dist-info" / "METADATA").write_text(f"Name: torch\nVersion: {version}\n")
    python = folder / "python3"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{site}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return python


def test_a_copy_that_broke_off(packed, tmp_path):
    (packed / "wheel").write_text("123")
    line = the_error(launched(packed, str(tmp_path / "out")))
    assert "5 bytes wanted, got 3 bytes" in line and "copy it again" in line
    (packed / "wheel").unlink()
    assert "5 bytes wanted, got nothing" in the_error(launched(packed, str(tmp_path / "out")))
    assert "5 bytes wanted" in (tmp_path / "out" / "node.log").read_text()  # nobody sits at the terminal


def test_no_pack(packed, tmp_path):
    (packed / "manifest.json").write_text("{}")
    assert "no pack here" in the_error(launched(packed, str(tmp_path / "out")))


def test_another_processor(packed, tmp_path):
    write_manifest(packed, platform="m68k")
    line = the_error(launched(packed, str(tmp_path / "out")))
    assert f"this node is {platform.machine()}, the pack is for m68k" in line and "--platform" in line


def test_no_torch_anywhere(packed, tmp_path):
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    line = the_error(launched(packed, str(tmp_path / "out"), "--python", str(bare / "bin" / "python")))
    assert "no PyTorch found" in line and f"{bare / 'bin' / 'python'} (no torch)" in line and "--python" in line
    line = the_error(launched(packed, str(tmp_path / "out"), "--python", "/nowhere/python"))
    assert "/nowhere/python (does not run)" in line


def test_torch_of_another_python_than_packed_for(packed, tmp_path):
    write_manifest(packed, pythons=["3.99"])
    python = python_with_torch(tmp_path)
    line = the_error(launched(packed, str(tmp_path / "out"), "--python", str(python)))
    assert "torch 9.9 lies in" in line and "packed for 3.99" in line and "pack again with --pythons" in line


def test_no_git(packed, tmp_path):
    python = python_with_torch(tmp_path)
    environ = launch.variables(tmp_path / "work", str(python))
    with pytest.raises(SystemExit) as ended:
        launch.check_out(tmp_path / "repository", {"head": "0"}, {**environ, "PATH": str(tmp_path)})
    assert ended.value.code == 2


def test_too_little_disk(packed, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(launch, "HERE", packed)
    monkeypatch.setattr(sys, "argv", ["launch.py", str(tmp_path / "out")])
    monkeypatch.setattr(launch.shutil, "disk_usage", lambda _: Usage())
    with pytest.raises(SystemExit):
        launch.main()
    assert "1 MB free" in capsys.readouterr().err


class Usage:
    free = 1_000_000


def test_out_that_cannot_be_made(packed, tmp_path):
    (tmp_path / "file").write_text("")
    assert "Not a directory" in the_error(launched(packed, str(tmp_path / "file" / "out")))


def test_the_active_environment_comes_first(tmp_path, monkeypatch):
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    assert launch.candidates(None)[0] == str(tmp_path / "bin" / "python3")
    assert launch.candidates("/some/python") == ["/some/python"]


def test_everything_gets_a_home_and_a_path(tmp_path, monkeypatch):
    for name in ("HOME", "USER", "PATH", "ASV_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ASV_PYTHONPATH", "x")
    found = launch.variables(tmp_path, "/opt/x/bin/python3")
    assert Path(found["HOME"]).is_dir() and found["USER"]
    assert found["PATH"].startswith("/opt/x/bin:")
    assert "ASV_PYTHONPATH" not in found


def test_nvcc_is_found_where_cuda_home_says(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.write_text("")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert launch.cuda_home() != str(tmp_path)  # it cannot be run
    nvcc.chmod(0o755)
    assert launch.cuda_home() == str(tmp_path)
    assert launch.variables(tmp_path, "/p/python")["CUDA_HOME"] == str(tmp_path)


def test_it_runs_under_an_old_python():
    """Any Python 3.8 may start it; the one with torch is looked for from there."""
    ast.parse((NODE / "launch.py").read_text(), feature_version=(3, 8))


def test_settings_of_the_image_stay_outside(tmp_path, monkeypatch):
    """An image's pip constraints, or --user, would make an installation of what is carried here impossible."""
    monkeypatch.setenv("PIP_CONSTRAINT", "/etc/constraint.txt")
    monkeypatch.setenv("PIP_USER", "1")
    found = launch.variables(tmp_path, "/p/python")
    assert not {"PIP_CONSTRAINT", "PIP_USER"} & found.keys() and found["PIP_CONFIG_FILE"] == "/dev/null"


def test_a_relative_python_is_the_one_meant_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "python").symlink_to(sys.executable)
    assert launch.candidates("./python") == [str(tmp_path / "python")]  # and not what the link leads to


def test_torch_in_the_users_own_packages_is_found_and_kept(tmp_path, monkeypatch):
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    info = tmp_path / "lib" / version / "site-packages" / "torch-9.9.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: torch\nVersion: 9.9\n")
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path))
    base = Path(sys.executable).resolve()  # in a virtual environment there is no user site
    known = launch.probe(str(base))
    if known is None or known[1] is None:
        pytest.skip("this Python has no user site")
    assert known[2] == str(tmp_path)


def test_one_run_at_a_time_in_a_work_folder(tmp_path, capsys):
    launch.take_lock(tmp_path)
    script = """import pathlib, sys
from kernel_velocity.offline.node.launch import take_lock
take_lock(pathlib.Path(sys.argv[1]))"""
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "another run is at work here" in done.stderr


def test_what_a_killed_git_left_is_got_rid_of(tmp_path):
    def git(*args, cwd):
        who = ["-c", "user.name=A", "-c", "user.email=a@b"]
        done = subprocess.run(["git", *who, *args], cwd=cwd, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    source, pack_folder, repo = tmp_path / "source", tmp_path / "pack", tmp_path / "repo"
    for folder in (source, pack_folder):
        folder.mkdir()
    git("init", "-q", ".", cwd=source)
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=source)
    git("bundle", "create", "-q", str(pack_folder / launch.BUNDLE), "HEAD", cwd=source)
    manifest = {"head": git("rev-parse", "HEAD", cwd=source)}
    environ = launch.variables(tmp_path / "work", sys.executable)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "HERE", pack_folder)
        launch.check_out(repo, manifest, environ)
        (repo / ".git" / "index.lock").write_text("")
        (repo / "results").mkdir()
        launch.check_out(repo, manifest, environ)
    assert git("rev-parse", "HEAD", cwd=repo) == manifest["head"]
    assert (repo / "results").is_dir()


def test_options_are_handed_on_whatever_their_order(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["launch.py", "--minutes", "60", "out", "--resume-from", "a.tar.xz"])
    args, handed_on = launch.arguments()
    assert args.out == Path("out")
    assert handed_on == ["--minutes=60", f"--resume-from={tmp_path / 'a.tar.xz'}"]


def test_every_option_of_a_slice_can_be_given_to_run():
    parser = argparse.ArgumentParser()
    time_slice.add_arguments(parser)
    known = {action.option_strings[0].removeprefix("--") for action in parser._actions if action.option_strings}
    assert known - {"-h", "manifest", "began"} == launch.HANDED_ON.keys()
