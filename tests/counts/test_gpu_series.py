"""Figures of GPU code as series of asv, from a file of the build and from Triton, and in `kv gate --counts`."""

import json
import math
from pathlib import Path

import pytest

from kernel_velocity import gpu_code, gpu_file
from kernel_velocity.ab import count_gate
from kernel_velocity.names import FIGURES, MIX
from kernel_velocity.problem.problem import ProblemError
from kernel_velocity.suite.benchmark import SCALARS
from tests.counts.counting import gate, repository_of
from tests.counts.gpu import GPU_TOOLS, PATH, assembled, ptx, scale
from tests.kernels.test_triton import FOLDER
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
    other = gpu_code(lambda _: b"", ["gfx942"])
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


@pytest.mark.parametrize(
    "gpu", [{"ours": "k.cubin"}, {"ours": gpu_file("k", architectures=["compute_80"])}, {"ours": gpu_code("k")}]
)
def test_malformed_gpu_code_is_refused(monkeypatch, gpu):
    with pytest.raises(
        ProblemError, match=r"class Twice: gpu: ours: wanted gpu_file\(\.\.\.\) or gpu_code\(.* with architectures"
    ):
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
