"""The live stages' commands: their own process, files that appear whole, what is missing and why, what is printed."""

import argparse
import io
import json
import sys
from types import SimpleNamespace

import pytest

from kernel_velocity.errors import BenchmarkFailed, NothingMeasured, ResultsError, UsageError
from kernel_velocity.harness.ceilings import Ceiling, asdict
from kernel_velocity.offline import ceilings, timers, traces
from kernel_velocity.runner import live
from kernel_velocity.runner.host import ALLOCATOR
from tests.suite import SUITE

EAGER = SUITE.series("matmul", "cpu", "eager", "float32-256x256x256")
ONLY_EAGER = r"matmul.*eager.*256"


def parsed(stage, *argv):
    parser = argparse.ArgumentParser()
    stage.add_arguments(parser)
    return parser.parse_args([str(arg) for arg in argv])


@pytest.fixture
def interpreter(tmp_path, monkeypatch):
    """Put a shell script in the place of Python; return a function that writes it."""

    def plant(script):
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))

    return plant


@pytest.mark.parametrize(
    ("stage", "argv", "wanted"),
    [
        (ceilings, ("f.json", "--device", "cuda"), "-m kernel_velocity.runner.live ceilings f.json --device=cuda"),
        (
            traces,
            ("d", "--device", "cpu", "--seconds", "0.5", "--bench", "-x"),
            "-m kernel_velocity.runner.live traces d --seconds=0.5 --device=cpu --bench=-x",
        ),
        (timers, ("f.json", "--device", "cpu"), "-m kernel_velocity.runner.live timers f.json --device=cpu"),
    ],
)
def test_a_stage_runs_in_a_measuring_process(interpreter, monkeypatch, stage, argv, wanted):
    monkeypatch.setenv("KV_THREADS", "3")
    monkeypatch.delenv("MALLOC_MMAP_MAX_", raising=False)
    interpreter('echo "$@"; echo "$MALLOC_MMAP_MAX_ $OMP_NUM_THREADS"; echo note >&2; echo USDT:noise >&2; exit 7')
    out, err = io.StringIO(), io.StringIO()
    argv = [f"--bench={value}" if value == "-x" else value for value in argv if value != "--bench"]
    assert stage.run(parsed(stage, *argv), out, err) == 7
    assert out.getvalue().splitlines() == [wanted, f"{ALLOCATOR['MALLOC_MMAP_MAX_']} 3"]
    assert err.getvalue() == "note\n"


def test_a_stage_does_not_outlive_its_command(interpreter, monkeypatch, tmp_path):
    interpreter("echo $$; exec sleep 60")
    monkeypatch.setattr(live, "PATIENCE", 0.1)

    class Interrupted(io.StringIO):
        def write(self, text):
            (tmp_path / "pid").write_text(text)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        live.run("timers", [], Interrupted(), io.StringIO())
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        live.os.kill(pid, 0)


def test_the_real_process_says_what_is_wrong_in_one_line(tmp_path):
    out, err = io.StringIO(), io.StringIO()
    assert live.run("timers", [str(tmp_path / "t.json"), "--device=cpu", "--bench=("], out, err) == 2
    assert err.getvalue().startswith("error: --bench '(': not a regular expression")
    assert err.getvalue().count("\n") == 1
    assert not (tmp_path / "t.json").exists()


def test_a_pattern_that_matches_nothing_is_told_what_there_is():
    with pytest.raises(UsageError, match=r"matches no core series on cuda; one of them is \w+\.Cuda\.time_hot"):
        live.chosen("cuda", "no such kernel")
    assert live.chosen("cpu", ONLY_EAGER) == [EAGER]


@pytest.mark.parametrize("stage", ["ceilings", "timers"])
def test_a_device_that_is_not_there_is_no_crash(tmp_path, monkeypatch, stage):
    def absent(*_):
        raise NotImplementedError("PyTorch sees no CUDA device")

    monkeypatch.setattr(timers, "prepare_torch", absent)
    monkeypatch.setattr(ceilings.ceilings, "measure", absent)
    err = io.StringIO()
    assert live.main([stage, str(tmp_path / "f.json"), "--device", "cuda"], io.StringIO(), err) == 2
    assert err.getvalue() == "error: --device cuda: PyTorch sees no CUDA device; nothing was measured\n"


def test_an_interrupted_stage_ends_quietly(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ceilings.ceilings, "measure", interrupted)
    assert live.main(["ceilings", str(tmp_path / "f"), "--device", "cpu"], io.StringIO(), io.StringIO()) == 130


# ceilings -----------------------------------------------------------------------------------------------------------


def test_ceilings_are_written_and_printed(tmp_path, monkeypatch):
    found = [
        Ceiling(what="copy", unit="B/s", value=4.1e12, bytes=3 << 20, dtype="float32"),
        Ceiling(what="matmul", unit="FLOP/s", value=6.5e13, dtype="tf32"),
        Ceiling(what="matmul", unit="FLOP/s", value=9e14, dtype="int8"),
        Ceiling(what="matmul", unit="FLOP/s", value=None, dtype="float16", why="not here"),
        Ceiling(what="launch", unit="s", value=2e-6),
    ]
    document = {"format": 1, "ceilings": [asdict(each) for each in found], "warnings": ["launch: spreads"]}
    monkeypatch.setattr(ceilings.ceilings, "measure", lambda device: document)
    out, err = io.StringIO(), io.StringIO()
    path = tmp_path / "new" / "c.json"
    assert ceilings.measure(parsed(ceilings, path, "--device", "cpu"), out, err) == 0
    assert json.loads(path.read_text()) == json.loads(json.dumps(document))
    assert [line.split(maxsplit=1) for line in out.getvalue().splitlines()] == [
        ["copy", "3 MiB  4,100 GB/s"],
        ["matmul", "tf32  65,000 GFLOPS"],
        ["matmul", "int8  900,000 GOPS"],
        ["matmul", "float16  n/a: not here"],
        ["launch", "2.00 µs"],
    ]
    assert err.getvalue() == "warning: launch: spreads\n"


# traces -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def recorded(monkeypatch):
    """Series that record two traces each, or do what a test says; notes which were asked for."""
    asked, behaviour = [], {}

    def record(series, seconds, load):
        asked.append(series.name)
        for name in (f"{series.implementation}-cpu-1.json", f"{series.implementation}-cpu-2.json"):
            if load(name) is None:
                yield name, {"seconds": [seconds], "batch": 1}
            if series.implementation in behaviour:
                raise behaviour[series.implementation]

    monkeypatch.setattr(traces.traces, "record", record)
    return SimpleNamespace(asked=asked, behaviour=behaviour)


def trace(folder, *more):
    out = io.StringIO()
    args = parsed(traces, folder, "--device", "cpu", "--bench", "matmul.*256", *more)
    return traces.measure(args, out, io.StringIO()), out.getvalue()


def missing(folder):
    return {each["implementation"]: each for each in json.loads((folder / "missing.json").read_text())["missing"]}


def test_a_file_per_trace_and_nothing_missing(recorded, tmp_path):
    status, said = trace(tmp_path, "--seconds", "0.25")
    assert status == 0
    assert json.loads((tmp_path / "native-cpu-2.json").read_text()) == {"seconds": [0.25], "batch": 1}
    assert len(list(tmp_path.glob("*-cpu-*.json"))) == 6
    assert said.count("1 samples of batch 1") == 6
    assert missing(tmp_path) == {}
    assert json.loads((tmp_path / "started.json").read_text()) == {}
    assert not list(tmp_path.glob(".*"))  # no temporary file is left


def test_what_is_there_is_kept(recorded, tmp_path):
    trace(tmp_path)
    (tmp_path / "eager-cpu-1.json").write_text('{"seconds": [9]}')
    (tmp_path / "eager-cpu-2.json").unlink()
    _, said = trace(tmp_path)
    assert said.splitlines() == ["eager-cpu-2.json: 1 samples of batch 1"]
    assert json.loads((tmp_path / "eager-cpu-1.json").read_text()) == {"seconds": [9]}


def test_what_does_not_apply_is_listed_and_is_no_failure(recorded, tmp_path):
    recorded.behaviour["compile"] = NotImplementedError("no\ncompiler")
    assert trace(tmp_path)[0] == 0
    assert missing(tmp_path)["compile"]["why"] == "no compiler"
    assert missing(tmp_path)["compile"]["failed"] is False
    assert missing(tmp_path)["compile"]["kernel"] == "matmul"


def test_what_fails_is_listed_the_rest_is_traced_and_the_command_fails(recorded, tmp_path):
    recorded.behaviour["eager"] = RuntimeError("illegal memory access")
    with pytest.raises(BenchmarkFailed, match=r"1 series could not be traced, see .*missing\.json: matmul\.Cpu"):
        trace(tmp_path)
    assert missing(tmp_path)["eager"]["why"] == "RuntimeError: illegal memory access"
    assert missing(tmp_path)["eager"]["failed"] is True
    assert (tmp_path / "native-cpu-2.json").exists()
    recorded.behaviour.clear()
    assert trace(tmp_path)[0] == 0  # and it is tried again
    assert missing(tmp_path) == {}


def test_what_other_patterns_missed_stays(recorded, tmp_path):
    recorded.behaviour["eager"] = NotImplementedError("n/a")
    trace(tmp_path)
    recorded.behaviour.clear()
    traces.measure(parsed(traces, tmp_path, "--device", "cpu", "--bench", "matmul.*native.*256"), io.StringIO(), None)
    assert set(missing(tmp_path)) == {"eager"}


class DiedError(BaseException):
    """What no process can say: nothing after it runs."""


def test_a_series_that_takes_its_process_with_it_is_given_up(recorded, tmp_path):
    recorded.behaviour["eager"] = DiedError()
    for _ in range(traces.ATTEMPTS):
        (tmp_path / "eager-cpu-1.json").unlink(missing_ok=True)
        (tmp_path / "eager-cpu-1.json").write_text("{}")  # no progress: its first trace is there
        with pytest.raises(DiedError):
            trace(tmp_path)
    with pytest.raises(BenchmarkFailed):
        trace(tmp_path)
    assert "ended 3 times without a word" in missing(tmp_path)["eager"]["why"]
    assert (tmp_path / "native-cpu-2.json").exists()


def test_a_series_that_makes_progress_is_not_given_up(recorded, tmp_path):
    recorded.behaviour["eager"] = DiedError()
    for _ in range(traces.ATTEMPTS + 2):
        (tmp_path / "eager-cpu-1.json").unlink(missing_ok=True)
        with pytest.raises(DiedError):
            trace(tmp_path)


def test_an_interruption_is_no_attempt(recorded, tmp_path):
    recorded.behaviour["eager"] = KeyboardInterrupt()
    for _ in range(traces.ATTEMPTS + 2):
        (tmp_path / "eager-cpu-1.json").write_text("{}")
        with pytest.raises(KeyboardInterrupt):
            trace(tmp_path)


def test_a_file_that_is_no_json_is_named(tmp_path):
    (tmp_path / traces.STARTED).write_text('{"half')
    with pytest.raises(ResultsError, match=r"started\.json is not JSON .*: remove it"):
        trace(tmp_path)


def test_a_trace_that_is_no_json_is_named_and_not_taken_for_a_failed_series(recorded, tmp_path):
    (tmp_path / "eager-cpu-1.json").write_text('{"half')
    with pytest.raises(ResultsError, match=r"eager-cpu-1\.json is not JSON"):
        trace(tmp_path)


def test_no_series_at_all_is_nothing_measured(recorded, tmp_path):
    recorded.behaviour |= dict.fromkeys(("eager", "compile", "native"), NotImplementedError("no torch"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(traces.traces, "record", lambda *_: iter_raise(NotImplementedError("no torch")))
        with pytest.raises(NothingMeasured, match="no series applies here"):
            trace(tmp_path)
    assert set(missing(tmp_path)) == {"eager", "compile", "native"}


def iter_raise(error):
    raise error
    yield


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "4000"])
def test_a_time_that_makes_no_sense_is_refused(tmp_path, seconds):
    with pytest.raises(UsageError, match="--seconds"):
        traces.measure(parsed(traces, tmp_path, "--device", "cpu", f"--seconds={seconds}"), io.StringIO(), None)


def test_a_real_trace(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="traces are of torch tensors")
    monkeypatch.delenv("ASV_ENV_DIR", raising=False)
    args = parsed(traces, tmp_path, "--device", "cpu", "--bench", ONLY_EAGER, "--seconds", "0.01")
    assert traces.measure(args, io.StringIO(), io.StringIO()) == 0
    single = json.loads(next(tmp_path.glob("matmul-cpu-eager-*-single.json")).read_text())
    assert single["unit"] == "s"
    assert len(single["seconds"]) >= 3


# timers -------------------------------------------------------------------------------------------------------------


def made_row(**changes):
    row = {"kernel": "matmul", "implementation": "eager", "case": "float32-256x256x256", "bytes": 786432}
    row |= {"harness": 1e-3, "others": {"graph": 1.01e-3, "do_bench": None}, "worst": 0.01, "agrees": True, "why": ""}
    return row | changes


def test_a_table_for_reading():
    rows = [
        made_row(),
        made_row(implementation="native", worst=-0.2, agrees=False, why="graph differs by -20.0%"),
        made_row(worst=0.05, agrees=None),
        made_row(worst=None, agrees=None),
        made_row(harness=None, others={"graph": None, "do_bench": None}, worst=None, agrees=None, why="graph: n/a"),
    ]
    lines = list(timers.table({"rows": rows, "missing": {"do_bench": "Triton is not installed"}}))
    columns = [[cell for cell in line.split("  ") if cell] for line in lines]
    assert [cell.strip() for cell in columns[0]] == ["series", "harness", "graph", "do_bench", "worst", "verdict"]
    assert [cell.strip() for cell in columns[1]] == [
        "matmul eager float32-256x256x256", "1.00 ms", "1.01 ms", "-", "+1.0%", "agree",
    ]  # fmt: skip
    assert lines[2].endswith("-20.0%      DISAGREE  graph differs by -20.0%")
    assert lines[3].endswith("too noisy")
    assert lines[4].endswith("not compared")
    assert lines[5].endswith("not timed  graph: n/a")
    assert lines[6] == "do_bench: no value: Triton is not installed"


def test_disagreement_is_a_finding_and_no_time_at_all_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(timers, "prepare_torch", lambda device: None)
    documents = []

    def measure(series, device, save):
        save({"half": True})
        assert json.loads((tmp_path / "t.json").read_text()) == {"half": True}
        assert series == [EAGER]
        return documents[-1]

    monkeypatch.setattr(timers.independent, "measure", measure)
    args = parsed(timers, tmp_path / "t.json", "--device", "cpu", "--bench", ONLY_EAGER)
    documents.append({"rows": [made_row(agrees=False)], "missing": {}})
    assert timers.measure(args, io.StringIO(), io.StringIO()) == 0
    assert json.loads((tmp_path / "t.json").read_text()) == documents[-1]
    documents.append({"rows": [made_row(harness=None)], "missing": {}})
    with pytest.raises(NothingMeasured, match="none of 1 series could be timed"):
        timers.measure(args, io.StringIO(), io.StringIO())


def test_an_empty_number_of_threads_is_none(interpreter, monkeypatch):
    monkeypatch.setenv("KV_THREADS", "")
    interpreter('echo "$OMP_NUM_THREADS"')
    out = io.StringIO()
    assert live.run("timers", [], out, io.StringIO()) == 0
    assert out.getvalue() == "1\n"
