"""The wheel: what is in it, how long it takes, and that equal sources give equal hashes. Each build takes seconds."""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import kernels

pytest.importorskip("scikit_build_core", reason="scikit-build-core is not installed: wheels cannot be built")
pytestmark = pytest.mark.slow

ROOT = Path(kernels.__file__).parents[1]
BUILT_FROM = ("CMakeLists.txt", "pyproject.toml", "README.md", "LICENSE", ".gitignore", "kernels")
# What a commit of the tracked history may cost to build, with CUDA, in processor time of compiling YARDSTICK before
# and after it: whoever shares the physical core stretches both, processor time too. It was 11, and 16 beside other
# work; with matmul's kernels for tensor cores and matmul_bias_relu it is 38 beside other work (46 and 1.2 s).
WHEEL_YARDSTICKS = 45.0
YARDSTICK = """
#include <iostream>
#include <map>
#include <regex>
int main() { std::map<std::string, std::regex> m; std::cout << std::regex_match("aa", m["a"]); }
"""


def copy_sources(to: Path) -> Path:
    to.mkdir()
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, to / name)
    return to


def build_wheel(source: Path, **environment: str) -> Path:
    output = source.with_name(source.name + "-wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(output), "."]
    done = subprocess.run(
        command, cwd=source, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = output.glob("*.whl")
    return wheel


def build_info(wheel: Path) -> dict:
    with zipfile.ZipFile(wheel) as archive:
        return json.loads(archive.read("kernels/_native/build-info.json"))


def code_hashes(wheel: Path) -> dict[str, str]:
    return {name: kernel["code_hash"] for name, kernel in build_info(wheel)["kernels"].items()}


def children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def yardstick(folder: Path) -> float:
    """Return the processor seconds of compiling a file that is always the same."""
    (folder / "yardstick.cpp").write_text(YARDSTICK)
    before = children_seconds()
    command = [os.environ.get("CXX", "c++"), "-std=c++17", "-O2", "-c", "yardstick.cpp", "-o", "yardstick.o"]
    subprocess.run(command, cwd=folder, check=True)
    return children_seconds() - before


def files_below(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


def test_the_wheel_is_complete_quick_and_leaves_the_source_alone(tmp_path):
    source = copy_sources(tmp_path / "a")
    # An in-place build of something else lies in the tree: the wheel must hold its own.
    (source / "kernels/_native/libkernel_velocity.so").write_bytes(b"stale")
    (source / "kernels/_native/build-info.json").write_text('{"kernels": {}}')
    before = files_below(source)
    first, before_cpu = yardstick(tmp_path), children_seconds()
    wheel = build_wheel(source)
    spent = children_seconds() - before_cpu
    assert spent < WHEEL_YARDSTICKS * (first + yardstick(tmp_path)) / 2
    assert wheel.name.startswith("kernel_velocity_kernels-")
    assert "-py3-none-" in wheel.name
    assert files_below(source) == before
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        assert archive.read("kernels/_native/libkernel_velocity.so")[:4] == b"\x7fELF"
    assert {f"kernels/{name}/__init__.py" for name in kernels.KERNELS} <= names
    assert {f"kernels/{name}/triton.py" for name in ("add_mul_exp", "matmul", "quantize_int8")} <= names
    assert not [name for name in names if name.endswith((".cpp", ".cu", ".h", "write_build_info.py"))]
    assert sorted(build_info(wheel)["kernels"]) == list(kernels.KERNELS)


def test_the_wheel_runs_from_its_own_folder_without_cuda(tmp_path):
    wheel = build_wheel(copy_sources(tmp_path / "a"), KV_CUDA="OFF")
    info = build_info(wheel)
    assert (info["cuda_compiler_version"], info["cuda_architectures"]) == (None, [])
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = "import kernels; print(kernels.__file__); print(kernels.cuda_status())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "site", capture_output=True, text=True, check=True
    )
    file, status = done.stdout.splitlines()
    assert Path(file).is_relative_to(tmp_path / "site")
    assert status.startswith("built without CUDA")


def test_the_code_hash_follows_the_code_and_nothing_else(tmp_path):
    first = code_hashes(build_wheel(copy_sources(tmp_path / "a")))
    elsewhere = copy_sources(tmp_path / "another folder")
    for name in kernels.KERNELS:
        for suffix in (".cpp", ".cu"):
            file = elsewhere / "kernels" / name / (name + suffix)
            if file.exists():
                file.write_text("// a comment that moves every line\n\n" + file.read_text())
    assert code_hashes(build_wheel(elsewhere)) == first

    changed = copy_sources(tmp_path / "c")
    file = changed / "kernels/quantize_int8/quantize_int8.cpp"
    assert "KV_ERROR_SIZE" in file.read_text()
    file.write_text(file.read_text().replace("KV_ERROR_SIZE", "KV_ERROR_MEMORY"))
    file = changed / "kernels/matmul/triton.py"
    file.write_text(file.read_text() + "\n")
    after = code_hashes(build_wheel(changed))
    assert {name for name in first if after[name] != first[name]} == {"quantize_int8", "matmul"}


@pytest.mark.skipif(not kernels.build_info()["cuda_architectures"], reason="built without CUDA kernels")
def test_the_code_hash_follows_the_cuda_code(tmp_path):
    first = code_hashes(build_wheel(copy_sources(tmp_path / "a")))
    changed = copy_sources(tmp_path / "b")
    file = changed / "kernels/add_mul_exp/add_mul_exp.cu"
    assert "* 2.0f" in file.read_text()
    file.write_text(file.read_text().replace("* 2.0f", "* 3.0f"))
    after = code_hashes(build_wheel(changed))
    assert {name for name in first if after[name] != first[name]} == {"add_mul_exp"}


def test_an_unknown_setting_is_one_clear_error(tmp_path):
    source = copy_sources(tmp_path / "a")
    done = subprocess.run(
        ["cmake", "-S", str(source), "-B", str(tmp_path / "build"), "-DKV_CUDA=maybe"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "KV_CUDA is 'maybe', wanted AUTO, ON or OFF" in done.stderr


def test_no_cuda_compiler_is_a_line_in_the_log(tmp_path):
    source = copy_sources(tmp_path / "a")
    command = ["cmake", "-S", str(source), "-B", str(tmp_path / "build"), "-DKV_CUDA=OFF"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "kernel-velocity: built without CUDA kernels (KV_CUDA=OFF)" in done.stdout


def test_the_compiler_that_cudacxx_names_is_the_one_that_compiles(tmp_path):
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("there is no nvcc to be named")
    named, mark = tmp_path / "my-nvcc", tmp_path / "used"
    named.write_text(f'#!/bin/sh\ntouch "{mark}"\nexec "{nvcc}" "$@"\n')
    named.chmod(0o755)
    build_wheel(copy_sources(tmp_path / "a"), CUDACXX=str(named))
    assert mark.exists()


def configure(source: Path, build: Path, *settings: str) -> dict[str, str]:
    """Run CMake without CUDA; return the facts that build-info.json is made from."""
    command = ["cmake", "-S", str(source), "-B", str(build), "-G", "Ninja", "-DKV_CUDA=OFF", *settings]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(line.split("=", 1) for line in (build / "build-facts.txt").read_text().splitlines())


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc to configure for")
def test_a_file_is_compiled_to_ptx_for_every_architecture_or_as_it_says(tmp_path):
    source = copy_sources(tmp_path / "a")
    silent = source / "kernels/add_mul_exp/add_mul_exp.cu"
    said, times = re.subn(r"^// One PTX from sm_80 on.*\n", "", silent.read_text(), flags=re.MULTILINE)
    assert times == 1
    silent.write_text(said)
    configure(source, tmp_path / "build", "-DKV_CUDA=ON", "-DKV_CUDA_ARCHITECTURES=sm_75;sm_80;sm_90a;sm_90")
    rules = (tmp_path / "build" / "build.ninja").read_text().split("\nbuild ")
    code = {
        name: re.findall(r"--generate-code=arch=compute_(\w+),code=\[([\w,]+)\]", rule)
        for rule in rules
        for name in re.findall(r"^\S+/(\w+)\.cu\.o: ", rule)
    }
    own = [("75", "sm_75"), ("80", "sm_80"), ("90a", "sm_90a"), ("90", "sm_90,compute_90")]
    shared = [("75", "sm_75"), ("80", "sm_80,sm_90,compute_80"), ("90a", "sm_90a")]
    assert code.pop("add_mul_exp") == own
    assert code == dict.fromkeys(
        ("matmul", "matmul_tensor", "matmul_bias_relu", "quantize_int8", "quantize_int8_rows"), shared
    )


def instructions(thing: Path) -> str:
    command = ["objdump", "-d", "--no-show-raw-insn", str(thing)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instruction sets are those of x86-64")
@pytest.mark.skipif(shutil.which("objdump") is None, reason="there is no objdump to look with")
def test_no_object_has_instructions_that_its_cpu_may_lack(tmp_path):
    facts = configure(copy_sources(tmp_path / "a"), tmp_path / "build")
    subprocess.run(["cmake", "--build", str(tmp_path / "build")], check=True, capture_output=True)
    objects = {
        name: [tmp_path / "build" / item for item in facts[name].split(";")] for name in facts if "objects" in name
    }
    assert list(objects) == ["objects", "objects_sse2", "objects_avx2", "objects_avx512"]
    vex, wide = re.compile(r"^\s[^\t]*\tv[a-z]", re.MULTILINE), re.compile(r"%zmm|%[xy]mm(1[6-9]|2\d|3[01])|%k[0-7]")
    for thing in (*objects["objects"], *objects["objects_sse2"]):
        assert not vex.search(instructions(thing)), thing
    for thing in objects["objects_avx2"]:
        assert "%ymm" in instructions(thing), thing
        assert not wide.search(instructions(thing)), thing
    for thing in objects["objects_avx512"]:
        assert "%zmm" in instructions(thing), thing


def test_a_build_for_one_cpu_has_one_path(tmp_path):
    wheel = build_wheel(copy_sources(tmp_path / "a"), KV_CUDA="OFF", KV_CXX_ARCHITECTURE="native")
    assert build_info(wheel)["isas"] == {"baseline": "-march=native"}
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = "import kernels; print(kernels.cpu_isa())"
    said = []
    for isa in ("baseline", "sse2"):
        environment = {**os.environ, "KV_ISA": isa}
        command = [sys.executable, "-c", code]
        done = subprocess.run(
            command, cwd=tmp_path / "site", env=environment, capture_output=True, text=True, check=False
        )
        said.append((done.stdout + done.stderr).strip().splitlines()[-1])
    assert said[0] == "baseline"
    assert said[1].endswith("KV_ISA: got 'sse2', wanted baseline: what this build has and this CPU runs")


def test_another_family_of_processors_has_one_path(tmp_path):
    # The compiler is this machine's: it is what CMake chooses that is looked at.
    facts = configure(
        copy_sources(tmp_path / "a"),
        tmp_path / "build",
        "-DCMAKE_SYSTEM_NAME=Linux",
        "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
    )
    assert (facts["isas"], facts["isa_flags_baseline"]) == ("baseline", "")
    # The streams that ceilings are measured with write as each family can
    assert {Path(item).parent.name for item in facts["objects_baseline"].split(";")} == {*kernels.KERNELS, "_native"}


OLD_CPU = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.kv_isa.restype = library.kv_isas.restype = ctypes.c_char_p
print(library.kv_isa(), library.kv_isas(), [library.kv_choose_isa(name) for name in (b"sse2", b"avx2", b"avx512")])
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instruction sets are those of x86-64")
@pytest.mark.parametrize(
    ("has", "isas", "chosen"),
    [("0", "sse2", [0, 6, 6]), ("(name[3] != '5')", "sse2 avx2", [0, 0, 6])],
    ids=["without AVX", "without AVX-512"],
)
def test_a_cpu_without_them_is_given_what_it_has(tmp_path, has, isas, chosen):
    library = tmp_path / "isa.so"
    compiler = [os.environ.get("CXX", "c++"), "-std=c++17", "-shared", "-fPIC", "-DKV_X86_ISAS"]
    pretend = f"-D__builtin_cpu_supports(text)=[](const char* name) {{ return name && {has}; }}(text)"
    subprocess.run([*compiler, pretend, str(ROOT / "kernels/_native/isa.cpp"), "-o", str(library)], check=True)
    for asked, best in ((None, isas.split()[-1]), ("avx512", None)):
        environment = {name: value for name, value in os.environ.items() if name != "KV_ISA"}
        environment |= {} if asked is None else {"KV_ISA": asked}
        command = [sys.executable, "-c", OLD_CPU, str(library)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == f"{None if best is None else best.encode()} {isas.encode()} {chosen}"
