"""What the lab measures in a process of its own: a trace that is there is not repeated, and what failed is named."""

import io
import json

import pytest

from kernel_velocity.harness import documents
from lab import stages

ONLY_EAGER = r"matmul.*eager.*256"


def measure(*argv):
    """Measure in this process. Return the status, and what was printed to both streams."""
    out = io.StringIO()
    status = stages.main([*map(str, argv), "--device=cpu"], out, out)
    return status, out.getvalue()


def trace(folder, *more):
    return measure("traces", folder, "--bench", "matmul.*256", *more)


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


def test_trace_that_is_there_is_not_repeated(recorded, tmp_path):
    assert trace(tmp_path, "--seconds", "0.25")[0] == 0
    assert documents.read(tmp_path / "native-cpu-2.json") == {"seconds": [0.25], "batch": 1}
    (tmp_path / "eager-cpu-1.json").write_text('{"seconds": [9]}')
    (tmp_path / "eager-cpu-2.json").write_text('{"half')
    assert trace(tmp_path) == (0, "eager-cpu-2.json: 1 samples of batch 1\n")
    assert json.loads((tmp_path / "eager-cpu-1.json").read_text()) == {"seconds": [9]}


def test_series_without_traces_are_named_and_cost_no_other(recorded, tmp_path):
    recorded |= {"compile": NotImplementedError("no compiler"), "eager": RuntimeError("illegal memory access")}
    status, text = trace(tmp_path)
    assert status == 20 and "1 series could not be traced, the first of them matmul.Cpu" in text
    assert ": n/a: no compiler\n" in text and ": failed: RuntimeError: illegal memory access\n" in text
    assert (tmp_path / "native-cpu-2.json").exists()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--seconds=nan"], "--seconds nan: wanted a time between 0 and an hour"),
        (["--bench=("], "--bench '(': not a regular expression"),
        (["--bench=no such"], "matches no core series on cpu; one of them is "),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path, arguments, line):
    status, text = measure("traces", tmp_path, *arguments)
    assert status == 2 and line in text


def test_real_trace(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="traces are of torch tensors")
    monkeypatch.delenv("ASV_ENV_DIR", raising=False)
    assert measure("traces", tmp_path, "--bench", ONLY_EAGER, "--seconds", "0.01")[0] == 0
    single = json.loads(next(tmp_path.glob("matmul-cpu-eager-*-single.json")).read_text())
    assert single["unit"] == "s" and len(single["seconds"]) >= 3
