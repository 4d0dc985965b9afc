"""The process of a live command: its environment, and PyTorch left as it was."""

import os
import sys

import pytest

from kernel_velocity.compare import process


def test_a_command_is_started_with_the_measuring_environment(monkeypatch):
    monkeypatch.delenv("MALLOC_MMAP_MAX_", raising=False)
    monkeypatch.setenv("SOME_VARIABLE", "kept")
    found = process.environment("2")
    names = ("MALLOC_MMAP_MAX_", "OMP_NUM_THREADS", "KV_THREADS", "SOME_VARIABLE")
    assert [found[name] for name in names] == ["0", "2", "2", "kept"]
    assert process.command() == [sys.executable, *sys.orig_argv[1:]]
    assert not process.is_command()


def test_pytorch_is_left_as_it_was(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("KV_THREADS", "7")
    before = torch.get_num_threads()
    torch.set_grad_enabled(True)
    with process.prepared("cpu", 2):
        assert (os.environ["KV_THREADS"], torch.get_num_threads(), torch.is_grad_enabled()) == ("2", 2, False)
    assert (os.environ["KV_THREADS"], torch.get_num_threads(), torch.is_grad_enabled()) == ("7", before, True)


def test_a_precision_that_only_pytorchs_newer_settings_have_is_left_as_it_was():
    torch = pytest.importorskip("torch")
    newer = torch.backends.cuda.matmul
    if not hasattr(newer, "fp32_precision"):
        pytest.skip("this PyTorch has the older setting only")
    was = newer.fp32_precision
    newer.fp32_precision = "tf32"
    try:
        with process.prepared("cpu", 1):
            assert newer.fp32_precision == "ieee"
        assert newer.fp32_precision == "tf32"
    finally:
        newer.fp32_precision = was
