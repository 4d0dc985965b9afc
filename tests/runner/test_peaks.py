"""`kv peaks`: its table, and a measurement that is stored and read again."""

import io
import json
import os
import sys
from pathlib import Path

import pytest

from kernel_velocity import documents, lock
from kernel_velocity.documents import with_checksum
from kernel_velocity.errors import ResultsError, UsageError
from kernel_velocity.machine.ceilings import Ceiling, asdict
from kernel_velocity.machine.device_figures import device_id
from kernel_velocity.roofline import ceilings
from kernel_velocity.runner import asv, peaks
from kernel_velocity.runner.host import ALLOCATOR
from tests.commands import kv
from tests.golden import check_golden
from tests.machine.test_device_figures import a_machine, document
from tests.roofline.test_ceilings import record

GOLDEN = Path(__file__).parent / "golden"
MIB = 1 << 20


def session(raw, began=0.0):
    return ceilings.session_of(raw, began)


def on_an_h100():
    raw = document(a_machine(), device="cuda", caches={"L2": 50 * MIB})
    for ceiling in raw["ceilings"]:
        ceiling["value"] = ceiling["value"] and ceiling["value"] * (250 if ceiling["unit"] == "B/s" else 1)
        if ceiling["what"] == "matmul":
            ceiling["value"] = {"float32": 5.2e13, "tf32": 4.1e14, "bfloat16": 6.8e14}.get(ceiling["dtype"])
            ceiling["why"] = "" if ceiling["value"] else "not asked"
    return raw | {"name": "NVIDIA H100 80GB HBM3", "warnings": ["copy (67108864 bytes): underfed"]}


def test_table_of_a_cpu(accept):
    raw = document(a_machine())
    slower = document([*a_machine()[:-6]])
    check_golden(GOLDEN / "peaks_cpu.txt", ceilings.as_text(raw, [session(slower), session(raw)]), accept=accept)


def test_table_of_a_known_gpu(accept):
    raw = on_an_h100()
    check_golden(GOLDEN / "peaks_cuda.txt", ceilings.as_text(raw, [session(raw)]), accept=accept)


@pytest.fixture
def stage(monkeypatch):
    """Put a measuring process into place: what it writes, says and returns."""

    def install(raw=None, status=0, text=""):
        calls = []
        holders.clear()

        def run(module, argv, on_line):
            calls.append(argv[1:])
            holders.append(os.environ.get(lock.HOLDER))
            if raw is not None:
                Path(argv[0]).write_text(with_checksum(json.dumps(raw)))
            on_line(text)
            return status

        monkeypatch.setattr(asv, "run_measuring", run)
        return calls

    return install


holders = []  # of the clone's lock, while it was measured


def test_measurement_is_printed_stored_and_read(stage, tmp_path, monkeypatch):
    monkeypatch.delenv("KV_THREADS", raising=False)
    calls = stage(document(a_machine()))
    status, table, _ = kv("peaks", "--device=cpu", "--root", tmp_path)
    assert status == 0
    assert calls == [["--device=cpu"]]
    assert "DRAM triad bandwidth" in table and "upper quartile of 1 session" in table
    assert peaks.latest_roofs(tmp_path, "cpu").levels[-1].bandwidth == pytest.approx(12e9)
    assert peaks.latest_roofs(tmp_path, "cuda") is None


def test_roof_is_over_the_recorded_sessions_of_the_device(stage, tmp_path, monkeypatch):
    monkeypatch.delenv("KV_THREADS", raising=False)
    stage(document(a_machine()))
    record(tmp_path, "a-env", 4e9, {"peak_float32": 7e10, "threads": 1, "l2_size": None})
    record(tmp_path, "b-env", 4e9, {"peak_float32": 7e10, "threads": 1, "device_id": device_id("Another")})
    status, table, _ = kv("peaks", "--device=cpu", "--root", tmp_path)
    assert status == 0 and "Some device; the roof is the upper quartile of 2 sessions" in table


def test_measurement_holds_the_lock(stage, tmp_path, monkeypatch):
    monkeypatch.delenv(lock.HOLDER, raising=False)
    calls = stage(document(a_machine()))
    assert kv("peaks", "--device=cpu", "--root", tmp_path)[0] == 0
    assert holders == [str(os.getpid())]
    assert lock.HOLDER not in os.environ
    with lock.held(tmp_path):
        monkeypatch.delenv(lock.HOLDER)
        status, out, err = kv("peaks", "--device=cpu", "--root", tmp_path)
        assert (status, out, len(calls)) == (2, "", 1)
        assert err.startswith("error: another run is measuring in this clone") and err.count("\n") == 1


def test_missing_device_is_one_line(stage, tmp_path):
    stage(status=2, text="error: --device cuda: PyTorch sees no CUDA device; nothing was measured")
    status, out, err = kv("peaks", "--device=cuda", "--root", tmp_path)
    assert (status, out) == (2, "")
    assert err.splitlines()[-1] == "error: --device cuda: PyTorch sees no CUDA device; nothing was measured"
    with pytest.raises(UsageError, match="sees no CUDA device"):
        peaks.measure_roofs("cuda")


def test_crash_of_the_measuring_process_is_reported(stage):
    stage(status=-9, text="Fatal Python error: Segmentation fault")
    with pytest.raises(ResultsError, match="status -9: Fatal Python error: Segmentation fault"):
        peaks.measure_document("cpu")


@pytest.mark.parametrize(
    ("amount", "text"),
    [(32768, "32 KiB"), (1023487, "999 KiB"), (1023488, "0.976 MiB"), (1048000, "0.999 MiB"), (1 << 20, "1 MiB")],
)
def test_size_has_three_digits_and_no_exponent(amount, text):
    assert ceilings.size_text(amount) == text


# The process that measures ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("threads", "used"), [("3", "3"), ("", "1")])
def test_module_runs_in_a_measuring_process(tmp_path, monkeypatch, threads, used):
    path, lines = tmp_path / "python", []
    script = 'echo "$@"; echo "$MALLOC_MMAP_MAX_ $OMP_NUM_THREADS"; echo note >&2; echo USDT:noise >&2; exit 7'
    path.write_text(f'#!/bin/sh\n[ "$1" = -m ] || exec {sys.executable} "$@"  # the watcher\n{script}\n')
    path.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(path))
    monkeypatch.setenv("KV_THREADS", threads)
    monkeypatch.delenv("MALLOC_MMAP_MAX_", raising=False)
    assert asv.run_measuring("a.module", ["folder", "--bench=-x"], lines.append) == 7
    assert lines == ["-m a.module folder --bench=-x", f"{ALLOCATOR['MALLOC_MMAP_MAX_']} {used}", "note"]


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

    monkeypatch.setattr(peaks.measuring, "measure", refuse)
    err = io.StringIO()
    assert (peaks.main([str(tmp_path / "f.json"), "--device=cpu"], err), err.getvalue()) == (status, line)
    assert not (tmp_path / "f.json").exists()


def test_ceilings_are_written(tmp_path, monkeypatch):
    measured = [asdict(Ceiling(what="copy", unit="B/s", value=4.1e12, bytes=3 << 20, dtype="float32"))]
    document = {"format": 1, "ceilings": measured, "warnings": ["launch: spreads"]}
    monkeypatch.setattr(peaks.measuring, "measure", lambda device, *, caches, loops: document)
    path, err = tmp_path / "new" / "c.json", io.StringIO()
    assert peaks.main([str(path), "--device=cpu"], err) == 0
    assert err.getvalue() == "warning: launch: spreads\n"
    assert documents.read_checked(path) == json.loads(json.dumps(document))
