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
    assert live.run("traces", ["folder", "--bench=-x"], out, err) == 7
    wanted = "-m kernel_velocity.runner.stages traces folder --bench=-x"
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


# Traces --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def recorded(monkeypatch):
    """Series that record two traces each, or do what a test says between them."""
    behaviour = {}

    def record(series, seconds, load):
        for name in (f"{series.implementation}-cpu-1.json", f"{series.implementation}-cpu-2.json"):
            if load(name) is None:
                yield name, {"seconds": [seconds], "batch": 1}
            if series.implementation in behaviour:
                raise behaviour[series.implementation]

    monkeypatch.setattr(stages.traces, "record", record)
    return behaviour


def trace(folder, *more):
    return measure("traces", folder, "--bench", "matmul.*256", *more)


def missing(folder):
    return {load["implementation"]: load for load in json.loads((folder / "missing.json").read_text())["missing"]}


def test_trace_that_is_there_is_not_repeated(recorded, tmp_path):
    assert trace(tmp_path, "--seconds", "0.25")[0] == 0
    assert documents.read(tmp_path / "native-cpu-2.json") == {"seconds": [0.25], "batch": 1}
    assert len(list(tmp_path.glob("*-cpu-*.json"))) == 6 and missing(tmp_path) == {}
    (tmp_path / "eager-cpu-1.json").write_text('{"seconds": [9]}')
    (tmp_path / "eager-cpu-2.json").unlink()
    assert trace(tmp_path) == (0, "eager-cpu-2.json: 1 samples of batch 1\n")
    assert json.loads((tmp_path / "eager-cpu-1.json").read_text()) == {"seconds": [9]}


def test_series_without_traces_are_listed_and_cost_no_other(recorded, tmp_path):
    recorded |= {"compile": NotImplementedError("no\ncompiler"), "eager": RuntimeError("illegal memory access")}
    status, text = trace(tmp_path)
    assert status == 20 and "1 series could not be traced" in text
    assert (missing(tmp_path)["compile"]["why"], missing(tmp_path)["compile"]["failed"]) == ("no compiler", False)
    assert missing(tmp_path)["compile"]["kernel"] == "matmul"
    result = missing(tmp_path)["eager"]
    assert (result["why"], result["failed"]) == ("RuntimeError: illegal memory access", True)
    assert (tmp_path / "native-cpu-2.json").exists()
    recorded.clear()
    measure("traces", tmp_path, "--bench", "matmul.*native.*256")
    assert set(missing(tmp_path)) == {"compile", "eager"}  # what others missed stays
    assert trace(tmp_path)[0] == 0 and missing(tmp_path) == {}  # and they are tried again


class DiedError(BaseException):
    """What no process can say: nothing after it runs."""


def test_series_that_takes_its_process_with_it_is_given_up(recorded, tmp_path):
    recorded["eager"] = DiedError()
    for _ in range(stages.ATTEMPTS):
        with pytest.raises(DiedError):
            trace(tmp_path)
    status, _ = trace(tmp_path)
    assert status == 20 and "ended 3 times without a word" in missing(tmp_path)["eager"]["why"]
    assert (tmp_path / "native-cpu-2.json").exists()


def test_interrupted_trace_is_no_attempt(recorded, tmp_path):
    recorded["eager"] = KeyboardInterrupt()
    assert [trace(tmp_path)[0] for _ in range(stages.ATTEMPTS + 1)] == [130] * (stages.ATTEMPTS + 1)


@pytest.mark.parametrize("name", [stages.STARTED, "eager-cpu-1.json"])
def test_damaged_file_is_made_again(recorded, tmp_path, name):
    (tmp_path / name).write_text('{"half')
    assert trace(tmp_path)[0] == 0
    assert documents.read_checked(tmp_path / name)


def test_no_series_at_all_is_nothing_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(stages.traces, "record", lambda *_: iter_raise(NotImplementedError("no torch")))
    status, text = trace(tmp_path)
    assert status == 22 and "no series applies here" in text
    assert set(missing(tmp_path)) == {"eager", "compile", "native"}


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "4000"])
def test_time_that_makes_no_sense_is_refused(tmp_path, seconds):
    assert trace(tmp_path, f"--seconds={seconds}")[0] == 2


def test_real_trace(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="traces are of torch tensors")
    monkeypatch.delenv("ASV_ENV_DIR", raising=False)
    assert measure("traces", tmp_path, "--bench", ONLY_EAGER, "--seconds", "0.01")[0] == 0
    single = json.loads(next(tmp_path.glob("matmul-cpu-eager-*-single.json")).read_text())
    assert single["unit"] == "s" and len(single["seconds"]) >= 3
