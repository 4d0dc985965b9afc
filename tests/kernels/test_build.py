"""The wheel: what is in it, and that equal sources give equal hashes. Each build takes seconds."""

from __future__ import annotations

import json
import os
import platform
import re
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
ONE_EACH = {"KV_CUDA_ARCHITECTURES": "sm_80", "KV_CXX_ARCHITECTURE": "native"}  # `make track` builds for all
NATIVE = {"KV_CUDA": "OFF", "KV_CXX_ARCHITECTURE": "native"}
BUILT_FROM = ("CMakeLists.txt", "pyproject.toml", "README.md", "LICENSE", ".gitignore", "kernels")


def copy_sources(to: Path) -> Path:
    to.mkdir()
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, to / name)
    return to


def quick_to_compile(source: Path) -> Path:
    """Leave one file of CUDA code: `make build` compiles the others, by the same rules."""
    for file in source.glob("kernels/*/*.cu"):
        if file.name != "add_mul_exp.cu":
            file.unlink()
    return source


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


def files_below(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The wheel of the sources as they are. Their folder is beside it."""
    source = quick_to_compile(copy_sources(tmp_path_factory.mktemp("built") / "a"))
    # An in-place build of something else lies in the tree: the wheel must hold its own.
    (source / "kernels/_native/libkernel_velocity.so").write_bytes(b"stale")
    (source / "kernels/_native/build-info.json").write_text('{"kernels": {}}')
    before = files_below(source)
    wheel = build_wheel(source, **ONE_EACH)
    assert files_below(source) == before
    return wheel


def test_wheel_is_complete(built):
    assert built.name.startswith("kernel_velocity_kernels-")
    assert "-py3-none-" in built.name
    with zipfile.ZipFile(built) as archive:
        names = set(archive.namelist())
        assert archive.read("kernels/_native/libkernel_velocity.so")[:4] == b"\x7fELF"
    assert {f"kernels/{name}/__init__.py" for name in kernels.KERNELS} <= names
    assert {f"kernels/{name}/triton.py" for name in ("add_mul_exp", "matmul", "quantize_int8")} <= names
    assert not [name for name in names if name.endswith((".cpp", ".cu", ".h", "write_build_info.py"))]
    assert sorted(build_info(built)["kernels"]) == list(kernels.KERNELS)


@pytest.mark.skipif(not kernels.build_info()["cuda_architectures"], reason="built without CUDA kernels")
def test_code_hash_follows_code_alone(built, tmp_path):
    """Neither the folder, nor a comment, nor the name of the CUDA compiler is code."""
    source, nvcc, mark = tmp_path / "another folder", tmp_path / "my-nvcc", tmp_path / "used"
    quick_to_compile(copy_sources(source))
    nvcc.write_text(f'#!/bin/sh\ntouch "{mark}"\nexec "{shutil.which("nvcc")}" "$@"\n')
    nvcc.chmod(0o755)
    for file in (*source.glob("kernels/*/*.cpp"), *source.glob("kernels/*/*.cu")):
        file.write_text("// a comment that moves every line\n\n" + file.read_text())
    for name, old, new in (
        ("quantize_int8/quantize_int8.cpp", "KV_ERROR_SIZE", "KV_ERROR_MEMORY"),
        ("add_mul_exp/add_mul_exp.cu", "* 2.0f", "* 3.0f"),
        ("matmul/triton.py", "\n", "\n\n"),
    ):
        text = (source / "kernels" / name).read_text()
        assert old in text
        (source / "kernels" / name).write_text(text.replace(old, new))
    first, after = code_hashes(built), code_hashes(build_wheel(source, **ONE_EACH, CUDACXX=str(nvcc)))
    assert {name for name in first if after[name] != first[name]} == {"quantize_int8", "add_mul_exp", "matmul"}
    assert mark.exists()


@pytest.fixture(scope="module")
def native(tmp_path_factory) -> Path:
    """The wheel for this CPU alone, without CUDA, of one kernel."""
    source = copy_sources(tmp_path_factory.mktemp("native") / "a")
    for name in set(kernels.KERNELS) - {"add_mul_exp"}:
        shutil.rmtree(source / "kernels" / name)
    return build_wheel(source, **NATIVE)


def test_unknown_setting_is_an_error(tmp_path):
    source = copy_sources(tmp_path / "a")
    done = subprocess.run(
        ["cmake", "-S", str(source), "-B", str(tmp_path / "build"), "-DKV_CUDA=maybe"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "KV_CUDA is 'maybe', wanted AUTO, ON or OFF" in done.stderr


def configure(source: Path, build: Path, *settings: str) -> dict[str, str]:
    """Run CMake without CUDA. Return the facts that build-info.json is made from."""
    command = ["cmake", "-S", str(source), "-B", str(build), "-G", "Ninja", "-DKV_CUDA=OFF", *settings]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    without_cuda = "kernel-velocity: built without CUDA kernels (KV_CUDA=OFF)" in done.stdout
    assert without_cuda == ("-DKV_CUDA=ON" not in settings)
    return dict(line.split("=", 1) for line in (build / "build-facts.txt").read_text().splitlines())


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc to configure for")
def test_ptx_is_for_every_architecture_or_as_the_file_says(tmp_path):
    source = copy_sources(tmp_path / "a")
    silent = source / "kernels/add_mul_exp/add_mul_exp.cu"
    marked, times = re.subn(r"^// One PTX from sm_80 on.*\n", "", silent.read_text(), flags=re.MULTILINE)
    assert times == 1
    silent.write_text(marked)
    configure(source, tmp_path / "build", "-DKV_CUDA=ON", "-DKV_CUDA_ARCHITECTURES=sm_75;sm_80;sm_90a;sm_90")
    rules = (tmp_path / "build" / "build.ninja").read_text().split("\nbuild ")
    code = {
        name: re.findall(r"--generate-code=arch=compute_(\w+),code=\[([\w,]+)\]", rule)
        for rule in rules
        for name in re.findall(r"^\S+/(\w+)\.cu\.o: ", rule)
    }
    targets = [("75", "sm_75"), ("80", "sm_80"), ("90a", "sm_90a"), ("90", "sm_90,compute_90")]
    shared = [("75", "sm_75"), ("80", "sm_80,sm_90,compute_80"), ("90a", "sm_90a")]
    assert code.pop("add_mul_exp") == targets
    products = ("matmul", "matmul_bias_relu")
    assert [code.pop(f"{name}_hopper") for name in products] == [[("90a", "sm_90a")]] * 2
    tensor = (f"{name}_tensor" for name in products)
    assert code == dict.fromkeys((*products, *tensor, "quantize_int8", "quantize_int8_rows"), shared)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc to configure for")
def test_build_without_sm_90_has_nothing_for_hopper(tmp_path):
    source = copy_sources(tmp_path / "a")
    facts = configure(source, tmp_path / "build", "-DKV_CUDA=ON", "-DKV_CUDA_ARCHITECTURES=sm_80")
    assert "matmul_tensor" in facts["objects"] and "_hopper" not in facts["objects"]
    assert "KV_SM_90A" not in (tmp_path / "build" / "build.ninja").read_text()


def instructions(path: Path) -> str:
    command = ["objdump", "-d", "--no-show-raw-insn", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instruction sets are those of x86-64")
@pytest.mark.skipif(shutil.which("objdump") is None, reason="there is no objdump to look with")
def test_objects_have_no_instructions_that_a_cpu_may_lack():
    """Those that `make build` compiled."""
    build = ROOT / "build"
    facts = dict(line.split("=", 1) for line in (build / "build-facts.txt").read_text().splitlines())
    objects = {name: [build / entry for entry in facts[name].split(";")] for name in facts if "objects" in name}
    assert list(objects) == ["objects", "objects_sse2", "objects_avx2", "objects_avx512"]
    vex, wide = re.compile(r"^\s[^\t]*\tv[a-z]", re.MULTILINE), re.compile(r"%zmm|%[xy]mm(1[6-9]|2\d|3[01])|%k[0-7]")
    for path in (*objects["objects"], *objects["objects_sse2"]):
        assert not vex.search(instructions(path)), path
    for path in objects["objects_avx2"]:
        assert "%ymm" in instructions(path), path
        assert not wide.search(instructions(path)), path
    for path in objects["objects_avx512"]:
        assert "%zmm" in instructions(path), path


def test_wheel_for_one_cpu_without_cuda(native, tmp_path):
    info = build_info(native)
    assert info["isas"] == {"baseline": "-march=native"}
    assert (info["cuda_compiler_version"], info["cuda_architectures"]) == (None, [])
    with zipfile.ZipFile(native) as archive:
        archive.extractall(tmp_path / "site")
    code = "import kernels; print(kernels.__file__); print(kernels.cuda_status()); print(kernels.cpu_isa())"
    command = [sys.executable, "-c", code]
    printed = {}
    for isa in ("baseline", "sse2"):
        environment = {**os.environ, "KV_ISA": isa}
        done = subprocess.run(
            command, cwd=tmp_path / "site", env=environment, capture_output=True, text=True, check=False
        )
        printed[isa] = (done.stdout + done.stderr).strip().splitlines()
    file, status, isa = printed["baseline"]
    assert Path(file).is_relative_to(tmp_path / "site")
    assert status.startswith("built without CUDA")
    assert isa == "baseline"
    wanted = "KV_ISA: got 'sse2', wanted baseline: what this build has and this CPU runs"
    assert printed["sse2"][-1].endswith(wanted)


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
def test_cpu_without_an_instruction_set(tmp_path, has, isas, chosen):
    library = tmp_path / "isa.so"
    compiler = [os.environ.get("CXX", "c++"), "-std=c++17", "-shared", "-fPIC", "-DKV_X86_ISAS"]
    pretend = f"-D__builtin_cpu_supports(text)=[](const char* name) {{ return name && {has}; }}(text)"
    subprocess.run([*compiler, pretend, str(ROOT / "kernels/_native/isa.cpp"), "-o", str(library)], check=True)
    for isa, best in ((None, isas.split()[-1]), ("avx512", None)):
        environment = {name: value for name, value in os.environ.items() if name != "KV_ISA"}
        environment |= {} if isa is None else {"KV_ISA": isa}
        command = [sys.executable, "-c", OLD_CPU, str(library)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == f"{None if best is None else best.encode()} {isas.encode()} {chosen}"


def test_other_processors_have_one_path(tmp_path):
    # The compiler is this machine's: it is what CMake chooses that is looked at.
    facts = configure(
        copy_sources(tmp_path / "a"),
        tmp_path / "build",
        "-DCMAKE_SYSTEM_NAME=Linux",
        "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
    )
    assert (facts["isas"], facts["isa_flags_baseline"]) == ("baseline", "")
    # The streams that ceilings are measured with write as each family can
    assert {Path(entry).parent.name for entry in facts["objects_baseline"].split(";")} == {*kernels.KERNELS, "_native"}
