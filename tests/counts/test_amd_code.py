"""AMD's code objects, alone, in bundles and in libraries: figures as those of the assembly that they were made of."""

import os
import shutil
import struct
import subprocess
import sys

import pytest

from kernel_velocity.counts import amd_code
from kernel_velocity.counts.c_call import NotCountedError
from kernel_velocity.counts.gpu_sources import GpuFile
from kernel_velocity.names import MIX
from tests.counts.gpu_languages import TRITON
from tests.kernels.test_triton import require_triton

KERNEL = """
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def product(a, b, c, k, tile: tl.constexpr):
    at = tl.arange(0, tile)
    total = tl.zeros((tile, tile), tl.float32)
    for step in range(0, k, tile):
        left = tl.load(a + at[:, None] * k + step + at[None, :])
        total = tl.dot(left, tl.load(b + (step + at[:, None]) * tile + at[None, :]), total)
    tl.store(c + at[:, None] * tile + at[None, :], total)

types = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "k": "i32", "tile": "constexpr"}
for name in "gfx90a", "gfx942":
    asm = triton.compile(ASTSource(product, types, {(4,): 64}), target=GPUTarget("hip", name, 64)).asm
    open(f"{name}.hsaco", "wb").write(asm["hsaco"])
    open(f"{name}.s", "w").write(asm["amdgcn"])
"""


@pytest.fixture(scope="module")
def code(tmp_path_factory):
    """A folder with the kernel for two architectures, as a code object and as assembly."""
    require_triton()
    folder = tmp_path_factory.mktemp("amd")
    (folder / "kernel.py").write_text(KERNEL)
    variables = {"PYTHONPATH": str(TRITON), "TRITON_CACHE_DIR": str(folder / "cache"), "TRITON_INTERPRET": "0"}
    command = [sys.executable, "-W", "ignore", "kernel.py"]
    done = subprocess.run(command, cwd=folder, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def figures(folder, file, architecture="gfx90a", **options):
    return GpuFile(file, ["product"], [architecture], **options).compiled(folder, architecture, folder / "cache")


def bundle(*entries):
    """Return a bundle of (target, code), as clang-offload-bundler writes it."""
    head = 32 + sum(24 + len(target) for target, _ in entries)
    at, table, body = -(-head // 4096) * 4096, b"", b""
    for target, content in entries:
        table += struct.pack("<QQQ", at + len(body), len(content), len(target)) + target.encode()
        body += content
    return (b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries)) + table).ljust(at, b"\0") + body


def bundled(code):
    contents = {name: (code / f"{name}.hsaco").read_bytes() for name in ("gfx90a", "gfx942")}
    entries = [(f"hipv4-amdgcn-amd-amdhsa--{name}", content) for name, content in contents.items()]
    return bundle(("host-x86_64-unknown-linux-gnu-", b""), *entries)


@pytest.mark.skipif(shutil.which("llvm-objdump") is None, reason="no llvm-objdump: `apt-get install llvm`")
def test_code_object_has_the_figures_of_its_assembly(code):
    assembly, made = figures(code, "gfx90a.s"), figures(code, "gfx90a.hsaco")
    assert made == assembly
    assert made.figures["tensor_instructions"] == 8 and not made.missing
    assert 0 < made.figures["loop_instructions"] < sum(made.figures[name] for name in MIX) / 2
    assert made.occupancies == {"product": "16 of 32 warps, limited by registers"}
    (code / "k.co").write_bytes(bundled(code))
    assert figures(code, "k.co") == made
    if shutil.which("gcc"):
        source = f'.section .hip_fatbin,"a"\n.balign 4096\n.incbin "{code / "k.co"}"\n.incbin "{code / "k.co"}"\n'
        command = ["gcc", "-shared", "-x", "assembler", "-", "-o", str(code / "libk.so")]
        subprocess.run(command, input=source, text=True, check=True)
        both = figures(code, "libk.so")
        assert both.figures["registers"] == made.figures["registers"]
        assert both.figures["tensor_instructions"] == 16


def test_of_a_bundle_each_architecture_is_read(code):
    (code / "two.co").write_bytes(bundled(code))
    for name in ("gfx90a", "gfx942"):
        made = figures(code, "two.co", name).figures
        registers = figures(code, f"{name}.s", name).figures["registers"]
        assert (made["registers"], made["stack_bytes"]) == (registers, 0)


def test_dynamic_shared_memory_and_threads_count(code):
    made = figures(code, "gfx942.hsaco", "gfx942", shared=40_000, threads=512)
    assert (made.figures["shared_bytes"], made.figures["occupancy"]) == (40_000, 8)


def test_what_a_code_object_does_not_say_is_missing(code, tmp_path, monkeypatch):
    content = (code / "gfx90a.hsaco").read_bytes()
    (code / "spilling.hsaco").write_bytes(content.replace(b".vgpr_spill_count\0", b".vgpr_spill_count\7"))
    assert "spill_bytes" in figures(code, "spilling.hsaco").missing
    program = tmp_path / "llvm-objdump"
    program.write_text("#!/bin/sh\nprintf '\\t.long 0xd7  // 000000001600: D7\\n\\ts_endpgm // 000000001604: BF\\n'\n")
    program.chmod(0o755)
    monkeypatch.setattr(amd_code, "_objdump", lambda: str(program))
    made = figures(code, "gfx90a.hsaco")
    assert made.figures["registers"] and not set(made.figures) & set(MIX)
    assert made.missing["loop_instructions"].startswith("llvm-objdump does not know 1 of 2 instructions of product for")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda content: b"CCOB" + content[4:],
            "k.co: a compressed bundle of HIP: build it with --no-offload-compress",
        ),
        (lambda content: content[:40], "k.co: a damaged bundle of HIP"),
        (lambda content: content.replace(b"amdhsa.target", b"amdhsa.nothin"), "k.co: a code object without metadata"),
        (
            lambda content: content.replace(b"\xa7product", b"\xa7another"),
            "no GPU kernel product for gfx90a; it has an",
        ),
        (lambda content: content.replace(b"gfx90a", b"gfx908"), "k.co has no code for gfx90a; it has gfx908, gfx942"),
    ],
)
def test_bundle_that_is_not_read_is_named(code, change, words):
    (code / "k.co").write_bytes(change(bundled(code)))
    with pytest.raises(NotCountedError, match=words):
        figures(code, "k.co")
