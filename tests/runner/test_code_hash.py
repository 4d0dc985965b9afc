"""Hashes of the machine code of a library."""

import json
import shutil
import subprocess

import pytest

from kernel_velocity.runner import fingerprint
from kernel_velocity.suite.config import OfKernel, Project

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None or shutil.which("objdump") is None, reason="no compiler")

HELPER = "static __attribute__((noinline)) float twice(float x) { return 2.5f * x; }\n"
KERNEL = "void scale(float* x, int n) { for (int i = 0; i < n; ++i) x[i] = twice(x[i]); }\n"
OTHER = "void other(float* x, int n) { for (int i = 0; i < n; ++i) x[i] += x[i]; }\n"
TABLE = "int table[] = {3, 4, 5};\n"
PROJECT = Project(kernels={name: OfKernel(symbols=(f"libk.so:{name}",)) for name in ("scale", "other")})


def hashes(folder, source, align=64):
    """Return the code hashes of a library that is built from C."""
    folder.mkdir(exist_ok=True)
    (folder.parent / "k.c").write_text(source)
    options = ["-O2", f"-falign-functions={align}", "-shared", "-fPIC", "-Wl,--build-id=none"]
    subprocess.run(["gcc", *options, "k.c", "-o", folder / "libk.so"], cwd=folder.parent, check=True)
    fingerprint.write_code_hashes(folder, PROJECT, ["scale", "other", "third"])
    kernels = json.loads((folder / "build-info.json").read_text())["kernels"]
    return {kernel: entry["code_hash"] for kernel, entry in kernels.items()}


@pytest.fixture
def before(tmp_path):
    return hashes(tmp_path / "before", HELPER + KERNEL + OTHER)


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        (f"// a comment\n\n{HELPER}{KERNEL}{OTHER}", set()),
        (HELPER + KERNEL + OTHER.replace("+= x[i]", "+= x[0]"), {"other", "third"}),
        (HELPER.replace("2.5f * x", "2.5f * x + x * x") + KERNEL + OTHER, {"scale", "third"}),
        (HELPER.replace("2.5f", "2.25f") + KERNEL + OTHER, {"scale", "other", "third"}),
        (HELPER + "int before(int x) { return x * x; }\n" + KERNEL + OTHER, {"third"}),
        (HELPER + KERNEL + OTHER + TABLE, {"scale", "other", "third"}),
    ],
    ids=["comment", "another function", "a function it calls", "a constant", "moved by whole lines", "a table"],
)
def test_hash_is_of_the_functions_that_a_kernel_reaches(tmp_path, before, source, changed):
    after = hashes(tmp_path / "after", source)
    assert {kernel for kernel in after if after[kernel] != before[kernel]} == changed


def test_placement_is_of_the_code_and_not_of_paths(tmp_path):
    """A library that names its folder has other bytes in another folder, and its code in the same place."""
    named, moved = 'const char folder[] = "{}";\n', "int before(int x) { return x * x; }\n"
    sources = {
        "here": named.format("here") + KERNEL,
        "next": named.format("next") + KERNEL,
        "moved": named.format("here") + moved + KERNEL,
    }
    for name, source in sources.items():
        hashes(tmp_path / name, HELPER + source)
    here, elsewhere, after = (fingerprint.placement(tmp_path / name) for name in sources)
    assert here == elsewhere != after
    (tmp_path / "here" / "libother.so").write_bytes(b"a text")
    assert fingerprint.placement(tmp_path / "here") == here
    assert fingerprint.placement(tmp_path / "nowhere") is None


def test_call_by_pointer_is_hashed_by_all_files(tmp_path):
    """What the kernel calls differs, and nothing that it names."""
    call = (
        "extern float (*call)(float);\nvoid scale(float* x, int n) { for (int i = 0; i < n; ++i) x[i] = call(x[i]); }\n"
    )
    tail = f"float (*call)(float) = twice;\n{OTHER}"
    before, after = (
        hashes(tmp_path / name, HELPER.replace("2.5f * x", body) + call + tail)
        for name, body in (("before", "x + x + x"), ("after", "x * x * x"))
    )
    assert before["scale"] != after["scale"] and before["other"] == after["other"]


def test_other_library_of_the_build_counts(tmp_path):
    before = hashes(tmp_path / "before", HELPER + KERNEL + OTHER)
    (tmp_path / "after").mkdir()
    (tmp_path / "after" / "libother.so").write_bytes(b"x")
    after = hashes(tmp_path / "after", HELPER + KERNEL + OTHER)
    assert before["scale"] != after["scale"]


def test_code_that_moved_within_a_cache_line_is_another(tmp_path):
    source = HELPER + KERNEL + OTHER
    before, after = (
        hashes(tmp_path / f"skip{skip}", f'asm(".text; .skip {skip}");\n{source}', align=16) for skip in (64, 80)
    )
    assert before["scale"] != after["scale"]


def test_build_that_describes_itself_is_left_alone(tmp_path):
    folder = tmp_path / "build" / "package"
    folder.mkdir(parents=True)
    (folder / "build-info.json").write_text("{}")
    fingerprint.write_code_hashes(tmp_path / "build", PROJECT, ["scale"])
    assert not (tmp_path / "build" / "build-info.json").exists()


def test_missing_symbols(tmp_path, before):
    project = Project(kernels={"scale": OfKernel(symbols=("libk.so:scale", "libk.so:gone"))})
    assert fingerprint.missing_symbols(tmp_path / "before", project) == ["libk.so:gone"]
