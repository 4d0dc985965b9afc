"""The ceilings' own process: its environment, a file that appears whole, and what is missing, with the reason."""

import io
import json
import sys

import pytest

from kernel_velocity import documents
from kernel_velocity.machine.ceilings import Ceiling, asdict
from kernel_velocity.runner import stages
from kernel_velocity.runner.host import ALLOCATOR


@pytest.fixture
def interpreter(tmp_path, monkeypatch):
    """Put a shell script in the place of Python that runs a module. Return a function that writes it."""

    def plant(script):
        path = tmp_path / "python"
        path.write_text(f'#!/bin/sh\n[ "$1" = -m ] || exec {sys.executable} "$@"  # the watcher\n{script}\n')
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))

    return plant


@pytest.mark.parametrize(("threads", "used"), [("3", "3"), ("", "1")])
def test_module_runs_in_a_measuring_process(interpreter, monkeypatch, threads, used):
    monkeypatch.setenv("KV_THREADS", threads)
    monkeypatch.delenv("MALLOC_MMAP_MAX_", raising=False)
    interpreter('echo "$@"; echo "$MALLOC_MMAP_MAX_ $OMP_NUM_THREADS"; echo note >&2; echo USDT:noise >&2; exit 7')
    out, err = io.StringIO(), io.StringIO()
    assert stages.run("a.module", ["folder", "--bench=-x"], out, err) == 7
    assert out.getvalue().splitlines() == [
        "-m a.module folder --bench=-x",
        f"{ALLOCATOR['MALLOC_MMAP_MAX_']} {used}",
    ]
    assert err.getvalue() == "note\n"


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (NotImplementedError("no device"), 2, "error: --device cpu: no device; nothing was measured\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_missing_device_or_an_interrupt_is_no_crash(tmp_path, monkeypatch, error, status, line):
    def refuse(device, *, caches, loops):
        raise error

    monkeypatch.setattr(stages.ceilings, "measure", refuse)
    err = io.StringIO()
    assert (stages.main([str(tmp_path / "f.json"), "--device=cpu"], err), err.getvalue()) == (status, line)
    assert not (tmp_path / "f.json").exists()


def test_ceilings_are_written(tmp_path, monkeypatch):
    ceilings = [asdict(Ceiling(what="copy", unit="B/s", value=4.1e12, bytes=3 << 20, dtype="float32"))]
    document = {"format": 1, "ceilings": ceilings, "warnings": ["launch: spreads"]}
    monkeypatch.setattr(stages.ceilings, "measure", lambda device, *, caches, loops: document)
    path, err = tmp_path / "new" / "c.json", io.StringIO()
    assert stages.main([str(path), "--device=cpu"], err) == 0
    assert err.getvalue() == "warning: launch: spreads\n"
    assert documents.read_checked(path) == json.loads(json.dumps(document))
