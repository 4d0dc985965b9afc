"""PyTorch's settings are restored after an implementation, and its changes are noted."""

import os

import pytest

from kernel_velocity.compare import torch_state

torch = pytest.importorskip("torch", reason="these are PyTorch's settings")


def changes(do):
    """Return the notes on a change that ends with an error. Check that all settings are restored."""
    before = [read(torch) for read, _ in torch_state.TORCH_SETTINGS.values()]
    notes = []
    with pytest.raises(RuntimeError, match="done"), torch_state.restored(notes.append):
        do()
        raise RuntimeError("done")
    assert [read(torch) for read, _ in torch_state.TORCH_SETTINGS.values()] == before
    assert torch.utils._device.CURRENT_DEVICE is None  # no mode is left behind
    return notes


@pytest.mark.parametrize(
    ("do", "note"),
    [
        (lambda: torch.set_num_threads(torch.get_num_threads() + 3), "threads from"),
        (lambda: torch.set_default_dtype(torch.float64), "default dtype from float32 to float64"),
        (lambda: torch.set_default_device("meta"), "default device from cpu to meta"),
        (lambda: torch.set_grad_enabled(not torch.is_grad_enabled()), "grad mode from"),
        pytest.param(  # it imports PyTorch's compiler
            lambda: torch.use_deterministic_algorithms(True), "deterministic mode from 0 to 2", marks=pytest.mark.slow
        ),
        (lambda: torch.set_float32_matmul_precision("high"), "precision of float32 products from highest to high"),
        (lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", True), "precision of float32 products"),
        (lambda: torch.rand(3), "state of random numbers"),
    ],
)
def test_every_setting_is_restored_and_noted(do, note):
    (change,) = changes(do)
    assert change.startswith(note)


def test_no_change_is_no_note():
    assert changes(lambda: torch.ones(3).sum()) == []


def test_older_pytorch_is_restored(monkeypatch):
    monkeypatch.delattr(torch, "get_default_device")
    threads = torch.get_num_threads()
    assert changes(lambda: torch.set_num_threads(threads + 1)) == [f"threads from {threads} to {threads + 1}"]


def test_prepared_leaves_pytorch_as_it_was(monkeypatch):
    monkeypatch.setenv("KV_THREADS", "7")
    newer, before = torch.backends.cuda.matmul, torch.get_num_threads()
    torch.set_grad_enabled(True)
    had = getattr(newer, "fp32_precision", None)
    if had is not None:  # a precision that only the newer settings have
        newer.fp32_precision = "tf32"
    try:
        with torch_state.prepared("cpu", 2):
            assert (os.environ["KV_THREADS"], torch.get_num_threads(), torch.is_grad_enabled()) == ("2", 2, False)
            assert had is None or newer.fp32_precision == "ieee"
        assert (os.environ["KV_THREADS"], torch.get_num_threads(), torch.is_grad_enabled()) == ("7", before, True)
        assert had is None or newer.fp32_precision == "tf32"
    finally:
        if had is not None:
            newer.fp32_precision = had


@pytest.mark.parametrize(
    ("do", "override", "allowed"),
    [
        (lambda: None, None, False),
        (lambda: torch.set_float32_matmul_precision("medium"), None, True),
        (lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"), None, True),
        (lambda: setattr(torch.backends, "fp32_precision", "tf32"), None, True),
        (lambda: None, "1", True),
        (lambda: torch.set_float32_matmul_precision("high"), "0", False),
    ],
)
def test_tf32_is_allowed_as_pytorch_and_the_driver_say(do, override, allowed):
    with torch_state.restored(lambda _: None):
        torch.set_float32_matmul_precision("highest")
        if hasattr(torch.backends.cuda.matmul, "fp32_precision"):
            torch.backends.cuda.matmul.fp32_precision = "none"
        do()
        allows = torch_state.allows_tf32(torch, {} if override is None else {"NVIDIA_TF32_OVERRIDE": override})
    assert allows is allowed
