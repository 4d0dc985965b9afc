"""The wheel in an environment of its own, outside any checkout: what somebody gets who installs it."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# A package of the same name as the one under test here, as Hugging Face publishes one.
OTHER = "def get_kernel(name):\n    return name\n"
pytestmark = pytest.mark.slow
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")


def run(*command, status=0, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == status, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(*PIP, "wheel", "--no-deps", "-w", folder, ROOT / "tools")
    (path,) = folder.glob("kernel_velocity-*.whl")
    return path


@pytest.fixture
def environment(tmp_path, wheel):
    """Return the `bin` of an environment that has the wheel, and what it asks for, alone."""
    venv.EnvBuilder(symlinks=True, with_pip=False).create(tmp_path / "e")
    run(*PIP, "--python", tmp_path / "e/bin/python", "install", "--no-compile", wheel)
    return tmp_path / "e" / "bin"


def test_wheel_writes_a_site_of_results_elsewhere(environment, tree, tmp_path):
    elsewhere = {"cwd": tmp_path, "env": {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}}
    (site,) = (environment.parent / "lib").glob("python3*/site-packages")
    (site / "kernels").mkdir()
    (site / "kernels" / "__init__.py").write_text(OTHER)
    done = run(environment / "kv", "--help", **elsewhere)
    assert done.stdout.startswith("usage: kv ")
    where = ["--results", tree.results, "--repository", tree.repository, "--out", tmp_path / "site"]
    done = run(environment / "kv", "report", *where, **elsewhere)
    assert "12 series over 5 commits" in done.stdout
    assert "matmul" in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    script = "import kernels; print(kernels.get_kernel('other'))"
    assert run(environment / "python", "-c", script, **elsewhere).stdout == "other\n"
    run(*PIP, "--python", environment / "python", "uninstall", "-y", "scipy")
    lacking = run(environment / "kv", "report", *where, status=2, **elsewhere)
    assert lacking.stderr.startswith("error: kv report needs scipy, which is not installed: pip install 'scipy>=")
    assert lacking.stderr.count("\n") == 1
