"""What a node is: which device is measured, what is noted about what it lacks, what its stages need."""

import dataclasses
import sys

import pytest

from kernel_velocity.errors import UsageError
from kernel_velocity.runner import facts
from kernel_velocity.runner.facts import Facts

NODE = Facts(
    python="3.12.3",
    torch="2.11.0+cu130",
    torch_cuda="13.0",
    gpus=["NVIDIA H200"],
    capability=[9, 0],
    reason=None,
    driver="580.1",
    numpy=True,
    toolchain="c++ 13; Build cuda_13.0",
    processor="Xeon",
    cores=16,
    libc="glibc 2.39",
)
NO_GPU = {"driver": None, "gpus": [], "capability": None}


def but(**fields):
    return dataclasses.replace(NODE, **fields)


@pytest.mark.parametrize(
    ("node", "wanted", "device"),
    [(NODE, "auto", "cuda"), (NODE, "cuda", "cuda"), (NODE, "cpu", "cpu"), (but(**NO_GPU), "auto", "cpu")],
)
def test_device(node, wanted, device):
    assert facts.device(node, wanted) == device


@pytest.mark.parametrize(
    ("fields", "wanted", "reason"),
    [
        ({"torch_cuda": None, "gpus": []}, "auto", "NVIDIA driver 580.1, but torch 2.11.0+cu130 is a CPU build"),
        ({"gpus": [], "reason": "The driver is too old"}, "auto", "sees no usable GPU: The driver is too old"),
        ({"gpus": []}, "cuda", "sees no usable GPU: CUDA reports none"),
        ({"reason": "no kernel image is available"}, "auto", "no kernel image is available"),
        (NO_GPU, "cuda", "no NVIDIA driver found, but torch"),
    ],
)
def test_gpu_that_torch_cannot_use_is_not_passed_over(fields, wanted, reason):
    with pytest.raises(UsageError, match="--device cpu") as caught:
        facts.device(but(**fields), wanted)
    assert reason in str(caught.value) and "--python" in str(caught.value) and "\n" not in str(caught.value)


def test_what_the_node_lacks_is_noted():
    (line,) = facts.lacking(but(toolchain="c++ 13; no nvcc"), "cuda")
    assert line.startswith("no nvcc") and "native CUDA kernels are n/a" in line
    assert facts.lacking(NODE, "cuda") == []
    assert "no NumPy beside torch" in facts.lacking(but(numpy=False), "cuda")[0]
    assert "no NVIDIA driver: the CPU is measured, and no GPU" in facts.lacking(but(driver=None), "cpu")[0]
    assert "nothing ran on the GPU" in facts.lacking(NODE, "cpu")[0]


@pytest.mark.parametrize(
    ("capability", "architecture"),
    [([7, 5], "sm_75"), ([8, 0], None), ([9, 0], None), ([10, 0], "sm_100"), ([12, 0], "sm_120")],
)
def test_gpu_that_our_machine_code_does_not_fit_gets_its_own(capability, architecture):
    wanted = {} if architecture is None else {"KV_CUDA_ARCHITECTURES": architecture}
    assert facts.variables(but(capability=capability), "cuda") == wanted
    assert facts.variables(but(capability=capability), "cpu") == {"CUDA_VISIBLE_DEVICES": ""}


def test_this_machine_can_be_asked():
    torch = pytest.importorskip("torch", reason="the facts of a torch are asked")
    result = facts.gather()
    assert result.torch == torch.__version__
    assert result.cores >= 1 and result.processor and result.toolchain


def test_torch_that_cannot_be_imported_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("raise ImportError('libcudart.so.13: cannot open shared object file')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"torch cannot be imported by .*libcudart.so.13: cannot open") as caught:
        facts.gather()
    assert sys.executable in str(caught.value) and "--python" in str(caught.value)
