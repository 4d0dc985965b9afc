"""The live measurements: a process of their own, files that appear whole, and what is missing, with the reason."""

import io
import json
import sys

import pytest

from kernel_velocity.errors import UsageError
from kernel_velocity.harness import documents
from kernel_velocity.harness.ceilings import Ceiling, asdict
from kernel_velocity.runner import live, stages
from kernel_velocity.runner.host import ALLOCATOR
from tests.package_graph import ROOT
from tests.suite import SUITE

EAGER = SUITE.series("matmul", "cpu", "eager", "float32-256x256x256")
ONLY_EAGER = r"matmul.*eager.*256"
ROW = {"kernel": "matmul", "implementation": "eager", "case": "float32-256x256x256", "bytes": 786432}
ROW |= {"harness": 1e-3, "others": {"graph": 1.01e-3}, "worst": 0.01, "agrees": True, "why": ""}


@pytest.fixture
def interpreter(tmp_path, monkeypatch):
    """Put a shell script in the place of Python that runs a module. Return a function that writes it."""

    def plant(script):
        path = tmp_path / "python"
        path.write_text(f'#!/bin/sh\n[ "$1" = -m ] || exec {sys.executable} "$@"  # the watcher\n{script}\n')
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))

    return plant


def measure(*argv):
    """Measure in this process. Return the status, and what was printed to both streams."""
    out = io.StringIO()
    status = stages.main([*map(str, argv), "--device=cpu"], out, out)
    return status, out.getvalue()


def test_few_series_are_native_ones_of_every_kernel(monkeypatch):
    monkeypatch.chdir(ROOT)
    few = stages.chosen("cuda", None, 6)
    assert {series.implementation for series in few} == {"native"}
    assert len({series.kernel for series in few[:5]}) == 5 and few[5].kernel == few[0].kernel
    assert len(stages.chosen("cuda", None, 999)) == len(stages.chosen("cuda", None))


@pytest.mark.parametrize(("threads", "used"), [("3", "3"), ("", "1")])
def test_stage_runs_in_a_measuring_process(interpreter, monkeypatch, threads, used):
    monkeypatch.setenv("KV_THREADS", threads)
    monkeypatch.delenv("MALLOC_MMAP_MAX_", raising=False)
    interpreter('echo "$@"; echo "$MALLOC_MMAP_MAX_ $OMP_NUM_THREADS"; echo note >&2; echo USDT:noise >&2; exit 7')
    out, err = io.StringIO(), io.StringIO()
    assert live.run("timers", ["file", "--bench=-x"], out, err) == 7
    wanted = "-m kernel_velocity.runner.stages timers file --bench=-x"
    assert out.getvalue().splitlines() == [wanted, f"{ALLOCATOR['MALLOC_MMAP_MAX_']} {used}"]
    assert err.getvalue() == "note\n"


def test_real_process_says_what_is_wrong_in_one_line(tmp_path):
    out, err = io.StringIO(), io.StringIO()
    assert live.run("timers", [str(tmp_path / "t.json"), "--device=cpu", "--bench=("], out, err) == 2
    assert err.getvalue().startswith("error: --bench '(': not a regular expression")
    assert err.getvalue().count("\n") == 1 and not (tmp_path / "t.json").exists()


def test_pattern_that_matches_nothing_is_told_what_there_is():
    with pytest.raises(UsageError, match=r"matches no core series on cuda; one of them is \w+\.Cuda\.time_hot"):
        stages.chosen("cuda", "no such kernel")
    assert stages.chosen("cpu", ONLY_EAGER) == [EAGER]


@pytest.mark.parametrize("stage", ["ceilings", "timers"])
@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (NotImplementedError("no device"), (2, "error: --device cpu: no device; nothing was measured\n")),
        (KeyboardInterrupt(), (130, "")),
    ],
)
def test_missing_device_or_an_interrupt_is_no_crash(tmp_path, monkeypatch, stage, error, ending):
    monkeypatch.setattr(stages, "prepare_torch", lambda _: iter_raise(error).__next__())
    monkeypatch.setattr(stages.ceilings, "measure", lambda *_, **__: iter_raise(error).__next__())
    assert measure(stage, tmp_path / "f.json") == ending


def iter_raise(error):
    raise error
    yield


def test_ceilings_are_written(tmp_path, monkeypatch):
    ceilings = [asdict(Ceiling(what="copy", unit="B/s", value=4.1e12, bytes=3 << 20, dtype="float32"))]
    document = {"format": 1, "ceilings": ceilings, "warnings": ["launch: spreads"]}
    monkeypatch.setattr(stages.ceilings, "measure", lambda device, *, caches: document)
    path = tmp_path / "new" / "c.json"
    assert measure("ceilings", path) == (0, "warning: launch: spreads\n")
    assert documents.read(path) == json.loads(json.dumps(document))


def test_timers_fail_without_a_time_not_by_disagreeing(tmp_path, monkeypatch):
    monkeypatch.setattr(stages, "prepare_torch", lambda device: None)
    path, rows = tmp_path / "t.json", [{**ROW, "agrees": False}]

    def compare(series, device, save):
        save({"half": True})
        assert documents.read(path) == {"half": True} and series == [EAGER]
        return {"rows": rows, "missing": {}}

    monkeypatch.setattr(stages.independent, "measure", compare)
    assert measure("timers", path, "--bench", ONLY_EAGER)[0] == 0
    assert documents.read(path) == {"rows": rows, "missing": {}}
    rows[0]["harness"] = None
    status, text = measure("timers", path, "--bench", ONLY_EAGER)
    assert status == 22 and "none of 1 series could be timed" in text
