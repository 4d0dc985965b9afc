"""What an implementation sets of PyTorch is put back and said, whatever it is."""

import pytest

from kernel_velocity.compare import process

torch = pytest.importorskip("torch", reason="these are PyTorch's settings")


def changes(do):
    """Return what is said of a change, after looking that nothing is left of it."""
    before = [setting.read(torch) for setting in process.SETTINGS]
    said = []
    with process.set_back(said.append):
        do()
    assert [setting.read(torch) for setting in process.SETTINGS] == before
    return said


@pytest.mark.parametrize(
    ("do", "said"),
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
        (lambda: torch.manual_seed(3), "state of random numbers"),
        (lambda: torch.rand(3), "state of random numbers"),
    ],
)
def test_each_setting_is_put_back_and_said(do, said):
    found = changes(do)
    assert len(found) == 1 and found[0].startswith(said)


def test_an_older_pytorch_has_fewer_settings(monkeypatch):
    monkeypatch.delattr(torch, "get_default_device")
    threads = torch.get_num_threads()
    assert changes(lambda: torch.set_num_threads(threads + 1)) == [f"threads from {threads} to {threads + 1}"]


def test_nothing_is_said_of_nothing():
    assert changes(lambda: torch.ones(3).sum()) == []


def test_it_is_put_back_after_an_error_too():
    before, said = torch.get_num_threads(), []
    with pytest.raises(RuntimeError), process.set_back(said.append):
        torch.set_num_threads(before + 1)
        raise RuntimeError
    assert (torch.get_num_threads(), said) == (before, [f"threads from {before} to {before + 1}"])


def test_the_cpu_as_default_device_leaves_no_mode_behind():
    with process.set_back(lambda _: None):
        torch.set_default_device("meta")
    assert torch.utils._device.CURRENT_DEVICE is None


@pytest.mark.parametrize(
    ("do", "override", "allowed"),
    [
        (lambda: None, None, False),
        (lambda: torch.set_float32_matmul_precision("high"), None, True),
        (lambda: torch.set_float32_matmul_precision("medium"), None, True),
        (lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", True), None, True),
        (lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"), None, True),
        (lambda: setattr(torch.backends, "fp32_precision", "tf32"), None, True),
        (lambda: None, "1", True),
        (lambda: torch.set_float32_matmul_precision("high"), "0", False),
    ],
)
def test_whether_products_may_be_taken_in_tf32(do, override, allowed):
    with process.set_back(lambda _: None):
        torch.set_float32_matmul_precision("highest")
        if hasattr(torch.backends.cuda.matmul, "fp32_precision"):
            torch.backends.cuda.matmul.fp32_precision = "none"
        do()
        found = process.allows_tf32(torch, {} if override is None else {"NVIDIA_TF32_OVERRIDE": override})
    assert found is allowed
