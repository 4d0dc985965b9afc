"""Hashes of what runs: of functions of a library, of kernels for GPUs, of whole builds."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_velocity.runner import code_identity
from kernel_velocity.suite.config import OfKernel, Project
from tests.kernels.test_triton import FOLDER as TRITON
from tests.kernels.test_triton import require_triton

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None or shutil.which("objdump") is None, reason="no compiler")

HELPER = "static __attribute__((noinline)) float twice(float x) { return 2.5f * x; }\n"
KERNEL = "void scale(float* x, int n) { for (int i = 0; i < n; ++i) x[i] = twice(x[i]); }\n"
OTHER = "void other(float* x, int n) { for (int i = 0; i < n; ++i) x[i] += x[i]; }\n"
TABLE = "int table[] = {3, 4, 5};\n"
PROJECT = Project(kernels={name: OfKernel(symbols=(f"libk.so:{name}",)) for name in ("scale", "other")})
OPTIONS = ("-O2", "-falign-functions=64", "-shared", "-fPIC", "-Wl,--build-id=none")


def entries(folder, source, *options, project=PROJECT):
    """Return what build-info.json says of the kernels of a library that is built from C."""
    folder.mkdir(exist_ok=True, parents=True)
    (folder.parent / "k.c").write_text(source)
    command = ["gcc", *OPTIONS, *options, "k.c", "-o", folder / "libk.so", "-lm"]
    subprocess.run(command, cwd=folder.parent, check=True)
    return described(folder, project)


def described(folder, project):
    code_identity.write_code_hashes(folder, project, [*project.kernels, "third"])
    return json.loads((folder / "build-info.json").read_text())["kernels"]


def hashes(folder, source, *options):
    return {kernel: entry["code_hash"] for kernel, entry in entries(folder, source, *options).items()}


@pytest.fixture
def before(tmp_path):
    return hashes(tmp_path / "before", HELPER + KERNEL + OTHER)


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        (f"// a comment\n\n{HELPER}{KERNEL}{OTHER}", set()),
        (HELPER + KERNEL + OTHER.replace("+= x[i]", "+= x[0]"), {"other", "third"}),
        (HELPER.replace("2.5f * x", "2.5f * x + x * x") + KERNEL + OTHER, {"scale", "third"}),
        (HELPER.replace("2.5f", "2.25f") + KERNEL + OTHER, {"scale", "third"}),
        (HELPER.replace("twice", "double_") + KERNEL.replace("twice", "double_") + OTHER, set()),
        (HELPER + "int before(int x) { return x * x; }\n" + KERNEL + OTHER, {"third"}),
        (HELPER + KERNEL + OTHER + TABLE, {"third"}),
    ],
    ids=["comment", "another function", "a callee", "a constant", "a name", "moved by whole lines", "a table"],
)
def test_hash_is_of_the_functions_that_a_kernel_reaches(tmp_path, before, source, changed):
    after = hashes(tmp_path / "after", source)
    assert {kernel for kernel in after if after[kernel] != before[kernel]} == changed


LIBRARY = """
#include <math.h>
#include <stdio.h>
#include <string.h>
static const int table[] = {3, 4, 5, 6, 7, 8, 9, 10};
static const int odd[] = {1, 3, 5, 7, 9, 11, 13, 15};
__attribute__((noinline)) void step(float* x) { x[0] *= 2; }
static int order(const void* a, const void* b) { return *(const int*)a - *(const int*)b; }
void qsort(void*, size_t, size_t, int (*)(const void*, const void*));
__attribute__((target_clones("avx2", "default"))) void clone(float* x, int n) { for (int i = 0; i < n; ++i) x[i] *= 3; }
void scale(int* x, float* y, int n) {
    memcpy(y, x, n * 4);
    for (int i = 0; i < n; ++i) y[i] = expf(y[i]) * table[x[i] & 7];
    switch (n) {
    case 0: step(y); puts("none of them"); break;
    case 1: y[1] = 3; break;
    case 2: y[2] = y[3]; step(y); break;
    case 3: printf("%d of them\\n", n); break;
    case 4: y[4] += y[5]; break;
    case 5: y[9] *= y[5]; break;
    }
    qsort(x, n, 4, order);
    clone(y, n);
}
void other(int* x, int n) { for (int i = 0; i < n; ++i) x[i] = odd[x[i] & 7]; puts("a text of another"); }
"""
VARIANTS = {"g, now": "-g -Wl,-z,now", "plt.sec, s": "-fcf-protection -s", "clones": "-O3 -fno-inline"}
EDITS = {
    "sibling": ("x[i] = odd", "x[i] -= odd"),
    "sibling's table": ("11, 13", "11, 14"),
    "sibling's text": ("of another", "of a third"),
    "constant": ("*= 3", "*= 5"),
    "table": ("8, 9, 10", "8, 9, 11"),
    "text": ("none of", "three of"),
    "short text": ("%d of", "%x of"),
    "callee": ("x[0] *= 2", "x[0] *= 3"),
    "function that is passed on": ("a - *(const int*)b", "a + *(const int*)b"),
    "case": ("y[4] += y[5]", "y[4] -= y[5]"),
    "cases": ("case 4: y", "case 6: y"),
    "other library": ("expf(y", "exp2f(y"),
}


@pytest.mark.parametrize(
    "options",
    [
        pytest.param("", id="plt"),
        pytest.param("-s -fno-plt", id="stripped"),
        *(pytest.param(options, marks=pytest.mark.slow, id=name) for name, options in VARIANTS.items()),
    ],
)
def test_hash_follows_what_a_function_of_a_library_reaches(tmp_path, options):
    """It calls other libraries through stubs, jumps through a table, and takes the address of a function."""
    builds = {edit: LIBRARY.replace(*texts) for edit, texts in EDITS.items()}
    before = entries(tmp_path / "before" / "out", LIBRARY, *options.split())
    assert "whole_build" not in before["scale"]
    same = set()
    for edit, source in builds.items():
        assert source != LIBRARY
        after = entries(tmp_path / edit / "out", source, *options.split())
        assert "whole_build" not in after["scale"]
        same |= {edit} if after["scale"] == before["scale"] else set()
    unknown_size = {"sibling's table"} if "-s" in options.split() else set()  # no symbol says where a table ends
    assert same - unknown_size == {"sibling", "sibling's text", "sibling's table"} - unknown_size


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
    here, elsewhere, after = (code_identity.placement(tmp_path / name) for name in sources)
    assert here == elsewhere != after
    (tmp_path / "here" / "libother.so").write_bytes(b"a text")
    assert code_identity.placement(tmp_path / "here") == here
    assert code_identity.placement(tmp_path / "nowhere") is None


CALL = "extern float (*call)(float);\nvoid scale(float* x, int n) { for (int i = 0; i < n; ++i) x[i] = call(x[i]); }\n"


def test_call_by_pointer_is_hashed_by_all_files(tmp_path):
    """What the kernel calls differs, and nothing that it names. The reason names the function."""
    before, after = (
        entries(tmp_path / name, HELPER.replace("2.5f * x", body) + CALL + f"float (*call)(float) = twice;\n{OTHER}")
        for name, body in (("before", "x + x + x"), ("after", "x * x * x"))
    )
    assert before["scale"]["code_hash"] == before["third"]["code_hash"] != after["scale"]["code_hash"]
    assert before["other"] == after["other"]
    (note,) = code_identity.notes({"kernels": before})
    assert note.startswith("the code hash of scale covers the whole build: libk.so: scale goes through a pointer (call")


@pytest.mark.parametrize(
    ("symbol", "reason"),
    [
        ("libk.so:gone", "libk.so has no function gone"),
        ("libgone.so:scale", "the build has no libgone.so"),
        ("k.txt:scale", "k.txt: no 64-bit little-endian ELF file"),
    ],
)
def test_symbol_that_is_not_there_is_a_note(tmp_path, symbol, reason):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "k.txt").write_text("a text")
    project = Project(kernels={"scale": OfKernel(symbols=(symbol,))})
    (note,) = code_identity.notes({"kernels": entries(tmp_path / "out", HELPER + KERNEL, project=project)})
    assert note == f"the code hash of scale covers the whole build: {reason}"


def test_whole_build_has_no_folders_notes_and_layout_of_python(tmp_path):
    """Debug information, a build id, the path of a folder of libraries and RECORD do not count."""
    for name, text in (("here", "def f(x):\n    return x\n"), ("there", "# a comment\ndef f( x ):\n    return x\n")):
        options = ("-g", f"-Wl,--build-id=0x{name.encode().hex()}", f"-Wl,-rpath,{tmp_path / name}")
        (tmp_path / name / "out" / "k-1.dist-info").mkdir(parents=True)
        (tmp_path / name / "out" / "k.py").write_text(text)
        (tmp_path / name / "out" / "k-1.dist-info" / "RECORD").write_text(name)
        entries(tmp_path / name / "out", HELPER + KERNEL + OTHER, *options)
    (here, there) = (
        json.loads((tmp_path / name / "out" / "build-info.json").read_text()) for name in ("here", "there")
    )
    assert here == there
    (tmp_path / "there" / "out" / "k.py").write_text("def f(x):\n    return -x\n")
    (tmp_path / "there" / "out" / "build-info.json").unlink()
    assert described(tmp_path / "there" / "out", PROJECT)["third"] != here["kernels"]["third"]


def test_other_library_of_the_build_counts(tmp_path):
    before = hashes(tmp_path / "before", HELPER + KERNEL + OTHER)
    (tmp_path / "after").mkdir()
    (tmp_path / "after" / "libother.so").write_bytes(b"x")
    after = hashes(tmp_path / "after", HELPER + KERNEL + OTHER)
    assert before["scale"] != after["scale"]


@pytest.mark.parametrize(
    ("source", "is_same"),
    [(HELPER + KERNEL + OTHER, False), ("void scale(float* x, int n) { x[n] *= 2; }\n" + OTHER, True)],
    ids=["a loop", "no loop"],
)
def test_loop_that_moved_within_a_cache_line_is_another_code(tmp_path, source, is_same):
    before, after = (
        hashes(tmp_path / f"skip{skip}", f'asm(".text; .skip {skip}");\n{source}', "-falign-functions=16")
        for skip in (64, 80)
    )
    assert (before["scale"] == after["scale"]) is is_same


def test_build_that_describes_itself_is_left_alone(tmp_path):
    folder = tmp_path / "build" / "package"
    folder.mkdir(parents=True)
    (folder / "build-info.json").write_text("{}")
    code_identity.write_code_hashes(tmp_path / "build", PROJECT, ["scale"])
    assert not (tmp_path / "build" / "build-info.json").exists()


# The table of the documentation ---------------------------------------------------------------------------------------

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "code-identity.md"
C = """
#include <math.h>
static __attribute__((noinline)) float twice(float x) { return expf(x) * 2.5f; }
void scale(float* x, int n) { for (int i = 0; i < n; ++i) x[i] = twice(x[i]) + 7.5f; }
void other(float* x, int n) { for (int i = 0; i < n; ++i) x[i] -= x[i] * 8; }
"""
CUDA = """
__device__ __noinline__ float twice(float x, int n) { for (int i = 0; i < n; ++i) x = x * 2.5f + 1; return x; }
namespace {
__global__ void first(float* x, int n) { x[threadIdx.x] = twice(x[threadIdx.x], n) / 3.0f + 7.5f; }
__global__ void second(float* x) { x[threadIdx.x] -= 8; }
}
extern "C" void scale(float* x, int n) { first<<<1, 256>>>(x, n); }
extern "C" void other(float* x) { second<<<1, 256>>>(x); }
"""
TRITON_KERNELS = """
import sys
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
@triton.jit
def twice(x):
    return x * 2.5
@triton.jit
def scale(x):
    tl.store(x + tl.arange(0, 256), twice(tl.load(x + tl.arange(0, 256))) + 7.5)
@triton.jit
def other(x):
    tl.store(x + tl.arange(0, 256), tl.load(x + tl.arange(0, 256)) - 8)
for kernel in (scale, other):
    source = ASTSource(kernel, {"x": "*fp32"})
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": int(sys.argv[1])})
    open(f"out/{kernel.__name__}.cubin", "wb").write(compiled.asm["cubin"])
"""
CPU_FLAGS = "-O2 -falign-functions=64 -fPIC -shared"
NVCC = "nvcc -O3 -Xcompiler -fPIC -shared -arch=sm_90 {flags} k.cu -o out/libk.so"
# Name of a row -> file, source, command, and flags of which the second are other ones
ROWS = {
    "gcc": ("k.c", C, f"gcc {CPU_FLAGS} {{flags}} k.c -o out/libk.so", ("", "-mfma")),
    "gcc for AArch64": ("k.c", C, f"aarch64-linux-gnu-gcc {CPU_FLAGS} {{flags}} k.c -o out/libk.so", ("", "-Os")),
    "clang": ("k.c", C, f"clang {CPU_FLAGS} {{flags}} k.c -o out/libk.so", ("", "-mfma")),
    "nvcc, static runtime": ("k.cu", CUDA, NVCC, ("", "-use_fast_math")),
    "nvcc, shared runtime": ("k.cu", CUDA, f"{NVCC} -cudart shared", ("", "-use_fast_math")),
    "nvcc -lineinfo": ("k.cu", CUDA, f"{NVCC} -lineinfo", ("", "-use_fast_math")),
    "nvcc -g": ("k.cu", CUDA, f"{NVCC} -g", ("", "-use_fast_math")),
    "Triton, compiled by the build": ("k.py", TRITON_KERNELS, f"{sys.executable} k.py {{flags}}", ("4", "8")),
}
ROWS |= {
    f"{name} -g": (file, source, f"{command} -g", flags)
    for name, (file, source, command, flags) in ROWS.items()
    if name in ("gcc", "clang")
}
# Rows of a compiler that has another row, which is looked at in full: of these, one cell of what differs
VARIED = {"gcc -g", "clang -g", "nvcc, shared runtime", "nvcc -lineinfo", "nvcc -g"}
COLUMNS = {
    "comment": lambda source, mark: f"{mark} a comment\n{source}",
    "touch": lambda source, mark: source,
    "another folder": lambda source, mark: source,
    "rebuild": lambda source, mark: source,
    "sibling's change": lambda source, mark: re.sub(r"\b8\b", "9", source, count=1),
    "constant": lambda source, mark: source.replace("7.5", "8.5"),
    "flag": lambda source, mark: source,
    "callee": lambda source, mark: source.replace("2.5", "3.5"),
}


def table_of_page():
    """Return row -> column -> what the page says."""
    head, _, *rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    names = [cell.strip() for cell in head.strip("|").split("|")][1:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {row[0]: dict(zip(names, row[1:], strict=True)) for row in cells}


def test_page_has_the_table_that_is_tested():
    assert {row: list(columns) for row, columns in table_of_page().items()} == {row: list(COLUMNS) for row in ROWS}


def built(folder, row, column, source):
    """Return what build-info.json says of a kernel after an edit of its source."""
    file, _, command, flags = ROWS[row]
    (folder / "out").mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(source)
    environ = {**os.environ, "PYTHONPATH": str(TRITON), "TRITON_CACHE_DIR": str(folder / "cache")}
    shutil.rmtree(folder / "cache", ignore_errors=True)
    command = command.format(flags=flags[column == "flag"])
    done = subprocess.run(command, shell=True, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    library = "scale.cubin" if file == "k.py" else "libk.so"
    for name in ("build-info.json", "other.cubin"):  # a cubin beside the kernel's is another file of the build
        (folder / "out" / name).unlink(missing_ok=True)
    return described(folder / "out", Project(kernels={"scale": OfKernel(symbols=(f"{library}:scale",))}))["scale"]


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_cells_of_the_table(tmp_path, row):
    file, source, command, _ = ROWS[row]
    if file == "k.py":
        require_triton()
    elif shutil.which(program := command.split()[0]) is None:
        pytest.fail(f"no {program}") if os.environ.get("CI") == "true" else pytest.skip(f"no {program}")
    before = built(tmp_path / "here", row, "", source)
    assert "whole_build" not in before
    cells, all_at_once = table_of_page()[row], source
    for column in (column for column, cell in cells.items() if cell == "same"):
        all_at_once = COLUMNS[column](all_at_once, "#" if file == "k.py" else "//")
    assert all_at_once.count("a comment") == 1 and built(tmp_path / "there", row, "", all_at_once) == before
    others = [column for column, cell in cells.items() if cell == "other"]
    for column in others[-1:] if row in VARIED else others:
        assert built(tmp_path / "here", row, column, COLUMNS[column](source, "")) != before, column
