"""What a node is, and what follows: which device is measured, and what is said about what is missing."""

import dataclasses
import json
import sys

import pytest

from kernel_velocity.errors import UsageError
from kernel_velocity.offline import facts
from kernel_velocity.offline.facts import Facts

NODE = Facts(
    python="3.12.3",
    torch="2.11.0+cu130",
    torch_cuda="13.0",
    gpus=("NVIDIA H200",),
    capability=(9, 0),
    reason=None,
    driver="580.1",
    numpy=True,
    toolchain="c++ 13; Build cuda_13.0",
    processor="Xeon",
    cores=16,
    kernel="6.1",
    libc="glibc 2.39",
)


def but(**fields):
    return dataclasses.replace(NODE, **fields)


@pytest.mark.parametrize(
    ("node", "asked", "device"),
    [
        (NODE, "auto", "cuda"),
        (NODE, "cuda", "cuda"),
        (NODE, "cpu", "cpu"),
        (but(driver=None, gpus=(), capability=None), "auto", "cpu"),
        (but(driver=None, gpus=(), capability=None, torch_cuda=None), "auto", "cpu"),
    ],
)
def test_the_device(node, asked, device):
    assert facts.device(node, asked) == device


@pytest.mark.parametrize("asked", ["auto", "cuda"])
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            {"torch": "2.13.0+cpu", "torch_cuda": None, "gpus": ()},
            "NVIDIA driver 580.1, but torch 2.13.0+cpu is a CPU build",
        ),
        (
            {"gpus": (), "reason": "The NVIDIA driver on your system is too old (found version 12020)."},
            "sees no usable GPU: The NVIDIA driver on your system is too old (found version 12020)",
        ),
        ({"gpus": ()}, "sees no usable GPU: CUDA reports none"),
        ({"reason": "no kernel image is available for execution on the device"}, "no kernel image is available"),
    ],
)
def test_a_gpu_that_torch_cannot_use_is_not_passed_over(fields, reason, asked):
    with pytest.raises(UsageError, match="--device cpu") as caught:
        facts.device(but(**fields), asked)
    assert reason in str(caught.value) and "--python" in str(caught.value) and "\n" not in str(caught.value)


def test_cuda_asked_for_where_there_is_no_driver():
    with pytest.raises(UsageError, match="no NVIDIA driver found, but torch"):
        facts.device(but(driver=None, gpus=(), capability=None), "cuda")


def test_what_is_missing_is_said():
    (line,) = facts.notes(but(toolchain="c++ 13; no nvcc"), "cuda")
    assert line.startswith("no nvcc") and "native CUDA kernels are n/a" in line
    assert facts.notes(NODE, "cuda") == []
    assert "no NumPy beside torch" in facts.notes(but(numpy=False), "cuda")[0]
    assert "nothing ran on a GPU" in facts.notes(but(driver=None), "cpu")[0]
    assert "nothing ran on the GPU" in facts.notes(NODE, "cpu")[0]


@pytest.mark.parametrize(
    ("capability", "architecture"),
    [((7, 5), "sm_75"), ((8, 0), None), ((8, 9), None), ((9, 0), None), ((10, 0), "sm_100"), ((12, 0), "sm_120")],
)
def test_a_gpu_that_our_machine_code_does_not_fit_gets_its_own(capability, architecture):
    wanted = {} if architecture is None else {"KV_CUDA_ARCHITECTURES": architecture}
    assert facts.settings(but(capability=capability), "cuda") == wanted


def test_the_gpu_is_hidden_where_the_cpu_is_measured():
    """`track` and the tests look for a GPU by themselves."""
    assert facts.settings(NODE, "cpu") == {"CUDA_VISIBLE_DEVICES": ""}


def test_what_makes_a_node_another_machine():
    assert NODE.machine("cuda") == "NVIDIA H200, Xeon" and NODE.machine("cpu") == "Xeon"


def test_this_machine_can_be_asked():
    torch = pytest.importorskip("torch", reason="the facts of a torch are asked")
    found = facts.gather()
    assert found.torch == torch.__version__
    assert found.cores >= 1 and found.processor and found.toolchain
    assert json.loads(found.as_json())["python"] == found.python


def test_a_torch_that_cannot_be_imported(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("raise ImportError('libcudart.so.13: cannot open shared object file')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"torch cannot be imported by .*libcudart.so.13: cannot open") as caught:
        facts.gather()
    assert sys.executable in str(caught.value) and "--python" in str(caught.value)
