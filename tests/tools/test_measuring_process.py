"""The process of a live command: its environment, and PyTorch left as it was."""

import os
import sys

import pytest

from tools import measuring_process


def test_the_command_starts_itself_with_the_measuring_environment(monkeypatch):
    started = []
    monkeypatch.setattr(os, "execve", lambda program, argv, environment: started.append((program, argv, environment)))
    monkeypatch.delenv("MALLOC_MMAP_MAX_", raising=False)
    measuring_process.restart("2")
    ((program, argv, environment),) = started
    assert (program, argv[1:]) == (sys.executable, sys.orig_argv[1:])
    assert (environment["MALLOC_MMAP_MAX_"], environment["OMP_NUM_THREADS"], environment["KV_THREADS"]) == (
        "0",
        "2",
        "2",
    )
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    measuring_process.restart("2")
    assert len(started) == 1  # it has it now
    assert not measuring_process.is_command()


def test_pytorch_is_left_as_it_was(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("KV_THREADS", "7")
    before = torch.get_num_threads()
    torch.set_grad_enabled(True)
    with measuring_process.prepared("cpu", 2):
        assert (os.environ["KV_THREADS"], torch.get_num_threads(), torch.is_grad_enabled()) == ("2", 2, False)
    assert (os.environ["KV_THREADS"], torch.get_num_threads(), torch.is_grad_enabled()) == ("7", before, True)
