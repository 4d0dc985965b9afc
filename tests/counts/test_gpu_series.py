"""Figures of GPU code as series of asv, from a file of the build and from Triton, and in `kv gate --counts`."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_velocity import gpu_file, triton
from kernel_velocity.ab import count_gate
from kernel_velocity.names import FIGURES, MIX
from kernel_velocity.problem.problem import ProblemError
from kernel_velocity.suite.benchmark import SCALARS
from tests.counts.counting import gate, repository_of
from tests.counts.gpu import GPU_TOOLS, PATH, assembled, ptx, scale
from tests.kernels.test_triton import FOLDER, require_triton
from tests.suite.measuring import as_asv_runs, asv_environment, failure
from tests.suite.test_definition import define

__all__ = ["asv_environment"]
TOOLS = Path(count_gate.__file__).parents[2]
NUMBA = FOLDER.with_name("numba")
NUMBA_TOOLS = NUMBA / "nvidia" / "cu13" / "bin"
OURS = gpu_file("k.cubin", ["scale"], ["sm_80", "sm_90a"])


def tracked(module, name, index=0):
    return as_asv_runs("TrackBenchmark", module, f"track_{name}", index, "Cuda")


def test_series_of_gpu_code(asv_environment, monkeypatch):
    other = triton("m:f", {}, architectures=["gfx942"])
    module = define(monkeypatch, {}, gpu={"ours": OURS, "other": other}, devices=["cpu"])
    assert not hasattr(module.Cuda, "time_hot")
    registers, tensor = tracked(module, "registers"), tracked(module, "tensor_instructions")
    assert registers.params == [["'ours'", "'other'"], ["'sm_80'", "'sm_90a'", "'gfx942'"]]
    assert (registers.name, registers.unit) == ("twice.Cuda.track_registers", "registers of a thread")
    assert (registers.version, tensor.version) == ("1", "1-sass1")
    series = [*module.Cuda.figures_of_code()]
    assert ("registers", ("ours", "sm_90a"), "1") in series and ("registers", ("ours", "gfx942"), "1") not in series
    assert [params for name, params, _ in series if name == SCALARS] == [("other", "gfx942")]
    assert {name for name, *_ in series} == set(FIGURES["cuda"])
    assert not [name for name in dir(module.Cpu) if name.removeprefix("track_") in MIX]


def test_definition_without_gpu_code_has_none(monkeypatch):
    assert not [name for name in dir(define(monkeypatch, {}).Cuda) if name.removeprefix("track_") in FIGURES["cuda"]]


@pytest.mark.parametrize("gpu", [{"ours": "k.cubin"}, {"ours": gpu_file("k", architectures=["compute_80"])}])
def test_malformed_gpu_code_is_refused(monkeypatch, gpu):
    with pytest.raises(ProblemError, match=r"class Twice: gpu: ours: wanted gpu_file\(\.\.\.\), .* with architectures"):
        define(monkeypatch, {}, gpu=gpu)


@GPU_TOOLS
def test_figures_are_recorded(asv_environment, monkeypatch):
    monkeypatch.setenv("PATH", PATH)
    monkeypatch.setenv("KV_ARTEFACTS", str(asv_environment))
    assembled(ptx(scale()), "sm_80", asv_environment)
    module = define(monkeypatch, {}, gpu={"ours": OURS})
    assert tracked(module, "float32_instructions").do_run() == 8  # of 4 values
    assert tracked(module, "occupancy").do_run() == 64
    assert math.isnan(tracked(module, "registers", 1).do_run())
    assert "k.cubin has no code for sm_90a; it has sm_80" in failure(asv_environment)["error"]


# Two commits of a kernel ----------------------------------------------------------------------------------------------

DEFINITION = """
import kernel_velocity as kv

@kv.benchmark(cases=["float32-1k"], devices=["cpu"], gpu={
    "native": kv.gpu_file("k.cubin", architectures=["sm_80"]),
    "gone": kv.gpu_file("gone.cubin", architectures=["sm_80"]),
})
class Scale:
    def inputs(n):
        import torch
        return torch.randn(n)

    def reference(x):
        return 2 * x
"""
BUILD = "ptxas -o {out}/k.cubin --gpu-name=sm_80 k.ptx"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A repository of three commits: the second reads by narrower loads, the third spills and needs more registers."""
    folder = tmp_path_factory.mktemp("counted")
    kernels = scale(), scale(width=1, loads=4), scale(loads=12, registers=32, bounds=1024)
    return repository_of(folder, BUILD, "k.ptx", map(ptx, kernels), {"scale": DEFINITION})


@GPU_TOOLS
def test_gate_says_what_differs_in_gpu_code(repository):
    pytest.importorskip("torch", reason="kv gate wants PyTorch")
    narrower = gate(repository, "HEAD~2", "HEAD~1", PATH=PATH)
    assert narrower.returncode == 11, narrower.stdout + narrower.stderr
    lines = narrower.stdout.splitlines()
    assert any(
        line.startswith("scale native sm_80: ") and "LD.STRONG.SYS 0 -> 4" in line.replace("LDG", "LD")
        for line in lines
    )
    assert "n/a (both), the build of this commit made no gone.cubin: scale gone sm_80" in lines
    spilling = gate(
        repository, "HEAD~1", "HEAD", "--json", "gate.json", "--bench", "scale.Cuda.track_registers", PATH=PATH
    )
    assert spilling.returncode == 10, spilling.stdout + spilling.stderr
    changes = {row["figure"]: row for row in json.loads((repository / "gate.json").read_text())["changes"]}
    assert changes["spill_bytes"]["regression"] and changes["local_instructions"]["suspect"]
    assert not changes["registers"]["regression"] and not changes["registers"]["suspect"]


# Triton ---------------------------------------------------------------------------------------------------------------

KERNELS = """
import triton
import triton.language as tl

@triton.jit
def scale(x, out, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + at, 2.0 * tl.load(x + at, mask=at < n), mask=at < n)

@triton.jit
def product(a, b, c, k, tile: tl.constexpr):
    at = tl.arange(0, tile)
    total = tl.zeros((tile, tile), tl.float32)
    for step in range(0, k, tile):
        left = tl.load(a + at[:, None] * k + step + at[None, :])
        total = tl.dot(left, tl.load(b + (step + at[:, None]) * tile + at[None, :]), total)
    tl.store(c + at[:, None] * tile + at[None, :], total)
"""
COMPILE = """
import json, os, sys
from pathlib import Path
from kernel_velocity.counts.c_call import NotCountedError
from kernel_velocity.suite.definition import numba, triton

SCALE = {"signature": {"x": "*fp32", "out": "*fp32", "n": "i32"}, "constants": {"block": 1024}}
PRODUCT = {"signature": {"a": "*fp16", "b": "*fp16", "c": "*fp32", "k": "i32"}, "constants": {"tile": 64}}
aligned = {"aligned": ["x", "out", "n"]}
ARRAYS = "float32[::1], float32[::1], int32"
kernels = {
    "one": numba("ours:one", ARRAYS, threads=256), "double": numba("ours:double", ARRAYS),
    "no": numba("ours:no", ARRAYS), "type": numba("ours:one", "floot"),
    "scale": triton("mine:scale", **SCALE, **aligned), "unaligned": triton("mine:scale", **SCALE),
    "product": triton("mine:product", **PRODUCT, aligned=["a", "b", "c", "k"]),
    "gone": triton("mine:gone", {}), "other": triton("others:gone", {}),
    "types": triton("mine:scale", {"x": "*fp32"}), "odd": triton("mine:scale", SCALE["signature"], {"block": 1000}),
}
for name in sys.argv[1].split(","):
    kernel, _, architecture = name.partition(" ")
    try:
        made = kernels[kernel].compiled(Path(), architecture, Path("cache"))
        print(json.dumps([made.figures, dict(made.details), dict(made.missing), dict(made.occupancies)]))
    except NotCountedError as error:
        print(json.dumps(str(error)))
"""


def compiled(folder, kernels, names, path=PATH, **variables):
    folder.mkdir(exist_ok=True)
    (folder / "mine.py").write_text(kernels)
    (folder / "ours.py").write_text(kernels)
    packages = [str(TOOLS), *(str(path) for path in (FOLDER, NUMBA) if path.is_dir())]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_")}
    environ |= {"PYTHONPATH": os.pathsep.join([str(folder), *packages]), "PATH": path, **variables}
    command = [sys.executable, "-W", "ignore", "-c", COMPILE, ",".join(names)]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(zip(names, map(json.loads, done.stdout.splitlines()), strict=True))


@GPU_TOOLS
def test_triton_kernels_for_gpus_that_are_not_here(tmp_path):
    require_triton()
    names = ["product sm_80", "product sm_90a", "product gfx942", "product gfx1201", "scale sm_90", "unaligned sm_90"]
    made = compiled(tmp_path, KERNELS, names)
    for name in names[:4]:
        figures, _, missing, _ = made[name]
        assert figures["tensor_instructions"] and figures["registers"] and not missing, name
        assert 0 < figures["loop_instructions"] < sum(figures[kind] for kind in MIX)
    assert any(name.startswith("tensor HGMMA.64x64x16.F32") for name in made["product sm_90a"][1])
    assert made["product gfx942"][0]["shared_bytes"] == 16384 and made["product gfx942"][0]["scalar_registers"]
    details = made["scale sm_90"][1], made["unaligned sm_90"][1]
    assert details[0]["global STG.128"] == 2 and "global STG.128" not in details[1]


@GPU_TOOLS
def test_triton_figures_follow_the_code_alone(tmp_path):
    require_triton()
    names = ["scale sm_80", "scale gfx942"]
    before = compiled(tmp_path / "before", KERNELS, names)
    variants = {
        "comment": KERNELS.replace("    at =", "    # a comment\n\n    at ="),
        "renamed": KERNELS.replace("at ", "place ").replace(" at", " place"),
        "again": KERNELS,
    }
    for name, text in variants.items():
        assert compiled(tmp_path / name, text, names) == before, name
    after = compiled(tmp_path / "other", KERNELS.replace("2.0 *", "2.0 + 3.0 *"), names)
    assert all(after[name] != before[name] for name in names)


@GPU_TOOLS
def test_triton_kernel_that_is_not_there(tmp_path):
    require_triton()
    wanted = {
        "gone sm_80": "mine of this commit has no gone; its kernels: product, scale",
        "other sm_80": "this commit has no others",
        "types sm_80": "mine:scale: types or constants of x, out, n, block are wanted (got x)",
        "odd sm_80": "mine:scale does not compile for sm_80: ",
    }
    made = compiled(tmp_path, KERNELS, [*wanted])
    assert {name: made[name][: len(words)] for name, words in wanted.items()} == wanted
    made = compiled(tmp_path, KERNELS, ["scale sm_80"], TRITON_INTERPRET="1")
    assert made["scale sm_80"].startswith("TRITON_INTERPRET is set")


def test_without_triton_the_install_is_named(tmp_path):
    made = compiled(tmp_path, KERNELS, ["scale sm_80"], PYTHONPATH=os.pathsep.join([str(tmp_path), str(TOOLS)]))
    assert made["scale sm_80"] == "triton is not installed: `pip install triton`"


# Numba ----------------------------------------------------------------------------------------------------------------

NUMBA_KERNELS = """
from numba import cuda

@cuda.jit
def one(x, out, n):
    at = cuda.grid(1)
    if at < n:
        out[at] = x[at] * x[at]

@cuda.jit
def double(x, out, n):
    at = cuda.grid(1)
    if at < n:
        out[at] = x[at] * 2.1
"""


@pytest.mark.skipif(not NUMBA.is_dir(), reason="no Numba: .ci/run puts it into .asv/numba")
@GPU_TOOLS
def test_numba_kernels_for_gpus_that_are_not_here(tmp_path):
    names = ["one sm_80", "one sm_90", "double sm_90", "no sm_80", "type sm_80", "one gfx942"]
    path = os.pathsep.join([str(NUMBA_TOOLS), PATH])
    made = compiled(tmp_path / "before", NUMBA_KERNELS, names, path)
    single, double = made["one sm_90"], made["double sm_90"]
    assert single[0]["float32_instructions"] == 1 and single[0]["float64_instructions"] == 0
    assert double[0]["float64_instructions"] == 1 and double[0]["conversion_instructions"] == 2  # 2.1 is a double
    assert single[3] == {"one": "64 of 64 warps"} and double[2]["occupancy"].startswith("double has no launch bounds")
    assert made["no sm_80"] == "ours of this commit has no no; its kernels: double, one"
    assert made["type sm_80"] == "ours:one does not compile for sm_80: name 'floot' is not defined"
    assert made["one gfx942"] == "Numba compiles for NVIDIA's GPUs, not for gfx942"
    renamed = NUMBA_KERNELS.replace("    at = ", "    # a comment\n    index = ").replace("[at]", "[index]")
    renamed = renamed.replace("at < n", "index < n")
    assert compiled(tmp_path / "after", renamed, names[:3], path) == {name: made[name] for name in names[:3]}


def test_without_numba_the_install_is_named(tmp_path):
    made = compiled(tmp_path, "", ["one sm_80"], PYTHONPATH=os.pathsep.join([str(tmp_path), str(TOOLS)]))
    assert made["one sm_80"] == "numba is not installed: `pip install numba-cuda[cu13]`"
