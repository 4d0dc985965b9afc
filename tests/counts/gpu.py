"""PTX that is assembled by the tools that Triton brings, or those of an installed toolkit, and files that hold it."""

import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tests.kernels.test_triton import FOLDER

TRITON_TOOLS = FOLDER / "triton" / "backends" / "nvidia" / "bin"
PATH = os.pathsep.join([str(TRITON_TOOLS), os.environ.get("PATH", os.defpath)])
HAS_TOOLS = all(shutil.which(name, path=PATH) for name in ("ptxas", "nvdisasm"))
GPU_TOOLS = pytest.mark.skipif(not HAS_TOOLS, reason="no ptxas and nvdisasm: Triton brings them (tests/kernels)")
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def scale(name="scale", *, width=4, bounds=256, loads=1, registers=0, type_="f32"):
    """Return a kernel in PTX that reads values in vectors, all before it uses the first, in a loop."""
    limit = f".maxnreg {registers}" if registers else ""
    names = [[f"%f{load * width + lane}" for lane in range(width)] for load in range(loads)]
    vector = {1: "", 2: ".v2", 4: ".v4"}[width]
    read = [f"ld.volatile.global{vector}.{type_} {{{', '.join(of)}}}, [%rd1+{16 * n}];" for n, of in enumerate(names)]
    read = [line.replace("{", "").replace("}", "") if width == 1 else line for line in read]
    factor = {"f32": "0f40000000", "f64": "0d4000000000000000"}[type_]
    values = [value for of in names for value in of]
    # The second pass begins with the last: all are held until then
    sums = [f"fma.rn.{type_} %sum, {name}, {factor}, %sum;" for name in (*values, *reversed(values))]
    body = "\n".join([*read, "bar.sync 0;", *sums])
    return f"""
.visible .entry {name}(.param .u64 p, .param .u32 n) .maxntid {bounds} {limit} {{
    .reg .{type_} %f<{width * loads}>; .reg .{type_} %sum; .reg .b64 %rd<2>; .reg .b32 %r<3>; .reg .pred %p;
    .shared .align 4 .b8 tile[1056];
    ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov.{type_} %sum, {factor};
again:
    {body}
    add.u32 %r1, %r1, -1; st.shared.u32 [tile], %r1; ld.volatile.shared.u32 %r2, [tile]; setp.ne.u32 %p, %r2, 0;
    @%p bra again;
    st.global.{type_} [%rd1], %sum;
    ret;
}}
"""


def ptx(*kernels, target="sm_80"):
    return HEAD.replace("sm_80", target) + "".join(kernels)


def assembled(text, architecture, folder):
    """Return a cubin, and what ptxas said of it."""
    (folder / "k.ptx").write_text(text)
    command = [shutil.which("ptxas", path=PATH), "-v", f"--gpu-name={architecture}", "-o", "k.cubin", "k.ptx"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return (folder / "k.cubin").read_bytes(), done.stderr


def fatbin(*entries):
    """Return a fatbin of (kind, architecture, content): kind 1 is PTX, 2 a cubin."""
    body = b""
    for kind, target, content in entries:
        padded = content + bytes(-len(content) % 8)
        body += struct.pack("<HHIQIIHHIIIQQQ", kind, 1, 64, len(padded), 0, 0, 0, 0, target, 0, 0, 0, 0, 0) + padded
    return b"\x50\xed\x55\xba" + struct.pack("<HHQ", 1, 16, len(body)) + body


def library(path: Path, content, *options):
    """Compile a library that has a fatbin, as nvcc leaves it."""
    path.with_suffix(".fatbin").write_bytes(content)
    source = f'.section .nv_fatbin,"a"\n.incbin "{path.with_suffix(".fatbin")}"\n'
    command = ["gcc", "-shared", "-x", "assembler", *options, "-", "-o", str(path)]
    subprocess.run(command, input=source, text=True, check=True)
    path.with_suffix(".fatbin").unlink()
