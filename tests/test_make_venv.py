"""The virtual environment of `make venv`: requirements, borrowed packages, settings of make."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_velocity import make_venv

ROOT = Path(__file__).parents[1]


def test_wanted_installs_the_package_and_build_requirements():
    editable, folder, *build = make_venv.wanted()
    assert (editable, folder) == ("-e", f"{ROOT / 'tools'}")
    assert make_venv.wanted(make_venv.EXTRAS)[1] == f"{folder}[test,docs,fleet]"
    assert {requirement.partition(">")[0] for requirement in build} == {"scikit-build-core", "cmake", "ninja"}


def test_borrowed_folders_leave_out_the_target(tmp_path):
    inside, other = tmp_path / "venv" / "site-packages", tmp_path / "other" / "site-packages"
    inside.mkdir(parents=True)
    other.mkdir(parents=True)
    paths = ["", str(inside), str(other), str(other), str(tmp_path)]
    assert make_venv.borrowed_folders(paths, tmp_path / "venv") == [str(other)]


def test_present_torch_is_borrowed(tmp_path, monkeypatch):
    installed = []
    monkeypatch.setattr(make_venv, "_pip", lambda _, arguments: installed.append(list(arguments)))
    monkeypatch.setattr(make_venv, "has_torch", lambda: True)
    monkeypatch.setattr("importlib.metadata.version", lambda _: "9.9")
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(make_venv.venv.EnvBuilder, "_setup_pip", lambda *_: None)  # seconds, for nothing here
    site = tmp_path / "host" / "site-packages"
    (site / "torch_of_the_host").mkdir(parents=True)
    (site / "torch_of_the_host" / "__init__.py").write_text("")
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    make_venv.make(tmp_path / "venv", "torch==1", "https://index")
    subprocess.run([tmp_path / "venv" / "bin" / "python", "-c", "import torch_of_the_host"], check=True)
    (requested,) = installed  # the host's packages do not count: a borrowed asv would come without its command
    assert requested == [*make_venv.wanted(), *make_venv.same_numpy()]


@pytest.mark.parametrize("is_written", [True, False])
def test_pip_compiles_only_for_a_python_that_writes_nothing(monkeypatch, is_written):
    commands = []
    monkeypatch.setattr(make_venv.subprocess, "run", lambda command, **_: commands.append(command))
    monkeypatch.setattr(sys, "dont_write_bytecode", not is_written)
    make_venv._pip(Path("python"), ["torch"])
    assert ("--no-compile" in commands[0]) is is_written and commands[0][-1] == "torch"


def test_borrowed_torch_keeps_its_numpy(tmp_path, monkeypatch):
    def host_with(version):
        info = tmp_path / version / "numpy-0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Name: numpy\nVersion: {version}\n")
        monkeypatch.setattr(sys, "path", [str(info.parent)])
        return make_venv.same_numpy()

    assert host_with("1.26.4") == ["numpy==1.26.4"]
    assert host_with("1.26.4+vendor") == []  # no index has it
    monkeypatch.setattr(sys, "path", [])
    assert make_venv.same_numpy() == []


@pytest.mark.parametrize(
    ("torch", "index", "requested"),
    [
        ("torch==1", "https://i", [["--index-url", "https://i", "torch==1"]]),
        ("torch==1", "", [["torch==1"]]),
        ("", "https://i", []),
    ],
)
def test_absent_torch_is_installed_from_its_index(tmp_path, monkeypatch, torch, index, requested):
    installed = []
    monkeypatch.setattr(make_venv, "_pip", lambda _, arguments: installed.append(list(arguments)))
    monkeypatch.setattr(make_venv, "has_torch", lambda: False)
    monkeypatch.setattr(make_venv.venv.EnvBuilder, "_setup_pip", lambda *_: None)
    monkeypatch.chdir(ROOT)
    make_venv.make(tmp_path / "venv", torch, index)
    assert installed[:-1] == requested


def test_wheels_without_torch_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(make_venv, "_pip", lambda *_, **__: None)
    monkeypatch.setattr(make_venv, "has_torch", lambda: False)
    monkeypatch.chdir(ROOT)
    (tmp_path / "pip-1.0-py3-none-any.whl").write_text("")
    with pytest.raises(SystemExit, match="has no PyTorch to borrow"):
        make_venv.make(tmp_path / "venv", "", "", tmp_path)


def test_wheels_install_the_list(tmp_path, monkeypatch):
    requested = []
    monkeypatch.setattr(make_venv, "_pip", lambda _, arguments, **more: requested.append((arguments, more)))
    monkeypatch.setattr(make_venv, "has_torch", lambda: True)
    monkeypatch.setattr("importlib.metadata.version", lambda _: "9.9")
    monkeypatch.chdir(ROOT)
    (tmp_path / "pip-1.0-py3-none-any.whl").write_text("")
    make_venv.make(tmp_path / "venv", "", "", tmp_path)
    ((arguments, variables),) = requested  # and no NumPy: the borrowed one is all there is
    listed = tmp_path / f"requirements-{sys.version_info.major}.{sys.version_info.minor}.txt"
    assert {"--no-index", "--no-deps", str(tmp_path), str(listed)} <= set(arguments)
    assert variables == {"PYTHONPATH": str(tmp_path / "pip-1.0-py3-none-any.whl")}


def test_make_help_names_every_target_and_setting():
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for word in ("venv", "build", "track", "test", "test-slow", "lint", "docs", "RANGE", "ROUNDS", "TORCH_INDEX"):
        assert word in done.stdout


def test_make_notes_unknown_settings():
    settings = ["ROUNDS=3", "TORCH=", "JOBS=4", "BUDGET=9", "KV_ISA=avx2", "CXX=clang++", "CUDA_HOME=/opt/cuda"]
    done = subprocess.run(
        ["make", "help", "ROUND=3", "RANG=HEAD", *settings], cwd=ROOT, capture_output=True, text=True, check=True
    )
    notes = [line for line in done.stdout.splitlines() if line.startswith("note: ")]
    assert sorted(line.split()[1] for line in notes) == ["RANG", "ROUND"]


def test_make_passes_settings_unchanged():
    """RANGE and BENCH hold characters that a shell would take for its own."""
    fake = "import os; print(os.environ.get('KV_RANGE'), os.environ.get('KV_BENCH'), os.environ.get('KV_TIER'))"
    values = ["RANGE=HEAD~2..HEAD^!", "BENCH=mat.*'a b'|(x)"]
    done = subprocess.run(
        ["make", "-s", "-f", "Makefile", "-f", "-", "show", *values],
        cwd=ROOT,
        input=f'show:\n\t@{sys.executable} -c "{fake}"\n',
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "HEAD~2..HEAD^! mat.*'a b'|(x) None\n"


def test_make_venv_installs_torch_that_was_left_out(tmp_path):
    (tmp_path / "v").mkdir()

    def makes(*settings):
        done = subprocess.run(
            ["make", "venv", "PYTHON=true", f"VENV={tmp_path / 'v'}", *settings],
            cwd=ROOT,
            env={key: value for key, value in os.environ.items() if not key.startswith(("TORCH", "MAKE", "MFLAGS"))},
            capture_output=True,
            text=True,
            check=True,
        )
        return ["--all" in line for line in done.stdout.splitlines() if "make_venv.py" in line]

    assert makes("TORCH=") == [False, True]
    assert makes() == [False, True]
    assert makes() == []
    (tmp_path / "v" / ".up-to-date").unlink()  # of `make track` alone
    assert makes() == [True]


def test_measuring_waits_for_no_package_of_the_tests():
    for target, steps in (("track", [False]), ("report", [False]), ("build", [False]), ("test", [False, True])):
        done = subprocess.run(
            ["make", "-n", target, "VENV=/nowhere"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert ["--all" in line for line in done.stdout.splitlines() if "make_venv.py" in line] == steps, target


def test_make_venv_refuses_an_old_python(tmp_path):
    done = subprocess.run(
        ["make", "venv", "PYTHON=/bin/false", f"VENV={tmp_path / 'v'}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "error: /bin/false is no Python 3.11 or newer" in done.stderr


def test_nvcc_from_pip_is_a_command(tmp_path, monkeypatch):
    target = tmp_path / "a venv"
    (target / "bin").mkdir(parents=True)
    monkeypatch.chdir(ROOT)
    installed = []

    def install(python, arguments):
        installed.extend(arguments)
        nvcc = target / "lib" / "python3.12" / "site-packages" / "nvidia" / "cu13" / "bin" / "nvcc"
        nvcc.parent.mkdir(parents=True)
        nvcc.write_text('#!/bin/sh\necho nvcc "$@"\n')
        nvcc.chmod(0o755)

    monkeypatch.setattr(make_venv, "_pip", install)
    command = make_venv.add_nvcc(target)
    assert command == target / "bin" / "nvcc"
    assert subprocess.check_output([command, "--version", "a b"], text=True) == "nvcc --version a b\n"
    assert "nvidia-cuda-nvcc>=13" in installed and "asv>=0.6.6,<0.7" not in installed


def test_nvcc_in_another_place_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(make_venv, "_pip", lambda *_: None)
    with pytest.raises(SystemExit, match=r"no nvidia/cu\*/bin/nvcc"):
        make_venv.add_nvcc(tmp_path)
