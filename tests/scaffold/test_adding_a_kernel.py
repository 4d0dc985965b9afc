"""The page "Add a kernel" of docs, done to the letter in a clone: it ends with the kernel's trend on a dashboard."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import kernels
from kernel_velocity import lock
from tests.machine.planted_limits import plant_measured_limits

pytestmark = pytest.mark.slow
pytest.importorskip("torch", reason="the reference is PyTorch's")
pytest.importorskip("asv", reason="asv measures")

ROOT = Path(__file__).parents[2]
PERSON = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
# What the page's `make` targets run, here with this interpreter instead of .venv's, and little of it.
BUILD = [
    "cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release",
    "cmake --build build",
    "cmake --install build --prefix .",
]
TARGETS = {
    "make test": [
        *BUILD,
        f"{sys.executable} -m pytest -q -k my_op tests/kernels/test_my_op.py tests/benchmarks/test_problems.py",
    ],
    "make track": [f"{sys.executable} -m kernel_velocity track --no-ceilings"],
}
FEWER = {
    "KV_ROUNDS": "1",
    "KV_RANGE": "HEAD",
    "KV_BENCH": "my_op.*hot.*native.*1M",
    "KV_MACHINE": "box",
    "KV_PATIENCE": "0",
    "KV_CUDA": "OFF",  # compiling for it takes a minute: tests/scaffold/test_new.py compiles my_op.cu
    "KV_CXX_ARCHITECTURE": "native",
}


def blocks():
    """Return the page's code by language, in order, as one would type it."""
    text = (ROOT / "docs" / "tutorial" / "add-a-kernel.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```(\w+)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return {kind: [body for other, body in blocks if other == kind] for kind in ("sh", "python", "cpp")}


def clone(folder):
    """Clone the repository as it is in the working tree, changes included. One kernel is compiled in time."""
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    for name in set(kernels.KERNELS) - {"add_mul_exp"}:
        shutil.rmtree(folder / "kernels" / name)
    plant_measured_limits(folder)
    return folder


def shell(folder, line):
    """Run a line of the page, and return its output."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    settings = ("KV_", "ASV_")
    environment = {
        name: value for name, value in os.environ.items() if name == lock.LOCK_FOLDER or not name.startswith(settings)
    }
    printed = ""
    for command in TARGETS.get(line, [line.replace(".venv/bin/kv", f"{sys.executable} -m kernel_velocity")]):
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=folder,
            env={**environment, **PERSON, **FEWER, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}"
        printed += done.stdout
    return printed


def replace_line(path, pattern, text):
    """Put a line of the page in the place of the one line of a file that has the pattern."""
    lines = path.read_text().splitlines()
    (index,) = [number for number, line in enumerate(lines) if pattern in line]
    indent = lines[index][: len(lines[index]) - len(lines[index].lstrip())]
    lines[index] = indent + textwrap.dedent(text).strip()
    path.write_text("\n".join(lines) + "\n")


def test_the_steps_of_the_page_end_with_the_trend_on_a_page(tmp_path):
    code = blocks()
    (write, finish), (reference, devices), (body,) = code["sh"], code["python"], code["cpp"]
    folder = clone(tmp_path / "clone")
    shell(folder, write.strip())
    untouched = shell(folder, "git status --porcelain --untracked-files=all")

    # At once: tested, though there is nothing native to test yet.
    output = shell(folder, "make test")
    assert "kernels/my_op is not written for cpu yet: its SUPPORTS does not name it" in output

    replace_line(folder / "benchmarks/my_op.py", "return x * 2", reference)
    replace_line(folder / "kernels/my_op/my_op.cpp", "FILL IN", body)
    replace_line(folder / "kernels/my_op/__init__.py", '"devices": ', devices)
    output = [shell(folder, textwrap.dedent(line).strip()) for line in finish.strip().splitlines()]
    assert "not written for cpu" not in output[0]
    assert re.search(r"\d+ passed", output[0])

    assert [line for line in untouched.splitlines() if "my_op" in line]
    committed = shell(folder, "git show --name-only --format= HEAD").split()
    assert {name for name in committed if "my_op" in name} == {
        "benchmarks/my_op.py",
        *(f"kernels/my_op/{name}" for name in ("__init__.py", "my_op.cpp", "my_op.cu")),
        "tests/kernels/test_my_op.py",
    }
    (native,) = [line for line in output[-1].splitlines() if line.startswith("my_op.Cpu native float32-1M")]
    assert re.search(r" \d[\d.]* [kMGT]FLOPS$", native), output[-1]
    assert "Dashboard: file://" in output[-1]
    page = (folder / ".asv/html/kernel-velocity/kernel-my_op-Cpu.html").read_text()
    assert "Add my_op" in page
    assert "native" in page
