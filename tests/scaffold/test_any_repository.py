"""A repository of somebody else, from `pip install` to the gate, as a user would type it."""

import os
import re
import subprocess
import sys
import sysconfig
import textwrap
import venv
from pathlib import Path

import pytest

from tests.kernels.test_triton import FOLDER as TRITON
from tests.kernels.test_triton import require_triton
from tests.machine.planted_limits import plant_measured_limits

pytestmark = pytest.mark.slow
pytest.importorskip("torch", reason="the references are PyTorch's")
pytest.importorskip("asv", reason="asv measures")

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tools"
PERSON = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
QUICK = ("--rounds", "2", "--iters", "20", "--no-roofline")
SETTINGS = {"KV_ROUNDS": "1", "KV_MACHINE": "box", "KV_PATIENCE": "0"}

MAKEFILE = "libnorm.so: norm.c\n\tcc -O2 -falign-functions=64 -shared -fPIC -o $@ norm.c -lm\n"
# `passes` sums of each row: other numbers of them are other machine code.
NORM = """
#include <math.h>
#include <stddef.h>
int rms_norm(float* restrict out, const float* restrict x, const float* restrict weight, int rows, int columns) {
    for (int row = 0; row < rows; ++row) {
        const float* from = x + (size_t)row * columns;
        volatile float square = 0;
        for (int pass = 0; pass < PASSES; ++pass) {
            float sum = 0;
            for (int i = 0; i < columns; ++i) sum += from[i] * from[i];
            square = sum;
        }
        const float scale = 1 / sqrtf(square / columns + 1e-5f);
        for (int i = 0; i < columns; ++i) out[(size_t)row * columns + i] = from[i] * scale * weight[i];
    }
    return 0;
}
"""
PAGE = (ROOT / "docs" / "tutorial" / "your-repository.md").read_text(encoding="utf-8")
BENCHMARK, SECTION = (re.search(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)[1] for kind in ("python", "toml"))
DOUBLING = """
import torch
import triton
import triton.language as tl


@triton.jit
def _double(x, out, n, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)


def double(x):
    out = torch.empty_like(x)
    _double[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), SIZE=256)
    return out
"""
DOUBLE = """
import torch
from kernel_velocity import benchmark


@benchmark(cases=["float32-1k"], devices=["cpu"])
class Double:
    def inputs(n):
        return torch.randn(n)

    def reference(x):
        return x + x

    def ours(x):
        from doubling import double

        return double(x)
"""


@pytest.fixture(scope="module")
def kv(tmp_path_factory):
    """Install the wheel in a fresh environment, which borrows this one's packages. Return its `kv`."""
    folder = tmp_path_factory.mktemp("fresh")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    build = [*pip, "wheel", "--no-deps", "-w", str(folder), str(TOOLS)]
    subprocess.run(build, check=True, cwd=folder)
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder / "venv")
    site = sysconfig.get_path("purelib", vars={"base": str(folder / "venv")})
    borrowed = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    if TRITON.is_dir():  # as a site folder, which measuring processes see
        (folder / "site-packages").symlink_to(TRITON)
        borrowed.append(str(folder / "site-packages"))
    Path(site, "borrowed.pth").write_text("".join(f"{path}\n" for path in borrowed))
    (wheel,) = folder.glob("*.whl")
    python = folder / "venv" / "bin" / "python"
    subprocess.run([*pip, "--python", str(python), "install", "--no-deps", str(wheel)], check=True)
    return folder / "venv" / "bin" / "kv"


class Repository:
    """A git repository, and what is typed in it."""

    def __init__(self, folder, kv):
        self.folder, self.kv = folder, kv
        folder.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *args):
        done = subprocess.run(
            ["git", *args], cwd=self.folder, env=os.environ | PERSON, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, message, **files):
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def run(self, *args, status=0, **variables):
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [str(self.kv), *args],
            cwd=self.folder,
            env=environ | PERSON | SETTINGS | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stdout
        return done.stdout


def norm(passes, comment=""):
    return f"#define PASSES {passes} {comment}\n{NORM}"


def test_c_library_with_a_makefile(tmp_path, kv):
    repository = Repository(tmp_path / "norms", kv)
    repository.commit("Begin", README="Norms")
    repository.commit("Add rms_norm", **{"norm.c": norm(10), "Makefile": MAKEFILE})
    slow = repository.commit("Sum twice more", **{"norm.c": norm(12)})
    last = repository.commit("Rename nothing", **{"norm.c": norm(12, "/* done */")})

    repository.run("init")
    (repository.folder / "benchmarks" / "example.py").unlink()
    (repository.folder / "benchmarks" / "rms_norm.py").write_text(BENCHMARK)
    assert all(line in (repository.folder / "kernel-velocity.toml").read_text() for line in SECTION.splitlines()[:2])
    (repository.folder / "kernel-velocity.toml").write_text(f'{SECTION}[kernels.gone]\nsymbols = ["libnorm.so:gone"]\n')
    assert len(BENCHMARK.strip().splitlines()) <= 15  # as the page promises

    text = repository.run("compare", "rms_norm", "--sizes", "16x256", "--implementations", "eager,native", *QUICK)
    assert "accuracy: 2 of 2 outputs right" in text
    text = repository.run("track", "--range", "HEAD", "--bench", "hot.*native.*16x256", "--no-ceilings")
    assert re.search(r"rms_norm\.Cpu native float32-16x256 +[\d.]+ [kMGT]FLOPS\n", text)
    why = "the code hash of gone covers the whole build: libnorm.so has no function gone"
    assert f"note: {last[:8]}: {why}" in text
    page = repository.folder / ".asv/html/kernel-velocity/kernel-rms_norm-Cpu.html"
    assert "norm.c" in page.read_text()

    bench = r"rms_norm.Cpu.time_hot\('native', 'float32-16x256'"
    text = repository.run("gate", slow, last, "--bench", bench)  # equal machine code is not measured
    assert "1 the same" in text


def test_python_package_with_triton(tmp_path, kv):
    require_triton()
    repository = Repository(tmp_path / "doubling", kv)
    project = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    project += '[project]\nname = "doubling"\nversion = "1"\n'
    repository.commit("Add double", **{"doubling/__init__.py": DOUBLING, "pyproject.toml": project})
    repository.run("init")
    plant_measured_limits(repository.folder)
    (repository.folder / "benchmarks" / "example.py").unlink()
    (repository.folder / "benchmarks" / "double.py").write_text(DOUBLE)
    text = repository.run("track", "--bench", "hot.*ours", "--no-ceilings", "--no-site", TRITON_INTERPRET="1")
    assert re.search(r"double\.Cpu ours float32-1k +[\d.]+ [mµn]s\n", text)


def test_build_that_leaves_nothing(tmp_path, kv):
    repository = Repository(tmp_path / "empty", kv)
    repository.commit("Add a Makefile", Makefile="all:\n\ttrue\n")
    repository.run("init")
    text = repository.run("track", status=22)
    assert "the build leaves nothing in {out}" in text
