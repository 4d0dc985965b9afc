"""PyTorch's profiler around an implementation, and the process that a profiler is put around."""

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from benchmarks.add_mul_exp import AddMulExp
from kernel_velocity.compare import nsight, profile
from kernel_velocity.errors import UsageError
from kernel_velocity.harness.implementations import Bound

torch = pytest.importorskip("torch", reason="what is profiled is PyTorch")


def bind_exp(_problem, _case, inputs):
    first = inputs[0]
    return Bound(lambda: torch.exp(first), lambda: None, lambda: None)


@pytest.fixture
def problem():
    found = AddMulExp()
    found.device = "cpu"
    return found


def test_the_table_and_the_trace(problem, tmp_path):
    case = problem.generate_test_cases()[0]["name"]
    found = profile.profile(problem, "eager", case, tmp_path / "new", bind=bind_exp, calls=4)
    assert found.trace == tmp_path / "new" / f"{problem.name}-cpu-{case}-eager.trace.json"
    events = json.loads(found.trace.read_text(encoding="utf-8"))["traceEvents"]
    assert sum(event.get("name") == "eager" and event.get("ph") == "X" for event in events) == 4
    operations = [event for event in events if event.get("name") == "aten::exp" and event.get("ph") == "X"]
    assert len(operations) == 4
    assert "aten::exp" in found.table
    assert found.text().startswith(f"eager on {case}, 4 calls; trace: ")
    assert [path.name for path in (tmp_path / "new").iterdir()] == [found.trace.name]


def test_a_call_that_the_profiler_does_not_see_has_a_line(tmp_path):
    trace = tmp_path / "a.trace.json"
    table = profile.profile_call(lambda: sum(range(1000)), device="cpu", trace=trace, name="native")
    assert "native" in table


def test_warm_up_is_not_profiled(tmp_path):
    calls = []
    profile.profile_call(lambda: calls.append(1), device="cpu", trace=tmp_path / "a.trace.json", calls=2)
    assert len(calls) == profile.WARM_UPS + 2


def test_a_name_with_a_slash_is_no_folder(problem, tmp_path):
    problem.name = "../up"
    case = problem.generate_test_cases()[0]["name"]
    found = profile.profile(problem, "a/b", case, tmp_path, bind=bind_exp, calls=1)
    assert found.trace.parent == tmp_path
    assert found.trace.name == f".._up-cpu-{case}-a_b.trace.json"


def test_what_cannot_be_profiled_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match="sees no CUDA device"):
        profile.profile_call(lambda: None, device="cuda", trace=tmp_path / "a.json")
    with pytest.raises(UsageError, match="at least 1"):
        profile.profile_call(lambda: None, device="cpu", trace=tmp_path / "a.json", calls=0)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UsageError, match="PyTorch is not installed"):
        profile.require_torch("cpu")


def test_on_a_gpu_its_activities_are_recorded(tmp_path, monkeypatch):
    profiler = pytest.importorskip("torch.profiler")
    seen = {}

    class Events:
        def table(self, **how):
            seen.update(how)
            return "table"

    class Recorder:
        def __init__(self, activities):
            seen["activities"] = activities

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def key_averages(self):
            return Events()

        def export_chrome_trace(self, path):
            Path(path).write_text("{}", encoding="utf-8")

    waits = []
    monkeypatch.setattr(profiler, "profile", Recorder)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waits.append(1))
    table = profile.profile_call(lambda: None, device="cuda", trace=tmp_path / "a.trace.json")
    assert table == "table"
    assert seen["activities"] == [profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA]
    assert seen["sort_by"] == "self_cuda_time_total"
    assert len(waits) == 2  # after the warm-up, and before the profiler ends


# The child process ---------------------------------------------------------------------------------------------------


@pytest.fixture
def loading(monkeypatch, problem):
    """A stand-in for the module that loads problems."""
    calls = []
    module = ModuleType("kernel_velocity.compare.problems.load")

    def bind(_problem, case, inputs):
        return SimpleNamespace(call=lambda: calls.append((case, len(inputs))))

    def load(what, device, solutions, dtype):
        assert (what, device, solutions, dtype) == ("add_mul_exp", "cpu", [Path("s.py")], "float32")
        return SimpleNamespace(problem=problem, implementations={"eager": bind})

    module.load = load
    monkeypatch.setitem(sys.modules, "kernel_velocity.compare.problems.load", module)
    return calls


def test_the_child_makes_the_calls(loading, problem):
    case = problem.generate_test_cases()[0]["name"]
    command = nsight.child_command("add_mul_exp", "eager", case, device="cpu", solutions=[Path("s.py")], calls=2)
    assert nsight.main(command[3:]) == 0
    assert len(loading) == profile.WARM_UPS + 2
    assert loading[0][0] == case


def test_the_child_says_what_it_does_not_have(loading, capsys):
    command = nsight.child_command("add_mul_exp", "cublas", "float32-500k", device="cpu", solutions=[Path("s.py")])
    assert nsight.main(command[3:]) == 2
    assert capsys.readouterr().err == "error: add_mul_exp has no cublas; there are eager\n"
    assert loading == []


def test_on_a_gpu_only_the_calls_are_between_start_and_stop(monkeypatch):
    events = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: events.append("wait"))
    monkeypatch.setattr(torch.cuda.profiler, "start", lambda: events.append("start"))
    monkeypatch.setattr(torch.cuda.profiler, "stop", lambda: events.append("stop"))
    nsight.make_calls(lambda: events.append("call"), "cuda", 2)
    assert events == ["call"] * profile.WARM_UPS + ["wait", "start", "call", "call", "wait", "stop"]
